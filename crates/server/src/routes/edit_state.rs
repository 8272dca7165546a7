//! `PUT /api/threads/{thread}/state`: replaces the state of a thread. A run that waits there continues with it.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use doran_agents::Agent;
use doran_engine::EngineError;
use doran_engine::runtime::StateEdit;
use doran_engine::store::ThreadRow;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::threads::{agent_of_thread, load_thread_row};
use super::{ApiRoute, json_response, path_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::openapi::{Operation, OperationTag};
use crate::request_body;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::put(
        "/api/threads/{thread}/state",
        put_state,
        Operation::new(
            OperationTag::Threads,
            "put_state",
            "Replaces the state of a thread. A run that waits for an answer goes on waiting, and continues with this state. What was there stays in the log.",
        )
        .body::<PutStateBody>()
        .returns::<api::ThreadStateInfo>(200, "The state.")
        .errors(&[
            ApiErrorCode::NotFound,
            ApiErrorCode::UnknownAgent,
            ApiErrorCode::Busy,
            ApiErrorCode::Conflict,
            ApiErrorCode::DiskFull,
        ]),
    )]
}

/// Another state.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PutStateBody {
    /// The state. Fields that are left out get their default.
    state: Value,
    /// The agent whose state it is. The default is that of the newest run. It is needed if the thread has no agent.
    agent: Option<String>,
}

async fn put_state(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let name = path_value(name)?;
    let (PutStateBody { state, agent }, _) =
        request_body::read_json::<PutStateBody>(request, &app.limits).await?;
    let thread = load_thread_row(&app, &caller, &name).await?;
    let agent = agent_of_state(&app, &thread, agent.as_deref()).await?;
    check_state(&agent, &state)?;
    let edit = StateEdit { state: Some(state), ..StateEdit::default() };
    app.runtime.edit(&agent.name, &thread.key, None, &edit).await.map_err(edit_error)?;
    let view = app.runtime.view(&agent.name, &thread.key, None).await?;
    Ok(json_response(api::ThreadStateInfo::from_view(view)))
}

/// Whose state it is: that of the run that waits, and of no other agent. Without such a run, the one that is named, or that of the newest run.
async fn agent_of_state(app: &ServerApp, thread: &ThreadRow, named: Option<&str>) -> Result<Agent, ApiError> {
    if let Some(run) = thread.active {
        let graph = app.runtime.run_row(&thread.key.run(run)).await?.graph;
        if named.is_some_and(|named| named != graph) {
            return Err(ApiError::with_message(
                ApiErrorCode::BadInput,
                format!("`agent`: the run on this thread is one of `{graph}`"),
                format!("`agent`: 이 대화의 실행은 `{graph}`의 것입니다"),
            ));
        }
        return agent_request::find_agent(app, &graph);
    }
    agent_of_thread(app, thread, named).await
}

/// Refuses what is no state of the agent.
pub(super) fn check_state(agent: &Agent, state: &Value) -> Result<(), ApiError> {
    // A list would be read as the fields in their order, and an empty one as a state without any.
    if !state.is_object() {
        return Err(unfit_state_error(&ErrorDetail::new("it is not an object", "객체가 아닙니다")));
    }
    agent.read_turn(state).map(drop).map_err(|error| {
        let why = error.to_string();
        unfit_state_error(&ErrorDetail::new(why.clone(), why))
    })
}

/// A state with a field that the agent does not have cannot be read again.
pub(super) fn edit_error(error: EngineError) -> ApiError {
    match error {
        EngineError::StateMismatch { reason, .. } => {
            unfit_state_error(&ErrorDetail::from_state_mismatch(&reason))
        }
        other => other.into(),
    }
}

fn unfit_state_error(ErrorDetail { en, ko }: &ErrorDetail) -> ApiError {
    ApiError::with_message(
        ApiErrorCode::BadInput,
        format!("`state` does not fit the agent: {en}"),
        format!("`state`가 에이전트의 상태에 맞지 않습니다: {ko}"),
    )
}

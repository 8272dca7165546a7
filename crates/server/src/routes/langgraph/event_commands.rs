//! Commands of the event protocol, which newer clients use beside `event_stream`: they start runs and answer questions.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use doran_engine::{Acknowledgement, EngineError, ThreadKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::run_request::{IfNotExists, RunCommand, RunGraphBody};
use super::start_run::start_graph_run;
use super::{invalid, operation, read_body, read_fields};
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::{ApiRoute, json_response, path_value};

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::post(
        "/threads/{thread}/commands",
        post_command,
        operation("langgraph_command", "Starts a run or answers a question, in the event protocol.")
            .body::<CommandBody>()
            .returns::<Map<String, Value>>(200, "What came of it, with `type` `success` or `error`.")
            .errors(&[ApiErrorCode::BudgetSpent, ApiErrorCode::DiskFull]),
    )]
}

/// A command.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandBody {
    /// The number that its answer has.
    id: i64,
    /// `run.start` or `input.respond`.
    method: String,
    /// What belongs to it.
    #[serde(default)]
    params: Map<String, Value>,
}

/// Why a command was not carried out: a code of the protocol, and words.
struct CommandError(&'static str, ApiError);

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> Self {
        let code = match error.code {
            ApiErrorCode::NotFound => "no_such_run",
            ApiErrorCode::Invalid | ApiErrorCode::BadInput | ApiErrorCode::BadPath => "invalid_argument",
            _ => "unknown_error",
        };
        Self(code, error)
    }
}

/// `POST /threads/{thread}/commands`
pub(super) async fn post_command(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let thread = agent_request::thread_key(&caller, &path_value(id)?)?;
    let CommandBody { id, method, params } = read_body(request, &app).await?;
    let done = match method.as_str() {
        "run.start" => start_run(&app, &thread, caller.key.as_deref(), params).await,
        "input.respond" => answer_questions(&app, &thread, caller.key.as_deref(), params).await,
        _ => Err(CommandError(
            "unknown_command",
            invalid(
                &format!("`{method}` is not one of the commands `run.start` and `input.respond`"),
                &format!("`{method}`은(는) `run.start`나 `input.respond` 명령이 아닙니다"),
            ),
        )),
    };
    match done {
        Ok(result) => Ok(json_response(json!({
            "type": "success", "id": id, "result": result, "meta": { "applied_through_seq": 0 },
        }))),
        // What is wrong with the server, and what somebody has to pay for, is reported as everywhere.
        Err(CommandError(_, error))
            if error.code.info().status >= 500 || error.code == ApiErrorCode::BudgetSpent =>
        {
            Err(error)
        }
        Err(CommandError(code, error)) => {
            let problem = error.to_json();
            let message = if problem["detail"].is_string() { &problem["detail"] } else { &problem["title"] };
            Ok(json_response(json!({ "type": "error", "id": id, "error": code, "message": message })))
        }
    }
}

/// `run.start`: the fields of a run. The thread is made where there is none.
async fn start_run(
    app: &ServerApp,
    thread: &ThreadKey,
    key: Option<&str>,
    mut params: Map<String, Value>,
) -> Result<Value, CommandError> {
    // The one field that the protocol writes in another way.
    if let Some(strategy) = params.remove("multitaskStrategy") {
        params.insert("multitask_strategy".to_owned(), strategy);
    }
    let mut body: RunGraphBody = read_fields(&params)?;
    body.if_not_exists = Some(IfNotExists::Create);
    let started = start_graph_run(app, thread, key, &body, false, Acknowledgement::Input).await?;
    Ok(json!({ "run_id": started.run.id().to_string() }))
}

/// Answers of `input.respond`: to one question, or to several at once.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RespondParams {
    #[serde(default)]
    responses: Option<Vec<InterruptResponse>>,
    #[serde(default)]
    interrupt_id: Option<String>,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    namespace: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InterruptResponse {
    interrupt_id: String,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    namespace: Vec<String>,
}

/// `input.respond`
async fn answer_questions(
    app: &ServerApp,
    thread: &ThreadKey,
    key: Option<&str>,
    mut params: Map<String, Value>,
) -> Result<Value, CommandError> {
    // Clients name these also if they have none.
    for field in ["config", "metadata"] {
        if params.get(field).is_some_and(|value| value.is_null() || *value == json!({})) {
            params.remove(field);
        }
    }
    let RespondParams { responses, interrupt_id, response, namespace } = read_fields(&params)?;
    let responses = match (responses, interrupt_id) {
        (Some(responses), None) if !responses.is_empty() => responses,
        (None, Some(interrupt_id)) => vec![InterruptResponse { interrupt_id, response, namespace }],
        _ => {
            let error = invalid(
                "send either `interrupt_id` with `response`, or `responses` with at least one",
                "`interrupt_id`와 `response`를 보내거나 하나 이상의 `responses`를 보내세요",
            );
            return Err(error.into());
        }
    };
    let open = match app.runtime.open_questions(thread).await {
        Ok(open) => open,
        Err(EngineError::Store(doran_engine::store::StoreError::NotFound { .. })) => Vec::new(),
        Err(error) => return Err(ApiError::from(error).into()),
    };
    let unknown = responses.iter().find(|answer| {
        !answer.namespace.is_empty() || !open.iter().any(|(_, question)| question.id == answer.interrupt_id)
    });
    if let Some(InterruptResponse { interrupt_id, .. }) = unknown {
        let error = invalid(
            &format!("nothing is asked under the id `{interrupt_id}`"),
            &format!("id가 `{interrupt_id}`인 물음이 없습니다"),
        );
        return Err(CommandError("no_such_interrupt", error));
    }
    let Some((run, _)) = open.first() else { return Err(ApiError::from(ApiErrorCode::NotFound).into()) };
    let graph = app.runtime.run_row(run).await.map_err(ApiError::from)?.graph;
    let answers = responses.into_iter().map(|answer| (answer.interrupt_id, answer.response));
    let mut body = RunGraphBody::for_assistant(&graph)?;
    body.command = Some(RunCommand::answering(answers.collect()));
    start_graph_run(app, thread, key, &body, false, Acknowledgement::Input).await?;
    Ok(json!({}))
}

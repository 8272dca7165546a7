//! Open questions of all threads.

use axum::extract::State;
use axum::response::Response;
use doran_engine::EngineError;
use doran_engine::store::{RunFilter, RunStatus};

use super::{ApiRoute, json_response};
use crate::ServerApp;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::{Operation, OperationTag};

/// The most runs looked at.
const MAX_PAUSED_RUNS: usize = 200;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::get(
        "/api/approvals",
        list_approvals,
        Operation::new(OperationTag::Runs, "list_approvals", "Lists the open questions of all threads.")
            .returns::<api::WaitingQuestionList>(200, "The open questions.")
            .errors(&[ApiErrorCode::Unavailable]),
    )]
}

/// `GET /api/approvals`: the open questions of runs that wait, newest first.
async fn list_approvals(State(app): State<ServerApp>, caller: ApiCaller) -> Result<Response, ApiError> {
    let filter =
        RunFilter { status: Some(RunStatus::Paused), limit: MAX_PAUSED_RUNS, ..RunFilter::default() };
    let paused = app.runtime.list_runs(&caller.tenant, &filter).await?;
    let mut questions = Vec::new();
    for run in paused {
        // A run that went on or was removed in between asks nothing any more.
        let open = match app.runtime.open_questions(&run.thread).await {
            Ok(open) => open,
            Err(EngineError::Store(doran_engine::store::StoreError::NotFound { .. })) => continue,
            Err(error) => return Err(error.into()),
        };
        for (key, ask) in open.iter().filter(|(key, _)| key.run == run.run) {
            questions.push(api::WaitingQuestion {
                question: api::QuestionInfo::from_log(key.run, ask),
                thread: run.thread.thread.to_string(),
                agent: run.graph.clone(),
                since: run.started_at,
            });
        }
    }
    Ok(json_response(api::WaitingQuestionList { questions }))
}

//! What waits for a person, over all threads.

use axum::extract::State;
use axum::response::Response;
use doran_engine::EngineError;
use doran_engine::store::{RunFilter, RunStatus};
use serde_json::json;

use super::json_response;
use crate::ServerApp;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::ApiError;

/// The most runs looked at.
const MAX_PAUSED_RUNS: usize = 200;

/// `GET /api/approvals`: the open questions of runs that wait, newest first.
pub(super) async fn list_approvals(
    State(app): State<ServerApp>,
    caller: ApiCaller,
) -> Result<Response, ApiError> {
    let filter =
        RunFilter { status: Some(RunStatus::Paused), limit: MAX_PAUSED_RUNS, ..RunFilter::default() };
    let paused = app.runtime.list_runs(&caller.tenant, &filter).await?;
    let mut questions = Vec::new();
    for run in paused {
        // A run that went on or was removed in between asks nothing any more.
        let asked = match app.runtime.open_questions(&run.thread).await {
            Ok(asked) => asked,
            Err(EngineError::Store(doran_engine::store::StoreError::NotFound { .. })) => continue,
            Err(error) => return Err(error.into()),
        };
        for (key, ask) in asked.iter().filter(|(key, _)| key.run == run.run) {
            let mut shown = json!(api::QuestionInfo::from_log(key.run, ask));
            shown["thread"] = json!(run.thread.thread.as_str());
            shown["agent"] = json!(run.graph);
            shown["since"] = json!(run.started_at);
            questions.push(shown);
        }
    }
    Ok(json_response(json!({ "questions": questions })))
}

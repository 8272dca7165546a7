//! What was spent.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use doran_engine::EngineError;
use doran_engine::store::{RunFilter, Usage};
use serde::Deserialize;
use serde_json::json;

use super::{json, query};
use crate::App;
use crate::ask;
use crate::error::ApiError;
use crate::identity::Caller;

/// Runs read in one go, and how often.
const PAGE: usize = 500;
const PAGES: usize = 40;

/// What may follow the path.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    thread: Option<String>,
}

/// `GET /api/usage`: tokens and money of a thread, or of the newest runs of all.
pub(super) async fn usage(
    State(app): State<App>,
    caller: Caller,
    of: Result<Query<Of>, QueryRejection>,
) -> Result<Response, ApiError> {
    let store = app.runtime.store();
    let thread = query(of)?.thread.map(|name| ask::thread(&caller, &name)).transpose()?;
    if let Some(thread) = &thread {
        store.thread(thread).await.map_err(EngineError::from)?;
    }
    let (mut total, mut runs, mut before, mut all) = (Usage::default(), 0, None, false);
    for _ in 0..PAGES {
        let filter = RunFilter {
            thread: thread.as_ref().map(|thread| thread.thread.clone()),
            before,
            limit: PAGE,
            ..RunFilter::default()
        };
        let page = store.runs(&caller.tenant, &filter).await.map_err(EngineError::from)?;
        for run in &page {
            total += run.usage;
            runs += 1;
        }
        before = page.last().map(|run| run.run);
        all = page.len() < PAGE;
        if all {
            break;
        }
    }
    let Usage { input_tokens, output_tokens, cost_micros } = total;
    Ok(json(json!({
        "runs": runs,
        "complete": all,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cost_micros": cost_micros,
    })))
}

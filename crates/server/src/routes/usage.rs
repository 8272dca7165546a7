//! What was spent, in all and, for a thread, by each model.

use std::collections::BTreeMap;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use doran_agents::protocol::{ModelCallNote, notes_of_entry};
use doran_engine::ThreadKey;
use doran_engine::store::{RunFilter, RunStatus, RunUsage};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiRoute, json_response, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api::{ModelUsageInfo, UsageInfo};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::{Operation, OperationTag};

/// Runs or steps read in one go, and how often.
const PAGE_SIZE: usize = 500;
const MAX_PAGES: usize = 40;
/// The name under which calls are summed whose notes cannot be read.
const UNKNOWN_MODEL: &str = "unknown";

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::get(
        "/api/usage",
        get_usage,
        Operation::new(
            OperationTag::Server,
            "get_usage",
            "Returns the tokens and the money that runs used; for a thread also by model.",
        )
        .query::<UsageQuery>()
        .returns::<UsageInfo>(200, "The usage.")
        .errors(&[ApiErrorCode::NotFound]),
    )]
}

/// What may follow the path.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UsageQuery {
    /// Only this thread, also by model.
    #[schemars(length(min = 1, max = 200))]
    thread: Option<String>,
}

/// `GET /api/usage`: tokens and money of a thread, also by model, or of the newest runs of all.
async fn get_usage(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    of: Result<Query<UsageQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let thread = query_value(of)?.thread.map(|name| agent_request::thread_key(&caller, &name)).transpose()?;
    if let Some(thread) = &thread {
        app.runtime.thread_row(thread).await?;
    }
    let (mut total, mut runs, mut before, mut all, mut exact) = (RunUsage::default(), 0, None, false, true);
    for _ in 0..MAX_PAGES {
        let filter = RunFilter {
            thread: thread.as_ref().map(|thread| thread.thread.clone()),
            before,
            limit: PAGE_SIZE,
            ..RunFilter::default()
        };
        let page = app.runtime.list_runs(&caller.tenant, &filter).await?;
        for run in &page {
            total += run.usage;
            runs += 1;
            // What a request took that was stopped or cut off is an estimate, and a run under way spends more.
            exact &= run.status == RunStatus::Finished || run.usage.is_zero();
        }
        before = page.last().map(|run| run.run);
        all = page.len() < PAGE_SIZE;
        if all {
            break;
        }
    }
    let RunUsage { input_tokens, output_tokens, cost_micros } = total;
    let by_model = match &thread {
        Some(thread) => Some(usage_by_model(&app, thread).await?),
        None => None,
    };
    let complete = all && exact;
    Ok(json_response(UsageInfo { runs, complete, input_tokens, output_tokens, cost_micros, by_model }))
}

/// What one model was asked and took.
#[derive(Debug, PartialEq, Eq)]
struct ModelUsage {
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// `None` as soon as the price of one call is not known: nothing is not what it cost.
    cost_micros: Option<u64>,
}

impl Default for ModelUsage {
    fn default() -> Self {
        Self { calls: 0, input_tokens: 0, output_tokens: 0, cost_micros: Some(0) }
    }
}

impl ModelUsage {
    /// Adds a call of which this much is known.
    fn add_call(&mut self, input_tokens: u64, output_tokens: u64, cost_micros: Option<u64>) {
        self.calls += 1;
        self.input_tokens += input_tokens;
        self.output_tokens += output_tokens;
        self.cost_micros = self.cost_micros.zip(cost_micros).map(|(sum, cost)| sum + cost);
    }
}

/// What each model took, as the steps of the thread noted it.
async fn usage_by_model(app: &ServerApp, thread: &ThreadKey) -> Result<Vec<ModelUsageInfo>, ApiError> {
    let (mut took, mut after) = (BTreeMap::<String, ModelUsage>::new(), 0);
    for _ in 0..MAX_PAGES {
        let page = app.runtime.entries(thread, after, PAGE_SIZE).await?;
        for entry in &page {
            let notes = notes_of_entry(&entry.body).map_err(|error| {
                tracing::error!(%error, seq = entry.seq, "the notes of a step cannot be read");
                ApiError::from(ApiErrorCode::Internal)
            })?;
            notes.into_iter().flat_map(|notes| notes.models).for_each(|note| add_note(&mut took, note));
        }
        match page.last() {
            Some(last) if page.len() == PAGE_SIZE => after = last.seq,
            Some(_) | None => break,
        }
    }
    let rows =
        took.into_iter().map(|(name, ModelUsage { calls, input_tokens, output_tokens, cost_micros })| {
            ModelUsageInfo { name, calls, input_tokens, output_tokens, cost_micros }
        });
    Ok(rows.collect())
}

/// Adds a call as the node that made it noted it. A reply from the cache took nothing; of a note of another version
/// only that there was a call is known.
fn add_note(took: &mut BTreeMap<String, ModelUsage>, note: ModelCallNote) {
    match note {
        ModelCallNote::Asked(call) => took.entry(call.name).or_default().add_call(
            call.input_tokens,
            call.output_tokens,
            call.cost_micros,
        ),
        ModelCallNote::Unfinished(call) => took.entry(call.name).or_default().add_call(
            call.input_tokens,
            call.output_tokens,
            call.cost_micros,
        ),
        ModelCallNote::FromCache(_) => {}
        ModelCallNote::Unknown(_) => {
            took.entry(UNKNOWN_MODEL.to_owned()).or_default().add_call(0, 0, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reply_from_the_cache_neither_counts_nor_hides_what_the_others_cost() {
        let mut took = BTreeMap::new();
        let asked = json!({ "name": "m", "kind": "language", "purpose": "answer", "role": "main", "finish": "stop",
            "input_tokens": 7, "output_tokens": 3, "cached_tokens": 0, "cost_micros": 20, "counted": "reported",
            "ms": 1 });
        let cached = json!({ "name": "m", "purpose": "answer", "finish": "stop", "cached": true });
        for note in [asked, cached, json!({ "of": "a later version" })] {
            add_note(&mut took, serde_json::from_value(note).expect("a note"));
        }
        let sum = ModelUsage { calls: 1, input_tokens: 7, output_tokens: 3, cost_micros: Some(20) };
        let unknown = ModelUsage { calls: 1, input_tokens: 0, output_tokens: 0, cost_micros: None };
        assert_eq!(took, [("m".to_owned(), sum), (UNKNOWN_MODEL.to_owned(), unknown)].into());
    }

    #[test]
    fn a_call_without_a_known_price_makes_the_sum_unknown_and_not_smaller() {
        let mut took = ModelUsage::default();
        took.add_call(7, 3, Some(20));
        assert_eq!(took, ModelUsage { calls: 1, input_tokens: 7, output_tokens: 3, cost_micros: Some(20) });
        took.add_call(7, 3, None);
        took.add_call(7, 3, Some(20));
        assert_eq!(took, ModelUsage { calls: 3, input_tokens: 21, output_tokens: 9, cost_micros: None });
    }
}

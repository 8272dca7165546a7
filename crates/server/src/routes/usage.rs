//! What was spent, in all and, for a thread, by each model.

use std::collections::BTreeMap;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use doran_engine::store::{RunFilter, Usage};
use doran_engine::{EngineError, ThreadKey, log};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{json, query};
use crate::App;
use crate::ask;
use crate::error::{ApiError, Code};
use crate::identity::Caller;

/// Runs or steps read in one go, and how often.
const PAGE: usize = 500;
const PAGES: usize = 40;

/// What may follow the path.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    thread: Option<String>,
}

/// `GET /api/usage`: tokens and money of a thread, also by model, or of the newest runs of all.
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
    let mut shown = json!({
        "runs": runs,
        "complete": all,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cost_micros": cost_micros,
    });
    if let Some(thread) = &thread {
        shown["by_model"] = by_model(&app, thread).await?;
    }
    Ok(json(shown))
}

/// What one model was asked and took.
#[derive(Debug, PartialEq, Eq)]
struct Took {
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// `None` as soon as the price of one call is not known: nothing is not what it cost.
    cost_micros: Option<u64>,
}

impl Default for Took {
    fn default() -> Self {
        Self { calls: 0, input_tokens: 0, output_tokens: 0, cost_micros: Some(0) }
    }
}

impl Took {
    /// Adds a call, as the node that made it noted it.
    fn add(&mut self, call: &Value) {
        let number = |name: &str| call.get(name).and_then(Value::as_u64);
        self.calls += 1;
        self.input_tokens += number("input_tokens").unwrap_or(0);
        self.output_tokens += number("output_tokens").unwrap_or(0);
        self.cost_micros = self.cost_micros.zip(number("cost_micros")).map(|(sum, cost)| sum + cost);
    }
}

/// What each model took, as the steps of the thread noted it.
async fn by_model(app: &App, thread: &ThreadKey) -> Result<Value, ApiError> {
    let (mut took, mut after) = (BTreeMap::<String, Took>::new(), 0);
    for _ in 0..PAGES {
        let page = app.runtime.store().entries(thread, after, PAGE).await.map_err(EngineError::from)?;
        for entry in &page {
            let body = entry.read().map_err(|error| {
                tracing::error!(%error, seq = entry.seq, "an entry cannot be read");
                ApiError::from(Code::Internal)
            })?;
            let (log::Body::Step(step) | log::Body::Inner(step)) = body else { continue };
            let calls = step.tasks.iter().filter_map(|task| task.notes.get("models")?.as_array());
            for call in calls.flatten() {
                let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
                took.entry(name.to_owned()).or_default().add(call);
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = last.seq,
            Some(_) | None => break,
        }
    }
    let rows = took.into_iter().map(|(name, Took { calls, input_tokens, output_tokens, cost_micros })| {
        json!({
            "name": name,
            "calls": calls,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cost_micros": cost_micros,
        })
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_known_price_makes_the_sum_unknown_and_not_smaller() {
        let mut took = Took::default();
        took.add(&json!({ "input_tokens": 7, "output_tokens": 3, "cost_micros": 20 }));
        assert_eq!(took, Took { calls: 1, input_tokens: 7, output_tokens: 3, cost_micros: Some(20) });
        took.add(&json!({ "input_tokens": 7, "output_tokens": 3, "cost_micros": null }));
        took.add(&json!({ "input_tokens": 7, "output_tokens": 3, "cost_micros": 20 }));
        assert_eq!(took, Took { calls: 3, input_tokens: 21, output_tokens: 9, cost_micros: None });
    }
}

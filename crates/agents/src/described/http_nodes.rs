//! The nodes `http` and `map`: calls to programs in any language, recorded like every effect of a node.
//!
//! A call that was answered is not made again after a crash. One that was cut off is made once more under the same
//! `Idempotency-Key`, or not at all if it is `once`: then the run asks a person.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use doran_engine::NodeError;
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::http::{HttpCall, HttpFailureKind};
use super::state::DescribedState;
use super::template;
use crate::nodes::{CallTrace, NodeWork};
use crate::protocol::{CallNote, CallNoteKind, InterruptQuestion};
use crate::state::{newest_question, typed_text};

/// The most items of a `map`.
const MAX_MAP_ITEMS: usize = 200;
/// Calls of a `map` that are made side by side.
const MAP_CALLS_AT_ONCE: usize = 4;

/// What the templates of a node may use.
pub(super) const NODE_VARIABLES: [&str; 3] = ["question", "summary", "values"];
/// What the templates of a `map` may use.
pub(super) const MAP_VARIABLES: [&str; 5] = ["question", "summary", "values", "item", "index"];

/// What the templates of a node are filled with. A text that came along with the question is material, and not part of it.
pub(super) fn node_variables(state: &DescribedState) -> Value {
    let question = newest_question(&state.messages).map(typed_text).unwrap_or_default();
    let summary = state.summary.joined_text().unwrap_or_default();
    json!({ "question": question, "summary": summary, "values": state.values })
}

/// Makes the call of an `http` node.
pub(super) async fn run_http(
    work: &NodeWork,
    node: &str,
    call: &HttpCall,
    state: &DescribedState,
) -> Result<Value, NodeError> {
    make_call(work, node, "http", call, node_variables(state)).await
}

/// The items of a `map`.
pub(super) fn map_items(over: &str, state: &DescribedState) -> Result<Vec<Value>, NodeError> {
    let list = template::render_json(&Value::String(over.to_owned()), &node_variables(state))
        .map_err(NodeError::permanent)?;
    let items = match list {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => {
            let kind = match other {
                Value::Object(_) => "an object",
                Value::String(_) => "a text",
                _ => "a single value",
            };
            return Err(NodeError::permanent(format!("`over` gave {kind}, and a `map` needs a list")));
        }
    };
    if items.len() > MAX_MAP_ITEMS {
        let count = items.len();
        return Err(NodeError::permanent(format!(
            "`over` gave {count} items, and a `map` takes at most {MAX_MAP_ITEMS}"
        )));
    }
    Ok(items)
}

/// The variables of one item.
pub(super) fn item_variables(state: &DescribedState, index: usize, item: Value) -> Value {
    let mut variables = node_variables(state);
    variables["item"] = item;
    variables["index"] = json!(index);
    variables
}

/// Makes a call for every item, some of them side by side. The results are in the order of the items. When one fails, no
/// other is begun, and those under way come to their end: what they did is recorded. If one of them has to be asked about,
/// that comes first.
pub(super) async fn run_http_map(
    work: &NodeWork,
    node: &str,
    call: &HttpCall,
    over: &str,
    state: &DescribedState,
) -> Result<Value, NodeError> {
    let items = map_items(over, state)?;
    let has_failed = AtomicBool::new(false);
    let calls = items.into_iter().enumerate().map(|(index, item)| {
        let (variables, has_failed) = (item_variables(state, index, item), &has_failed);
        async move {
            if has_failed.load(Ordering::Relaxed) {
                return None;
            }
            let made = make_call(work, node, &format!("item-{index}"), call, variables).await;
            has_failed.fetch_or(made.is_err(), Ordering::Relaxed);
            Some(made)
        }
    });
    let made: Vec<Result<Value, NodeError>> =
        stream::iter(calls).buffered(MAP_CALLS_AT_ONCE).filter_map(ready).collect().await;
    let (results, mut errors): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    let first = errors.iter().position(|made| made.as_ref().is_err_and(NodeError::is_paused)).unwrap_or(0);
    if first < errors.len() {
        return errors.swap_remove(first);
    }
    Ok(results.into_iter().flatten().collect())
}

async fn make_call(
    work: &NodeWork,
    node: &str,
    effect: &str,
    call: &HttpCall,
    variables: Value,
) -> Result<Value, NodeError> {
    let rendered = call.render(&variables, &variables)?;
    let shown = json!({ "url": rendered.url.as_str(), "body": rendered.body });
    let cx = &work.cx;
    let send = |key: String| async move {
        let (trace, began) = (CallTrace::begin(cx), Instant::now());
        let sent = trace.scope(call.send(rendered, &key)).await;
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (kind, name, failed) = (CallNoteKind::Http, node.to_owned(), sent.is_err());
        work.note_calls([CallNote { kind, name, call: None, at: trace.at, ms, span: trace.span, failed }]);
        sent
    };
    let response = if call.once() {
        let question = unknown_outcome_question(node, shown);
        cx.effect_at_most_once_with_details(effect, question, |key| async move {
            send(key).await.map_err(|error| match error.kind {
                HttpFailureKind::NotSent | HttpFailureKind::Refused | HttpFailureKind::Impossible => {
                    NodeError::not_done(error.reason)
                }
                HttpFailureKind::Transient | HttpFailureKind::Unusable => error.into(),
            })
        })
        .await?
    } else if call.is_read_only() {
        cx.effect(effect, send(String::new())).await?
    } else {
        cx.idempotent_effect(effect, send).await?
    };
    Ok(call.result(response, &variables)?)
}

fn unknown_outcome_question(node: &str, call: Value) -> Map<String, Value> {
    let question = InterruptQuestion::ToolUnknown {
        name: node.to_owned(),
        arguments: call,
        ko: format!(
            "노드 `{node}`의 호출이 끊겨, 실제로 실행되었는지 알 수 없습니다. 두 번 하면 안 되는 일이라 다시 부르지 않았습니다. 실행되었나요?"
        ),
        en: format!(
            "The call of the node `{node}` was cut off, and whether it happened is not known. It must not happen twice, so it was not made again. Did it happen?"
        ),
        call: None,
        key: None,
    };
    match question.to_json() {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

//! Metadata of threads and runs: what clients see of it, and what the server notes there.

use doran_engine::store::{RunRow, ThreadRow};
use doran_engine::{RunId, ThreadKey};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::ids::graph_assistant_id;
use super::invalid;
use crate::ServerApp;
pub(super) use crate::agent_request::DORAN_METADATA;
use crate::agent_request::REQUEST_HASH_METADATA;
use crate::error::ApiError;

/// Pairs of metadata that clients of LangGraph neither see nor set.
const HIDDEN_METADATA: [&str; 3] = [DORAN_METADATA, "agent", REQUEST_HASH_METADATA];
/// The most runs of a thread that are remembered as taken back.
pub(super) const MAX_ROLLED_BACK: usize = 200;

/// Metadata as clients see it.
pub(super) fn hidden_metadata(metadata: &Map<String, Value>) -> Map<String, Value> {
    let shown = metadata.iter().filter(|(name, _)| !HIDDEN_METADATA.contains(&name.as_str()));
    shown.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Refuses pairs that are the server's own.
pub(super) fn check_metadata(metadata: &Map<String, Value>) -> Result<(), ApiError> {
    if let Some(name) = HIDDEN_METADATA.iter().find(|name| metadata.contains_key(**name)) {
        return Err(invalid(
            &format!("`metadata.{name}` belongs to the server"),
            &format!("`metadata.{name}`은(는) 서버가 쓰는 이름입니다"),
        ));
    }
    check_storable(metadata)
}

/// Refuses pairs that no store takes, also to search for.
pub(super) fn check_storable(metadata: &Map<String, Value>) -> Result<(), ApiError> {
    doran_engine::store::check_metadata(metadata).map_err(|error| {
        let why = error.to_string();
        invalid(&format!("`metadata`: {why}"), &format!("`metadata`: 저장할 수 없는 값이 있습니다 ({why})"))
    })
}

/// Whether all of these pairs are there.
pub(super) fn has_pairs(all: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(name, value)| all.get(name) == Some(value))
}

/// Whether a run was taken back, or removed from the list.
pub(super) fn is_rolled_back(thread: &ThreadRow, run: RunId) -> bool {
    let marked = thread.metadata.get(DORAN_METADATA).and_then(|doran| doran["rolled_back"].as_array());
    let run = run.to_string();
    marked.is_some_and(|marked| marked.iter().any(|one| *one == run.as_str()))
}

/// Runs are marked one after the other, as each mark is set beside those before it. Of marks that several processes set at once
/// the last one stays.
static MARKS: Mutex<()> = Mutex::const_new(());

/// Remembers that a run was taken back.
pub(super) async fn mark_rolled_back(
    app: &ServerApp,
    thread: &ThreadKey,
    run: RunId,
) -> Result<(), ApiError> {
    let _turn = MARKS.lock().await;
    let row = app.runtime.thread_row(thread).await?;
    let mut doran = row.metadata.get(DORAN_METADATA).cloned().unwrap_or_else(|| json!({}));
    let mut marked = doran["rolled_back"].as_array().cloned().unwrap_or_default();
    marked.push(run.to_string().into());
    let surplus = marked.len().saturating_sub(MAX_ROLLED_BACK);
    marked.drain(..surplus);
    doran["rolled_back"] = marked.into();
    let metadata = Map::from_iter([(DORAN_METADATA.to_owned(), doran)]);
    app.runtime.put_thread(thread, &metadata).await?;
    Ok(())
}

/// The assistant of a run: the one that it or its cron was started with, else the one of its graph.
pub(super) fn run_assistant_id(row: &RunRow) -> String {
    let of_cron = || row.metadata.get(DORAN_METADATA)?.get("cron")?.get("assistant_id");
    let named = row.metadata.get("assistant_id").or_else(of_cron).and_then(Value::as_str);
    named.map_or_else(|| graph_assistant_id(&row.graph), str::to_owned)
}

//! SQLite: the contract on a file and in memory, and what is said of files, disks and copies.

mod backup;
mod disk;
mod disk_usage;
mod ended_runs;
mod file_format;
mod file_opening;
mod long_logs;
mod turn_syncs;

use std::sync::Arc;
use std::time::Duration;

use doran_engine::id::{RunId, ThreadKey};
use doran_engine::store::{
    ClaimedRun, Commit, CommitOutcome, EntryKind, IfBusy, InputDurability, NewEntry, NewRun, NewRunEntry,
    NewStatus, RunStatus, RunStore, StoreError, SubmitOutcome, WorkerLease, conformance,
};
use doran_store::sqlite::SqliteStore;

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_in_memory_keeps_the_contract() {
    conformance::check(async || SqliteStore::in_memory().expect("open")).await;
    conformance::check_idempotency(async || SqliteStore::in_memory().expect("open")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sqlite_file_keeps_the_contract() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    conformance::check(async || store.clone()).await;
    conformance::check_idempotency(async || store.clone()).await;
}

fn worker() -> WorkerLease {
    WorkerLease { worker: Arc::from("worker"), lease: Duration::from_secs(3600), graphs: None }
}

fn thread(name: &str) -> ThreadKey {
    ThreadKey::local(name).expect("name")
}

fn new_run(thread: &ThreadKey, body: &[u8]) -> NewRun {
    NewRun {
        thread: thread.clone(),
        run: RunId::random(),
        graph: "assistant".into(),
        fingerprint: "0123456789abcdef".into(),
        first: NewRunEntry { kind: EntryKind::Started, body: body.to_vec(), parent: None },
        if_busy: IfBusy::Reject,
        idempotency: None,
        metadata: serde_json::Map::new(),
        thread_metadata: serde_json::Map::new(),
        options: b"{}".to_vec(),
        stop_body: Vec::new(),
        claim: Some(worker()),
        durability: InputDurability::Now,
    }
}

async fn start(store: &SqliteStore, thread: &ThreadKey, body: &[u8]) -> Result<ClaimedRun, StoreError> {
    match store.submit(new_run(thread, body)).await? {
        SubmitOutcome::Started(claimed) => Ok(claimed),
        other => panic!("the run did not start: {other:?}"),
    }
}

fn entry(kind: EntryKind, body: &[u8]) -> NewEntry {
    NewEntry { kind, body: body.to_vec(), parent: None, base: 0, snapshot: None }
}

async fn step(
    store: &SqliteStore,
    run: &ClaimedRun,
    head: u64,
    body: &[u8],
) -> Result<CommitOutcome, StoreError> {
    let entries = vec![entry(EntryKind::Step, body)];
    store.commit(&run.fence(), Commit { head, entries, ..Commit::default() }).await
}

async fn finish(
    store: &SqliteStore,
    run: &ClaimedRun,
    head: u64,
    body: &[u8],
) -> Result<CommitOutcome, StoreError> {
    let status = Some(NewStatus { status: RunStatus::Finished, error: None });
    let entries = vec![entry(EntryKind::Finished, body)];
    store.commit(&run.fence(), Commit { head, entries, status, ..Commit::default() }).await
}

/// An error with all its causes.
fn error_with_sources(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

//! Runs that are over, and claims that have run out.

use std::time::Duration;

use doran_engine::store::{
    Commit, EntryKind, HistoryStore, NewEntry, NewStatus, Record, RecordStage, Retention, RunSignal,
    RunStatus, RunStore, ThreadMaintenance, WorkerLease,
};
use doran_store::sqlite::SqliteStore;
use rusqlite::Connection;

use super::{new_run, start, thread, worker};

#[tokio::test]
async fn claims_that_ran_out_first_are_claimed_first() {
    let store = SqliteStore::in_memory().expect("open");
    let short = WorkerLease { lease: Duration::from_millis(1), ..worker() };
    let names: Vec<String> = (0..12).map(|n| format!("t{n:02}")).collect();
    for name in &names {
        let run = new_run(&thread(name), b"in");
        store
            .submit(doran_engine::store::NewRun { claim: Some(short.clone()), ..run })
            .await
            .expect("submit");
        // Each lease ends a little later than the one before.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let mut claimed = Vec::new();
    while claimed.len() < names.len() {
        for run in store.claim(&worker(), None, 1).await.expect("claim") {
            claimed.push(run.run.thread.thread.to_string());
        }
    }
    assert_eq!(claimed, names);
}

#[tokio::test]
async fn a_paused_run_that_is_cancelled_leaves_no_record_and_its_thread_is_read_from_its_snapshot() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let store = SqliteStore::open(&path).expect("open");
    let key = thread("t");
    let run = start(&store, &key, b"in").await.expect("started");
    let entry = |kind, base, snapshot| NewEntry { kind, body: b"{}".to_vec(), parent: None, base, snapshot };
    let record = |key: &str| Record {
        path: "0.0".into(),
        key: key.into(),
        stage: RecordStage::Open,
        body: Vec::new(),
    };
    let step = entry(EntryKind::Step, 0, Some(b"state".to_vec()));
    let step = Commit { head: 1, entries: vec![step], ..Commit::default() };
    store.commit(&run.fence(), step).await.expect("commit");
    let pause = Commit {
        head: 2,
        entries: vec![entry(EntryKind::Paused, 2, None)],
        records: vec![record("ask#0"), record("ask#1")],
        status: Some(NewStatus { status: RunStatus::Paused, error: None }),
        ..Commit::default()
    };
    store.commit(&run.fence(), pause).await.expect("commit");
    let records = || -> i64 {
        let file = Connection::open(&path).expect("open");
        file.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).expect("a count")
    };
    assert_eq!(records(), 2);
    store.signal(&run.run.key(), RunSignal::Cancel { body: b"{}".to_vec() }).await.expect("cancelled");
    assert_eq!(records(), 0);
    // What came before the snapshot is not needed any more.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let all = Retention { old_entries: Some(Duration::ZERO), ..Retention::default() };
    assert!(store.gc(&all).await.expect("cleared").entries > 0);
    let loaded = store.load(&key, None).await.expect("loaded");
    assert_eq!((loaded.head, loaded.snapshot), (4, Some((2, b"state".to_vec()))));
}

//! Long logs are copied and deleted in batches, between which others write.

use std::path::Path;
use std::pin::pin;

use doran_engine::id::{ThreadId, ThreadKey};
use doran_engine::store::{
    Commit, EntryKind, HistoryStore, NewStatus, Retention, RunStatus, RunStore, StoreError, ThreadMaintenance,
};
use doran_store::sqlite::SqliteStore;
use rusqlite::Connection;

use super::{entry, start, step, thread};

/// A thread with so many entries that ten batches do not hold them.
async fn long_thread(store: &SqliteStore, name: &str) -> ThreadKey {
    let key = thread(name);
    let run = start(store, &key, b"in").await.expect("start");
    let commit = Commit {
        head: 1,
        entries: (0..20_000).map(|_| entry(EntryKind::Step, b"step")).collect(),
        status: Some(NewStatus { status: RunStatus::Finished, error: None }),
        ..Commit::default()
    };
    store.commit(&run.fence(), commit).await.expect("commit");
    key
}

/// What came of `work`, and how many steps of another run were written meanwhile.
async fn steps_beside<T>(store: &SqliteStore, work: impl Future<Output = T>) -> (T, u64) {
    let run = start(store, &thread(ThreadId::random().as_str()), b"in").await.expect("start");
    let mut work = pin!(work);
    let mut head = run.head;
    loop {
        tokio::select! {
            biased;
            done = &mut work => return (done, head - run.head),
            written = step(store, &run, head, b"step") => head = written.expect("step").head,
        }
    }
}

#[tokio::test]
async fn others_write_while_a_long_log_is_copied_and_deleted() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let (source, copy) = (long_thread(&store, "source").await, thread("copy"));
    let (copied, steps) = steps_beside(&store, store.copy_thread(&source, &copy.thread, None)).await;
    assert_eq!(copied.expect("copy").head, 20_001);
    assert!(steps >= 10, "{steps} steps beside the copy");
    let (deleted, steps) = steps_beside(&store, store.delete_thread(&source)).await;
    assert!(deleted.expect("delete"));
    assert!(steps >= 10, "{steps} steps beside the deletion");
    assert_eq!(store.entries(&copy, 20_000, 10).await.expect("entries").len(), 1);
}

fn rows_beyond(path: &Path, number: i64) -> (i64, i64) {
    let conn = Connection::open(path).expect("open");
    let sql =
        "SELECT (SELECT count(*) FROM entries WHERE place > ?1 << 28), (SELECT count(*) FROM unowned_logs)";
    conn.query_row(sql, [number], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows")
}

/// Two processes that died: one while it copied a thread, one while it deleted one.
#[tokio::test]
async fn what_a_dead_process_left_is_deleted_and_its_number_is_not_used_before() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    drop(SqliteStore::open(&path).expect("open"));
    let conn = Connection::open(&path).expect("open");
    conn.execute_batch(
        "INSERT INTO unowned_logs (number, copying) VALUES (7, 1), (9, 0);
         INSERT INTO entries (place, parent, base, run, at, kind, body)
         VALUES ((7 << 28) + 5, 4, 0, NULL, 1, 2, x'00'), ((9 << 28) + 1, 0, 0, NULL, 1, 2, x'00');",
    )
    .expect("leftovers");
    drop(conn);
    let store = SqliteStore::open(&path).expect("open again");
    let run = start(&store, &thread("new"), b"in").await.expect("start");
    assert_eq!(run.head, 1);
    store.gc(&Retention::default()).await.expect("gc");
    assert_eq!(store.entries(&thread("new"), 0, 10).await.expect("entries").len(), 1);
    drop(store);
    assert_eq!(rows_beyond(&path, 0), (1, 0));
    assert_eq!(rows_beyond(&path, 10), (1, 0), "the new thread has a number of its own");
}

/// A process that died while it cleared old entries, in front of the first snapshot.
#[tokio::test]
async fn a_log_without_its_beginning_is_not_loaded_as_if_it_were_whole() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let (store, key) = (SqliteStore::open(&path).expect("open"), thread("t"));
    let run = start(&store, &key, b"in").await.expect("start");
    for head in 1..5 {
        step(&store, &run, head, b"step").await.expect("step");
    }
    assert_eq!(store.load(&key, Some(4)).await.expect("whole").entries.len(), 4);
    drop(store);
    let conn = Connection::open(&path).expect("open");
    assert_eq!(conn.execute("DELETE FROM entries WHERE seq <= 2", []).expect("cleared"), 2);
    drop(conn);
    let store = SqliteStore::open(&path).expect("open again");
    for at in [None, Some(3), Some(4)] {
        let loaded = store.load(&key, at).await;
        assert!(matches!(loaded, Err(StoreError::NotFound { .. })), "{at:?}: {loaded:?}");
    }
}

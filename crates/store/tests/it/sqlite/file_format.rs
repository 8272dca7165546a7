//! Formats: released ones open, all others are refused.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use doran_engine::store::{
    Commit, EntryKind, HistoryStore, NewStatus, Record, RecordStage, RunSignal, RunStatus, RunStore,
    StoreError,
};
use doran_store::FileStoreMaintenance;
use doran_store::sqlite::SqliteStore;
use rusqlite::Connection;

use super::{entry, finish, start, thread, worker};

/// The oldest format that this program reads, and the format that it writes.
const FIRST_FORMAT: u32 = 6;
const CURRENT_FORMAT: u32 = 7;

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/sqlite/v{format}.db"))
}

fn question() -> Record {
    Record { path: "1.0".into(), key: "approve#0".into(), stage: RecordStage::Open, body: b"may I?".to_vec() }
}

/// A thread with one run that asked a question, as the fixture has it.
async fn start_paused_run(store: &SqliteStore) {
    let run = start(store, &thread("paused"), b"please").await.expect("start");
    let mut paused = entry(EntryKind::Paused, b"may I?");
    paused.snapshot = Some(b"state".to_vec());
    let commit = Commit {
        head: 1,
        entries: vec![paused],
        records: vec![question()],
        status: Some(NewStatus { status: RunStatus::Paused, error: None }),
        ..Commit::default()
    };
    store.commit(&run.fence(), commit).await.expect("pause");
}

/// Loads, answers and ends the paused run.
async fn answer_paused_run(store: &SqliteStore) {
    let key = thread("paused");
    store.integrity_check().await.expect("whole");
    let row = store.thread(&key).await.expect("thread");
    let run = key.run(row.active.expect("a paused run"));
    assert_eq!(store.run(&run).await.expect("run").status, RunStatus::Paused);
    let loaded = store.load(&key, None).await.expect("load");
    assert_eq!(loaded.snapshot, Some((2, b"state".to_vec())));

    let answers = vec![("1.0".to_owned(), "approve#0".to_owned(), b"yes".to_vec())];
    store.signal(&run, RunSignal::Answer { answers, body: b"yes".to_vec() }).await.expect("answer");
    let claimed = store.claim(&worker(), None, 10).await.expect("claim").pop().expect("claimable");
    assert_eq!(claimed.records, [Record { stage: RecordStage::Done, body: b"yes".to_vec(), ..question() }]);
    let head = finish(store, &claimed, claimed.head, b"done").await.expect("finish").head;
    assert_eq!(head, 4);
    assert_eq!(store.run(&run).await.expect("run").status, RunStatus::Finished);
}

#[tokio::test]
async fn a_paused_run_of_every_format_is_answered() {
    for format in FIRST_FORMAT..=CURRENT_FORMAT {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("doran.db");
        fs::copy(fixture(format), &path).expect("copy");
        answer_paused_run(&SqliteStore::open(&path).expect("open")).await;
    }
}

#[tokio::test]
async fn a_paused_run_of_this_format_is_answered_after_a_restart() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    start_paused_run(&SqliteStore::open(&path).expect("open")).await;
    answer_paused_run(&SqliteStore::open(&path).expect("open again")).await;
}

#[test]
fn a_newer_file_is_refused_and_untouched() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    drop(SqliteStore::open(&path).expect("open"));
    let conn = Connection::open(&path).expect("open");
    conn.pragma_update(None, "user_version", 8).expect("newer");
    drop(conn);
    let before = fs::read(&path).expect("read");
    let error = SqliteStore::open(&path).expect_err("newer");
    assert!(matches!(error, StoreError::Newer { found: 8, known: 7 }), "{error:?}");
    assert_eq!(fs::read(&path).expect("read"), before);
}

#[test]
fn a_file_of_an_unreleased_format_is_refused_and_untouched() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let conn = Connection::open(&path).expect("open");
    let older =
        "PRAGMA application_id = 0x646f7261; PRAGMA user_version = 5; CREATE TABLE threads (tenant TEXT);";
    conn.execute_batch(older).expect("older");
    drop(conn);
    let before = fs::read(&path).expect("read");
    let error = SqliteStore::open(&path).expect_err("older");
    assert_eq!(
        error.source().map(ToString::to_string).unwrap_or_default(),
        "the database has format 5, which no release of Doran has written: this version reads 6 and newer. \
         Move the database away and start with a new one"
    );
    assert_eq!(fs::read(&path).expect("read"), before);
}

#[test]
fn a_migration_that_was_cut_off_is_done_again() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let conn = Connection::open(&path).expect("open");
    conn.execute_batch("PRAGMA journal_mode = WAL; BEGIN; CREATE TABLE threads (tenant TEXT);")
        .expect("begin");
    drop(conn);
    SqliteStore::open(&path).expect("open");
}

/// Makes the fixture of the newest format: `cargo test -p doran-store make_the_fixture -- --ignored`.
#[tokio::test]
#[ignore = "writes a fixture; a fixture of an older format is never made again"]
async fn make_the_fixture() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    start_paused_run(&store).await;
    store.backup(&fixture(CURRENT_FORMAT)).await.expect("write");
}

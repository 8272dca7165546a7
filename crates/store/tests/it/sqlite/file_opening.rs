//! Which files are opened, and by whom.

use std::fs;

use doran_engine::store::{Commit, HistoryStore, RunStatus, RunStore, StoreError};
use doran_store::FileStoreMaintenance;
use doran_store::sqlite::SqliteStore;
use rusqlite::Connection;

use super::{error_with_sources, start, step, thread, worker};

#[tokio::test]
async fn a_file_opened_again_has_everything() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let key = thread("a");
    let store = SqliteStore::open(&path).expect("open");
    let run = start(&store, &key, b"hello").await.expect("start");
    step(&store, &run, 1, b"one").await.expect("step");
    let counted = Commit { steps: 1, ..Commit::default() };
    store.commit(&run.fence(), counted).await.expect("commit");
    drop(store);

    let store = SqliteStore::open(&path).expect("open again");
    store.integrity_check().await.expect("whole");
    let loaded = store.load(&key, None).await.expect("load");
    let bodies: Vec<_> = loaded.entries.iter().map(|entry| entry.body.as_slice()).collect();
    assert_eq!(bodies, [b"hello".as_slice(), b"one"]);
    assert_eq!(store.run(&run.run.key()).await.expect("run").steps, 1);
}

#[tokio::test]
async fn a_run_of_an_ended_process_is_claimed_at_once() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let store = SqliteStore::open(&path).expect("open");
    let run = start(&store, &thread("a"), b"hello").await.expect("start");
    assert!(store.claim(&worker(), None, 10).await.expect("claim").is_empty());
    drop(store);

    let store = SqliteStore::open(&path).expect("open again");
    let old = step(&store, &run, 1, b"late").await;
    assert!(matches!(old, Err(StoreError::Fenced)), "{old:?}");
    let claimed = store.claim(&worker(), None, 10).await.expect("claim");
    let found: Vec<_> = claimed.iter().map(|claimed| (claimed.run.run, claimed.run.epoch)).collect();
    assert_eq!(found, [(run.run.run, 2)]);
    assert_eq!(claimed[0].run.status, RunStatus::Running);
    assert!(store.claim(&worker(), None, 10).await.expect("claim").is_empty());
}

#[tokio::test]
async fn a_file_of_a_killed_process_is_read_with_its_log() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let key = thread("a");
    let store = SqliteStore::open(&path).expect("open");
    let run = start(&store, &key, b"hello").await.expect("start");
    step(&store, &run, 1, b"one").await.expect("step");
    // What a kill leaves: the file and its log, without anybody who closed them.
    let killed = folder.path().join("killed.db");
    fs::copy(&path, &killed).expect("copy");
    fs::copy(folder.path().join("doran.db-wal"), folder.path().join("killed.db-wal")).expect("copy");

    let store = SqliteStore::open(&killed).expect("open again");
    store.integrity_check().await.expect("whole");
    assert_eq!(store.thread(&key).await.expect("thread").head, 2);
    assert_eq!(store.claim(&worker(), None, 10).await.expect("claim").len(), 1);
}

#[tokio::test]
async fn a_store_that_is_closed_leaves_one_file() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let store = SqliteStore::open(&path).expect("open");
    start(&store, &thread("a"), b"hello").await.expect("start");
    store.thread(&thread("a")).await.expect("thread");
    drop(store);
    assert!(!folder.path().join("doran.db-wal").exists(), "the log is in the file");
}

#[test]
fn a_second_opener_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let first = SqliteStore::open(&path).expect("open");
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).expect("link");
    for way in [&path, &link] {
        let error = error_with_sources(&SqliteStore::open(way).expect_err("in use"));
        assert!(error.contains("doran.db` is in use by another process"), "{error}");
    }
    drop(first);
    SqliteStore::open(&path).expect("free again");
}

#[test]
fn an_empty_file_becomes_a_database() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    fs::write(&path, b"").expect("write");
    SqliteStore::open(&path).expect("open");
}

#[test]
fn a_text_file_is_refused_and_untouched() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("notes.txt");
    let text = "not a database\n".repeat(1000);
    fs::write(&path, &text).expect("write");
    let error = SqliteStore::open(&path).expect_err("text");
    assert!(matches!(error, StoreError::Damaged(_)), "{error:?}");
    assert!(
        error_with_sources(&error).contains("notes.txt` is not a SQLite database"),
        "{}",
        error_with_sources(&error)
    );
    assert_eq!(fs::read_to_string(&path).expect("read"), text);
}

#[test]
fn a_database_of_another_program_is_refused_and_untouched() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("other.db");
    let other = Connection::open(&path).expect("open");
    other.execute_batch("CREATE TABLE photos (id INTEGER)").expect("table");
    drop(other);
    let before = fs::read(&path).expect("read");
    let error = error_with_sources(&SqliteStore::open(&path).expect_err("foreign"));
    assert!(error.contains("other.db` is a database of another program"), "{error}");
    assert_eq!(fs::read(&path).expect("read"), before);
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let missing =
        error_with_sources(&SqliteStore::open(folder.path().join("no/doran.db")).expect_err("missing"));
    assert!(missing.contains("no/doran.db`"), "{missing}");
    let folder = error_with_sources(&SqliteStore::open(folder.path()).expect_err("folder"));
    assert!(folder.contains("is not a file"), "{folder}");
    let read_only = error_with_sources(&SqliteStore::open("/sys/doran.db").expect_err("read only"));
    assert!(read_only.contains("cannot write `/sys/doran.db.lock`"), "{read_only}");
}

#[tokio::test]
async fn an_address_opens_a_file_with_its_keeper() {
    let folder = tempfile::tempdir().expect("folder");
    let url = format!("sqlite:{}", folder.path().join("doran.db").display());
    let opened = doran_store::open(&url).await.expect("open");
    opened.file_maintenance.expect("a file has a keeper").integrity_check().await.expect("whole");
    assert!(doran_store::open("ram:").await.expect("open").file_maintenance.is_none());
    let error = doran_store::open("mysql://host/db").await.err().expect("unknown");
    assert!(error_with_sources(&error).contains("`mysql:` is no store"), "{}", error_with_sources(&error));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_whose_lock_file_was_removed_is_still_locked() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    for _ in ["a new file", "an old file"] {
        let store = SqliteStore::open(&path).expect("open");
        fs::remove_file(folder.path().join("doran.db.lock")).expect("removed");
        let second = SqliteStore::open(&path).expect_err("in use");
        assert!(error_with_sources(&second).contains("is in use by another process"), "{second:?}");
        drop(store);
    }
}

#[test]
fn a_log_without_its_database_is_not_thrown_away() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    fs::write(folder.path().join("doran.db-wal"), [7; 4096]).expect("a log");
    for empty in [false, true] {
        if empty {
            fs::write(&path, []).expect("an empty file");
        }
        let error = SqliteStore::open(&path).expect_err("refused");
        assert!(error_with_sources(&error).contains("doran.db-wal"), "{error:?}");
        assert_eq!(fs::metadata(folder.path().join("doran.db-wal")).expect("the log").len(), 4096);
    }
}

#[test]
fn a_file_whose_making_was_cut_off_by_a_crash_is_made_anew() {
    let folder = tempfile::tempdir().expect("folder");
    let (making, path) = (folder.path().join("making.db"), folder.path().join("doran.db"));
    let conn = Connection::open(&making).expect("open");
    // With so little memory SQLite writes pages to the file before the commit.
    conn.execute_batch("PRAGMA cache_size = 1; BEGIN; CREATE TABLE made (body BLOB);").expect("begin");
    for _ in 0..100 {
        conn.execute("INSERT INTO made VALUES (zeroblob(5000))", []).expect("row");
    }
    fs::copy(&making, &path).expect("the file as it is now");
    fs::copy(folder.path().join("making.db-journal"), folder.path().join("doran.db-journal"))
        .expect("its journal");
    SqliteStore::open(&path).expect("open");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_deleted_while_it_is_in_use_takes_no_more_writes() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("doran.db");
    let store = SqliteStore::open(&path).expect("open");
    start(&store, &thread("before"), b"in").await.expect("started");
    for end in ["", "-wal", "-shm"] {
        std::fs::remove_file(folder.path().join(format!("doran.db{end}"))).expect("removed");
    }
    let lost = match start(&store, &thread("after"), b"in").await {
        Err(error) => Err(error),
        Ok(claimed) => store.wait_until_durable(claimed.position).await,
    };
    assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
    assert!(store.wait_for_fatal_error().await.contains("deleted while the database was in use"));
}

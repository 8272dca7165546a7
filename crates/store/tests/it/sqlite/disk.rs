//! Disks that are full or fail. Each case runs in a process of its own, with a disk made for it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use doran_engine::store::{HistoryStore, StoreError};
use doran_store::FileStoreMaintenance;
use doran_store::sqlite::SqliteStore;

use super::{error_with_sources, start, step, thread};

/// Names the folder of the case to the process that runs it.
const FOLDER_VARIABLE: &str = "DORAN_TEST_FOLDER";

/// Runs the ignored test `name` of this module behind a shell command.
fn run_ignored_test(shell: &str, name: &str, folder: &Path) -> std::process::Output {
    let this = std::env::current_exe().expect("this program");
    let name = format!("sqlite::disk::{name}");
    let mut command = Command::new("sh");
    command.args(["-c", shell]).arg(this).args([&name, "--exact", "--ignored", "--nocapture"]);
    command.env(FOLDER_VARIABLE, folder).output().expect("sh")
}

fn expect_success(output: &std::process::Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER_VARIABLE).expect("run by another test"))
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let folder = tempfile::tempdir().expect("folder");
    let mount = "unshare -Urm sh -c 'mount -t tmpfs -o size=16m none \"$DORAN_TEST_FOLDER\"";
    let works =
        Command::new("sh").args(["-c", &format!("{mount}'")]).env(FOLDER_VARIABLE, folder.path()).status();
    if !works.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this machine does not let a test mount a small disk");
        return;
    }
    expect_success(&run_ignored_test(
        &format!("{mount}; exec \"$@\"' sh \"$0\" \"$@\""),
        "on_a_small_disk",
        folder.path(),
    ));
}

#[tokio::test]
#[ignore = "run by a_full_disk_refuses_writes_until_there_is_room"]
async fn on_a_small_disk() {
    let folder = folder();
    let ballast = folder.join("ballast");
    let store = SqliteStore::open(folder.join("doran.db")).expect("open");
    let key = thread("a");
    let run = start(&store, &key, b"hello").await.expect("start");
    let mut head = 1;
    for round in 0..10 {
        fill_disk(&ballast, 256 << 10);
        let refused = loop {
            match step(&store, &run, head, &[7; 20_000]).await {
                Ok(done) => head = done.head,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, StoreError::Full(_)), "round {round}: {refused:?}");
        store.integrity_check().await.expect("whole");
        let entries = store.entries(&key, head - 1, 10).await.expect("read");
        assert_eq!(entries.len(), 1, "what was accepted is there, what was refused is not");
        fs::remove_file(&ballast).expect("room");
        head = step(&store, &run, head, &[7; 20_000]).await.expect("there is room again").head;
    }
    drop(store);
    let store = SqliteStore::open(folder.join("doran.db")).expect("open again");
    assert_eq!(store.thread(&key).await.expect("thread").head, head);
}

/// Takes all room of the disk but `rest` bytes.
fn fill_disk(ballast: &Path, rest: u64) {
    let mut file = fs::File::create(ballast).expect("ballast");
    while file.write_all(&[0; 16 << 10]).is_ok() {}
    let size = file.metadata().expect("ballast").len();
    file.set_len(size.saturating_sub(rest)).expect("shrink");
}

#[test]
fn a_failed_write_stops_the_store() {
    let folder = tempfile::tempdir().expect("folder");
    // A file may grow to 400 kB; to write behind that is an error of the disk, since the signal is ignored.
    let output = run_ignored_test(
        "trap '' XFSZ; ulimit -f 800; exec \"$0\" \"$@\"",
        "on_a_failing_disk",
        folder.path(),
    );
    expect_success(&output);

    let store = SqliteStore::open(folder.path().join("doran.db")).expect("a new process goes on");
    let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("runtime");
    runtime.block_on(async {
        store.integrity_check().await.expect("whole");
        let head = store.thread(&thread("a")).await.expect("thread").head;
        let acknowledged: u64 =
            fs::read_to_string(folder.path().join("head")).expect("read").parse().expect("number");
        assert!(head == acknowledged || head == acknowledged + 1, "{head} of {acknowledged}");
    });
}

#[tokio::test]
#[ignore = "run by a_failed_write_stops_the_store"]
async fn on_a_failing_disk() {
    let folder = folder();
    let store = SqliteStore::open(folder.join("doran.db")).expect("open");
    let key = thread("a");
    let run = start(&store, &key, b"hello").await.expect("start");
    let mut head = 1;
    let failed = loop {
        match step(&store, &run, head, &[7; 2000]).await {
            Ok(done) => head = done.head,
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, StoreError::Unknown(_)), "{failed:?}");
    let why = store.wait_for_fatal_error().await;
    assert!(why.contains("disk I/O error"), "{why}");
    for error in [
        step(&store, &run, head, b"again").await.expect_err("stopped"),
        store.thread(&key).await.expect_err("stopped"),
    ] {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        assert!(error_with_sources(&error).contains("must be restarted"), "{}", error_with_sources(&error));
    }
    fs::write(folder.join("head"), head.to_string()).expect("write");
}

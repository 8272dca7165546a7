//! Files that were attached to conversations which a retention setting deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use doran_engine::store::Retention;

use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

/// The originals of documents below a directory that contain this word.
fn originals_with(directory: &Path, word: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(originals_with(&path, word));
        } else if entry.file_name().to_string_lossy().starts_with("original-")
            && fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(word))
        {
            found.push(path);
        }
    }
    found
}

fn database_below(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let file = files.into_iter().find(|path| path.ends_with("doran.db"));
    file.or_else(|| folders.iter().find_map(|folder| database_below(folder)))
}

/// A string of a JSON answer.
fn field(answer: &str, name: &str) -> String {
    let value = answer.split(&format!("\"{name}\":\"")).nth(1).and_then(|rest| rest.split('"').next());
    value.unwrap_or_else(|| panic!("no `{name}` in {answer}")).to_owned()
}

/// Waits until something holds, with a limit that only a broken program reaches.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Attaches a file with this word to a new conversation.
fn attach(server: &ServerProcess, word: &str) {
    let thread = field(&server.request("POST /api/threads", "{}"), "id");
    let path = format!("POST /api/documents?name={word}.md&thread={thread}");
    let document =
        field(&server.request(&path, &format!("# 메모\n\n{word}의 참가비는 73,500원이다.\n")), "id");
    let state = format!("GET /api/documents/{document}?thread={thread}");
    wait_until("the file is read", || server.request(&state, "").contains("\"ready\""));
}

/// Deletes every conversation, as the retention of a server does that stops right after it.
fn delete_conversations(here: &Path) {
    let database = database_below(here).expect("a database");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let opened = doran_store::open(&format!("sqlite:{}", database.display())).await.expect("a store");
        let retention = Retention { idle_threads: Some(Duration::ZERO), ..Retention::default() };
        let mut deleted = 0;
        let started = Instant::now();
        while deleted == 0 {
            assert!(started.elapsed() < Duration::from_secs(60), "no conversation is deleted");
            // A conversation of this very millisecond is not idle yet.
            tokio::time::sleep(Duration::from_millis(20)).await;
            deleted = opened.store.gc(&retention).await.expect("deleted").threads;
        }
    });
}

#[test]
fn attachments_of_conversations_that_retention_deleted_are_deleted_too() {
    let here = fresh_directory("attachments-retention");
    let server = ServerProcess::start(&here, None);
    attach(&server, "halla");
    assert!(server.stop().0.success());
    assert_eq!(originals_with(&here, "halla").len(), 1);
    delete_conversations(&here);
    // A server deletes them, and only those.
    let server = ServerProcess::start(&here, None);
    attach(&server, "udo");
    wait_until("the server deletes the file", || originals_with(&here, "halla").is_empty());
    assert_eq!(originals_with(&here, "udo").len(), 1, "its conversation is there");
    assert!(server.stop().0.success());
    // `doran gc` does so too.
    let kept = run_doran(&here, &["gc"], "");
    assert!(
        kept.status.success() && utf8(&kept.stderr).contains("0 attached files"),
        "{}",
        utf8(&kept.stderr)
    );
    assert_eq!(originals_with(&here, "udo").len(), 1, "its conversation is still there");
    delete_conversations(&here);
    let deleted = run_doran(&here, &["gc"], "");
    assert!(utf8(&deleted.stderr).contains("1 attached files"), "{}", utf8(&deleted.stderr));
    assert!(originals_with(&here, "udo").is_empty());
}

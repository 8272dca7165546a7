//! `doran reindex`: beside another process that has the library, and with an index in OpenSearch that was deleted or has other
//! documents.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::opensearch_node::OpenSearchNode;
use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn nothing_is_made_anew_while_somebody_has_the_library() {
    let here = fresh_directory("reindex");
    let library = here.join("data/library");
    fs::create_dir_all(&library).expect("a directory");
    let lock = File::create(library.join("lock")).expect("a lock");
    lock.lock().expect("taken");
    let refused = run_doran(&here, &["reindex", "--data-dir", "data"], "");
    let text = utf8(&refused.stderr);
    assert!(!refused.status.success() && text.contains("another process has it open"), "{text}");
    assert!(!here.join("data/search").exists(), "the index was touched");
    drop(lock);
    let done = run_doran(&here, &["reindex", "--data-dir", "data"], "");
    assert!(done.status.success() && here.join("data/search").is_dir(), "{}", utf8(&done.stderr));
}

/// Sends a request to OpenSearch. Returns the whole answer.
fn ask(node: &OpenSearchNode, head: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(node.address().trim_start_matches("http://")).expect("a node");
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn an_opensearch_index_is_made_from_the_library_after_a_restore_and_after_it_was_deleted() {
    let here = fresh_directory("reindex-opensearch");
    let Some(node) = OpenSearchNode::start(&here.join("node")) else { return };
    let command = |args: &[&str]| {
        let mut command = doran_command(&here, args);
        command.env("DORAN_STORE", "opensearch").env("DORAN_ENCODER", "none");
        command.env("DORAN_OPENSEARCH", format!("{}/team", node.address()));
        command
    };
    let run = |args: &[&str]| {
        let output = command(args).output().expect("the program ends");
        (output.status.success(), utf8(&output.stdout) + &utf8(&output.stderr))
    };
    let succeed = |args: &[&str]| {
        let (is_well, text) = run(args);
        assert!(is_well, "{args:?}: {text}");
        text
    };
    fs::write(here.join("rule.md"), "휴가는 15일이다.").expect("written");
    fs::write(here.join("late.md"), "퇴근은 6시다.").expect("written");
    succeed(&["ingest", "rule.md"]);
    succeed(&["backup", "older.zip"]);
    succeed(&["ingest", "late.md"]);
    assert!(succeed(&["search", "퇴근"]).contains("6시"));
    fs::remove_dir_all(here.join(".local/share/doran")).expect("removed");
    succeed(&["restore", "older.zip"]);
    assert!(succeed(&["reindex", "--lang", "en"]).contains("made anew: 1 document,"));
    assert!(!run(&["search", "퇴근"]).1.contains("6시"));
    assert!(succeed(&["search", "휴가"]).contains("15일"));

    let server = ServerProcess::spawn(command(&["serve", "--port", "0"]));
    succeed(&["doctor", "--ready"]);
    let index = ask(&node, "GET /_alias/team", "");
    let index = index.split('"').find(|part| part.starts_with("team-")).expect("an index").to_owned();
    assert!(ask(&node, &format!("DELETE /{index}"), "").contains("acknowledged"));
    let started = Instant::now();
    while !server.request("GET /api/search?q=%ED%9C%B4%EA%B0%80", "").contains("15일") {
        assert!(started.elapsed() < PATIENCE, "the server does not fill the index");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(server.request("GET /readyz", "").contains(" 200 "));
    assert!(server.stop().0.success());
    assert!(!run(&["doctor", "--ready", "--listen", "127.0.0.1:1"]).0, "nobody answers");

    // An index of somebody else has the name, and so no alias can have it.
    assert!(ask(&node, "DELETE /team-1", "").contains("acknowledged"));
    assert!(ask(&node, "POST /team/_doc?refresh=true", r#"{"of":"somebody else"}"#).contains(" 201 "));
    for (language, words) in [("en", "send `DELETE /team`"), ("ko", "`DELETE /team`를 보내 지우고")] {
        let (is_well, text) = run(&["reindex", "--lang", language]);
        assert!(!is_well && text.contains(words), "{text}");
    }
    assert!(ask(&node, "DELETE /team", "").contains("acknowledged"));
    assert!(succeed(&["reindex", "--lang", "en"]).contains("made anew: 1 document,"));
    fs::remove_dir_all(here).ok();
}

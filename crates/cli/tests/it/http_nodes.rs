//! Nodes that programs with FastAPI and Spring Boot serve, and Doran killed while they work.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::program::{ServerProcess, fresh_directory};

/// A Python with FastAPI, or a loud word about it.
fn fastapi_python() -> Option<PathBuf> {
    let named = std::env::var_os("DORAN_TEST_MCP_PYTHON").filter(|path| !path.is_empty()).map(PathBuf::from);
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.parts/mcp-venv/bin/python");
    let python = named.unwrap_or(made);
    let has_fastapi = Command::new(&python)
        .args(["-c", "import fastapi, uvicorn"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_fastapi {
        assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "FastAPI is required");
        println!("SKIPPED: no FastAPI; run ./x test mcp / FastAPI가 없음, ./x test mcp로 실행하세요");
    }
    has_fastapi.then_some(python)
}

/// The program. Dropped, it is killed.
struct NodeProgram {
    child: Child,
    port: u16,
}

impl NodeProgram {
    fn start(python: &Path, folder: &Path) -> Self {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http_node/program.py");
        let child = Command::new(python)
            .arg(script)
            .args([port.to_string(), folder.display().to_string()])
            .stdin(Stdio::null())
            .spawn()
            .expect("the program starts");
        let program = Self { child, port };
        until("the program listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        program
    }
}

impl Drop for NodeProgram {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it did not come about: {what}");
}

fn calls(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn json_body(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|_| panic!("not JSON: {answer}"))
}

/// Starts a run, kills Doran while the program works on its node, lets the program answer, and starts Doran again.
fn kill_during_call(name: &str, once: bool) -> Option<(PathBuf, NodeProgram, ServerProcess)> {
    let python = fastapi_python()?;
    let here = fresh_directory(name);
    let program = NodeProgram::start(&python, &here);
    let agents = here.join("data/agents");
    std::fs::create_dir_all(&agents).expect("a directory");
    let file = format!(
        r#"
name = "scored"
en = "scores"
ko = "점수"
start = "score"

[[node]]
name = "score"
use = "http"
http = {{ url = "http://127.0.0.1:{}/slow", private = true, once = {once}, timeout_seconds = 300 }}
then = "answer"

[[node]]
name = "answer"
use = "respond"
text = "{{{{ values.score.asked }}}}: {{{{ values.score.score }}}}"
then = "end"
"#,
        program.port
    );
    std::fs::write(agents.join("scored.toml"), file).expect("written");
    let flags = ["--port", "0", "--data-dir", "data"];
    let mut server = ServerProcess::start_with(&here, &flags);
    let body = r#"{"agent":"scored","message":"몇 점?"}"#;
    let mut socket = TcpStream::connect(&server.address).expect("connected");
    let head = format!(
        "POST /api/threads/t/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).expect("sent");
    until("the program is called", || calls(&here).len() == 1);
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    std::fs::write(here.join("release"), "").expect("written");
    Some((here.clone(), program, ServerProcess::start_with(&here, &flags)))
}

fn run_status(server: &ServerProcess) -> (String, Value) {
    let runs = json_body(&server.request("GET /api/threads/t/runs", ""));
    let run = runs["runs"][0].clone();
    (run["status"].as_str().unwrap_or_default().to_owned(), run)
}

#[test]
fn a_node_that_was_cut_off_is_called_once_more_under_the_same_key() {
    let Some((here, _program, server)) = kill_during_call("http-node-again", false) else { return };
    until("the run ends", || run_status(&server).0 == "finished");
    let calls = calls(&here);
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0], calls[1], "the program can tell that it is the same call");
    let said = server.request("GET /api/threads/t/messages", "");
    assert!(said.contains("몇 점?: 7"), "{said}");
}

#[test]
fn a_node_that_happens_once_is_not_called_again() {
    let Some((here, _program, server)) = kill_during_call("http-node-once", true) else { return };
    until("the run asks", || run_status(&server).0 == "paused");
    let run = run_status(&server).1["id"].as_str().expect("an id").to_owned();
    let shown = json_body(&server.request(&format!("GET /api/threads/t/runs/{run}"), ""));
    let question = &shown["questions"][0];
    assert_eq!(question["kind"], "effect_unknown", "{shown}");
    let answers = serde_json::json!({ "answers": {
        question["id"].as_str().expect("an id"): { "result": { "score": 7, "asked": "사람이 확인함" } } } });
    server.request(&format!("POST /api/threads/t/runs/{run}/resume"), &answers.to_string());
    until("the run ends", || run_status(&server).0 == "finished");
    assert_eq!(calls(&here).len(), 1, "{:?}", calls(&here));
    let said = server.request("GET /api/threads/t/messages", "");
    assert!(said.contains("사람이 확인함: 7"), "{said}");
}

/// Stands between Doran and a program: the first answer of the program is held back until whoever asked is gone.
struct HoldingProxy {
    port: u16,
    /// The idempotency keys of the calls.
    calls: Arc<Mutex<Vec<String>>>,
}

impl HoldingProxy {
    fn start(program: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = calls.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = seen.clone();
                std::thread::spawn(move || Self::pass_on(stream, program, &seen));
            }
        });
        Self { port, calls }
    }

    fn pass_on(mut caller: TcpStream, program: u16, calls: &Mutex<Vec<String>>) {
        let mut reader = BufReader::new(caller.try_clone().expect("a socket"));
        let (mut head, mut length, mut key) = (String::new(), 0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            let lower = line.trim().to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if let Some(value) = lower.strip_prefix("idempotency-key:") {
                key = value.trim().to_owned();
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let mut far = TcpStream::connect(("127.0.0.1", program)).expect("connected");
        far.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).expect("sent");
        far.write_all(&body).expect("sent");
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).expect("an answer");
        let is_first = {
            let mut calls = calls.lock().expect("no panic");
            calls.push(key);
            calls.len() == 1
        };
        if is_first {
            // The program has done its work, and Doran will not hear of it.
            reader.read_exact(&mut [0]).ok();
        } else {
            caller.write_all(&answer).ok();
        }
    }
}

/// The example with Spring Boot as a node, and Doran killed before it hears what the node answered.
fn kill_before_answer(name: &str, once: bool) -> Option<(ServerProcess, HoldingProxy, NodeProgram)> {
    let jar = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.parts/spring/spring-boot-node.jar");
    if !jar.exists() {
        assert!(
            std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"),
            "the node with Spring Boot is required"
        );
        println!(
            "SKIPPED: no node with Spring Boot; run ./x test clients / Spring Boot 노드가 없음, ./x test clients로 실행하세요"
        );
        return None;
    }
    let here = fresh_directory(name);
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let child = Command::new("java")
        .args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar"])
        .arg(&jar)
        .arg(format!("--server.port={port}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let program = NodeProgram { child, port };
    until("the program listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let proxy = HoldingProxy::start(port);
    let example = include_str!("../../../../examples/http-node/credit.toml");
    let (address, ours) = ("http://127.0.0.1:8000", format!("http://127.0.0.1:{}", proxy.port));
    assert!(example.contains(address) && example.contains("private = true"), "{example}");
    let file =
        example.replace(address, &ours).replace("private = true", &format!("private = true\nonce = {once}"));
    let agents = here.join("data/agents");
    std::fs::create_dir_all(&agents).expect("a directory");
    std::fs::write(agents.join("credit.toml"), file).expect("written");
    let flags = ["--port", "0", "--data-dir", "data"];
    let mut server = ServerProcess::start_with(&here, &flags);
    let body = r#"{"agent":"credit","message":"Kim?"}"#;
    let mut socket = TcpStream::connect(&server.address).expect("connected");
    let head = format!(
        "POST /api/threads/t/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(head.as_bytes()).expect("sent");
    until("the program answered", || proxy.calls.lock().expect("no panic").len() == 1);
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    Some((ServerProcess::start_with(&here, &flags), proxy, program))
}

#[test]
fn a_node_with_spring_boot_is_called_once_more_under_the_same_key() {
    let Some((server, proxy, _program)) = kill_before_answer("spring-node-again", false) else { return };
    until("the run ends", || run_status(&server).0 == "finished");
    let calls = proxy.calls.lock().expect("no panic").clone();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0], calls[1], "the program can tell that it is the same call");
    let said = server.request("GET /api/threads/t/messages", "");
    // The bytes of `Kim`.
    assert!(said.contains("Kim") && said.contains("89"), "{said}");
}

#[test]
fn a_node_with_spring_boot_that_happens_once_is_not_called_again() {
    let Some((server, proxy, _program)) = kill_before_answer("spring-node-once", true) else { return };
    until("the run asks", || run_status(&server).0 == "paused");
    assert_eq!(proxy.calls.lock().expect("no panic").len(), 1);
}

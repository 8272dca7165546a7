//! Nodes that programs with FastAPI, Spring Boot and Node.js serve, and Doran killed while they work.

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
        let port = free_port();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http_node/program.py");
        let mut command = Command::new(python);
        command.arg(script).args([port.to_string(), folder.display().to_string()]);
        Self::spawn(command, port)
    }

    fn spawn(mut command: Command, port: u16) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let program = Self { child, port };
        until("the program listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        program
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port()
}

/// The programs in `examples/http-node`. They do the same.
#[derive(Clone, Copy, Debug)]
enum ExampleProgram {
    SpringBoot,
    FastApi,
    NodeJs,
}

impl ExampleProgram {
    /// Starts it. `None`: skipped, in words.
    fn start(self) -> Option<NodeProgram> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (port, folder) = (free_port(), root.join("examples/http-node"));
        let command = match self {
            Self::SpringBoot => {
                let jar = root.join(".parts/spring/spring-boot-node.jar");
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
                let mut command = Command::new("java");
                command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar"]).arg(&jar);
                command.arg(format!("--server.port={port}"));
                command
            }
            Self::FastApi => {
                let mut command = Command::new(fastapi_python()?);
                command.args(["-B", "-m", "uvicorn", "main:app", "--port", &port.to_string()]);
                command.current_dir(folder.join("fastapi"));
                command
            }
            Self::NodeJs => {
                if !Command::new("node").arg("--version").output().is_ok_and(|node| node.status.success()) {
                    assert!(
                        std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"),
                        "Node.js is required"
                    );
                    println!("SKIPPED: no Node.js / Node.js가 없음");
                    return None;
                }
                let mut command = Command::new("node");
                command.arg(folder.join("node/server.mjs")).env("PORT", port.to_string());
                command
            }
        };
        Some(NodeProgram::spawn(command, port))
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
    let messages = server.request("GET /api/threads/t/messages", "");
    assert!(messages.contains("몇 점?: 7"), "{messages}");
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
    let messages = server.request("GET /api/threads/t/messages", "");
    assert!(messages.contains("사람이 확인함: 7"), "{messages}");
}

/// Stands between Doran and a program: the first answer of the program is held back until its client is gone.
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

/// The example with this program as a node, and Doran killed before it hears what the node answered.
fn kill_before_answer(
    example: ExampleProgram,
    once: bool,
) -> Option<(ServerProcess, HoldingProxy, NodeProgram)> {
    let program = example.start()?;
    let here = fresh_directory(&format!("example-{example:?}-{once}"));
    let proxy = HoldingProxy::start(program.port);
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
fn a_program_of_the_examples_is_called_once_more_under_the_same_key() {
    for example in [ExampleProgram::SpringBoot, ExampleProgram::FastApi, ExampleProgram::NodeJs] {
        let Some((server, proxy, _program)) = kill_before_answer(example, false) else { continue };
        until("the run ends", || run_status(&server).0 == "finished");
        let calls = proxy.calls.lock().expect("no panic").clone();
        assert_eq!(calls.len(), 2, "{example:?}: {calls:?}");
        assert_eq!(calls[0], calls[1], "{example:?}: the program can tell that it is the same call");
        let messages = server.request("GET /api/threads/t/messages", "");
        // The bytes of `Kim`.
        assert!(messages.contains("Kim") && messages.contains("89"), "{example:?}: {messages}");
    }
}

#[test]
fn a_program_of_the_examples_that_is_called_once_is_not_called_again() {
    for example in [ExampleProgram::SpringBoot, ExampleProgram::FastApi, ExampleProgram::NodeJs] {
        let Some((server, proxy, _program)) = kill_before_answer(example, true) else { continue };
        until("the run asks", || run_status(&server).0 == "paused");
        assert_eq!(proxy.calls.lock().expect("no panic").len(), 1, "{example:?}");
    }
}

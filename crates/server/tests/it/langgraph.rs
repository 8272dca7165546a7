//! LangGraph's API: its own client gets from the example's graphs what LangGraph's server answers for the same graphs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, header};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_server::{RateLimit, ServerApp, ServerLimits};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::socket::start_server_with;
use crate::third_party_clients::{PYTHON, optional_program, report_missing};
use crate::{app, get, json, json_request, post, problem, send, text, two_keys, until, with_key_of};

mod client_messages;
mod damaged_metadata;
mod deleted_threads;
mod described_agents;
mod events;
mod hooks;
mod lists;
mod missing_graphs;
mod resources;
mod resumed_streams;
mod several_graphs;

#[path = "../../examples/four_graphs.rs"]
#[allow(dead_code, reason = "the example has a `main`")]
mod four_graphs;

fn four_graphs_app() -> ServerApp {
    four_graphs_app_and_runtime().0
}

fn four_graphs_app_and_runtime() -> (ServerApp, Runtime) {
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    let graphs = four_graphs::graphs().expect("sound graphs");
    for graph in &graphs {
        graph.register(&runtime).expect("registered");
    }
    let rate = RateLimit { per_minute: 1e9, burst: 1e9 };
    let limits = ServerLimits { rate_limit: rate, ..ServerLimits::default() };
    (ServerApp::new(runtime.clone(), store, graphs).limits(limits), runtime)
}

fn client_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// A Python that has this module, or a loud word about it. The variable and the place are those of its environment.
async fn python_with(module: &str, (variable, place): (&str, &str)) -> Option<PathBuf> {
    let (en, ko) = (format!("no `{module}` for Python"), format!("Python용 `{module}`이(가) 없음"));
    let python = optional_program(variable, place, &en, &ko)?;
    let mut command = Command::new(&python);
    command.args(["-c", &format!("import {module}")]).stdin(Stdio::null()).stderr(Stdio::null());
    if command.status().await.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    report_missing(&en, &ko);
    None
}

/// How long the client script may take. LangGraph's server needs about a minute for it, Doran a few seconds.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(300);

/// What the client script prints against a server.
async fn transcript(python: &Path, base: &str) -> Vec<String> {
    let mut command = Command::new(python);
    command.arg(client_file("langgraph_client.py")).arg(base).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(CLIENT_TIMEOUT, command.output()).await;
    let output = output.expect("the client ends in time").expect("the client starts");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{error}");
    out.lines().map(str::to_owned).collect()
}

/// What LangGraph's server answered.
const TRANSCRIPT: &str = "langgraph_transcript.jsonl";

fn check_transcript(lines: &[String]) {
    let path = client_file(TRANSCRIPT);
    if std::env::var_os("DORAN_UPDATE_LANGGRAPH").is_some() {
        std::fs::write(&path, lines.join("\n") + "\n").expect("written");
    }
    let known = std::fs::read_to_string(&path).expect("the transcript");
    let known: Vec<&str> = known.lines().collect();
    let mut wrong = Vec::new();
    for (line, known) in lines.iter().zip(&known) {
        if line != known {
            wrong.push(format!("got  {line}\nwant {known}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(lines.len(), known.len(), "steps of the script");
}

#[tokio::test(flavor = "multi_thread")]
async fn langgraphs_client_gets_what_langgraphs_server_answers() {
    let Some(python) = python_with("langgraph_sdk", PYTHON).await else { return };
    let (address, _stop, _serving) = start_server_with(four_graphs_app()).await;
    check_transcript(&transcript(&python, &format!("http://{address}")).await);
}

/// The transcript is what LangGraph's server answers: it is compared with that server where it is installed.
#[tokio::test(flavor = "multi_thread")]
async fn the_transcript_is_what_langgraphs_server_answers() {
    let made = ("DORAN_TEST_LANGGRAPH_PYTHON", "langgraph-venv/bin/python");
    let Some(python) = python_with("langgraph_api", made).await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["langgraph.json", "langgraph_graphs.py"] {
        std::fs::copy(client_file(name), folder.path().join(name)).expect("copied");
    }
    let port = free_port();
    let program = python.parent().expect("a folder").join("langgraph");
    let mut server = Command::new(program);
    server.args([
        "dev",
        "--no-browser",
        "--no-reload",
        "--n-jobs-per-worker",
        "8",
        "--port",
        &port.to_string(),
    ]);
    server
        .current_dir(folder.path())
        .env("LANGSMITH_TRACING", "false")
        .env("LANGGRAPH_CLI_NO_ANALYTICS", "1");
    let log = folder.path().join("log");
    let server = server.stdin(Stdio::null()).stdout(Stdio::null());
    let server = server.stderr(std::fs::File::create(&log).expect("a file"));
    let mut running = server.kill_on_drop(true).spawn().expect("`langgraph dev` starts");
    // It loads many modules, which takes long on a machine that has other work.
    let listens = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        ended = running.wait() => {
            panic!("`langgraph dev` ended: {ended:?}\n{}", std::fs::read_to_string(&log).unwrap_or_default())
        }
        listening = tokio::time::timeout(CLIENT_TIMEOUT, listens) => listening.expect("`langgraph dev` listens"),
    }
    check_transcript(&transcript(&python, &format!("http://127.0.0.1:{port}")).await);
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn hi() -> Value {
    json!({ "messages": [{ "role": "user", "content": "hi" }] })
}

async fn new_thread(app: &ServerApp) -> String {
    let thread = json(app, post("/threads", "{}")).await;
    thread["thread_id"].as_str().expect("an id").to_owned()
}

/// What is not supported is rejected, and the field is named.
#[tokio::test]
async fn a_field_that_is_not_supported_is_named() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    for (field, value) in [
        ("webhook", json!("https://example.com")),
        ("after_seconds", json!(5)),
        ("feedback_keys", json!(["a"])),
        ("checkpoint_during", json!(true)),
        ("durability", json!("exit")),
        ("stream_mode", json!(["events"])),
        ("tenant_id", json!("b")),
        ("config", json!({ "configurable": { "checkpoint_id": 3 } })),
        ("config", json!({ "tags": ["x"] })),
        ("command", json!({ "goto": [{ "node": "model", "timeout": 3 }] })),
        ("checkpoint", json!({ "checkpoint_ns": "inner" })),
        ("checkpoint_id", json!("x")),
        ("metadata", json!({ "doran": 1 })),
        ("on_completion", json!("keep")),
    ] {
        let mut body = json!({ "assistant_id": "chat", "input": hi() });
        body[field] = value;
        let path = format!("/threads/{thread}/runs/wait");
        let response = send(&app, post(&path, &body.to_string())).await;
        let status = response.status().as_u16();
        let response_text = text(response).await;
        assert_eq!(status, 422, "{field}: {response_text}");
        assert!(response_text.contains(&format!("`{field}")), "{field}: {response_text}");
    }
    let runs = json(&app, get(&format!("/threads/{thread}/runs"))).await;
    assert_eq!(runs, json!([]), "nothing was started");
}

/// A chat takes its messages and what the documentation names, and says so.
#[tokio::test]
async fn a_chat_takes_the_documented_fields_of_an_input() {
    let app = app();
    for field in ["foo", "chosen", "system", "request", "earlier", "following", "images", "contractId"] {
        let mut input = hi();
        input[field] = json!(null);
        let body = json!({ "assistant_id": "assistant", "input": input }).to_string();
        let response = send(&app, post("/runs/wait", &body)).await;
        let (status, response_text) = (response.status().as_u16(), text(response).await);
        assert_eq!(status, 422, "{field}: {response_text}");
        assert!(response_text.contains(&format!("there is no field `{field}`")), "{response_text}");
        assert!(response_text.contains("there are `messages`, `collection`, `document`"), "{response_text}");
    }
    let mut input = hi();
    input["document"] = json!("연차휴가는 15일입니다.");
    input["collection"] = json!(null);
    let body = json!({ "assistant_id": "assistant", "input": input }).to_string();
    let response = send(&app, post("/runs/wait", &body)).await;
    let (status, response_text) = (response.status().as_u16(), text(response).await);
    assert_eq!(status, 200, "{response_text}");
}

/// A route of LangGraph's API that there is not says so.
#[tokio::test]
async fn a_route_that_is_not_supported_is_named() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    for (path, start) in [
        ("/assistants/chat/nope".to_owned(), "/assistants"),
        ("/store/nope".to_owned(), "/store"),
        ("/a2a/chat".to_owned(), "/a2a"),
        (format!("/threads/{thread}/nope"), "/threads"),
    ] {
        let response = send(&app, post(&path, "{}")).await;
        let status = response.status().as_u16();
        let response_text = text(response).await;
        assert_eq!(status, 404, "{path}: {response_text}");
        assert!(
            response_text.contains(&format!("`{start}`")) && response_text.contains("not supported"),
            "{path}: {response_text}"
        );
    }
    for (method, path) in [("put", "/assistants/chat"), ("post", "/threads/prune")] {
        assert_eq!(problem(&app, json_request(method, path, "{}")).await, "405 method_not_allowed", "{path}");
    }
}

/// What no store takes is not looked for either.
#[tokio::test]
async fn a_search_for_what_cannot_be_stored_is_named() {
    let app = four_graphs_app();
    for path in ["/threads/search", "/threads/count"] {
        let body = json!({ "metadata": { "a": "\0" } }).to_string();
        let response = send(&app, post(path, &body)).await;
        let (status, response_text) = (response.status().as_u16(), text(response).await);
        assert!(status == 422 && response_text.contains("`metadata`"), "{path}: {status} {response_text}");
    }
}

/// The id of the run, and its thread, that an answer tells of.
fn run_of(response: &Response<Body>) -> (String, String) {
    let path = response.headers()[header::CONTENT_LOCATION].to_str().expect("text");
    let mut parts = path.split('/').skip(2).step_by(2);
    (parts.next().expect("a thread").to_owned(), parts.next().expect("a run").to_owned())
}

/// Metadata are shown with the run; a run without a thread leaves one behind only if it is asked to; and a run whose client
/// goes away ends if that was wanted.
#[tokio::test]
async fn a_run_has_metadata_and_an_end_that_its_client_chooses() {
    let app = four_graphs_app();
    for keep in [true, false] {
        let mut body = json!({ "assistant_id": "chat", "input": hi(), "metadata": { "colour": "blue" } });
        if keep {
            body["on_completion"] = json!("keep");
        }
        let response = send(&app, post("/runs/wait", &body.to_string())).await;
        let (thread, run) = run_of(&response);
        assert_eq!(response.status(), 200);
        if keep {
            let run = json(&app, get(&format!("/threads/{thread}/runs/{run}"))).await;
            assert_eq!(run["metadata"]["colour"], "blue", "{run}");
        } else {
            until(async || send(&app, get(&format!("/threads/{thread}"))).await.status() == 404).await;
        }
    }
    let thread = new_thread(&app).await;
    let body = json!({ "assistant_id": "slow", "input": {}, "on_disconnect": "cancel" }).to_string();
    let response = send(&app, post(&format!("/threads/{thread}/runs/stream"), &body)).await;
    let (_, run) = run_of(&response);
    let mut events = response.into_body().into_data_stream();
    events.next().await.expect("an event").expect("bytes");
    drop(events);
    let path = format!("/threads/{thread}/runs/{run}");
    until(async || json(&app, get(&path)).await["status"] == "interrupted").await;
}

/// Threads of LangGraph's clients are called like all others by their first question; their metadata stay those of the client.
#[tokio::test]
async fn a_thread_is_called_by_its_first_question() {
    let app = four_graphs_app();
    let ask = async |thread: &str, assistant: &str, input: Value| {
        let body = json!({ "assistant_id": assistant, "input": input }).to_string();
        assert_eq!(send(&app, post(&format!("/threads/{thread}/runs/wait"), &body)).await.status(), 200);
    };
    let title =
        async |thread: &str| json(&app, get(&format!("/api/threads/{thread}"))).await["title"].clone();
    let thread = new_thread(&app).await;
    assert_eq!(title(&thread).await, "");
    let spoken = json!([
        { "role": "system", "content": "Be kind." },
        { "type": "human", "content": [{ "type": "text", "text": "\n연차는 며칠인가요?\n둘째 줄" }] },
        { "role": "user", "content": "그리고?" },
    ]);
    ask(&thread, "chat", json!({ "messages": spoken })).await;
    ask(&thread, "chat", hi()).await;
    assert_eq!(title(&thread).await, "연차는 며칠인가요?");
    let shown = json(&app, get(&format!("/threads/{thread}"))).await;
    let mut names: Vec<&String> = shown["metadata"].as_object().expect("an object").keys().collect();
    names.sort();
    assert_eq!(names, ["assistant_id", "graph_id"], "{shown}");
    // A title that a client or a person gave stays.
    let named = json(&app, post("/threads", r#"{"metadata":{"title":"나의 것"}}"#)).await;
    let named = named["thread_id"].as_str().expect("an id");
    ask(named, "chat", hi()).await;
    assert_eq!(title(named).await, "나의 것");
    let renamed = json_request("PATCH", &format!("/api/threads/{thread}"), r#"{"title":"휴가"}"#);
    assert_eq!(json(&app, renamed).await["title"], "휴가");
    // A graph that is no chat has no question.
    let state = new_thread(&app).await;
    let body = json!({ "assistant_id": "slow", "input": {} }).to_string();
    assert_eq!(send(&app, post(&format!("/threads/{state}/runs"), &body)).await.status(), 200);
    assert_eq!(title(&state).await, "slow");
}

/// `command.goto` leaves what was due behind; a node that there is not is named.
#[tokio::test]
async fn a_command_goes_to_nodes() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let path = format!("/threads/{thread}/runs/wait");
    let asked = json!({ "assistant_id": "hitl", "input": hi() }).to_string();
    assert!(json(&app, post(&path, &asked)).await.get("__interrupt__").is_some());
    let goto = |goto: Value| json!({ "assistant_id": "hitl", "command": { "goto": goto } }).to_string();
    let response = send(&app, post(&path, &goto(json!("ghost")))).await;
    let (status, response_text) = (response.status().as_u16(), text(response).await);
    assert!(
        status == 422 && response_text.contains("`command.goto`") && response_text.contains("ghost"),
        "{status} {response_text}"
    );
    let with_resume = json!({ "assistant_id": "hitl", "command": { "goto": "reply", "resume": "x" } });
    let response_text = text(send(&app, post(&path, &with_resume.to_string())).await).await;
    assert!(response_text.contains("`command.goto`"), "{response_text}");
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!(state["next"], json!(["ask"]), "it still waits");
    let ended = json(&app, post(&path, &goto(json!(["reply"])))).await;
    assert_eq!(ended["messages"][1]["content"], "you said ", "{ended}");
    // To the end, nothing is due any more.
    assert!(json(&app, post(&path, &asked)).await.get("__interrupt__").is_some());
    json(&app, post(&path, &goto(json!("__end__")))).await;
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!((&state["next"], &state["interrupts"]), (&json!([]), &json!([])), "{state}");
    // A thread that a command makes stands at its target.
    let command = json!({ "update": { "answer": "yes" }, "goto": "reply" });
    let made = json!({ "assistant_id": "hitl", "command": command, "if_not_exists": "create" });
    let ended = json(&app, post("/threads/made-by-command/runs/wait", &made.to_string())).await;
    assert_eq!(ended["messages"][0]["content"], "you said yes", "{ended}");
    let stateless = json!({ "assistant_id": "hitl", "command": command });
    let ended = json(&app, post("/runs/wait", &stateless.to_string())).await;
    assert_eq!(ended["messages"][0]["content"], "you said yes", "{ended}");
    assert!(ended.get("__interrupt__").is_none(), "{ended}");
}

/// The state may be changed while a run waits: the run goes on waiting, and its answer finds the change.
#[tokio::test]
async fn a_state_may_be_changed_while_a_run_waits() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let run = json!({ "assistant_id": "hitl", "input": hi() }).to_string();
    let asked = json(&app, post(&format!("/threads/{thread}/runs/wait"), &run)).await;
    let question = asked["__interrupt__"].clone();
    assert_eq!(question[0]["value"]["question"], "approve?", "{asked}");
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    let said = json!({ "messages": [{ "type": "human", "content": "changed", "id": "late" }] });
    let change = json!({ "values": said, "checkpoint": state["checkpoint"] }).to_string();
    let changed = json(&app, post(&format!("/threads/{thread}/state"), &change)).await;
    let after = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!(after["checkpoint"]["checkpoint_id"], changed["checkpoint_id"], "{after}");
    assert_eq!(after["parent_checkpoint"]["checkpoint_id"], state["checkpoint"]["checkpoint_id"], "{after}");
    assert_eq!(after["metadata"]["source"], "update", "{after}");
    assert_eq!(after["values"]["messages"][1]["content"], "changed", "{after}");
    assert_eq!(after["interrupts"][0]["id"], question[0]["id"], "{after}");
    let resume = json!({ "assistant_id": "hitl", "command": { "resume": "yes" } }).to_string();
    let ended = json(&app, post(&format!("/threads/{thread}/runs/wait"), &resume)).await;
    let contents: Vec<&Value> =
        ended["messages"].as_array().expect("a list").iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, ["hi", "changed", "you said yes"], "{ended}");
}

/// A change of an older state takes the thread back there, and what a run waits for is not asked any more.
#[tokio::test]
async fn an_older_state_may_be_changed_while_a_run_waits() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let wait = async |body: Value| {
        json(&app, post(&format!("/threads/{thread}/runs/wait"), &body.to_string())).await
    };
    wait(json!({ "assistant_id": "hitl", "input": hi() })).await;
    wait(json!({ "assistant_id": "hitl", "command": { "resume": "first" } })).await;
    let asked = wait(json!({ "assistant_id": "hitl", "input": hi() })).await;
    assert_eq!(asked["__interrupt__"][0]["value"]["question"], "approve?", "{asked}");
    let history = json(&app, post(&format!("/threads/{thread}/history"), r#"{"limit":50}"#)).await;
    let history = history.as_array().expect("a list");
    let older = history.iter().rfind(|state| state["next"] == json!(["ask"])).expect("the first question");
    let change = json!({ "values": { "answer": "none" }, "checkpoint": older["checkpoint"] }).to_string();
    let changed = json(&app, post(&format!("/threads/{thread}/state"), &change)).await;
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert_eq!(state["checkpoint"]["checkpoint_id"], changed["checkpoint_id"], "{state}");
    assert_eq!(state["parent_checkpoint"], older["checkpoint"], "{state}");
    assert_eq!((&state["next"], &state["interrupts"]), (&json!(["ask"]), &json!([])), "{state}");
    assert_eq!(
        (&state["values"]["answer"], state["values"]["messages"].as_array().map(Vec::len)),
        (&json!("none"), Some(1))
    );
    let runs = json(&app, get(&format!("/threads/{thread}/runs"))).await;
    assert_eq!(runs[0]["status"], "interrupted", "{runs}");
    // The run that waited is over: there is nothing to answer, and the thread goes on from the change.
    let resume = json!({ "assistant_id": "hitl", "command": { "resume": "late" } }).to_string();
    let response_text = text(send(&app, post(&format!("/threads/{thread}/runs/wait"), &resume)).await).await;
    assert!(response_text.contains("`command.resume`"), "{response_text}");
    let asked = wait(json!({ "assistant_id": "hitl" })).await;
    assert_eq!(asked["__interrupt__"][0]["value"]["question"], "approve?", "{asked}");
    let ended = wait(json!({ "assistant_id": "hitl", "command": { "resume": "second" } })).await;
    let contents: Vec<&Value> =
        ended["messages"].as_array().expect("a list").iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, ["hi", "you said second"], "{ended}");
}

/// What a run did is taken back only where no other run begins from it. Of several runs those that wait are cancelled first.
#[tokio::test]
async fn runs_with_others_behind_them_are_taken_back_together() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let path = format!("/threads/{thread}/runs");
    let body = json!({ "assistant_id": "slow", "input": { "answer": "x" } }).to_string();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let run = json(&app, post(&path, &body)).await;
        ids.push(run["run_id"].as_str().expect("an id").to_owned());
    }
    until(async || json(&app, get(&format!("{path}/{}", ids[0]))).await["status"] == "running").await;
    let rollback = format!("{path}/{}/cancel?wait=true&action=rollback", ids[0]);
    assert_eq!(problem(&app, post(&rollback, "")).await, "409 conflict");
    assert_eq!(json(&app, get(&format!("{path}/{}", ids[0]))).await["status"], "running");
    let all = json!({ "thread_id": thread, "run_ids": ids }).to_string();
    assert_eq!(send(&app, post("/runs/cancel?action=rollback", &all)).await.status(), 204);
    assert_eq!(json(&app, get(&path)).await, json!([]), "none of them is listed");
    assert_eq!(json(&app, get(&format!("/threads/{thread}"))).await["status"], "idle");
    let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
    assert!(state["values"].get("answer").is_none(), "{state}");
}

/// A graph that is no chat is served by the rest of the API too.
#[tokio::test]
async fn any_graph_has_the_api_and_the_inspector() {
    let app = four_graphs_app();
    let agents = json(&app, get("/api/agents")).await;
    let chats: Vec<&Value> =
        agents["agents"].as_array().expect("a list").iter().map(|agent| &agent["chat"]).collect();
    assert_eq!(chats, [true, true, false, false]);
    let asked = json!({ "agent": "chat", "message": "안녕" }).to_string();
    let answer = json(&app, post("/api/threads/t/runs?wait=true", &asked)).await;
    assert!(answer["response"].as_str().is_some_and(|text| text.starts_with("token0 token1 ")), "{answer}");
    let messages = json(&app, get("/api/threads/t/messages")).await;
    assert_eq!(messages["messages"].as_array().map(Vec::len), Some(2), "{messages}");
    let input = json!({ "agent": "failing", "input": { "answer": "x" } }).to_string();
    let answer = json(&app, post("/api/threads/u/runs?wait=true", &input)).await;
    assert_eq!(answer["error_code"], "ValueError", "{answer}");
    let state = json(&app, get("/api/threads/u/state")).await;
    assert_eq!(state["state"]["answer"], "x", "{state}");
    let response_text =
        problem(&app, post("/api/threads/u/runs", r#"{"agent":"failing","message":"안녕"}"#)).await;
    assert_eq!(response_text, "400 bad_input");
    let both = json!({ "agent": "failing", "message": "안녕", "input": {} }).to_string();
    assert_eq!(problem(&app, post("/api/threads/u/runs", &both)).await, "400 bad_input");
}

/// A thread of one tenant does not exist for another, and a run of another thread is not reached through one's own.
#[tokio::test]
async fn threads_and_runs_belong_to_their_tenant() {
    let app = four_graphs_app().keys(two_keys());
    let made = json(&app, with_key_of("a", post("/threads", r#"{"metadata":{"x":1}}"#))).await;
    let thread = made["thread_id"].as_str().expect("an id");
    let body = json!({ "assistant_id": "chat", "input": hi() }).to_string();
    let ran = send(&app, with_key_of("a", post(&format!("/threads/{thread}/runs/wait"), &body))).await;
    let run = ran.headers()[header::CONTENT_LOCATION].to_str().expect("text").to_owned();
    assert_eq!(problem(&app, with_key_of("b", get(&run))).await, "404 not_found");
    let found = json(&app, with_key_of("b", post("/threads/search", r#"{"metadata":{"x":1}}"#))).await;
    assert_eq!(found, json!([]));
    let other = json(&app, with_key_of("a", post("/threads", "{}"))).await;
    let id = run.rsplit('/').next().expect("an id");
    let path = format!("/threads/{}/runs/{id}", other["thread_id"].as_str().expect("an id"));
    assert_eq!(problem(&app, with_key_of("a", get(&path))).await, "404 not_found");
    let deleted =
        send(&app, with_key_of("b", json_request("delete", &format!("/threads/{thread}"), ""))).await;
    assert_eq!(deleted.status().as_u16(), 404);
}

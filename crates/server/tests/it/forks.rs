//! Threads that go their own way from a step of another.

use std::sync::Arc;

use doran_engine::store::RamStore;
use doran_engine::{Runtime, TenantId, ThreadId, ThreadKey};
use serde_json::{Value, json};

use crate::{app, app_with_store, get, json, post, problem, send, text, with_header};

const ASK_BODY: &str = r#"{"agent":"assistant","message":"연차휴가는 며칠인가요?"}"#;

/// The steps of a thread, as `seq kind nodes`.
fn history_lines(history: &Value) -> String {
    let steps = history["steps"].as_array().expect("a list");
    let line = |step: &Value| {
        let nodes: Vec<&str> =
            step["nodes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("{} {} {}", step["seq"], step["kind"].as_str().expect("a kind"), nodes.join(","))
    };
    steps.iter().map(|step| line(step).trim().to_owned()).collect::<Vec<_>>().join("; ")
}

async fn app_with_answered_thread() -> doran_server::ServerApp {
    let app = app();
    json(&app, post("/api/threads/t/runs?wait=true", ASK_BODY)).await;
    app
}

#[tokio::test]
async fn a_fork_goes_on_from_a_step_and_leaves_its_source_alone() {
    let app = app_with_answered_thread().await;
    let before = json(&app, get("/api/threads/t/history")).await;
    assert_eq!(
        history_lines(&before),
        "1 started; 2 step router; 3 step rag; 4 step memory; 5 step agent; 6 finished",
        "{before}"
    );
    let body = r#"{"at":3,"title":"다른 길","go_on":true}"#;
    let response = send(&app, post("/api/threads/t/fork", body)).await;
    assert_eq!(response.status(), 201);
    let fork: Value = serde_json::from_str(&text(response).await).expect("JSON");
    assert_eq!((&fork["title"], &fork["agent"]), (&json!("다른 길"), &json!("assistant")));
    let (id, run) = (fork["id"].as_str().expect("an id"), fork["active"].as_str().expect("a run"));
    let events = text(send(&app, get(&format!("/api/threads/{id}/runs/{run}/events"))).await).await;
    assert!(events.contains("event: finished"), "{events}");
    assert!(!events.contains(r#""node":"router""#) && !events.contains(r#""node":"rag""#), "{events}");
    assert!(events.contains(r#""node":"memory""#) && events.contains("15일"), "{events}");
    let messages = json(&app, get(&format!("/api/threads/{id}/messages"))).await;
    let roles: Vec<&str> = messages["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["role"].as_str())
        .collect();
    assert_eq!(roles, ["user", "assistant"], "what came after the step is not said here: {messages}");
    assert_eq!(json(&app, get("/api/threads/t/history")).await, before);
    assert_eq!(json(&app, get("/api/threads/t")).await["title"], "연차휴가는 며칠인가요?");
}

/// The events of the run that a fork started.
async fn fork_events(app: &doran_server::ServerApp, fork: &Value) -> (String, String) {
    let (id, run) = (fork["id"].as_str().expect("an id"), fork["active"].as_str().expect("a run"));
    let run = format!("/api/threads/{id}/runs/{run}");
    let events = text(send(app, get(&format!("{run}/events"))).await).await;
    (run, events)
}

#[tokio::test]
async fn a_fork_with_another_state_stops_at_its_breakpoint_and_continues_from_the_change() {
    let app = app_with_answered_thread().await;
    let mut state = json(&app, get("/api/threads/t/state?at=1")).await["state"].clone();
    let question = state["messages"][0]["parts"][0].as_object_mut().expect("a text");
    question.insert("text".into(), "육아휴직은 얼마나 쓸 수 있나요?".into());
    let body = json!({ "at": 1, "go_on": true, "state": state, "pause_before": ["agent"] }).to_string();
    let fork = json(&app, post("/api/threads/t/fork", &body)).await;
    let (run, events) = fork_events(&app, &fork).await;
    assert!(events.contains("event: paused") && events.contains(r#""node":"rag""#), "{events}");
    assert!(!events.contains("event: finished"), "{events}");
    let waiting = json(&app, get("/api/approvals")).await["questions"][0].clone();
    assert_eq!((&waiting["kind"], &waiting["node"]), (&json!("breakpoint"), &json!("agent")));
    let question = &waiting["question"];
    assert_eq!(question["ko"], "`agent` 노드 앞에서 멈췄습니다. 계속할까요?");
    assert_eq!(question["en"], "the run paused before the node `agent`; continue?");
    // The example is an answer.
    let answers =
        json!({ "answers": { waiting["id"].as_str().expect("an id"): question["answer"] } }).to_string();
    json(&app, post(&format!("{run}/resume"), &answers)).await;
    let events = text(send(&app, get(&format!("{run}/events"))).await).await;
    assert!(events.contains("event: finished") && events.contains("육아휴직"), "{events}");
    for (body, why) in [
        (json!({ "at": 1, "as_node": "agent" }), "without a state"),
        (json!({ "at": 1, "pause_after": ["agent"] }), "without a run"),
        (json!({ "at": 1, "go_on": true, "pause_before": ["nobody"] }), "no such node"),
        (json!({ "at": 1, "state": { "messages": 3 } }), "not a state"),
        (json!({ "at": 1, "state": { "nobody": 3 } }), "not a field of the state"),
    ] {
        assert!(
            problem(&app, post("/api/threads/t/fork", &body.to_string())).await.starts_with("400 "),
            "{why}"
        );
    }
}

#[tokio::test]
async fn a_fork_without_a_step_is_a_copy_that_takes_questions() {
    let app = app_with_answered_thread().await;
    let fork = json(&app, post("/api/threads/t/fork", r#"{"go_on":true}"#)).await;
    assert_eq!(fork["active"], Value::Null, "nothing was due");
    let id = fork["id"].as_str().expect("an id");
    let messages = async |id: &str| json(&app, get(&format!("/api/threads/{id}/messages"))).await;
    let source = messages("t").await;
    assert_eq!(messages(id).await, source);
    let more = r#"{"agent":"assistant","message":"출장비 정산 기한은?"}"#;
    json(&app, post(&format!("/api/threads/{id}/runs?wait=true"), more)).await;
    assert_eq!(messages(id).await["messages"].as_array().map(Vec::len), Some(4));
    assert_eq!(messages("t").await, source);
}

#[tokio::test]
async fn what_cannot_be_forked_is_refused() {
    let app = app_with_answered_thread().await;
    for (path, body, expected) in [
        ("t", r#"{"at":0}"#, "400 bad_input"),
        ("t", r#"{"at":7}"#, "400 bad_input"),
        ("t", r#"{"at":-1}"#, "400 bad_json"),
        ("t", r#"{"at":99999999999999999}"#, "400 bad_input"),
        ("t", r#"{"at":2,"title":""}"#, "400 bad_input"),
        ("t", r#"{"at":2,"tenant":"b"}"#, "400 bad_json"),
        ("t", r#"{"at":2,"go_on":true,"agent":"nobody"}"#, "404 unknown_agent"),
        ("nowhere", "{}", "404 not_found"),
    ] {
        let text = problem(&app, post(&format!("/api/threads/{path}/fork"), body)).await;
        assert_eq!(text, expected, "{path} {body}");
    }
}

#[tokio::test]
async fn a_fork_that_is_refused_makes_nothing_and_may_be_sent_again() {
    let app = app_with_answered_thread().await;
    let wrong = || {
        let body = r#"{"at":2,"go_on":true,"agent":"nobody"}"#;
        with_header(post("/api/threads/t/fork", body), "idempotency-key", "fk")
    };
    for _ in 0..2 {
        assert_eq!(problem(&app, wrong()).await, "404 unknown_agent");
        assert_eq!(json(&app, get("/api/threads")).await["threads"].as_array().map(Vec::len), Some(1));
    }
}

#[tokio::test]
async fn a_fork_that_a_crash_cut_off_is_gone_on_with_under_its_key() {
    let body = r#"{"at":3,"title":"다른 길","go_on":true}"#;
    let fork = || with_header(post("/api/threads/t/fork", body), "idempotency-key", "fk");
    let asked = async || {
        let store = Arc::new(RamStore::new());
        let app = app_with_store(store.clone());
        json(&app, post("/api/threads/t/runs?wait=true", ASK_BODY)).await;
        (app, Runtime::new(store))
    };
    let (app, _) = asked().await;
    let whole = json(&app, fork()).await;
    // The same request on another server, which died after its first write.
    let (app, died) = asked().await;
    let to = ThreadId::new(whole["id"].as_str().expect("an id")).expect("a name");
    let source = ThreadKey { tenant: TenantId::local(), thread: ThreadId::new("t").expect("a name") };
    died.fork(&source, Some(3), &to).await.expect("forked");
    let again = json(&app, fork()).await;
    assert_eq!((&again["id"], &again["title"]), (&whole["id"], &json!("다른 길")));
    let run = again["active"].as_str().expect("it is gone on with");
    let events = text(send(&app, get(&format!("/api/threads/{to}/runs/{run}/events"))).await).await;
    assert!(events.contains("event: finished"), "{events}");
    assert_eq!(json(&app, get("/api/threads")).await["threads"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_key_of_a_question_forks_nothing() {
    let app = app_with_answered_thread().await;
    let question = r#"{"message":"안녕?","agent":"assistant"}"#;
    json(&app, with_header(post("/api/chat", question), "idempotency-key", "qk")).await;
    let fork = with_header(post("/api/threads/t/fork", "{}"), "idempotency-key", "qk");
    assert_eq!(problem(&app, fork).await, "422 key_reused");
}

#[tokio::test]
async fn the_same_key_makes_one_thread() {
    let app = app_with_answered_thread().await;
    for path in ["/api/threads", "/api/threads/t/fork"] {
        let keyed =
            |body: &str| with_header(post(path, body), "idempotency-key", &format!("key-{}", path.len()));
        let first = json(&app, keyed(r#"{"title":"하나"}"#)).await;
        let count = json(&app, get("/api/threads")).await["threads"].as_array().map(Vec::len);
        let again = json(&app, keyed(r#"{"title":"하나"}"#)).await;
        assert_eq!((&again["id"], &again["title"]), (&first["id"], &first["title"]), "{path}");
        assert_eq!(json(&app, get("/api/threads")).await["threads"].as_array().map(Vec::len), count);
        assert_eq!(problem(&app, keyed(r#"{"title":"둘"}"#)).await, "422 key_reused", "{path}");
        assert_ne!(json(&app, post(path, r#"{"title":"하나"}"#)).await["id"], first["id"]);
    }
}

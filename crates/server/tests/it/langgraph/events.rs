//! The event protocol: commands of a thread, and its one stream of events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::body::Body;
use axum::http::Request;
use doran_server::ServerApp;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{four_graphs_app, hi, new_thread};
use crate::{json, post, problem, send, text, two_keys, with_key_of};

async fn command(app: &ServerApp, thread: &str, method: &str, params: Value) -> Value {
    let body = json!({ "id": 1, "method": method, "params": params }).to_string();
    json(app, post(&format!("/threads/{thread}/commands"), &body)).await
}

fn stream_request(thread: &str, body: &Value) -> Request<Body> {
    post(&format!("/threads/{thread}/stream/events"), &body.to_string())
}

/// The events of a stream up to the first that fits. The stream itself does not end.
async fn events_until(
    app: &ServerApp,
    request: Request<Body>,
    is_last: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    let response = send(app, request).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body().into_data_stream();
    let (mut read, mut events) = (String::new(), Vec::new());
    while let Some(bytes) = body.next().await {
        read.push_str(std::str::from_utf8(&bytes.expect("bytes")).expect("UTF-8"));
        while let Some((frame, rest)) = read.split_once("\n\n") {
            let data = frame.lines().find_map(|line| line.strip_prefix("data: "));
            let event: Option<Value> = data.map(|data| serde_json::from_str(data).expect("JSON"));
            read = rest.to_owned();
            events.extend(event);
            if events.last().is_some_and(&is_last) {
                return events;
            }
        }
    }
    panic!("the stream ended: {events:?}");
}

fn is_event(event: &Value, name: &str) -> bool {
    event["params"]["data"]["event"] == name
}

const ALL: [&str; 9] =
    ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"];

/// Streams of other channels tell the same event under the same id, in the same order, and one can go on where another was.
#[tokio::test]
async fn an_event_has_one_id_in_every_stream() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    let begun = command(&app, &thread, "run.start", json!({ "assistant_id": "chat", "input": hi() })).await;
    assert_eq!(begun["type"], "success", "{begun}");
    let completed = |event: &Value| is_event(event, "completed");
    let all = events_until(&app, stream_request(&thread, &json!({ "channels": ALL })), completed).await;
    let ids: BTreeMap<&str, &Value> =
        all.iter().map(|event| (event["event_id"].as_str().expect("an id"), event)).collect();
    assert_eq!(ids.len(), all.len(), "each event has its own");
    for channel in ["values", "lifecycle", "updates", "checkpoints", "tasks"] {
        assert!(all.iter().any(|event| event["method"] == channel), "{channel}");
    }
    let some = json!({ "channels": ["lifecycle", "values"] });
    let some = events_until(&app, stream_request(&thread, &some), completed).await;
    for event in &some {
        let known = ids[event["event_id"].as_str().expect("an id")];
        assert_eq!(event["params"], known["params"]);
    }
    // Pieces of text are told once: who comes back has them, or has the message in the state.
    let lasting: Vec<&str> = ALL.into_iter().filter(|channel| *channel != "messages").collect();
    let all = events_until(&app, stream_request(&thread, &json!({ "channels": lasting })), completed).await;
    let numbers: Vec<u64> = all.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    let (middle, rest) = (numbers[numbers.len() / 2], &all[numbers.len() / 2 + 1..]);
    let later = json!({ "channels": lasting, "since": middle });
    let later = events_until(&app, stream_request(&thread, &later), completed).await;
    assert_eq!(later, rest);
}

/// A stream that is open tells of runs that start later, on its own thread only.
#[tokio::test]
async fn a_stream_goes_on_with_the_next_run() {
    let app = four_graphs_app();
    let (thread, other) = (new_thread(&app).await, new_thread(&app).await);
    let listening = tokio::spawn({
        let (app, thread) = (app.clone(), thread.clone());
        async move {
            let request = stream_request(&thread, &json!({ "channels": ["lifecycle", "messages"] }));
            let completed = AtomicUsize::new(0);
            let is_second =
                |event: &Value| is_event(event, "completed") && completed.fetch_add(1, Relaxed) == 1;
            events_until(&app, request, is_second).await
        }
    });
    for thread in [&thread, &other, &thread] {
        let body = json!({ "assistant_id": "chat", "input": hi() }).to_string();
        json(&app, post(&format!("/threads/{thread}/runs/wait"), &body)).await;
    }
    let events = listening.await.expect("told");
    let names = events.iter().filter(|event| event["method"] == "lifecycle");
    let names: Vec<&Value> = names.map(|event| &event["params"]["data"]["event"]).collect();
    assert_eq!(names, ["running", "completed", "running", "completed"]);
}

#[tokio::test]
async fn several_questions_are_answered_at_once_and_an_unknown_id_is_named() {
    let app = four_graphs_app();
    let thread = new_thread(&app).await;
    command(&app, &thread, "run.start", json!({ "assistant_id": "hitl", "input": hi() })).await;
    let channels = json!({ "channels": ["input", "lifecycle"] });
    let interrupted = |event: &Value| is_event(event, "interrupted");
    let asked = events_until(&app, stream_request(&thread, &channels), interrupted).await;
    let id =
        &asked.iter().find(|event| event["method"] == "input.requested").expect("asked")["params"]["data"];
    let id = id["interrupt_id"].clone();
    for (method, params, code) in [
        ("nope", json!({}), "unknown_command"),
        ("run.start", json!({}), "invalid_argument"),
        ("run.start", json!({ "assistant_id": "hitl", "input": hi(), "webhook": "x" }), "invalid_argument"),
        ("input.respond", json!({}), "invalid_argument"),
        ("input.respond", json!({ "responses": [] }), "invalid_argument"),
        ("input.respond", json!({ "interrupt_id": id, "goto": "reply" }), "invalid_argument"),
        ("input.respond", json!({ "interrupt_id": "x", "response": 1 }), "no_such_interrupt"),
        ("input.respond", json!({ "interrupt_id": id, "namespace": ["inner"] }), "no_such_interrupt"),
    ] {
        let response_text = command(&app, &thread, method, params.clone()).await;
        assert_eq!(
            (&response_text["type"], &response_text["error"]),
            (&json!("error"), &json!(code)),
            "{params}: {response_text}"
        );
    }
    let answers = json!({ "responses": [{ "interrupt_id": id, "response": "yes" }] });
    assert_eq!(command(&app, &thread, "input.respond", answers.clone()).await["type"], "success");
    let completed = |event: &Value| is_event(event, "completed");
    let ended = events_until(&app, stream_request(&thread, &json!({ "channels": ALL })), completed).await;
    let last = ended.iter().rfind(|event| event["method"] == "values").expect("a state");
    assert_eq!(last["params"]["data"]["messages"][1]["content"], "you said yes");
    let again = command(&app, &thread, "input.respond", answers).await;
    assert_eq!(again["error"], "no_such_interrupt", "{again}");
}

#[tokio::test]
async fn what_a_stream_does_not_send_is_named_in_the_error() {
    let app = four_graphs_app().keys(two_keys());
    let made = json(&app, with_key_of("a", post("/threads", "{}"))).await;
    let thread = made["thread_id"].as_str().expect("an id");
    for (body, word) in [
        (json!({ "channels": [] }), "channels"),
        (json!({ "channels": ["nope"] }), "channels"),
        (json!({ "channels": ["values"], "since": -1 }), "since"),
        (json!({ "channels": ["values"], "replay": true }), "replay"),
    ] {
        let response = send(&app, with_key_of("a", stream_request(thread, &body))).await;
        let (status, response_text) = (response.status().as_u16(), text(response).await);
        assert!(
            status == 422 && response_text.contains(&format!("`{word}`")),
            "{body}: {status} {response_text}"
        );
    }
    let body = json!({ "channels": ["values"] });
    assert_eq!(problem(&app, with_key_of("b", stream_request(thread, &body))).await, "404 not_found");
}

//! Runs over HTTP: frames as text, coming back, and what a connection may not do to a run.

use std::sync::Arc;

use axum::http::header;
use doran_server::{ServerApp, ServerLimits, api};
use expect_test::expect;
use futures_util::StreamExt;
use tokio::sync::Notify;

use crate::{PausingModel, app, app_with, get, post, problem, run_location, send, text};

const RUNS: &str = "/api/threads/%EB%8C%80%ED%99%94%201/runs";

fn ask_body(message: &str) -> String {
    serde_json::json!({ "agent": "assistant", "message": message }).to_string()
}

/// The events of a stream that have a number, with what differs between two runs of the test taken out.
fn numbered_events(frames: &str) -> String {
    let mut lines = String::new();
    for frame in frames.split_terminator("\n\n").filter(|frame| frame.starts_with("id: ")) {
        let (head, data) = frame.split_once("\ndata: ").expect("a data line");
        let mut data: serde_json::Value = serde_json::from_str(data).expect("JSON");
        data["at"] = 0.into();
        if data["run"].is_string() {
            data["run"] = "RUN".into();
        }
        for task in data.get_mut("tasks").and_then(|tasks| tasks.as_array_mut()).into_iter().flatten() {
            let update: Vec<&String> = task["update"].as_object().expect("an update").keys().collect();
            task["update"] = serde_json::json!(update);
            task["ms"] = 0.into();
            let notes = task["notes"].as_object().map(|notes| notes.keys().cloned().collect::<Vec<_>>());
            if let Some(notes) = notes {
                task["notes"] = serde_json::json!(notes);
            }
            let turn = task["turn"].as_object().expect("what it says about the turn").keys();
            task["turn"] = serde_json::json!(turn.collect::<Vec<_>>());
        }
        lines.push_str(&format!("{head}\ndata: {data}\n\n"));
    }
    lines
}

/// A stream begins by telling when to come back.
fn after_retry(frames: &str) -> &str {
    let (first, rest) = frames.split_once("\n\n").expect("a first frame");
    let wait: u64 = first.strip_prefix("retry: ").and_then(|wait| wait.parse().ok()).expect("a time");
    assert!((500..1000).contains(&wait), "{wait}");
    rest
}

#[tokio::test]
async fn a_run_is_a_stream_of_numbered_frames() {
    let app = app();
    let response = send(&app, post(RUNS, &ask_body("When must receipts be uploaded?"))).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream; charset=utf-8");
    assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    let place = run_location(&response);
    let frames = text(response).await;
    expect![[r#"
        id: 1
        event: started
        data: {"agent":"assistant","at":0,"n":1,"run":"RUN","thread":"대화 1","type":"started"}

        id: 2
        event: step
        data: {"at":0,"n":2,"next":["rag"],"step":1,"tasks":[{"attempts":1,"input_tokens":418,"ms":0,"node":"router","notes":["events","models"],"output_tokens":22,"turn":["progress"],"update":["next_action","progress","route_reason"]}],"type":"step"}

        id: 3
        event: step
        data: {"at":0,"n":3,"next":["memory"],"step":2,"tasks":[{"attempts":1,"input_tokens":0,"ms":0,"node":"rag","notes":["calls","events","searches"],"output_tokens":0,"turn":["found","progress"],"update":["context","progress","taint"]}],"type":"step"}

        id: 4
        event: step
        data: {"at":0,"n":4,"next":["agent"],"step":3,"tasks":[{"attempts":1,"input_tokens":0,"ms":0,"node":"memory","output_tokens":0,"turn":["progress"],"update":["progress"]}],"type":"step"}

        id: 5
        event: step
        data: {"at":0,"n":5,"next":[],"step":4,"tasks":[{"attempts":1,"input_tokens":665,"ms":0,"node":"agent","notes":["models"],"output_tokens":25,"turn":["progress","sources"],"update":["messages","next_action","progress","sources"]}],"type":"step"}

        id: 6
        event: finished
        data: {"at":0,"n":6,"type":"finished"}

    "#]].assert_eq(&numbered_events(&frames));
    assert!(frames.contains("Upload every receipt within seven days"), "{frames}");

    let again = text(send(&app, get(&place)).await).await;
    assert_eq!(numbered_events(&again), numbered_events(&frames), "a late watcher gets everything");
    let rest = text(send(&app, get(&format!("{place}?after=2"))).await).await;
    assert!(after_retry(&rest).starts_with("id: 3\nevent: step\n"), "{rest}");
    let mut request = get(&format!("{place}?after=1"));
    request.headers_mut().insert("last-event-id", "5".parse().expect("a header"));
    let rest = text(send(&app, request).await).await;
    assert!(
        after_retry(&rest).starts_with("id: 6\nevent: finished\n") && rest.matches("id: ").count() == 1,
        "{rest}"
    );
    let nothing = text(send(&app, get(&format!("{place}?after=6"))).await).await;
    assert_eq!(after_retry(&nothing), "");
    let elsewhere = place.replace("%201", "%202");
    assert_eq!(problem(&app, get(&elsewhere)).await, "404 not_found");
}

#[tokio::test]
async fn every_event_reads_back_as_it_was_written() {
    let app = app();
    let frames = text(send(&app, post(RUNS, &ask_body("연차휴가는 며칠인가요?"))).await).await;
    for frame in after_retry(&frames).split_terminator("\n\n") {
        let (_, data) = frame.split_once("data: ").expect("a data line");
        let event: api::RunEvent = serde_json::from_str(data).expect("an event");
        assert_eq!(serde_json::to_string(&event).expect("JSON"), data);
        assert!(frame.contains(&format!("event: {}\n", event.frame_name())));
    }
}

#[tokio::test]
async fn the_same_key_starts_one_run() {
    let app = app();
    let with_key = |path: &str, body: &str| {
        let mut request = post(path, body);
        request.headers_mut().insert("idempotency-key", "k1".parse().expect("a header"));
        request
    };
    let first = send(&app, with_key(RUNS, &ask_body("안녕?"))).await;
    let second = send(&app, with_key(RUNS, &ask_body("안녕?"))).await;
    assert_eq!(run_location(&first), run_location(&second));
    let (first, second) = (text(first).await, text(second).await);
    assert_eq!(numbered_events(&first), numbered_events(&second));
    assert_eq!(problem(&app, with_key(RUNS, &ask_body("뭐?"))).await, "422 key_reused");
    assert_eq!(problem(&app, with_key("/api/threads/u/runs", &ask_body("안녕?"))).await, "422 key_reused");
}

/// Starts a run that waits in the middle, and reads its stream up to the first words.
async fn start_paused_run(app: &ServerApp) -> (String, axum::body::BodyDataStream, String) {
    let response = send(app, post(RUNS, &ask_body("안녕?"))).await;
    let place = run_location(&response);
    let mut frames = response.into_body().into_data_stream();
    let mut seen = String::new();
    // The first word of the model. Steps before it show what they are at.
    while !seen.contains("음…") {
        let bytes = frames.next().await.expect("more").expect("bytes");
        seen.push_str(std::str::from_utf8(&bytes).expect("text"));
    }
    (place, frames, seen)
}

#[tokio::test]
async fn words_have_no_number_and_come_before_their_step() {
    let leave = Arc::new(Notify::new());
    let app = app_with(Arc::new(PausingModel(leave.clone())), ServerLimits::default());
    let (_, mut frames, mut seen) = start_paused_run(&app).await;
    assert!(
        seen.split("\n\n")
            .filter(|frame| frame.contains("event: delta"))
            .all(|frame| !frame.contains("id: ")),
        "{seen}"
    );
    assert_eq!(problem(&app, post(RUNS, &ask_body("또?"))).await, "409 thread_busy");
    leave.notify_one();
    while let Some(bytes) = frames.next().await {
        seen.push_str(std::str::from_utf8(&bytes.expect("bytes")).expect("text"));
    }
    assert!(seen.trim_end().contains("\nevent: finished\n"), "{seen}");
}

#[tokio::test]
async fn a_retry_of_a_cancelled_run_says_what_to_do_instead() {
    let app = app_with(Arc::new(PausingModel(Arc::new(Notify::new()))), ServerLimits::default());
    let (place, mut frames, _) = start_paused_run(&app).await;
    let run = place.strip_suffix("/events").expect("the events of a run");
    send(&app, post(&format!("{run}/cancel"), "{}")).await;
    while frames.next().await.is_some() {}
    let refused = send(&app, post(&format!("{run}/retry"), "{}")).await;
    assert_eq!(refused.status(), 409);
    let refused = text(refused).await;
    assert!(refused.contains("start a new run with the same message"), "{refused}");
    assert!(refused.contains("같은 메시지로 새 실행을 시작하세요"), "{refused}");
    assert!(!refused.contains("changed"), "{refused}");
}

/// The run is over before its row is read for the stream.
#[tokio::test(start_paused = true)]
async fn a_quick_run_shows_its_words_too() {
    let store = doran_engine::store::RamStore::new();
    let slow = crate::thread_search::SlowCallStore { inner: store.clone(), slow: "run" };
    let app = crate::app_with_history(Arc::new(slow), Arc::new(store));
    let body = r#"{"agent":"react","message":"안녕하세요"}"#;
    let seen = text(send(&app, post(RUNS, body)).await).await;
    let (words, step) = (seen.find("event: delta"), seen.find("event: finished"));
    assert!(words.is_some() && words < step, "{seen}");
}

#[tokio::test]
async fn a_client_that_leaves_does_not_stop_its_run() {
    let leave = Arc::new(Notify::new());
    let app = app_with(Arc::new(PausingModel(leave.clone())), ServerLimits::default());
    let (place, frames, _) = start_paused_run(&app).await;
    drop(frames);
    leave.notify_one();
    let frames = text(send(&app, get(&place)).await).await;
    assert!(frames.contains("event: finished"), "{frames}");
}

#[tokio::test]
async fn a_stream_says_that_the_server_stops_and_can_be_gone_on_with() {
    let leave = Arc::new(Notify::new());
    let app = app_with(Arc::new(PausingModel(leave.clone())), ServerLimits::default());
    let (place, mut frames, mut seen) = start_paused_run(&app).await;
    app.draining().cancel();
    while let Some(bytes) = frames.next().await {
        seen.push_str(std::str::from_utf8(&bytes.expect("bytes")).expect("text"));
    }
    assert!(seen.ends_with("event: draining\ndata: {\"type\":\"draining\"}\n\n"), "{seen}");
    leave.notify_one();
    let next = app.shutdown_token(tokio_util::sync::CancellationToken::new());
    let frames = text(send(&next, get(&format!("{place}?after=2"))).await).await;
    assert!(frames.contains("id: 3\nevent: step") && frames.contains("event: finished"), "{frames}");
}

#[tokio::test]
async fn a_silent_stream_sends_heartbeats() {
    let limits =
        ServerLimits { heartbeat_interval: std::time::Duration::from_millis(20), ..ServerLimits::default() };
    let app = app_with(Arc::new(PausingModel(Arc::new(Notify::new()))), limits);
    let (_, mut frames, _) = start_paused_run(&app).await;
    for _ in 0..2 {
        let bytes = frames.next().await.expect("more").expect("bytes");
        assert_eq!(&bytes[..], b": alive\n\n");
    }
    let of_openai = serde_json::json!({
        "model": "assistant", "messages": [{ "role": "user", "content": "안녕?" }], "stream": true,
    });
    let of_contract = serde_json::json!({ "message": "계약 금액은 얼마인가요?" });
    for (path, body) in [("/v1/chat/completions", of_openai), ("/api/contract/chat", of_contract)] {
        let response = send(&app, post(path, &body.to_string())).await;
        let mut frames = response.into_body().into_data_stream();
        let mut seen = String::new();
        while seen.matches(": alive\n\n").count() < 2 {
            let bytes = frames.next().await.unwrap_or_else(|| panic!("{path} ended: {seen}")).expect("bytes");
            seen.push_str(std::str::from_utf8(&bytes).expect("text"));
        }
        assert!(!seen.contains("error"), "{path}: {seen}");
    }
}

#[tokio::test]
async fn threads_are_named_by_clients_and_distinguished() {
    let app = app();
    let name = "/api/threads/a%2Fb/runs";
    text(send(&app, post(name, &ask_body("내 이름은 철수야."))).await).await;
    let known = text(send(&app, post(name, &ask_body("내 이름이 뭐야?"))).await).await;
    assert!(known.contains("철수입니다"), "{known}");
    let other = text(send(&app, post("/api/threads/a/runs", &ask_body("내 이름이 뭐야?"))).await).await;
    assert!(!other.contains("철수입니다"), "{other}");
}

//! A client that reconnects after a cut at any byte gets every event once.

use axum::body::BodyDataStream;
use doran_server::ServerApp;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::{ServerTestRandom, app, get, post, run_location, send, text, with_header};

const SEED: u64 = 0x2026_1115;

/// What a client has of a run: the numbered events in order, and the words of the step in progress.
#[derive(Default)]
struct ReconnectingClient {
    bytes: Vec<u8>,
    events: Vec<Value>,
    is_over: bool,
}

impl ReconnectingClient {
    fn last(&self) -> u64 {
        self.events.last().and_then(|event| event["n"].as_u64()).unwrap_or(0)
    }

    /// Takes bytes as a browser does: a frame counts once its empty line has come, half a frame is nothing.
    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        while let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
            let frame: Vec<u8> = self.bytes.drain(..end + 2).collect();
            let frame = String::from_utf8(frame).expect("a frame is text");
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            let (Some(id), Some(data)) = (field("id: "), field("data: ")) else { continue };
            let event: Value = serde_json::from_str(data).expect("JSON");
            let n: u64 = id.parse().expect("a number");
            assert_eq!(event["n"], n);
            assert_eq!(n, self.last() + 1, "an event was lost or came twice");
            self.is_over =
                ["finished", "failed", "cancelled"].contains(&event["type"].as_str().expect("a type"));
            self.events.push(event);
        }
    }

    /// Reads so many bytes of a stream, then the line is cut.
    async fn read(&mut self, mut stream: BodyDataStream, limit: usize) {
        self.bytes.clear();
        let mut left = limit;
        while left > 0
            && let Some(piece) = stream.next().await
        {
            let piece = piece.expect("bytes");
            let part = &piece[..piece.len().min(left)];
            self.take(part);
            left -= part.len();
        }
    }
}

async fn reconnect(app: &ServerApp, events_path: &str, client: &ReconnectingClient) -> BodyDataStream {
    let request = with_header(get(events_path), "last-event-id", &client.last().to_string());
    let response = send(app, request).await;
    assert_eq!(response.status(), 200);
    response.into_body().into_data_stream()
}

async fn all_events(app: &ServerApp, events_path: &str) -> Vec<Value> {
    let mut client = ReconnectingClient::default();
    client.take(text(send(app, get(events_path)).await).await.as_bytes());
    assert!(client.is_over);
    client.events
}

const QUESTIONS: [(&str, &str); 4] = [
    ("assistant", "연차휴가는 며칠인가요?"),
    ("react", "안녕하세요? 무엇을 할 수 있나요?"),
    ("docqa", "When must receipts be uploaded?"),
    ("contract", "중도에 해지하면 위약금은 얼마인가요?"),
];

#[tokio::test]
async fn a_stream_cut_at_a_thousand_places_is_rebuilt_whole() {
    let app = app();
    let mut random = ServerTestRandom(SEED);
    let mut cuts = 0;
    for (agent, message) in QUESTIONS {
        let body = json!({ "agent": agent, "message": message }).to_string();
        let answer = send(&app, post(&format!("/api/threads/{agent}/runs"), &body)).await;
        let events_path = run_location(&answer);
        let all_of_log = text(answer).await.len();
        let log = all_events(&app, &events_path).await;
        let messages = crate::json(&app, get(&format!("/api/threads/{agent}/messages"))).await;
        let mut reconnects = 0;
        while reconnects < 300 {
            let mut client = ReconnectingClient::default();
            while !client.is_over {
                let stream = reconnect(&app, &events_path, &client).await;
                client.read(stream, random.below(all_of_log) + 1).await;
                reconnects += 1;
            }
            assert_eq!(client.events, log, "{agent}");
        }
        cuts += reconnects;
        let last = messages["messages"].as_array().and_then(|messages| messages.last()).expect("an answer");
        assert_eq!(last["role"], "assistant", "{messages}");
        let output = serde_json::to_string(&log).expect("JSON");
        let words = serde_json::to_string(last["text"].as_str().expect("words")).expect("JSON");
        // The log has the numbers that the agent gave its sources, the answer those that people count.
        for part in words.trim_matches('"').split(['[', ']']) {
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            assert!(is_number || output.contains(part), "{agent}: the answer is not in the log: {part}");
        }
    }
    assert!(cuts >= 1000, "{cuts}");
}

#[tokio::test]
async fn a_stream_that_is_cut_while_the_run_works_is_rebuilt_whole() {
    let app = app();
    let mut random = ServerTestRandom(SEED ^ 1);
    for round in 0..150 {
        let (agent, message) = QUESTIONS[round % QUESTIONS.len()];
        let body = json!({ "agent": agent, "message": message }).to_string();
        let answer = send(&app, post(&format!("/api/threads/{agent}-{round}/runs"), &body)).await;
        let events_path = run_location(&answer);
        let mut client = ReconnectingClient::default();
        client.read(answer.into_body().into_data_stream(), random.below(3000)).await;
        while !client.is_over {
            let stream = reconnect(&app, &events_path, &client).await;
            // Longer than the longest event, else a client could never get past it.
            client.read(stream, random.below(100_000) + 1).await;
        }
        assert_eq!(client.events, all_events(&app, &events_path).await, "{agent} {round}");
    }
}

#[tokio::test]
async fn an_invalid_event_number_is_refused_and_an_empty_one_starts_at_the_beginning() {
    let app = app();
    let body = json!({ "agent": "react", "message": "안녕?" }).to_string();
    let answer = send(&app, post("/api/threads/t/runs", &body)).await;
    let events_path = run_location(&answer);
    text(answer).await;
    for id in ["abc", "-1", "1.5", "0x1", "99999999999999999999999", "1 2"] {
        assert_eq!(
            crate::problem(&app, with_header(get(&events_path), "last-event-id", id)).await,
            "400 bad_header",
            "{id}"
        );
    }
    let all_of_log = all_events(&app, &events_path).await;
    for id in ["", "0"] {
        let mut client = ReconnectingClient::default();
        client.take(
            text(send(&app, with_header(get(&events_path), "last-event-id", id)).await).await.as_bytes(),
        );
        assert_eq!(client.events, all_of_log);
    }
}

/// The frames of a stream: names and numbers of events.
fn frame_names(frames: &str) -> Vec<String> {
    let names =
        frames.split("\n\n").filter_map(|frame| frame.lines().find_map(|line| line.strip_prefix("event: ")));
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_number_past_the_end_of_the_run_is_reported_and_gets_the_end() {
    let app = app();
    let answer =
        send(&app, post("/api/threads/t/runs?wait=true", r#"{"agent":"react","message":"안녕?"}"#)).await;
    let events_path = run_location(&answer);
    let all_of_log = all_events(&app, &events_path).await;
    let n = all_of_log.len() as u64;
    for beyond in [n + 1, n + 100] {
        let frames =
            text(send(&app, with_header(get(&events_path), "last-event-id", &beyond.to_string())).await)
                .await;
        assert_eq!(frame_names(&frames), ["gone", "finished"], "{frames}");
        assert!(
            frames.contains(&format!("\"after\":{beyond},\"next\":{n}"))
                && frames.contains(&format!("id: {n}\n")),
            "{frames}"
        );
    }
    let frames =
        text(send(&app, with_header(get(&events_path), "last-event-id", &n.to_string())).await).await;
    assert_eq!(frame_names(&frames), [""; 0], "who has the end gets nothing twice");
}

#[tokio::test]
async fn events_that_were_removed_are_reported_and_the_end_comes_all_the_same() {
    let store = std::sync::Arc::new(doran_engine::store::RamStore::new());
    let app = crate::app_with_store(store.clone());
    let ask = r#"{"agent":"react","message":"안녕?"}"#;
    let answer = send(&app, post("/api/threads/t/runs?wait=true", ask)).await;
    let events_path = run_location(&answer);
    let n = all_events(&app, &events_path).await.len() as u64;
    // Many turns later what came first is not needed any more.
    for _ in 0..40 {
        let answer = send(&app, post("/api/threads/t/runs?wait=true", ask)).await;
        assert_eq!(answer.status(), 200);
    }
    let retention = doran_engine::store::Retention {
        old_entries: Some(std::time::Duration::ZERO),
        ..doran_engine::store::Retention::default()
    };
    use doran_engine::store::ThreadMaintenance;
    store.gc(&retention).await.expect("removed");
    let frames = text(send(&app, get(&events_path)).await).await;
    assert_eq!(frame_names(&frames), ["gone", "finished"], "{frames}");
    assert!(frames.contains(&format!("\"after\":0,\"next\":{n}")), "{frames}");
}

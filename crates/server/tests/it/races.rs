//! What must happen once happens once, however many ask for it at the same time.

use std::sync::Arc;
use std::time::Duration;

use doran_agents::RequestPurpose;
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, Usage};
use doran_offline::OfflineModel;
use doran_server::{ServerLimits, router};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    PATIENCE, PausingModel, app, app_with, get, json, json_request, post, problem, run_location, send, text,
    until, with_header,
};

const SHORT_ASK_BODY: &str = r#"{"agent":"react","message":"안녕?"}"#;

fn ask_body(message: &str) -> String {
    json!({ "agent": "assistant", "message": message }).to_string()
}

/// Says these words whatever it is asked.
struct FixedReplyModel(String);

impl ChatModel for FixedReplyModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return OfflineModel.stream(request);
        }
        let words: Vec<String> = self.0.split_inclusive(' ').map(str::to_owned).collect();
        let last = Ok(Delta::Done { usage: Usage::default(), finish: FinishReason::Stop });
        let words = words.into_iter().map(|text| Ok(Delta::Text { text }));
        stream::iter(words.chain([last]).collect::<Vec<_>>()).boxed()
    }
}

#[tokio::test]
async fn fifty_requests_with_one_key_start_one_run() {
    let app = app();
    for path in ["/api/threads/t/runs?wait=true", "/api/chat", "/v1/chat/completions"] {
        let body = match path {
            "/api/chat" => json!({ "message": "안녕?" }).to_string(),
            "/v1/chat/completions" => {
                json!({ "model": "react", "messages": [{ "role": "user", "content": "안녕?" }] }).to_string()
            }
            _ => ask_body("안녕?"),
        };
        let key = format!("key-{}", path.len());
        let before = json(&app, get("/api/usage")).await["runs"].as_u64().expect("a number");
        let answers =
            join_all((0..50).map(|_| json(&app, with_header(post(path, &body), "idempotency-key", &key))))
                .await;
        let ids: std::collections::BTreeSet<String> = answers
            .iter()
            .map(|answer| {
                ["runId", "id"].iter().find_map(|key| answer[*key].as_str()).expect("an id").to_owned()
            })
            .collect();
        assert_eq!(ids.len(), 1, "{path}: {ids:?}");
        let runs = json(&app, get("/api/usage")).await["runs"].as_u64().expect("a number");
        assert_eq!(runs - before, 1, "{path}");
        let other = body.replace("안녕?", "다른 말");
        let response_text = send(&app, with_header(post(path, &other), "idempotency-key", &key)).await;
        assert_eq!(response_text.status(), 422, "{path}");
    }
}

/// How often a race is run. Both sides of it are in this process, so that they are as close together as can be.
const RACES: usize = 1000;

/// A server whose models say one word, so that a thousand runs take a moment.
fn short_reply_router() -> axum::Router {
    router(&app_with(Arc::new(FixedReplyModel("네.".into())), ServerLimits::default()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_works_on_one_run_at_a_time() {
    let app = short_reply_router();
    for round in 0..RACES {
        let runs = format!("/api/threads/t{round}/runs");
        let ask = || {
            let (app, runs) = (app.clone(), runs.clone());
            tokio::spawn(async move { send(&app, post(&runs, SHORT_ASK_BODY)).await })
        };
        let both = join_all([ask(), ask()]).await.into_iter().map(|answer| answer.expect("no panic"));
        let mut accepted = 0;
        for answer in both {
            match answer.status().as_u16() {
                200 => {
                    accepted += 1;
                    assert!(text(answer).await.contains("event: finished"));
                }
                409 => assert!(text(answer).await.contains("thread_busy")),
                other => panic!("{other}"),
            }
        }
        let listed = json(&app, get(&runs)).await["runs"].as_array().expect("a list").len();
        assert!(accepted >= 1 && listed == accepted, "{accepted} {listed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_taken_once() {
    let app = router(&app());
    for round in 0..RACES {
        let body = r#"{"agent":"react","message":"3450000 * 0.125는?"}"#;
        let answer = send(&app, post(&format!("/api/threads/t{round}/runs"), body)).await;
        let run = run_location(&answer).trim_end_matches("/events").to_owned();
        assert!(text(answer).await.contains("event: paused"));
        let question = json(&app, get(&run)).await["questions"][0]["id"].as_str().expect("an id").to_owned();
        let body = json!({ "answers": { question: { "approve": true } } }).to_string();
        let resume = || {
            let (app, run, body) = (app.clone(), run.clone(), body.clone());
            tokio::spawn(async move { send(&app, post(&format!("{run}/resume"), &body)).await })
        };
        let both = join_all([resume(), resume()]).await;
        let mut statuses: Vec<u16> =
            both.into_iter().map(|answer| answer.expect("no panic").status().as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "round {round}");
        let events = text(send(&app, get(&format!("{run}/events"))).await).await;
        assert_eq!(events.matches("event: resumed").count(), 1, "{events}");
        assert_eq!(events.matches("event: finished").count(), 1, "{events}");
    }
}

/// Thinks for two milliseconds, so that a request may come before and after the end of a run.
struct ThinkingModel(FixedReplyModel);

impl ChatModel for ThinkingModel {
    fn info(&self) -> ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let reply = self.0.stream(request);
        stream::once(tokio::time::sleep(Duration::from_millis(2)))
            .flat_map(|()| stream::empty())
            .chain(reply)
            .boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_once_however_it_ends() {
    let model = ThinkingModel(FixedReplyModel("네.".into()));
    let app = router(&app_with(Arc::new(model), ServerLimits::default()));
    let mut ends = std::collections::BTreeMap::new();
    for round in 0..RACES {
        let answer = send(&app, post(&format!("/api/threads/t{round}/runs"), SHORT_ASK_BODY)).await;
        let run = run_location(&answer).trim_end_matches("/events").to_owned();
        // From at once to well after the end.
        tokio::time::sleep(Duration::from_micros(80 * (round % 100) as u64)).await;
        let cancelled = send(&app, post(&format!("{run}/cancel"), "{}")).await;
        assert_eq!(cancelled.status(), 200, "{}", text(cancelled).await);
        drop(answer);
        let events = text(send(&app, get(&format!("{run}/events"))).await).await;
        let last: Vec<&str> = ["finished", "failed", "cancelled"]
            .into_iter()
            .flat_map(|end| std::iter::repeat_n(end, events.matches(&format!("\nevent: {end}\n")).count()))
            .collect();
        assert_eq!(last.len(), 1, "{events}");
        let status = json(&app, get(&run)).await["status"].as_str().expect("a status").to_owned();
        assert_eq!(status, last[0]);
        *ends.entry(status).or_insert(0) += 1;
    }
    assert!(ends.contains_key("cancelled") && ends.contains_key("finished"), "{ends:?}");
}

#[tokio::test]
async fn what_is_deleted_in_the_middle_does_not_come_back() {
    let leave = Arc::new(Notify::new());
    let app = app_with(Arc::new(PausingModel(leave.clone())), ServerLimits::default());
    let answer = send(&app, post("/api/threads/t/runs", &ask_body("안녕?"))).await;
    let run = run_location(&answer).trim_end_matches("/events").to_owned();
    let mut frames = answer.into_body().into_data_stream();
    let mut seen = String::new();
    while !seen.contains("event: delta") {
        seen.push_str(
            std::str::from_utf8(&frames.next().await.expect("more").expect("bytes")).expect("text"),
        );
    }
    assert_eq!(send(&app, json_request("delete", "/api/threads/t", "")).await.status(), 204);
    leave.notify_waiters();
    let rest = async { while frames.next().await.is_some() {} };
    tokio::time::timeout(PATIENCE, rest).await.expect("the stream ends");
    for path in ["/api/threads/t", "/api/threads/t/messages", &run, &format!("{run}/events")] {
        assert_eq!(problem(&app, get(path)).await, "404 not_found", "{path}");
    }
    assert_eq!(json(&app, get("/api/threads")).await["threads"], json!([]));
    assert_eq!(json(&app, get("/api/runs")).await["runs"], json!([]));
    // What it used stays counted.
    let usage = json(&app, get("/api/usage")).await;
    assert_eq!((&usage["runs"], &usage["deleted"]["runs"]), (&json!(1), &json!(1)), "{usage}");
}

#[tokio::test]
async fn words_of_a_model_cannot_end_a_frame_or_make_one() {
    let words = "가\n\nevent: finished\ndata: {}\n\nid: 99\r\rdata: [DONE]\r\n\r\n끝";
    let app = app_with(Arc::new(FixedReplyModel(words.into())), ServerLimits::default());
    let frames = text(send(&app, post("/api/threads/t/runs", &ask_body("안녕?"))).await).await;
    assert_eq!(frames.matches("\nevent: finished\n").count(), 1, "{frames}");
    assert!(!frames.contains("\nid: 99") && !frames.contains('\r'), "{frames}");
    let body =
        json!({ "model": "assistant", "stream": true, "messages": [{ "role": "user", "content": "안녕?" }] });
    let chunks = text(send(&app, post("/v1/chat/completions", &body.to_string())).await).await;
    assert_eq!(chunks.matches("\ndata: [DONE]\n").count(), 1, "{chunks}");
    let output: String = chunks
        .split_terminator("\n\n")
        .filter_map(|frame| serde_json::from_str::<serde_json::Value>(frame.strip_prefix("data: ")?).ok())
        .filter_map(|chunk| Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned()))
        .collect();
    assert_eq!(output, words);
}

#[tokio::test]
async fn three_hundred_watchers_see_the_same() {
    let leave = Arc::new(Notify::new());
    let app = app_with(Arc::new(PausingModel(leave.clone())), ServerLimits::default());
    let answer = send(&app, post("/api/threads/t/runs", &ask_body("안녕?"))).await;
    let place = run_location(&answer);
    let watching: Vec<_> = (0..300)
        .map(|_| {
            let (app, place) = (app.clone(), place.clone());
            tokio::spawn(async move { text(send(&app, get(&place)).await).await })
        })
        .collect();
    until(async || text(send(&app, get("/metrics")).await).await.contains("doran_streams_open 301")).await;
    leave.notify_one();
    drop(answer);
    let whole = text(send(&app, get(&place)).await).await;
    let numbered = |frames: &str| -> Vec<String> {
        frames.split("\n\n").filter(|frame| frame.starts_with("id: ")).map(str::to_owned).collect()
    };
    for watcher in watching {
        assert_eq!(numbered(&watcher.await.expect("no panic")), numbered(&whole));
    }
    until(async || text(send(&app, get("/metrics")).await).await.contains("doran_streams_open 0")).await;
}

//! The budget of a month: a run gets what is left of it, and when nothing is left no route starts one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use doran_agents::{AgentParts, RequestPurpose, build_default_agents};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, Usage};
use doran_offline::OfflineModel;
use doran_retrieval::RamKeywordIndex;
use doran_server::{MonthlyBudget, RateLimit, ServerApp, ServerLimits};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::mcp::{initialize, mcp_request};
use crate::{
    app_for_tenant, get, json, json_request, post, send, text, two_keys, until, with_header, with_key_of,
};

const BUDGET_MICROS: u64 = 10_000;
pub(crate) const CALL_MICROS: u64 = 4_000;

/// Says one word for a fixed price, and counts how often. What is not for the person costs nothing.
pub(crate) struct PricedReplyModel(pub(crate) Arc<AtomicUsize>);

impl ChatModel for PricedReplyModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return OfflineModel.stream(request);
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        let usage = Usage {
            cost_micros: Some(CALL_MICROS),
            counted: doran_llm::TokenCountSource::Reported,
            ..Usage::default()
        };
        let done = Delta::Done { usage, finish: FinishReason::Stop };
        stream::iter([Ok(Delta::Text { text: "네.".into() }), Ok(done)]).boxed()
    }
}

/// A run of a tenant on a thread of its own, waited for.
async fn run(app: &ServerApp, tenant: &str, thread: &str) -> Value {
    let path = format!("/api/threads/{thread}/runs?wait=true");
    json(app, with_key_of(tenant, post(&path, r#"{"agent":"react","message":"안녕?"}"#))).await
}

/// What the server says was spent.
async fn spent(app: &ServerApp, tenant: &str) -> Value {
    json(app, with_key_of(tenant, get("/api/usage"))).await["budget"]["spent_micros"].clone()
}

#[tokio::test]
async fn a_run_gets_what_is_left_of_the_budget_and_then_no_route_starts_one() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (app, _) = app_for_tenant(Arc::new(PricedReplyModel(calls.clone())), "a");
    let rate_limit = RateLimit { per_minute: 1e9, burst: 1e9 };
    let limits = ServerLimits { rate_limit, ..ServerLimits::default() };
    let budget = MonthlyBudget::new(BUDGET_MICROS);
    let app = app.keys(two_keys()).limits(limits).budget(budget);

    for thread in ["one", "two"] {
        let answered = run(&app, "a", thread).await;
        assert_eq!(
            (&answered["status"], &answered["response"]),
            (&json!("finished"), &json!("네.")),
            "{answered}"
        );
    }
    // A fifth of the budget is left, and the next call costs two fifths.
    let stopped = run(&app, "a", "three").await;
    assert_eq!(stopped["status"], "failed", "{stopped}");
    // Nothing is looked at in between: what runs cost that ended just now counts at once.
    assert_eq!(spent(&app, "a").await, json!(3 * CALL_MICROS));

    let made = with_key_of("a", post("/threads", "{}"));
    let thread = json(&app, made).await["thread_id"].as_str().expect("an id").to_owned();
    let opened = send(&app, with_key_of("a", mcp_request(&initialize()))).await;
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    let before = calls.load(Ordering::SeqCst);
    assert_eq!(before, 3);
    let words = json!([{ "role": "user", "content": "안녕?" }]);
    let graph_run = json!({ "assistant_id": "react", "input": { "messages": words } });
    for (path, body) in [
        ("/api/threads/four/runs", json!({ "agent": "react", "message": "안녕?" })),
        ("/api/threads/four/runs?wait=true", json!({ "agent": "react", "message": "안녕?" })),
        ("/api/chat", json!({ "agent": "react", "message": "안녕?" })),
        ("/api/contract/chat", json!({ "message": "계약서를 검토해 주세요" })),
        ("/api/threads/one/fork", json!({ "at": 1, "go_on": true })),
        ("/v1/chat/completions", json!({ "model": "react", "messages": words })),
        ("/v1/chat/completions", json!({ "model": "react", "messages": words, "stream": true })),
        ("/v1/responses", json!({ "model": "react", "input": "안녕?" })),
        ("/runs/wait", graph_run.clone()),
        ("/runs/stream", graph_run.clone()),
        (&format!("/threads/{thread}/runs"), graph_run.clone()),
        (&format!("/threads/{thread}/runs/wait"), graph_run.clone()),
    ] {
        let refused = send(&app, with_key_of("a", post(path, &body.to_string()))).await;
        assert_eq!(refused.status().as_u16(), 402, "{path}");
        let error = text(refused).await;
        assert!(error.contains("budget_spent"), "{path}: {error}");
    }
    let params = json!({ "name": "ask", "arguments": { "agent": "react", "message": "안녕?" } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    let call = with_header(with_key_of("a", mcp_request(&call)), "mcp-session-id", &session);
    let error = text(send(&app, call).await).await;
    assert!(error.contains("monthly_budget_cents") && error.contains(r#""isError":true"#), "{error}");
    assert_eq!(calls.load(Ordering::SeqCst), before, "no model was asked");
    let threads = json(&app, with_key_of("a", get("/api/threads"))).await;
    let names: Vec<&str> =
        threads["threads"].as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(!names.contains(&"four") && names.len() == 4, "no fork and no thread is left behind: {names:?}");
    // The budget is that of each tenant.
    assert_eq!(run(&app, "b", "one").await["status"], "finished");
}

/// The same, once it is let go.
struct HeldReplyModel(PricedReplyModel, Arc<Notify>);

impl ChatModel for HeldReplyModel {
    fn info(&self) -> ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return self.0.stream(request);
        }
        let (reply, go) = (self.0.stream(request), self.1.clone());
        let held = async move {
            go.notified().await;
            reply
        };
        stream::once(held).flatten().boxed()
    }
}

/// A server of the local tenant whose runs are in this store.
fn app_on(store: Arc<RamStore>, model: Arc<dyn ChatModel>) -> (ServerApp, Runtime) {
    let index = Arc::new(RamKeywordIndex::default());
    let agents = build_default_agents(&AgentParts::new(model, index.clone())).expect("sound graphs");
    let runtime = Runtime::new(store.clone());
    for agent in &agents {
        agent.register(&runtime).expect("registered");
    }
    (ServerApp::new(runtime.clone(), store, agents).index(index), runtime)
}

fn delete(path: &str) -> axum::http::Request<axum::body::Body> {
    json_request("delete", path, "")
}

fn priced_model() -> (Arc<dyn ChatModel>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    (Arc::new(PricedReplyModel(calls.clone())), calls)
}

#[tokio::test]
async fn deleting_gives_nothing_back() {
    let (model, calls) = priced_model();
    let (app, _) = app_on(Arc::new(RamStore::new()), model);
    let app = app.budget(MonthlyBudget::new(3 * CALL_MICROS));
    let ask = json!({ "agent": "react", "message": "안녕?" }).to_string();
    assert_eq!(json(&app, post("/api/threads/one/runs?wait=true", &ask)).await["status"], "finished");
    assert!(send(&app, delete("/api/threads/one")).await.status().is_success());
    // The thread of such a run is deleted after it.
    let input = json!({ "messages": [{ "role": "user", "content": "안녕?" }] });
    let graph_run = json!({ "assistant_id": "react", "input": input }).to_string();
    assert!(send(&app, post("/runs/wait", &graph_run)).await.status().is_success());
    let asked = json!({ "model": "react", "input": "안녕?" }).to_string();
    let response = json(&app, post("/v1/responses", &asked)).await;
    let id = response["id"].as_str().expect("an id");
    assert!(send(&app, delete(&format!("/v1/responses/{id}"))).await.status().is_success());
    until(async || json(&app, get("/api/threads")).await["threads"] == json!([])).await;

    let usage = json(&app, get("/api/usage?days=2&utc_offset=540")).await;
    let spent = json!(3 * CALL_MICROS);
    assert_eq!((&usage["runs"], &usage["cost_micros"]), (&json!(3), &spent), "{usage}");
    assert_eq!((&usage["deleted"]["runs"], &usage["deleted"]["cost_micros"]), (&json!(3), &spent), "{usage}");
    for group in ["by_day", "by_agent"] {
        let cost =
            usage[group].as_array().expect("a list").iter().filter_map(|one| one["cost_micros"].as_u64());
        assert_eq!(cost.sum::<u64>(), 3 * CALL_MICROS, "{group}: {usage}");
    }
    assert_eq!(usage["by_agent"][0]["name"], "react", "{usage}");
    assert_eq!((&usage["by_key"], &usage["by_model"]), (&json!([]), &json!([])), "nobody knows any more");
    assert_eq!(usage["complete"], true, "{usage}");
    assert_eq!(json(&app, get("/api/usage")).await["cost_micros"], spent);
    assert_eq!(usage["budget"]["spent_micros"], spent);
    assert_eq!(send(&app, post("/api/threads/two/runs", &ask)).await.status().as_u16(), 402);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_run_that_waited_is_refused_when_it_begins() {
    let (calls, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let model = HeldReplyModel(PricedReplyModel(calls.clone()), go.clone());
    let (app, _) = app_on(Arc::new(RamStore::new()), Arc::new(model));
    let app = app.budget(MonthlyBudget::new(CALL_MICROS));
    let words = json!([{ "role": "user", "content": "안녕?" }]);
    let runs = async || json(&app, get("/api/runs")).await["runs"].as_array().map_or(0, Vec::len);
    let ask = json!({ "agent": "react", "message": "안녕?", "if_busy": "enqueue" });
    let completion = json!({ "model": "react", "messages": words, "metadata": { "thread_id": "t" } });
    let mut asking = Vec::new();
    for (nth, (path, body)) in [
        ("/api/threads/t/runs?wait=true", &ask),
        ("/api/threads/t/runs?wait=true", &ask),
        ("/v1/chat/completions", &completion),
    ]
    .into_iter()
    .enumerate()
    {
        let (app, request) = (app.clone(), post(path, &body.to_string()));
        asking.push(tokio::spawn(async move {
            let response = send(&app, request).await;
            (response.status().as_u16(), text(response).await)
        }));
        until(async || runs().await == nth + 1).await;
    }
    until(async || calls.load(Ordering::SeqCst) == 1).await;
    go.notify_one();
    let mut lines = Vec::new();
    for one in asking {
        lines.push(one.await.expect("no panic"));
    }
    assert!(lines[0].1.contains("\"finished\""), "{lines:?}");
    assert!(lines[1].1.contains("\"failed\"") && lines[1].1.contains("budget_spent"), "{lines:?}");
    assert!(
        lines[2].0 == 402 && lines[2].1.contains("budget_spent"),
        "as if it were refused at once: {lines:?}"
    );
    assert_eq!(calls.load(Ordering::SeqCst), 1, "no model was asked");
    assert_eq!(json(&app, get("/api/usage")).await["budget"]["spent_micros"], json!(CALL_MICROS));
}

#[tokio::test]
async fn usage_is_not_complete_when_tokens_are_estimated() {
    let app = crate::app();
    let ask = json!({ "agent": "react", "message": "안녕?" }).to_string();
    assert_eq!(json(&app, post("/api/threads/t/runs?wait=true", &ask)).await["status"], "finished");
    for path in ["/api/usage?thread=t", "/api/usage?days=2"] {
        assert_eq!(
            json(&app, get(path)).await["complete"],
            false,
            "the built-in model counts no tokens: {path}"
        );
    }
}

#[tokio::test]
async fn usage_is_not_complete_when_a_server_died_under_a_call() {
    let (store, calls) = (Arc::new(RamStore::new()), Arc::new(AtomicUsize::new(0)));
    let hung = HeldReplyModel(PricedReplyModel(calls.clone()), Arc::new(Notify::new()));
    let (first, dies) = app_on(store.clone(), Arc::new(hung));
    let ask = json!({ "agent": "react", "message": "안녕?" }).to_string();
    drop(send(&first, post("/api/threads/t/runs", &ask)).await);
    until(async || calls.load(Ordering::SeqCst) == 1).await;
    dies.shutdown(std::time::Duration::ZERO).await;

    let (second, runtime) = app_on(store, priced_model().0);
    runtime.start_worker().await.expect("at work");
    until(async || json(&second, get("/api/threads/t/runs")).await["runs"][0]["status"] == "finished").await;
    for path in ["/api/usage?thread=t", "/api/usage?days=2"] {
        assert_eq!(json(&second, get(path)).await["complete"], false, "{path}");
    }
    assert_eq!(json(&second, post("/api/threads/other/runs?wait=true", &ask)).await["status"], "finished");
    assert_eq!(json(&second, get("/api/usage?thread=other")).await["complete"], true);
}

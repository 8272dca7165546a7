//! The budget of a month: a run gets what is left of it, and when nothing is left no route starts one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use doran_agents::RequestPurpose;
use doran_engine::RunLimits;
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, Usage};
use doran_offline::OfflineModel;
use doran_server::{MonthlyBudget, RateLimit, ServerApp, ServerLimits};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::mcp::{initialize, mcp_request};
use crate::{app_for_tenant, get, json, post, send, text, two_keys, with_header, with_key_of};

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
        let usage = Usage { cost_micros: Some(CALL_MICROS), ..Usage::default() };
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
    let budget = MonthlyBudget::new(BUDGET_MICROS, RunLimits::default());
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
        let told = text(refused).await;
        assert!(told.contains("budget_spent"), "{path}: {told}");
    }
    let params = json!({ "name": "ask", "arguments": { "agent": "react", "message": "안녕?" } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    let call = with_header(with_key_of("a", mcp_request(&call)), "mcp-session-id", &session);
    let told = text(send(&app, call).await).await;
    assert!(told.contains("monthly_budget_cents") && told.contains(r#""isError":true"#), "{told}");
    assert_eq!(calls.load(Ordering::SeqCst), before, "no model was asked");
    let threads = json(&app, with_key_of("a", get("/api/threads"))).await;
    let names: Vec<&str> =
        threads["threads"].as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(!names.contains(&"four") && names.len() == 4, "no fork and no thread is left behind: {names:?}");
    // The budget is that of each tenant.
    assert_eq!(run(&app, "b", "one").await["status"], "finished");
}

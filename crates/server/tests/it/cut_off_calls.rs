//! Model calls that were begun and not finished: they are counted, and the words that came name the model that wrote them.

use std::sync::Arc;
use std::time::Duration;

use doran_agents::{AgentParts, build_default_agents};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_llm::{
    ChatModel, ModelApiKey, ModelConfig, ModelRetryPolicy, ReceivedHttpRequest, ScriptedBodyPiece,
    ScriptedDialect, ScriptedServer, ScriptedVendorAnswer, open_model,
};
use doran_retrieval::RamKeywordIndex;
use doran_server::{ServerApp, router};
use serde_json::{Value, json};

use crate::{get, json as fetched, post, send, text};

/// How the answers of the large model end. The small one always decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerEnd {
    Whole,
    CutOff,
    Silent,
}

fn model_of(server: &ScriptedServer, name: &str) -> Arc<dyn ChatModel> {
    let id = format!("openai:{name}").parse().expect("an id");
    let config = ModelConfig { base_url: Some(server.url()), ..ModelConfig::new(id) };
    open_model(&config, ModelApiKey::new("sk-test")).expect("a model")
}

/// A server with a large and a small model of one vendor.
async fn app_with_two_models(end: AnswerEnd) -> (axum::Router, ScriptedServer) {
    let vendor = ScriptedServer::start_with_responder(move |request: &ReceivedHttpRequest| {
        if request.body["model"] == "small" {
            let route = json!({ "route": "agent", "reason": "x" }).to_string();
            return ScriptedDialect::Chat.streamed_response(&ScriptedVendorAnswer::text(&route));
        }
        let whole =
            ScriptedDialect::Chat.streamed_response(&ScriptedVendorAnswer::text("하나 둘 셋 넷 다섯"));
        match end {
            AnswerEnd::Whole => whole,
            AnswerEnd::CutOff => whole.keep_first_pieces(3),
            AnswerEnd::Silent => whole.keep_first_pieces(3).then_piece(ScriptedBodyPiece::Stall),
        }
    })
    .await
    .expect("a server");
    let index = Arc::new(RamKeywordIndex::default());
    let wait = Duration::from_millis(1);
    let retries = ModelRetryPolicy { first_wait: wait, max_wait: wait, ..ModelRetryPolicy::default() };
    let main = model_of(&vendor, "large");
    let small = model_of(&vendor, "small");
    let parts = AgentParts { small, retries, ..AgentParts::new(main, index.clone()) };
    let agents = build_default_agents(&parts).expect("sound graphs");
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    for agent in &agents {
        agent.register(&runtime).expect("registered");
    }
    (router(&ServerApp::new(runtime, store, agents).index(index)), vendor)
}

async fn usage(routes: &axum::Router) -> Value {
    fetched(routes, get("/api/usage?thread=t")).await
}

/// The calls and tokens of a model in `/api/usage`.
fn calls_of(usage: &Value, model: &str) -> (u64, u64, u64) {
    let rows = usage["by_model"].as_array().expect("models");
    let row = rows.iter().find(|row| row["name"].as_str().is_some_and(|name| name.ends_with(model)));
    let number = |key: &str| row.and_then(|row| row[key].as_u64()).unwrap_or(0);
    (number("calls"), number("input_tokens"), number("output_tokens"))
}

fn question(agent: &str) -> String {
    json!({ "agent": agent, "message": "안녕하세요" }).to_string()
}

#[tokio::test]
async fn a_whole_answer_names_its_model_and_its_usage_is_exact() {
    let (routes, _vendor) = app_with_two_models(AnswerEnd::Whole).await;
    let events = text(send(&routes, post("/api/threads/t/runs", &question("assistant"))).await).await;
    assert!(events.contains("event: finished"), "{events}");
    let messages = fetched(&routes, get("/api/threads/t/messages")).await;
    assert_eq!(messages["messages"][1]["model"], "openai:large", "{messages}");
    let usage = usage(&routes).await;
    assert_eq!((calls_of(&usage, "small").0, calls_of(&usage, "large").0), (1, 1), "{usage}");
    assert_eq!(usage["complete"], true, "{usage}");
    let of_today = fetched(&routes, get("/api/usage?days=1")).await;
    assert_eq!((&of_today["by_model"], &of_today["complete"]), (&usage["by_model"], &json!(true)));
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_counted_as_an_estimate() {
    let (routes, vendor) = app_with_two_models(AnswerEnd::CutOff).await;
    // `react` ends such a run well, with a sentence about it.
    let events = text(send(&routes, post("/api/threads/t/runs", &question("react"))).await).await;
    assert!(events.contains("event: finished"), "{events}");
    let messages = fetched(&routes, get("/api/threads/t/messages")).await;
    assert_eq!(messages["messages"][1]["model"], Value::Null, "no model wrote that sentence: {messages}");
    let usage = usage(&routes).await;
    let (calls, input, _) = calls_of(&usage, "large");
    assert_eq!(calls, vendor.received_requests().len() as u64, "{usage}");
    assert!(input > 0, "{usage}");
    assert_eq!(usage["complete"], false, "{usage}");
    let of_today = fetched(&routes, get("/api/usage?days=1")).await;
    assert_eq!((&of_today["by_model"], &of_today["complete"]), (&usage["by_model"], &json!(false)));
}

#[tokio::test]
async fn an_answer_that_is_stopped_is_counted_as_an_estimate() {
    let (routes, vendor) = app_with_two_models(AnswerEnd::Silent).await;
    let asked = tokio::spawn({
        let routes = routes.clone();
        async move { text(send(&routes, post("/api/threads/t/runs", &question("assistant"))).await).await }
    });
    // The first words are there; then the vendor is silent.
    while !vendor.received_requests().iter().any(|sent| sent.body["model"] == "large") {
        tokio::task::yield_now().await;
    }
    let runs = fetched(&routes, get("/api/threads/t/runs")).await;
    let run = runs["runs"][0]["id"].as_str().expect("a run").to_owned();
    let stopped = send(&routes, post(&format!("/api/threads/t/runs/{run}/cancel"), "{}")).await;
    assert!(stopped.status().is_success(), "{}", stopped.status());
    let events = asked.await.expect("a stream");
    assert!(events.contains("event: cancelled"), "{events}");
    let usage = usage(&routes).await;
    let (calls, input, _) = calls_of(&usage, "large");
    assert!(calls == 1 && input > 0 && calls_of(&usage, "small").0 == 1, "{usage}");
    assert_eq!(usage["complete"], false, "{usage}");
}

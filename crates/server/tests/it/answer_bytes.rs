//! Not a byte of an answer changes between the vendor and the reader: random texts, from a vendor in each of its dialects,
//! through every dialect of the server. The one exception is NUL, which vendors refuse in the next request: it becomes U+FFFD.
//!
//! The streams of events can be kept for the page, whose own test reads them (`ui/test/answer-streams.test.ts`):
//! `DORAN_ANSWER_STREAMS=DIRECTORY`.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use axum::Router;
use doran_agents::{AgentParts, build_default_agents};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_llm::{
    ModelApiKey, ModelConfig, ModelId, RandomTexts, ReceivedHttpRequest, ScriptedDialect, ScriptedServer,
    ScriptedVendorAnswer, open_model,
};
use doran_retrieval::RamKeywordIndex;
use doran_server::{RateLimit, ServerApp, ServerLimits, router};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::mcp::{initialize, mcp_request};
use crate::{get, json as fetched, post, text, with_header};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// A server and its vendor keep all they ever did in memory, so each answers this many texts.
const TEXTS_PER_SERVER: usize = 50;
const QUESTION: &str = "안녕하세요";
const AGENTS: [&str; 3] = ["react", "assistant", "docqa"];

/// A server whose models are those of a vendor that gives the current text as its answer.
struct TextServer {
    routes: Router,
    current: Arc<Mutex<Vec<String>>>,
    mcp_session: String,
    _vendor: ScriptedServer,
}

/// What the vendor answers: decisions where a decision is asked for, the current text otherwise.
fn vendor_answer(asked: &str, current: &Mutex<Vec<String>>) -> ScriptedVendorAnswer {
    let decision = |value: Value| ScriptedVendorAnswer::text(&value.to_string());
    if asked.contains("is_sufficient") {
        decision(json!({ "is_sufficient": true, "reasoning": "x", "missing_info": null }))
    } else if asked.contains("need_previous_context") || asked.contains("in_scope") {
        decision(json!({ "in_scope": true, "need_previous_context": false, "reasoning": "x" }))
    } else if asked.contains("\"chitchat\"") {
        decision(json!({ "reason": "x", "type": "chitchat" }))
    } else if asked.contains("\"route\"") {
        decision(json!({ "route": "agent", "reason": "x" }))
    } else {
        let text = current.lock().expect("no panic").clone();
        ScriptedVendorAnswer { text, ..ScriptedVendorAnswer::text("x") }
    }
}

impl TextServer {
    async fn start(dialect: ScriptedDialect) -> Self {
        let current: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = current.clone();
        let respond = move |request: &ReceivedHttpRequest| {
            let asked = request.body.to_string();
            let answer = vendor_answer(&asked, &shared);
            match asked.contains("\"stream\":true") || request.path.contains("stream") {
                true => dialect.streamed_response(&answer),
                false => dialect.whole_response(&answer),
            }
        };
        let vendor = ScriptedServer::start_with_responder(respond).await.expect("a server");
        let id = ModelId { provider: dialect.provider().into(), model: "m".into(), base_url: None };
        let config = ModelConfig { base_url: Some(vendor.url()), ..ModelConfig::new(id) };
        let model = open_model(&config, ModelApiKey::new("sk-test")).expect("a model");
        let index = Arc::new(RamKeywordIndex::default());
        let agents = build_default_agents(&AgentParts::new(model, index.clone())).expect("sound graphs");
        let store = Arc::new(RamStore::new());
        let runtime = Runtime::new(store.clone());
        for agent in &agents {
            agent.register(&runtime).expect("registered");
        }
        let rate_limit = RateLimit { per_minute: 1e9, burst: 1e9 };
        let limits = ServerLimits { rate_limit, ..ServerLimits::default() };
        let routes = router(&ServerApp::new(runtime, store, agents).index(index).limits(limits));
        let opened = routes.clone().oneshot(mcp_request(&initialize())).await.expect("an answer");
        let mcp_session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
        text(opened).await;
        Self { routes, current, mcp_session, _vendor: vendor }
    }

    async fn sent(&self, path: &str, body: &Value) -> String {
        let response = self.routes.clone().oneshot(post(path, &body.to_string())).await.expect("an answer");
        let status = response.status();
        let body = text(response).await;
        assert!(status.is_success(), "{path}: {status} {body}");
        body
    }

    async fn sent_json(&self, path: &str, body: &Value) -> Value {
        serde_json::from_str(&self.sent(path, body).await).expect("JSON")
    }

    /// The answer as every dialect gives it, with the name of the dialect; and the stream of events of one run.
    async fn answers(&self, nth: usize) -> (Vec<(&'static str, String)>, String) {
        let agent = AGENTS[nth % AGENTS.len()];
        let (stream, of_events, of_messages) = self.run_events(agent, nth).await;
        let answers = vec![
            ("the events of a run", of_events),
            ("messages", of_messages),
            ("/v1/chat/completions", self.chat_completion(agent).await),
            ("/v1/chat/completions, streamed", self.streamed_chat_completion(agent).await),
            ("/v1/responses", self.response(agent).await),
            ("/v1/responses, streamed", self.streamed_response(agent).await),
            ("/api/chat", self.chat(agent).await),
            ("/api/contract/chat", self.contract_chat().await),
            ("LangGraph", self.langgraph_run().await),
            ("LangGraph, streamed", self.streamed_langgraph_run().await),
            ("MCP", self.mcp_call(agent).await),
        ];
        (answers, stream)
    }

    /// The run as its events tell it, and the message as it is stored.
    async fn run_events(&self, agent: &str, nth: usize) -> (String, String, String) {
        let thread = format!("t{nth}");
        let path = format!("/api/threads/{thread}/runs");
        let stream = self.sent(&path, &json!({ "agent": agent, "message": QUESTION })).await;
        assert!(stream.contains("event: finished"), "{stream}");
        let (mut pieces, mut recorded) = (Vec::new(), String::new());
        for data in stream_data(&stream) {
            if data["type"] == "delta"
                && let Some(piece) = data["text"].as_str()
            {
                pieces.push((data["index"].as_u64().expect("a number"), piece.to_owned()));
            }
            for task in data["tasks"].as_array().into_iter().flatten() {
                for change in task["update"]["messages"].as_array().into_iter().flatten() {
                    let message = change.get("put").unwrap_or(change);
                    if message["role"] == "assistant" {
                        recorded = message_text(message);
                    }
                }
            }
        }
        // Pieces may be left out for a reader that is slow. If none is, they are the answer too.
        let is_whole = (0..).zip(&pieces).all(|(expected, (index, _))| expected == *index);
        if is_whole && !pieces.is_empty() {
            let text: String = pieces.into_iter().map(|(_, piece)| piece).collect();
            assert_eq!(text, recorded, "the pieces of {agent}");
        }
        let stored = fetched(&self.routes, get(&format!("/api/threads/{thread}/messages"))).await;
        let last = stored["messages"].as_array().and_then(|all| all.last()).expect("a message");
        (stream, recorded, last["text"].as_str().expect("a text").to_owned())
    }

    async fn chat_completion(&self, agent: &str) -> String {
        let asked = json!({ "model": agent, "messages": [{ "role": "user", "content": QUESTION }] });
        let whole = self.sent_json("/v1/chat/completions", &asked).await;
        whole["choices"][0]["message"]["content"].as_str().expect("a text").to_owned()
    }

    async fn streamed_chat_completion(&self, agent: &str) -> String {
        let messages = json!([{ "role": "user", "content": QUESTION }]);
        let asked = json!({ "model": agent, "messages": messages, "stream": true });
        let streamed = self.sent("/v1/chat/completions", &asked).await;
        stream_text(&streamed, |data| data["choices"][0]["delta"]["content"].as_str())
    }

    async fn response(&self, agent: &str) -> String {
        output_text(&self.sent_json("/v1/responses", &json!({ "model": agent, "input": QUESTION })).await)
    }

    /// The pieces of a streamed response. The whole one at its end is the same.
    async fn streamed_response(&self, agent: &str) -> String {
        let asked = json!({ "model": agent, "input": QUESTION, "stream": true });
        let streamed = self.sent("/v1/responses", &asked).await;
        let pieces = stream_text(&streamed, |data| {
            (data["type"] == "response.output_text.delta").then(|| data["delta"].as_str()).flatten()
        });
        let mut completed =
            stream_data(&streamed).into_iter().filter(|data| data["type"] == "response.completed");
        assert_eq!(output_text(&completed.next().expect("an end")["response"]), pieces, "its last event");
        pieces
    }

    async fn chat(&self, agent: &str) -> String {
        let chat = self.sent_json("/api/chat", &json!({ "message": QUESTION, "agent": agent })).await;
        chat["response"].as_str().expect("a text").to_owned()
    }

    async fn contract_chat(&self) -> String {
        let streamed = self.sent("/api/contract/chat", &json!({ "message": "계약서를 검토해 주세요" })).await;
        stream_text(&streamed, |data| (data["type"] == "token").then(|| data["content"].as_str()).flatten())
    }

    async fn langgraph_run(&self) -> String {
        let input = json!({ "messages": [{ "role": "user", "content": QUESTION }] });
        let state = self.sent_json("/runs/wait", &json!({ "assistant_id": "react", "input": input })).await;
        message_text(last_message(&state))
    }

    /// The pieces of a stream of messages. The state at its end is the same.
    async fn streamed_langgraph_run(&self) -> String {
        let input = json!({ "messages": [{ "role": "user", "content": QUESTION }] });
        let modes = ["values", "messages-tuple"];
        let asked = json!({ "assistant_id": "react", "input": input, "stream_mode": modes });
        let streamed = self.sent("/runs/stream", &asked).await;
        let data = stream_data(&streamed);
        let mut states = data.iter().filter(|data| data["messages"].is_array());
        let stored = message_text(last_message(states.next_back().expect("a state")));
        let pieces: String = data
            .iter()
            .filter(|data| data[0]["type"] == "AIMessageChunk")
            .map(|data| message_text(&data[0]))
            .collect();
        assert!(pieces.is_empty() || pieces == stored, "pieces {pieces:?}, state {stored:?}");
        stored
    }

    async fn mcp_call(&self, agent: &str) -> String {
        let arguments = json!({ "agent": agent, "message": QUESTION });
        let params = json!({ "name": "ask", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        let request = with_header(mcp_request(&call), "mcp-session-id", &self.mcp_session);
        let response = self.routes.clone().oneshot(request).await.expect("an answer");
        let streamed = text(response).await;
        stream_text(&streamed, |data| data["result"]["content"][0]["text"].as_str())
    }
}

fn last_message(state: &Value) -> &Value {
    state["messages"].as_array().and_then(|all| all.last()).expect("a message")
}

/// The text of a message: as a string, or in parts.
fn message_text(message: &Value) -> String {
    if let Some(text) = message["text"].as_str().or(message["content"].as_str()) {
        return text.to_owned();
    }
    let parts = message["parts"].as_array().or(message["content"].as_array()).into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

/// The text of a response object.
fn output_text(response: &Value) -> String {
    let output = response["output"].as_array().into_iter().flatten();
    let parts = output.filter(|item| item["type"] == "message").flat_map(|item| item["content"].as_array());
    parts.flatten().filter_map(|part| part["text"].as_str()).collect()
}

/// The data of a stream, as a client reads it: frames end with an empty line.
fn stream_data(frames: &str) -> Vec<Value> {
    let data = frames.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// The texts in the data of a stream, put together.
fn stream_text(frames: &str, text_of: impl Fn(&Value) -> Option<&str>) -> String {
    stream_data(frames).iter().filter_map(text_of).collect()
}

/// Sends the texts `first..end` through a server with a vendor of this dialect. Gives the streams of events, a line each.
async fn check_texts(dialect: ScriptedDialect, first: usize, end: usize) -> String {
    let server = TextServer::start(dialect).await;
    let mut random = RandomTexts::new(SEED ^ first as u64);
    let mut streams = String::new();
    for nth in first..end {
        let text = random.text();
        *server.current.lock().expect("no panic") = random.split(&text);
        let text = text.replace('\0', "\u{fffd}");
        let (answers, stream) = server.answers(nth).await;
        for (name, answer) in answers {
            assert_eq!(answer, text, "text {nth}, from {dialect:?} through {name}");
        }
        writeln!(streams, "{}", json!({ "text": text, "stream": stream })).expect("a string takes it");
    }
    streams
}

/// Sends so many texts through every dialect; each dialect of a vendor has every fourth group of them.
async fn check_all(count: usize) {
    let kept = std::env::var_os("DORAN_ANSWER_STREAMS").map(std::path::PathBuf::from);
    let groups = (0..count).step_by(TEXTS_PER_SERVER).zip(ScriptedDialect::ALL.into_iter().cycle());
    let mut waiting = groups.collect::<Vec<_>>().into_iter();
    let mut running = tokio::task::JoinSet::new();
    loop {
        while running.len() < 4
            && let Some((first, dialect)) = waiting.next()
        {
            let (kept, end) = (kept.clone(), (first + TEXTS_PER_SERVER).min(count));
            running.spawn(async move {
                let streams = check_texts(dialect, first, end).await;
                if let Some(directory) = kept {
                    std::fs::write(directory.join(format!("{first:05}.jsonl")), streams).expect("written");
                }
            });
        }
        match running.join_next().await {
            Some(checked) => checked.expect("every text is as the vendor sent it"),
            None => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_texts_pass_every_dialect_byte_for_byte() {
    check_all(300).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: run it with `--ignored` after a change of models, agents or dialects"]
async fn ten_thousand_random_texts_pass_every_dialect_byte_for_byte() {
    check_all(10_000).await;
}

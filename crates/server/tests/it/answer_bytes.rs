//! Not a byte of an answer changes between the vendor and the reader: random texts, from a vendor in each of its dialects,
//! through every dialect of the server. The one exception is NUL, which vendors refuse in the next request: it becomes U+FFFD.

use std::sync::{Arc, Mutex};

use doran_agents::{AgentParts, build_default_agents};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_llm::{
    ModelApiKey, ModelConfig, ModelId, ReceivedHttpRequest, ScriptedDialect, ScriptedServer,
    ScriptedVendorAnswer, open_model,
};
use doran_retrieval::RamKeywordIndex;
use doran_server::{RateLimit, ServerApp, ServerLimits, router};
use serde_json::{Value, json};

use crate::{get, json as fetched, post, text};

/// Pieces that parsers, renderers and protocols trip over.
const PIECES: &[&str] = &[
    "- [ ] 할 일",
    "- [x] ",
    "[    ]년",
    "m[4][1]",
    "[1]",
    "[1][2]",
    "[12, 3]",
    "[^1]",
    "![그림](a.png)",
    "[",
    "]",
    "[]",
    "(",
    "{",
    "}}",
    "```rust\nfn main() { let a = [0; 4]; a[0]; }\n```",
    "`",
    "~~~\n",
    "|a|b|\n|-|-|\n",
    "# 제목\n",
    "> 인용\n",
    "**굵게**",
    "<b>",
    "</",
    "&amp;",
    "&",
    "\"",
    "'",
    "\\",
    "\\n",
    "\\u0000",
    "$x_1$",
    "%s",
    "%00",
    "{0}",
    "data: ",
    "data: [DONE]\n\n",
    "event: done\n",
    ": comment\n\n",
    "id: 3\n",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    "  ",
    " ",
    "\u{b}",
    "\u{c}",
    "\u{0}",
    "\u{1}",
    "\u{7}",
    "\u{8}",
    "\u{1b}[31m",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{202e}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{10ffff}",
    "가",
    "각",
    "ᄀ",
    "ᄀ\u{1161}\u{11a8}",
    "뷁",
    "ㅋㅋ",
    "한글과 English",
    "연차는 15일입니다.",
    "제5조(손해배상)",
    "①",
    "漢字",
    "ﬁ",
    "é",
    "e\u{301}",
    "😀",
    "👨\u{200d}👩\u{200d}👧",
    "🇰🇷",
    "İ",
    "ß",
    "null",
    "true",
    "0",
    "-1.5e300",
    "…",
    "[이전 대화 요약]",
    "---SUMMARY_BREAK---",
    "Error: ",
];

/// A small random generator with a seed, so that a failure can be repeated.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// A text that is not blank: a vendor that says nothing is a failure.
    fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.below(24) {
            text.push_str(PIECES[self.below(PIECES.len())]);
        }
        if text.trim().is_empty() {
            text.push('가');
        }
        text
    }

    /// The same text in pieces of a few characters.
    fn split(&mut self, text: &str) -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        let (mut pieces, mut at) = (Vec::new(), 0);
        while at < letters.len() {
            let end = (at + 1 + self.below(6)).min(letters.len());
            pieces.push(letters[at..end].iter().collect());
            at = end;
        }
        pieces
    }
}

/// A server whose models are those of a vendor that gives the current text as its answer.
struct TextVendor {
    routes: axum::Router,
    current: Arc<Mutex<Vec<String>>>,
    _vendor: ScriptedServer,
}

impl TextVendor {
    async fn start(dialect: ScriptedDialect) -> Self {
        let current: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = current.clone();
        let respond = move |request: &ReceivedHttpRequest| {
            let asked = request.body.to_string();
            let decision = |value: Value| ScriptedVendorAnswer::text(&value.to_string());
            let answer = if asked.contains("is_sufficient") {
                decision(json!({ "is_sufficient": true, "reasoning": "x", "missing_info": null }))
            } else if asked.contains("need_previous_context") || asked.contains("in_scope") {
                decision(json!({ "in_scope": true, "need_previous_context": false, "reasoning": "x" }))
            } else if asked.contains("\"chitchat\"") {
                decision(json!({ "type": "chitchat" }))
            } else if asked.contains("\"route\"") {
                decision(json!({ "route": "agent", "reason": "x" }))
            } else {
                let text = shared.lock().expect("no panic").clone();
                ScriptedVendorAnswer { text, ..ScriptedVendorAnswer::text("x") }
            };
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
        let app = ServerApp::new(runtime, store, agents).index(index).limits(limits);
        Self { routes: router(&app), current, _vendor: vendor }
    }

    async fn sent(&self, path: &str, body: &Value) -> String {
        use tower::ServiceExt;
        let response = self.routes.clone().oneshot(post(path, &body.to_string())).await.expect("an answer");
        assert!(response.status().is_success(), "{path}: {}", response.status());
        text(response).await
    }

    /// The answer as every dialect gives it, with the name of the dialect.
    async fn answers(&self, nth: usize) -> Vec<(String, String)> {
        let mut answers = Vec::new();
        let question = "안녕하세요";
        for agent in ["react", "assistant", "docqa"] {
            let messages = json!([{ "role": "user", "content": question }]);
            let whole =
                self.sent("/v1/chat/completions", &json!({ "model": agent, "messages": messages })).await;
            let whole: Value = serde_json::from_str(&whole).expect("JSON");
            let content = whole["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
            answers.push((format!("/v1 {agent}"), content));
        }
        let messages = json!([{ "role": "user", "content": question }]);
        let asked = json!({ "model": "react", "messages": messages, "stream": true });
        let streamed = self.sent("/v1/chat/completions", &asked).await;
        answers.push((
            "/v1 stream".into(),
            stream_text(&streamed, |data| data["choices"][0]["delta"]["content"].as_str().map(str::to_owned)),
        ));

        let responses = self.sent("/v1/responses", &json!({ "model": "react", "input": question })).await;
        let responses: Value = serde_json::from_str(&responses).expect("JSON");
        let output = responses["output"].as_array().into_iter().flatten();
        let parts =
            output.filter(|item| item["type"] == "message").flat_map(|item| item["content"].as_array());
        let content = parts.flatten().filter_map(|part| part["text"].as_str()).collect();
        answers.push(("/v1/responses".into(), content));

        let chat = self.sent("/api/chat", &json!({ "message": question, "agent": "react" })).await;
        let chat: Value = serde_json::from_str(&chat).expect("JSON");
        answers.push(("/api/chat".into(), chat["response"].as_str().unwrap_or_default().to_owned()));

        let contract = self.sent("/api/contract/chat", &json!({ "message": "계약서를 검토해 주세요" })).await;
        let tokens =
            |data: &Value| (data["type"] == "token").then(|| data["content"].as_str().map(str::to_owned))?;
        answers.push(("/api/contract/chat".into(), stream_text(&contract, tokens)));

        let thread = format!("t{nth}");
        let run = self
            .sent(&format!("/api/threads/{thread}/runs"), &json!({ "agent": "react", "message": question }))
            .await;
        assert!(run.contains("event: finished"), "{run}");
        let stored = fetched(&self.routes, get(&format!("/api/threads/{thread}/messages"))).await;
        let last = stored["messages"].as_array().and_then(|all| all.last()).expect("a message");
        answers.push(("messages".into(), last["text"].as_str().unwrap_or_default().to_owned()));
        answers
    }
}

/// The texts in the data of a stream, put together.
fn stream_text(frames: &str, text_of: impl Fn(&Value) -> Option<String>) -> String {
    let data = frames.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| text_of(&serde_json::from_str(data).ok()?)).collect()
}

async fn check_texts(count: usize) {
    let mut random = SeededRandom(0x9e37_79b9_7f4a_7c15);
    let mut vendors = Vec::new();
    for dialect in ScriptedDialect::ALL {
        vendors.push((dialect, TextVendor::start(dialect).await));
    }
    for nth in 0..count {
        let text = random.text();
        let (dialect, vendor) = &vendors[nth % vendors.len()];
        *vendor.current.lock().expect("no panic") = random.split(&text);
        let text = text.replace('\0', "\u{fffd}");
        for (name, answer) in vendor.answers(nth).await {
            assert_eq!(answer, text, "text {nth}, from {dialect:?} through {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_texts_pass_every_dialect_byte_for_byte() {
    check_texts(120).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: run it with `--ignored` after a change of models, agents or dialects"]
async fn ten_thousand_random_texts_pass_every_dialect_byte_for_byte() {
    check_texts(10_000).await;
}

//! Words on their way: all of them arrive in every dialect that streams, in order, whatever a listener missed.

use std::sync::Arc;

use doran_agents::tools::{Calculator, ToolPolicy};
use doran_agents::{AgentParts, RequestPurpose, build_agents, samples};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, Role, ToolCall, Usage};
use doran_offline::OfflineModel;
use doran_retrieval::RamKeywordIndex;
use doran_server::ServerApp;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::{app, get, json as fetched, post, send, text};

const FIRST: &str = "시간을 확인해 볼게요.";
const ANSWER: &str = "지금은 세 시입니다. 회의는 네 시에 시작하니 아직 한 시간이 남았습니다.";

/// Says a word before it uses a tool, as most models do, and all of it without a pause.
struct ToolCallingModel;

impl ChatModel for ToolCallingModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return OfflineModel.stream(request);
        }
        let asked = request.messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
        let knows = request.messages[asked..].iter().any(|message| message.role == Role::Tool);
        let words = if knows { ANSWER } else { FIRST };
        let mut texts: Vec<_> =
            words.split_inclusive(' ').map(|word| Ok(Delta::Text { text: word.to_owned() })).collect();
        let finish = if knows { FinishReason::Stop } else { FinishReason::ToolCalls };
        if !knows {
            let (id, name) = ("c1".to_owned(), "calculator".to_owned());
            texts.push(Ok(Delta::ToolCall(ToolCall {
                id,
                name,
                arguments: json!({ "expression": "12 + 3" }),
            })));
        }
        texts.push(Ok(Delta::Done { usage: Usage::default(), finish }));
        stream::iter(texts).boxed()
    }
}

fn app_with_tool_calling_model() -> ServerApp {
    let index = Arc::new(RamKeywordIndex::from_documents(
        &doran_retrieval::DocumentTenant::new("local"),
        &samples::rule_books(),
    ));
    let mut parts = AgentParts::new(Arc::new(ToolCallingModel), index.clone());
    parts.tools.add(Arc::new(Calculator::new()), ToolPolicy::Allow).expect("a sound tool");
    let tools = json!({ "agents": { "docqa": { "tools": ["calculator"] } } });
    let settings = serde_json::from_value(tools).expect("settings");
    let agents = build_agents(&settings, &parts).expect("sound graphs");
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    for agent in &agents {
        agent.register(&runtime).expect("registered");
    }
    ServerApp::new(runtime, store, agents).index(index)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_whole_when_the_model_speaks_before_it_uses_a_tool() {
    let app = app_with_tool_calling_model();
    for agent in ["assistant", "react", "docqa"] {
        for _ in 0..20 {
            let asked = json!({ "model": agent, "stream": true,
                "messages": [{ "role": "user", "content": "지금 몇 시야?" }] });
            let frames = text(send(&app, post("/v1/chat/completions", &asked.to_string())).await).await;
            let mut words = String::new();
            for line in frames.lines().filter_map(|line| line.strip_prefix("data: {")) {
                let chunk: Value = serde_json::from_str(&format!("{{{line}")).expect("JSON");
                words.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
            }
            let before = words.strip_suffix(ANSWER).unwrap_or_else(|| panic!("{agent}: {words}\n{frames}"));
            // What `docqa` says before a tool is on no record: what nobody saw of it in time is left out, and marked so.
            let said = before.trim_end();
            let cut = said.strip_suffix('…').filter(|cut| agent == "docqa" && FIRST.starts_with(*cut));
            assert!(said.is_empty() || said == FIRST || cut.is_some(), "{agent}: half a sentence: {words}");
            assert!(!frames.contains("\"error\"") && frames.ends_with("data: [DONE]\n\n"), "{frames}");
        }
    }
}

/// The frames of a stream: their names, and their data.
fn parse_frames(reply: &str) -> Vec<(String, Value)> {
    let frame = |frame: &str| {
        let (name, data) = frame.strip_prefix("event: ")?.split_once("\ndata: ")?;
        Some((name.to_owned(), serde_json::from_str(data).expect("JSON")))
    };
    reply.split_terminator("\n\n").filter_map(frame).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_call_of_the_design_is_taken_and_its_loop_reads_every_frame() {
    let app = app();
    let contract = "samples/contracts/용역계약서.docx";
    for session in 0..20 {
        let asked = json!({
            "contract_id": contract,
            "user_message": "제5조 내용이 뭐야?",
            "session_id": format!("session_{session}"),
            "previous_turn": [
                { "role": "user", "content": "계약 기간은?" },
                { "role": "assistant", "content": "계약 기간은 1년입니다." },
            ],
        });
        let output = text(send(&app, post("/api/contract/chat", &asked.to_string())).await).await;
        let (mut words, mut sources, mut names) = (String::new(), Value::Null, Vec::new());
        for (name, event) in parse_frames(&output) {
            assert_eq!(event["type"], name.as_str(), "{event}");
            assert!(event.get("content").is_some(), "{event}");
            match name.as_str() {
                "token" => words.push_str(event["content"].as_str().expect("words")),
                "thinking" => assert!(event["step"].is_string() && event["content"].is_string(), "{event}"),
                "sources" => sources = event["content"].clone(),
                _ => {}
            }
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        assert_eq!(names.first().map(String::as_str), Some("start"), "{names:?}");
        assert!(names.ends_with(&["token".into(), "sources".into(), "done".into()]), "{names:?}");
        assert!(words.contains("[1]"), "sources are counted from 1: {words}");
        assert!(sources[0]["number"] == 1 && sources[0]["article"] == "제5조", "{sources}");
    }
    let messages = fetched(&app, get("/api/threads/session_0/messages")).await;
    assert_eq!(messages["messages"][1]["text"], "계약 기간은 1년입니다.", "{messages}");
    let again = json!({ "message": "제6조는?", "sessionId": "session_0",
        "previousTurn": [{ "role": "user", "content": "이미 아는 말" }] });
    text(send(&app, post("/api/contract/chat", &again.to_string())).await).await;
    let messages = fetched(&app, get("/api/threads/session_0/messages")).await.to_string();
    assert!(!messages.contains("이미 아는 말"), "what is known is not said again: {messages}");
}

#[tokio::test]
async fn what_an_answer_rests_on_is_numbered_the_same_in_every_view() {
    let app = app();
    let question = "연차휴가는 며칠인가요?";
    let chat = json!({ "agent": "assistant", "message": question, "sessionId": "t" }).to_string();
    let chat = fetched(&app, post("/api/chat", &chat)).await;
    let said = fetched(&app, get("/api/threads/t/messages")).await;
    let said = &said["messages"][1];
    let ask = |stream: bool| {
        let messages = json!([{ "role": "user", "content": question }]);
        let asked = json!({ "model": "assistant", "messages": messages, "stream": stream });
        post("/v1/chat/completions", &asked.to_string())
    };
    let whole = fetched(&app, ask(false)).await;
    let message = &whole["choices"][0]["message"];
    let streamed = text(send(&app, ask(true)).await).await;
    let (mut words, mut annotations) = (String::new(), Value::Null);
    for line in streamed.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let chunk: Value = serde_json::from_str(&format!("{{{line}")).expect("JSON");
        let delta = &chunk["choices"][0]["delta"];
        words.push_str(delta["content"].as_str().unwrap_or_default());
        if let Some(reply) = delta.get("annotations") {
            assert_eq!(chunk["choices"][0]["finish_reason"], "stop");
            annotations = reply.clone();
        }
    }
    assert!(words.contains("[1]"), "{words}");
    for (view, text) in [("chat", &chat["response"]), ("said", &said["text"]), ("whole", &message["content"])]
    {
        assert_eq!(*text, words.as_str(), "{view}");
    }
    assert_eq!(annotations, message["annotations"]);
    let cited = &annotations[0]["url_citation"];
    let place = |name: &str| usize::try_from(cited[name].as_u64().expect("a place")).expect("small");
    let mark: String =
        words.chars().skip(place("start_index")).take(place("end_index") - place("start_index")).collect();
    assert_eq!((mark.as_str(), &cited["number"]), ("[1]", &json!(1)), "{cited}");
    for sources in [&chat["sources"], &said["sources"], &whole["sources"]] {
        assert_eq!((&sources[0]["number"], &sources[0]["quote"]), (&json!(1), &cited["quote"]), "{sources}");
    }
    let address = cited["url"].as_str().expect("an address");
    let (origin, path) = address.split_at(address.find("/api/").expect("a route"));
    assert!(origin.starts_with("http://"), "{address}");
    let opened = fetched(&app, get(path)).await;
    assert!(
        opened["text"].as_str().is_some_and(|text| text.contains(cited["quote"].as_str().expect("words")))
    );
}

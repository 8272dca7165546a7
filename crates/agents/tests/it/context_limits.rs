//! What is too long for a model is shortened before it is sent, whatever the agent and wherever it came from; and where
//! nobody said how much the model takes, the request is sent again in half its length.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use doran_agents::described::{AgentDescription, build_described_agent};
use doran_agents::protocol::{ModelCallNote, notes_of_entry};
use doran_agents::tools::{ToolPolicy, ToolSideEffect, Toolbox};
use doran_agents::{AgentParts, RequestPurpose, Settings};
use doran_engine::Runtime;
use doran_engine::store::RamStore;
use doran_llm::{ChatModel, ChatRequest, DeltaStream, ModelError, ScriptedModel, ScriptedReply, ToolChoice};
use doran_retrieval::{Document, DocumentKind, DocumentTenant, RamKeywordIndex};
use serde_json::json;

use crate::agent_fixture::{
    AgentFixture, CountingTool, build_fixture, estimate_request_tokens, has_tool_results, test_thread,
};

/// Tokens that the model takes.
const MAX_CONTEXT_TOKENS: usize = 6_000;

/// A model that refuses what is longer than its context, as vendors do.
#[derive(Clone, Default)]
struct SmallContextModel {
    refused_count: Arc<AtomicU32>,
}

impl ChatModel for SmallContextModel {
    fn info(&self) -> doran_llm::ModelInfo {
        ScriptedModel::new([]).info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let reply = if estimate_request_tokens(&request) > MAX_CONTEXT_TOKENS {
            self.refused_count.fetch_add(1, Ordering::SeqCst);
            ScriptedReply::failure(ModelError::TooLong { reason: "400 context_length_exceeded".into() })
        } else {
            decide_reply(&request)
        };
        ScriptedModel::new([reply]).stream(request)
    }
}

fn decide_reply(request: &ChatRequest) -> ScriptedReply {
    let reads = request.tools.iter().any(|tool| tool.name == "read_all");
    match RequestPurpose::of(request).expect("a purpose of agents") {
        RequestPurpose::Route => ScriptedReply::json(&json!({ "route": "agent", "reason": "말" })),
        RequestPurpose::Classify if request.schema.as_ref().is_some_and(|schema| schema.name == "choice") => {
            ScriptedReply::json(&json!({ "choice": "read" }))
        }
        RequestPurpose::Classify => ScriptedReply::json(&json!({ "reason": "x", "type": "question" })),
        RequestPurpose::Sufficiency => ScriptedReply::json(
            &json!({ "is_sufficient": true, "reasoning": "찾았다", "missing_info": null }),
        ),
        RequestPurpose::Plan => ScriptedReply::text("더 볼 것이 없습니다."),
        RequestPurpose::Summarize => ScriptedReply::text("긴 글을 읽었다."),
        _ if reads && request.tool_choice == ToolChoice::Auto && !has_tool_results(request) => {
            ScriptedReply::call("read_all", json!({}))
        }
        _ => ScriptedReply::text("읽었습니다."),
    }
}

/// Never stops when it sums up.
fn endless_summary_reply(request: &ChatRequest) -> ScriptedReply {
    match RequestPurpose::of(request).expect("a purpose of agents") {
        RequestPurpose::Summarize => ScriptedReply::text("요약입니다. ".repeat(40_000)),
        _ => decide_reply(request),
    }
}

#[tokio::test]
async fn a_summary_without_end_is_cut_and_every_request_fits() {
    for (name, settings) in [
        ("assistant", "[agents.assistant]\ncontext_length = 6000\nmax_messages = 2\nkeep_recent = 1"),
        (
            "docqa",
            "[agents.docqa]\ncontext_length = 6000\ncompression_threshold = 0.05\ncompression_target = 0.04",
        ),
    ] {
        let settings: Settings = toml::from_str(settings).expect("settings");
        let longest = Arc::new(AtomicU32::new(0));
        let model = RequestLengthModel { longest: longest.clone() };
        let index = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), []);
        let parts = AgentParts { tools: Toolbox::new(), ..AgentParts::new(Arc::new(model), Arc::new(index)) };
        let stage = build_fixture(name, &settings, &parts, Arc::new(RamStore::new()));
        for turn in 0..6 {
            stage.ask(&format!("{turn}번째 이야기: {}", "길게 말합니다. ".repeat(60))).await;
        }
        let summary = stage.turn().await.summary.expect("summed up");
        assert!(summary.len() <= 3 * 800 * 3 + 100, "{name}: {} bytes", summary.len());
        let longest = longest.load(Ordering::SeqCst) as usize;
        assert!(longest <= MAX_CONTEXT_TOKENS, "{name}: {longest} tokens");
    }
}

/// Takes anything, and notes how long the longest was.
struct RequestLengthModel {
    longest: Arc<AtomicU32>,
}

impl ChatModel for RequestLengthModel {
    fn info(&self) -> doran_llm::ModelInfo {
        ScriptedModel::new([]).info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let tokens = u32::try_from(estimate_request_tokens(&request)).expect("few");
        self.longest.fetch_max(tokens, Ordering::SeqCst);
        ScriptedModel::new([endless_summary_reply(&request)]).stream(request)
    }
}

const DESCRIBED_AGENT: &str = r#"
name = "described"
start = "sort"

[[node]]
name = "sort"
use = "route"
prompt = "What does it want? {{ question }}"
choices = ["read", "other"]
then = "shorten"

[[node]]
name = "shorten"
use = "summarize"
most = 2
keep = 1
then = "search"

[[node]]
name = "search"
use = "retrieve"
then = "judge"

[[node]]
name = "judge"
use = "evaluate"
prompt = "Is it enough?"
then = "talk"

[[node]]
name = "talk"
use = "call_model"
prompt = "Answer. {{ question }}"
branch = { to = { tools = "run", answer = "end" } }

[[node]]
name = "run"
use = "call_tools"
then = "talk"
"#;

const AGENT_NAMES: [&str; 5] = ["assistant", "contract", "react", "docqa", "described"];

fn long_text() -> String {
    "아주 긴 문장이 이어집니다. ".repeat(10_000)
}

/// Parts whose model is small, whose one tool gives 400 KB and whose contract has an article of that size.
fn oversized_parts(model: &SmallContextModel) -> AgentParts {
    let text = format!("용역 계약서\n\n제5조(해지) {}\n\n제6조(기타) 없음.\n", long_text());
    let contract =
        Document { kind: DocumentKind::Contract, ..Document::new("용역.md", "용역 계약서", &text) };
    let index = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), [&contract]);
    let mut toolbox = Toolbox::new();
    let tool = CountingTool::new("read_all", ToolSideEffect::ReadOnly, |_| Ok(long_text()))
        .with_max_output(1_000_000);
    toolbox.add(Arc::new(tool), ToolPolicy::Allow).expect("a tool");
    AgentParts { tools: toolbox, ..AgentParts::new(Arc::new(model.clone()), Arc::new(index)) }
}

fn build_agent(name: &str, description: &str, parts: &AgentParts) -> AgentFixture {
    if name == "described" {
        let description =
            AgentDescription::from_toml(&format!("{description}\n{DESCRIBED_AGENT}")).expect("a description");
        let agent = build_described_agent(&description, &[], parts).expect("sound");
        let runtime = Runtime::new(Arc::new(RamStore::new()));
        agent.register(&runtime).expect("registered");
        return AgentFixture { agent, runtime };
    }
    let settings: Settings = toml::from_str(&format!("[agents.{name}]\n{description}")).expect("settings");
    build_fixture(name, &settings, parts, Arc::new(RamStore::new()))
}

/// Talks about things of 400 KB: a question, an article, what a tool gives.
async fn ask_oversized_questions(stage: &AgentFixture) {
    let name = &stage.agent.name;
    let huge = format!("제5조 내용을 알려줘. {} 어떻게 생각해?", long_text());
    for question in [huge.as_str(), "제5조 내용이 뭐야?", "그럼 제6조는?", "제5조 내용이 뭐야?"]
    {
        let run = stage.start(question).await;
        let row = run.wait().await.expect("a rest");
        assert_eq!(row.error, None, "{name}");
        let turn = stage.turn().await;
        assert_eq!((turn.response.as_str(), turn.error), ("읽었습니다.", false), "{name}: {turn:?}");
    }
}

#[tokio::test]
async fn no_agent_sends_more_than_its_model_takes() {
    for name in AGENT_NAMES {
        let model = SmallContextModel::default();
        let stage =
            build_agent(name, &format!("context_length = {MAX_CONTEXT_TOKENS}"), &oversized_parts(&model));
        ask_oversized_questions(&stage).await;
        assert_eq!(model.refused_count.load(Ordering::SeqCst), 0, "{name}");
    }
}

#[tokio::test]
async fn what_a_model_refuses_as_too_long_is_sent_again_shorter() {
    for name in AGENT_NAMES {
        let model = SmallContextModel::default();
        let stage = build_agent(name, "", &oversized_parts(&model));
        ask_oversized_questions(&stage).await;
        assert!(model.refused_count.load(Ordering::SeqCst) > 0, "{name}");
    }
}

#[tokio::test]
async fn a_refused_request_is_counted_and_nobody_pays_for_it() {
    let model = SmallContextModel::default();
    let stage = build_agent("react", "", &oversized_parts(&model));
    let run = stage.start(&long_text()).await;
    let row = run.wait().await.expect("an end");
    let refused = model.refused_count.load(Ordering::SeqCst);
    assert!(refused > 0);
    assert_eq!(stage.turn().await.model_calls, 2 + refused);
    let entries = stage.runtime.entries(&test_thread(), 0, 1000).await.expect("entries");
    let notes = entries.iter().flat_map(|entry| notes_of_entry(&entry.body).expect("notes"));
    let mut answered = 0;
    for note in notes.flat_map(|notes| notes.models) {
        match note {
            ModelCallNote::Asked(call) => answered += call.input_tokens,
            ModelCallNote::Unfinished(call) => assert_eq!((call.input_tokens, call.output_tokens), (0, 0)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(row.usage.input_tokens, answered);
}

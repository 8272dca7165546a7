//! The fixture of agent tests: scripted models, counted tools, a few documents, and runs as printed traces.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_agents::tools::{
    Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolPolicy, ToolSideEffect, Toolbox,
};
use doran_agents::{Agent, AgentParts, AgentTurn, AskOptions, Settings, build_agents, samples};
use doran_engine::store::{RamStore, RunStatus, Store};
use doran_engine::{EntryBody, Event, RunHandle, Runtime, StartOptions, ThreadKey, WatchUntil};
use doran_llm::{
    ChatModel, ChatRequest, DeltaStream, Role, ScriptedModel, ScriptedReply, TextOrigin, ToolSpec,
};
use doran_retrieval::{DocumentIndex, DocumentTenant, RamKeywordIndex};
use serde_json::{Value, json};

use crate::dying_store::{CrashPoint, DyingStore};

pub fn sample_index() -> Arc<dyn DocumentIndex> {
    Arc::new(RamKeywordIndex::from_documents(&DocumentTenant::new("local"), &samples::rule_books()))
}

pub fn test_thread() -> ThreadKey {
    ThreadKey::local("대화").expect("a name")
}

/// A tool that answers from a table and counts how often it really ran.
pub struct CountingTool {
    about: ToolInfo,
    answer: fn(&Value) -> Result<String, ToolError>,
    pub runs: Arc<AtomicU32>,
}

impl CountingTool {
    pub fn new(
        name: &str,
        side_effect: ToolSideEffect,
        answer: fn(&Value) -> Result<String, ToolError>,
    ) -> Self {
        let spec = ToolSpec {
            name: name.into(),
            description: format!("a {name} for tests"),
            parameters: json!({ "type": "object", "additionalProperties": true }),
        };
        let about = ToolInfo {
            spec,
            ko: "시험용 도구".into(),
            en: "a tool for tests".into(),
            side_effect,
            outward: false,
            origin: TextOrigin::Tool,
            timeout: Duration::from_secs(5),
            max_output_bytes: 4000,
        };
        Self { about, answer, runs: Arc::default() }
    }

    pub fn outward(mut self) -> Self {
        self.about.outward = true;
        self
    }

    /// One that may give so many bytes.
    pub fn with_max_output(mut self, limit: usize) -> Self {
        self.about.max_output_bytes = limit;
        self
    }

    /// One whose words come from there.
    pub fn with_origin(mut self, origin: TextOrigin) -> Self {
        self.about.origin = origin;
        self
    }
}

#[async_trait]
impl Tool for CountingTool {
    fn info(&self) -> &ToolInfo {
        &self.about
    }

    async fn call(&self, arguments: Value, _: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        (self.answer)(&arguments).map(ToolOutput::text)
    }
}

pub fn calculator_answer(arguments: &Value) -> Result<String, ToolError> {
    match arguments["expression"].as_str() {
        Some("123 * 456") => Ok("56088".into()),
        Some("1 + 1") => Ok("2".into()),
        _ => Err(ToolError::BadArguments("invalid syntax".into())),
    }
}

/// A model that answers by what it is asked, so that asking again gives the same, and counts how often it was.
#[derive(Clone)]
pub struct RequestDrivenModel {
    decide: fn(&ChatRequest) -> ScriptedReply,
    pub call_count: Arc<AtomicU32>,
}

impl RequestDrivenModel {
    pub fn new(decide: fn(&ChatRequest) -> ScriptedReply) -> Self {
        Self { decide, call_count: Arc::default() }
    }
}

impl ChatModel for RequestDrivenModel {
    fn info(&self) -> doran_llm::ModelInfo {
        ScriptedModel::new([]).info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        self.call_count.fetch_add(1, Ordering::SeqCst);
        ScriptedModel::new([(self.decide)(&request)]).stream(request)
    }
}

/// The estimate of tokens that a model has to read for a request: words, calls and tools.
pub fn estimate_request_tokens(request: &ChatRequest) -> usize {
    let text = serde_json::to_string(&request.tools).expect("JSON");
    let words = request.messages.iter().flat_map(|message| &message.parts).map(|part| match part {
        doran_llm::MessagePart::Text { text, .. } => text.len(),
        doran_llm::MessagePart::ToolResult(result) => result.text.len(),
        doran_llm::MessagePart::Passage(passage) => passage.title.len() + passage.text.len(),
        doran_llm::MessagePart::ToolCall(call) => call.arguments.to_string().len(),
        _ => 0,
    });
    (words.sum::<usize>() + text.len()).div_ceil(3)
}

/// What was answered before, as a model that repeats itself says it; at first what it is given.
pub fn repeat_last_answer(request: &ChatRequest, first: &str) -> ScriptedReply {
    let mut answers = request.messages.iter().rev().filter(|message| message.role == Role::Assistant);
    let before = answers.find(|message| !message.text().is_empty()).map(doran_llm::Message::text);
    ScriptedReply::text(before.as_deref().unwrap_or(first))
}

/// Whether tools gave something back since the person spoke.
pub fn has_tool_results(request: &ChatRequest) -> bool {
    request
        .messages
        .iter()
        .rev()
        .take_while(|message| message.role != Role::User)
        .any(|message| message.role == Role::Tool)
}

/// A calculator, a search that must not be repeated, and how often each ran.
pub struct CountingTools {
    pub toolbox: Toolbox,
    pub calculator: Arc<AtomicU32>,
    pub order: Arc<AtomicU32>,
}

pub fn counting_tools() -> CountingTools {
    let calculator = CountingTool::new("calculator", ToolSideEffect::ReadOnly, calculator_answer);
    let clock =
        CountingTool::new(
            "get_current_datetime",
            ToolSideEffect::ReadOnly,
            |_| Ok("2026-11-15 09:00".into()),
        );
    let order = CountingTool::new("order", ToolSideEffect::Once, |_| Ok("주문 1건".into()));
    let (calculated, ordered) = (calculator.runs.clone(), order.runs.clone());
    let mut toolbox = Toolbox::new();
    for tool in [calculator, clock, order] {
        toolbox.add(Arc::new(tool), ToolPolicy::Allow).expect("a tool");
    }
    CountingTools { toolbox, calculator: calculated, order: ordered }
}

/// An agent on a store, with everything it needs.
pub struct AgentFixture {
    pub agent: Agent,
    pub runtime: Runtime,
}

pub fn agent_parts(model: Arc<dyn ChatModel>, toolbox: Toolbox) -> AgentParts {
    AgentParts { tools: toolbox, ..AgentParts::new(model, sample_index()) }
}

pub fn build_fixture(
    name: &str,
    settings: &Settings,
    parts: &AgentParts,
    store: Arc<dyn Store>,
) -> AgentFixture {
    let agents = build_agents(settings, parts).expect("sound agents");
    let runtime = Runtime::new(store);
    let agent = agents.iter().find(|agent| agent.name == name).expect("in the list").clone();
    agent.register(&runtime).expect("registered");
    AgentFixture { agent, runtime }
}

pub fn fixture_with_model(name: &str, model: impl ChatModel, toolbox: Toolbox) -> AgentFixture {
    build_fixture(
        name,
        &Settings::default(),
        &agent_parts(Arc::new(model), toolbox),
        Arc::new(RamStore::new()),
    )
}

impl AgentFixture {
    pub async fn start(&self, message: &str) -> RunHandle {
        self.start_with(message, &AskOptions::default()).await
    }

    pub async fn start_with(&self, message: &str, options: &AskOptions) -> RunHandle {
        let input = self.agent.input(message, options);
        self.runtime
            .start(&self.agent.name, &test_thread(), Some(&input), StartOptions::default())
            .await
            .expect("started")
    }

    /// Asks, waits, and gives the trace with the turn below it.
    pub async fn ask(&self, message: &str) -> String {
        let run = self.start(message).await;
        run.wait().await.expect("a rest");
        format!("{}{}", self.trace(&run).await, render_turn(&self.turn().await))
    }

    pub async fn turn(&self) -> AgentTurn {
        self.agent.read_turn(&self.state().await).expect("a turn")
    }

    pub async fn state(&self) -> Value {
        self.runtime.view(&self.agent.name, &test_thread(), None).await.expect("a state").state
    }

    /// The steps of a run, one a line: the node, what it showed and what it said.
    pub async fn trace(&self, run: &RunHandle) -> String {
        let mut watch = self.runtime.watch(&run.key(), 0, WatchUntil::RunEndedOrPaused).await.expect("watch");
        let mut lines = String::new();
        while let Some(event) = watch.try_next().await.expect("event") {
            let Event::Entry(_, entry) = event else { continue };
            match &entry.body {
                EntryBody::Step(step) => {
                    for task in &step.tasks {
                        let models = task.notes.get("models").and_then(Value::as_array).into_iter().flatten();
                        let models = models.filter(|model| model.get("cached").is_none()).count();
                        let calls = if models > 0 { format!(" · model×{models}") } else { String::new() };
                        let tries = if task.attempts > 1 {
                            format!(" · tries {}", task.attempts)
                        } else {
                            String::new()
                        };
                        writeln!(lines, "{}{calls}{tries}", task.node).expect("text");
                        let update: Value = serde_json::from_str(task.update.get()).expect("an update");
                        lines.push_str(&render_events(task.notes.get("events")));
                        lines.push_str(&render_messages(&update));
                    }
                }
                EntryBody::Paused { .. } => lines.push_str("(waits for a person)\n"),
                EntryBody::Failed { failure, node, .. } => {
                    let mut failed = json!(failure);
                    if let Some(node) = node {
                        failed["node"] = json!(node);
                    }
                    writeln!(lines, "(failed) {failed}").expect("text");
                }
                _ => {}
            }
        }
        lines
    }
}

/// What a step showed, one a line.
fn render_events(events: Option<&Value>) -> String {
    let mut lines = String::new();
    for event in events.and_then(Value::as_array).into_iter().flatten() {
        let line = match event["type"].as_str().expect("a type") {
            "thinking" => format!(
                "{}: {}",
                event["step"].as_str().expect("a step"),
                event["content"].as_str().expect("words")
            ),
            "tool_call" => {
                format!("call {}({})", event["name"].as_str().expect("a name"), event["arguments"])
            }
            "tool_result" => format!("gave {}", event["text"].as_str().expect("words")),
            "sources" => format!("sources {}", event["sources"].as_array().expect("a list").len()),
            other => panic!("unknown event {other}"),
        };
        writeln!(lines, "  ~ {line}").expect("text");
    }
    lines
}

/// What an update does to the messages, one a line.
fn render_messages(update: &Value) -> String {
    let mut lines = String::new();
    for change in update["messages"].as_array().into_iter().flatten() {
        if let Some(message) = change.get("put") {
            let message: doran_llm::Message = serde_json::from_value(message.clone()).expect("a message");
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
                Role::System => "system",
            };
            let calls: Vec<&str> = message.tool_calls().map(|call| call.name.as_str()).collect();
            let results: Vec<&str> = message.tool_results().map(|result| result.text.as_str()).collect();
            let text = message.text();
            let parts = [text, calls.join(" + "), results.join(" | ")];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            writeln!(lines, "  + {role} {}", parts.join(" → ")).expect("text");
        }
    }
    let gone = update["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|change| change.get("remove").is_some())
        .count();
    if gone > 0 {
        writeln!(lines, "  - {gone} messages").expect("text");
    }
    lines
}

/// A turn in a few lines.
pub fn render_turn(turn: &AgentTurn) -> String {
    let mut text = format!("= {}\n", turn.response);
    for source in &turn.sources {
        writeln!(text, "  [{}] {}", source.number, source.title).expect("text");
    }
    write!(text, "models {} · path {}", turn.model_calls, turn.path.join(" ")).expect("text");
    if !turn.tools_used.is_empty() {
        write!(text, " · tools {}", turn.tools_used.join(" ")).expect("text");
    }
    if let Some(code) = &turn.error_code {
        write!(text, " · error {code}").expect("text");
    }
    text.push('\n');
    text
}

/// Lets the process die at every commit of a turn, once before and once after it is written, and start again each
/// time; `on` builds the agent anew on a store, as a new process would. Gives the turn after each death, or nothing
/// where a person is asked what happened.
pub async fn kill_at_every_commit(
    message: &str,
    commits: u32,
    mut on: impl FnMut(Arc<dyn Store>) -> AgentFixture,
) -> Vec<(CrashPoint, Option<AgentTurn>)> {
    let mut turns = Vec::new();
    for commit in 1..=commits {
        for dies in [CrashPoint::Before(commit), CrashPoint::After(commit)] {
            let now = Arc::new(AtomicI64::new(1));
            let clock = now.clone();
            let store = RamStore::with_clock(Arc::new(move || clock.load(Ordering::SeqCst)));
            let dying = on(Arc::new(DyingStore::new(Arc::new(store.clone()), dies)));
            let input = dying.agent.input(message, &AskOptions::default());
            let started = dying
                .runtime
                .start(&dying.agent.name, &test_thread(), Some(&input), StartOptions::default())
                .await;
            let run = started.expect("accepted before it dies");
            drop(run.wait().await);
            // The second process may take over once the lease of the first has run out.
            now.fetch_add(3_600_000, Ordering::SeqCst);
            let key = run.key();
            let next = on(Arc::new(store));
            next.runtime.start_worker().await.expect("takes over");
            let row = next.runtime.run_handle(&key).await.expect("known").wait().await.expect("a rest");
            let turn = match row.status {
                RunStatus::Finished => Some(next.turn().await),
                RunStatus::Paused => None,
                other => panic!("{dies:?}: {other:?} {:?}", row.error),
            };
            turns.push((dies, turn));
        }
    }
    turns
}

/// The real Python, its workers taken from the program that the tests build.
#[cfg(feature = "python")]
pub fn python_tool() -> doran_agents::tools::python::PythonTool {
    use doran_agents::tools::python::{PythonLimits, PythonTool, SessionSigningKey};
    PythonTool::new(PythonLimits::default(), SessionSigningKey::new([7; 32]))
        .with_program(env!("CARGO_BIN_EXE_python-worker"))
}

/// Whether Python can be run here: it was compiled in, and this machine has a jail for it. Where parts are required,
/// it must be.
#[cfg(feature = "python")]
pub async fn has_python() -> bool {
    match python_tool().layers().await {
        Ok(_) => true,
        Err(why) => {
            assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "no jail here: {why}");
            false
        }
    }
}

/// Python was left out of this build.
#[cfg(not(feature = "python"))]
pub async fn has_python() -> bool {
    false
}

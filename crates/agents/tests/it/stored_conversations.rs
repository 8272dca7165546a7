//! Conversations that were stopped in the middle, or hold what a model made up: they can be read, and go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_agents::tools::{
    Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolPolicy, ToolSideEffect, Toolbox,
};
use doran_agents::{Settings, build_agents};
use doran_engine::runtime::StateEdit;
use doran_engine::store::{RamStore, RunStatus};
use doran_engine::{Runtime, ThreadKey};
use doran_llm::{
    ModelApiKey, ModelConfig, ModelId, ScriptedDialect, ScriptedModel, ScriptedServer, ScriptedVendorAnswer,
    TextOrigin, ToolCall, ToolSpec, open_model,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::agent_fixture::{agent_parts, build_fixture};

/// A tool that tells that it was called and never returns.
struct HangingTool {
    about: ToolInfo,
    called: Arc<Notify>,
}

impl HangingTool {
    fn new(called: Arc<Notify>) -> Self {
        let spec = ToolSpec {
            name: "wait".into(),
            description: "waits".into(),
            parameters: json!({ "type": "object" }),
        };
        let about = ToolInfo {
            spec,
            ko: "기다립니다".into(),
            en: "waits".into(),
            side_effect: ToolSideEffect::ReadOnly,
            outward: false,
            origin: TextOrigin::Tool,
            timeout: Duration::from_secs(600),
            max_output_bytes: 4000,
        };
        Self { about, called }
    }
}

#[async_trait]
impl Tool for HangingTool {
    fn info(&self) -> &ToolInfo {
        &self.about
    }

    async fn call(&self, _: Value, _: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        self.called.notify_one();
        std::future::pending().await
    }
}

/// The vendor wants the tool first, and answers every later request that it accepts.
async fn scripted_vendor(wire: ScriptedDialect) -> ScriptedServer {
    let asked = AtomicU32::new(0);
    let responder = move |_: &_| {
        let call = || ToolCall { id: "call-1".into(), name: "wait".into(), arguments: json!({}) };
        wire.streamed_response(&match asked.fetch_add(1, Ordering::SeqCst) {
            0 => ScriptedVendorAnswer::calls([call(), ToolCall { id: "call-2".into(), ..call() }]),
            _ => ScriptedVendorAnswer::text("다시 만나서 반갑습니다."),
        })
    };
    ScriptedServer::start_with_responder(responder).await.expect("a server")
}

#[tokio::test]
async fn a_conversation_that_was_stopped_during_a_tool_call_goes_on_with_every_vendor() {
    for (wire, model) in [
        (ScriptedDialect::Chat, "gpt-4.1-mini"),
        (ScriptedDialect::Messages, "claude-haiku-4-5"),
        (ScriptedDialect::Gemini, "gemini-2.5-flash"),
    ] {
        let server = scripted_vendor(wire).await;
        let id = ModelId { provider: wire.provider().into(), model: model.into(), base_url: None };
        let config = ModelConfig { base_url: Some(server.url()), ..ModelConfig::new(id) };
        let model = open_model(&config, ModelApiKey::new("sk-test")).expect("a model");
        let called = Arc::new(Notify::new());
        let mut toolbox = Toolbox::new();
        toolbox.add(Arc::new(HangingTool::new(called.clone())), ToolPolicy::Allow).expect("a tool");
        let parts = agent_parts(model, toolbox);
        let fixture = build_fixture("react", &Settings::default(), &parts, Arc::new(RamStore::new()));
        let run = fixture.start("기다려 줘").await;
        called.notified().await;
        fixture.runtime.cancel(&run.key()).await.expect("cancelled");
        assert_eq!(run.wait().await.expect("rests").status, RunStatus::Cancelled);
        let row = fixture.start("안녕?").await.wait().await.expect("rests");
        assert_eq!((row.status, row.error), (RunStatus::Finished, None), "{}", wire.provider());
        assert_eq!(fixture.turn().await.response, "다시 만나서 반갑습니다.", "{}", wire.provider());
        assert_eq!(server.received_requests().len(), 2, "{}", wire.provider());
    }
}

#[tokio::test]
async fn every_agent_reads_again_what_it_accepted() {
    let store = Arc::new(RamStore::new());
    let parts = || agent_parts(Arc::new(ScriptedModel::new([])), Toolbox::new());
    let deep = |depth: usize| (0..depth).fold(json!(1.5), |inner, _| json!({ "a": [inner, null] }));
    let agents = build_agents(&Settings::default(), &parts()).expect("agents");
    assert!(agents.len() >= 4, "all the agents that come with the program");
    for agent in &agents {
        let runtime = Runtime::new(store.clone());
        agent.register(&runtime).expect("registered");
        for depth in (0..75).step_by(5) {
            let thread = ThreadKey::local(&format!("{}-{depth}", agent.name)).expect("a name");
            runtime.put_thread(&thread, &Default::default()).await.expect("a thread");
            let call = json!({ "type": "tool_call", "id": "c", "name": "add", "arguments": deep(depth) });
            let message = json!({ "id": "a", "role": "assistant", "parts": [call] });
            let update = Some(json!({ "messages": [{ "put": message }] }));
            let edit = StateEdit { update, ..StateEdit::default() };
            let accepted = runtime.edit(&agent.name, &thread, None, &edit).await;
            assert_eq!(accepted.is_ok(), depth < 47, "{} {depth}: {accepted:?}", agent.name);
            let next = Runtime::new(store.clone());
            agent.register(&next).expect("registered");
            let view = next.view(&agent.name, &thread, None).await.expect("readable");
            assert_eq!(view.state["messages"].as_array().map_or(0, Vec::len), usize::from(accepted.is_ok()));
        }
    }
}

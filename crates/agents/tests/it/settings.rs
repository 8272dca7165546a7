//! Settings: what they change, and what is refused with the reason.

use std::sync::Arc;

use doran_agents::{Settings, build};
use doran_engine::store::RamStore;
use doran_llm::{Script, ScriptedModel};
use expect_test::expect;
use serde_json::json;

use crate::stage::{parts, stage, tools};

fn settings(text: &str) -> Settings {
    toml::from_str(text).expect("settings")
}

fn refused(text: &str) -> String {
    let parts = parts(Arc::new(ScriptedModel::new([])), tools().toolbox);
    match toml::from_str::<Settings>(text) {
        Ok(settings) => build(&settings, &parts).expect_err("refused").to_string(),
        Err(error) => error.message().to_owned(),
    }
}

#[tokio::test]
async fn a_further_assistant_has_its_own_name_prompt_language_and_tools() {
    let settings = settings(
        r#"
        [agents.assistant]
        max_tool_rounds = 1

        [assistants.법무]
        agent = "assistant"
        ko = "계약을 봅니다"
        language = "en"
        tools = ["calculator"]
        prompts = { "en/assistant" = "You are a lawyer." }
        "#,
    );
    let model =
        ScriptedModel::new([Script::json(&json!({ "route": "agent", "reason": "" })), Script::text("Yes.")]);
    let parts = parts(Arc::new(model.clone()), tools().toolbox);
    let stage = stage("법무", &settings, &parts, Arc::new(RamStore::new()));
    assert_eq!(stage.agent.ko, "계약을 봅니다");
    stage.ask("안녕").await;
    let request = model.requests().pop().expect("asked");
    assert_eq!(request.messages[0].text(), "You are a lawyer.");
    assert_eq!(request.tools.len(), 1);
}

#[tokio::test]
async fn a_model_for_each_role_is_used() {
    let settings = settings("[agents.assistant]\nmodel = \"big\"\nsmall_model = \"little\"");
    let unused = ScriptedModel::new([]);
    let mut parts = parts(Arc::new(unused.clone()), tools().toolbox);
    let big = ScriptedModel::new([Script::text("네.")]);
    let little = ScriptedModel::new([Script::json(&json!({ "route": "agent", "reason": "" }))]);
    parts.named.insert("big".into(), Arc::new(big.clone()));
    parts.named.insert("little".into(), Arc::new(little.clone()));
    stage("assistant", &settings, &parts, Arc::new(RamStore::new())).ask("안녕").await;
    let counts = [unused.requests().len(), big.requests().len(), little.requests().len()];
    assert_eq!(counts, [0, 1, 1]);
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    let told = [
        "[agents.asistant]",
        "[agents.assistant]\nmax_mesages = 3",
        "[agents.assistant]\nmax_iterations = 3",
        "[agents.assistant]\nkeep_recent = 0",
        "[agents.assistant]\nkeep_recent = 11",
        "[agents.assistant]\nmodel = \"gpt\"",
        "[agents.assistant]\ntools = [\"calculater\"]",
        "[agents.assistant.policies]\nrocket = \"ask\"",
        "[agents.assistant.policies]\ncalculator = \"maybe\"",
        "[agents.assistant]\nagent = \"react\"",
        "[agents.assistant.prompts]\nassistant = \"{{ secret }}\"",
        "[agents.assistant]\npersistence_mode = \"file\"",
        "[assistants.react]\nagent = \"assistant\"",
        "[assistants.x]\nagent = \"y\"",
        "[assistants.\"a b\"]",
    ]
    .map(|text| format!("{}\n  {}", text.replace('\n', " "), refused(text)));
    expect![[r#""#]].assert_eq(&told.join("\n"));
}

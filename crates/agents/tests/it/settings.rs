//! Settings: what they change, and what is refused with the reason.

use std::sync::Arc;

use doran_agents::{Settings, build_agents};
use doran_engine::store::RamStore;
use doran_llm::{ScriptedModel, ScriptedReply};
use expect_test::expect;
use serde_json::json;

use crate::agent_fixture::{agent_parts, build_fixture, counting_tools};

fn parse_settings(text: &str) -> Settings {
    toml::from_str(text).expect("settings")
}

fn refusal_text(text: &str) -> String {
    let parts = agent_parts(Arc::new(ScriptedModel::new([])), counting_tools().toolbox);
    match toml::from_str::<Settings>(text) {
        Ok(settings) => build_agents(&settings, &parts).expect_err("refused").to_string(),
        Err(error) => error.message().to_owned(),
    }
}

#[tokio::test]
async fn a_further_assistant_has_its_own_name_prompt_language_and_tools() {
    let settings = parse_settings(
        r#"
        [agents.assistant]
        max_tool_rounds = 1

        [assistants."법무"]
        agent = "assistant"
        ko = "계약을 봅니다"
        language = "en"
        tools = ["calculator"]
        prompts = { "en/assistant" = "You are a lawyer." }
        "#,
    );
    let model = ScriptedModel::new([
        ScriptedReply::json(&json!({ "route": "agent", "reason": "" })),
        ScriptedReply::text("Yes."),
    ]);
    let parts = agent_parts(Arc::new(model.clone()), counting_tools().toolbox);
    let stage = build_fixture("법무", &settings, &parts, Arc::new(RamStore::new()));
    assert_eq!(stage.agent.ko, "계약을 봅니다");
    stage.ask("안녕").await;
    let request = model.requests().pop().expect("asked");
    assert_eq!(request.messages[0].text(), "You are a lawyer.");
    assert_eq!(request.tools.len(), 1);
}

#[tokio::test]
async fn a_model_for_each_role_is_used() {
    let settings = parse_settings("[agents.assistant]\nmodel = \"big\"\nsmall_model = \"little\"");
    let unused = ScriptedModel::new([]);
    let mut parts = agent_parts(Arc::new(unused.clone()), counting_tools().toolbox);
    let big = ScriptedModel::new([ScriptedReply::text("네.")]);
    let little = ScriptedModel::new([ScriptedReply::json(&json!({ "route": "agent", "reason": "" }))]);
    parts.named.insert("big".into(), Arc::new(big.clone()));
    parts.named.insert("little".into(), Arc::new(little.clone()));
    build_fixture("assistant", &settings, &parts, Arc::new(RamStore::new())).ask("안녕").await;
    let counts = [unused.requests().len(), big.requests().len(), little.requests().len()];
    assert_eq!(counts, [0, 1, 1]);
}

#[tokio::test]
async fn an_agent_works_without_the_tools_of_a_server_that_is_away() {
    let text = r#"
        [agents.assistant]
        tools = ["calculator", "files__read"]
        policies = { files__read = "allow", calculator = "ask" }

        [agents.docqa]
        tools = ["files__read"]

        [[graphs]]
        name = "caller"
        start = "talk"

        [[graphs.node]]
        name = "talk"
        use = "call_model"
        prompt = "Answer."
        tools = ["calculator", "files__read"]
        branch = { to = { tools = "run", answer = "end" } }

        [[graphs.node]]
        name = "run"
        use = "call_tools"
        then = "talk"
        "#;
    let settings = parse_settings(text);
    let named: Vec<(&str, &str)> =
        settings.tool_names().into_iter().filter(|(_, tool)| tool.contains("__")).collect();
    assert_eq!(named, [("assistant", "files__read"), ("caller", "files__read"), ("docqa", "files__read")]);
    let model = ScriptedModel::new([
        ScriptedReply::json(&json!({ "route": "agent", "reason": "" })),
        ScriptedReply::text("네."),
    ]);
    let mut toolbox = counting_tools().toolbox;
    toolbox.register_server("files");
    let known = agent_parts(Arc::new(model.clone()), toolbox);
    build_fixture("assistant", &settings, &known, Arc::new(RamStore::new())).ask("안녕").await;
    let offered = model.requests().pop().expect("asked").tools;
    assert_eq!(offered.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["calculator"]);
    // A server that nobody configured is a mistake.
    let error = refusal_text(text);
    assert!(error.contains("there is no tool `files__read`"), "{error}");
}

#[test]
fn what_cannot_work_is_refused_with_the_reason() {
    let errors = [
        "[agents.asistant]",
        "[agents.assistant]\nmax_mesages = 3",
        "[agents.assistant]\nmax_iterations = 3",
        "[agents.assistant]\nkeep_recent = 0",
        "[agents.assistant]\nkeep_recent = 11",
        "[agents.assistant]\nmodel = \"gpt\"",
        "[agents.assistant]\ntools = [\"calculater\"]",
        "[agents.assistant.policies]\nrocket = \"ask\"",
        "[agents.assistant.policies]\ncalculator = \"maybe\"",
        "[agents.contract]\ntools = [\"hybrid_serch\"]",
        "[agents.contract.policies]\ncalculator = \"ask\"",
        "[agents.docqa.policies]\ncalculator = \"ask\"",
        "[agents.assistant]\nagent = \"react\"",
        "[agents.assistant.prompts]\nassistant = \"{{ secret }}\"",
        "[agents.assistant]\npersistence_mode = \"file\"",
        "[assistants.react]\nagent = \"assistant\"",
        "[assistants.x]\nagent = \"y\"",
        "[assistants.\"a b\"]",
    ]
    .map(|text| format!("{}\n  {}", text.replace('\n', " "), refusal_text(text)));
    expect![[r#"
        [agents.asistant]
          there is no agent `asistant`; there are: assistant, contract, react, docqa
        [agents.assistant] max_mesages = 3
          unknown field `max_mesages`, expected one of `agent`, `ko`, `en`, `language`, `prompts`, `model`, `small_model`, `tools`, `policies`, `collection`, `passages`, `neighbours`, `max_messages`, `keep_recent`, `max_summaries`, `summary_tokens`, `max_tool_rounds`, `max_iterations`, `contextLength`, `context_length`, `compressionThreshold`, `compression_threshold`, `compressionTarget`, `compression_target`, `enable_cache`, `cache_seconds`, `persistence_mode`, `checkpoint_db_path`
        [agents.assistant] max_iterations = 3
          agent `assistant`, setting `max_iterations`: `assistant` has no such setting; it has: checkpoint_db_path, collection, context_length, en, keep_recent, ko, language, max_messages, max_summaries, max_tool_rounds, model, neighbours, passages, persistence_mode, policies, prompts, small_model, summary_tokens, tools
        [agents.assistant] keep_recent = 0
          agent `assistant`, setting `keep_recent`: it must be at least 1
        [agents.assistant] keep_recent = 11
          agent `assistant`, setting `keep_recent`: it is 11, more than `max_messages` (10)
        [agents.assistant] model = "gpt"
          agent `assistant`, setting `model`: there is no model `gpt`; describe it under `[models.gpt]`
        [agents.assistant] tools = ["calculater"]
          agent `assistant`, setting `tools`: there is no tool `calculater`; there are: calculator, get_current_datetime, order
        [agents.assistant.policies] rocket = "ask"
          agent `assistant`, setting `policies`: there is no tool `rocket`; there are: calculator, get_current_datetime, order
        [agents.assistant.policies] calculator = "maybe"
          unknown variant `maybe`, expected one of `allow`, `ask`, `deny`
        [agents.contract] tools = ["hybrid_serch"]
          agent `contract`, setting `tools`: there is no tool `hybrid_serch`; there are: hybrid_search, get_article_by_index, get_article_by_title, lookup_standard_contract, calculator, get_current_datetime, order
        [agents.contract.policies] calculator = "ask"
          agent `contract`, setting `policies`: `calculator` is not among its `tools`; list it there first
        [agents.docqa.policies] calculator = "ask"
          agent `docqa`, setting `policies`: `calculator` is not among its `tools`; list it there first
        [agents.assistant] agent = "react"
          agent `assistant`, setting `agent`: only a further assistant is made after another agent
        [agents.assistant.prompts] assistant = "{{ secret }}"
          agent `assistant`: prompt `ko/assistant.md` uses `secret`, which it is not given; it may use: summaries, tools
        [agents.assistant] persistence_mode = "file"
          agent `assistant`, setting `persistence_mode`: `file` needs `checkpoint_db_path`
        [assistants.react] agent = "assistant"
          agent `react`, setting `assistants`: a ready-made agent has this name; choose another
        [assistants.x] agent = "y"
          there is no agent `y`; there are: assistant, contract, react, docqa
        [assistants."a b"]
          agent `a b`, setting `assistants`: a name has 1 to 64 letters, digits, `-`, `_` and `.`, and begins with a letter or a digit"#]].assert_eq(&errors.join("\n"));
}

//! A person is asked before a tool is run: bound to the exact call, for as long as it takes, and across a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use doran_agents::Settings;
use doran_agents::tools::{Calculator, ToolError, ToolPolicy, ToolSideEffect, Toolbox};
use doran_engine::QuestionKind;
use doran_engine::store::RamStore;
use doran_llm::{ScriptedModel, ScriptedReply};
use expect_test::expect;
use serde_json::{Value, json};

use crate::agent_fixture::{
    AgentFixture, CountingTool, agent_parts, build_fixture, counting_tools, render_turn, test_thread,
};

fn ask_before_order_settings() -> Settings {
    toml::from_str("[agents.assistant.policies]\norder = \"ask\"").expect("settings")
}

fn route_to_agent() -> ScriptedReply {
    ScriptedReply::json(&json!({ "route": "agent", "reason": "주문" }))
}

/// Answers every open question of the thread alike, and waits.
async fn answer_all_questions(stage: &AgentFixture, answer: &Value) {
    let questions = stage.runtime.open_questions(&test_thread()).await.expect("questions");
    let run = questions[0].0.clone();
    let answers: BTreeMap<String, Value> =
        questions.into_iter().map(|(_, question)| (question.id, answer.clone())).collect();
    stage.runtime.answer(&run, &answers).await.expect("answered").wait().await.expect("a rest");
}

#[tokio::test]
async fn what_changed_arguments_give_is_told_without_the_note_to_the_model() {
    let mut tools = Toolbox::new();
    tools.add(Arc::new(Calculator::default()), ToolPolicy::Ask).expect("a tool");
    let parts = agent_parts(Arc::new(doran_offline::OfflineModel), tools);
    let stage = build_fixture("react", &Settings::default(), &parts, Arc::new(RamStore::new()));
    stage.start("What is 12*13?").await.wait().await.expect("a rest");
    answer_all_questions(&stage, &json!({ "approve": true, "arguments": { "expression": "13 * 13" } })).await;
    assert_eq!(stage.turn().await.response, "Result: 169");
}

#[tokio::test]
async fn a_tool_waits_for_a_yes_across_a_restart_and_runs_once() {
    let store = RamStore::new();
    let used = counting_tools();
    let model = ScriptedModel::new([
        route_to_agent(),
        ScriptedReply::call("order", json!({ "what": "커피" }))
            .and_call("calculator", json!({ "expression": "1 + 1" })),
        ScriptedReply::text("주문했습니다."),
    ]);
    let parts = agent_parts(Arc::new(model.clone()), used.toolbox.clone());
    let first = build_fixture("assistant", &ask_before_order_settings(), &parts, Arc::new(store.clone()));
    let run = first.start("커피 주문해줘").await;
    run.wait().await.expect("a rest");
    let questions = first.runtime.open_questions(&test_thread()).await.expect("questions");
    let mut question = questions[0].1.question.clone();
    assert_eq!(question["approval"].as_str().map(str::len), Some(64), "bound to the exact call");
    question["approval"] = json!("…");
    expect![[r#"
        {
          "approval": "…",
          "arguments": {
            "what": "커피"
          },
          "call": "call-1",
          "en": "May `order` be run with these arguments?",
          "ko": "`order` 도구를 이 인자로 실행할까요?",
          "name": "order",
          "type": "approve_tool",
          "why": "policy"
        }"#]]
    .assert_eq(&format!("{question:#}"));
    let counts = || (used.order.load(Ordering::SeqCst), used.calculator.load(Ordering::SeqCst));
    assert_eq!(counts(), (0, 0), "nothing of the reply runs before the answer");
    drop(first);
    let second = build_fixture("assistant", &ask_before_order_settings(), &parts, Arc::new(store));
    answer_all_questions(&second, &json!({ "approve": true })).await;
    assert_eq!(counts(), (1, 1));
    expect![[r#"
        = 주문했습니다.
        models 3 · path router memory agent tools agent · tools order calculator
    "#]]
    .assert_eq(&render_turn(&second.turn().await));
}

#[tokio::test]
async fn of_two_calls_that_are_alike_only_the_one_with_a_yes_is_made() {
    for (answers, expected) in
        [([false, true], 1), ([true, false], 1), ([true, true], 2), ([false, false], 0)]
    {
        let used = counting_tools();
        let model = ScriptedModel::new([
            route_to_agent(),
            ScriptedReply::call("order", json!({ "what": "커피", "to": "a" }))
                .and_call("order", json!({ "to": "a", "what": "커피" })),
            ScriptedReply::text("네."),
        ]);
        let parts = agent_parts(Arc::new(model.clone()), used.toolbox.clone());
        let stage =
            build_fixture("assistant", &ask_before_order_settings(), &parts, Arc::new(RamStore::new()));
        stage.start("커피 주문해줘").await.wait().await.expect("a rest");
        let questions = stage.runtime.open_questions(&test_thread()).await.expect("questions");
        assert_eq!(questions.len(), 2, "each has its own question");
        let run = questions[0].0.clone();
        let mut given = BTreeMap::new();
        for ((_, question), (call, approve)) in
            questions.iter().zip([("call-1", answers[0]), ("call-2", answers[1])])
        {
            assert_eq!(question.question["call"], call);
            given.insert(question.id.clone(), json!({ "approve": approve }));
        }
        stage.runtime.answer(&run, &given).await.expect("answered").wait().await.expect("a rest");
        assert_eq!(used.order.load(Ordering::SeqCst), expected, "{answers:?}");
        let results = model.requests().pop().expect("asked").messages.pop().expect("results");
        let ran: Vec<bool> = results.tool_results().map(|result| !result.failed).collect();
        assert_eq!(ran, answers);
    }
}

#[tokio::test]
async fn an_unclear_answer_counts_as_a_denial() {
    for no in [json!({ "approve": false }), json!({ "approve": "yes" }), json!("approved"), json!(null)] {
        let used = counting_tools();
        let model = ScriptedModel::new([
            route_to_agent(),
            ScriptedReply::call("order", json!({})),
            ScriptedReply::text("주문하지 않았습니다."),
        ]);
        let parts = agent_parts(Arc::new(model.clone()), used.toolbox.clone());
        let stage =
            build_fixture("assistant", &ask_before_order_settings(), &parts, Arc::new(RamStore::new()));
        stage.start("커피 주문해줘").await.wait().await.expect("a rest");
        answer_all_questions(&stage, &no).await;
        assert_eq!(used.order.load(Ordering::SeqCst), 0, "{no}");
        let result = model.requests().pop().expect("asked").messages.pop().expect("a result");
        let text = result.tool_results().next().expect("a result").text.clone();
        assert_eq!(text, "Error: 사용자가 이 호출을 거절했습니다", "{no}");
    }
}

#[tokio::test]
async fn text_of_documents_cannot_make_the_agent_send_data_outside() {
    let post = CountingTool::new("web_search", ToolSideEffect::ReadOnly, |_| Ok("찾음".into())).outward();
    let ran = post.runs.clone();
    let mut toolbox = Toolbox::new();
    toolbox.add(Arc::new(post), ToolPolicy::Allow).expect("a tool");
    // A model that obeys a poisoned document.
    let model = ScriptedModel::new([
        ScriptedReply::json(&json!({ "route": "rag", "reason": "문서" })),
        ScriptedReply::call("web_search", json!({ "query": "비밀번호는 12자 이상 영문 숫자" })),
        ScriptedReply::text("찾지 않았습니다."),
    ]);
    let parts = agent_parts(Arc::new(model), toolbox);
    let stage = build_fixture("assistant", &Settings::default(), &parts, Arc::new(RamStore::new()));
    stage.start("연차휴가는 며칠인가요?").await.wait().await.expect("a rest");
    let questions = stage.runtime.open_questions(&test_thread()).await.expect("questions");
    assert_eq!(questions[0].1.question["why"], "injection");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    answer_all_questions(&stage, &json!({ "approve": false })).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_denied_tool_is_neither_offered_nor_run() {
    let settings: Settings = toml::from_str("[agents.react.policies]\norder = \"deny\"").expect("settings");
    let used = counting_tools();
    let model =
        ScriptedModel::new([ScriptedReply::call("order", json!({})), ScriptedReply::text("할 수 없습니다.")]);
    let parts = agent_parts(Arc::new(model.clone()), used.toolbox.clone());
    let stage = build_fixture("react", &settings, &parts, Arc::new(RamStore::new()));
    stage.ask("커피 주문해줘").await;
    assert_eq!(used.order.load(Ordering::SeqCst), 0);
    assert!(model.requests()[0].tools.iter().all(|tool| tool.name != "order"));
}

#[tokio::test]
async fn what_became_of_a_call_that_was_cut_off_is_asked_with_its_name_and_arguments() {
    let send =
        CountingTool::new("send", ToolSideEffect::Once, |_| Err(ToolError::OutcomeUnknown("late".into())));
    let sent = send.runs.clone();
    let mut toolbox = Toolbox::new();
    toolbox.add(Arc::new(send), ToolPolicy::Allow).expect("a tool");
    let model = ScriptedModel::new([
        ScriptedReply::call("send", json!({ "to": "a" })),
        ScriptedReply::text("보냈습니다."),
    ]);
    let parts = agent_parts(Arc::new(model.clone()), toolbox);
    let stage = build_fixture("react", &Settings::default(), &parts, Arc::new(RamStore::new()));
    stage.start("메일을 보내줘").await.wait().await.expect("a rest");
    let asked =
        async || stage.runtime.open_questions(&test_thread()).await.expect("questions").pop().expect("one").1;
    let first = asked().await;
    assert_eq!(first.kind, QuestionKind::EffectUnknown);
    let question = &first.question;
    assert_eq!((&question["type"], &question["name"]), (&json!("tool_unknown"), &json!("send")));
    assert_eq!(question["arguments"], json!({ "to": "a" }));
    assert!(question["ko"].as_str().is_some_and(|words| words.contains("두 번 하면 안 되는")), "{question}");
    answer_all_questions(&stage, &json!({ "retry": true })).await;
    assert_eq!(sent.load(Ordering::SeqCst), 2, "made once more because a person said so");
    assert_ne!(asked().await.id, first.id, "and asked about once more");
    answer_all_questions(&stage, &json!({ "result": null })).await;
    assert_eq!(sent.load(Ordering::SeqCst), 2);
    let results = model.requests().pop().expect("asked").messages.pop().expect("a result");
    assert_eq!(results.tool_results().next().expect("a result").text, "실행되었습니다");
    assert_eq!(stage.turn().await.response, "보냈습니다.");
}

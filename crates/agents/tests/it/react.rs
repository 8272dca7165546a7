//! The `react` agent: every edge of its description, its rounds, its tries, and every error with its code.

use std::sync::Arc;
use std::time::Duration;

use doran_agents::Settings;
use doran_engine::store::Store;
use doran_llm::{ModelError, Script, ScriptedModel};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::stage::{killed_everywhere, parts, simple, stage, tools};

async fn check(question: &str, script: Vec<Script>, expected: Expect) {
    let model = ScriptedModel::new(script);
    let stage = simple("react", model.clone(), tools().toolbox);
    expected.assert_eq(&stage.ask(question).await);
    assert_eq!(model.left(), 0, "every reply was asked for");
}

#[tokio::test]
async fn an_answer_goes_through_input_llm_conditional_response() {
    check("안녕", vec![Script::text("안녕하세요!")], expect![[r#""#]]).await;
}

#[tokio::test]
async fn a_tool_leads_back_to_the_model() {
    let script =
        vec![Script::call("calculator", json!({ "expression": "123 * 456" })), Script::text("56088입니다.")];
    check("123 * 456 계산해줘", script, expect![[r#""#]]).await;
}

#[tokio::test]
async fn a_failed_tool_gives_an_error_as_its_result() {
    let script = vec![
        Script::call("calculator", json!({ "expression": "abc" })),
        Script::text("식이 잘못되었습니다."),
    ];
    check("abc 계산해줘", script, expect![[r#""#]]).await;
}

#[tokio::test]
async fn empty_input_ends_in_the_error_node() {
    check("  ", vec![], expect![[r#""#]]).await;
}

#[tokio::test]
async fn five_rounds_of_tools_are_allowed_and_the_sixth_reply_is_too_many() {
    let call = || Script::call("calculator", json!({ "expression": "1 + 1" }));
    let script = vec![call(), call(), call(), call(), call(), call()];
    check("Keep calculating", script, expect![[r#""#]]).await;
}

#[tokio::test]
async fn a_conversation_goes_on_after_an_error() {
    let call = || Script::call("calculator", json!({ "expression": "1 + 1" }));
    let model = ScriptedModel::new((0..6).map(|_| call()));
    let stage = simple("react", model.clone(), tools().toolbox);
    stage.ask("계속 계산해").await;
    model.push(Script::text("네, 말씀하세요."));
    stage.ask("그만").await;
    let sent = model.requests().pop().expect("asked").messages;
    let called: Vec<&str> =
        sent.iter().flat_map(|message| message.tool_calls()).map(|call| call.id.as_str()).collect();
    let answered = sent.iter().flat_map(|message| message.tool_results()).count();
    assert_eq!(called.len(), answered, "no call is left without a result");
}

fn away() -> ModelError {
    ModelError::Unavailable { reason: "503".into(), retry_after: None, source: None }
}

#[tokio::test(start_paused = true)]
async fn a_model_is_tried_three_times() {
    let script =
        vec![Script::failure(away()), Script::text("반쯤").then_fails(away()), Script::text("됐습니다.")];
    check("안녕", script, expect![[r#""#]]).await;
    let script = vec![Script::failure(away()), Script::failure(away()), Script::failure(away())];
    check("안녕", script, expect![[r#""#]]).await;
}

#[tokio::test(start_paused = true)]
async fn the_time_a_model_asks_for_is_given() {
    let busy = |seconds| ModelError::RateLimited {
        reason: "429".into(),
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let begun = tokio::time::Instant::now();
    let script = vec![Script::failure(busy(20)), Script::text("네.")];
    let model = ScriptedModel::new(script);
    simple("react", model, tools().toolbox).ask("안녕").await;
    assert!(begun.elapsed() >= Duration::from_secs(20), "{:?}", begun.elapsed());
    // Nobody waits an hour for an answer.
    let begun = tokio::time::Instant::now();
    let stage = simple("react", ScriptedModel::new([Script::failure(busy(3600))]), tools().toolbox);
    stage.ask("안녕").await;
    assert_eq!(stage.turn().await.error_code.as_deref(), Some("model_unavailable"));
    assert!(begun.elapsed() < Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_is_given_up() {
    let hangs = || Script::text("음").then_hangs();
    let stage = simple("react", ScriptedModel::new([hangs(), hangs(), hangs()]), tools().toolbox);
    stage.ask("안녕").await;
    assert_eq!(stage.turn().await.error_code.as_deref(), Some("model_unavailable"));
}

#[tokio::test(start_paused = true)]
async fn every_error_has_its_code_and_a_sentence_in_both_languages() {
    let reason = || "seen".to_owned();
    let errors: Vec<fn(String) -> ModelError> = vec![
        |reason| ModelError::Unavailable { reason, retry_after: None, source: None },
        |reason| ModelError::Unreachable { reason, source: None },
        |reason| ModelError::RateLimited { reason, retry_after: None },
        |reason| ModelError::Broken { reason },
        |reason| ModelError::Empty { reason },
        |reason| ModelError::LimitExceeded { reason },
        |reason| ModelError::Unauthorized { reason },
        |reason| ModelError::OutOfCredit { reason },
        |reason| ModelError::TooLong { reason },
        |reason| ModelError::Filtered { reason },
        |reason| ModelError::Rejected { reason },
        |reason| ModelError::NotRecorded { reason },
    ];
    let mut table = Vec::new();
    for error in errors {
        let mut row = Vec::new();
        for question in ["안녕", "Hello"] {
            let model = ScriptedModel::new((0..3).map(|_| Script::failure(error(reason()))));
            let stage = simple("react", model.clone(), tools().toolbox);
            stage.ask(question).await;
            let turn = stage.turn().await;
            assert!(turn.error);
            if row.is_empty() {
                row.push(format!("{} tries {}", error(reason()).code(), model.requests().len()));
                row.push(turn.error_code.clone().expect("a code"));
            }
            row.push(turn.response);
        }
        table.push(row.join(" | "));
    }
    expect![[r#""#]].assert_eq(&table.join("\n"));
}

#[tokio::test]
async fn the_answer_has_the_shape_that_clients_know() {
    let script = [Script::call("calculator", json!({ "expression": "1 + 1" })), Script::text("2입니다.")];
    let stage = simple("react", ScriptedModel::new(script), tools().toolbox);
    stage.ask("1 + 1").await;
    let state = stage.state().await;
    assert_eq!(state["sessionId"], "대화");
    assert_eq!(state["currentStep"], "response");
    assert_eq!(state["iterationCount"], 2);
    let turn = serde_json::to_value(stage.turn().await).expect("JSON");
    assert_eq!(turn["response"], "2입니다.");
    assert_eq!(turn["toolsUsed"], json!(["calculator"]));
    assert!(turn["executionTime"].is_number() && turn["error"] == false);
}

#[tokio::test]
async fn a_kill_anywhere_gives_the_same_answer_and_orders_once() {
    let mut model = ScriptedModel::new([]);
    let mut used = tools();
    let mut life = 0;
    let mut once = Vec::new();
    let turns = killed_everywhere("주문해줘", 10, |store: Arc<dyn Store>| {
        if life % 2 == 0 {
            if life > 0 {
                once.push(used.order.load(std::sync::atomic::Ordering::SeqCst));
            }
            model = ScriptedModel::new([
                Script::call("order", json!({})),
                Script::text("주문했습니다."),
                Script::text("주문했습니다."),
            ]);
            used = tools();
        }
        life += 1;
        stage("react", &Settings::default(), &parts(Arc::new(model.clone()), used.toolbox.clone()), store)
    })
    .await;
    once.push(used.order.load(std::sync::atomic::Ordering::SeqCst));
    let mut asked = 0;
    for ((dies, turn), ran) in turns.into_iter().zip(once) {
        assert!(ran <= 1, "{dies:?} ordered {ran} times");
        match turn {
            Some(turn) => {
                assert_eq!(turn.response, "주문했습니다.", "{dies:?}");
                assert_eq!((turn.tools_used.as_slice(), ran), (&["order".to_owned()][..], 1), "{dies:?}");
            }
            // It died between the order and the record of it: a person is asked instead of ordering again.
            None => asked += 1,
        }
    }
    assert!(asked > 0, "no death came between an order and its record");
}

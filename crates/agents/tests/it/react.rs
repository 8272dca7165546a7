//! The `react` agent: every edge of its description, its rounds, its tries, and every error with its code.

use std::sync::Arc;
use std::time::Duration;

use doran_agents::Settings;
use doran_engine::store::Store;
use doran_llm::{ChatRequest, ModelError, ScriptedModel, ScriptedReply, ToolChoice};
use expect_test::{Expect, expect};
use serde_json::json;

use crate::agent_fixture::{
    RequestDrivenModel, agent_parts, build_fixture, counting_tools, fixture_with_model, has_tool_results,
    kill_at_every_commit,
};

async fn check(question: &str, script: Vec<ScriptedReply>, expected: Expect) {
    let model = ScriptedModel::new(script);
    let stage = fixture_with_model("react", model.clone(), counting_tools().toolbox);
    expected.assert_eq(&stage.ask(question).await);
    assert_eq!(model.remaining_replies(), 0, "every reply was asked for");
}

#[tokio::test]
async fn an_answer_goes_through_input_llm_conditional_response() {
    check(
        "안녕",
        vec![ScriptedReply::text("안녕하세요!")],
        expect![[r#"
        input
          + user 안녕
        llm · model×1
          + assistant 안녕하세요!
        conditional
        response
        = 안녕하세요!
        models 1 · path input llm conditional response
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_tool_leads_back_to_the_model() {
    let script = vec![
        ScriptedReply::call("calculator", json!({ "expression": "123 * 456" })),
        ScriptedReply::text("56088입니다."),
    ];
    check(
        "123 * 456 계산해줘",
        script,
        expect![[r#"
        input
          + user 123 * 456 계산해줘
        llm · model×1
          + assistant calculator
        conditional
        tool
          ~ call calculator({"expression":"123 * 456"})
          ~ gave 56088
          + tool 56088
        llm · model×1
          + assistant 56088입니다.
        conditional
        response
        = 56088입니다.
        models 2 · path input llm conditional tool llm conditional response · tools calculator
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_failed_tool_gives_an_error_as_its_result() {
    let script = vec![
        ScriptedReply::call("calculator", json!({ "expression": "abc" })),
        ScriptedReply::text("식이 잘못되었습니다."),
    ];
    check(
        "abc 계산해줘",
        script,
        expect![[r#"
        input
          + user abc 계산해줘
        llm · model×1
          + assistant calculator
        conditional
        tool
          ~ call calculator({"expression":"abc"})
          ~ gave Error: invalid syntax
          + tool Error: invalid syntax
        llm · model×1
          + assistant 식이 잘못되었습니다.
        conditional
        response
        = 식이 잘못되었습니다.
        models 2 · path input llm conditional tool llm conditional response · tools calculator
    "#]],
    )
    .await;
}

#[tokio::test]
async fn empty_input_ends_in_the_error_node() {
    check(
        "  ",
        vec![],
        expect![[r#"
        input
        error
          + assistant 질문이 비어 있습니다. 무엇이 궁금한지 적어 주세요.
        = 질문이 비어 있습니다. 무엇이 궁금한지 적어 주세요.
        models 0 · path input error · error empty_input
    "#]],
    )
    .await;
}

#[tokio::test]
async fn five_rounds_of_tools_are_allowed_and_the_sixth_reply_is_too_many() {
    let call = || ScriptedReply::call("calculator", json!({ "expression": "1 + 1" }));
    let script = vec![call(), call(), call(), call(), call(), call()];
    check("Keep calculating", script, expect![[r#"
        input
          + user Keep calculating
        llm · model×1
          + assistant calculator
        conditional
        tool
          ~ call calculator({"expression":"1 + 1"})
          ~ gave 2
          + tool 2
        llm · model×1
          + assistant calculator
        conditional
        tool
          ~ call calculator({"expression":"1 + 1"})
          ~ gave 2
          + tool 2
        llm · model×1
          + assistant calculator
        conditional
        tool
          ~ call calculator({"expression":"1 + 1"})
          ~ gave 2
          + tool 2
        llm · model×1
          + assistant calculator
        conditional
        tool
          ~ call calculator({"expression":"1 + 1"})
          ~ gave 2
          + tool 2
        llm · model×1
          + assistant calculator
        conditional
        tool
          ~ call calculator({"expression":"1 + 1"})
          ~ gave 2
          + tool 2
        llm · model×1
          + assistant calculator
        conditional
        error
          + tool Error: not run, there were too many rounds
          + assistant The request is too complex. Please ask again in smaller parts.
        = The request is too complex. Please ask again in smaller parts.
        models 6 · path input llm conditional tool llm conditional tool llm conditional tool llm conditional tool llm conditional tool llm conditional error · tools calculator · error max_iterations_exceeded
    "#]]).await;
}

#[tokio::test]
async fn a_conversation_goes_on_after_an_error() {
    let call = || ScriptedReply::call("calculator", json!({ "expression": "1 + 1" }));
    let model = ScriptedModel::new((0..6).map(|_| call()));
    let stage = fixture_with_model("react", model.clone(), counting_tools().toolbox);
    stage.ask("계속 계산해").await;
    assert_eq!(
        stage.turn().await.response,
        "요청이 너무 복잡합니다. 질문을 더 작게 나누어 다시 물어봐 주세요."
    );
    model.push(ScriptedReply::text("네, 말씀하세요."));
    stage.ask("그만").await;
    let sent = model.requests().pop().expect("asked").messages;
    let called: Vec<&str> =
        sent.iter().flat_map(|message| message.tool_calls()).map(|call| call.id.as_str()).collect();
    let answered = sent.iter().flat_map(|message| message.tool_results()).count();
    assert_eq!(called.len(), answered, "no call is left without a result");
}

fn unavailable_error() -> ModelError {
    ModelError::Unavailable { reason: "503".into(), retry_after: None, source: None }
}

#[tokio::test(start_paused = true)]
async fn a_model_is_tried_three_times() {
    let script = vec![
        ScriptedReply::failure(unavailable_error()),
        ScriptedReply::failure(unavailable_error()),
        ScriptedReply::text("됐습니다."),
    ];
    check(
        "안녕",
        script,
        expect![[r#"
        input
          + user 안녕
        llm · model×3
          + assistant 됐습니다.
        conditional
        response
        = 됐습니다.
        models 3 · path input llm conditional response
    "#]],
    )
    .await;
    // What was shown is not asked for again.
    let script = vec![ScriptedReply::text("반쯤").then_fails(unavailable_error())];
    check(
        "안녕",
        script,
        expect![[r#"
        input
          + user 안녕
        llm · model×1
        conditional
        error
          + assistant 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요.
        = 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요.
        models 1 · path input llm conditional error · error model_unavailable
    "#]],
    )
    .await;
    let script = vec![
        ScriptedReply::failure(unavailable_error()),
        ScriptedReply::failure(unavailable_error()),
        ScriptedReply::failure(unavailable_error()),
    ];
    check(
        "안녕",
        script,
        expect![[r#"
        input
          + user 안녕
        llm · model×3
        conditional
        error
          + assistant 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요.
        = 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요.
        models 3 · path input llm conditional error · error model_unavailable
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_time_a_model_asks_for_is_given() {
    let busy = |seconds| ModelError::RateLimited {
        reason: "429".into(),
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let started = tokio::time::Instant::now();
    let script = vec![ScriptedReply::failure(busy(20)), ScriptedReply::text("네.")];
    let model = ScriptedModel::new(script);
    fixture_with_model("react", model, counting_tools().toolbox).ask("안녕").await;
    assert!(started.elapsed() >= Duration::from_secs(20), "{:?}", started.elapsed());
    // Nobody waits an hour for an answer.
    let started = tokio::time::Instant::now();
    let stage = fixture_with_model(
        "react",
        ScriptedModel::new([ScriptedReply::failure(busy(3600))]),
        counting_tools().toolbox,
    );
    stage.ask("안녕").await;
    assert_eq!(stage.turn().await.error_code.as_deref(), Some("model_unavailable"));
    assert!(started.elapsed() < Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_is_given_up() {
    let hangs = || ScriptedReply::text("음").then_hangs();
    let stage = fixture_with_model(
        "react",
        ScriptedModel::new([hangs(), hangs(), hangs()]),
        counting_tools().toolbox,
    );
    stage.ask("안녕").await;
    assert_eq!(stage.turn().await.error_code.as_deref(), Some("model_unavailable"));
}

/// The last words of each request, for a model that replies with this script.
async fn ends_of_requests(question: &str, script: Vec<ScriptedReply>) -> Vec<String> {
    let model = ScriptedModel::new(script);
    fixture_with_model("react", model.clone(), counting_tools().toolbox).ask(question).await;
    let end =
        |request: ChatRequest| request.messages.last().map(doran_llm::Message::text).unwrap_or_default();
    model.requests().into_iter().map(end).collect()
}

#[tokio::test(start_paused = true)]
async fn a_model_with_an_empty_answer_gets_a_hint_once() {
    let empty = || ScriptedReply::failure(ModelError::Empty { reason: "seen".into() });
    let ends = ends_of_requests("Hello", vec![empty(), empty(), ScriptedReply::text("Hi.")]).await;
    let hint =
        "Your last reply was empty. Answer the question above in words, or call a tool if you need one.";
    assert_eq!(ends, ["Hello", hint, hint]);
}

#[tokio::test]
async fn a_model_that_repeats_a_call_gets_a_hint() {
    let call = || ScriptedReply::call("calculator", json!({ "expression": "1 + 1" }));
    let ends = ends_of_requests("What is 1 + 1?", vec![call(), call(), ScriptedReply::text("2")]).await;
    let hint = "You have called calculator with the same arguments before. The results are above. Answer with them now.";
    assert_eq!(ends, ["What is 1 + 1?", "", hint]);
}

#[tokio::test]
async fn a_model_that_repeats_a_call_after_the_hint_gets_no_tools() {
    let call = || ScriptedReply::call("calculator", json!({ "expression": "1 + 1" }));
    let model = ScriptedModel::new([call(), call(), call(), ScriptedReply::text("2")]);
    let stage = fixture_with_model("react", model.clone(), counting_tools().toolbox);
    stage.ask("What is 1 + 1?").await;
    let choices: Vec<ToolChoice> = model.requests().into_iter().map(|request| request.tool_choice).collect();
    assert_eq!(choices, [ToolChoice::Auto, ToolChoice::Auto, ToolChoice::Auto, ToolChoice::None]);
    assert_eq!(stage.turn().await.response, "2");
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
            let model = ScriptedModel::new((0..3).map(|_| ScriptedReply::failure(error(reason()))));
            let stage = fixture_with_model("react", model.clone(), counting_tools().toolbox);
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
    expect![[r#"
        unavailable tries 3 | model_unavailable | 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요. | The model cannot answer right now. Please try again in a moment.
        unreachable tries 3 | model_unavailable | 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요. | The model cannot answer right now. Please try again in a moment.
        rate_limited tries 3 | model_unavailable | 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요. | The model cannot answer right now. Please try again in a moment.
        truncated tries 3 | model_unavailable | 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요. | The model cannot answer right now. Please try again in a moment.
        empty tries 3 | model_unavailable | 지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요. | The model cannot answer right now. Please try again in a moment.
        limit_exceeded tries 1 | model_rejected | 모델이 이 요청을 받아들이지 않았습니다. 질문을 바꾸어 다시 물어봐 주세요. | The model did not accept this request. Please ask in another way.
        unauthorized tries 1 | model_unauthorized | 모델이 키를 받아들이지 않았습니다. 관리자에게 모델 키를 확인해 달라고 해 주세요. | The model did not accept the key. Please have an administrator check the model key.
        out_of_credit tries 1 | model_out_of_credit | 모델 제공자 계정의 잔액이 다 되었습니다. 관리자에게 결제 정보를 확인해 달라고 해 주세요. | The account at the model's vendor has run out. Please have an administrator check its billing.
        too_long tries 1 | model_context_too_long | 대화가 모델에게 너무 깁니다. 질문을 줄이거나 새 대화를 시작해 주세요. | The conversation is too long for the model. Please shorten the question or start a new conversation.
        filtered tries 1 | model_filtered | 모델 제공자의 안전 필터에 막혔습니다. 질문을 다르게 표현해 주세요. | The vendor's safety filter held it back. Please put the question differently.
        rejected tries 1 | model_rejected | 모델이 이 요청을 받아들이지 않았습니다. 질문을 바꾸어 다시 물어봐 주세요. | The model did not accept this request. Please ask in another way.
        not_recorded tries 1 | model_rejected | 모델이 이 요청을 받아들이지 않았습니다. 질문을 바꾸어 다시 물어봐 주세요. | The model did not accept this request. Please ask in another way."#]].assert_eq(&table.join("\n"));
}

#[tokio::test]
async fn the_answer_has_the_shape_that_clients_know() {
    let script = [
        ScriptedReply::call("calculator", json!({ "expression": "1 + 1" })),
        ScriptedReply::text("2입니다."),
    ];
    let stage = fixture_with_model("react", ScriptedModel::new(script), counting_tools().toolbox);
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
    fn decide(request: &ChatRequest) -> ScriptedReply {
        if has_tool_results(request) {
            ScriptedReply::text("주문했습니다.")
        } else {
            ScriptedReply::call("order", json!({}))
        }
    }
    let mut used = counting_tools();
    let mut process_count = 0;
    let mut once = Vec::new();
    let turns = kill_at_every_commit("주문해줘", 10, |store: Arc<dyn Store>| {
        if process_count % 2 == 0 {
            if process_count > 0 {
                once.push(used.order.load(std::sync::atomic::Ordering::SeqCst));
            }
            used = counting_tools();
        }
        process_count += 1;
        let model = Arc::new(RequestDrivenModel::new(decide));
        build_fixture("react", &Settings::default(), &agent_parts(model, used.toolbox.clone()), store)
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

//! Tools: who is called with what, that nothing is called twice, and how results are told.

use doran_agents::RequestPurpose;
use doran_llm::{
    ChatRequest, Message, ModelError, NumberedPassage, TextOrigin, ToolCall, ToolChoice, ToolResult,
};
use serde_json::json;

use super::{answer_text, call_text, calling, contract_tools, output_text, result_of, tool, tools};
use crate::{OfflineOutput, run_rules};

fn asked(question: &str) -> ChatRequest {
    ChatRequest { tools: tools(), ..ChatRequest::new(vec![Message::user("u1", question)]) }
}

fn planned(question: &str) -> ChatRequest {
    ChatRequest {
        tools: contract_tools(),
        purpose: RequestPurpose::Plan.label(),
        ..ChatRequest::new(vec![Message::user("u1", question)])
    }
}

fn calls(request: &ChatRequest) -> Vec<ToolCall> {
    match run_rules(request).expect("given") {
        OfflineOutput::Calls(calls) => calls,
        OfflineOutput::Text(text) => panic!("words instead of calls: {text}"),
    }
}

/// Asks, lets every tool answer with this, and gives what is said then.
fn after(mut request: ChatRequest, result: &str, failed: bool) -> String {
    let calls = calls(&request);
    request.messages.push(calling(&calls));
    let results: Vec<ToolResult> = calls.iter().map(|call| result_of(call, result, failed)).collect();
    request.messages.push(Message::tool_output("t1", results));
    answer_text(&request)
}

#[test]
fn a_result_is_told_as_it_stands() {
    assert_eq!(after(asked("123 * 456 계산해줘"), "56088", false), "계산 결과: 56088");
    assert_eq!(after(asked("what is 12*7"), "84", false), "Result: 84");
    assert_eq!(after(asked("서울 날씨"), "맑음, 7도", false), "날씨: 맑음, 7도");
    assert_eq!(
        after(asked("이순신은 누구야?"), "이순신은 조선의 무신이다. 1545년에 태어났다.", false),
        "위키백과에 이렇게 적혀 있습니다: \"이순신은 조선의 무신이다.\"\n위키백과에 이렇게 적혀 있습니다: \"1545년에 태어났다.\""
    );
    assert_eq!(after(asked("`print(2)` 실행해줘"), "2\n3\n", false), "실행 결과: 2\n  3");
}

#[test]
fn a_call_that_the_person_refused_has_not_failed() {
    for (words, told) in [
        ("사용자가 이 호출을 거절했습니다", "거절하셔서 도구 read_file의 호출을 하지 않았습니다."),
        ("the person refused this call", "거절하셔서 도구 read_file의 호출을 하지 않았습니다."),
    ] {
        let call =
            ToolCall { id: "c".into(), name: "read_file".into(), arguments: json!({ "path": "a.txt" }) };
        let refused =
            ToolResult { origin: TextOrigin::Program, ..result_of(&call, &format!("Error: {words}"), true) };
        let messages = vec![
            Message::user("u", "a.txt 파일 읽어줘"),
            super::calling(&[call]),
            Message::tool_output("t", [refused]),
        ];
        assert_eq!(answer_text(&ChatRequest::new(messages)), told);
    }
}

#[test]
fn a_failed_tool_is_told_honestly() {
    let told = after(asked("1/0 계산해줘"), "Error: division by zero", true);
    assert!(told.starts_with("도구 calculator의 호출이 실패했습니다: Error: division by zero\n"), "{told}");
    let told = after(asked("weather in Paris"), "OPENWEATHER_API_KEY is not set", true);
    assert!(told.starts_with("The tool get_weather failed: OPENWEATHER_API_KEY is not set\n"), "{told}");
}

#[test]
fn the_same_call_is_not_made_twice_but_the_next_turn_asks_anew() {
    let mut request = asked("지금 몇 시야?");
    let first = calls(&request);
    request.messages.push(calling(&first));
    request.messages.push(Message::tool_output("t1", [result_of(&first[0], "09:00", false)]));
    assert_eq!(answer_text(&request), "날짜와 시각: 09:00");
    request.messages.push(Message::assistant("a1", "날짜와 시각: 09:00"));
    request.messages.push(Message::user("u2", "지금 몇 시야?"));
    let second = calls(&request);
    assert_eq!(call_text(&second[0]), call_text(&first[0]));
    assert_ne!(second[0].id, first[0].id, "ids are unique within a thread");
}

#[test]
fn two_calls_at_once_are_both_told() {
    let request = asked("서울 날씨랑 12*7 알려줘");
    assert_eq!(output_text(&request), "calculator(12 * 7) + get_weather(서울)");
    assert_eq!(after(request, "84", false), "계산 결과: 84\n날씨: 84");
}

#[test]
fn arguments_are_named_by_the_schema_of_the_tool() {
    let mut request = asked("12*7");
    request.tools = vec![tool(
        "math_calculator",
        &json!({"input": {"type": "string"}, "digits": {"type": "integer", "default": 2}}),
        &["input", "digits"],
    )];
    assert_eq!(calls(&request)[0].arguments, json!({"input": "12 * 7", "digits": 2}));
    request.tools = vec![tool(
        "calculator",
        &json!({"input": {"type": "string"}, "user": {"type": "string"}}),
        &["input", "user"],
    )];
    assert!(matches!(run_rules(&request), Ok(OfflineOutput::Text(_))), "a required argument is not guessed");
}

#[test]
fn a_tool_choice_is_kept_or_refused() {
    let none = ChatRequest { tool_choice: ToolChoice::None, ..asked("12*7") };
    assert!(matches!(run_rules(&none), Ok(OfflineOutput::Text(_))));
    let named =
        ChatRequest { tool_choice: ToolChoice::Named("web_search".into()), ..asked("러스트 언어") };
    assert_eq!(output_text(&named), "web_search(러스트 언어)");
    let required = ChatRequest { tool_choice: ToolChoice::Required, ..asked("안녕") };
    assert!(matches!(run_rules(&required), Ok(OfflineOutput::Calls(_))));
    let mut impossible = ChatRequest { tool_choice: ToolChoice::Required, ..asked("안녕") };
    impossible.tools =
        vec![tool("move", &json!({"x": {"type": "integer"}, "y": {"type": "integer"}}), &["x", "y"])];
    assert!(matches!(run_rules(&impossible), Err(ModelError::Rejected { .. })));
}

#[test]
fn a_computed_part_of_a_question_is_not_looked_for_in_documents() {
    for question in ["연차휴가는 며칠이고 1 + 1은?", "연차휴가가 며칠인지 보고 1 + 1도 계산해줘"]
    {
        let mut request = asked(question);
        let text = "연차휴가는 1년에 15일을 준다. 병가는 60일까지 쓴다.";
        let passage = NumberedPassage {
            number: 1,
            title: "휴가 규정".into(),
            text: text.into(),
            ..NumberedPassage::default()
        };
        request.messages.insert(0, Message::passages("p", [passage]));
        assert_eq!(output_text(&request), "calculator(1 + 1)", "{question}");
        assert_eq!(
            after(request, "2", false),
            "계산 결과: 2\n문서에 이렇게 적혀 있습니다: \"연차휴가는 1년에 15일을 준다.\" [1]",
            "{question}"
        );
    }
}

#[test]
fn a_person_is_looked_up_outside_where_no_document_names_them() {
    let among = |question: &str, text: &str| {
        let mut request = asked(question);
        request.messages.insert(0, Message::passages("p", [super::passage(1, "회사 소개", text)]));
        output_text(&request)
    };
    let company = "대표이사는 한지우이다. 본사는 대전에 있다.";
    assert_eq!(
        among("대표이사는 누구인가요?", company),
        "문서에 이렇게 적혀 있습니다: \"대표이사는 한지우이다.\" [1]"
    );
    assert_eq!(among("이순신은 누구야?", company), "search_wikipedia(이순신)");
    assert_eq!(among("위키백과에서 대표이사 찾아줘", company), "search_wikipedia(대표이사)");
}

#[test]
fn a_formula_that_is_none_is_for_the_calculator_to_refuse() {
    let told = after(asked("2 +* 3 계산해줘"), "Error: invalid syntax", true);
    assert!(told.starts_with("도구 calculator의 호출이 실패했습니다: Error: invalid syntax\n"), "{told}");
}

fn with_memory(question: &str) -> ChatRequest {
    let text = json!({"type": "string"});
    let mut request = asked(question);
    request.tools.extend([
        tool("remember", &json!({"fact": text}), &["fact"]),
        tool("recall", &json!({"query": text, "limit": {"type": "integer"}}), &[]),
        tool("forget", &json!({"id": text}), &["id"]),
    ]);
    request
}

#[test]
fn memory_is_used_where_it_is_on_offer() {
    let check = |question: &str, expected: &str| {
        assert_eq!(output_text(&with_memory(question)), expected, "{question}");
    };
    check("내 생일은 5월 3일이라고 기억해줘", "remember(내 생일은 5월 3일)");
    check("내 생일이 언제야?", "recall(생일)");
    check("지금 뭘 기억하고 있어?", "recall()");
    check("[m1] 잊어줘", "forget(m1)");
    assert_eq!(
        after(with_memory("내 생일이 언제야?"), "[m1] 내 생일은 5월 3일", false),
        "기억하는 것: [m1] 내 생일은 5월 3일"
    );
    // A fact that is only described is looked up, and forgotten if there is no other.
    for (found, expected) in [
        ("[m1] 내 생일은 5월 3일", "forget(m1)"),
        ("[m1] 내 생일\n[m2] 네 생일", "기억하는 것: [m1] 내 생일\n  [m2] 네 생일"),
        ("기억한 것이 없습니다", "기억한 것이 없습니다"),
    ] {
        let mut request = with_memory("내 생일은 잊어줘");
        let first = calls(&request);
        assert_eq!(call_text(&first[0]), "recall(생일)");
        request.messages.push(calling(&first));
        request.messages.push(Message::tool_output("t", [result_of(&first[0], found, false)]));
        assert_eq!(output_text(&request), expected);
    }
    // What was said in this conversation is not looked up, and without a memory it is noted here.
    let mut said_here = with_memory("내 생일이 언제라고 했지?");
    said_here.messages.insert(0, Message::user("u0", "내 생일은 5월 3일이야"));
    assert!(answer_text(&said_here).starts_with("5월 3일입니다."), "{}", answer_text(&said_here));
    assert_eq!(
        answer_text(&asked("내 생일은 5월 3일이라고 기억해줘")),
        "이 대화에 적어 두었습니다: \"내 생일은 5월 3일\""
    );
}

/// What is said where this passage was found and the memory holds these facts, after every look-up.
fn beside_memory(question: &str, passage: &str, facts: &[&str]) -> (Vec<String>, String) {
    let mut request = with_memory(question);
    request.messages.insert(0, Message::passages("p", [super::passage(1, "보안 규정", passage)]));
    let mut made = Vec::new();
    loop {
        let calls = match run_rules(&request).expect("given") {
            OfflineOutput::Text(text) => return (made, text),
            OfflineOutput::Calls(calls) => calls,
        };
        made.extend(calls.iter().map(call_text));
        assert!(made.len() < 5, "{made:?}");
        let found = |call: &ToolCall| {
            let all = call.arguments["query"] == "";
            let told = if all || !facts.is_empty() { facts.join("\n") } else { String::new() };
            result_of(call, if told.is_empty() { "기억한 것이 없습니다" } else { &told }, false)
        };
        request.messages.push(calling(&calls));
        request.messages.push(Message::tool_output(format!("t{}", made.len()), calls.iter().map(found)));
    }
}

#[test]
fn a_remembered_fact_that_shares_the_words_of_a_question_comes_before_documents() {
    let vpn = "공용 와이파이에서 VPN 없이 업무 자료를 열지 않는다.";
    let wifi = "[m1] 우리 회사 와이파이 비번은 abc123";
    let door = "[m2] 창고 출입문 번호는 7788";
    for (question, answer) in [
        ("우리 회사 와이파이 비번이 뭐야?", wifi),
        ("와이파이 비번 알려줘", wifi),
        ("What is the 와이파이 비번?", wifi),
        ("창고 출입문 번호 뭐였지?", door),
    ] {
        let (calls, told) = beside_memory(question, vpn, &[wifi, door]);
        assert_eq!(calls.len(), 1, "{question}: {calls:?}");
        assert!(told.ends_with(answer) && !told.contains("VPN"), "{question}: {told}");
    }
    // What documents surely answer is not looked up, unless it is the person's own; both are told then.
    let leave = "연차휴가는 1년에 15일을 준다.";
    let (calls, told) = beside_memory("연차휴가는 1년에 며칠을 주나요?", leave, &[]);
    assert_eq!((calls.len(), told.contains("15일")), (0, true), "{told}");
    let (calls, told) = beside_memory(
        "우리 연차휴가는 1년에 며칠을 주나요?",
        leave,
        &["[m3] 연차휴가는 1년에 20일을 받기로 했다"],
    );
    assert_eq!(calls.len(), 1);
    assert!(told.find("20일").expect("the fact") < told.find("15일").expect("the document"), "{told}");
}

#[test]
fn a_memory_that_holds_nothing_about_a_question_changes_no_answer() {
    let vpn = "공용 와이파이에서 VPN 없이 업무 자료를 열지 않는다.";
    for question in ["우리 회사 와이파이 비번이 뭐야?", "주차장은 몇 층이에요?", "와이파이는 언제 쓰나요?"]
    {
        let mut without = asked(question);
        without.messages.insert(0, Message::passages("p", [super::passage(1, "보안 규정", vpn)]));
        for facts in [&[][..], &["[m2] 창고 출입문 번호는 7788"]] {
            let (_, told) = beside_memory(question, vpn, facts);
            assert_eq!(told, answer_text(&without), "{question}");
        }
    }
}

#[test]
fn what_is_remembered_in_other_words_is_shown_where_a_person_asks_for_their_own() {
    let mut request = with_memory("내 차량번호 뭐야?");
    for (expected, found) in
        [("recall(차량번호)", "기억한 것이 없습니다"), ("recall()", "[m1] 제 차는 12가3456")]
    {
        let calls = calls(&request);
        assert_eq!(call_text(&calls[0]), expected);
        request.messages.push(calling(&calls));
        request
            .messages
            .push(Message::tool_output(format!("t{expected}"), [result_of(&calls[0], found, false)]));
    }
    assert_eq!(answer_text(&request), "그 말로 기억해 둔 것은 없습니다. 기억하는 것: [m1] 제 차는 12가3456");
}

#[test]
fn a_plan_goes_from_articles_to_search_and_ends() {
    let check =
        |question: &str, expected: &str| assert_eq!(output_text(&planned(question)), expected, "{question}");
    check("제5조 내용이 뭐야?", "get_article_by_index(5)");
    check("제5조와 제7조 비교해줘", "get_article_by_index(5) + get_article_by_index(7)");
    check(
        "위약금은 얼마야? 그리고 제5조도 보여줘",
        "get_article_by_index(5) + hybrid_search(위약금은 얼마야?)",
    );
    check("비밀유지 조항이 있어?", "get_article_by_title(비밀유지)");
    check("대금은 언제 지급하나요?", "hybrid_search(대금은 언제 지급하나요?)");
    check(
        "표준계약서와 대금 지급이 어떻게 달라?",
        "lookup_standard_contract(표준계약서 대금 지급 달) + hybrid_search(대금 지급이 어떻게 달라?)",
    );
    check("표준계약서 제5조 보여줘", "lookup_standard_contract(제5조)");
    check("고마워", "더 부를 도구가 없습니다.");
    check("그 참조항목들 내용 정리해서 보여줘봐", "더 부를 도구가 없습니다.");

    let mut request = planned("제5조에서 대금은 언제 지급하나요?");
    let first = calls(&request);
    request.messages.push(calling(&first));
    request.messages.push(Message::tool_output(
        "t",
        [result_of(&first[0], "제5조(대금)\n대금은 30일 안에 지급한다.", false)],
    ));
    assert_eq!(answer_text(&request), "더 부를 도구가 없습니다.");
    request.messages.pop();
    request.messages.push(Message::tool_output("t", [result_of(&first[0], "없음", false)]));
    let mut seen = Vec::new();
    for round in 0..10 {
        let OfflineOutput::Calls(calls) = run_rules(&request).expect("given") else { break };
        assert!(round < 4, "a plan without an end: {seen:?}");
        seen.extend(calls.iter().map(call_text));
        request.messages.push(calling(&calls));
        request
            .messages
            .push(Message::tool_output("t", calls.iter().map(|call| result_of(call, "없음", false))));
    }
    assert_eq!(seen, ["hybrid_search(제5조에서 대금은 언제 지급하나요?)", "hybrid_search(제5조 대금 지급)"]);
}

#[test]
fn sufficiency_wants_a_sentence_for_everything_asked() {
    let mut request = planned("제5조와 제7조 비교해줘");
    let both = calls(&request);
    request.purpose = RequestPurpose::Sufficiency.label();
    request.messages.push(calling(&both[..1]));
    request.messages.push(Message::tool_output(
        "t",
        [result_of(&both[0], "제5조(대금)\n대금은 30일 안에 지급한다.", false)],
    ));
    assert_eq!(
        answer_text(&request),
        r#"{"is_sufficient":false,"missing_info":"제7조","reasoning":"답이 될 문장이 없는 부분이 있습니다"}"#
    );
    request.messages.push(calling(&both[1..]));
    request.messages.push(Message::tool_output(
        "t",
        [result_of(&both[1], "제7조(해지)\n해지는 30일 전에 알린다.", false)],
    ));
    assert_eq!(
        answer_text(&request),
        r#"{"is_sufficient":true,"missing_info":null,"reasoning":"물은 것마다 답이 될 문장이 있습니다"}"#
    );
}

//! The built-in model as a whole.

mod answers;
mod fitting;
mod formulas;
mod honesty;
mod hostile;
mod quoting;
mod sentences;
mod tooling;

use doran_agents::RequestPurpose;
use doran_llm::{
    ChatModel, ChatRequest, Message, MessagePart, ModelError, ModelKind, NumberedPassage, PassageKind,
    TextOrigin, ToolCall, ToolResult, ToolSpec, collect_reply, conformance,
};
use serde_json::{Value, json};

use super::{OFFLINE_MODEL, OfflineModel, OfflineOutput, run_rules};

/// The words that a request gets.
fn answer_text(request: &ChatRequest) -> String {
    match run_rules(request).expect("an answer") {
        OfflineOutput::Text(text) => text,
        OfflineOutput::Calls(calls) => panic!("calls instead of words: {calls:?}"),
    }
}

/// What a request gets, calls as `tool(argument, …)`.
fn output_text(request: &ChatRequest) -> String {
    match run_rules(request).expect("an answer") {
        OfflineOutput::Text(text) => text,
        OfflineOutput::Calls(calls) => calls.iter().map(call_text).collect::<Vec<_>>().join(" + "),
    }
}

fn call_text(call: &ToolCall) -> String {
    let arguments = call.arguments.as_object().expect("an object");
    let values =
        arguments.values().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    format!("{}({})", call.name, values.collect::<Vec<_>>().join(", "))
}

/// A passage of a contract, a standard contract or another document, as its title says.
fn passage(number: u32, title: &str, text: &str) -> NumberedPassage {
    let kind = match title {
        title if title.contains("표준") => PassageKind::StandardContract,
        title if title.contains("계약") => PassageKind::Contract,
        _ => PassageKind::Document,
    };
    NumberedPassage { number, title: title.into(), text: text.into(), kind }
}

fn tool(name: &str, properties: &Value, required: &[&str]) -> ToolSpec {
    let parameters = json!({"type": "object", "properties": properties, "required": required});
    ToolSpec { name: name.into(), description: String::new(), parameters }
}

/// The tools of the assistant.
fn tools() -> Vec<ToolSpec> {
    let text = json!({"type": "string"});
    vec![
        tool("calculator", &json!({"expression": text}), &["expression"]),
        tool(
            "get_current_datetime",
            &json!({"timezone": text, "date": text, "add_days": {"type": "integer"}}),
            &[],
        ),
        tool("get_weather", &json!({"city": text}), &["city"]),
        tool("search_wikipedia", &json!({"query": text}), &["query"]),
        tool("web_search", &json!({"query": text}), &["query"]),
        tool("python_repl", &json!({"code": text}), &["code"]),
        tool("read_file", &json!({"path": text}), &["path"]),
    ]
}

/// The tools of the contract agent.
fn contract_tools() -> Vec<ToolSpec> {
    let text = json!({"type": "string"});
    vec![
        tool(
            "hybrid_search",
            &json!({"query": text, "limit": {"type": "integer", "default": 5}}),
            &["query"],
        ),
        tool("get_article_by_index", &json!({"index": {"type": "integer"}}), &["index"]),
        tool("get_article_by_title", &json!({"title": text}), &["title"]),
        tool("lookup_standard_contract", &json!({"query": text}), &["query"]),
    ]
}

/// A message of the model that asks for these tools.
fn calling(calls: &[ToolCall]) -> Message {
    let mut message = Message::assistant("calls", "");
    message.parts = calls.iter().cloned().map(MessagePart::ToolCall).collect();
    message
}

fn result_of(call: &ToolCall, text: &str, failed: bool) -> ToolResult {
    ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        text: text.into(),
        failed,
        origin: TextOrigin::Tool,
    }
}

#[tokio::test]
async fn the_built_in_model_keeps_the_contract() {
    conformance::check_streaming_model(&OfflineModel).await;
}

#[tokio::test]
async fn a_request_without_a_question_is_rejected() {
    for messages in [vec![], vec![Message::assistant("a", "hello")], vec![Message::user("u", "  ")]] {
        let error =
            collect_reply(OfflineModel.stream(ChatRequest::new(messages))).await.expect_err("no question");
        assert!(matches!(error, ModelError::Rejected { .. }), "{error}");
    }
}

#[test]
fn it_does_not_claim_to_be_a_language_model() {
    let about = OfflineModel.info();
    assert_eq!((about.name.as_str(), about.kind), (OFFLINE_MODEL, ModelKind::Extractive));
    assert!(about.ko.contains("LLM 아님") && about.en.contains("not an LLM"));
}

#[test]
fn what_is_asked_about_oneself_may_stand_in_documents() {
    let decided = |purpose: RequestPurpose, turns: &[&str]| {
        let messages = turns.iter().map(|turn| Message::user("u", *turn)).collect();
        answer_text(&ChatRequest { purpose: purpose.label(), ..ChatRequest::new(messages) })
    };
    for question in ["제 연차는 며칠인가요?", "내 월급은 언제 나오나요?", "When is my salary paid?"]
    {
        let (route, kind) =
            (decided(RequestPurpose::Route, &[question]), decided(RequestPurpose::Classify, &[question]));
        assert!(route.contains(r#""rag""#) && kind.contains(r#""question""#), "{question}: {route} {kind}");
    }
    // What was said in the conversation is not looked up.
    for turns in [&["내 이름은 김도란이야.", "내 이름이 뭐야?"][..], &["내가 뭐라고 했지?"]]
    {
        let route = decided(RequestPurpose::Route, turns);
        assert!(route.contains(r#""agent""#), "{turns:?}: {route}");
    }
}

#[test]
fn a_decision_fits_the_schema_of_its_request() {
    let request = |purpose: RequestPurpose| ChatRequest {
        purpose: purpose.label(),
        ..ChatRequest::new(vec![Message::user("u", "회사 휴가 정책이 뭐야?")])
    };
    for (purpose, expected) in [
        (RequestPurpose::Route, r#"{"reason":"문서에서 찾을 말이 있습니다","route":"rag"}"#),
        (RequestPurpose::Classify, r#"{"reason":"질문입니다","type":"question"}"#),
        (
            RequestPurpose::PreviousContext,
            r#"{"need_previous_context":false,"reason":"앞의 대화가 없습니다"}"#,
        ),
        (
            RequestPurpose::Sufficiency,
            r#"{"is_sufficient":false,"missing_info":"회사 휴가 정책이 뭐야?","reasoning":"모은 것이 아직 없습니다"}"#,
        ),
        (
            RequestPurpose::Rewrite,
            r#"{"queries":["회사 휴가 정책이 뭐야?","휴가 정책","휴가정책"],"reason":"내용어만 남겼습니다"}"#,
        ),
    ] {
        assert_eq!(answer_text(&request(purpose)), expected);
    }
}

#[test]
fn stops_and_limits_cut_an_answer() {
    let request = ChatRequest::new(vec![Message::user("u", "안녕")]);
    let whole = answer_text(&request);
    let stopped = ChatRequest { stop: vec!["저는".into()], ..request };
    let (deltas, bytes, _) = super::word_deltas(&whole, &stopped);
    assert!(whole.starts_with("안녕하세요.\n저는") && deltas.len() == 1);
    assert_eq!(bytes, "안녕하세요.\n".len() as u64);
}

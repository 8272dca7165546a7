//! Tests of structured requests: valid answers, repaired answers and failures.

use schemars::JsonSchema;
use serde::Deserialize;

use super::*;
use crate::model::Usage;
use crate::scripted::{ScriptedModel, ScriptedReply};

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct RouteReplySample {
    route: String,
    reason: String,
}

fn request(question: &str) -> ChatRequest {
    ChatRequest::new(vec![Message::system("s", "Decide."), Message::user("m1", question)])
}

fn reply(text: &str, finish: FinishReason) -> ModelReply {
    ModelReply { text: text.into(), reasoning: vec![], tool_calls: vec![], usage: Usage::default(), finish }
}

#[tokio::test]
async fn a_fitting_answer_costs_one_call() {
    let model = ScriptedModel::new([ScriptedReply::text(r#"{"route":"rag","reason":"문서"}"#)]);
    let (route, replies) =
        request_structured::<RouteReplySample>(&model, request("휴가 규정?")).await.expect("fits");
    assert_eq!(route, RouteReplySample { route: "rag".into(), reason: "문서".into() });
    assert_eq!(replies.len(), 1);
    assert_eq!(model.requests()[0].schema, Some(response_schema_of::<RouteReplySample>()));
}

#[tokio::test]
async fn an_unfit_answer_is_repaired_once_with_what_was_wrong() {
    let model = ScriptedModel::new([
        ScriptedReply::text(r#"{"route": 3}"#),
        ScriptedReply::text("```json\n{\"route\":\"agent\",\"reason\":\"인사\"}\n```"),
    ]);
    let (route, replies) =
        request_structured::<RouteReplySample>(&model, request("안녕?")).await.expect("repaired");
    assert_eq!((route.route.as_str(), replies.len()), ("agent", 2));
    let requests = model.requests();
    assert_eq!(requests[1].messages[..2], requests[0].messages[..], "what was sent stays as it was");
    assert_eq!(requests[1].messages[2].text(), r#"{"route": 3}"#);
    let text = requests[1].messages[3].text();
    assert!(text.starts_with("방금 답은 스키마에 맞지 않습니다") && text.contains("/route"), "{text}");
    assert_eq!(requests[1].question().as_deref(), Some("안녕?"), "a repair is not a question");
}

#[tokio::test]
async fn a_second_misfit_is_a_typed_failure() {
    let model = ScriptedModel::new([ScriptedReply::text("Hello there"), ScriptedReply::text("Hello again")]);
    let error = request_structured::<RouteReplySample>(&model, request("hi")).await.expect_err("twice");
    assert!(
        matches!(&error, StructuredRequestError::ReplyFormat { misfit: ReplyFormatError::NotJson { .. }, reply } if reply.text == "Hello again")
    );
    assert!(model.requests()[1].messages[3].text().starts_with("Your last answer is not JSON"));
}

#[test]
fn half_an_answer_is_not_read_even_if_it_parses() {
    let whole = r#"{"route":"rag","reason":""}"#;
    assert_eq!(
        parse_reply::<RouteReplySample>(&reply(whole, FinishReason::Length)),
        Err(ReplyFormatError::Cut)
    );
    assert_eq!(
        parse_reply::<RouteReplySample>(&reply(whole, FinishReason::Filtered)),
        Err(ReplyFormatError::Filtered)
    );
    assert!(parse_reply::<RouteReplySample>(&reply(whole, FinishReason::Stop)).is_ok());
}

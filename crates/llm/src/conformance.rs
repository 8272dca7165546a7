//! The contract of [`ChatModel`] as a suite. A model calls [`check_streaming_model`] or [`check_unstreamed_model`] in its
//! tests, and the checks of what else it can do; a broken law panics with its name.

use futures_util::StreamExt;
use serde_json::json;

use crate::message::{Message, TextOrigin, ToolResult};
use crate::model::{
    ChatModel, ChatRequest, Delta, FinishReason, ModelReply, ResponseSchema, ToolSpec, collect_reply,
};
use crate::structured_output::{parse_reply_json, schema_violations};

/// Checks every law that any model must keep, whatever it answers.
pub async fn check_streaming_model(model: &dyn ChatModel) {
    it_says_what_it_is(model);
    the_end_comes_once_and_last(model).await;
    whole_is_streamed(model).await;
    usage_is_counted(model).await;
    dropping_stops_it_and_harms_nobody(model).await;
    streams_do_not_disturb_each_other(model).await;
    a_limit_is_kept_and_reported(model).await;
}

/// The same for a model whose answers come in one piece.
pub async fn check_unstreamed_model(model: &dyn ChatModel) {
    it_says_what_it_is(model);
    the_end_comes_once_and_last(model).await;
    usage_is_counted(model).await;
    dropping_stops_it_and_harms_nobody(model).await;
    streams_do_not_disturb_each_other(model).await;
    a_limit_is_kept_and_reported(model).await;
}

/// Checks a model that calls tools: asked for the weather of Seoul and Busan it calls `weather` for both at once, and
/// with the results it answers in words.
pub async fn check_tool_calling_model(model: &dyn ChatModel) {
    let question = Message::user("m1", "서울과 부산의 날씨를 한 번에 알려 주세요.");
    let weather = ToolSpec {
        name: "weather".into(),
        description: "도시의 날씨를 알려 줍니다. Tells the weather of a city.".into(),
        parameters: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
            "additionalProperties": false
        }),
    };
    let request = ChatRequest { tools: vec![weather], ..ChatRequest::new(vec![question]) };
    let reply = collect_or_panic(model, request.clone(), "tools_are_called").await;
    assert_eq!(reply.finish, FinishReason::ToolCalls, "tools_are_called: told");
    assert_eq!(reply.tool_calls.len(), 2, "several_tools_are_called_at_once: {:?}", reply.tool_calls);
    assert_ne!(reply.tool_calls[0].id, reply.tool_calls[1].id, "calls_have_ids_of_their_own");
    for call in &reply.tool_calls {
        assert_eq!(call.name, request.tools[0].name, "calls_name_a_tool");
        let problems = schema_violations(&request.tools[0].parameters, &call.arguments);
        assert!(problems.is_empty(), "calls_fit_their_tools: {problems:?}");
    }
    let results = reply.tool_calls.iter().map(|call| ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        text: "맑음, 27 도".into(),
        failed: false,
        origin: TextOrigin::Tool,
    });
    let results = Message::tool_output("t1", results.collect::<Vec<_>>());
    let mut request = request;
    request.messages.push(reply.into_message("a1"));
    request.messages.push(results);
    let reply = collect_or_panic(model, request, "results_are_read").await;
    assert!(reply.text.contains("27"), "results_are_read: {:?}", reply.text);
}

/// Checks a model that writes JSON by a schema.
pub async fn check_schema_model(model: &dyn ChatModel) {
    let schema = ResponseSchema {
        name: "place".into(),
        schema: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
            "additionalProperties": false
        }),
    };
    let question = Message::user("m1", "대한민국의 수도는? JSON으로 답하세요.");
    let request = ChatRequest { schema: Some(schema.clone()), ..ChatRequest::new(vec![question]) };
    let reply = collect_or_panic(model, request, "a_schema_is_kept").await;
    if let Err(misfit) = parse_reply_json(&reply, &schema) {
        panic!("a_schema_is_kept: {misfit}: {:?}", reply.text);
    }
}

async fn collect_or_panic(model: &dyn ChatModel, request: ChatRequest, law: &str) -> ModelReply {
    match collect_reply(model.stream(request)).await {
        Ok(reply) => reply,
        Err(error) => panic!("{law}: {error}"),
    }
}

fn greeting_request() -> ChatRequest {
    ChatRequest::new(vec![Message::user("m1", "안녕하세요, 무엇을 할 수 있나요?")])
}

fn it_says_what_it_is(model: &dyn ChatModel) {
    let about = model.info();
    assert!(
        !about.name.is_empty() && !about.ko.is_empty() && !about.en.is_empty(),
        "it_says_what_it_is: {about:?}"
    );
}

async fn collect_deltas(model: &dyn ChatModel, request: ChatRequest) -> Vec<Delta> {
    let mut stream = model.stream(request);
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        match delta {
            Ok(delta) => deltas.push(delta),
            Err(error) => panic!("the model failed: {error}"),
        }
    }
    deltas
}

async fn the_end_comes_once_and_last(model: &dyn ChatModel) {
    let deltas = collect_deltas(model, greeting_request()).await;
    let ends: Vec<usize> = (0..deltas.len()).filter(|at| matches!(deltas[*at], Delta::Done { .. })).collect();
    assert_eq!(ends, [deltas.len().saturating_sub(1)], "the_end_comes_once_and_last");
}

async fn whole_is_streamed(model: &dyn ChatModel) {
    let mut streamed = String::new();
    let mut pieces = 0;
    for delta in collect_deltas(model, greeting_request()).await {
        if let Delta::Text { text } = delta {
            assert!(!text.is_empty(), "whole_is_streamed: an empty text is no news");
            streamed.push_str(&text);
            pieces += 1;
        }
    }
    assert!(pieces > 1, "whole_is_streamed: the answer came in one piece");
    match collect_reply(model.stream(greeting_request())).await {
        Ok(reply) => assert_eq!(reply.text, streamed, "whole_is_streamed"),
        Err(error) => panic!("whole_is_streamed: {error}"),
    }
}

async fn usage_is_counted(model: &dyn ChatModel) {
    match collect_reply(model.stream(greeting_request())).await {
        Ok(reply) => {
            assert!(reply.usage.input_tokens > 0, "usage_is_counted: nothing was read");
            assert!(reply.usage.output_tokens > 0, "usage_is_counted: nothing was written");
            assert_eq!(reply.finish, FinishReason::Stop, "usage_is_counted: the answer is whole");
        }
        Err(error) => panic!("usage_is_counted: {error}"),
    }
}

async fn dropping_stops_it_and_harms_nobody(model: &dyn ChatModel) {
    let mut first = model.stream(greeting_request());
    assert!(first.next().await.is_some(), "dropping_stops_it: nothing came");
    drop(first);
    drop(model.stream(greeting_request()));
    assert!(collect_reply(model.stream(greeting_request())).await.is_ok(), "dropping_harms_nobody");
}

async fn streams_do_not_disturb_each_other(model: &dyn ChatModel) {
    let mut first = model.stream(greeting_request());
    let delta = first.next().await;
    assert!(
        collect_reply(model.stream(greeting_request())).await.is_ok(),
        "streams_do_not_disturb_each_other: the second"
    );
    drop(delta);
    assert!(collect_reply(first).await.is_ok(), "streams_do_not_disturb_each_other: the first");
}

async fn a_limit_is_kept_and_reported(model: &dyn ChatModel) {
    let request = ChatRequest { max_output_tokens: Some(2), ..greeting_request() };
    match collect_reply(model.stream(request)).await {
        Ok(reply) => {
            assert_eq!(reply.finish, FinishReason::Length, "a_limit_is_kept_and_reported: reported");
            assert!(reply.usage.output_tokens <= 2, "a_limit_is_kept_and_reported: {:?}", reply.usage);
        }
        Err(error) => panic!("a_limit_is_kept_and_reported: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, stream};

    use super::*;
    use crate::model::{DeltaStream, ModelInfo, ModelKind, TokenCountSource, Usage};

    /// Gives the same deltas for every request.
    struct FixedDeltasModel(Vec<Delta>);

    impl ChatModel for FixedDeltasModel {
        fn info(&self) -> ModelInfo {
            ModelInfo {
                name: "fixed".into(),
                kind: ModelKind::Extractive,
                ko: "고정".into(),
                en: "fixed".into(),
                unsupported_settings: Vec::new(),
            }
        }

        fn stream(&self, _: ChatRequest) -> DeltaStream {
            stream::iter(self.0.clone().into_iter().map(Ok)).boxed()
        }
    }

    async fn broken_law(deltas: &[Delta]) -> String {
        let model = FixedDeltasModel(deltas.to_vec());
        let outcome = std::panic::AssertUnwindSafe(check_streaming_model(&model)).catch_unwind().await;
        let panic = outcome.expect_err("a broken law");
        let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        fixed.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a message")
    }

    #[tokio::test]
    async fn a_model_that_breaks_the_contract_is_caught() {
        let word = |text: &str| Delta::Text { text: text.into() };
        let done = |output_tokens| Delta::Done {
            usage: Usage {
                input_tokens: 1,
                output_tokens,
                counted: TokenCountSource::Reported,
                ..Usage::default()
            },
            finish: FinishReason::Stop,
        };
        for (deltas, law) in [
            (vec![word("a"), word("b")], "the_end_comes_once_and_last"),
            (vec![word("a"), done(1), done(1)], "the_end_comes_once_and_last"),
            (vec![done(1), word("a")], "the_end_comes_once_and_last"),
            (vec![word("a"), word(""), done(1)], "whole_is_streamed"),
            (vec![word("whole"), done(1)], "whole_is_streamed"),
            (vec![word("a"), word("b"), done(0)], "usage_is_counted"),
            (vec![word("a"), word("b"), done(9)], "a_limit_is_kept_and_reported"),
        ] {
            let failure = broken_law(&deltas).await;
            assert!(failure.contains(law), "{law} for {deltas:?}: {failure}");
        }
    }
}

//! Every dialect keeps the contract of models, streamed and whole.

use std::time::{Duration, Instant};

use doran_llm::{
    ChatModel, ChatRequest, Delta, DeltaStream, DialectKind, FinishReason, ModelApiKey, ModelConfig,
    ModelInfo, ReceivedHttpRequest, ScriptedBodyPiece, ScriptedDialect, ScriptedHttpResponse, ScriptedModel,
    ScriptedReply, ScriptedServer, ScriptedVendorAnswer, ToolCall, Usage, VENDORS, conformance, open_model,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::{
    ANSWER_DELIVERIES, AnswerDelivery, TEST_API_KEY, greeting_request, model_name, open_scripted_vendor,
    test_model_config,
};

/// Answers as a vendor's model would: keeps a limit, calls tools when it has them, writes JSON when a schema is there.
fn vendor_answer(heard: &ReceivedHttpRequest) -> ScriptedVendorAnswer {
    let body = &heard.body;
    let limit =
        ["/max_completion_tokens", "/max_output_tokens", "/max_tokens", "/generationConfig/maxOutputTokens"];
    let limit = limit.iter().find_map(|path| body.pointer(path)).and_then(Value::as_u64);
    let text = body.to_string();
    let forced = body.pointer("/tool_choice/function/name").and_then(Value::as_str);
    let forced = forced.or_else(|| (body["tool_choice"] == "required").then_some("place"));
    let answer = if let Some(name) = forced {
        let arguments = json!({ "city": "서울" });
        ScriptedVendorAnswer::calls([ToolCall { id: "call_a".into(), name: name.into(), arguments }])
    } else if ["json_schema", "json_object", "responseJsonSchema"].iter().any(|word| text.contains(word)) {
        ScriptedVendorAnswer {
            text: vec!["{\"city\":".into(), "\"서울\"}".into()],
            ..ScriptedVendorAnswer::text("x")
        }
    } else if text.contains("27 도") {
        ScriptedVendorAnswer::text("서울은 27 도이고 부산은 27 도입니다.")
    } else if body.get("tools").is_some() {
        let call = |id: &str, city: &str| ToolCall {
            id: id.into(),
            name: "weather".into(),
            arguments: json!({ "city": city }),
        };
        ScriptedVendorAnswer::calls([call("call_a", "서울"), call("call_b", "부산")])
    } else {
        ScriptedVendorAnswer {
            reasoning: vec!["음… ".into(), "인사다.".into()],
            ..ScriptedVendorAnswer::text("안녕하세요, 무엇을 도와드릴까요?")
        }
    };
    let counted =
        |output_tokens: u64| Usage { input_tokens: 30, cached_tokens: 10, output_tokens, ..Usage::default() };
    match limit {
        // Anthropic wants a limit with every request, so only a small one is one.
        Some(limit) if (limit as usize) < answer.text.len() => {
            let text = answer.text[..limit as usize].to_vec();
            ScriptedVendorAnswer { text, usage: Some(counted(limit)), finish: FinishReason::Length, ..answer }
        }
        _ => {
            let output_tokens = answer.text.len() as u64 + 1;
            ScriptedVendorAnswer { usage: Some(counted(output_tokens)), ..answer }
        }
    }
}

#[tokio::test]
async fn every_dialect_keeps_the_contract() {
    for wire in ScriptedDialect::ALL {
        for mode in ANSWER_DELIVERIES {
            let server =
                ScriptedServer::start_with_responder(move |heard| mode.response(wire, &vendor_answer(heard)))
                    .await
                    .expect("server");
            let model = open_scripted_vendor(wire, mode, &server);
            match mode {
                AnswerDelivery::Streamed => conformance::check_streaming_model(model.as_ref()).await,
                AnswerDelivery::Unstreamed => conformance::check_unstreamed_model(model.as_ref()).await,
            }
            conformance::check_tool_calling_model(model.as_ref()).await;
            conformance::check_schema_model(model.as_ref()).await;
        }
    }
}

/// The same with every row of the table of vendors: each has quirks of its own.
#[tokio::test]
async fn every_vendor_keeps_the_contract() {
    for row in VENDORS {
        let wire = match row.dialect {
            DialectKind::Chat => ScriptedDialect::Chat,
            DialectKind::Responses => ScriptedDialect::Responses,
            DialectKind::Messages => ScriptedDialect::Messages,
            DialectKind::Gemini => ScriptedDialect::Gemini,
        };
        for mode in ANSWER_DELIVERIES {
            let server =
                ScriptedServer::start_with_responder(move |heard| mode.response(wire, &vendor_answer(heard)))
                    .await
                    .expect("server");
            let config = ModelConfig {
                streaming: mode.streaming_mode(),
                ..test_model_config(row.id, model_name(wire), server.url())
            };
            let model = open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open");
            eprintln!("{} {mode:?}", row.id);
            match mode {
                AnswerDelivery::Streamed => conformance::check_streaming_model(model.as_ref()).await,
                AnswerDelivery::Unstreamed => conformance::check_unstreamed_model(model.as_ref()).await,
            }
            conformance::check_schema_model(model.as_ref()).await;
            // The one whose table says that it calls no tools.
            if row.id != "perplexity" {
                conformance::check_tool_calling_model(model.as_ref()).await;
            }
        }
    }
}

#[tokio::test]
async fn streamed_and_whole_give_the_same_reply() {
    for wire in ScriptedDialect::ALL {
        let mut replies = Vec::new();
        for mode in ANSWER_DELIVERIES {
            let server =
                ScriptedServer::start_with_responder(move |heard| mode.response(wire, &vendor_answer(heard)))
                    .await
                    .expect("server");
            replies.push(
                doran_llm::collect_reply(
                    open_scripted_vendor(wire, mode, &server).stream(greeting_request()),
                )
                .await
                .expect("reply"),
            );
        }
        assert_eq!(replies[0], replies[1], "{wire:?}");
        assert_eq!(replies[0].usage.cached_tokens, 10, "{wire:?}");
        assert!(!replies[0].reasoning.is_empty(), "{wire:?}");
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection_and_reads_no_more() {
    for wire in ScriptedDialect::ALL {
        let answer = ScriptedVendorAnswer::text("하나 둘 셋");
        let turn = wire.streamed_response(&answer).keep_first_pieces(4);
        let Some(ScriptedBodyPiece::Bytes(word)) = turn.pieces.last().cloned() else { panic!("bytes") };
        let endless = turn.then_piece(ScriptedBodyPiece::Forever(word));
        let server = ScriptedServer::start_with_responses([endless]).await.expect("server");
        let mut deltas =
            open_scripted_vendor(wire, AnswerDelivery::Streamed, &server).stream(greeting_request());
        while !matches!(deltas.next().await, Some(Ok(Delta::Text { .. }))) {}
        assert_eq!(server.open_connections(), 1);
        drop(deltas);
        let dropped = Instant::now();
        while server.open_connections() > 0 {
            assert!(dropped.elapsed() < Duration::from_secs(120), "{wire:?}: still reading");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let sent = server.sent_bytes();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(server.sent_bytes(), sent, "{wire:?}: bytes after the end");
    }
}

#[tokio::test]
async fn a_dropped_request_that_was_not_answered_yet_is_closed_too() {
    let server = ScriptedServer::start_with_responses([ScriptedHttpResponse {
        pieces: vec![ScriptedBodyPiece::Stall],
        ..ScriptedHttpResponse::events([""])
    }])
    .await
    .expect("server");
    let model = open_scripted_vendor(ScriptedDialect::Chat, AnswerDelivery::Streamed, &server);
    let waiting = tokio::time::timeout(
        Duration::from_millis(300),
        doran_llm::collect_reply(model.stream(greeting_request())),
    );
    assert!(waiting.await.is_err(), "nothing was said");
    let dropped = Instant::now();
    while server.open_connections() > 0 {
        assert!(dropped.elapsed() < Duration::from_secs(120), "still waiting");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A scripted model with as many replies as it is asked for, each fitting its request.
struct ObligingModel;

impl ChatModel for ObligingModel {
    fn info(&self) -> ModelInfo {
        ScriptedModel::new([]).info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let weather = |city: &str| json!({ "city": city });
        let answered = request.messages.iter().any(|message| message.role == doran_llm::Role::Tool);
        let script = if request.schema.is_some() {
            ScriptedReply::json(&weather("서울"))
        } else if answered {
            ScriptedReply::text("서울은 27 도, 부산은 27 도입니다.")
        } else if !request.tools.is_empty() {
            ScriptedReply::call("weather", weather("서울")).and_call("weather", weather("부산"))
        } else if request.max_output_tokens.is_some() {
            let usage = Usage { input_tokens: 9, output_tokens: 2, ..Usage::default() };
            ScriptedReply::text("안녕하세요, 무엇을").usage(usage).finish(FinishReason::Length)
        } else {
            ScriptedReply::text("안녕하세요, 무엇을 도와드릴까요?")
        };
        ScriptedModel::new([script]).stream(request)
    }
}

#[tokio::test]
async fn a_scripted_model_keeps_the_contract() {
    conformance::check_streaming_model(&ObligingModel).await;
    conformance::check_tool_calling_model(&ObligingModel).await;
    conformance::check_schema_model(&ObligingModel).await;
}

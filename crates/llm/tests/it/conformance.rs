//! Every dialect keeps the contract of models, streamed and whole.

use std::time::{Duration, Instant};

use doran_llm::{
    About, ChatModel, ChatRequest, Delta, DeltaStream, DialectKind, Finish, Heard, ModelConfig, Piece, Said,
    Script, ScriptedModel, ScriptedServer, Secret, ToolCall, Turn, Usage, VENDORS, Wire, conformance, open,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::{KEY, MODES, Mode, config, model, name, question};

/// Answers as a vendor's model would: keeps a limit, calls tools when it has them, writes JSON when a schema is there.
fn vendor(heard: &Heard) -> Said {
    let body = &heard.body;
    let limit =
        ["/max_completion_tokens", "/max_output_tokens", "/max_tokens", "/generationConfig/maxOutputTokens"];
    let limit = limit.iter().find_map(|path| body.pointer(path)).and_then(Value::as_u64);
    let text = body.to_string();
    let forced = body.pointer("/tool_choice/function/name").and_then(Value::as_str);
    let forced = forced.or_else(|| (body["tool_choice"] == "required").then_some("place"));
    let said = if let Some(name) = forced {
        let arguments = json!({ "city": "서울" });
        Said::calls([ToolCall { id: "call_a".into(), name: name.into(), arguments }])
    } else if ["json_schema", "json_object", "responseJsonSchema"].iter().any(|word| text.contains(word)) {
        Said { text: vec!["{\"city\":".into(), "\"서울\"}".into()], ..Said::text("x") }
    } else if text.contains("27 도") {
        Said::text("서울은 27 도이고 부산은 27 도입니다.")
    } else if body.get("tools").is_some() {
        let call = |id: &str, city: &str| ToolCall {
            id: id.into(),
            name: "weather".into(),
            arguments: json!({ "city": city }),
        };
        Said::calls([call("call_a", "서울"), call("call_b", "부산")])
    } else {
        Said {
            reasoning: vec!["음… ".into(), "인사다.".into()],
            ..Said::text("안녕하세요, 무엇을 도와드릴까요?")
        }
    };
    let counted = |output: u64| Usage {
        input_tokens: 30,
        cached_tokens: 10,
        output_tokens: output,
        ..Usage::default()
    };
    match limit {
        // Anthropic wants a limit with every request, so only a small one is one.
        Some(limit) if (limit as usize) < said.text.len() => {
            let text = said.text[..limit as usize].to_vec();
            Said { text, usage: Some(counted(limit)), finish: Finish::Length, ..said }
        }
        _ => {
            let output = said.text.len() as u64 + 1;
            Said { usage: Some(counted(output)), ..said }
        }
    }
}

#[tokio::test]
async fn every_dialect_keeps_the_contract() {
    for wire in Wire::ALL {
        for mode in MODES {
            let server = ScriptedServer::answering(move |heard| mode.turn(wire, &vendor(heard)))
                .await
                .expect("server");
            let model = model(wire, mode, &server);
            match mode {
                Mode::Streamed => conformance::check(model.as_ref()).await,
                Mode::Whole => conformance::check_whole(model.as_ref()).await,
            }
            conformance::check_tools(model.as_ref()).await;
            conformance::check_schema(model.as_ref()).await;
        }
    }
}

/// The same with every row of the table of vendors: each has quirks of its own.
#[tokio::test]
async fn every_vendor_keeps_the_contract() {
    for row in VENDORS {
        let wire = match row.dialect {
            DialectKind::Chat => Wire::Chat,
            DialectKind::Responses => Wire::Responses,
            DialectKind::Messages => Wire::Messages,
            DialectKind::Gemini => Wire::Gemini,
        };
        for mode in MODES {
            let server = ScriptedServer::answering(move |heard| mode.turn(wire, &vendor(heard)))
                .await
                .expect("server");
            let config =
                ModelConfig { streaming: mode.streaming(), ..config(row.id, name(wire), server.url()) };
            let model = open(&config, Secret::new(KEY)).expect("open");
            eprintln!("{} {mode:?}", row.id);
            match mode {
                Mode::Streamed => conformance::check(model.as_ref()).await,
                Mode::Whole => conformance::check_whole(model.as_ref()).await,
            }
            conformance::check_schema(model.as_ref()).await;
            // The one whose table says that it calls no tools.
            if row.id != "perplexity" {
                conformance::check_tools(model.as_ref()).await;
            }
        }
    }
}

#[tokio::test]
async fn streamed_and_whole_give_the_same_reply() {
    for wire in Wire::ALL {
        let mut replies = Vec::new();
        for mode in MODES {
            let server = ScriptedServer::answering(move |heard| mode.turn(wire, &vendor(heard)))
                .await
                .expect("server");
            replies.push(
                doran_llm::collect(model(wire, mode, &server).stream(question())).await.expect("reply"),
            );
        }
        assert_eq!(replies[0], replies[1], "{wire:?}");
        assert_eq!(replies[0].usage.cached_tokens, 10, "{wire:?}");
        assert!(!replies[0].reasoning.is_empty(), "{wire:?}");
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection_and_reads_no_more() {
    for wire in Wire::ALL {
        let said = Said::text("하나 둘 셋");
        let turn = wire.streamed(&said).cut_after(4);
        let Some(Piece::Bytes(word)) = turn.pieces.last().cloned() else { panic!("bytes") };
        let endless = turn.then(Piece::Forever(word));
        let server = ScriptedServer::playing([endless]).await.expect("server");
        let mut deltas = model(wire, Mode::Streamed, &server).stream(question());
        while !matches!(deltas.next().await, Some(Ok(Delta::Text { .. }))) {}
        assert_eq!(server.open(), 1);
        drop(deltas);
        let dropped = Instant::now();
        while server.open() > 0 {
            assert!(dropped.elapsed() < Duration::from_secs(20), "{wire:?}: still reading");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let sent = server.sent();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(server.sent(), sent, "{wire:?}: bytes after the end");
    }
}

#[tokio::test]
async fn a_dropped_request_that_was_not_answered_yet_is_closed_too() {
    let server = ScriptedServer::playing([Turn { pieces: vec![Piece::Stall], ..Turn::events([""]) }])
        .await
        .expect("server");
    let model = model(Wire::Chat, Mode::Streamed, &server);
    let waiting =
        tokio::time::timeout(Duration::from_millis(300), doran_llm::collect(model.stream(question())));
    assert!(waiting.await.is_err(), "nothing was said");
    let dropped = Instant::now();
    while server.open() > 0 {
        assert!(dropped.elapsed() < Duration::from_secs(20), "still waiting");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A scripted model with as many replies as it is asked for, each fitting its request.
struct Obliging;

impl ChatModel for Obliging {
    fn about(&self) -> About {
        ScriptedModel::new([]).about()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let weather = |city: &str| json!({ "city": city });
        let answered = request.messages.iter().any(|message| message.role == doran_llm::Role::Tool);
        let script = if request.schema.is_some() {
            Script::json(&weather("서울"))
        } else if answered {
            Script::text("서울은 27 도, 부산은 27 도입니다.")
        } else if !request.tools.is_empty() {
            Script::call("weather", weather("서울")).and_call("weather", weather("부산"))
        } else if request.max_output_tokens.is_some() {
            let usage = Usage { input_tokens: 9, output_tokens: 2, ..Usage::default() };
            Script::text("안녕하세요, 무엇을").usage(usage).finish(Finish::Length)
        } else {
            Script::text("안녕하세요, 무엇을 도와드릴까요?")
        };
        ScriptedModel::new([script]).stream(request)
    }
}

#[tokio::test]
async fn a_scripted_model_keeps_the_contract() {
    conformance::check(&Obliging).await;
    conformance::check_tools(&Obliging).await;
    conformance::check_schema(&Obliging).await;
}

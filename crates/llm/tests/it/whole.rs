//! Faults that mean something of their own when an answer comes in one piece, and a scripted model under the contract.

use std::time::Duration;

use doran_llm::{
    About, ChatModel, ChatRequest, DeltaStream, Finish, Limits, ModelConfig, Piece, Said, Script,
    ScriptedModel, ScriptedServer, Secret, ToolCall, Turn, Usage, Wire, collect, conformance, open,
};
use serde_json::json;

use crate::{KEY, MODES, Mode, config, model, name, question};

/// The bytes of an answer in one piece.
fn body(wire: Wire, text: &str) -> Vec<u8> {
    match wire.whole(&Said::text(text)).pieces.remove(0) {
        Piece::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// What comes of a whole answer in these pieces, followed by a good one.
async fn outcome(wire: Wire, pieces: Vec<Piece>, limits: Limits) -> String {
    let good = wire.whole(&Said::text("둘째 답"));
    let server = ScriptedServer::playing([Turn { pieces, ..good.clone() }, good]).await.expect("server");
    let config = ModelConfig {
        streaming: Mode::Whole.streaming(),
        limits,
        ..config(wire.provider(), name(wire), server.url())
    };
    let model = open(&config, Secret::new(KEY)).expect("open");
    let told = match collect(model.stream(question())).await {
        Ok(reply) => reply.text,
        Err(error) => {
            assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
            error.code().to_owned()
        }
    };
    format!("{told} after {}", server.heard().len())
}

#[tokio::test]
async fn f10_a_whole_answer_that_is_torn_was_never_shown_and_is_asked_for_again() {
    for wire in Wire::ALL {
        let bytes = body(wire, "첫째 답");
        for cut in [1, bytes.len() / 2, bytes.len() - 1] {
            let pause = Piece::Pause(Duration::from_millis(20));
            let torn = vec![Piece::Bytes(bytes[..cut].to_vec()), pause, Piece::Reset];
            assert_eq!(outcome(wire, torn, Limits::default()).await, "둘째 답 after 2", "{wire:?} at {cut}");
            // F11: a clean close in the middle of the JSON is no answer either.
            let closed = vec![Piece::Bytes(bytes[..cut].to_vec())];
            assert_eq!(
                outcome(wire, closed, Limits::default()).await,
                "둘째 답 after 2",
                "{wire:?} at {cut}"
            );
        }
    }
}

#[tokio::test]
async fn f15_a_whole_answer_may_be_cut_anywhere() {
    for wire in Wire::ALL {
        let single = body(wire, "안녕 🎉 하세요").into_iter().map(|byte| Piece::Bytes(vec![byte])).collect();
        assert_eq!(outcome(wire, single, Limits::default()).await, "안녕 🎉 하세요 after 1", "{wire:?}");
    }
}

#[tokio::test]
async fn f16_a_whole_answer_without_end_is_cut_off() {
    let limits = Limits { body_bytes: 1 << 20, answer_bytes: 1 << 19, ..Limits::default() };
    for wire in Wire::ALL {
        let endless = vec![Piece::Forever(vec![b' '; 100_000])];
        assert_eq!(outcome(wire, endless, limits).await, "limit_exceeded after 1", "{wire:?}");
        let long = vec![Piece::Bytes(body(wire, &"가".repeat(200_000)))];
        assert_eq!(outcome(wire, long, limits).await, "limit_exceeded after 1", "{wire:?}: too many words");
    }
}

#[tokio::test]
async fn f17_garbage_in_one_piece_is_asked_for_again() {
    for wire in Wire::ALL {
        for garbage in ["{\"choices\": [oops", "null", "[]", "{}", "\u{feff}", "plain words"] {
            let pieces = vec![Piece::Bytes(garbage.as_bytes().to_vec())];
            let told = outcome(wire, pieces, Limits::default()).await;
            assert_eq!(told, "둘째 답 after 2", "{wire:?}: {garbage}");
        }
    }
}

#[tokio::test]
async fn f20_nobody_is_followed_elsewhere_streamed_or_whole() {
    for wire in Wire::ALL {
        for mode in MODES {
            let said = Said::text("속았다");
            let elsewhere = ScriptedServer::answering(move |_| mode.turn(wire, &said)).await.expect("server");
            for status in [301, 302, 303, 307, 308] {
                let moved = Turn::json(status, "").header("location", format!("{}/v1", elsewhere.url()));
                let server = ScriptedServer::playing([moved]).await.expect("server");
                let error = collect(model(wire, mode, &server).stream(question())).await.expect_err("moved");
                assert_eq!(error.code(), "rejected", "{wire:?} {mode:?} {status}");
            }
            assert_eq!(elsewhere.heard().len(), 0, "{wire:?} {mode:?}");
        }
    }
}

#[tokio::test]
async fn f22_a_call_that_comes_again_is_counted_in_every_dialect() {
    let again = ToolCall { id: "c1".into(), name: "add".into(), arguments: json!({"x": 1}) };
    for wire in Wire::ALL {
        for mode in MODES {
            let mut messages = question().messages;
            for round in 0..3 {
                let said = Said::calls([again.clone()]);
                let server = ScriptedServer::playing([mode.turn(wire, &said)]).await.expect("server");
                let request = ChatRequest::new(messages.clone());
                let reply = collect(model(wire, mode, &server).stream(request)).await.expect("reply");
                let repeated = doran_llm::repeats(&messages, &reply.tool_calls[0]);
                assert_eq!(repeated, round, "{wire:?} {mode:?}");
                messages.push(reply.into_message(format!("a{round}")));
            }
        }
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

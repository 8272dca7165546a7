//! An answer in one piece that is torn, endless or garbage. None of it was shown, so it may be asked for again.

use std::time::Duration;

use doran_llm::{Limits, ModelConfig, Piece, Said, ScriptedServer, Secret, Turn, Wire, collect, open};

use crate::{KEY, Mode, config, name, question};

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

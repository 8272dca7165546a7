//! An answer in one piece that is torn, endless or garbage. None of it was shown, so it may be asked for again.

use std::time::Duration;

use doran_llm::{
    ModelApiKey, ModelConfig, ModelResponseLimits, ScriptedBodyPiece, ScriptedDialect, ScriptedHttpResponse,
    ScriptedServer, ScriptedVendorAnswer, collect_reply, open_model,
};

use super::stream_with_retries;
use crate::{AnswerDelivery, TEST_API_KEY, TEST_RETRIES, model_name, test_model_config};

/// The bytes of an answer in one piece.
fn answer_body(wire: ScriptedDialect, text: &str) -> Vec<u8> {
    match wire.whole_response(&ScriptedVendorAnswer::text(text)).pieces.remove(0) {
        ScriptedBodyPiece::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

/// What comes of a whole answer in these pieces, followed by a good one.
async fn outcome_of_pieces(
    wire: ScriptedDialect,
    pieces: Vec<ScriptedBodyPiece>,
    limits: ModelResponseLimits,
) -> String {
    let good = wire.whole_response(&ScriptedVendorAnswer::text("둘째 답"));
    let server =
        ScriptedServer::start_with_responses([ScriptedHttpResponse { pieces, ..good.clone() }, good])
            .await
            .expect("server");
    let config = ModelConfig {
        streaming: AnswerDelivery::Unstreamed.streaming_mode(),
        limits,
        ..test_model_config(wire.provider(), model_name(wire), server.url())
    };
    let model = open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open");
    let message = match collect_reply(stream_with_retries(model.as_ref(), TEST_RETRIES).await).await {
        Ok(reply) => reply.text,
        Err(error) => {
            assert!(!format!("{error} {error:?}").contains(TEST_API_KEY), "{error:?}");
            error.code().to_owned()
        }
    };
    format!("{message} after {}", server.received_requests().len())
}

#[tokio::test]
async fn f10_a_whole_answer_that_is_torn_was_never_shown_and_is_requested_again() {
    for wire in ScriptedDialect::ALL {
        let bytes = answer_body(wire, "첫째 답");
        for cut in [1, bytes.len() / 2, bytes.len() - 1] {
            let pause = ScriptedBodyPiece::Pause(Duration::from_millis(20));
            let torn = vec![ScriptedBodyPiece::Bytes(bytes[..cut].to_vec()), pause, ScriptedBodyPiece::Reset];
            assert_eq!(
                outcome_of_pieces(wire, torn, ModelResponseLimits::default()).await,
                "둘째 답 after 2",
                "{wire:?} at {cut}"
            );
            // F11: a clean close in the middle of the JSON is no answer either.
            let closed = vec![ScriptedBodyPiece::Bytes(bytes[..cut].to_vec())];
            assert_eq!(
                outcome_of_pieces(wire, closed, ModelResponseLimits::default()).await,
                "둘째 답 after 2",
                "{wire:?} at {cut}"
            );
        }
    }
}

#[tokio::test]
async fn f15_a_whole_answer_may_be_cut_anywhere() {
    for wire in ScriptedDialect::ALL {
        let single = answer_body(wire, "안녕 🎉 하세요")
            .into_iter()
            .map(|byte| ScriptedBodyPiece::Bytes(vec![byte]))
            .collect();
        assert_eq!(
            outcome_of_pieces(wire, single, ModelResponseLimits::default()).await,
            "안녕 🎉 하세요 after 1",
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn f16_a_whole_answer_without_end_is_cut_off() {
    let limits =
        ModelResponseLimits { body_bytes: 1 << 20, answer_bytes: 1 << 19, ..ModelResponseLimits::default() };
    for wire in ScriptedDialect::ALL {
        let endless = vec![ScriptedBodyPiece::Forever(vec![b' '; 100_000])];
        assert_eq!(outcome_of_pieces(wire, endless, limits).await, "limit_exceeded after 1", "{wire:?}");
        let long = vec![ScriptedBodyPiece::Bytes(answer_body(wire, &"가".repeat(200_000)))];
        assert_eq!(
            outcome_of_pieces(wire, long, limits).await,
            "limit_exceeded after 1",
            "{wire:?}: too many words"
        );
    }
}

#[tokio::test]
async fn f17_garbage_in_one_piece_is_requested_again() {
    for wire in ScriptedDialect::ALL {
        for garbage in ["{\"choices\": [oops", "null", "[]", "{}", "\u{feff}", "plain words"] {
            let pieces = vec![ScriptedBodyPiece::Bytes(garbage.as_bytes().to_vec())];
            let outcome = outcome_of_pieces(wire, pieces, ModelResponseLimits::default()).await;
            assert_eq!(outcome, "둘째 답 after 2", "{wire:?}: {garbage}");
        }
    }
}

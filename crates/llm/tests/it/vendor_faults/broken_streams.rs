//! An answer that is torn, cut, endless, garbage, or ends in a way of its own.

use std::time::Duration;

use doran_llm::{
    Delta, FinishReason, ModelApiKey, ModelConfig, ModelResponseLimits, ScriptedBodyPiece, ScriptedDialect,
    ScriptedHttpResponse, ScriptedServer, ScriptedVendorAnswer, open_model,
};
use futures_util::StreamExt;

use super::{ANSWERED_ON_SECOND_TRY, check_outcome, good_response, outcome_text, stream_with_retries};
use crate::{
    ANSWER_DELIVERIES, AnswerDelivery, TEST_API_KEY, TEST_RETRIES, model_name, open_scripted_vendor,
    test_model_config,
};

#[tokio::test]
async fn f10_a_torn_connection_is_not_an_answer() {
    for wire in ScriptedDialect::ALL {
        let answer = ScriptedVendorAnswer::text("하나 둘 셋 넷 다섯");
        let pieces = wire.streamed_response(&answer).pieces.len();
        // Torn before any word: asked again. Torn after words: those words are not an answer.
        for cut in 0..pieces {
            let torn = wire
                .streamed_response(&answer)
                .keep_first_pieces(cut)
                .then_piece(ScriptedBodyPiece::Pause(Duration::from_millis(20)))
                .then_piece(ScriptedBodyPiece::Reset);
            let server = ScriptedServer::start_with_responses([torn, wire.streamed_response(&answer)])
                .await
                .expect("server");
            let model = open_scripted_vendor(wire, AnswerDelivery::Streamed, &server);
            let mut words = String::new();
            let mut failed = None;
            let mut deltas = stream_with_retries(model.as_ref(), TEST_RETRIES).await;
            while let Some(delta) = deltas.next().await {
                match delta {
                    Ok(Delta::Text { text }) => words.push_str(&text),
                    Ok(_) => {}
                    Err(error) => failed = Some(error.code()),
                }
            }
            match (failed, server.received_requests().len()) {
                (None, 2) => {
                    assert_eq!(words, "하나 둘 셋 넷 다섯", "{wire:?} cut at {cut}: the second try is whole");
                }
                (None, 1) => {
                    assert_eq!(words, "하나 둘 셋 넷 다섯", "{wire:?} cut at {cut}: only counts were lost");
                }
                (Some(code), 1) => {
                    assert_eq!(code, "truncated", "{wire:?} cut at {cut}");
                    assert!(
                        !words.is_empty(),
                        "{wire:?} cut at {cut}: a word was seen, so nothing was repeated"
                    );
                }
                other => panic!("{wire:?} cut at {cut}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn f11_a_clean_close_without_an_end_is_not_an_answer() {
    for wire in ScriptedDialect::ALL {
        let answer = ScriptedVendorAnswer::text("하나 둘 셋 넷 다섯");
        let server =
            ScriptedServer::start_with_responses([wire.streamed_response(&answer).keep_first_pieces(4)])
                .await
                .expect("server");
        let model = open_scripted_vendor(wire, AnswerDelivery::Streamed, &server);
        assert_eq!(outcome_text(model.as_ref(), &server).await, "truncated after 1", "{wire:?}");
    }
    check_outcome(
        "F11 nothing at all",
        |_, _| vec![ScriptedHttpResponse::json(200, ""); 3],
        "truncated after 3",
    )
    .await;
}

#[tokio::test]
async fn f12_an_error_inside_a_stream_ends_it() {
    let error = |wire: ScriptedDialect| {
        match wire {
        ScriptedDialect::Chat => "data: {\"error\":{\"message\":\"upstream died\",\"type\":\"server_error\"}}\n\n".to_owned(),
        ScriptedDialect::Responses => {
            "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"upstream died\"}}}\n\n".to_owned()
        }
        ScriptedDialect::Messages => {
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n".to_owned()
        }
        ScriptedDialect::Gemini => "data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\n\n".to_owned(),
    }
    };
    for wire in ScriptedDialect::ALL {
        let answer = ScriptedVendorAnswer::text("하나 둘 셋 넷 다섯");
        let late = wire
            .streamed_response(&answer)
            .keep_first_pieces(4)
            .then_piece(ScriptedBodyPiece::Bytes(error(wire).into_bytes()));
        let server = ScriptedServer::start_with_responses([late]).await.expect("server");
        assert_eq!(
            outcome_text(open_scripted_vendor(wire, AnswerDelivery::Streamed, &server).as_ref(), &server)
                .await,
            "unavailable after 1",
            "{wire:?}"
        );
        let early = ScriptedHttpResponse::events([error(wire)]);
        let server =
            ScriptedServer::start_with_responses([early, good_response(wire, AnswerDelivery::Streamed)])
                .await
                .expect("server");
        assert_eq!(
            outcome_text(open_scripted_vendor(wire, AnswerDelivery::Streamed, &server).as_ref(), &server)
                .await,
            ANSWERED_ON_SECOND_TRY,
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn f13_the_finish_reason_is_passed_on() {
    for finish in [FinishReason::Length, FinishReason::Filtered, FinishReason::Other] {
        let answer = ScriptedVendorAnswer { finish, ..ScriptedVendorAnswer::text("반쯤") };
        let expected = format!("\"반쯤\" {finish:?} after 1");
        check_outcome("F13", |wire, mode| vec![mode.response(wire, &answer)], &expected).await;
    }
}

#[tokio::test]
async fn f15_bytes_may_be_cut_anywhere() {
    let answer = ScriptedVendorAnswer::text("안녕 🎉 하세요");
    for wire in ScriptedDialect::ALL {
        let server = ScriptedServer::start_with_responder(move |_| {
            wire.streamed_response(&sample_answer()).split_into_bytes()
        })
        .await
        .expect("server");
        let model = open_scripted_vendor(wire, AnswerDelivery::Streamed, &server);
        assert_eq!(
            outcome_text(model.as_ref(), &server).await,
            "\"안녕 🎉 하세요\" Stop after 1",
            "{wire:?}"
        );
        let ugly = |text: &str| {
            text.replace("data: ", ": a comment\r\nid: 7\r\ndata:")
                .replace('\n', "\r\n")
                .replace("\r\r", "\r")
        };
        let turn = wire.streamed_response(&answer);
        let events: Vec<String> = turn
            .pieces
            .iter()
            .map(|piece| match piece {
                ScriptedBodyPiece::Bytes(bytes) => ugly(std::str::from_utf8(bytes).expect("text")),
                other => panic!("{other:?}"),
            })
            .collect();
        let server = ScriptedServer::start_with_responses([ScriptedHttpResponse::events(events)])
            .await
            .expect("server");
        let model = crate::open_scripted_vendor(wire, AnswerDelivery::Streamed, &server);
        assert_eq!(
            outcome_text(model.as_ref(), &server).await,
            "\"안녕 🎉 하세요\" Stop after 1",
            "{wire:?}"
        );
    }
}

fn sample_answer() -> ScriptedVendorAnswer {
    ScriptedVendorAnswer::text("안녕 🎉 하세요")
}

#[tokio::test]
async fn f16_an_answer_without_end_is_cut_off() {
    let word = |wire: ScriptedDialect, size: usize| {
        let turn = wire.streamed_response(&ScriptedVendorAnswer {
            text: vec!["가".repeat(size)],
            ..ScriptedVendorAnswer::text("x")
        });
        let mut pieces = turn.pieces.into_iter().map(|piece| match piece {
            ScriptedBodyPiece::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        });
        pieces.find(|bytes| bytes.len() > size).expect("a piece with the words")
    };
    for wire in ScriptedDialect::ALL {
        for piece in [
            ScriptedBodyPiece::Forever(word(wire, 10_000)),
            ScriptedBodyPiece::Bytes(word(wire, 10_000_000 / 3)),
            ScriptedBodyPiece::Forever(b": ping\n".repeat(100_000)),
        ] {
            let server =
                ScriptedServer::start_with_responses([ScriptedHttpResponse::events([""]).then_piece(piece)])
                    .await
                    .expect("server");
            let limits = ModelResponseLimits {
                event_bytes: 1 << 20,
                body_bytes: 4 << 20,
                answer_bytes: 1 << 20,
                ..ModelResponseLimits::default()
            };
            let config =
                ModelConfig { limits, ..test_model_config(wire.provider(), model_name(wire), server.url()) };
            let model = open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open");
            assert_eq!(outcome_text(model.as_ref(), &server).await, "limit_exceeded after 1", "{wire:?}");
        }
    }
}

#[tokio::test]
async fn f17_garbage_fails_and_half_a_character_is_replaced() {
    for wire in ScriptedDialect::ALL {
        let garbage = wire
            .streamed_response(&ScriptedVendorAnswer::text("하나 둘 셋 넷 다섯"))
            .keep_first_pieces(4)
            .then_piece(ScriptedBodyPiece::Bytes(b"data: {\"choices\": [oops\n\n".to_vec()));
        let server = ScriptedServer::start_with_responses([garbage]).await.expect("server");
        let outcome =
            outcome_text(open_scripted_vendor(wire, AnswerDelivery::Streamed, &server).as_ref(), &server)
                .await;
        assert_eq!(outcome, "truncated after 1", "{wire:?}");
        for (written, expected) in [("\\ud800", "\u{fffd}"), ("\\u0000", "\u{fffd}")] {
            for mode in ANSWER_DELIVERIES {
                let mut turn = mode.response(wire, &ScriptedVendorAnswer::text("QQ 둘"));
                for piece in &mut turn.pieces {
                    if let ScriptedBodyPiece::Bytes(bytes) = piece {
                        *bytes = String::from_utf8_lossy(bytes).replace("QQ", written).into_bytes();
                    }
                }
                let server = ScriptedServer::start_with_responses([turn]).await.expect("server");
                let outcome = outcome_text(open_scripted_vendor(wire, mode, &server).as_ref(), &server).await;
                assert_eq!(
                    outcome,
                    format!("{:?} Stop after 1", format!("{expected} 둘")),
                    "{wire:?} {mode:?}"
                );
            }
        }
    }
}

//! An answer that is torn, cut, endless, garbage, or ends in a way of its own.

use std::time::Duration;

use doran_llm::{Delta, Finish, Limits, ModelConfig, Piece, Said, ScriptedServer, Secret, Turn, Wire, open};
use futures_util::StreamExt;

use super::{ANSWERED_SECOND, check, good, told};
use crate::{KEY, MODES, Mode, config, model, name, question};

#[tokio::test]
async fn f10_a_torn_connection_is_not_an_answer() {
    for wire in Wire::ALL {
        let said = Said::text("하나 둘 셋 넷 다섯");
        let pieces = wire.streamed(&said).pieces.len();
        // Torn before any word: asked again. Torn after words: those words are not an answer.
        for cut in 0..pieces {
            let torn = wire
                .streamed(&said)
                .cut_after(cut)
                .then(Piece::Pause(Duration::from_millis(20)))
                .then(Piece::Reset);
            let server = ScriptedServer::playing([torn, wire.streamed(&said)]).await.expect("server");
            let model = model(wire, Mode::Streamed, &server);
            let mut words = String::new();
            let mut failed = None;
            let mut deltas = model.stream(question());
            while let Some(delta) = deltas.next().await {
                match delta {
                    Ok(Delta::Text { text }) => words.push_str(&text),
                    Ok(_) => {}
                    Err(error) => failed = Some(error.code()),
                }
            }
            match (failed, server.heard().len()) {
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
    for wire in Wire::ALL {
        let said = Said::text("하나 둘 셋 넷 다섯");
        let server = ScriptedServer::playing([wire.streamed(&said).cut_after(4)]).await.expect("server");
        let model = model(wire, Mode::Streamed, &server);
        assert_eq!(told(model.as_ref(), &server).await, "truncated after 1", "{wire:?}");
    }
    check("F11 nothing at all", |_, _| vec![Turn::json(200, ""); 3], "truncated after 3").await;
}

#[tokio::test]
async fn f12_an_error_inside_a_stream_ends_it() {
    let error = |wire: Wire| {
        match wire {
        Wire::Chat => "data: {\"error\":{\"message\":\"upstream died\",\"type\":\"server_error\"}}\n\n".to_owned(),
        Wire::Responses => {
            "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"upstream died\"}}}\n\n".to_owned()
        }
        Wire::Messages => {
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n".to_owned()
        }
        Wire::Gemini => "data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\n\n".to_owned(),
    }
    };
    for wire in Wire::ALL {
        let said = Said::text("하나 둘 셋 넷 다섯");
        let late = wire.streamed(&said).cut_after(4).then(Piece::Bytes(error(wire).into_bytes()));
        let server = ScriptedServer::playing([late]).await.expect("server");
        assert_eq!(
            told(model(wire, Mode::Streamed, &server).as_ref(), &server).await,
            "unavailable after 1",
            "{wire:?}"
        );
        let early = Turn::events([error(wire)]);
        let server = ScriptedServer::playing([early, good(wire, Mode::Streamed)]).await.expect("server");
        assert_eq!(
            told(model(wire, Mode::Streamed, &server).as_ref(), &server).await,
            ANSWERED_SECOND,
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn f13_why_it_ended_is_told_as_it_was() {
    for finish in [Finish::Length, Finish::Filtered, Finish::Other] {
        let said = Said { finish, ..Said::text("반쯤") };
        let expected = format!("\"반쯤\" {finish:?} after 1");
        check("F13", |wire, mode| vec![mode.turn(wire, &said)], &expected).await;
    }
}

#[tokio::test]
async fn f15_bytes_may_be_cut_anywhere() {
    let said = Said::text("안녕 🎉 하세요");
    for wire in Wire::ALL {
        let server = ScriptedServer::answering(move |_| wire.streamed(&said_again()).byte_by_byte())
            .await
            .expect("server");
        let model = model(wire, Mode::Streamed, &server);
        assert_eq!(told(model.as_ref(), &server).await, "\"안녕 🎉 하세요\" Stop after 1", "{wire:?}");
        let ugly = |text: &str| {
            text.replace("data: ", ": a comment\r\nid: 7\r\ndata:")
                .replace('\n', "\r\n")
                .replace("\r\r", "\r")
        };
        let turn = wire.streamed(&said);
        let events: Vec<String> = turn
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Bytes(bytes) => ugly(std::str::from_utf8(bytes).expect("text")),
                other => panic!("{other:?}"),
            })
            .collect();
        let server = ScriptedServer::playing([Turn::events(events)]).await.expect("server");
        let model = crate::model(wire, Mode::Streamed, &server);
        assert_eq!(told(model.as_ref(), &server).await, "\"안녕 🎉 하세요\" Stop after 1", "{wire:?}");
    }
}

fn said_again() -> Said {
    Said::text("안녕 🎉 하세요")
}

#[tokio::test]
async fn f16_an_answer_without_end_is_cut_off() {
    let word = |wire: Wire, size: usize| {
        let turn = wire.streamed(&Said { text: vec!["가".repeat(size)], ..Said::text("x") });
        let mut pieces = turn.pieces.into_iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        });
        pieces.find(|bytes| bytes.len() > size).expect("a piece with the words")
    };
    for wire in Wire::ALL {
        for piece in [
            Piece::Forever(word(wire, 10_000)),
            Piece::Bytes(word(wire, 10_000_000 / 3)),
            Piece::Forever(b": ping\n".repeat(100_000)),
        ] {
            let server = ScriptedServer::playing([Turn::events([""]).then(piece)]).await.expect("server");
            let limits = Limits {
                event_bytes: 1 << 20,
                body_bytes: 4 << 20,
                answer_bytes: 1 << 20,
                ..Limits::default()
            };
            let config = ModelConfig { limits, ..config(wire.provider(), name(wire), server.url()) };
            let model = open(&config, Secret::new(KEY)).expect("open");
            assert_eq!(told(model.as_ref(), &server).await, "limit_exceeded after 1", "{wire:?}");
        }
    }
}

#[tokio::test]
async fn f17_garbage_fails_and_half_a_character_is_replaced() {
    for wire in Wire::ALL {
        let garbage = wire
            .streamed(&Said::text("하나 둘 셋 넷 다섯"))
            .cut_after(4)
            .then(Piece::Bytes(b"data: {\"choices\": [oops\n\n".to_vec()));
        let server = ScriptedServer::playing([garbage]).await.expect("server");
        let outcome = told(model(wire, Mode::Streamed, &server).as_ref(), &server).await;
        assert_eq!(outcome, "truncated after 1", "{wire:?}");
        for (written, expected) in [("\\ud800", "\u{fffd}"), ("\\u0000", "\u{fffd}")] {
            for mode in MODES {
                let mut turn = mode.turn(wire, &Said::text("QQ 둘"));
                for piece in &mut turn.pieces {
                    if let Piece::Bytes(bytes) = piece {
                        *bytes = String::from_utf8_lossy(bytes).replace("QQ", written).into_bytes();
                    }
                }
                let server = ScriptedServer::playing([turn]).await.expect("server");
                let outcome = told(model(wire, mode, &server).as_ref(), &server).await;
                assert_eq!(
                    outcome,
                    format!("{:?} Stop after 1", format!("{expected} 둘")),
                    "{wire:?} {mode:?}"
                );
            }
        }
    }
}

//! Everything a vendor can do wrong, and what comes of it: in every dialect, streamed and whole.
//!
//! Each row is a fault, the turns of the server, and the outcome: the words or the error's code, and how many requests
//! it took.

use std::time::Duration;

use doran_llm::{
    ChatModel, Counted, Delta, Finish, Limits, ModelConfig, Piece, Said, ScriptedServer, Secret, Timeouts,
    ToolCall, Turn, Usage, Wire, check_calls, collect, open,
};
use futures_util::StreamExt;
use serde_json::json;

use crate::{KEY, MODES, Mode, config, model, name, question};

fn good(wire: Wire, mode: Mode) -> Turn {
    mode.turn(wire, &Said::text("안녕하세요 반갑습니다"))
}

fn failing(status: u16, body: &str) -> Turn {
    Turn::json(status, body)
}

/// The outcome of a request in words.
async fn told(model: &dyn ChatModel, server: &ScriptedServer) -> String {
    let outcome = match collect(model.stream(question())).await {
        Ok(reply) => format!("{:?} {:?}", reply.text, reply.finish),
        Err(error) => {
            let shown =
                format!("{error} {error:?} {:?}", std::error::Error::source(&error).map(ToString::to_string));
            assert!(!shown.contains(KEY) && !shown.contains("<html"), "told too much: {shown}");
            error.code().to_owned()
        }
    };
    format!("{outcome} after {}", server.heard().len())
}

async fn check(fault: &str, turns: impl Fn(Wire, Mode) -> Vec<Turn>, expected: &str) {
    for wire in Wire::ALL {
        for mode in MODES {
            let server = ScriptedServer::playing(turns(wire, mode)).await.expect("server");
            let model = model(wire, mode, &server);
            assert_eq!(told(model.as_ref(), &server).await, expected, "{fault}: {wire:?} {mode:?}");
        }
    }
}

const ANSWERED_AT_ONCE: &str = "\"안녕하세요 반갑습니다\" Stop after 1";
const ANSWERED_SECOND: &str = "\"안녕하세요 반갑습니다\" Stop after 2";

#[tokio::test]
async fn f00_no_fault() {
    check("F00", |wire, mode| vec![good(wire, mode)], ANSWERED_AT_ONCE).await;
}

#[tokio::test]
async fn f01_to_f03_a_rate_limit_is_honoured_within_patience() {
    let limited = || failing(429, r#"{"error":{"message":"slow down"}}"#);
    let soon = || {
        let in_a_second = std::time::SystemTime::now() + Duration::from_secs(1);
        httpdate::fmt_http_date(in_a_second)
    };
    check("F01 seconds", |w, m| vec![limited().header("retry-after", "0.01"), good(w, m)], ANSWERED_SECOND)
        .await;
    check("F02 date", |w, m| vec![limited().header("retry-after", soon()), good(w, m)], ANSWERED_SECOND)
        .await;
    check("F03 absent", |w, m| vec![limited(), good(w, m)], ANSWERED_SECOND).await;
    check(
        "F03 a day",
        |w, m| vec![limited().header("retry-after", "86400"), good(w, m)],
        "rate_limited after 1",
    )
    .await;
    check("F03 always", |_, _| vec![limited(), limited(), limited(), limited()], "rate_limited after 3")
        .await;
}

#[tokio::test]
async fn f04_to_f06_a_broken_server_is_asked_again() {
    let page =
        || Turn::json(502, "<html><body>Bad Gateway</body></html>").header("content-type", "text/html");
    check("F04", |w, m| vec![failing(500, "{}"), good(w, m)], ANSWERED_SECOND).await;
    check("F05", |w, m| vec![page(), good(w, m)], ANSWERED_SECOND).await;
    check("F05 always", |_, _| vec![page(), page(), page()], "unavailable after 3").await;
    check("F06 529", |w, m| vec![failing(529, "{}"), good(w, m)], ANSWERED_SECOND).await;
    check("F06 503", |w, m| vec![failing(503, "").header("retry-after", "0"), good(w, m)], ANSWERED_SECOND)
        .await;
}

#[tokio::test]
async fn f07_a_refused_key_is_not_tried_again_nor_told() {
    let echo = format!(r#"{{"error":{{"message":"Incorrect API key: {KEY}"}}}}"#);
    for status in [401, 403] {
        check("F07", |w, m| vec![failing(status, &echo), good(w, m)], "unauthorized after 1").await;
    }
    check("F07 echoed elsewhere", |_, _| vec![failing(400, &echo)], "rejected after 1").await;
}

#[tokio::test]
async fn f08_nobody_there_or_not_who_it_should_be() {
    let nobody = ScriptedServer::playing([]).await.expect("server").url();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for (url, why) in
        [(nobody.clone(), "no connection"), (nobody.replace("http:", "https:"), "no connection")]
    {
        let config = config("openai", "m", url);
        let model = open(&config, Secret::new(KEY)).expect("open");
        let error = collect(model.stream(question())).await.expect_err("nobody");
        assert_eq!(error.code(), "unreachable", "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    // A server that does not speak TLS is not believed to.
    let plain = ScriptedServer::playing([]).await.expect("server");
    let config = config("openai", "m", plain.url().replace("http:", "https:"));
    let model = open(&config, Secret::new(KEY)).expect("open");
    let error = collect(model.stream(question())).await.expect_err("no TLS");
    assert_eq!(error.code(), "unreachable", "{error}");
    assert!(plain.heard().iter().all(|heard| heard.header("authorization").is_none()));
}

/// A model that loses patience soon; for servers that are silent for good.
async fn impatient(wire: Wire, mode: Mode, turns: Vec<Turn>) -> String {
    let server = ScriptedServer::playing(turns).await.expect("server");
    let soon = Duration::from_millis(1_500);
    let config = ModelConfig {
        timeouts: Some(Timeouts { connect: soon, first_byte: soon, idle: soon }),
        streaming: mode.streaming(),
        retries: doran_llm::Retries::NEVER,
        ..config(wire.provider(), name(wire), server.url())
    };
    let model = open(&config, Secret::new(KEY)).expect("open");
    told(model.as_ref(), &server).await
}

#[tokio::test]
async fn f09_and_f14_silence_has_an_end() {
    let mut silent = Vec::new();
    for wire in Wire::ALL {
        for mode in MODES {
            let stalled = Turn { pieces: vec![Piece::Stall], ..good(wire, mode) };
            silent.push(impatient(wire, mode, vec![stalled]));
        }
        let mut turn = good(wire, Mode::Streamed).cut_after(2);
        turn.pieces.push(Piece::Stall);
        silent.push(impatient(wire, Mode::Streamed, vec![turn]));
    }
    for outcome in futures_util::future::join_all(silent).await {
        assert_eq!(outcome, "truncated after 1");
    }
}

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

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments }
}

#[tokio::test]
async fn f18_odd_tool_calls_become_errors_that_the_model_can_mend() {
    let tool = doran_llm::ToolSpec {
        name: "add".into(),
        description: "adds".into(),
        parameters: json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}),
    };
    let many = (0..50).map(|at| call(&format!("c{at}"), "add", json!({"x": at}))).collect::<Vec<_>>();
    let rows: Vec<(&str, Vec<ToolCall>, usize, usize)> = vec![
        ("good", vec![call("a", "add", json!({"x": 1}))], 1, 0),
        ("not JSON", vec![call("a", "add", json!("{\"x\": "))], 0, 1),
        ("wrong shape", vec![call("a", "add", json!({"x": "one"}))], 0, 1),
        ("a megabyte", vec![call("a", "add", json!({"x": "y".repeat(1_000_000)}))], 0, 1),
        ("unknown tool", vec![call("a", "rm", json!({}))], 0, 1),
        (
            "the same id twice",
            vec![call("a", "add", json!({"x": 1})), call("a", "add", json!({"x": 2}))],
            2,
            0,
        ),
        ("fifty at once", many, 16, 34),
    ];
    for (fault, calls, good, bad) in rows {
        for wire in Wire::ALL {
            for mode in MODES {
                let server = ScriptedServer::playing([mode.turn(wire, &Said::calls(calls.clone()))])
                    .await
                    .expect("server");
                let request = doran_llm::ChatRequest { tools: vec![tool.clone()], ..question() };
                let reply = collect(model(wire, mode, &server).stream(request)).await.expect("reply");
                let checked = check_calls(std::slice::from_ref(&tool), &reply.tool_calls);
                let runs = checked
                    .iter()
                    .filter(|checked| matches!(checked, doran_llm::CheckedCall::Good(_)))
                    .count();
                assert_eq!((runs, checked.len() - runs), (good, bad), "{fault}: {wire:?} {mode:?}");
                assert_eq!(reply.finish, Finish::ToolCalls, "{fault}: {wire:?} {mode:?}");
            }
        }
    }
}

#[tokio::test]
async fn f19_an_empty_answer_is_asked_for_once_more() {
    let empty = |wire: Wire, mode: Mode| mode.turn(wire, &Said::text(""));
    check("F19 once", |w, m| vec![empty(w, m), good(w, m)], ANSWERED_SECOND).await;
    check("F19 twice", |w, m| vec![empty(w, m), empty(w, m), good(w, m)], "empty after 2").await;
}

#[tokio::test]
async fn f20_a_key_goes_to_its_host_and_no_other() {
    let portal =
        || Turn::json(200, "<html>Please log in</html>").header("content-type", "text/html; charset=utf-8");
    check("F20 portal", |_, _| vec![portal(), portal(), portal()], "unreachable after 3").await;
    for wire in Wire::ALL {
        let elsewhere = ScriptedServer::answering(move |_| good(wire, Mode::Streamed)).await.expect("server");
        for status in [301, 302, 307, 308] {
            let moved = failing(status, "").header("location", format!("{}/v1", elsewhere.url()));
            let server = ScriptedServer::playing([moved]).await.expect("server");
            assert_eq!(
                told(model(wire, Mode::Streamed, &server).as_ref(), &server).await,
                "rejected after 1",
                "{wire:?}"
            );
        }
        assert_eq!(elsewhere.heard().len(), 0, "{wire:?}: nobody followed");
    }
}

#[tokio::test]
async fn f21_counts_that_cannot_be_true_are_our_own() {
    let none = Said { usage: None, ..Said::text("안녕하세요") };
    let absurd = Usage { input_tokens: 1 << 60, output_tokens: 1 << 60, ..Usage::default() };
    let absurd = Said { usage: Some(absurd), ..Said::text("안녕하세요") };
    let zero = Said { usage: Some(Usage::default()), ..Said::text("안녕하세요") };
    for said in [none, absurd, zero] {
        for wire in Wire::ALL {
            for mode in MODES {
                let server = ScriptedServer::playing([mode.turn(wire, &said)]).await.expect("server");
                let reply = collect(model(wire, mode, &server).stream(question())).await.expect("reply");
                assert_eq!(reply.usage.counted, Counted::Estimated, "{wire:?} {mode:?}");
                assert_eq!(reply.usage.output_tokens, 5, "{wire:?} {mode:?}: 15 bytes");
            }
        }
    }
    let negative = r#"{"choices":[{"index":0,"message":{"content":"안녕하세요"},"finish_reason":"stop"}],"usage":{"prompt_tokens":-7,"completion_tokens":-1}}"#;
    let server = ScriptedServer::playing([Turn::json(200, negative)]).await.expect("server");
    let reply = collect(model(Wire::Chat, Mode::Whole, &server).stream(question())).await.expect("reply");
    assert_eq!((reply.usage.counted, reply.usage.output_tokens), (Counted::Estimated, 5));
}

#[tokio::test]
async fn f22_a_call_that_comes_again_and_again_is_counted() {
    let again = call("c1", "add", json!({"x": 1}));
    let mut messages = question().messages;
    for round in 0..3 {
        let said = Said::calls([again.clone()]);
        let server = ScriptedServer::playing([Mode::Streamed.turn(Wire::Chat, &said)]).await.expect("server");
        let request = doran_llm::ChatRequest::new(messages.clone());
        let reply = collect(model(Wire::Chat, Mode::Streamed, &server).stream(request)).await.expect("reply");
        assert_eq!(doran_llm::repeats(&messages, &reply.tool_calls[0]), round);
        messages.push(reply.into_message(format!("a{round}")));
    }
}

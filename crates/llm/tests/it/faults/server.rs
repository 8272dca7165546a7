//! A server that refuses, is broken, silent, or not who it should be.

use std::time::Duration;

use doran_llm::{ModelConfig, Piece, Said, ScriptedServer, Secret, Timeouts, Turn, Wire, collect, open};

use super::{ANSWERED_AT_ONCE, ANSWERED_SECOND, check, failing, good, told};
use crate::{KEY, MODES, Mode, config, model, name, question};

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

/// A local model that reads a long question says so with comments until it has a first word.
#[tokio::test]
async fn f09_a_server_that_says_it_is_alive_is_waited_for_until_its_first_word() {
    let (idle, first_byte) = (Duration::from_secs(3), Duration::from_secs(60));
    let alive = async |wire: Wire| {
        let mut turn = good(wire, Mode::Streamed);
        let pause = Piece::Pause(idle + Duration::from_millis(1_500));
        turn.pieces.splice(0..0, [Piece::Bytes(b": ping\n\n".to_vec()), pause]);
        let server = ScriptedServer::playing([turn]).await.expect("server");
        let config = ModelConfig {
            timeouts: Some(Timeouts { connect: first_byte, first_byte, idle }),
            ..config(wire.provider(), name(wire), server.url())
        };
        let model = open(&config, Secret::new(KEY)).expect("open");
        told(model.as_ref(), &server).await
    };
    for outcome in futures_util::future::join_all(Wire::ALL.map(alive)).await {
        assert_eq!(outcome, ANSWERED_AT_ONCE);
    }
}

#[tokio::test]
async fn f19_an_empty_answer_is_asked_for_once_more() {
    let empty = |wire: Wire, mode: Mode| mode.turn(wire, &Said::text(""));
    check("F19 once", |w, m| vec![empty(w, m), good(w, m)], ANSWERED_SECOND).await;
    check("F19 twice", |w, m| vec![empty(w, m), empty(w, m), good(w, m)], "empty after 2").await;
}

#[tokio::test]
async fn f20_a_login_page_is_not_an_answer() {
    let portal =
        || Turn::json(200, "<html>Please log in</html>").header("content-type", "text/html; charset=utf-8");
    check("F20 portal", |_, _| vec![portal(), portal(), portal()], "unreachable after 3").await;
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

//! A server that refuses, is broken, silent, or not who it should be.

use std::time::Duration;

use doran_llm::{
    ModelApiKey, ModelConfig, ModelRetryPolicy, ModelTimeouts, ScriptedBodyPiece, ScriptedDialect,
    ScriptedHttpResponse, ScriptedServer, ScriptedVendorAnswer, collect_reply, open_model,
};

use super::{
    ANSWERED_AT_ONCE, ANSWERED_ON_SECOND_TRY, check_outcome, error_response, good_response, outcome_text,
    outcome_with_policy,
};
use crate::{
    ANSWER_DELIVERIES, AnswerDelivery, TEST_API_KEY, TEST_RETRIES, greeting_request, model_name,
    open_scripted_vendor, test_model_config,
};

#[tokio::test]
async fn f01_to_f03_a_rate_limit_is_honoured_up_to_the_longest_wait() {
    let limited = || error_response(429, r#"{"error":{"message":"slow down"}}"#);
    let soon = || {
        let in_a_second = std::time::SystemTime::now() + Duration::from_secs(1);
        httpdate::fmt_http_date(in_a_second)
    };
    check_outcome(
        "F01 seconds",
        |w, m| vec![limited().header("retry-after", "0.01"), good_response(w, m)],
        ANSWERED_ON_SECOND_TRY,
    )
    .await;
    check_outcome(
        "F02 date",
        |w, m| vec![limited().header("retry-after", soon()), good_response(w, m)],
        ANSWERED_ON_SECOND_TRY,
    )
    .await;
    check_outcome("F03 absent", |w, m| vec![limited(), good_response(w, m)], ANSWERED_ON_SECOND_TRY).await;
    check_outcome(
        "F03 a day",
        |w, m| vec![limited().header("retry-after", "86400"), good_response(w, m)],
        "rate_limited after 1",
    )
    .await;
    check_outcome(
        "F03 always",
        |_, _| vec![limited(), limited(), limited(), limited()],
        "rate_limited after 3",
    )
    .await;
}

#[tokio::test]
async fn f04_to_f06_a_broken_server_gets_the_request_again() {
    let page = || {
        ScriptedHttpResponse::json(502, "<html><body>Bad Gateway</body></html>")
            .header("content-type", "text/html")
    };
    check_outcome("F04", |w, m| vec![error_response(500, "{}"), good_response(w, m)], ANSWERED_ON_SECOND_TRY)
        .await;
    check_outcome("F05", |w, m| vec![page(), good_response(w, m)], ANSWERED_ON_SECOND_TRY).await;
    check_outcome("F05 always", |_, _| vec![page(), page(), page()], "unavailable after 3").await;
    check_outcome(
        "F06 529",
        |w, m| vec![error_response(529, "{}"), good_response(w, m)],
        ANSWERED_ON_SECOND_TRY,
    )
    .await;
    check_outcome(
        "F06 503",
        |w, m| vec![error_response(503, "").header("retry-after", "0"), good_response(w, m)],
        ANSWERED_ON_SECOND_TRY,
    )
    .await;
}

#[tokio::test]
async fn f07_a_refused_key_is_not_tried_again_nor_shown() {
    let echo = format!(r#"{{"error":{{"message":"Incorrect API key: {TEST_API_KEY}"}}}}"#);
    for status in [401, 403] {
        check_outcome(
            "F07",
            |w, m| vec![error_response(status, &echo), good_response(w, m)],
            "unauthorized after 1",
        )
        .await;
    }
    check_outcome("F07 echoed elsewhere", |_, _| vec![error_response(400, &echo)], "rejected after 1").await;
}

#[tokio::test]
async fn f08_nobody_there_or_not_who_it_should_be() {
    let nobody = ScriptedServer::start_with_responses([]).await.expect("server").url();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for (url, why) in
        [(nobody.clone(), "no connection"), (nobody.replace("http:", "https:"), "no connection")]
    {
        let config = test_model_config("openai", "m", url);
        let model = open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open");
        let error = collect_reply(model.stream(greeting_request())).await.expect_err("nobody");
        assert_eq!(error.code(), "unreachable", "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    // A server that does not speak TLS is not believed to.
    let plain = ScriptedServer::start_with_responses([]).await.expect("server");
    let config = test_model_config("openai", "m", plain.url().replace("http:", "https:"));
    let model = open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open");
    let error = collect_reply(model.stream(greeting_request())).await.expect_err("no TLS");
    assert_eq!(error.code(), "unreachable", "{error}");
    assert!(plain.received_requests().iter().all(|heard| heard.header("authorization").is_none()));
}

/// A model that loses patience soon; for servers that are silent for good.
async fn outcome_with_short_timeouts(
    wire: ScriptedDialect,
    mode: AnswerDelivery,
    turns: Vec<ScriptedHttpResponse>,
) -> String {
    let server = ScriptedServer::start_with_responses(turns).await.expect("server");
    let soon = Duration::from_millis(1_500);
    let config = ModelConfig {
        timeouts: Some(ModelTimeouts { connect: soon, first_byte: soon, idle: soon }),
        streaming: mode.streaming_mode(),
        ..test_model_config(wire.provider(), model_name(wire), server.url())
    };
    let model = open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open");
    let once = ModelRetryPolicy { max_requests: 1, ..TEST_RETRIES };
    outcome_with_policy(model.as_ref(), &server, once).await
}

#[tokio::test]
async fn f09_and_f14_silence_has_an_end() {
    let mut silent = Vec::new();
    for wire in ScriptedDialect::ALL {
        for mode in ANSWER_DELIVERIES {
            let stalled =
                ScriptedHttpResponse { pieces: vec![ScriptedBodyPiece::Stall], ..good_response(wire, mode) };
            silent.push(outcome_with_short_timeouts(wire, mode, vec![stalled]));
        }
        let mut turn = good_response(wire, AnswerDelivery::Streamed).keep_first_pieces(2);
        turn.pieces.push(ScriptedBodyPiece::Stall);
        silent.push(outcome_with_short_timeouts(wire, AnswerDelivery::Streamed, vec![turn]));
    }
    for outcome in futures_util::future::join_all(silent).await {
        assert_eq!(outcome, "truncated after 1");
    }
}

/// A local model that reads a long question says so with comments until it has a first word.
#[tokio::test]
async fn f09_a_server_that_says_it_is_alive_is_waited_for_until_its_first_word() {
    let (idle, first_byte) = (Duration::from_secs(3), Duration::from_secs(60));
    let alive = async |wire: ScriptedDialect| {
        let mut turn = good_response(wire, AnswerDelivery::Streamed);
        let pause = ScriptedBodyPiece::Pause(idle + Duration::from_millis(1_500));
        turn.pieces.splice(0..0, [ScriptedBodyPiece::Bytes(b": ping\n\n".to_vec()), pause]);
        let server = ScriptedServer::start_with_responses([turn]).await.expect("server");
        let config = ModelConfig {
            timeouts: Some(ModelTimeouts { connect: first_byte, first_byte, idle }),
            ..test_model_config(wire.provider(), model_name(wire), server.url())
        };
        let model = open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open");
        outcome_text(model.as_ref(), &server).await
    };
    for outcome in futures_util::future::join_all(ScriptedDialect::ALL.map(alive)).await {
        assert_eq!(outcome, ANSWERED_AT_ONCE);
    }
}

#[tokio::test]
async fn f19_an_empty_answer_is_requested_again() {
    let empty =
        |wire: ScriptedDialect, mode: AnswerDelivery| mode.response(wire, &ScriptedVendorAnswer::text(""));
    check_outcome("F19 once", |w, m| vec![empty(w, m), good_response(w, m)], ANSWERED_ON_SECOND_TRY).await;
    check_outcome("F19 always", |w, m| vec![empty(w, m), empty(w, m), empty(w, m)], "empty after 3").await;
}

#[tokio::test]
async fn f20_a_login_page_is_not_an_answer() {
    let portal = || {
        ScriptedHttpResponse::json(200, "<html>Please log in</html>")
            .header("content-type", "text/html; charset=utf-8")
    };
    check_outcome("F20 portal", |_, _| vec![portal(), portal(), portal()], "unreachable after 3").await;
}

#[tokio::test]
async fn f20_nobody_is_followed_elsewhere_streamed_or_whole() {
    for wire in ScriptedDialect::ALL {
        for mode in ANSWER_DELIVERIES {
            let answer = ScriptedVendorAnswer::text("속았다");
            let elsewhere = ScriptedServer::start_with_responder(move |_| mode.response(wire, &answer))
                .await
                .expect("server");
            for status in [301, 302, 303, 307, 308] {
                let moved = ScriptedHttpResponse::json(status, "")
                    .header("location", format!("{}/v1", elsewhere.url()));
                let server = ScriptedServer::start_with_responses([moved]).await.expect("server");
                let error =
                    collect_reply(open_scripted_vendor(wire, mode, &server).stream(greeting_request()))
                        .await
                        .expect_err("moved");
                assert_eq!(error.code(), "rejected", "{wire:?} {mode:?} {status}");
            }
            assert_eq!(elsewhere.received_requests().len(), 0, "{wire:?} {mode:?}");
        }
    }
}

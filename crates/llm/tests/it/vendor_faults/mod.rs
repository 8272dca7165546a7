//! Everything a vendor can do wrong, and what comes of it: in every dialect, streamed and whole.
//!
//! Each row is a fault, the turns of the server, and the outcome: the words or the error's code, and how many requests
//! it took.

mod broken_bodies;
mod broken_streams;
mod odd_tool_calls;
mod server_failures;

use std::time::Instant;

use doran_llm::{
    ChatModel, DeltaStream, ModelRetryPolicy, ScriptedDialect, ScriptedHttpResponse, ScriptedServer,
    ScriptedVendorAnswer, collect_reply,
};
use futures_util::StreamExt;

use crate::{
    ANSWER_DELIVERIES, AnswerDelivery, TEST_API_KEY, TEST_RETRIES, greeting_request, open_scripted_vendor,
};

fn good_response(wire: ScriptedDialect, mode: AnswerDelivery) -> ScriptedHttpResponse {
    mode.response(wire, &ScriptedVendorAnswer::text("안녕하세요 반갑습니다"))
}

fn error_response(status: u16, body: &str) -> ScriptedHttpResponse {
    ScriptedHttpResponse::json(status, body)
}

/// The outcome of a request in words, sent again as often as the policy says.
async fn outcome_text(model: &dyn ChatModel, server: &ScriptedServer) -> String {
    outcome_with_policy(model, server, TEST_RETRIES).await
}

/// The first stream that begins with a delta, or whose error is final.
async fn stream_with_retries(model: &dyn ChatModel, policy: ModelRetryPolicy) -> DeltaStream {
    let (started, mut sent) = (Instant::now(), 0);
    loop {
        sent += 1;
        let mut deltas = Box::pin(model.stream(greeting_request()).peekable());
        let wait = match deltas.as_mut().peek().await {
            Some(Err(error)) => policy.wait_before_next(sent, started.elapsed(), error),
            _ => None,
        };
        match wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => return deltas,
        }
    }
}

async fn outcome_with_policy(
    model: &dyn ChatModel,
    server: &ScriptedServer,
    policy: ModelRetryPolicy,
) -> String {
    let outcome = match collect_reply(stream_with_retries(model, policy).await).await {
        Ok(reply) => format!("{:?} {:?}", reply.text, reply.finish),
        Err(error) => {
            let shown =
                format!("{error} {error:?} {:?}", std::error::Error::source(&error).map(ToString::to_string));
            assert!(!shown.contains(TEST_API_KEY) && !shown.contains("<html"), "told too much: {shown}");
            error.code().to_owned()
        }
    };
    format!("{outcome} after {}", server.received_requests().len())
}

async fn check_outcome(
    fault: &str,
    turns: impl Fn(ScriptedDialect, AnswerDelivery) -> Vec<ScriptedHttpResponse>,
    expected: &str,
) {
    for wire in ScriptedDialect::ALL {
        for mode in ANSWER_DELIVERIES {
            let server = ScriptedServer::start_with_responses(turns(wire, mode)).await.expect("server");
            let model = open_scripted_vendor(wire, mode, &server);
            assert_eq!(outcome_text(model.as_ref(), &server).await, expected, "{fault}: {wire:?} {mode:?}");
        }
    }
}

const ANSWERED_AT_ONCE: &str = "\"안녕하세요 반갑습니다\" Stop after 1";
const ANSWERED_ON_SECOND_TRY: &str = "\"안녕하세요 반갑습니다\" Stop after 2";

#[tokio::test]
async fn f00_no_fault() {
    check_outcome("F00", |wire, mode| vec![good_response(wire, mode)], ANSWERED_AT_ONCE).await;
}

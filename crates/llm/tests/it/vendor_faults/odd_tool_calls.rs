//! Tool calls and counts that no sane vendor would send.

use doran_llm::{
    ChatRequest, CheckedToolCall, FinishReason, ScriptedDialect, ScriptedHttpResponse, ScriptedServer,
    ScriptedVendorAnswer, TokenCountSource, ToolCall, ToolSpec, Usage, check_tool_calls, collect_reply,
    count_repeated_calls,
};
use serde_json::json;

use crate::{ANSWER_DELIVERIES, AnswerDelivery, greeting_request, open_scripted_vendor};

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments }
}

#[tokio::test]
async fn f18_odd_tool_calls_become_errors_that_the_model_can_mend() {
    let tool = ToolSpec {
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
        for wire in ScriptedDialect::ALL {
            for mode in ANSWER_DELIVERIES {
                let server = ScriptedServer::start_with_responses([
                    mode.response(wire, &ScriptedVendorAnswer::calls(calls.clone()))
                ])
                .await
                .expect("server");
                let request = ChatRequest { tools: vec![tool.clone()], ..greeting_request() };
                let reply = collect_reply(open_scripted_vendor(wire, mode, &server).stream(request))
                    .await
                    .expect("reply");
                let checked = check_tool_calls(std::slice::from_ref(&tool), &reply.tool_calls);
                let runs =
                    checked.iter().filter(|checked| matches!(checked, CheckedToolCall::Valid(_))).count();
                assert_eq!((runs, checked.len() - runs), (good, bad), "{fault}: {wire:?} {mode:?}");
                assert_eq!(reply.finish, FinishReason::ToolCalls, "{fault}: {wire:?} {mode:?}");
            }
        }
    }
}

#[tokio::test]
async fn f21_counts_that_cannot_be_true_are_our_own() {
    let none = ScriptedVendorAnswer { usage: None, ..ScriptedVendorAnswer::text("안녕하세요") };
    let absurd = Usage { input_tokens: 1 << 60, output_tokens: 1 << 60, ..Usage::default() };
    let absurd =
        ScriptedVendorAnswer { usage: Some(absurd), ..ScriptedVendorAnswer::text("안녕하세요") };
    let zero = ScriptedVendorAnswer {
        usage: Some(Usage::default()),
        ..ScriptedVendorAnswer::text("안녕하세요")
    };
    for said in [none, absurd, zero] {
        for wire in ScriptedDialect::ALL {
            for mode in ANSWER_DELIVERIES {
                let server =
                    ScriptedServer::start_with_responses([mode.response(wire, &said)]).await.expect("server");
                let reply =
                    collect_reply(open_scripted_vendor(wire, mode, &server).stream(greeting_request()))
                        .await
                        .expect("reply");
                assert_eq!(reply.usage.counted, TokenCountSource::Estimated, "{wire:?} {mode:?}");
                assert_eq!(reply.usage.output_tokens, 5, "{wire:?} {mode:?}: 15 bytes");
            }
        }
    }
    let negative = r#"{"choices":[{"index":0,"message":{"content":"안녕하세요"},"finish_reason":"stop"}],"usage":{"prompt_tokens":-7,"completion_tokens":-1}}"#;
    let server = ScriptedServer::start_with_responses([ScriptedHttpResponse::json(200, negative)])
        .await
        .expect("server");
    let reply = collect_reply(
        open_scripted_vendor(ScriptedDialect::Chat, AnswerDelivery::Unstreamed, &server)
            .stream(greeting_request()),
    )
    .await
    .expect("reply");
    assert_eq!((reply.usage.counted, reply.usage.output_tokens), (TokenCountSource::Estimated, 5));
}

#[tokio::test]
async fn f22_a_call_that_comes_again_is_counted_in_every_dialect() {
    let again = call("c1", "add", json!({"x": 1}));
    for wire in ScriptedDialect::ALL {
        for mode in ANSWER_DELIVERIES {
            let mut messages = greeting_request().messages;
            for round in 0..3 {
                let said = ScriptedVendorAnswer::calls([again.clone()]);
                let server =
                    ScriptedServer::start_with_responses([mode.response(wire, &said)]).await.expect("server");
                let request = ChatRequest::new(messages.clone());
                let reply = collect_reply(open_scripted_vendor(wire, mode, &server).stream(request))
                    .await
                    .expect("reply");
                let repeated = count_repeated_calls(&messages, &reply.tool_calls[0]);
                assert_eq!(repeated, round, "{wire:?} {mode:?}");
                messages.push(reply.into_message(format!("a{round}")));
            }
        }
    }
}

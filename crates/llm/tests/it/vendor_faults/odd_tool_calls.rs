//! Tool calls and counts that no sane vendor would send.

use std::collections::BTreeSet;

use doran_llm::{
    ChatRequest, FinishReason, ScriptedDialect, ScriptedHttpResponse, ScriptedServer, ScriptedVendorAnswer,
    TokenCountSource, ToolCall, ToolSpec, Usage, collect_reply,
};
use serde_json::json;

use crate::{ANSWER_DELIVERIES, AnswerDelivery, greeting_request, open_scripted_vendor};

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments }
}

#[tokio::test]
async fn f18_odd_tool_calls_reach_the_caller_who_can_refuse_them() {
    let tool = ToolSpec {
        name: "add".into(),
        description: "adds".into(),
        parameters: json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}),
    };
    let many = (0..50).map(|at| call(&format!("c{at}"), "add", json!({"x": at}))).collect::<Vec<_>>();
    let rows: Vec<(&str, Vec<ToolCall>)> = vec![
        ("good", vec![call("a", "add", json!({"x": 1}))]),
        ("not JSON", vec![call("a", "add", json!("{\"x\": "))]),
        ("wrong shape", vec![call("a", "add", json!({"x": "one"}))]),
        ("a megabyte", vec![call("a", "add", json!({"x": "y".repeat(1_000_000)}))]),
        ("unknown tool", vec![call("a", "rm", json!({}))]),
        ("the same id twice", vec![call("a", "add", json!({"x": 1})), call("a", "add", json!({"x": 2}))]),
        ("fifty at once", many),
    ];
    for (fault, calls) in rows {
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
                let names =
                    |calls: &[ToolCall]| calls.iter().map(|call| call.name.clone()).collect::<Vec<_>>();
                assert_eq!(names(&reply.tool_calls), names(&calls), "{fault}: {wire:?} {mode:?}");
                let ids: BTreeSet<&str> = reply.tool_calls.iter().map(|call| call.id.as_str()).collect();
                assert_eq!(ids.len(), calls.len(), "{fault}: {wire:?} {mode:?}: each call has its own id");
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
    for answer in [none, absurd, zero] {
        for wire in ScriptedDialect::ALL {
            for mode in ANSWER_DELIVERIES {
                let server = ScriptedServer::start_with_responses([mode.response(wire, &answer)])
                    .await
                    .expect("server");
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

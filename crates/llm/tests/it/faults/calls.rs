//! Tool calls and counts that no sane vendor would send.

use doran_llm::{
    ChatRequest, CheckedCall, Counted, Finish, Said, ScriptedServer, ToolCall, ToolSpec, Turn, Usage, Wire,
    check_calls, collect, repeats,
};
use serde_json::json;

use crate::{MODES, Mode, model, question};

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
        for wire in Wire::ALL {
            for mode in MODES {
                let server = ScriptedServer::playing([mode.turn(wire, &Said::calls(calls.clone()))])
                    .await
                    .expect("server");
                let request = ChatRequest { tools: vec![tool.clone()], ..question() };
                let reply = collect(model(wire, mode, &server).stream(request)).await.expect("reply");
                let checked = check_calls(std::slice::from_ref(&tool), &reply.tool_calls);
                let runs = checked.iter().filter(|checked| matches!(checked, CheckedCall::Good(_))).count();
                assert_eq!((runs, checked.len() - runs), (good, bad), "{fault}: {wire:?} {mode:?}");
                assert_eq!(reply.finish, Finish::ToolCalls, "{fault}: {wire:?} {mode:?}");
            }
        }
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
async fn f22_a_call_that_comes_again_is_counted_in_every_dialect() {
    let again = call("c1", "add", json!({"x": 1}));
    for wire in Wire::ALL {
        for mode in MODES {
            let mut messages = question().messages;
            for round in 0..3 {
                let said = Said::calls([again.clone()]);
                let server = ScriptedServer::playing([mode.turn(wire, &said)]).await.expect("server");
                let request = ChatRequest::new(messages.clone());
                let reply = collect(model(wire, mode, &server).stream(request)).await.expect("reply");
                let repeated = repeats(&messages, &reply.tool_calls[0]);
                assert_eq!(repeated, round, "{wire:?} {mode:?}");
                messages.push(reply.into_message(format!("a{round}")));
            }
        }
    }
}

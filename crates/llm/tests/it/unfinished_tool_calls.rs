//! Conversations that a stopped or failed run leaves behind: the vendor gets what it accepts, in every dialect.

use doran_llm::{
    ChatRequest, Message, MessagePart, Role, ScriptedDialect, ScriptedServer, ScriptedVendorAnswer,
    TextOrigin, ToolCall, ToolResult, ToolSpec, collect_reply,
};
use serde_json::{Value, json};

use crate::{ANSWER_DELIVERIES, model_name, open_scripted_vendor};

fn calling(id: &str, calls: &[&str]) -> Message {
    let call = |call: &&str| {
        MessagePart::ToolCall(ToolCall {
            id: (*call).into(),
            name: "add".into(),
            arguments: json!({ "x": 1 }),
        })
    };
    Message::new(id, Role::Assistant, calls.iter().map(call).collect())
}

fn output(calls: &[&str]) -> Message {
    let result = |call: &&str| ToolResult {
        call: (*call).into(),
        name: "add".into(),
        text: "2".into(),
        failed: false,
        origin: TextOrigin::Tool,
    };
    Message::tool_output(format!("t-{}", calls.join("-")), calls.iter().map(result))
}

fn conversations() -> Vec<(&'static str, Vec<Message>)> {
    let user = |id: &str| Message::user(id, "hello");
    let empty = Message::new("e", Role::Assistant, Vec::new());
    vec![
        ("a whole one", vec![user("u"), calling("a", &["c1"]), output(&["c1"]), user("v")]),
        ("stopped during the call", vec![user("u"), calling("a", &["c1"]), user("v")]),
        ("stopped at the end", vec![user("u"), calling("a", &["c1", "c2"])]),
        ("one result of two", vec![user("u"), calling("a", &["c1", "c2"]), output(&["c2"]), user("v")]),
        (
            "results in another order",
            vec![user("u"), calling("a", &["c1", "c2"]), output(&["c2", "c1"]), user("v")],
        ),
        (
            "a result that comes late",
            vec![user("u"), calling("a", &["c1"]), user("v"), output(&["c1"]), user("w")],
        ),
        ("a result without its call", vec![user("u"), output(&["c1"]), user("v")]),
        (
            "a result twice",
            vec![user("u"), calling("a", &["c1"]), output(&["c1"]), output(&["c1"]), user("v")],
        ),
        ("nothing said", vec![user("u"), empty, Message::assistant("b", " "), user("v")]),
        ("two calls in a row", vec![user("u"), calling("a", &["c1"]), calling("b", &["c2"]), user("v")]),
        ("two questions in a row", vec![user("u"), user("v")]),
    ]
}

#[tokio::test]
async fn every_vendor_accepts_what_a_stopped_run_leaves() {
    let add =
        ToolSpec { name: "add".into(), description: "adds".into(), parameters: json!({ "type": "object" }) };
    for wire in ScriptedDialect::ALL {
        for mode in ANSWER_DELIVERIES {
            let answer = ScriptedVendorAnswer::text("fine");
            let server = ScriptedServer::start_with_responder(move |_| mode.response(wire, &answer)).await;
            let server = server.expect("a server");
            let model = open_scripted_vendor(wire, mode, &server);
            for (what, messages) in conversations() {
                let request = ChatRequest { tools: vec![add.clone()], ..ChatRequest::new(messages) };
                let reply = collect_reply(model.stream(request)).await;
                assert!(reply.is_ok(), "{} {what}: {reply:?}", wire.provider());
            }
        }
    }
}

/// The path and the body that each vendor gets for a call without its result.
fn unrepaired_request(wire: ScriptedDialect) -> (String, Value) {
    let model = model_name(wire);
    match wire {
        ScriptedDialect::Chat => {
            let call =
                json!({ "id": "c", "type": "function", "function": { "name": "add", "arguments": "{}" } });
            let calling = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
            let user = json!({ "role": "user", "content": "hello" });
            ("/chat/completions".into(), json!({ "model": model, "messages": [user, calling, user] }))
        }
        ScriptedDialect::Responses => {
            let call = json!({ "type": "function_call", "call_id": "c", "name": "add", "arguments": "{}" });
            ("/responses".into(), json!({ "model": model, "input": [call] }))
        }
        ScriptedDialect::Messages => {
            let user = json!({ "role": "user", "content": [{ "type": "text", "text": "hello" }] });
            let call = json!({ "type": "tool_use", "id": "c", "name": "add", "input": {} });
            let calling = json!({ "role": "assistant", "content": [call] });
            ("/v1/messages".into(), json!({ "model": model, "messages": [user, calling, user] }))
        }
        ScriptedDialect::Gemini => {
            let user = json!({ "role": "user", "parts": [{ "text": "hello" }] });
            let calling =
                json!({ "role": "model", "parts": [{ "functionCall": { "name": "add", "args": {} } }] });
            let path = format!("/v1beta/models/{model}:generateContent");
            (path, json!({ "contents": [user, calling, user] }))
        }
    }
}

#[tokio::test]
async fn the_scripted_vendor_rejects_a_call_without_its_result() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    for wire in ScriptedDialect::ALL {
        let answer = ScriptedVendorAnswer::text("fine");
        let server = ScriptedServer::start_with_responder(move |_| wire.whole_response(&answer))
            .await
            .expect("a server");
        let (path, body) = unrepaired_request(wire);
        let host = server.url().replace("http://", "");
        let mut stream = tokio::net::TcpStream::connect(&host).await.expect("connected");
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 400"), "{}: {answer}", wire.provider());
    }
}

//! What lives outside the program while it is killed: a vendor of models and an MCP server, both in the test itself. They
//! count their requests, and can keep one request waiting until its sender is dead.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VendorCallKind {
    Model,
    Tool,
}

/// A reply of the vendor: words, a call of a tool, or words and a call.
pub enum MockVendorReply {
    Text(String),
    ToolCall(&'static str, Value),
    TextAndToolCall(&'static str, &'static str, Value),
}

impl MockVendorReply {
    pub fn json(value: &Value) -> Self {
        Self::Text(value.to_string())
    }
}

/// How the vendor answers: by the request, so that a repeated request gets the same answer.
pub type VendorReplyFn = fn(&Value) -> MockVendorReply;

/// The requests that were answered to their end, as they were worded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredVendorCalls {
    pub models: Vec<String>,
    pub tools: Vec<String>,
}

#[derive(Default)]
struct VendorCallLog {
    finished: AnsweredVendorCalls,
    /// How many of each kind came in, answered or not.
    received: [usize; 2],
    /// The places in traces that requests came with: the method of MCP or the path, and the header.
    traces: Vec<(String, String)>,
    /// Which one is never answered.
    held_call: Option<(VendorCallKind, usize)>,
}

/// The vendor and the MCP server, on one port.
pub struct MockVendorServer {
    pub address: String,
    call_log: Arc<Mutex<VendorCallLog>>,
    held_signal: Receiver<()>,
}

impl MockVendorServer {
    pub fn start(decide: VendorReplyFn) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let seen: Arc<Mutex<VendorCallLog>> = Arc::default();
        let (tell, held) = channel();
        let shared = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, tell) = (shared.clone(), tell.clone());
                std::thread::spawn(move || serve_connection(stream, decide, &seen, &tell));
            }
        });
        Self { address, call_log: seen, held_signal: held }
    }

    /// Forgets its requests, and lets the `nth` request of a kind from now on wait for ever.
    pub fn hold_call(&self, nth: Option<(VendorCallKind, usize)>) {
        *lock_call_log(&self.call_log) = VendorCallLog { held_call: nth, ..VendorCallLog::default() };
    }

    /// Waits until that request is there.
    pub fn wait_for_held_call(&self) {
        self.held_signal.recv_timeout(Duration::from_secs(60)).expect("the request comes");
    }

    /// The places in traces that requests came with: the method of MCP or the path, and the header.
    pub fn traces(&self) -> Vec<(String, String)> {
        lock_call_log(&self.call_log).traces.clone()
    }

    pub fn answered_calls(&self) -> AnsweredVendorCalls {
        lock_call_log(&self.call_log).finished.clone()
    }
}

fn lock_call_log(seen: &Mutex<VendorCallLog>) -> MutexGuard<'_, VendorCallLog> {
    seen.lock().expect("no thread of the far end panics")
}

/// Notes a request; whether it is the one that waits for ever.
fn count_call(seen: &Mutex<VendorCallLog>, kind: VendorCallKind) -> bool {
    let mut seen = lock_call_log(seen);
    seen.received[kind as usize] += 1;
    let held = seen.held_call == Some((kind, seen.received[kind as usize]));
    if held {
        // A second request is answered.
        seen.held_call = None;
    }
    held
}

fn serve_connection(
    mut stream: TcpStream,
    decide: VendorReplyFn,
    seen: &Mutex<VendorCallLog>,
    tell: &Sender<()>,
) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let Some((line, trace, body)) = read_request(&mut reader) else { return };
    let asked: Value = serde_json::from_str(&body).unwrap_or_default();
    let what = asked["method"].as_str().unwrap_or_else(|| line.split(' ').nth(1).unwrap_or_default());
    lock_call_log(seen).traces.extend(trace.map(|trace| (what.to_owned(), trace)));
    if line.starts_with("POST /node") {
        stream.write_all(json_response(&json!({ "score": 7 })).as_bytes()).ok();
        return;
    }
    let kind = match (line.as_str(), asked["method"].as_str()) {
        (line, _) if line.starts_with("POST /v1/chat/completions") => VendorCallKind::Model,
        (line, Some("tools/call")) if line.starts_with("POST /mcp") => VendorCallKind::Tool,
        (line, Some(_)) if line.starts_with("POST /mcp") => {
            stream.write_all(mcp_handshake_response(&asked).as_bytes()).ok();
            return;
        }
        _ => {
            stream
                .write_all(
                    b"HTTP/1.1 405 Method Not Allowed\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
                )
                .ok();
            return;
        }
    };
    let answer = match kind {
        VendorCallKind::Model => sse_response(&decide(&asked)),
        VendorCallKind::Tool => {
            json_rpc_response(&asked, &json!({ "content": [{ "type": "text", "text": "56088" }] }))
        }
    };
    if count_call(seen, kind) {
        // Half an answer is the worst that can come; then the line is quiet until the other side is gone.
        stream.write_all(&answer.as_bytes()[..answer.len() / 2]).ok();
        tell.send(()).ok();
        reader.read_exact(&mut [0]).ok();
        return;
    }
    // Counted before it is sent, so that nobody can have heard an answer that is not counted.
    let words = if kind == VendorCallKind::Model { body } else { asked["params"]["arguments"].to_string() };
    match kind {
        VendorCallKind::Model => lock_call_log(seen).finished.models.push(words),
        VendorCallKind::Tool => lock_call_log(seen).finished.tools.push(words),
    }
    stream.write_all(answer.as_bytes()).ok();
}

/// The first line of a request, its place in a trace and its body.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Option<String>, String)> {
    let (mut line, mut trace) = (String::new(), None);
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if let Some(value) = header.strip_prefix("traceparent:") {
            trace = Some(value.trim().to_owned());
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((line, trace, String::from_utf8(body).ok()?))
}

/// A reply as a stream of pieces, a few letters each.
fn sse_response(reply: &MockVendorReply) -> String {
    let spoken = |words: &str| -> Vec<Value> {
        let letters: Vec<char> = words.chars().collect();
        letters.chunks(4).map(|some| json!({ "content": some.iter().collect::<String>() })).collect()
    };
    let called = |name: &str, arguments: &Value| {
        let function = json!({ "name": name, "arguments": arguments.to_string() });
        json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function", "function": function }] })
    };
    let mut deltas = vec![json!({ "role": "assistant" })];
    let finish = match reply {
        MockVendorReply::Text(words) => {
            deltas.extend(spoken(words));
            "stop"
        }
        MockVendorReply::ToolCall(name, arguments) => {
            deltas.push(called(name, arguments));
            "tool_calls"
        }
        MockVendorReply::TextAndToolCall(words, name, arguments) => {
            deltas.extend(spoken(words));
            deltas.push(called(name, arguments));
            "tool_calls"
        }
    };
    let mut events = String::new();
    let mut event = |choices: Value, usage: Value| {
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices, "usage": usage });
        events.push_str(&format!("data: {chunk}\n\n"));
    };
    for delta in deltas {
        event(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), Value::Null);
    }
    event(json!([{ "index": 0, "delta": {}, "finish_reason": finish }]), Value::Null);
    event(json!([]), json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 }));
    events.push_str("data: [DONE]\n\n");
    format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{events}",
        events.len()
    )
}

/// What MCP says around its calls. None of it is counted: every start of a program asks for it anew.
fn mcp_handshake_response(asked: &Value) -> String {
    match asked["method"].as_str() {
        Some("initialize") => json_rpc_response(
            asked,
            &json!({
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "far", "version": "1" },
            }),
        ),
        Some("tools/list") => json_rpc_response(
            asked,
            &json!({ "tools": [{
                "name": "multiply",
                "description": "Multiplies two numbers.",
                "inputSchema": {
                    "type": "object",
                    "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
                    "required": ["a", "b"],
                },
                "annotations": { "readOnlyHint": true },
            }] }),
        ),
        Some("ping") => json_rpc_response(asked, &json!({})),
        _ => "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned(),
    }
}

fn json_rpc_response(asked: &Value, result: &Value) -> String {
    json_response(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))
}

fn json_response(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

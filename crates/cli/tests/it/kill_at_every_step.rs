//! The program killed at every step of a turn and while every call of it is under way. What models and tools were asked
//! is counted where no kill reaches: after the next start the same nodes have run, the answer is the same, and every call
//! that had been answered was made once, in the same words as in a run that nobody killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::mock_vendor::{
    AnsweredVendorCalls, MockVendorReply, MockVendorServer, VendorCallKind, VendorReplyFn,
};
use crate::program::{ServerProcess, fresh_directory};

/// A turn of an agent.
struct KillScenario {
    agent: &'static str,
    question: &'static str,
    answer: &'static str,
    /// How many nodes run, models and tools of the mock vendor are called.
    counts: (usize, usize, usize),
    decide: VendorReplyFn,
}

/// What a run looked like.
#[derive(Debug, PartialEq, Eq)]
struct ObservedRun {
    /// The nodes that ran, in order.
    nodes: Vec<String>,
    answer: String,
    calls: AnsweredVendorCalls,
}

impl KillScenario {
    fn write_settings(&self, here: &Path, far: &MockVendorServer) {
        let address = &far.address;
        let settings = format!(
            "model = \"openai-compatible:http://{address}/v1#m\"\n\
             [agents.contract]\nenable_cache = false\n\
             [mcp.far]\nurl = \"http://{address}/mcp\"\ntrust_hints = true\npolicy = \"allow\"\n"
        );
        std::fs::write(here.join("doran.toml"), settings).expect("settings");
    }

    /// Asks, and does not wait for the answer.
    fn send_question(&self, server: &ServerProcess, thread: &str) -> TcpStream {
        let body = json!({ "agent": self.agent, "message": self.question }).to_string();
        let mut socket = TcpStream::connect(&server.address).expect("connected");
        let head = format!(
            "POST /api/threads/{thread}/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
        );
        let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        socket.write_all(request.as_bytes()).expect("sent");
        socket
    }

    /// Waits for the end of the run of a thread and tells what it looked like.
    fn observe_run(&self, server: &ServerProcess, thread: &str, far: &MockVendorServer) -> ObservedRun {
        let runs = server.request(&format!("GET /api/threads/{thread}/runs"), "");
        let id = runs.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let id = id.unwrap_or_else(|| panic!("no run in {runs}"));
        let events = server.request(&format!("GET /api/threads/{thread}/runs/{id}/events?after=0"), "");
        assert!(events.contains("event: finished"), "{}: {events}", self.agent);
        let mut nodes = Vec::new();
        let frames = events.replace("\r\n", "\n");
        for frame in frames.split("\n\n").filter(|frame| frame.contains("event: step\n")) {
            let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
            let step: Value = serde_json::from_str(data).expect("JSON");
            let tasks = step["tasks"].as_array().unwrap_or_else(|| panic!("no tasks in {data}"));
            nodes.extend(tasks.iter().map(|task| task["node"].as_str().expect("a name").to_owned()));
        }
        let state = server.request(&format!("GET /api/threads/{thread}/messages"), "");
        let (_, state) = state.split_once("\r\n\r\n").expect("a body");
        let state: Value = serde_json::from_str(state).unwrap_or_else(|error| panic!("{error}: {state}"));
        let last = state["messages"].as_array().and_then(|messages| messages.last());
        let answer =
            last.and_then(|last| last["text"].as_str()).unwrap_or_else(|| panic!("no text: {state}"));
        ObservedRun { nodes, answer: answer.to_owned(), calls: far.answered_calls() }
    }

    fn check(&self) {
        let here = fresh_directory(&format!("counted-{}", self.agent));
        let far = MockVendorServer::start(self.decide);
        self.write_settings(&here, &far);
        let server = ServerProcess::start(&here, None);
        far.hold_call(None);
        let mut line = self.send_question(&server, "whole");
        // The first byte says that the question is on disk.
        line.read_exact(&mut [0]).expect("an answer");
        let whole = self.observe_run(&server, "whole", &far);
        let (nodes, models, tools) = self.counts;
        assert_eq!(whole.answer, self.answer, "{whole:?}");
        assert_eq!(
            (whole.nodes.len(), whole.calls.models.len(), whole.calls.tools.len()),
            (nodes, models, tools),
            "{whole:?}"
        );

        // Killed while a call is under way: half of its answer is here, and that call alone is made again.
        let mut server = server;
        let calls = (1..=models)
            .map(|nth| (VendorCallKind::Model, nth))
            .chain((1..=tools).map(|nth| (VendorCallKind::Tool, nth)));
        for (kind, nth) in calls {
            let thread = format!("{kind:?}{nth}");
            far.hold_call(Some((kind, nth)));
            let _line = self.send_question(&server, &thread);
            far.wait_for_held_call();
            server.child.kill().expect("killed");
            server.child.wait().expect("gone");
            server = ServerProcess::start(&here, None);
            assert_eq!(self.observe_run(&server, &thread, &far), whole, "{} killed in {thread}", self.agent);
        }
        drop(server);

        // Killed before every node, and after every step is written and before anybody hears of it: nothing is under way
        // then, and nothing is made again.
        for point in ["node.before_start", "commit.after_publish"] {
            for nth in 1..=nodes {
                let thread = format!("{point}{nth}");
                let mut server = ServerProcess::start(&here, Some(&format!("{point}:{nth}")));
                far.hold_call(None);
                let _line = self.send_question(&server, &thread);
                assert!(!server.child.wait().expect("it died").success());
                let server = ServerProcess::start(&here, None);
                assert_eq!(
                    self.observe_run(&server, &thread, &far),
                    whole,
                    "{} killed at {thread}",
                    self.agent
                );
            }
        }
    }
}

/// Whether the request wants JSON that has this field.
fn wants_json_field(request: &Value, field: &str) -> bool {
    request["response_format"].to_string().contains(&format!("\"{field}\""))
}

fn has_tool_results(request: &Value) -> bool {
    request["messages"].as_array().is_some_and(|messages| messages.iter().any(|one| one["role"] == "tool"))
}

/// Multiplies with the tool, then answers.
fn multiply_reply(request: &Value) -> MockVendorReply {
    match has_tool_results(request) {
        true => MockVendorReply::Text("123 × 456 = 56088입니다.".into()),
        false => MockVendorReply::ToolCall("far__multiply", json!({ "a": 123, "b": 456 })),
    }
}

#[test]
fn an_assistant_that_is_killed_anywhere_asks_nothing_twice() {
    let decide: VendorReplyFn = |request| match wants_json_field(request, "route") {
        true => MockVendorReply::json(&json!({ "route": "agent", "reason": "계산" })),
        false => multiply_reply(request),
    };
    let (ask, answer) = ("123 * 456 계산해줘", "123 × 456 = 56088입니다.");
    KillScenario { agent: "assistant", question: ask, answer, counts: (5, 3, 1), decide }.check();
}

#[test]
fn a_react_agent_that_is_killed_anywhere_asks_nothing_twice() {
    let (ask, answer) = ("123 * 456 계산해줘", "123 × 456 = 56088입니다.");
    KillScenario { agent: "react", question: ask, answer, counts: (7, 2, 1), decide: multiply_reply }.check();
}

#[test]
fn a_contract_agent_that_is_killed_anywhere_asks_nothing_twice() {
    let decide: VendorReplyFn = |request| match wants_json_field(request, "is_sufficient") {
        true => MockVendorReply::json(
            &json!({ "is_sufficient": true, "reasoning": "찾았다", "missing_info": null }),
        ),
        false if request["tools"].is_array() => MockVendorReply::Text("더 볼 것이 없습니다.".into()),
        false => MockVendorReply::Text("제5조의 내용입니다. [1]".into()),
    };
    let (ask, answer) = ("제5조 내용이 뭐야?", "제5조의 내용입니다. [1]");
    KillScenario { agent: "contract", question: ask, answer, counts: (6, 3, 0), decide }.check();
}

#[test]
fn a_docqa_agent_that_is_killed_anywhere_asks_nothing_twice() {
    let decide: VendorReplyFn =
        |request| match wants_json_field(request, "type") && request["response_format"].is_object() {
            true => MockVendorReply::json(&json!({ "reason": "x", "type": "question" })),
            false => MockVendorReply::Text("15일입니다. [1]".into()),
        };
    let (ask, answer) = ("연차휴가는 며칠인가요?", "15일입니다. [1]");
    KillScenario { agent: "docqa", question: ask, answer, counts: (3, 2, 0), decide }.check();
}

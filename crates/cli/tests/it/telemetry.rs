//! What OpenTelemetry gets about runs, as a collector with the official definitions reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::mock_vendor::{MockVendorReply, MockVendorServer, VendorCallKind, VendorReplyFn};
use crate::program::{ServerProcess, doran_command, fresh_directory, utf8};

const QUESTION: &str = "123 * 456 계산해줘";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A collector. Dropped, it is killed.
struct Collector {
    child: Child,
    port: u16,
    file: PathBuf,
}

impl Collector {
    /// `None`: skipped, in words.
    fn start(here: &Path) -> Option<Self> {
        let named = std::env::var_os("DORAN_TEST_CLIENTS_PYTHON").filter(|path| !path.is_empty());
        let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.parts/clients-venv/bin/python");
        let python = named.map(PathBuf::from).or_else(|| made.exists().then_some(made));
        let Some(python) = python else {
            assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "a collector is required");
            println!(
                "SKIPPED: no OTLP collector; run ./x test clients / OTLP 수집기가 없음, ./x test clients로 실행하세요"
            );
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/clients/otlp_receiver.py");
        let file = here.join("received.jsonl");
        let mut child = Command::new(python)
            .args([&script, &file])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the collector starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let port = line.trim().parse().unwrap_or_else(|_| panic!("no port: {line:?}"));
        Some(Self { child, port, file })
    }

    fn received(&self, signal: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines: Vec<Value> =
            whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        assert!(lines.iter().all(|line| line["signal"] != "error"), "{lines:?}");
        lines.into_iter().filter(|line| line["signal"] == signal).collect()
    }

    /// The spans, once that of the run is there.
    fn wait_for_trace(&self) -> Vec<Value> {
        let is_run = |span: &Value| name(span).starts_with("invoke_agent");
        until("the trace comes", || self.received("span").iter().any(is_run));
        self.received("span")
    }

    /// Starts Doran with variables of OpenTelemetry.
    fn start_doran(&self, here: &Path, variables: &str) -> ServerProcess {
        let (port, program) = (self.port, env!("CARGO_BIN_EXE_doran"));
        let line = format!(
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{port} OTEL_BSP_SCHEDULE_DELAY=100 {variables} exec {program} serve --port 0 --data-dir data"
        );
        ServerProcess::start_by_shell(here, &line)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it did not come about: {what}");
}

fn name(span: &Value) -> &str {
    span["name"].as_str().unwrap_or_default()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    &span["attributes"][key]
}

/// Multiplies with the tool, then answers.
const MULTIPLY: VendorReplyFn = |request| {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    match messages.iter().any(|one| one["role"] == "tool") {
        true => MockVendorReply::Text("56088입니다.".into()),
        false => MockVendorReply::ToolCall("far__multiply", json!({ "a": 123, "b": 456 })),
    }
};

fn model_name(vendor: &MockVendorServer) -> String {
    format!("openai-compatible:http://{}/v1#m", vendor.address)
}

fn write_settings(here: &Path, vendor: &MockVendorServer, policy: &str) {
    let (address, model) = (&vendor.address, model_name(vendor));
    let settings = format!(
        "model = \"{model}\"\n[prices.\"{model}\"]\ninput = 2.0\noutput = 10.0\n\
         [mcp.far]\nurl = \"http://{address}/mcp\"\ntrust_hints = true\npolicy = \"{policy}\"\n"
    );
    std::fs::write(here.join("doran.toml"), settings).expect("settings");
}

/// Starts a run and does not read its events.
fn start_run(server: &ServerProcess, agent: &str, traceparent: Option<&str>) -> TcpStream {
    let body = json!({ "agent": agent, "message": QUESTION }).to_string();
    let trace = traceparent.map(|value| format!("traceparent: {value}\r\n")).unwrap_or_default();
    let mut socket = TcpStream::connect(&server.address).expect("connected");
    let request = format!(
        "POST /api/threads/t/runs HTTP/1.1\r\nHost: localhost\r\n{trace}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).expect("sent");
    socket
}

/// The spans by their ids, all of one trace and none twice, and the one of the run.
fn check_tree(spans: &[Value]) -> (BTreeMap<String, Value>, Value) {
    let by_id: BTreeMap<String, Value> =
        spans.iter().map(|span| (span["span"].as_str().expect("an id").to_owned(), span.clone())).collect();
    assert_eq!(by_id.len(), spans.len(), "an id is there twice: {spans:?}");
    let traces: BTreeSet<&str> = spans.iter().map(|span| span["trace"].as_str().expect("an id")).collect();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let runs: Vec<&Value> = spans.iter().filter(|span| name(span).starts_with("invoke_agent")).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    for span in spans.iter().filter(|span| *span != runs[0]) {
        let parent = by_id.get(span["parent"].as_str().expect("an id"));
        let parent = parent.unwrap_or_else(|| panic!("no parent: {span}"));
        assert!(parent["start"].as_u64() <= span["start"].as_u64(), "{span} began before {parent}");
    }
    let run = runs[0].clone();
    (by_id, run)
}

fn named<'a>(spans: &'a [Value], start: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| name(span).starts_with(start)).collect()
}

#[test]
fn a_run_is_one_trace_of_nodes_models_and_tools_that_is_propagated() {
    let here = fresh_directory("telemetry-tree");
    let Some(collector) = Collector::start(&here) else { return };
    let vendor = MockVendorServer::start(MULTIPLY);
    write_settings(&here, &vendor, "allow");
    let server = collector.start_doran(
        &here,
        "OTEL_SERVICE_NAME=chat OTEL_EXPORTER_OTLP_HEADERS=api-key=s3cret OTEL_METRIC_EXPORT_INTERVAL=200 DORAN_LOG=warn,doran_server::telemetry=info",
    );
    let _events = start_run(&server, "react", Some(&format!("00-{TRACE}-{CALLER}-01")));
    let spans = collector.wait_for_trace();
    let (by_id, run) = check_tree(&spans);
    assert_eq!((&run["trace"], &run["parent"]), (&json!(TRACE), &json!(CALLER)));
    assert_eq!((name(&run), &run["kind"], &run["status"]), ("invoke_agent react", &json!(2), &json!(0)));
    assert_eq!(attribute(&run, "gen_ai.conversation.id"), "t");
    assert_eq!(attribute(&run, "doran.run.outcome"), "finished");
    assert_eq!(attribute(&run, "gen_ai.usage.input_tokens"), 20);
    // Each of two requests has 10 tokens for 2 dollars and 5 for 10 dollars a million.
    assert_eq!(attribute(&run, "doran.cost_usd"), 0.00014);
    assert_eq!(run["resource"]["service.name"], "chat");
    assert_eq!(run["api_key"], "s3cret");

    let nodes: Vec<&Value> = spans.iter().filter(|span| span["parent"] == run["span"]).collect();
    assert_eq!(nodes.len(), 7, "{nodes:?}");
    let (models, tools) = (named(&spans, "chat "), named(&spans, "execute_tool "));
    assert_eq!((models.len(), tools.len(), spans.len()), (2, 1, 11));
    for span in models.iter().chain(&tools) {
        let parent = &by_id[span["parent"].as_str().expect("an id")];
        assert_eq!(parent["parent"], run["span"], "{span} is below a node");
    }
    let finishes: Vec<&Value> =
        models.iter().map(|span| attribute(span, "gen_ai.response.finish_reasons")).collect();
    assert_eq!(finishes, [&json!(["tool_call"]), &json!(["stop"])]);
    for model in &models {
        assert_eq!(model["kind"], 3);
        assert_eq!(attribute(model, "gen_ai.operation.name"), "chat");
        assert_eq!(attribute(model, "gen_ai.usage.output_tokens"), 5);
        assert_eq!(attribute(model, "gen_ai.request.model"), &json!(model_name(&vendor)));
        assert_eq!(attribute(model, "doran.cost_usd"), 0.00007);
    }
    assert_eq!(attribute(tools[0], "gen_ai.tool.name"), "far__multiply");
    assert_eq!(attribute(tools[0], "gen_ai.tool.call.id"), "call_1");
    let text = Value::from(spans.clone()).to_string();
    assert!(!text.contains("계산해줘") && !text.contains("56088"), "{text}");
    assert!(!text.contains("gen_ai.tool.call.arguments"), "{text}");

    // The vendor and the MCP server got the span that called them.
    let traces = vendor.traces();
    let place = |span: &Value| format!("00-{TRACE}-{}-01", span["span"].as_str().expect("an id"));
    let asked = |what: &str| -> Vec<String> {
        traces.iter().filter(|(one, _)| one == what).map(|(_, trace)| trace.clone()).collect()
    };
    assert_eq!(asked("/v1/chat/completions"), [place(models[0]), place(models[1])]);
    assert_eq!(asked("tools/call"), [place(tools[0])]);

    let is_counted =
        |metric: &Value| name(metric) == "doran.runs" && attribute(metric, "doran.run.outcome") == "finished";
    until("the run is counted", || collector.received("metric").iter().any(is_counted));
    let metrics = collector.received("metric");
    let newest = |wanted: &str, key: &str, value: &str| {
        let found = metrics.iter().rev().find(|one| name(one) == wanted && attribute(one, key) == value);
        found.unwrap_or_else(|| panic!("no {wanted}: {metrics:?}"))["value"].as_f64()
    };
    assert_eq!(newest("doran.runs", "gen_ai.agent.name", "react"), Some(1.0));
    assert_eq!(newest("gen_ai.client.token.usage", "gen_ai.token.type", "input"), Some(20.0));
    assert!(newest("doran.tool.duration", "gen_ai.tool.name", "far__multiply").is_some());
    assert_eq!(newest("doran.cost", "gen_ai.agent.name", "react"), Some(0.00014));
    for metric in ["doran.store.write.duration", "doran.runs.active", "doran.run.duration"] {
        assert!(metrics.iter().any(|one| name(one) == metric), "{metric}");
    }
    let shown = server.request("GET /metrics", "");
    for line in [
        "doran_runs_total{agent=\"react\",outcome=\"finished\",error=\"\"} 1",
        "doran_run_queue_seconds_count{agent=\"react\"} 1",
        "doran_tool_call_seconds_count{agent=\"react\",tool=\"far__multiply\",error=\"\"} 1",
        &format!("doran_cost_usd_total{{agent=\"react\",model=\"{}\"}} 0.00014", model_name(&vendor)),
        "doran_node_seconds_count{agent=\"react\",node=\"llm\",error=\"\"} 2",
        "doran_run_seconds_count{agent=\"react\",outcome=\"finished\"} 1",
    ] {
        assert!(shown.lines().any(|one| one == line), "{line}\n{shown}");
    }
    assert!(shown.contains("doran_model_tokens_sum{agent=\"react\",") && shown.contains("} 20"), "{shown}");
    let log = server.stop().1;
    let line = log.lines().find(|line| line.contains("run ended")).unwrap_or_else(|| panic!("{log}"));
    for field in ["react", "finished", "input_tokens", "20", "0.00014", TRACE] {
        assert!(line.contains(field), "{field}: {line}");
    }
}

/// The JSON of an answer.
fn json_body(answer: &str) -> Value {
    let (start, end) = (answer.find('{').expect("JSON"), answer.rfind('}').expect("JSON"));
    serde_json::from_str(&answer[start..=end]).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn a_run_that_waits_and_one_that_fails_say_so() {
    let here = fresh_directory("telemetry-ends");
    let Some(collector) = Collector::start(&here) else { return };
    let vendor = MockVendorServer::start(MULTIPLY);
    write_settings(&here, &vendor, "ask");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let agents = here.join("data/agents");
    std::fs::create_dir_all(&agents).expect("a directory");
    let file = format!(
        "name = \"broken\"\nen = \"fails\"\nko = \"실패\"\nstart = \"call\"\n\
         [[node]]\nname = \"call\"\nuse = \"http\"\nthen = \"end\"\n\
         http = {{ url = \"http://{free}/\", private = true, retries = 0 }}\n"
    );
    std::fs::write(agents.join("broken.toml"), file).expect("written");
    let server = collector.start_doran(&here, "DORAN_LOG=warn,doran_server::telemetry=info");

    let _events = start_run(&server, "react", None);
    let open = || json_body(&server.request("GET /api/approvals", ""))["questions"][0].clone();
    until("the run waits", || !open().is_null());
    let asked = open();
    let (id, run) = (asked["id"].as_str().expect("an id"), asked["run"].as_str().expect("a run"));
    let answers = json!({ "answers": { id: { "approve": true } } }).to_string();
    let resumed = server.request(&format!("POST /api/threads/t/runs/{run}/resume"), &answers);
    assert!(resumed.starts_with("HTTP/1.1 2"), "{resumed}");
    let spans = collector.wait_for_trace();
    let (_, run) = check_tree(&spans);
    assert_eq!((&run["events"], &run["status"]), (&json!(["paused", "resumed"]), &json!(0)));
    assert_eq!(named(&spans, "chat ").len(), 2, "what was told at the pause is not told again: {spans:?}");

    let body = json!({ "agent": "broken", "message": "?" }).to_string();
    server.request("POST /api/threads/u/runs?wait=true", &body);
    let is_run = |span: &Value| name(span) == "invoke_agent broken";
    until("the other trace comes", || collector.received("span").iter().any(is_run));
    let spans = collector.received("span");
    let run = spans.iter().find(|span| is_run(span)).expect("a run");
    let failed: Vec<&Value> = spans.iter().filter(|span| span["trace"] == run["trace"]).collect();
    let errors: BTreeMap<&str, &Value> =
        failed.iter().map(|span| (name(span), attribute(span, "error.type"))).collect();
    let code = attribute(run, "error.type").clone();
    assert!(code.is_string() && failed.iter().all(|span| span["status"] == 2), "{failed:?}");
    assert_eq!(attribute(run, "doran.run.outcome"), "failed");
    let expected = [("call", &code), ("http call", &json!("_OTHER")), ("invoke_agent broken", &code)];
    assert_eq!(errors, BTreeMap::from(expected));

    let shown = server.request("GET /metrics", "");
    let code = code.as_str().unwrap_or_default();
    for line in [
        "doran_run_pauses_total{agent=\"react\"} 1",
        &format!("doran_runs_total{{agent=\"broken\",outcome=\"failed\",error=\"{code}\"}} 1"),
        &format!("doran_node_seconds_count{{agent=\"broken\",node=\"call\",error=\"{code}\"}} 1"),
        "doran_http_node_seconds_count{agent=\"broken\",node=\"call\",error=\"_OTHER\"} 1",
    ] {
        assert!(shown.lines().any(|one| one == line), "{line}\n{shown}");
    }
    let log = server.stop().1;
    let ended: Vec<&str> = log.lines().filter(|line| line.contains("run ended")).collect();
    assert!(ended.len() == 2 && ended[1].contains("failed") && ended[1].contains(code), "{log}");
}

#[test]
fn a_run_that_is_killed_in_the_middle_is_one_trace() {
    let here = fresh_directory("telemetry-kill");
    let Some(collector) = Collector::start(&here) else { return };
    let vendor = MockVendorServer::start(MULTIPLY);
    write_settings(&here, &vendor, "allow");
    let mut server = collector.start_doran(&here, "");
    vendor.hold_call(Some((VendorCallKind::Model, 2)));
    let _events = start_run(&server, "react", None);
    vendor.wait_for_held_call();
    server.child.kill().expect("killed");
    server.child.wait().expect("gone");
    let _server = collector.start_doran(&here, "");
    let spans = collector.wait_for_trace();
    let (_, run) = check_tree(&spans);
    assert_eq!((&run["parent"], &run["events"]), (&json!(""), &json!(["restarted"])));
    assert_eq!(named(&spans, "chat ").len(), 2, "{spans:?}");
    assert_eq!(named(&spans, "execute_tool ").len(), 1, "{spans:?}");
    // The vendor got the same trace from both processes.
    let trace = run["trace"].as_str().expect("an id");
    let traces = vendor.traces();
    assert_eq!(traces.iter().filter(|(what, _)| what == "/v1/chat/completions").count(), 3, "{traces:?}");
    assert!(traces.iter().all(|(_, place)| place.contains(trace)), "{traces:?}");
}

#[test]
fn message_content_is_sent_only_when_requested_and_json_says_the_same() {
    let here = fresh_directory("telemetry-json");
    let Some(collector) = Collector::start(&here) else { return };
    let vendor = MockVendorServer::start(MULTIPLY);
    write_settings(&here, &vendor, "allow");
    let server = collector.start_doran(
        &here,
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/json OTEL_EXPORTER_OTLP_COMPRESSION=gzip OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
    );
    let _events = start_run(&server, "react", None);
    let spans = collector.wait_for_trace();
    let (_, run) = check_tree(&spans);
    assert_eq!((spans.len(), &run["content_type"]), (11, &json!("application/json")));
    assert!(attribute(&run, "doran.input").as_str().is_some_and(|words| words.contains(QUESTION)), "{run}");
    let tool = named(&spans, "execute_tool ")[0];
    assert_eq!(attribute(tool, "gen_ai.tool.call.arguments"), r#"{"a":123,"b":456}"#);
    assert_eq!(attribute(tool, "gen_ai.tool.call.result"), "56088");
}

#[test]
fn a_program_behind_an_http_node_gets_the_trace_and_what_is_not_sampled_is_not_sent() {
    let here = fresh_directory("telemetry-node");
    let Some(collector) = Collector::start(&here) else { return };
    let vendor = MockVendorServer::start(MULTIPLY);
    let agents = here.join("data/agents");
    std::fs::create_dir_all(&agents).expect("a directory");
    let file = format!(
        "name = \"scored\"\nen = \"scores\"\nko = \"점수\"\nstart = \"score\"\n\
         [[node]]\nname = \"score\"\nuse = \"http\"\nthen = \"answer\"\n\
         http = {{ url = \"http://{}/node\", private = true }}\n\
         [[node]]\nname = \"answer\"\nuse = \"respond\"\ntext = \"{{{{ values.score.score }}}}\"\nthen = \"end\"\n",
        vendor.address
    );
    std::fs::write(agents.join("scored.toml"), file).expect("written");
    let server = collector.start_doran(&here, "");
    let caller = format!("00-{TRACE}-{CALLER}-00");
    let mut events = start_run(&server, "scored", Some(&caller));
    let mut seen = Vec::new();
    until("the run ends", || {
        let mut piece = [0; 4096];
        let read = events.read(&mut piece).expect("read");
        seen.extend_from_slice(&piece[..read]);
        String::from_utf8_lossy(&seen).contains("event: finished")
    });
    let _events = start_run(&server, "scored", None);
    let spans = collector.wait_for_trace();
    let (_, run) = check_tree(&spans);
    assert_ne!(run["trace"], TRACE, "the first caller does not record");
    let call = named(&spans, "http score")[0];
    let lines: Vec<String> = vendor.traces().into_iter().map(|(_, trace)| trace).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with(&format!("00-{TRACE}-")) && lines[0].ends_with("-00"), "{lines:?}");
    let place =
        format!("00-{}-{}-01", run["trace"].as_str().expect("an id"), call["span"].as_str().expect("an id"));
    assert_eq!(lines[1], place);
}

#[test]
fn a_host_of_mcp_has_its_call_and_the_run_in_one_trace() {
    let here = fresh_directory("telemetry-mcp");
    let Some(collector) = Collector::start(&here) else { return };
    let server = collector.start_doran(&here, "");
    let post = |session: &str, body: &Value| {
        let body = body.to_string();
        let mut socket = TcpStream::connect(&server.address).expect("connected");
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(format!("{head}{body}").as_bytes()).expect("sent");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).ok();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let capabilities = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let hello =
        post("", &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": capabilities }));
    let session = hello.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session");
    let session = format!("Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: 2025-06-18\r\n");
    post(&session, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let call = json!({ "name": "ask", "arguments": { "agent": "docqa", "message": "휴가는 며칠인가요?" },
        "_meta": { "traceparent": format!("00-{TRACE}-{CALLER}-01") } });
    post(&session, &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }));
    let spans = collector.wait_for_trace();
    let (by_id, run) = check_tree(&spans);
    assert_eq!((&run["trace"], &run["parent"]), (&json!(TRACE), &json!(CALLER)));
    // The search of the agent is in the trace, below its node, and in the metrics.
    let [search] = named(&spans, "retrieval ")[..] else { panic!("{spans:?}") };
    assert_eq!(attribute(search, "gen_ai.operation.name"), "retrieval");
    assert_eq!(by_id[search["parent"].as_str().expect("an id")]["parent"], run["span"]);
    let shown = server.request("GET /metrics", "");
    let line = "doran_search_seconds_count{agent=\"docqa\",error=\"\"} 1";
    assert!(shown.lines().any(|one| one == line), "{shown}");
}

#[test]
fn a_collector_that_is_gone_stops_nothing_and_what_is_not_supported_is_reported() {
    let here = fresh_directory("telemetry-gone");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let line = format!(
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://{free} OTEL_BSP_SCHEDULE_DELAY=50 exec {} serve --port 0 --data-dir data",
        env!("CARGO_BIN_EXE_doran")
    );
    let server = ServerProcess::start_by_shell(&here, &line);
    let mut socket = start_run(&server, "docqa", None);
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    until("the run ends", || {
        let read = socket.read(&mut piece).expect("read");
        seen.extend_from_slice(&piece[..read]);
        String::from_utf8_lossy(&seen).contains("event: finished")
    });
    until("spans are dropped", || {
        server.request("GET /metrics", "").contains("\ndoran_telemetry_dropped_spans_total ")
    });
    assert!(server.stop().0.success());
    let asked = doran_command(&here, &["--lang", "en", "--data-dir", "data", "ask", "휴가는 며칠인가요?"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .stdin(Stdio::null())
        .output()
        .expect("the program ends");
    let text = utf8(&asked.stderr);
    assert!(asked.status.success(), "{text}");
    assert!(text.contains("`grpc`") && text.contains("http/protobuf, http/json"), "{text}");
}

//! The MCP client against real servers, made with the official SDK.
//!
//! `./x test` installs the SDK with `xtask/python.sh`. Without it the tests say `SKIPPED`, or
//! fail when `DORAN_REQUIRE_PARTS=1`.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use doran_agents::tools::mcp::{
    self, McpDiscovery, McpImages, McpLimits, McpServer, McpTransport, McpTrust, ToolPins,
};
use doran_agents::tools::{
    Tool, ToolCallContext, ToolError, ToolOutput, ToolPolicy, ToolSecret, ToolSideEffect, Toolbox,
};
use doran_retrieval::Language;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// The interpreter that has the SDK. `None`: skipped, in words.
fn mcp_python() -> Option<PathBuf> {
    let named = std::env::var_os("DORAN_TEST_MCP_PYTHON").filter(|path| !path.is_empty()).map(PathBuf::from);
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.parts/mcp-venv/bin/python");
    let found = named.or_else(|| made.exists().then_some(made));
    if found.is_none() {
        assert!(
            std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"),
            "the MCP SDK is required and is not there"
        );
        eprintln!("SKIPPED: no MCP SDK; run ./x test mcp / MCP SDK가 없음, ./x test mcp로 실행하세요");
    }
    found
}

fn server_script() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py").display().to_string()
}

fn test_bounds() -> McpLimits {
    // Starting Python with the SDK takes seconds on a busy machine.
    McpLimits { start: Duration::from_secs(120), call: Duration::from_secs(60), ..McpLimits::default() }
}

fn stdio_server(python: &Path, environment: &[(&str, &str)]) -> McpServer {
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_string(), ToolSecret::new(*value))).collect();
    McpServer {
        name: "test".to_string(),
        reach: McpTransport::Stdio {
            command: python.display().to_string(),
            arguments: vec![server_script(), "stdio".to_string()],
            inherited: BTreeMap::new(),
            environment,
        },
        trust: McpTrust::None,
        images: McpImages::Describe,
        bounds: test_bounds(),
    }
}

fn call_context() -> ToolCallContext<'static> {
    ToolCallContext {
        tenant: "t",
        thread: "th",
        key: "k",
        language: Language::English,
        session: None,
        now_ms: 0,
        taint: doran_agents::tools::Taint::default(),
    }
}

fn find_tool(found: &McpDiscovery, name: &str) -> Arc<dyn Tool> {
    let tool = found.tools.iter().find(|tool| tool.info().spec.name == name);
    tool.unwrap_or_else(|| panic!("no `{name}`; problems: {:?}", found.problems)).clone()
}

async fn call_tool(found: &McpDiscovery, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
    find_tool(found, name).call(arguments, call_context()).await
}

async fn call_tool_text(found: &McpDiscovery, name: &str, arguments: Value) -> String {
    match call_tool(found, name, arguments).await {
        Ok(output) => output.text,
        Err(error) => format!("error: {error}"),
    }
}

/// A server on a port, as somebody else runs it. It ends with the test.
async fn start_http_server(python: &Path, more: &[&str]) -> (Child, String) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    start_http_server_on(port, python, more).await
}

async fn start_http_server_on(port: u16, python: &Path, more: &[&str]) -> (Child, String) {
    let child = Command::new(python)
        .arg(server_script())
        .args(["http", &port.to_string()])
        .args(more)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("start");
    for _ in 0..1200 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return (child, format!("http://127.0.0.1:{port}/mcp"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the server did not start within two minutes");
}

fn http_server(url: &str, headers: &[(&str, &str)]) -> McpServer {
    let headers =
        headers.iter().map(|(name, value)| ((*name).to_string(), ToolSecret::new(*value))).collect();
    McpServer {
        name: "test".to_string(),
        reach: McpTransport::Http { url: url.to_string(), headers },
        trust: McpTrust::None,
        images: McpImages::Describe,
        bounds: test_bounds(),
    }
}

#[tokio::test]
async fn tools_of_a_program_work_and_its_end_is_an_error_of_the_call() {
    let Some(python) = mcp_python() else { return };
    let found =
        mcp::connect_servers(vec![stdio_server(&python, &[("LANG", "C.UTF-8")])], &ToolPins::default()).await;
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    assert_eq!(call_tool_text(&found, "test__add", json!({ "a": 2, "b": 40 })).await, "42");
    assert_eq!(call_tool_text(&found, "test__greet", json!({ "name": "도란" })).await, "안녕하세요, 도란님");
    let about = find_tool(&found, "test__add").info().clone();
    assert_eq!(
        (about.side_effect, about.outward),
        (ToolSideEffect::Once, true),
        "what the server says about itself does not count"
    );
    assert!(about.spec.description.ends_with("Adds two numbers."), "{}", about.spec.description);

    // An error of the tool is told as the server tells it.
    let error = call_tool(&found, "test__fail", json!({})).await.expect_err("it fails");
    assert!(matches!(&error, ToolError::Failed(words) if words.contains("on purpose")), "{error:?}");
    // A link to a file is not followed.
    let link = call_tool_text(&found, "test__link", json!({})).await;
    assert!(link.contains("refused") && !link.contains("root:"), "{link}");

    // The server ends in the middle of a call, and is there again for the next.
    let error = call_tool(&found, "test__die", json!({})).await.expect_err("it dies");
    assert!(
        matches!(&error, ToolError::OutcomeUnknown(words) if words.contains("ended during the call")),
        "{error:?}"
    );
    assert_eq!(call_tool_text(&found, "test__add", json!({ "a": 1, "b": 1 })).await, "2");
}

#[tokio::test]
async fn a_server_gets_no_environment_but_what_is_listed() {
    let Some(python) = mcp_python() else { return };
    let found =
        mcp::connect_servers(vec![stdio_server(&python, &[("CANARY", "sings")])], &ToolPins::default()).await;
    let environment = call_tool_text(&found, "test__environment", json!({})).await;
    let names: Vec<&str> = environment.lines().filter_map(|line| line.split('=').next()).collect();
    // The interpreter sets `LC_CTYPE` for itself when no language is set.
    let unexpected: Vec<&str> =
        names.iter().copied().filter(|name| !matches!(*name, "CANARY" | "LC_CTYPE")).collect();
    assert_eq!(unexpected, Vec::<&str>::new());
    assert!(environment.contains("CANARY=sings"));
}

#[tokio::test]
async fn a_tool_that_changes_is_refused_until_it_is_approved_again() {
    let Some(python) = mcp_python() else { return };
    let first = mcp::connect_servers(vec![stdio_server(&python, &[])], &ToolPins::default()).await;
    // It changes while it runs, and says so.
    assert_eq!(call_tool_text(&first, "test__change", json!({})).await, "changed");
    let error = call_tool(&first, "test__greet", json!({ "name": "a" })).await.expect_err("refused");
    assert!(matches!(error, ToolError::Denied(_)), "{error:?}");
    assert_eq!(
        call_tool_text(&first, "test__add", json!({ "a": 1, "b": 2 })).await,
        "3",
        "the others are as they were"
    );
    // It is another one at the next start.
    let second =
        mcp::connect_servers(vec![stdio_server(&python, &[("MCP_TEST_MOOD", "rude")])], &first.pins).await;
    assert!(
        second.problems.iter().any(|problem| problem.en.contains("`test__add` has changed")),
        "{:?}",
        second.problems
    );
    let error = call_tool(&second, "test__add", json!({ "a": 1, "b": 2 })).await.expect_err("refused");
    assert!(matches!(error, ToolError::Denied(_)), "{error:?}");
    assert_eq!(second.pins, first.pins, "a change is not remembered by itself");
    // A person forgets the old pin, and with that approves what is there.
    let mut pins = second.pins.clone();
    assert!(pins.forget("test__add"));
    let third = mcp::connect_servers(vec![stdio_server(&python, &[("MCP_TEST_MOOD", "rude")])], &pins).await;
    assert_eq!(call_tool_text(&third, "test__add", json!({ "a": 1, "b": 2 })).await, "3");
}

#[tokio::test]
async fn a_server_that_floods_or_hangs_is_cut_off() {
    let Some(python) = mcp_python() else { return };
    let mut server = stdio_server(&python, &[]);
    server.bounds.message = 1 << 20;
    let found = mcp::connect_servers(vec![server.clone()], &ToolPins::default()).await;
    let some = call_tool_text(&found, "test__flood", json!({ "bytes": 100_000 })).await;
    assert_eq!(some.len(), found.tools[0].info().max_output_bytes, "cut to what goes on to a model");
    let error =
        call_tool(&found, "test__flood", json!({ "bytes": 100_000_000 })).await.expect_err("too much");
    assert!(matches!(error, ToolError::OutcomeUnknown(_)), "{error:?}");

    server.bounds.call = Duration::from_secs(2);
    let found = mcp::connect_servers(vec![server], &ToolPins::default()).await;
    let note = tempfile::tempdir().expect("a directory");
    let note = note.path().join("note");
    let arguments = json!({ "note": note.display().to_string() });
    let error = call_tool(&found, "test__hang", arguments).await.expect_err("too long");
    assert!(matches!(error, ToolError::OutcomeUnknown(_)), "{error:?}");
    wait_for_note(&note, "cancelled").await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_server() {
    let Some(python) = mcp_python() else { return };
    let found = mcp::connect_servers(vec![stdio_server(&python, &[])], &ToolPins::default()).await;
    let note = tempfile::tempdir().expect("a directory");
    let note = note.path().join("note");
    let hang = find_tool(&found, "test__hang");
    let arguments = json!({ "note": note.display().to_string() });
    tokio::select! {
        answer = hang.call(arguments, call_context()) => panic!("it hangs, and answered {answer:?}"),
        () = wait_for_note(&note, "begun") => {}
    }
    wait_for_note(&note, "cancelled").await;
}

async fn wait_for_note(note: &Path, wanted: &str) {
    for _ in 0..2400 {
        if std::fs::read_to_string(note).is_ok_and(|words| words == wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server was not told within two minutes");
}

#[tokio::test]
async fn tools_work_over_http_with_events_and_with_json() {
    let Some(python) = mcp_python() else { return };
    for more in [&[][..], &["json"][..]] {
        let (_server, url) = start_http_server(&python, more).await;
        let mut server = http_server(&url, &[("Authorization", "Bearer only-for-you")]);
        server.bounds.message = 1 << 20;
        server.bounds.call = Duration::from_secs(30);
        let found = mcp::connect_servers(vec![server], &ToolPins::default()).await;
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        assert_eq!(call_tool_text(&found, "test__add", json!({ "a": 2, "b": 40 })).await, "42");
        assert_eq!(
            call_tool_text(&found, "test__greet", json!({ "name": "도란" })).await,
            "안녕하세요, 도란님"
        );
        let headers = call_tool_text(&found, "test__headers", json!({})).await;
        assert!(headers.contains("authorization: Bearer only-for-you"), "{headers}");
        let error =
            call_tool(&found, "test__flood", json!({ "bytes": 100_000_000 })).await.expect_err("too much");
        assert!(
            matches!(error, ToolError::Failed(_) | ToolError::Unavailable(_) | ToolError::OutcomeUnknown(_)),
            "{error:?}"
        );
        assert_eq!(
            call_tool_text(&found, "test__add", json!({ "a": 1, "b": 1 })).await,
            "2",
            "it is still there"
        );
    }
}

#[tokio::test]
async fn a_server_over_http_may_go_away_and_come_back() {
    let Some(python) = mcp_python() else { return };
    let (mut server, url) = start_http_server(&python, &[]).await;
    let found = mcp::connect_servers(vec![http_server(&url, &[])], &ToolPins::default()).await;
    assert_eq!(call_tool_text(&found, "test__add", json!({ "a": 1, "b": 1 })).await, "2");
    server.kill().await.expect("kill");
    let error = call_tool(&found, "test__add", json!({ "a": 1, "b": 1 })).await.expect_err("it is gone");
    assert!(!matches!(error, ToolError::BadArguments(_) | ToolError::Denied(_)), "{error:?}");
    let port = url.split(['/', ':']).nth(4).and_then(|port| port.parse().ok()).expect("a port");
    let (_again, _) = start_http_server_on(port, &python, &[]).await;
    let mut errors = Vec::new();
    for _ in 0..60 {
        match call_tool(&found, "test__add", json!({ "a": 1, "b": 1 })).await {
            Ok(output) => return assert_eq!(output.text, "2"),
            Err(error) => errors.push(error.to_string()),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("it was not reached again: {errors:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_problem_and_no_more() {
    let nowhere = McpServer {
        name: "nowhere".to_string(),
        reach: McpTransport::Stdio {
            command: "/nowhere/at/all".to_string(),
            arguments: vec![],
            inherited: BTreeMap::new(),
            environment: BTreeMap::new(),
        },
        trust: McpTrust::None,
        images: McpImages::Describe,
        bounds: McpLimits::default(),
    };
    let closed = http_server("http://127.0.0.1:9/mcp", &[]);
    let misnamed = McpServer { name: "a__b".to_string(), ..nowhere.clone() };
    let found = mcp::connect_servers(vec![nowhere, closed, misnamed], &ToolPins::default()).await;
    assert!(found.tools.is_empty());
    assert_eq!(found.problems.len(), 3, "{:?}", found.problems);
    for (problem, (en, ko)) in found.problems.iter().zip([
        ("the MCP server `nowhere` cannot be started", "MCP 서버 `nowhere`을(를) 시작할 수 없습니다"),
        ("the MCP server `test` cannot be started", "MCP 서버 `test`을(를) 시작할 수 없습니다"),
        ("`a__b`: the name of an MCP server", "`a__b`: MCP 서버의 이름"),
    ]) {
        assert!(problem.en.starts_with(en) && problem.ko.starts_with(ko), "{problem:?}");
    }
}

#[tokio::test]
async fn a_program_that_speaks_something_else_is_given_up() {
    let mut server = McpServer {
        name: "cat".to_string(),
        reach: McpTransport::Stdio {
            command: "/bin/cat".to_string(),
            arguments: vec![],
            inherited: BTreeMap::new(),
            environment: BTreeMap::new(),
        },
        trust: McpTrust::None,
        images: McpImages::Describe,
        bounds: McpLimits { start: Duration::from_secs(2), ..McpLimits::default() },
    };
    let found = mcp::connect_servers(vec![server.clone()], &ToolPins::default()).await;
    assert_eq!((found.tools.len(), found.problems.len()), (0, 1));
    server.reach = McpTransport::Stdio {
        command: "/bin/sh".to_string(),
        arguments: vec![
            "-c".to_string(),
            "while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done".to_string(),
        ],
        inherited: BTreeMap::new(),
        environment: BTreeMap::new(),
    };
    let found = mcp::connect_servers(vec![server], &ToolPins::default()).await;
    assert_eq!((found.tools.len(), found.problems.len()), (0, 1));
}

#[tokio::test]
async fn resources_prompts_and_images_reach_the_model() {
    let Some(python) = mcp_python() else { return };
    let mut server = stdio_server(&python, &[("LANG", "C.UTF-8")]);
    server.images = McpImages::Pass;
    let found = mcp::connect_servers(vec![server], &ToolPins::default()).await;
    assert!(found.problems.is_empty(), "{:?}", found.problems);

    let listed = call_tool_text(&found, "test__resources", json!({})).await;
    assert!(
        listed.contains("memo://today") && listed.contains("memo://{day}/notes: notes: The notes of a day."),
        "{listed}"
    );
    assert_eq!(
        call_tool_text(&found, "test__resources", json!({ "uri": "memo://today" })).await,
        "우유 사기"
    );
    assert_eq!(
        call_tool_text(&found, "test__resources", json!({ "uri": "memo://monday/notes" })).await,
        "notes of monday"
    );
    let error = call_tool(&found, "test__resources", json!({ "uri": "file:///etc/passwd" })).await;
    assert!(matches!(error, Err(ToolError::Failed(_))), "{error:?}");

    let listed = call_tool_text(&found, "test__prompts", json!({})).await;
    assert_eq!(listed, "summarise(text, words?): Asks for a summary.");
    let arguments = json!({ "name": "summarise", "arguments": { "text": "가나다", "words": "3" } });
    let prompt = call_tool_text(&found, "test__prompts", arguments).await;
    assert_eq!(prompt, "user:\nSummarise in 3 words: 가나다");

    let picture = call_tool(&found, "test__picture", json!({})).await.expect("a picture");
    assert_eq!(picture.images.len(), 1, "{picture:?}");
    assert!(picture.images[0].url.starts_with("data:image/png;base64,iVBORw0KGgo"), "{picture:?}");
}

#[tokio::test]
async fn a_server_that_is_late_is_known_when_it_comes_up() {
    let Some(python) = mcp_python() else { return };
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let mut found = mcp::connect_servers(vec![http_server(&url, &[])], &ToolPins::default()).await;
    assert_eq!((found.tools.len(), found.problems.len(), found.unreached.len()), (0, 1, 1));
    let mut toolbox = Toolbox::new();
    toolbox.register_server("test");
    toolbox.set_policy("test__greet", ToolPolicy::Deny);
    // Agents are built with boxes such as these before the server is there.
    let (all, one) = (toolbox.clone(), toolbox.restricted_to(&["test__add"]));
    assert!(one.get("test__add").is_none());

    let waiting = tokio::spawn(found.unreached.remove(0).reach());
    let (_server, _) = start_http_server_on(port, &python, &[]).await;
    let found = waiting.await.expect("reached").discover(&ToolPins::default());
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    for tool in found.tools {
        toolbox.add_server_tool(tool, ToolPolicy::Allow).expect("a tool");
    }
    assert!(one.get("test__add").is_some() && one.get("test__greet").is_none());
    let offered: Vec<String> = all.specs().into_iter().map(|spec| spec.name).collect();
    assert!(offered.contains(&"test__add".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"test__greet".to_owned()), "its policy was set before it came: {offered:?}");
    let added = one.get("test__add").expect("a tool").call(json!({ "a": 2, "b": 3 }), call_context()).await;
    assert_eq!(added.expect("an answer").text, "5");
}

#[tokio::test]
async fn what_a_program_wrote_is_in_the_error_and_its_secrets_are_not() {
    let mut server = McpServer {
        name: "broken".to_string(),
        reach: McpTransport::Stdio {
            command: "sh".to_string(),
            arguments: vec![
                "-c".to_string(),
                "echo \"npm error 404 for $HOME with $TOKEN\" >&2; exit 1".to_string(),
            ],
            inherited: BTreeMap::from([
                ("PATH".to_string(), "/usr/bin:/bin".to_string()),
                ("HOME".to_string(), "/home/me".to_string()),
            ]),
            environment: BTreeMap::from([("TOKEN".to_string(), ToolSecret::new("hunter2hunter2"))]),
        },
        trust: McpTrust::None,
        images: McpImages::Describe,
        bounds: test_bounds(),
    };
    let found = mcp::connect_servers(vec![server.clone()], &ToolPins::default()).await;
    let problem = &found.problems[0];
    assert!(problem.en.contains("it wrote: npm error 404 for /home/me with ***"), "{problem:?}");
    assert!(problem.ko.contains("npm error 404 for /home/me with ***"), "{problem:?}");

    // Without `PATH` the program is not found, which is said as well.
    if let McpTransport::Stdio { command, inherited, .. } = &mut server.reach {
        *command = "npx-that-is-nowhere".to_string();
        inherited.clear();
    }
    let found = mcp::connect_servers(vec![server], &ToolPins::default()).await;
    assert!(found.problems[0].en.contains("`npx-that-is-nowhere`: No such file"), "{:?}", found.problems);
}

//! MCP: Doran as a server on standard input and output, and as a client of programs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};

/// The interpreter that has the SDK. `None`: skipped, in words.
fn mcp_python() -> Option<PathBuf> {
    let named = std::env::var_os("DORAN_TEST_MCP_PYTHON").filter(|path| !path.is_empty()).map(PathBuf::from);
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.parts/mcp-venv/bin/python");
    let found = named.or_else(|| made.exists().then_some(made));
    if found.is_none() {
        assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "the MCP SDK is required");
        println!("SKIPPED: no MCP SDK; run ./x test mcp / MCP SDK가 없음, ./x test mcp로 실행하세요");
    }
    found
}

/// A host of the official SDK that starts `doran mcp`.
fn run_host(here: &Path) {
    let Some(python) = mcp_python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/clients/mcp_host.py");
    let host = Command::new(python)
        .arg(script)
        .args(["stdio", env!("CARGO_BIN_EXE_doran"), "mcp", "--data-dir", "data"])
        .env("HOME", here)
        .current_dir(here)
        .stdin(Stdio::null())
        .output()
        .expect("the host starts");
    assert_eq!(utf8(&host.stdout).trim(), "ok", "{}", utf8(&host.stderr));
}

/// The ids of what `doran mcp` answers to these lines, in the order of the requests. It has to end with them.
fn answered_ids(here: &Path, input: &str) -> Vec<String> {
    let typed = here.join("input.jsonl");
    std::fs::write(&typed, input).expect("written");
    let mut command = doran_command(here, &["mcp", "--data-dir", "data"]);
    command.stdin(std::fs::File::open(&typed).expect("a file"));
    let mut child = command.spawn().expect("the program starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().expect("its state").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("killed");
            panic!("`doran mcp` goes on after its input has ended");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = child.wait_with_output().expect("the program ends");
    assert!(ended.status.success(), "{}", utf8(&ended.stderr));
    let answers = utf8(&ended.stdout);
    let answers = answers.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let mut ids: Vec<String> = answers
        .filter(|answer: &serde_json::Value| answer.get("method").is_none())
        .map(|answer| format!("{} {}", answer["id"], if answer["error"].is_null() { "ok" } else { "error" }))
        .collect();
    ids.sort();
    ids
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask","arguments":{"agent":"docqa","message":"연차휴가는 며칠인가요?"}}}"#;

/// What was read is answered and the program ends, however far the host came before its input ended.
fn every_ended_input_is_answered(here: &Path) {
    assert!(answered_ids(here, "").is_empty());
    assert_eq!(answered_ids(here, INITIALIZE), ["1 ok"]);
    assert_eq!(answered_ids(here, &format!("{LIST}\n")), ["2 error"]);
    let whole = [INITIALIZE, INITIALIZED, LIST, CALL].join("\n");
    assert_eq!(answered_ids(here, &whole), ["1 ok", "2 ok", "3 ok"]);
    // A host that does not say that it is initialized.
    let hasty = [INITIALIZE, LIST, CALL].join("\n");
    assert_eq!(answered_ids(here, &hasty), ["1 ok", "2 ok", "3 ok"]);
}

#[test]
fn input_that_ends_is_answered_and_ends_the_program() {
    every_ended_input_is_answered(&fresh_directory("mcp-ended"));
}

#[test]
fn input_that_ends_is_answered_by_the_server_that_has_the_data_directory() {
    let here = fresh_directory("mcp-ended-beside");
    let _server = ServerProcess::start_with(&here, &["--port", "0", "--data-dir", "data"]);
    every_ended_input_is_answered(&here);
}

#[test]
fn a_host_starts_doran_and_asks_it() {
    run_host(&fresh_directory("mcp-alone"));
}

#[test]
fn a_host_reaches_the_server_that_has_the_data_directory() {
    let here = fresh_directory("mcp-beside");
    let server = ServerProcess::start_with(&here, &["--port", "0", "--data-dir", "data"]);
    run_host(&here);
    let threads = server.request("GET /api/threads", "");
    assert!(mcp_python().is_none() || threads.contains("육아휴직"), "{threads}");
}

#[test]
fn a_program_is_found_by_path_gets_home_and_its_stderr_is_shown() {
    let here = fresh_directory("mcp-path");
    let programs = here.join("bin");
    std::fs::create_dir(&programs).expect("a directory");
    let program = programs.join("some-npx");
    std::fs::write(
        &program,
        "#!/bin/sh\necho \"npm error: no package in $HOME, secret $SECRET\" >&2\nexit 1\n",
    )
    .expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("changed");
    std::fs::write(
        here.join("doran.toml"),
        "[mcp.files]\ncommand = \"some-npx\"\nargs = [\"-y\", \"files\"]\n",
    )
    .expect("written");
    let mut command =
        doran_command(&here, &["--config", "doran.toml", "--data-dir", "data", "--lang", "en", "agents"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display())).env("SECRET", "hunter2");
    let listed = command.output().expect("the program ends");
    let notes = utf8(&listed.stderr);
    assert!(listed.status.success(), "{notes}");
    let expected = format!("npm error: no package in {}, secret", here.display());
    assert!(notes.contains(&expected) && !notes.contains("hunter2"), "{notes}");
    // Without it the program is not found, and the rest works.
    let listed =
        run_doran(&here, &["--config", "doran.toml", "--data-dir", "data", "--lang", "en", "agents"], "");
    assert!(
        listed.status.success() && utf8(&listed.stderr).contains("`some-npx`"),
        "{}",
        utf8(&listed.stderr)
    );
}

/// Asks with the inspector of the protocol, and gives the JSON it prints.
fn inspect(inspector: &Path, here: &Path, target: &[&str], arguments: &[&str]) -> serde_json::Value {
    let inspected = Command::new("node")
        .arg(inspector)
        .arg("--cli")
        .args(target)
        .args(arguments)
        .env("HOME", here)
        .current_dir(here)
        .stdin(Stdio::null())
        .output()
        .expect("the inspector starts");
    let (output, error) = (utf8(&inspected.stdout), utf8(&inspected.stderr));
    assert!(inspected.status.success(), "{output}\n{error}");
    serde_json::from_str(&output).unwrap_or_else(|_| panic!("not JSON: {output}\n{error}"))
}

#[test]
fn the_inspector_is_answered_over_http_and_standard_input() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.parts/mcp-inspector/node_modules");
    let inspector = modules.join(".bin/mcp-inspector");
    if !inspector.exists() {
        assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "the MCP inspector is required");
        println!(
            "SKIPPED: no MCP inspector; run ./x test mcp / MCP 인스펙터가 없음, ./x test mcp로 실행하세요"
        );
        return;
    }
    let here = fresh_directory("mcp-inspector");
    let server = ServerProcess::start_with(&here, &["--port", "0", "--data-dir", "data"]);
    let url = format!("http://{}/mcp", server.address);
    let http = [url.as_str(), "--transport", "http"];
    let stdio = [env!("CARGO_BIN_EXE_doran"), "mcp", "--data-dir", "other"];
    for target in [&http[..], &stdio[..]] {
        // `--strict` fails if a schema of a tool is one that hosts cannot use.
        let listed = inspect(&inspector, &here, target, &["--method", "tools/list", "--strict"]);
        let tools = listed["tools"].as_array().expect("tools");
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, ["ask", "search_documents", "read_document"], "{listed}");
        let asked = ["agent=docqa", "message=연차휴가는 며칠인가요?"];
        let call = ["--method", "tools/call", "--tool-name", "ask", "--tool-arg", asked[0], asked[1]];
        let answer = inspect(&inspector, &here, target, &call);
        assert!(answer["structuredContent"]["answer"].is_string() && answer["isError"] != true, "{answer}");
        let resources = inspect(&inspector, &here, target, &["--method", "resources/list"]);
        let uri = resources["resources"][0]["uri"].as_str().expect("a resource").to_owned();
        let read = inspect(&inspector, &here, target, &["--method", "resources/read", "--uri", &uri]);
        assert_eq!(read["contents"][0]["uri"], uri, "{read}");
    }
}

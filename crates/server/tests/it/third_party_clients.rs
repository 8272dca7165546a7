//! Programs that people have already: OpenAI's own clients, and one that tries whatever the document for programs
//! allows. `./x test` fetches them from their registries; without them the tests say so.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use doran_server::{RateLimit, ServerApp, ServerLimits};
use tokio::process::Command;

use crate::retry_after_start::{UnansweredRunCase, list_thread_runs};
use crate::socket::start_server_with;
use crate::two_tenant_app;

/// A part that may be missing, or a loud word about it.
fn optional_program(variable: &str, made: &str, en: &str, ko: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.parts").join(made);
    let found = named.or_else(|| made.exists().then_some(made));
    if found.is_none() {
        assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "required and not there: {en}");
        println!("SKIPPED: {en}; run ./x test clients / {ko}, ./x test clients로 실행하세요");
    }
    found
}

/// Runs a client against a server of two tenants and gives what it printed.
async fn run_client(name: &str, client: impl FnOnce(&str) -> Command) -> String {
    let rate = RateLimit { per_minute: 1e9, burst: 1e9 };
    run_client_against(
        two_tenant_app(name).await.limits(ServerLimits { rate_limit: rate, ..ServerLimits::default() }),
        client,
    )
    .await
}

/// Runs a client against this server and gives what it printed.
async fn run_client_against(app: ServerApp, client: impl FnOnce(&str) -> Command) -> String {
    let (address, _stop, _serving) = start_server_with(app).await;
    let mut command = client(&format!("http://{address}"));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the client starts");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{error}");
    out.into_owned()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// No answer is an error of the server, and each has a status, a type and JSON that the document has.
const SCHEMATHESIS_CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

const PYTHON: (&str, &str) = ("DORAN_TEST_CLIENTS_PYTHON", "clients-venv/bin/python");

/// OpenAI's client for Python with one of the scripts.
fn python(name: &str) -> Option<impl Fn(&[&str]) -> Command + use<>> {
    let python = optional_program(PYTHON.0, PYTHON.1, "no `openai` for Python", "Python용 `openai`가 없음")?;
    let script = script(name);
    Some(move |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.arg(&script).args(arguments);
        command
    })
}

/// The same for Node.js.
fn node(name: &str) -> Option<impl Fn(&[&str]) -> Command + use<>> {
    let made = "clients-node/node_modules/openai";
    let (en, ko) = ("no `openai` for Node.js", "Node.js용 `openai`가 없음");
    let package = optional_program("DORAN_TEST_CLIENTS_NODE", made, en, ko)?;
    // A script finds packages beside itself.
    let here = package.ancestors().nth(2).expect("a directory").join(name);
    std::fs::copy(script(name), &here).expect("copied");
    Some(move |arguments: &[&str]| {
        let mut command = Command::new("node");
        command.arg(&here).args(arguments);
        command
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_python_client_is_served() {
    let Some(client) = python("openai_client.py") else { return };
    let told = run_client("openai-python", |base| client(&[base, "key-a"])).await;
    assert!(told.starts_with("ok openai "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_node_client_is_served() {
    let Some(client) = node("openai_client.mjs") else { return };
    let told = run_client("openai-node", |base| client(&[base, "key-a"])).await;
    assert!(told.starts_with("ok openai "), "{told}");
}

/// Asks with a client that asks again by itself, by every way in which a run gives no answer: it is begun once.
async fn check_one_run_is_started(client: impl Fn(&[&str]) -> Command) {
    for trouble in UnansweredRunCase::ALL {
        let app = trouble.app();
        let asking = run_client_against(app.clone(), |base| client(&[base, "t"]));
        let (told, ()) = tokio::join!(asking, trouble.cause(&app, "t"));
        assert_eq!(told.trim(), trouble.expected_error(), "{trouble:?}");
        assert_eq!(list_thread_runs(&app, "t").await.len(), 1, "{trouble:?}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_python_client_begins_a_run_once_whatever_becomes_of_it() {
    if let Some(client) = python("openai_again.py") {
        check_one_run_is_started(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_node_client_begins_a_run_once_whatever_becomes_of_it() {
    if let Some(client) = node("openai_again.mjs") {
        check_one_run_is_started(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_document_allows_is_answered_as_the_document_says() {
    let Some(python) = optional_program(PYTHON.0, PYTHON.1, "no `schemathesis`", "`schemathesis`가 없음")
    else {
        return;
    };
    // Each more is another body or address for every route.
    let examples = std::env::var("DORAN_TEST_EXAMPLES").unwrap_or_else(|_| "25".into());
    let program = python.parent().expect("a directory").join("schemathesis");
    let told = run_client("schemathesis", |base| {
        let mut command = Command::new(program);
        command.args(["run", &format!("{base}/openapi.json"), "--header", "Authorization: Bearer key-a"]);
        command.args(["--checks", SCHEMATHESIS_CHECKS, "--max-examples", &examples, "--seed", "20261115"]);
        command.args(["--phases", "examples,coverage,fuzzing", "--request-timeout", "20", "--no-color"]);
        command
    })
    .await;
    assert!(told.contains(" generated, ") && !told.contains("Server error"), "{told}");
}

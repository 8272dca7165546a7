//! Programs that people have already: OpenAI's own clients, and one that tries whatever the document for programs
//! allows. `./x test` fetches them from their registries; without them the tests say so.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use doran_server::{Limits, Rate};
use tokio::process::Command;

use crate::shared;
use crate::socket::listening;

/// A part that may be missing, or a loud word about it.
fn part(variable: &str, made: &str, en: &str, ko: &str) -> Option<PathBuf> {
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
async fn told(name: &str, client: impl FnOnce(&str) -> Command) -> String {
    let rate = Rate { per_minute: 1e9, burst: 1e9 };
    let app = shared(name).await.limits(Limits { rate, ..Limits::default() });
    let (address, _stop, _serving) = listening(app).await;
    let mut command = client(&format!("http://{address}"));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the client starts");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{error}");
    out.into_owned()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

const PYTHON: (&str, &str) = ("DORAN_TEST_CLIENTS_PYTHON", "clients-venv/bin/python");

#[tokio::test(flavor = "multi_thread")]
async fn openais_python_client_is_served() {
    let Some(python) = part(PYTHON.0, PYTHON.1, "no `openai` for Python", "Python용 `openai`가 없음")
    else {
        return;
    };
    let told = told("openai-python", |base| {
        let mut command = Command::new(python);
        command.arg(script("openai_client.py")).args([base, "key-a"]);
        command
    })
    .await;
    assert!(told.starts_with("ok openai "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_node_client_is_served() {
    let made = "clients-node/node_modules/openai";
    let (en, ko) = ("no `openai` for Node.js", "Node.js용 `openai`가 없음");
    let Some(package) = part("DORAN_TEST_CLIENTS_NODE", made, en, ko) else { return };
    // A script finds packages beside itself.
    let here = package.ancestors().nth(2).expect("a directory").join("client.mjs");
    std::fs::copy(script("openai_client.mjs"), &here).expect("copied");
    let told = told("openai-node", |base| {
        let mut command = Command::new("node");
        command.arg(here).args([base, "key-a"]);
        command
    })
    .await;
    assert!(told.starts_with("ok openai "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_the_document_allows_makes_the_server_fail() {
    let Some(python) = part(PYTHON.0, PYTHON.1, "no `schemathesis`", "`schemathesis`가 없음") else {
        return;
    };
    // Each more is another body or address for every route.
    let examples = std::env::var("DORAN_TEST_EXAMPLES").unwrap_or_else(|_| "25".into());
    let program = python.parent().expect("a directory").join("schemathesis");
    let told = told("schemathesis", |base| {
        let mut command = Command::new(program);
        command.args(["run", &format!("{base}/openapi.json"), "--header", "Authorization: Bearer key-a"]);
        command.args(["--checks", "not_a_server_error", "--max-examples", &examples, "--seed", "20261115"]);
        command.args(["--phases", "examples,coverage,fuzzing", "--request-timeout", "20", "--no-color"]);
        command
    })
    .await;
    assert!(told.contains(" generated, ") && !told.contains("Server error"), "{told}");
}

//! LangGraph's two hooks for React, `@langchain/langgraph-sdk/react` and `@langchain/react`, in a real browser, on a page of another
//! origin than the server.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use doran_server::AllowedOrigin;
use tokio::process::Command;

use super::{client_file, four_graphs_app, free_port};
use crate::socket::start_server_with;
use crate::third_party_clients::{optional_program, report_missing};
use crate::two_keys;

/// How long all checks may take together.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(600);

/// Checks that each hook passes.
const CHECKS: [&str; 13] = [
    "ok classic streams text",
    "ok classic asks and goes on with the answer",
    "ok classic goes on with its run when it is loaded again",
    "ok classic shows why a run failed",
    "ok classic stops a run",
    "ok events streams text",
    "ok events asks and goes on with the answer",
    "ok events goes on with its run when it is loaded again",
    "ok events shows why a run failed",
    "ok events stops a run",
    "ok classic has a history and branches",
    "ok classic does what agent-chat-ui does",
    "ok events runs again from an older checkpoint",
];

fn has_browser() -> bool {
    let named = std::env::var_os("CHROMIUM").is_some();
    let usual = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    named || usual.iter().any(|path| Path::new(path).exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn both_hooks_for_react_work_in_a_browser() {
    let packages = "clients-node/node_modules/@langchain/react";
    let (en, ko) = ("no `@langchain/react` for Node.js", "Node.js용 `@langchain/react`가 없음");
    let Some(package) = optional_program("DORAN_TEST_LANGCHAIN_REACT", packages, en, ko) else { return };
    if !has_browser() {
        return report_missing("no Chromium", "Chromium이 없음");
    }
    let modules = package.ancestors().nth(3).expect("the folder of the packages").to_owned();
    let port = free_port();
    let origin = AllowedOrigin::parse(&format!("http://127.0.0.1:{port}")).expect("an origin");
    let app = four_graphs_app().keys(two_keys()).allowed_origins(vec![origin]);
    let (address, _stop, _serving) = start_server_with(app).await;
    let mut command = Command::new("node");
    command.arg(client_file("use_stream.mjs")).arg(modules).arg(format!("http://{address}"));
    command.arg(port.to_string()).arg("key-a").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(BROWSER_TIMEOUT, command.output()).await;
    let output = output.expect("the browser ends in time").expect("Node.js starts");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{error}");
    assert_eq!(out.lines().collect::<Vec<_>>(), CHECKS, "{error}");
}

//! The Model Context Protocol, with the host of the official SDK and by hand.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use doran_retrieval::{DocumentTenant, RamKeywordIndex};
use doran_server::ServerApp;
use serde_json::json;
use tokio::process::Command;
use tokio::sync::Notify;

use crate::socket::start_server_with;
use crate::{PausingModel, problem, send, text, two_tenant_app, two_tenant_app_with_model};
use crate::{json_request, with_header, with_key_of};

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
        println!("SKIPPED: no MCP SDK; run ./x test mcp / MCP SDK가 없음, ./x test mcp로 실행하세요");
    }
    found
}

/// Runs a case of the host against this server, with the key of `a`.
async fn run_host(app: ServerApp, case: &str) {
    let Some(python) = mcp_python() else { return };
    let (address, _stop, _serving) = start_server_with(app).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/mcp_host.py");
    let host = Command::new(python)
        .arg(script)
        .args(["http", &format!("http://{address}"), "key-a", case])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("the host starts");
    let (out, error) = (String::from_utf8_lossy(&host.stdout), String::from_utf8_lossy(&host.stderr));
    assert_eq!(out.trim(), "ok", "{out}\n{error}");
}

#[tokio::test]
async fn a_host_asks_searches_and_reads() {
    run_host(two_tenant_app("mcp-everything").await, "everything").await;
}

#[tokio::test]
async fn a_person_before_the_host_approves_and_refuses() {
    for case in ["approve", "decline", "close_the_form"] {
        run_host(two_tenant_app(&format!("mcp-{case}")).await, case).await;
    }
}

#[tokio::test]
async fn a_host_that_cannot_ask_a_person_does_not_approve() {
    run_host(two_tenant_app("mcp-nobody").await, "nobody_to_ask").await;
}

#[tokio::test]
async fn a_cancelled_request_cancels_its_run() {
    let model = PausingModel(Arc::new(Notify::new()));
    run_host(two_tenant_app_with_model("mcp-cancel", Arc::new(model)).await, "cancel").await;
}

/// A message to the server.
pub(crate) fn mcp_request(message: &serde_json::Value) -> Request<Body> {
    with_header(
        json_request("post", "/mcp", &message.to_string()),
        "accept",
        "application/json, text/event-stream",
    )
}

/// The first message of a host.
pub(crate) fn initialize() -> serde_json::Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } })
}

#[tokio::test]
async fn a_session_exists_for_its_own_tenant_alone() {
    let app = two_tenant_app("mcp-session").await;
    let opened = send(&app, with_key_of("a", mcp_request(&initialize()))).await;
    assert_eq!(opened.status(), 200);
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    assert!(text(opened).await.contains("serverInfo"));
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    let pinged =
        |tenant: &str| with_header(with_key_of(tenant, mcp_request(&ping)), "mcp-session-id", &session);
    assert_eq!(problem(&app, pinged("b")).await, "404 not_found");
    assert_eq!(send(&app, pinged("a")).await.status(), 200);
    let close = |tenant: &str| {
        with_header(with_key_of(tenant, json_request("delete", "/mcp", "")), "mcp-session-id", &session)
    };
    assert_eq!(problem(&app, close("b")).await, "404 not_found");
    assert!(send(&app, close("a")).await.status().is_success());
    assert_eq!(problem(&app, pinged("a")).await, "404 not_found");
}

#[tokio::test]
async fn hosts_are_offered_the_tool_ask() {
    let mut agents = doran_agents::build_default_agents(&doran_agents::AgentParts::new(
        Arc::new(doran_offline::OfflineModel),
        Arc::new(RamKeywordIndex::from_documents(&DocumentTenant::new("local"), &[])),
    ))
    .expect("sound graphs");
    agents.iter_mut().filter(|agent| agent.name == "react").for_each(|agent| agent.is_hidden = true);
    let store = Arc::new(doran_engine::store::RamStore::new());
    let runtime = doran_engine::Runtime::new(store.clone());
    agents.iter().for_each(|agent| agent.register(&runtime).expect("registered"));
    let app = ServerApp::new(runtime, store, agents);
    let opened = send(&app, mcp_request(&initialize())).await;
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let listed = text(send(&app, with_header(mcp_request(&list), "mcp-session-id", &session)).await).await;
    assert!(listed.contains(r#""enum":["assistant""#) && !listed.contains("react"), "{listed}");
}

#[tokio::test]
async fn what_is_no_message_is_rejected_as_everywhere() {
    let app = two_tenant_app("mcp-rejected").await;
    let with_key = |request| with_key_of("a", request);
    assert_eq!(problem(&app, mcp_request(&initialize())).await, "401 no_key");
    assert_eq!(problem(&app, with_key(mcp_request(&json!({})))).await, "400 bad_input");
    assert_eq!(problem(&app, with_key(mcp_request(&json!("x".repeat(2 << 20))))).await, "413 too_large");
    assert_eq!(problem(&app, with_key(json_request("get", "/mcp", ""))).await, "400 bad_input");
    let form = Request::post("/mcp")
        .header("host", "localhost:7979")
        .header("content-type", "text/plain")
        .body(Body::from("{}"))
        .expect("a request");
    assert_eq!(problem(&app, with_key(form)).await, "415 not_json");
    let foreign = with_header(with_key(mcp_request(&initialize())), "origin", "https://evil.example");
    assert_eq!(problem(&app, foreign).await, "403 origin_not_allowed");
}

#[tokio::test]
async fn sessions_have_a_limit() {
    let app = two_tenant_app("mcp-limit").await;
    for _ in 0..256 {
        assert_eq!(send(&app, with_key_of("a", mcp_request(&initialize()))).await.status(), 200);
    }
    assert_eq!(problem(&app, with_key_of("a", mcp_request(&initialize()))).await, "503 overloaded");
    assert_eq!(send(&app, with_key_of("b", mcp_request(&initialize()))).await.status(), 200);
}

//! The server from outside: the router in process, frames as text, and one real socket.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod page;
mod requests;
mod runs;
mod socket;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, header};
use doran_agents::{Parts, all, samples};
use doran_engine::store::RamStore;
use doran_engine::Runtime;
use doran_llm::{ChatModel, OfflineModel};
use doran_retrieval::RamKeyword;
use doran_server::{App, Limits, router};
use tower::ServiceExt;

fn app() -> App {
    app_with(Arc::new(OfflineModel), Limits::default())
}

fn app_with(model: Arc<dyn ChatModel>, limits: Limits) -> App {
    let index = Arc::new(RamKeyword::of(&doran_retrieval::Tenant::new("local"), &samples::all()));
    let agents = all(&Parts::new(model, index.clone())).expect("sound graphs");
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    for agent in &agents {
        agent.register(&runtime).expect("registered");
    }
    App::new(runtime, agents).index(index).limits(limits)
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header(header::HOST, "localhost:7979").body(Body::empty()).expect("a request")
}

fn post(path: &str, body: &str) -> Request<Body> {
    Request::post(path)
        .header(header::HOST, "127.0.0.1:7979")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_owned()))
        .expect("a request")
}

async fn send(app: &App, request: Request<Body>) -> Response<Body> {
    router(app).oneshot(request).await.expect("an answer")
}

async fn text(response: Response<Body>) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Status and code of an answer that says what went wrong.
async fn problem(app: &App, request: Request<Body>) -> String {
    let response = send(app, request).await;
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE).expect("a type").clone();
    let body = text(response).await;
    assert_eq!(kind, "application/problem+json", "{body}");
    let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(json["status"], status);
    assert!(json["title"].is_string() && json["title_ko"].is_string(), "{json}");
    format!("{status} {}", json["code"].as_str().expect("a code"))
}

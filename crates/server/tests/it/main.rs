//! The server from outside: the router in process, frames as text, and real sockets where a socket is the point.

#![allow(clippy::expect_used, reason = "a test says what it relies on")]

mod allowed_hosts;
mod answer_bytes;
mod api_contract;
mod attachments;
mod authorization;
mod branches;
mod budget;
mod cors;
mod cut_off_calls;
mod documents;
mod evals;
mod fair_shares;
mod forks;
mod generated_files;
mod history_views;
mod hostile;
mod idempotency;
mod langgraph;
mod many_clients;
mod mcp;
mod model_failures;
mod models;
mod newer_format;
mod openai;
mod openai_fields;
mod openai_responses;
mod openai_tools;
mod paused_runs;
mod races;
mod readiness;
mod rejected_requests;
mod retry_after_start;
mod run_images;
mod runs;
mod slow_clients;
mod socket;
mod stream_resume;
mod streamed_answers;
mod third_party_clients;
mod thread_search;
mod told_when_durable;
mod typescript_client;
mod typescript_types;
mod untrusted_input;
mod web_page;
mod wide_fan_out;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, header};
use doran_agents::memory::{DEFAULT_SPACE, MemoryFact, MemoryOwner, MemoryStore, RamMemoryStore};
use doran_agents::retrieval::{Library, LibraryOptions};
use doran_agents::tools::{Calculator, ToolPolicy};
use doran_agents::{AgentParts, RequestPurpose, build_default_agents, samples};
use doran_engine::store::{RamStore, Store};
use doran_engine::{Runtime, TenantId};
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, ModelInfo};
use doran_offline::OfflineModel;
use doran_retrieval::RamKeywordIndex;
use doran_retrieval::ingest::{JailedFileReader, ReadLimits};
use doran_server::{ApiKey, ApiKeys, KeyHash, ServerApp, ServerLimits, router};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::sync::Notify;
use tower::ServiceExt;

fn app() -> ServerApp {
    app_with(Arc::new(OfflineModel), ServerLimits::default())
}

/// A server whose things are kept here.
fn app_with_store(store: Arc<RamStore>) -> ServerApp {
    app_with_history(store.clone(), store)
}

/// A server whose runs and threads are kept in the first store, and the rest in the second.
fn app_with_history(history: Arc<dyn Store>, store: Arc<RamStore>) -> ServerApp {
    app_with_history_and_model(history, store, Arc::new(OfflineModel))
}

/// The same, with this model.
fn app_with_history_and_model(
    history: Arc<dyn Store>,
    store: Arc<RamStore>,
    model: Arc<dyn ChatModel>,
) -> ServerApp {
    let index = Arc::new(RamKeywordIndex::from_documents(
        &doran_retrieval::DocumentTenant::new("local"),
        &samples::rule_books(),
    ));
    let agents = build_default_agents(&AgentParts::new(model, index.clone())).expect("sound graphs");
    let runtime = Runtime::new(history);
    for agent in &agents {
        agent.register(&runtime).expect("registered");
    }
    ServerApp::new(runtime, store, agents).index(index)
}

fn app_with(model: Arc<dyn ChatModel>, limits: ServerLimits) -> ServerApp {
    let (app, _) = app_for_tenant(model, "local");
    app.limits(limits)
}

/// A server whose samples belong to this tenant. Before it calculates, it asks a person.
fn app_for_tenant(model: Arc<dyn ChatModel>, tenant: &str) -> (ServerApp, Arc<RamKeywordIndex>) {
    app_of_tenant_over(Arc::new(RamStore::new()), model, tenant)
}

/// A server over this store that asks a person before it calculates.
fn app_that_asks_over(store: Arc<RamStore>) -> ServerApp {
    app_of_tenant_over(store, Arc::new(OfflineModel), "local").0
}

fn app_of_tenant_over(
    store: Arc<RamStore>,
    model: Arc<dyn ChatModel>,
    tenant: &str,
) -> (ServerApp, Arc<RamKeywordIndex>) {
    let documents = [samples::rule_books(), samples::contracts()].concat();
    let index =
        Arc::new(RamKeywordIndex::from_documents(&doran_retrieval::DocumentTenant::new(tenant), &documents));
    let mut parts = AgentParts::new(model, index.clone());
    parts.tools.add(Arc::new(Calculator::new()), ToolPolicy::Ask).expect("a sound tool");
    let agents = build_default_agents(&parts).expect("sound graphs");
    let runtime = Runtime::new(store.clone());
    for agent in &agents {
        agent.register(&runtime).expect("registered");
    }
    (ServerApp::new(runtime, store, agents).index(index.clone()), index)
}

/// Keys of two tenants, each opened by its own name: `key-a` and `key-b`. `key-local` is of the default tenant, which is
/// the operator's.
fn two_keys() -> ApiKeys {
    let key = |tenant: &str| ApiKey {
        name: format!("of {tenant}"),
        tenant: TenantId::new(tenant).expect("a name"),
        hash: KeyHash::from_secret(&format!("key-{tenant}")),
        is_admin: false,
    };
    ApiKeys::new(vec![key("a"), key("b"), key("local")])
}

/// A server of two tenants that takes documents; the samples belong to `a`.
async fn two_tenant_app(name: &str) -> ServerApp {
    two_tenant_app_with_model(name, Arc::new(OfflineModel)).await
}

/// The same with this model.
async fn two_tenant_app_with_model(name: &str, model: Arc<dyn ChatModel>) -> ServerApp {
    let (app, index) = app_for_tenant(model, "a");
    let path =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&path).ok();
    let limits = ReadLimits::default();
    let reader = JailedFileReader::with_program(env!("CARGO_BIN_EXE_document-reader"), limits, 1);
    let options = LibraryOptions { reader, ..LibraryOptions::default() };
    let library = Library::open(&path, index, options).await.expect("a library");
    // What is counted here is who gets in, not how often.
    let rate = doran_server::RateLimit { per_minute: 1e9, burst: 1e9 };
    let memories = RamMemoryStore::new();
    let fact = MemoryFact {
        id: "a1b2c3d4e5f6".into(),
        text: "비밀 수당은 25일".into(),
        at_ms: 1,
        taint: Default::default(),
    };
    memories.keep(&MemoryOwner::new("a", DEFAULT_SPACE), fact).await.expect("kept");
    app.keys(two_keys())
        .library(library)
        .memories(Arc::new(memories))
        .limits(ServerLimits { rate_limit: rate, ..ServerLimits::default() })
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header(header::HOST, "localhost:7979").body(Body::empty()).expect("a request")
}

fn post(path: &str, body: &str) -> Request<Body> {
    json_request("post", path, body)
}

/// A request with a body of JSON.
fn json_request(method: &str, path: &str, body: &str) -> Request<Body> {
    Request::builder()
        .method(method.to_uppercase().as_str())
        .uri(path)
        .header(header::HOST, "127.0.0.1:7979")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_owned()))
        .expect("a request")
}

/// The same with a header more.
fn with_header(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().append(name, value.parse().expect("a header"));
    request
}

/// The same from the tenant with this name.
fn with_key_of(tenant: &str, request: Request<Body>) -> Request<Body> {
    with_header(request, "authorization", &format!("Bearer key-{tenant}"))
}

/// What answers requests: a server, or its routes when they are made once for many requests.
trait TestRoutes {
    fn routes(&self) -> axum::Router;
}

impl TestRoutes for ServerApp {
    fn routes(&self) -> axum::Router {
        router(self)
    }
}

impl TestRoutes for axum::Router {
    fn routes(&self) -> axum::Router {
        self.clone()
    }
}

/// Sends a request and checks that the OpenAPI document describes the answer.
async fn send(app: &impl TestRoutes, request: Request<Body>) -> Response<Body> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = app.routes().oneshot(request).await.expect("an answer");
    api_contract::check_response(&method, &path, response).await
}

async fn text(response: Response<Body>) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 24).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}

async fn json(app: &impl TestRoutes, request: Request<Body>) -> Value {
    let response = send(app, request).await;
    let status = response.status();
    let body = text(response).await;
    assert!(status.is_success(), "{status} {body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Status and code of an answer that says what went wrong.
async fn problem(app: &impl TestRoutes, request: Request<Body>) -> String {
    let response = send(app, request).await;
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE).expect("a type").clone();
    let body = text(response).await;
    assert_eq!(kind, "application/problem+json", "{body}");
    let json: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(json["status"], status);
    check_both_languages(&json);
    format!("{status} {}", json["code"].as_str().expect("a code"))
}

/// What went wrong is reported in English and in Korean, and so is what is special about it.
fn check_both_languages(problem: &Value) {
    let of_openai = problem.get("error");
    let pairs = match of_openai {
        Some(_) => &[("message", "message_ko")][..],
        None => &[("title", "title_ko"), ("detail", "detail_ko")],
    };
    let error = of_openai.unwrap_or(problem);
    let hangul = |text: &str| text.chars().any(|char| ('가'..='힣').contains(&char));
    for (en, ko) in pairs {
        match (error[en].as_str(), error[ko].as_str()) {
            (Some(english), Some(korean)) => assert!(hangul(korean) && english != korean, "{problem}"),
            (None, None) => assert_eq!(*en, "detail", "{problem}"),
            _ => panic!("told in one language: {problem}"),
        }
    }
}

/// Where the events of a run are.
fn run_location(response: &Response<Body>) -> String {
    response.headers()[header::LOCATION].to_str().expect("text").to_owned()
}

/// Says one word, waits for leave, and says the rest. What is not for the person it says at once.
struct PausingModel(Arc<Notify>);

impl ChatModel for PausingModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return OfflineModel.stream(request);
        }
        let leave = self.0.clone();
        let first = stream::once(async { Ok(Delta::Text { text: "음… ".into() }) });
        let rest = stream::once(async move { leave.notified().await })
            .flat_map(move |()| OfflineModel.stream(request.clone()));
        first.chain(rest).boxed()
    }
}

/// Numbers that look random and are the same in every run.
struct ServerTestRandom(u64);

impl ServerTestRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (limit.max(1) as u64)).expect("small")
    }
}

/// Waits until something holds, and not for ever.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let come = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, come).await.expect("it did not come about");
}

/// How long a test waits for what has to come. A busy machine needs some of it; what never comes takes all of it.
const PATIENCE: Duration = Duration::from_secs(300);

//! One tenant at its limits leaves room for the others, and no client takes the memory of the process.

use std::net::SocketAddr;
use std::sync::Arc;

use doran_agents::{RequestPurpose, samples};
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, Usage};
use doran_offline::OfflineModel;
use doran_retrieval::{Document, DocumentId, DocumentIndex, DocumentTenant, RamKeywordIndex};
use doran_server::{RateLimit, ServerApp, ServerLimits};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;

use crate::socket::start_server_with;
use crate::{
    PATIENCE, PausingModel, app_for_tenant, get, post, send, text, two_keys, two_tenant_app_with_model,
    until, with_key_of,
};

const NO_RATE_LIMIT: RateLimit = RateLimit { per_minute: 1e9, burst: 1e9 };
/// A body that never comes whole.
const ONE_BYTE_OF_TEN: &str = "Content-Length: 10\r\n\r\n1";

/// Sends a request of a tenant and reads nothing.
async fn open_request(address: SocketAddr, tenant: &str, line: &str, rest: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    // Little of what is sent fits into the hands of the system.
    socket.set_recv_buffer_size(4096).expect("a size");
    let mut socket = socket.connect(address).await.expect("connected");
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-{tenant}\r\nConnection: close\r\n{rest}"
    );
    socket.write_all(request.as_bytes()).await.expect("sent");
    socket
}

fn json_body(body: &str) -> String {
    format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The status of an answer. The rest stays unread.
async fn status(socket: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    let read = tokio::time::timeout(PATIENCE, socket.read_exact(&mut head)).await;
    read.expect("its turn comes").expect("an answer");
    String::from_utf8_lossy(&head[9..]).parse().expect("a number")
}

async fn status_of(address: SocketAddr, tenant: &str, line: &str, rest: &str) -> u16 {
    status(&mut open_request(address, tenant, line, rest).await).await
}

/// Requests that are being answered, this one left out, and those that were turned away.
async fn requests_taken(app: &ServerApp) -> usize {
    let metrics = text(send(app, with_key_of("local", get("/metrics"))).await).await;
    let number = |name: &str| -> usize {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().parse().expect("a number")
    };
    number("doran_requests_open ") - 1 + number("doran_requests_shed_total ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chats_that_wait_leave_room_for_another_tenant() {
    let leave = Arc::new(Notify::new());
    let app = two_tenant_app_with_model("fair-chats", Arc::new(PausingModel(leave.clone()))).await;
    let limits = ServerLimits { max_requests: 8, rate_limit: NO_RATE_LIMIT, ..ServerLimits::default() };
    let app = app.limits(limits);
    let (address, stop, serving) = start_server_with(app.clone()).await;
    let ask = json_body(r#"{"message":"안녕?","agent":"react"}"#);
    let waiting = join_all((0..8).map(|_| open_request(address, "a", "POST /api/chat", &ask))).await;
    until(async || requests_taken(&app).await == 8).await;
    assert_eq!(status_of(address, "b", "GET /api/agents", "\r\n").await, 200);
    drop(waiting);
    leave.notify_waiters();
    stop.cancel();
    serving.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_wait_leave_room_for_another_tenant() {
    let app = two_tenant_app_with_model("fair-uploads", Arc::new(OfflineModel)).await;
    let limits = ServerLimits { max_uploads: 4, rate_limit: NO_RATE_LIMIT, ..ServerLimits::default() };
    let app = app.limits(limits);
    let (address, stop, serving) = start_server_with(app.clone()).await;
    let upload = |number| format!("POST /api/documents?name={number}.txt");
    let lines: Vec<String> = (0..4).map(upload).collect();
    let waiting = join_all(lines.iter().map(|line| open_request(address, "a", line, ONE_BYTE_OF_TEN))).await;
    until(async || requests_taken(&app).await == 4).await;
    let whole = "Content-Length: 10\r\n\r\n1234567890";
    assert_eq!(status_of(address, "b", "POST /api/documents?name=b.txt", whole).await, 202);
    drop(waiting);
    stop.cancel();
    serving.await.expect("no panic");
}

/// Says one word.
struct ShortReplyModel;

impl ChatModel for ShortReplyModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return OfflineModel.stream(request);
        }
        let done = Delta::Done { usage: Usage::default(), finish: FinishReason::Stop };
        stream::iter([Ok(Delta::Text { text: "네.".into() }), Ok(done)]).boxed()
    }
}

/// A server of two tenants. The first has a long document and a long conversation.
async fn app_with_long_bodies(limits: ServerLimits) -> ServerApp {
    let (app, index): (ServerApp, Arc<RamKeywordIndex>) = app_for_tenant(Arc::new(ShortReplyModel), "a");
    let text = "연차휴가는 만 일 년 뒤에 열다섯 날입니다.\n".repeat(8000);
    let sample = samples::rule_books().remove(0);
    let long = Document { id: DocumentId::new("long"), text, ..sample };
    index.put(&DocumentTenant::new("a"), &long, &[]).await.expect("indexed");
    let app = app.keys(two_keys()).limits(limits);
    let ask = serde_json::json!({ "agent": "react", "message": "가".repeat(150_000) }).to_string();
    let asked = send(&app, with_key_of("a", post("/api/threads/t/runs?wait=true", &ask))).await;
    assert_eq!(asked.status(), 200);
    app
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_take_no_more_than_the_memory_of_bodies() {
    const SILENT: usize = 30;
    const MEMORY: usize = 4 * 1024 * 1024;
    let limits =
        ServerLimits { max_body_memory_bytes: MEMORY, rate_limit: NO_RATE_LIMIT, ..ServerLimits::default() };
    let app = app_with_long_bodies(limits).await;
    let (address, stop, serving) = start_server_with(app.clone()).await;
    for path in ["/api/documents/long/text", "/api/threads/t/messages", "/api/threads/t/state"] {
        let long = text(send(&app, with_key_of("a", get(path))).await).await.len();
        assert!(long > 400_000, "{path}: {long}");
        let line = format!("GET {path}");
        let mut silent = join_all((0..SILENT).map(|_| open_request(address, "a", &line, "\r\n"))).await;
        let mut answered = 0;
        for socket in &mut silent {
            match status(socket).await {
                200 => answered += 1,
                refused => assert_eq!(refused, 503, "{path}"),
            }
        }
        assert!((1..=MEMORY / 2 / long).contains(&answered), "{path}: {answered} of {long} bytes are held");
        let other = status_of(address, "b", "GET /api/threads?limit=1", "\r\n").await;
        assert_eq!(other, 200, "another tenant");
        // Who goes away gives it back.
        drop(silent);
        until(async || send(&app, with_key_of("a", get(path))).await.status() == 200).await;
    }
    stop.cancel();
    serving.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_arrive_are_counted_too() {
    const MEMORY: usize = 2 * 1024 * 1024;
    let limits =
        ServerLimits { max_body_memory_bytes: MEMORY, rate_limit: NO_RATE_LIMIT, ..ServerLimits::default() };
    let app = two_tenant_app_with_model("fair-bodies", Arc::new(OfflineModel)).await.limits(limits);
    let (address, stop, serving) = start_server_with(app.clone()).await;
    // Each has sent all but the last byte of what it promised.
    let upload = format!("Content-Length: 700001\r\n\r\n{}", "x".repeat(700_000));
    let mut waiting = Vec::new();
    for number in 0..3 {
        waiting.push(
            open_request(address, "a", &format!("POST /api/documents?name={number}.txt"), &upload).await,
        );
    }
    let refused = async {
        let statuses = waiting.iter_mut().map(|socket| Box::pin(status(socket)));
        futures_util::future::select_all(statuses).await.0
    };
    assert_eq!(refused.await, 503, "one tenant has at most half of it");
    let whole = format!("Content-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
    assert_eq!(status_of(address, "b", "POST /api/documents?name=b.txt", &whole).await, 202);
    stop.cancel();
    serving.await.expect("no panic");
}

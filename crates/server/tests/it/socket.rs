//! A real socket: deadlines, limits, and the end.

use std::sync::Arc;
use std::time::Duration;

use doran_offline::OfflineModel;
use doran_server::{ApiKeys, BindError, ServerApp, ServerLimits, bind, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{PATIENCE, app_with};

const RUN_REQUEST_HEAD: &str = "POST /api/threads/t/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 44\r\n\r\n";
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

type RunningTestServer = (std::net::SocketAddr, CancellationToken, tokio::task::JoinHandle<()>);

async fn start_server(limits: ServerLimits) -> RunningTestServer {
    start_server_with(app_with(Arc::new(OfflineModel), limits)).await
}

/// Puts a server on a socket of its own.
pub async fn start_server_with(app: ServerApp) -> RunningTestServer {
    let listener =
        bind("127.0.0.1:0".parse().expect("an address"), &ApiKeys::default()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    (address, stop.clone(), tokio::spawn(serve(listener, app, stop)))
}

/// Sends some bytes and reads until the other side closes.
pub async fn send_raw(address: std::net::SocketAddr, bytes: &str) -> String {
    let mut socket = TcpStream::connect(address).await.expect("connected");
    socket.write_all(bytes.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("closed in time");
    drop(read);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn half_a_head_and_half_a_body_are_closed_in_time() {
    let limits = ServerLimits {
        header_timeout: SHORT_TIMEOUT,
        body_timeout: SHORT_TIMEOUT,
        ..ServerLimits::default()
    };
    let (address, _stop, _serving) = start_server(limits).await;
    assert_eq!(send_raw(address, "GET / HTTP/1.1\r\nHost: localh").await, "");
    let answer = send_raw(address, &format!("{RUN_REQUEST_HEAD}{{")).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("too_slow"), "{answer}");
}

#[tokio::test]
async fn chunks_that_are_none_are_a_bad_body_and_not_a_large_one() {
    let (address, _stop, _serving) = start_server(ServerLimits::default()).await;
    let head = "POST /api/threads HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = send_raw(address, &format!("{head}zz\r\n{{}}\r\n0\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("bad_body"), "{answer}");
}

/// Sends a head, then the body once the answer has begun, and reads until the other side closes.
async fn send_body_late(address: std::net::SocketAddr, head: &str, body: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.expect("connected");
    socket.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = vec![0];
    timeout(PATIENCE, socket.read_exact(&mut answer)).await.expect("in time").expect("an answer");
    for piece in body.chunks(1000) {
        socket.write_all(piece).await.expect("sent");
        tokio::task::yield_now().await;
    }
    timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("closed in time").expect("not reset");
    answer
}

#[tokio::test]
async fn a_body_that_nobody_reads_cuts_no_answer_off() {
    let (address, _stop, _serving) = start_server(ServerLimits::default()).await;
    let whole =
        send_raw(address, "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let (_, whole) = whole.split_once("\r\n\r\n").expect("a body");
    let head = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let body = vec![b'x'; 60_000];
    for _ in 0..20 {
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        let answer = send_body_late(address, &head, &body).await;
        let answer = String::from_utf8(answer).expect("text");
        let (_, answer) = answer.split_once("\r\n\r\n").expect("a body");
        assert_eq!(answer.len(), whole.len());
    }
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_body_that_nobody_read() {
    let (address, _stop, _serving) = start_server(ServerLimits::default()).await;
    let body = "x".repeat(60_000);
    let first = format!(
        "GET /api/threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let second = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answers = send_raw(address, &format!("{first}{second}")).await;
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let (address, _stop, _serving) = start_server(ServerLimits::default()).await;
    let answer =
        send_raw(address, &format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(20_000)))
            .await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_server_that_stops_lets_go_of_connections_that_do_nothing() {
    let (address, stop, serving) =
        start_server(ServerLimits { max_connections: 1, ..ServerLimits::default() }).await;
    let idle = TcpStream::connect(address).await.expect("connected");
    // The one connection there may be is taken: the next one waits until the server stops.
    let waits = TcpStream::connect(address).await.expect("in the queue of the system");
    stop.cancel();
    timeout(PATIENCE, serving).await.expect("in time").expect("no panic");
    drop((idle, waits));
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() {
    let error =
        bind("0.0.0.0:0".parse().expect("an address"), &ApiKeys::default()).await.expect_err("refused");
    assert!(matches!(error, BindError::NotLoopback(_)), "{error}");
    bind("0.0.0.0:0".parse().expect("an address"), &crate::two_keys()).await.expect("there are keys");
    let taken = bind("127.0.0.1:0".parse().expect("an address"), &ApiKeys::default()).await.expect("a port");
    let error = bind(taken.local_addr().expect("an address"), &ApiKeys::default()).await.expect_err("taken");
    assert!(matches!(error, BindError::InUse(_)), "{error}");
}

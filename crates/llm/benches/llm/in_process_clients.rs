//! Who is measured in this process: Doran's client, and below it the floor, bare sockets that parse next to nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use doran_llm::{
    ChatModel, ChatRequest, Delta, Message, ModelApiKey, ModelConfig, ModelId, StreamingMode, collect_reply,
    open_model,
};
use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::measurements::{ClientFigures, monotonic_now, process_cpu_time};
use crate::{LlmBenchError, WARM_UP_CALLS, WARM_UP_PIECES};

fn open_bench_model(
    url: &str,
    name: &str,
    streaming: StreamingMode,
) -> Result<Arc<dyn ChatModel>, LlmBenchError> {
    let id: ModelId = format!("openai-compatible:{url}#{name}").parse()?;
    Ok(open_model(&ModelConfig { streaming, ..ModelConfig::new(id) }, ModelApiKey::none())?)
}

fn bench_request() -> ChatRequest {
    ChatRequest::new(vec![Message::user("m", "안녕하세요?")])
}

/// Doran: calls one after the other.
pub(crate) async fn doran_calls(url: &str, count: usize) -> Result<ClientFigures, LlmBenchError> {
    let model = open_bench_model(url, "whole", StreamingMode::Whole)?;
    for _ in 0..WARM_UP_CALLS {
        collect_reply(model.stream(bench_request())).await?;
    }
    let (before, mut waits) = (process_cpu_time(), Vec::new());
    for _ in 0..count {
        let started = Instant::now();
        if collect_reply(model.stream(bench_request())).await?.text.is_empty() {
            return Err("an empty answer".into());
        }
        waits.push(started.elapsed());
    }
    Ok(ClientFigures::from_waits(process_cpu_time() - before, &waits, count))
}

/// Doran: streams side by side.
pub(crate) async fn doran_streams(
    url: &str,
    name: &str,
    count: usize,
) -> Result<ClientFigures, LlmBenchError> {
    let model = open_bench_model(url, name, StreamingMode::Streamed)?;
    run_concurrently(count, || {
        let model = model.clone();
        async move {
            let mut waits = Vec::new();
            let mut deltas = model.stream(bench_request());
            while let Some(delta) = deltas.next().await {
                if let Delta::Text { text } = delta? {
                    waits.push(elapsed_since_stamp(text.trim_end())?);
                }
            }
            Ok(waits)
        }
    })
    .await
}

/// The moments at which streams were dropped, one after the other.
pub(crate) async fn doran_cancels(url: &str, count: usize) -> Result<Vec<Duration>, LlmBenchError> {
    let model = open_bench_model(url, "endless", StreamingMode::Streamed)?;
    let mut dropped = Vec::new();
    for _ in 0..count {
        let mut deltas = model.stream(bench_request());
        for _ in 0..3 {
            deltas.next().await.ok_or("it ended")??;
        }
        dropped.push(monotonic_now());
        drop(deltas);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(dropped)
}

/// When the server saw clients of endless answers hang up.
pub(crate) async fn fetch_hang_up_times(url: &str) -> Result<Vec<Duration>, LlmBenchError> {
    let mut stream = TcpStream::connect(host_and_port(url)).await?;
    stream.write_all(b"GET /v1/hung-up HTTP/1.1\r\nhost: x\r\n\r\n").await?;
    let body = read_response_body(&mut stream).await?;
    let moments: Vec<u64> = serde_json::from_slice(&body)?;
    Ok(moments.into_iter().map(Duration::from_nanos).collect())
}

/// The floor: calls one after the other on one connection.
pub(crate) async fn floor_calls(url: &str, count: usize) -> Result<ClientFigures, LlmBenchError> {
    let mut stream = TcpStream::connect(host_and_port(url)).await?;
    stream.set_nodelay(true)?;
    let asked = request_bytes("whole", false);
    let (mut before, mut waits) = (process_cpu_time(), Vec::new());
    for nth in 0..WARM_UP_CALLS + count {
        if nth == WARM_UP_CALLS {
            before = process_cpu_time();
            waits.clear();
        }
        let started = Instant::now();
        stream.write_all(&asked).await?;
        read_response_body(&mut stream).await?;
        waits.push(started.elapsed());
    }
    Ok(ClientFigures::from_waits(process_cpu_time() - before, &waits, count))
}

/// The floor: streams side by side, whose lines are searched for the one thing in them.
pub(crate) async fn floor_streams(
    url: &str,
    name: &str,
    count: usize,
) -> Result<ClientFigures, LlmBenchError> {
    let asked: Arc<[u8]> = request_bytes(name, true).into();
    let host: Arc<str> = host_and_port(url).into();
    run_concurrently(count, || {
        let (asked, host) = (asked.clone(), host.clone());
        async move {
            let mut stream = BufReader::new(TcpStream::connect(&*host).await?);
            stream.get_mut().write_all(&asked).await?;
            let (mut waits, mut line) = (Vec::new(), String::new());
            loop {
                line.clear();
                stream.read_line(&mut line).await?;
                if line.is_empty() || line == "data: [DONE]\n" {
                    return Ok(waits);
                }
                if let Some((_, rest)) = line.split_once("\"content\":\"") {
                    waits.push(elapsed_since_stamp(rest.split(' ').next().unwrap_or_default())?);
                }
            }
        }
    })
    .await
}

async fn run_concurrently<F>(count: usize, stream: impl Fn() -> F) -> Result<ClientFigures, LlmBenchError>
where
    F: Future<Output = Result<Vec<Duration>, LlmBenchError>> + Send + 'static,
{
    let before = process_cpu_time();
    let tasks: Vec<_> = (0..count).map(|_| tokio::spawn(stream())).collect();
    let (mut all, mut pieces) = (Vec::new(), 0);
    for task in tasks {
        let waits = task.await??;
        pieces += waits.len();
        all.extend(waits.into_iter().skip(WARM_UP_PIECES));
    }
    Ok(ClientFigures::from_waits(process_cpu_time() - before, &all, pieces))
}

/// How long ago a piece was sent.
fn elapsed_since_stamp(stamp: &str) -> Result<Duration, LlmBenchError> {
    Ok(monotonic_now().saturating_sub(Duration::from_nanos(stamp.parse()?)))
}

fn host_and_port(url: &str) -> String {
    url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned()
}

fn request_bytes(model: &str, streamed: bool) -> Vec<u8> {
    let body = format!(
        "{{\"model\":\"{model}\",\"stream\":{streamed},\"messages\":[{{\"role\":\"user\",\"content\":\"안녕하세요?\"}}]}}"
    );
    let length = body.len();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

async fn read_response_body(stream: &mut TcpStream) -> Result<Vec<u8>, LlmBenchError> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.ok_or("no length")?.parse()?;
            if bytes.len() >= end + 4 + length {
                return Ok(bytes.split_off(end + 4));
            }
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err("the server hung up".into());
        }
    }
}

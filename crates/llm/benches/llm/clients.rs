//! Who is measured in this process: Doran's client, and below it the floor, bare sockets that parse next to nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use doran_llm::{
    ChatModel, ChatRequest, Delta, Message, ModelConfig, ModelId, Secret, Streaming, collect, open,
};
use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::meter::{Figures, cpu, now};
use crate::{Fail, WARM_UP, WARM_UP_CALLS};

fn model(url: &str, name: &str, streaming: Streaming) -> Result<Arc<dyn ChatModel>, Fail> {
    let id: ModelId = format!("openai-compatible:{url}#{name}").parse()?;
    Ok(open(&ModelConfig { streaming, ..ModelConfig::new(id) }, Secret::none())?)
}

fn request() -> ChatRequest {
    ChatRequest::new(vec![Message::user("m", "안녕하세요?")])
}

/// Doran: calls one after the other.
pub(crate) async fn doran_calls(url: &str, count: usize) -> Result<Figures, Fail> {
    let model = model(url, "whole", Streaming::Whole)?;
    for _ in 0..WARM_UP_CALLS {
        collect(model.stream(request())).await?;
    }
    let (before, mut waits) = (cpu(), Vec::new());
    for _ in 0..count {
        let begun = Instant::now();
        if collect(model.stream(request())).await?.text.is_empty() {
            return Err("an empty answer".into());
        }
        waits.push(begun.elapsed());
    }
    Ok(Figures::of(cpu() - before, &waits, count))
}

/// Doran: streams side by side.
pub(crate) async fn doran_streams(url: &str, name: &str, count: usize) -> Result<Figures, Fail> {
    let model = model(url, name, Streaming::Pieces)?;
    side_by_side(count, || {
        let model = model.clone();
        async move {
            let mut waits = Vec::new();
            let mut deltas = model.stream(request());
            while let Some(delta) = deltas.next().await {
                if let Delta::Text { text } = delta? {
                    waits.push(since(text.trim_end())?);
                }
            }
            Ok(waits)
        }
    })
    .await
}

/// The moments at which streams were dropped, one after the other.
pub(crate) async fn doran_cancels(url: &str, count: usize) -> Result<Vec<Duration>, Fail> {
    let model = model(url, "endless", Streaming::Pieces)?;
    let mut dropped = Vec::new();
    for _ in 0..count {
        let mut deltas = model.stream(request());
        for _ in 0..3 {
            deltas.next().await.ok_or("it ended")??;
        }
        dropped.push(now());
        drop(deltas);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(dropped)
}

/// When the server saw clients of endless answers hang up.
pub(crate) async fn hung_up(url: &str) -> Result<Vec<Duration>, Fail> {
    let mut stream = TcpStream::connect(host(url)).await?;
    stream.write_all(b"GET /v1/hung-up HTTP/1.1\r\nhost: x\r\n\r\n").await?;
    let body = whole(&mut stream).await?;
    let moments: Vec<u64> = serde_json::from_slice(&body)?;
    Ok(moments.into_iter().map(Duration::from_nanos).collect())
}

/// The floor: calls one after the other on one connection.
pub(crate) async fn floor_calls(url: &str, count: usize) -> Result<Figures, Fail> {
    let mut stream = TcpStream::connect(host(url)).await?;
    stream.set_nodelay(true)?;
    let asked = asked("whole", false);
    let (mut before, mut waits) = (cpu(), Vec::new());
    for nth in 0..WARM_UP_CALLS + count {
        if nth == WARM_UP_CALLS {
            before = cpu();
            waits.clear();
        }
        let begun = Instant::now();
        stream.write_all(&asked).await?;
        whole(&mut stream).await?;
        waits.push(begun.elapsed());
    }
    Ok(Figures::of(cpu() - before, &waits, count))
}

/// The floor: streams side by side, whose lines are searched for the one thing in them.
pub(crate) async fn floor_streams(url: &str, name: &str, count: usize) -> Result<Figures, Fail> {
    let asked: Arc<[u8]> = asked(name, true).into();
    let host: Arc<str> = host(url).into();
    side_by_side(count, || {
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
                    waits.push(since(rest.split(' ').next().unwrap_or_default())?);
                }
            }
        }
    })
    .await
}

async fn side_by_side<F>(count: usize, stream: impl Fn() -> F) -> Result<Figures, Fail>
where
    F: Future<Output = Result<Vec<Duration>, Fail>> + Send + 'static,
{
    let before = cpu();
    let tasks: Vec<_> = (0..count).map(|_| tokio::spawn(stream())).collect();
    let (mut all, mut pieces) = (Vec::new(), 0);
    for task in tasks {
        let waits = task.await??;
        pieces += waits.len();
        all.extend(waits.into_iter().skip(WARM_UP));
    }
    Ok(Figures::of(cpu() - before, &all, pieces))
}

/// How long ago a piece was sent.
fn since(stamp: &str) -> Result<Duration, Fail> {
    Ok(now().saturating_sub(Duration::from_nanos(stamp.parse()?)))
}

fn host(url: &str) -> String {
    url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned()
}

fn asked(model: &str, streamed: bool) -> Vec<u8> {
    let body = format!(
        "{{\"model\":\"{model}\",\"stream\":{streamed},\"messages\":[{{\"role\":\"user\",\"content\":\"안녕하세요?\"}}]}}"
    );
    let length = body.len();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

async fn whole(stream: &mut TcpStream) -> Result<Vec<u8>, Fail> {
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

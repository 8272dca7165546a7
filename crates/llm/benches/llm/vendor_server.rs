//! A vendor that answers at once, in a process of its own so that its work is in nobody's figure.
//!
//! The name of the model says what is wanted: `whole` is an answer in one piece, `paced/N/US` is N pieces, one every US
//! microseconds, each holding the moment it was sent on the clock that all processes share, and `endless` goes on
//! until the client hangs up. `GET /v1/hung-up` tells when clients of endless answers did.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::measurements::monotonic_now;
use crate::{CONCURRENT_STREAMS, LlmBenchError};

#[derive(Default)]
struct VendorServerState {
    streams: AtomicU64,
    hung_up: Mutex<Vec<u64>>,
}

/// Serves until its input ends; says its address first.
pub(crate) async fn serve() -> Result<(), LlmBenchError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}", listener.local_addr()?);
    let shared = Arc::new(VendorServerState::default());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let shared = shared.clone();
            tokio::spawn(async move {
                // A client that goes away in the middle is part of the measurement.
                serve_connection(stream, &shared).await.ok();
            });
        }
    });
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()))
        .await??;
    Ok(())
}

/// Answers the requests of one connection, which stays open between them.
async fn serve_connection(mut stream: TcpStream, shared: &VendorServerState) -> Result<(), LlmBenchError> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    while let Some((path, body)) = read_request(&mut stream, &mut bytes).await? {
        if path == "/v1/hung-up" {
            let moments = std::mem::take(&mut *shared.hung_up.lock().unwrap_or_else(PoisonError::into_inner));
            write_json_response(&mut stream, &json!(moments)).await?;
            continue;
        }
        let (model, streamed) = (body["model"].as_str().unwrap_or_default(), body["stream"] == true);
        match model.split('/').collect::<Vec<_>>()[..] {
            ["paced", pieces, micros] if streamed => {
                let pause = Duration::from_micros(micros.parse()?);
                stream_paced(&mut stream, shared, pieces.parse()?, pause).await?;
            }
            ["endless"] if streamed => {
                stream_endless(&mut stream).await;
                let moment = monotonic_now().as_nanos() as u64;
                shared.hung_up.lock().unwrap_or_else(PoisonError::into_inner).push(moment);
                return Ok(());
            }
            _ => write_json_response(&mut stream, &completion_body()).await?,
        }
    }
    Ok(())
}

async fn read_request(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
) -> Result<Option<(String, Value)>, LlmBenchError> {
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
            if bytes.len() >= end + 4 + length {
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let body = serde_json::from_slice(&bytes[end + 4..end + 4 + length]).unwrap_or(Value::Null);
                bytes.drain(..end + 4 + length);
                return Ok(Some((path, body)));
            }
        }
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}

async fn write_json_response(stream: &mut TcpStream, body: &Value) -> Result<(), LlmBenchError> {
    let body = body.to_string();
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    Ok(stream.write_all((head + &body).as_bytes()).await?)
}

fn completion_body() -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "안녕하세요. 무엇을 도와드릴까요?" } }],
        "usage": { "prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21 },
    })
}

const STREAM_RESPONSE_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

async fn stream_paced(
    stream: &mut TcpStream,
    shared: &VendorServerState,
    pieces: u32,
    pause: Duration,
) -> Result<(), LlmBenchError> {
    // Streams of many people do not tick together.
    let nth = shared.streams.fetch_add(1, Ordering::Relaxed) % CONCURRENT_STREAMS as u64;
    stream.write_all(STREAM_RESPONSE_HEAD).await?;
    tokio::time::sleep(pause.mul_f64(nth as f64 / CONCURRENT_STREAMS as f64)).await;
    let mut ticks = tokio::time::interval(pause);
    for _ in 0..pieces {
        ticks.tick().await;
        let stamp = monotonic_now().as_nanos();
        write_event(stream, &json!({ "content": format!("{stamp} ") }), &Value::Null).await?;
    }
    write_event(stream, &json!({}), &json!("stop")).await?;
    let end = "data: [DONE]\n\n";
    stream.write_all(format!("{:x}\r\n{end}\r\n0\r\n\r\n", end.len()).as_bytes()).await?;
    Ok(())
}

async fn write_event(stream: &mut TcpStream, delta: &Value, finish: &Value) -> Result<(), LlmBenchError> {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    });
    let event = format!("data: {body}\n\n");
    Ok(stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await?)
}

/// A piece every millisecond, until the other side hangs up.
async fn stream_endless(stream: &mut TcpStream) {
    let (mut reading, mut writing) = stream.split();
    let speaking = async {
        writing.write_all(STREAM_RESPONSE_HEAD).await.ok();
        let body = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": { "content": "말 " }, "finish_reason": null }],
        });
        let event = format!("data: {body}\n\n");
        let event = format!("{:x}\r\n{event}\r\n", event.len());
        while writing.write_all(event.as_bytes()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let mut rest = [0; 64];
    tokio::select! {
        () = speaking => {}
        _ = reading.read(&mut rest) => {}
    }
}

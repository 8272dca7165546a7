//! Asks a server of ours over HTTP and reads its events, as any other client would.

use std::net::SocketAddr;
use std::pin::Pin;

use doran_server::api::{Event, StartRun};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::output::both;

/// Starts a run on a thread and hands every event of it to `each`.
pub(crate) async fn ask(
    server: SocketAddr,
    thread: &str,
    run: &StartRun,
    mut each: impl FnMut(&Event) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let socket = TcpStream::connect(server).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post(format!("/api/threads/{thread}/runs"))
        .header(header::HOST, server.to_string())
        .header(header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_string(run)?)?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(more) = more(&mut body).await? {
        text.extend_from_slice(&more);
        while status.is_success()
            && let Some(end) = text.windows(2).position(|pair| pair == b"\n\n")
        {
            let frame: Vec<u8> = text.drain(..end + 2).collect();
            if let Some(event) = event(&frame)? {
                each(&event)?;
            }
        }
    }
    drop(sender);
    connection.await??;
    if !status.is_success() {
        let said = String::from_utf8_lossy(&text).into_owned();
        return Err(both!("서버가 {status}로 답했습니다", "the server answered {status}")
            .because(said)
            .into());
    }
    Ok(())
}

async fn more(body: &mut Incoming) -> anyhow::Result<Option<Vec<u8>>> {
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        match frame.transpose()? {
            None => return Ok(None),
            // A frame that is not data is a trailer, and nothing of ours sends one.
            Some(frame) => match frame.into_data() {
                Ok(data) => return Ok(Some(data.to_vec())),
                Err(_) => continue,
            },
        }
    }
}

/// The event of a frame; none for a sign of life.
fn event(frame: &[u8]) -> anyhow::Result<Option<Event>> {
    let text = std::str::from_utf8(frame)?;
    match text.lines().find_map(|line| line.strip_prefix("data: ")) {
        Some(data) => Ok(Some(serde_json::from_str(data)?)),
        None => Ok(None),
    }
}

//! A local HTTP server that replaces a vendor: it records requests, rejects what the vendor rejects, and sends scripted
//! bytes.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::vendor_rules::vendor_rejection;

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct ReceivedHttpRequest {
    /// The path with its query.
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, if it was JSON.
    pub body: Value,
    /// The body as it was sent.
    pub body_text: String,
}

impl ReceivedHttpRequest {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The response to one request.
#[derive(Clone, Debug)]
pub struct ScriptedHttpResponse {
    /// The status.
    pub status: u16,
    /// The headers besides the length.
    pub headers: Vec<(String, String)>,
    /// The body, piece by piece.
    pub pieces: Vec<ScriptedBodyPiece>,
}

/// A piece of a response body.
#[derive(Clone, Debug)]
pub enum ScriptedBodyPiece {
    /// Sends these bytes at once.
    Bytes(Vec<u8>),
    /// Sends nothing for this long.
    Pause(Duration),
    /// Sends nothing any more and keeps the connection open.
    Stall,
    /// Resets the connection without closing it cleanly.
    Reset,
    /// Repeats these bytes until the client disconnects.
    Forever(Vec<u8>),
}

impl ScriptedHttpResponse {
    /// Creates an event stream, each event in its own piece.
    pub fn events(events: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let pieces =
            events.into_iter().map(|event| ScriptedBodyPiece::Bytes(event.as_ref().to_vec())).collect();
        Self { status: 200, headers: vec![("content-type".into(), "text/event-stream".into())], pieces }
    }

    /// Creates a JSON response.
    pub fn json(status: u16, body: impl AsRef<[u8]>) -> Self {
        let pieces = vec![ScriptedBodyPiece::Bytes(body.as_ref().to_vec())];
        Self { status, headers: vec![("content-type".into(), "application/json".into())], pieces }
    }

    /// Sets a header and replaces one of the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a piece.
    #[must_use]
    pub fn then_piece(mut self, piece: ScriptedBodyPiece) -> Self {
        self.pieces.push(piece);
        self
    }

    /// Splits the body into pieces of one byte.
    #[must_use]
    pub fn split_into_bytes(mut self) -> Self {
        let split = |piece: ScriptedBodyPiece| match piece {
            ScriptedBodyPiece::Bytes(bytes) => {
                bytes.into_iter().map(|byte| ScriptedBodyPiece::Bytes(vec![byte])).collect()
            }
            other => vec![other],
        };
        self.pieces = self.pieces.into_iter().flat_map(split).collect();
        self
    }

    /// Keeps only the first pieces.
    #[must_use]
    pub fn keep_first_pieces(mut self, pieces: usize) -> Self {
        self.pieces.truncate(pieces);
        self
    }
}

type ScriptedResponder = Arc<dyn Fn(&ReceivedHttpRequest) -> ScriptedHttpResponse + Send + Sync>;

/// The server. It stops when it is dropped.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<ScriptedServerState>,
    task: JoinHandle<()>,
}

struct ScriptedServerState {
    responder: ScriptedResponder,
    received_requests: Mutex<Vec<ReceivedHttpRequest>>,
    open_connections: AtomicUsize,
    sent_bytes: AtomicUsize,
}

impl ScriptedServer {
    /// Starts a server that answers each request with the next response, and with status 418 when none is left.
    pub async fn start_with_responses(
        turns: impl IntoIterator<Item = ScriptedHttpResponse>,
    ) -> std::io::Result<Self> {
        let turns = Mutex::new(turns.into_iter().collect::<VecDeque<ScriptedHttpResponse>>());
        Self::start_with_responder(move |_| {
            let next = turns.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            next.unwrap_or_else(|| {
                ScriptedHttpResponse::json(418, r#"{"error":{"message":"the script has no turn left"}}"#)
            })
        })
        .await
    }

    /// Starts a server that computes the response to each request.
    pub async fn start_with_responder(
        rule: impl Fn(&ReceivedHttpRequest) -> ScriptedHttpResponse + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Self::start_with_responder_at(Ipv4Addr::LOCALHOST.into(), rule).await
    }

    /// Like [`start_with_responder`](Self::start_with_responder), at another local address.
    pub async fn start_with_responder_at(
        host: IpAddr,
        rule: impl Fn(&ReceivedHttpRequest) -> ScriptedHttpResponse + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((host, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ScriptedServerState {
            responder: Arc::new(rule),
            received_requests: Mutex::default(),
            open_connections: AtomicUsize::new(0),
            sent_bytes: AtomicUsize::new(0),
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, task })
    }

    /// Returns the base URL, such as `http://127.0.0.1:4711`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every request so far.
    pub fn received_requests(&self) -> Vec<ReceivedHttpRequest> {
        self.shared.received_requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.shared.open_connections.load(Ordering::SeqCst)
    }

    /// Returns the number of response bytes sent so far.
    pub fn sent_bytes(&self) -> usize {
        self.shared.sent_bytes.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<ScriptedServerState>) {
    // The connections belong to this task, so they end with it.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        shared.open_connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(async move {
            let outcome = serve_connection(stream, &shared).await;
            shared.open_connections.fetch_sub(1, Ordering::SeqCst);
            if let Err(error) = outcome {
                tracing::debug!(%error, "a connection ended early");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one request and closes the connection.
async fn serve_connection(mut stream: TcpStream, shared: &ScriptedServerState) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(heard) = read_request(&mut stream).await? else { return Ok(()) };
    let turn = match vendor_rejection(&heard.path, &heard.body) {
        Some(rejection) => rejection,
        None => (shared.responder)(&heard),
    };
    shared.received_requests.lock().unwrap_or_else(PoisonError::into_inner).push(heard);
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", turn.status);
    for (name, value) in &turn.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("transfer-encoding: chunked\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    for piece in turn.pieces {
        match piece {
            ScriptedBodyPiece::Bytes(bytes) => write_chunk(&mut stream, &bytes, shared).await?,
            ScriptedBodyPiece::Pause(while_of) => tokio::time::sleep(while_of).await,
            ScriptedBodyPiece::Stall => return wait_until_closed(&mut stream).await,
            ScriptedBodyPiece::Reset => {
                stream.set_zero_linger()?;
                return Ok(());
            }
            ScriptedBodyPiece::Forever(bytes) => loop {
                write_chunk(&mut stream, &bytes, shared).await?;
            },
        }
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.shutdown().await
}

async fn write_chunk(
    stream: &mut TcpStream,
    bytes: &[u8],
    shared: &ScriptedServerState,
) -> std::io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    stream.write_all(&chunk).await?;
    stream.flush().await?;
    shared.sent_bytes.fetch_add(bytes.len(), Ordering::SeqCst);
    Ok(())
}

async fn wait_until_closed(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 256];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<ReceivedHttpRequest>> {
    let mut bytes = Vec::new();
    let mut more = [0; 8 << 10];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut more).await? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&more[..count]),
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.split("\r\n");
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        match stream.read(&mut more).await? {
            0 => return Ok(None),
            count => body.extend_from_slice(&more[..count]),
        }
    }
    Ok(Some(ReceivedHttpRequest {
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        body_text: String::from_utf8_lossy(&body).into_owned(),
    }))
}

//! The load, the same for every side: plain HTTP/1.1 over connections that are kept.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ServerBenchError;
use crate::graph::{MODEL_WORDS, UNANSWERED_QUESTION};
use crate::measured_server::MeasuredServerKind;

/// The longest that anything may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const QUESTION: &str = "안녕하세요?";

/// Where a side is and how it is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerEndpoint {
    pub kind: MeasuredServerKind,
    pub address: SocketAddr,
}

/// What the requests of a crowd took.
#[derive(Debug, Default)]
pub(crate) struct RequestTimes {
    /// Milliseconds of each request.
    pub times: Vec<f64>,
    /// Requests a second of the best slice.
    pub best: f64,
    seconds: f64,
}

impl RequestTimes {
    pub(crate) fn add(&mut self, more: Self) {
        self.best = self.best.max(more.rate());
        self.seconds += more.seconds;
        self.times.extend(more.times);
    }

    pub(crate) fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.times.len() as f64 / self.seconds } else { 0.0 }
    }
}

/// So many clients, each asking again as soon as it has its answer, for so long. Every question is a new thread.
pub(crate) async fn measure_clients(
    door: &ServerEndpoint,
    clients: usize,
    slice: Duration,
) -> Result<RequestTimes, ServerBenchError> {
    // Connections, caches and compiled paths are warm before it counts.
    ask_until(*door, Instant::now() + slice / 5).await?;
    let started = Instant::now();
    let end = started + slice;
    let asking: Vec<_> = (0..clients).map(|_| tokio::spawn(ask_until(*door, end))).collect();
    let mut taken = RequestTimes::default();
    for client in asking {
        taken.times.extend(client.await??);
    }
    taken.seconds = started.elapsed().as_secs_f64();
    Ok(taken)
}

async fn ask_until(door: ServerEndpoint, end: Instant) -> Result<Vec<f64>, ServerBenchError> {
    let mut wire = LoadConnection::open(door.address).await?;
    let mut times = Vec::new();
    while Instant::now() < end {
        let request = door.wait_request();
        let started = Instant::now();
        let response = wire.ask(&request, None).await?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
        // What the last node says is there only when all three ran.
        if !response.ok || find(&response.body, b"\"after\"").is_none() {
            let shown = String::from_utf8_lossy(&response.body);
            return Err(format!("{} answered otherwise: {shown:.300}", door.kind.name()).into());
        }
    }
    Ok(times)
}

/// Milliseconds from a question to the first word of the model, one after the other.
pub(crate) async fn first_tokens(door: &ServerEndpoint, count: usize) -> Result<Vec<f64>, ServerBenchError> {
    let mut wire = LoadConnection::open(door.address).await?;
    let mut times = Vec::new();
    for nth in 0..count + 5 {
        let response = wire.ask(&door.stream_request(), Some(MODEL_WORDS[0].trim_end().as_bytes())).await?;
        let first = response.first_word_at.ok_or_else(|| {
            let shown = String::from_utf8_lossy(&response.body);
            format!("no words came from {}: {shown:.300}", door.kind.name())
        })?;
        // The first few warm up.
        if nth >= 5 {
            times.push(first.as_secs_f64() * 1000.0);
        }
    }
    Ok(times)
}

/// A stream in which nothing will happen: a run whose model never answers, watched.
pub(crate) async fn start_idle_run(door: &ServerEndpoint) -> Result<String, ServerBenchError> {
    if door.kind != MeasuredServerKind::Doran {
        return Ok("/idle".into());
    }
    let mut socket = TcpStream::connect(door.address).await?;
    let body = format!(r#"{{"agent":"three","message":"{UNANSWERED_QUESTION}"}}"#);
    socket.write_all(&post("/api/threads/idle/runs", &body)).await?;
    let mut seen = Vec::new();
    loop {
        if let Some(end) = find(&seen, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]);
            let place = head.lines().find_map(|line| line.strip_prefix("location: "));
            return place.map(str::to_owned).ok_or_else(|| format!("no run was started: {head}").into());
        }
        if socket.read_buf(&mut seen).await? == 0 {
            return Err(format!("no run was started: {}", String::from_utf8_lossy(&seen)).into());
        }
    }
}

/// Opens so many streams and leaves them open.
pub(crate) async fn open_idle_streams(
    door: &ServerEndpoint,
    path: &str,
    count: usize,
) -> Result<Vec<TcpStream>, ServerBenchError> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let mut socket = TcpStream::connect(door.address).await?;
        socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
        let mut seen = Vec::new();
        // The stream is open once its head and its first line are here.
        while find(&seen, b"\r\n\r\n").is_none_or(|at| seen.len() == at + 4) {
            if tokio::time::timeout(READ_TIMEOUT, socket.read_buf(&mut seen)).await?? == 0 {
                return Err("a stream was closed".into());
            }
        }
        if !seen.starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&seen).into_owned().into());
        }
        held.push(socket);
    }
    Ok(held)
}

/// Whether the side is ready to answer.
pub(crate) async fn is_ready(door: &ServerEndpoint) -> bool {
    let path = if door.kind == MeasuredServerKind::Dev { "/ok" } else { "/healthz" };
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let asked = async {
        let mut wire = LoadConnection::open(door.address).await?;
        wire.ask(request.as_bytes(), None).await
    };
    asked.await.is_ok_and(|response| response.ok)
}

impl ServerEndpoint {
    fn wait_request(&self) -> Vec<u8> {
        let thread = uuid::Uuid::new_v4();
        match self.kind {
            MeasuredServerKind::Doran | MeasuredServerKind::Program => {
                let body = format!(r#"{{"agent":"three","message":"{QUESTION}"}}"#);
                post(&format!("/api/threads/{thread}/runs?wait=true"), &body)
            }
            MeasuredServerKind::FastApi => {
                post("/chat", &format!(r#"{{"thread":"{thread}","message":"{QUESTION}"}}"#))
            }
            MeasuredServerKind::Dev => {
                let body = format!(
                    r#"{{"assistant_id":"three","if_not_exists":"create","durability":"sync","input":{{"messages":[{{"role":"user","content":"{QUESTION}"}}]}}}}"#
                );
                post(&format!("/threads/{thread}/runs/wait"), &body)
            }
        }
    }

    fn stream_request(&self) -> Vec<u8> {
        let thread = uuid::Uuid::new_v4();
        match self.kind {
            MeasuredServerKind::Doran | MeasuredServerKind::Program | MeasuredServerKind::Dev => {
                let body = format!(r#"{{"agent":"three","message":"{QUESTION}"}}"#);
                post(&format!("/api/threads/{thread}/runs"), &body)
            }
            MeasuredServerKind::FastApi => {
                post("/chat/stream", &format!(r#"{{"thread":"{thread}","message":"{QUESTION}"}}"#))
            }
        }
    }
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A connection.
struct LoadConnection {
    socket: TcpStream,
}

struct LoadResponse {
    ok: bool,
    body: Vec<u8>,
    /// When the words that were looked for came.
    first_word_at: Option<Duration>,
}

impl LoadConnection {
    async fn open(address: SocketAddr) -> Result<Self, ServerBenchError> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket })
    }

    /// Sends a request and reads its whole answer.
    async fn ask(&mut self, request: &[u8], word: Option<&[u8]>) -> Result<LoadResponse, ServerBenchError> {
        let started = Instant::now();
        self.socket.write_all(request).await?;
        let mut seen = Vec::with_capacity(4096);
        let (mut first, mut head) = (None, None);
        loop {
            if head.is_none() {
                head = find(&seen, b"\r\n\r\n").map(|at| (at + 4, BodyLength::from_head(&seen[..at])));
            }
            if let (Some(word), None) = (word, first)
                && find(&seen, word).is_some()
            {
                first = Some(started.elapsed());
            }
            if let Some((at, length)) = &head
                && length.is_complete(&seen[*at..])
            {
                let ok = seen.starts_with(b"HTTP/1.1 200");
                return Ok(LoadResponse { ok, body: seen.split_off(*at), first_word_at: first });
            }
            if tokio::time::timeout(READ_TIMEOUT, self.socket.read_buf(&mut seen)).await?? == 0 {
                return Err("the connection was closed in the middle".into());
            }
        }
    }
}

/// How the end of a body is told.
enum BodyLength {
    Bytes(usize),
    Chunks,
}

impl BodyLength {
    fn from_head(head: &[u8]) -> Self {
        let text = String::from_utf8_lossy(head).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        length.map_or(Self::Chunks, Self::Bytes)
    }

    fn is_complete(&self, body: &[u8]) -> bool {
        match self {
            Self::Bytes(length) => body.len() >= *length,
            Self::Chunks => body.ends_with(b"\r\n0\r\n\r\n") || body == b"0\r\n\r\n",
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

//! A scripted server that speaks real HTTP on a loopback socket, and keeps its requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct HttpTestRequest {
    pub method: String,
    /// Path and query as they came.
    pub target: String,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl HttpTestRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

/// What is answered.
pub enum HttpTestReply {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// These bytes, then the same again and again until nobody listens.
    Endless(Vec<u8>, Vec<u8>),
    /// These bytes, then silence.
    Stall(Vec<u8>),
}

/// The server.
pub struct HttpTestServer {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<HttpTestRequest>>>,
}

impl HttpTestServer {
    /// One on a free port of `127.0.0.1` that answers by `script`.
    pub fn start(script: impl Fn(&HttpTestRequest) -> HttpTestReply + Send + Sync + 'static) -> Self {
        Self::start_on("127.0.0.1:0".parse().expect("address"), script)
    }

    /// One at `address`.
    pub fn start_on(
        address: SocketAddr,
        script: impl Fn(&HttpTestRequest) -> HttpTestReply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("bind");
        let address = listener.local_addr().expect("address");
        let (requests, script) = (Arc::new(Mutex::new(Vec::new())), Arc::new(script));
        let seen = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, script) = (seen.clone(), script.clone());
                std::thread::spawn(move || serve_connection(stream, &seen, script.as_ref()));
            }
        });
        Self { address, requests }
    }

    /// Its requests so far, in order.
    pub fn requests(&self) -> Vec<HttpTestRequest> {
        self.requests.lock().expect("lock").clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A whole answer that closes the connection.
pub fn http_reply(status: &str, headers: &str, body: &[u8]) -> HttpTestReply {
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    HttpTestReply::Bytes([head.as_bytes(), body].concat())
}

pub fn http_json_reply(value: &Value) -> HttpTestReply {
    http_reply("200 OK", "content-type: application/json\r\n", value.to_string().as_bytes())
}

pub fn redirect_reply(to: &str) -> HttpTestReply {
    http_reply("302 Found", &format!("location: {to}\r\n"), b"")
}

fn serve_connection(
    stream: TcpStream,
    seen: &Mutex<Vec<HttpTestRequest>>,
    script: &dyn Fn(&HttpTestRequest) -> HttpTestReply,
) {
    let mut reader = BufReader::new(stream.try_clone().expect("clone"));
    let mut stream = stream;
    let Some(request) = read_request(&mut reader) else { return };
    seen.lock().expect("lock").push(request.clone());
    // The other side may have hung up; that is its right.
    let written = match script(&request) {
        HttpTestReply::Bytes(bytes) => stream.write_all(&bytes),
        HttpTestReply::Endless(first, again) => stream.write_all(&first).and_then(|()| {
            loop {
                stream.write_all(&again)?;
            }
        }),
        HttpTestReply::Stall(first) => {
            stream.write_all(&first).map(|()| std::thread::sleep(Duration::from_secs(30)))
        }
    };
    drop(written);
}

fn read_request(reader: &mut impl BufRead) -> Option<HttpTestRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let mut request = HttpTestRequest {
        method: words.next()?.into(),
        target: words.next()?.into(),
        ..HttpTestRequest::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Some(request)
}

//! A scripted far end that speaks real HTTP on a loopback socket, and remembers what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// What was asked.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    /// Path and query as they came.
    pub target: String,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

/// What is answered.
pub enum Reply {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// These bytes, then the same again and again until nobody listens.
    Endless(Vec<u8>, Vec<u8>),
    /// These bytes, then silence.
    Stall(Vec<u8>),
}

/// A far end.
pub struct FarEnd {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FarEnd {
    /// One on a free port of `127.0.0.1` that answers by `script`.
    pub fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0".parse().expect("address"), script)
    }

    /// One at `address`.
    pub fn on(address: SocketAddr, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).expect("bind");
        let address = listener.local_addr().expect("address");
        let (asked, script) = (Arc::new(Mutex::new(Vec::new())), Arc::new(script));
        let seen = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, script) = (seen.clone(), script.clone());
                std::thread::spawn(move || serve(stream, &seen, script.as_ref()));
            }
        });
        Self { address, asked }
    }

    /// What it was asked so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("lock").clone()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A whole answer that closes the connection.
pub fn answer(status: &str, headers: &str, body: &[u8]) -> Reply {
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    Reply::Bytes([head.as_bytes(), body].concat())
}

pub fn json(value: &Value) -> Reply {
    answer("200 OK", "content-type: application/json\r\n", value.to_string().as_bytes())
}

pub fn redirect(to: &str) -> Reply {
    answer("302 Found", &format!("location: {to}\r\n"), b"")
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Asked>>, script: &dyn Fn(&Asked) -> Reply) {
    let mut reader = BufReader::new(stream.try_clone().expect("clone"));
    let mut stream = stream;
    let Some(asked) = read(&mut reader) else { return };
    seen.lock().expect("lock").push(asked.clone());
    // The other side may have hung up; that is its right.
    let written = match script(&asked) {
        Reply::Bytes(bytes) => stream.write_all(&bytes),
        Reply::Endless(first, again) => stream.write_all(&first).and_then(|()| {
            loop {
                stream.write_all(&again)?;
            }
        }),
        Reply::Stall(first) => stream.write_all(&first).map(|()| std::thread::sleep(Duration::from_secs(30))),
    };
    drop(written);
}

fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let mut asked = Asked { method: words.next()?.into(), target: words.next()?.into(), ..Asked::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        asked.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8_lossy(&body).into_owned();
    Some(asked)
}

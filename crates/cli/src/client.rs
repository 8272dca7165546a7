//! Asks a server of ours over HTTP and reads its events, as any other client would.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use doran_server::api::RunEvent;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};
use crate::secret::SecretText;

/// The file in the data directory that says where its server is.
const SERVER_FILE_NAME: &str = "server.json";
/// A server of this machine takes a connection at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The most bytes of an answer that is read whole.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// A server, and the key that opens it.
#[derive(Clone, Debug)]
pub(crate) struct ServerHttpClient {
    pub(crate) address: SocketAddr,
    key: Option<SecretText>,
}

/// What the file says.
#[derive(Serialize, Deserialize)]
struct ServerAddressFile {
    address: SocketAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// What came back: its status, what it says, and the connection that brings it.
struct ServerResponse {
    status: StatusCode,
    body: Incoming,
    connection: JoinHandle<hyper::Result<()>>,
}

impl ServerHttpClient {
    /// Asks the server at this address.
    pub(crate) fn new(address: SocketAddr, key: Option<&str>) -> Self {
        let address = match address.ip().is_unspecified() {
            true => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port()),
            false => address,
        };
        Self { address, key: key.map(SecretText::new) }
    }

    /// The server that has this data directory, if it said where it is.
    pub(crate) fn from_data_dir(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join(SERVER_FILE_NAME)).ok()?;
        let ServerAddressFile { address, key } = serde_json::from_str(&text).ok()?;
        Some(Self::new(address, key.as_deref()))
    }

    /// Says in the data directory where the server is. Only the owner of the directory can read it.
    pub(crate) fn write_address_file(&self, folder: &Path) -> Result<(), BilingualMessage> {
        let place = ServerAddressFile {
            address: self.address,
            key: self.key.as_ref().map(|key| key.reveal().to_owned()),
        };
        let path = folder.join(SERVER_FILE_NAME);
        let shown = path.display();
        let written = serde_json::to_vec(&place).map_err(std::io::Error::other);
        written.and_then(|text| data_dir::write_private_file(&path, &text)).map_err(|error| {
            bilingual!("`{shown}`에 쓸 수 없습니다", "cannot write `{shown}`").with_cause(error)
        })
    }

    /// Takes the word back.
    pub(crate) fn remove_address_file(folder: &Path) {
        // Gone already, or left over: the next server writes it anew, and nobody believes it without the lock.
        std::fs::remove_file(folder.join(SERVER_FILE_NAME)).ok();
    }

    /// Asks for JSON.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.request_json(Method::GET, path, Vec::new()).await
    }

    /// Sends JSON and reads JSON.
    pub(crate) async fn post(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Value> {
        self.request_json(Method::POST, path, serde_json::to_vec(body)?).await
    }

    /// Removes a thing; whether it was there.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<bool> {
        let answered = self.send_request(Method::DELETE, path, "application/json", Vec::new()).await?;
        if answered.status == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        read_response_body(answered).await.map(|_| true)
    }

    /// Sends a file and reads JSON.
    pub(crate) async fn upload(&self, path: &str, bytes: Vec<u8>) -> anyhow::Result<Value> {
        let answered = self.send_request(Method::POST, path, "application/octet-stream", bytes).await?;
        Ok(serde_json::from_slice(&read_response_body(answered).await?)?)
    }

    /// Sends JSON and hands every event that comes back to `each`.
    pub(crate) async fn stream_events(
        &self,
        path: &str,
        body: Option<&impl Serialize>,
        mut each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut answered = match body {
            Some(body) => {
                self.send_request(Method::POST, path, "application/json", serde_json::to_vec(body)?).await?
            }
            None => self.send_request(Method::GET, path, "application/json", Vec::new()).await?,
        };
        if !answered.status.is_success() {
            read_response_body(answered).await?;
            return Ok(());
        }
        let mut text = Vec::new();
        let cut_off = |error: hyper::Error| self.connection_lost_error().with_cause(error);
        while let Some(more) = read_body_chunk(&mut answered.body).await.map_err(cut_off)? {
            text.extend_from_slice(&more);
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = text.drain(..end + 2).collect();
                if let Some(event) = parse_sse_event(&frame)? {
                    each(&event)?;
                }
            }
        }
        answered.connection.await?.map_err(cut_off)?;
        Ok(())
    }

    /// What a stream that broke off means: a run belongs to the store, and not to the connection.
    fn connection_lost_error(&self) -> BilingualMessage {
        let server = self.address;
        bilingual!(
            "서버 http://{server} 와의 연결이 끊겼습니다. 실행은 서버에서, 멈췄다면 다음 시작에서 이어집니다",
            "the connection to the server http://{server} broke off; the run goes on there, or at its next start if it stopped"
        )
        .with_code("stopping")
    }

    async fn request_json(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Value> {
        let answered = self.send_request(method, path, "application/json", body).await?;
        Ok(serde_json::from_slice(&read_response_body(answered).await?)?)
    }

    async fn send_request(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<ServerResponse> {
        let server = self.address;
        let gone = || {
            bilingual!(
                "서버 http://{server} 가 답하지 않습니다",
                "the server http://{server} does not answer"
            )
        };
        let socket = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(server))
            .await
            .map_err(|late| gone().with_cause(late))?
            .map_err(|error| gone().with_cause(error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(|error| gone().with_cause(error))?;
        let connection = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            // A server answers to the names it was given and to those of this machine. The address is known already.
            .header(header::HOST, "localhost")
            .header(header::CONNECTION, "close")
            .header(header::CONTENT_TYPE, kind);
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.reveal()));
        }
        let sent = sender.send_request(request.body(SingleChunkBody(Some(body.into())))?).await;
        let response = sent.map_err(|error| gone().with_cause(error))?;
        Ok(ServerResponse { status: response.status(), body: response.into_body(), connection })
    }
}

/// Encodes a name for a path or a query.
pub(crate) fn percent_encode(name: &str) -> String {
    utf8_percent_encode(name, URL_RESERVED).to_string()
}

/// Everything but the unreserved characters of RFC 3986.
const URL_RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// All that was answered. A refusal becomes an error in the words of the server, in both languages.
async fn read_response_body(mut answered: ServerResponse) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let cut_off = |error: hyper::Error| {
        bilingual!("서버의 답이 도중에 끊겼습니다", "the answer of the server broke off").with_cause(error)
    };
    while let Some(more) = read_body_chunk(&mut answered.body).await.map_err(cut_off)? {
        text.extend_from_slice(&more);
        if text.len() > MAX_RESPONSE_BYTES {
            return Err(bilingual!("서버의 답이 너무 깁니다", "the answer of the server is too long").into());
        }
    }
    let status = answered.status;
    if status.is_success() {
        return Ok(text);
    }
    let problem: Value = serde_json::from_slice(&text).unwrap_or_default();
    let field = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default();
    let (ko, en) = (field("title_ko"), field("title"));
    let refused = bilingual!("서버가 {status}로 답했습니다: {ko}", "the server answered {status}: {en}")
        .with_code(field("code"));
    let why = BilingualMessage::new(field("detail_ko").to_owned(), field("detail").to_owned());
    Err(if why.en.is_empty() { refused.into() } else { refused.with_cause(why).into() })
}

async fn read_body_chunk(body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        match frame.transpose()? {
            None => return Ok(None),
            // A frame that is not data is a trailer, and nothing of ours sends one.
            Some(frame) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_) => continue,
            },
        }
    }
}

/// The event of a frame; none for a sign of life.
fn parse_sse_event(frame: &[u8]) -> anyhow::Result<Option<RunEvent>> {
    let text = std::str::from_utf8(frame)?;
    match text.lines().find_map(|line| line.strip_prefix("data: ")) {
        Some(data) => Ok(Some(serde_json::from_str(data)?)),
        None => Ok(None),
    }
}

/// Bytes, sent in one piece.
struct SingleChunkBody(Option<Bytes>);

impl Body for SingleChunkBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    #[test]
    fn a_server_is_found_by_its_file_and_the_file_is_its_owners() {
        let scratch = TestDirectory::new();
        assert!(ServerHttpClient::from_data_dir(scratch.path()).is_none());
        ServerHttpClient::new("0.0.0.0:81".parse().expect("address"), Some("hunter2"))
            .write_address_file(scratch.path())
            .expect("written");
        let found = ServerHttpClient::from_data_dir(scratch.path()).expect("found");
        assert_eq!(found.address.to_string(), "127.0.0.1:81");
        assert!(found.key.as_ref().is_some_and(|key| key.reveal() == "hunter2"));
        assert!(!format!("{found:?}").contains("hunter2"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode =
                std::fs::metadata(scratch.path().join(SERVER_FILE_NAME)).expect("file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        ServerHttpClient::remove_address_file(scratch.path());
        assert!(ServerHttpClient::from_data_dir(scratch.path()).is_none());
    }

    #[test]
    fn names_are_safe_in_a_path() {
        assert_eq!(percent_encode("a/가 ?"), "a%2F%EA%B0%80%20%3F");
    }
}

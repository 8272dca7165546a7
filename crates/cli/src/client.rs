//! Asks a server of ours over HTTP and reads its events, as any other client would.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use doran_server::api::{AddedDocument, Problem, RunEvent};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};
use crate::secret::SecretText;

/// The file in the data directory that says where its server is.
const SERVER_FILE_NAME: &str = "server.json";
/// A server of this machine takes a connection at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The code of an answer that was cut off because the server stopped. Its run goes on.
pub(crate) const STOPPING_CODE: &str = "stopping";
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

/// Why there is no response.
enum ExchangeError {
    /// The request did not reach the server.
    NotSent(anyhow::Error),
    /// The request was sent. Whether the server acted on it is not known.
    NoAnswer(hyper::Error),
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

    /// The key that opens it.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_ref().map(SecretText::reveal)
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

    /// Removes the address file.
    pub(crate) fn remove_address_file(folder: &Path) {
        // Gone already, or left over: the next server writes it anew, and nobody believes it without the lock.
        std::fs::remove_file(folder.join(SERVER_FILE_NAME)).ok();
    }

    /// Asks for JSON.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        parse_response(&self.request(Method::GET, path, Vec::new()).await?)
    }

    /// Sends JSON and reads JSON.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        parse_response(&self.request(Method::POST, path, serde_json::to_vec(body)?).await?)
    }

    /// Changes a thing with JSON and reads JSON.
    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        parse_response(&self.request(Method::PATCH, path, serde_json::to_vec(body)?).await?)
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
    pub(crate) async fn upload(&self, path: &str, bytes: Vec<u8>) -> anyhow::Result<AddedDocument> {
        let answered = self.send_request(Method::POST, path, "application/octet-stream", bytes).await?;
        parse_response(&read_response_body(answered).await?)
    }

    /// Sends JSON and hands every event that comes back to `each`.
    pub(crate) async fn stream_events(
        &self,
        path: &str,
        body: Option<&impl Serialize>,
        mut each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let sent = match body {
            Some(body) => {
                self.exchange(Method::POST, path, "application/json", serde_json::to_vec(body)?).await
            }
            None => self.exchange(Method::GET, path, "application/json", Vec::new()).await,
        };
        let mut answered = sent.map_err(|failure| match failure {
            ExchangeError::NotSent(error) => error,
            // The server may have accepted the run before the connection broke off.
            ExchangeError::NoAnswer(error) => self.connection_lost_error().with_cause(error).into(),
        })?;
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
        .with_code(STOPPING_CODE)
    }

    async fn request(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        read_response_body(self.send_request(method, path, "application/json", body).await?).await
    }

    async fn send_request(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<ServerResponse> {
        self.exchange(method, path, kind, body).await.map_err(|failure| match failure {
            ExchangeError::NotSent(error) => error,
            ExchangeError::NoAnswer(error) => self.no_answer_error().with_cause(error).into(),
        })
    }

    fn no_answer_error(&self) -> BilingualMessage {
        let server = self.address;
        bilingual!("서버 http://{server} 가 답하지 않습니다", "the server http://{server} does not answer")
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Vec<u8>,
    ) -> Result<ServerResponse, ExchangeError> {
        let not_sent =
            |cause: anyhow::Error| ExchangeError::NotSent(self.no_answer_error().with_cause(cause).into());
        let socket = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(self.address))
            .await
            .map_err(|late| not_sent(late.into()))?
            .map_err(|error| not_sent(error.into()))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(socket)).await.map_err(|error| not_sent(error.into()))?;
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
        let request = request.body(SingleChunkBody(Some(body.into())));
        let request = request.map_err(|error| ExchangeError::NotSent(error.into()))?;
        let response = sender.send_request(request).await.map_err(ExchangeError::NoAnswer)?;
        Ok(ServerResponse { status: response.status(), body: response.into_body(), connection })
    }
}

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
    let Ok(problem) = serde_json::from_slice::<Problem>(&text) else {
        // Something between here and the server answered, such as a proxy.
        let text: String = String::from_utf8_lossy(&text).chars().take(200).collect();
        return Err(bilingual!(
            "서버가 {status}로 답했습니다: {text}",
            "the server answered {status}: {text}"
        )
        .into());
    };
    let Problem { title, title_ko, code, detail, detail_ko, .. } = problem;
    let refused =
        bilingual!("서버가 {status}로 답했습니다: {title_ko}", "the server answered {status}: {title}")
            .with_code(&code);
    Err(match detail {
        Some(en) => {
            let ko = detail_ko.unwrap_or_else(|| en.clone());
            refused.with_cause(BilingualMessage::new(ko, en)).into()
        }
        None => refused.into(),
    })
}

fn parse_response<T: DeserializeOwned>(text: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(text).map_err(|error| {
        bilingual!("서버의 응답을 읽을 수 없습니다", "cannot read the response of the server")
            .with_cause(error)
            .into()
    })
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

/// The event of a frame; none for a heartbeat.
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
}

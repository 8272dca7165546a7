//! Streamable HTTP, with a limit on every answer and no redirects: a header that is meant for one server is never sent
//! to another.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use doran_llm::TRACEPARENT;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestParamsMeta, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::tools::ToolSecret;

const SESSION_HEADER: &str = "mcp-session-id";
const ACCEPTED_CONTENT_TYPES: &str = "text/event-stream, application/json";

/// A client that takes answers up to a limit.
#[derive(Clone, Debug)]
pub(super) struct CappedHttpClient {
    inner: reqwest::Client,
    max_bytes: usize,
}

type McpHttpError = StreamableHttpError<reqwest::Error>;

/// A client for one server and how to use it.
pub(super) fn http_client(
    url: &str,
    headers: &BTreeMap<String, ToolSecret>,
    max_bytes: usize,
) -> Result<(CappedHttpClient, StreamableHttpClientTransportConfig), String> {
    let address = reqwest::Url::parse(url).map_err(|error| format!("`{url}`: {error}"))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(format!("`{}:` is not `http:` or `https:`", address.scheme()));
    }
    let mut own = HashMap::new();
    for (name, value) in headers {
        let parsed = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.reveal()));
        // The value is a secret: only the name is shown.
        let (Ok(name), Ok(mut value)) = parsed else {
            return Err(format!("the header `{name}` cannot be sent"));
        };
        value.set_sensitive(true);
        own.insert(name, value);
    }
    install_crypto_provider();
    let inner = reqwest::Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .build()
        .map_err(|error| error.to_string())?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.custom_headers = own;
    config.max_sse_event_size = max_bytes;
    Ok((CappedHttpClient { inner, max_bytes }, config))
}

impl StreamableHttpClient for CappedHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, McpHttpError> {
        let mut headers: HeaderMap = custom_headers.into_iter().collect();
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED_CONTENT_TYPES));
        if let Some(session) = &session_id {
            let session = HeaderValue::try_from(session.as_ref())
                .map_err(|_| unexpected_response("a session that is no header"))?;
            headers.insert(SESSION_HEADER, session);
        }
        if let Some(trace) = traceparent_of(&message) {
            headers.insert(TRACEPARENT, trace);
        }
        let response = self.inner.post(uri.as_ref()).headers(headers).json(&message).send().await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let text =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(String::from);
        let (kind, session) = (text(CONTENT_TYPE.as_str()).unwrap_or_default(), text(SESSION_HEADER));
        if !status.is_success() {
            // The words of an error are read only where they may hold one of the protocol.
            let body = if kind.starts_with("application/json") {
                self.read_body(response).await?
            } else {
                Vec::new()
            };
            return match serde_json::from_slice(&body) {
                Ok(message @ ServerJsonRpcMessage::Error(_)) => {
                    Ok(StreamableHttpPostResponse::Json(message, session))
                }
                Ok(_) | Err(_) => Err(unexpected_response(&format!("HTTP {status}"))),
            };
        }
        if kind.starts_with("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(self.event_stream(response), session));
        }
        let body = self.read_body(response).await?;
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        match serde_json::from_slice(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            // What is not asked for needs no answer, and some servers give an empty one.
            Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Err(_) => Err(unexpected_response("an answer that is not of the protocol")),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), McpHttpError> {
        self.inner.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, McpHttpError> {
        let max_bytes = self.max_bytes;
        self.inner
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                max_bytes,
            )
            .await
    }
}

impl CappedHttpClient {
    async fn read_body(&self, response: Response) -> Result<Vec<u8>, McpHttpError> {
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.try_next().await? {
            if body.len() + piece.len() > self.max_bytes {
                return Err(unexpected_response(&format!("an answer longer than {} bytes", self.max_bytes)));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// The events of one answer, which together are no longer than the limit.
    fn event_stream(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let mut left = self.max_bytes;
        let pieces = response.bytes_stream().map(move |piece| {
            let piece = piece.map_err(std::io::Error::other)?;
            left = left
                .checked_sub(piece.len())
                .ok_or_else(|| std::io::Error::other("the answer is too long"))?;
            Ok::<_, std::io::Error>(piece)
        });
        SseStream::from_bytes_stream(pieces).boxed()
    }
}

/// Where a call of a tool stands in a trace. Requests are sent by a task of their own, which knows no more than the message.
fn traceparent_of(message: &ClientJsonRpcMessage) -> Option<HeaderValue> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CallToolRequest(call) = &request.request else { return None };
    HeaderValue::from_str(call.params.traceparent()?).ok()
}

/// TLS needs a default cryptography provider, once per process. If the program has chosen already, that stays.
fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none()
        && rustls::crypto::ring::default_provider().install_default().is_err()
    {
        tracing::debug!("the TLS provider is already installed");
    }
}

fn unexpected_response(what: &str) -> McpHttpError {
    StreamableHttpError::UnexpectedServerResponse(what.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_accepted_and_secrets_are_not_shown() {
        let headers = BTreeMap::from([("Authorization".to_string(), ToolSecret::new("Bearer s3cret\n"))]);
        let error = http_client("https://a.example/mcp", &headers, 1).expect_err("a bad value");
        assert_eq!(error, "the header `Authorization` cannot be sent");
        for url in ["file:///etc/passwd", "unix:///run/docker.sock", "nonsense"] {
            assert!(http_client(url, &BTreeMap::new(), 1).is_err(), "{url}");
        }
    }
}

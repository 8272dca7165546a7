//! The HTTP client for model servers. It returns the response in chunks, with timeouts and size limits.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, timeout};

use super::deadline::MovableDeadline;
use super::{ModelApiKey, ModelResponseLimits, ModelTimeouts, vendor_errors};
use crate::error::ModelError;
use crate::trace_context::{TRACEPARENT, TraceContext};

/// A client for one server.
#[derive(Clone, Debug)]
pub(crate) struct ModelHttpClient {
    client: reqwest::Client,
    headers: HeaderMap,
    secret: ModelApiKey,
    host: String,
    pub(crate) timeouts: ModelTimeouts,
    pub(crate) limits: ModelResponseLimits,
}

/// A request.
#[derive(Debug)]
pub(crate) struct ModelHttpRequest {
    /// The full URL.
    pub(crate) url: String,
    /// The JSON body.
    pub(crate) body: Vec<u8>,
}

/// A response whose headers have arrived.
#[derive(Debug)]
pub(crate) struct ModelHttpResponse {
    response: reqwest::Response,
    host: String,
    /// Whether the body is an event stream, and not a single JSON document.
    pub(crate) is_stream: bool,
    timeouts: ModelTimeouts,
    deadline: MovableDeadline,
    /// Whether any of the body has arrived.
    has_received_body: bool,
    /// Whether the answer itself has begun. Keep-alive comments before it do not count.
    pub(crate) has_answer_started: bool,
    remaining_body_bytes: usize,
}

/// The maximum size of an error body that is read.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

impl ModelHttpClient {
    /// Creates a client for the server at `base`. The key is sent in the named header.
    pub(crate) fn new(
        base: &str,
        secret: ModelApiKey,
        headers: &[(&'static str, String)],
        certificates: &[Vec<u8>],
        timeouts: ModelTimeouts,
        limits: ModelResponseLimits,
    ) -> Result<Self, ModelError> {
        let url = parse_server_url(base)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let mut carried = HeaderMap::new();
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| ModelError::Unauthorized {
                reason: "the key has characters that no key has; copy it again".into(),
            })?;
            value.set_sensitive(true);
            carried.insert(HeaderName::from_static(name), value);
        }
        install_tls_provider();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(timeouts.connect)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("doran/", env!("CARGO_PKG_VERSION")))
            .pool_idle_timeout(Duration::from_secs(60));
        if is_loopback(&host) {
            builder = builder.no_proxy();
        }
        if url.scheme() == "http" {
            // Plain HTTP needs no certificates, so a machine that has none can still use a local model.
            builder = builder.tls_certs_only([]);
        } else {
            builder = builder.tls_certs_merge(parse_certificates(certificates)?);
        }
        let client = builder.build().map_err(|error| ModelError::Rejected {
            reason: format!("no connection can be set up here: {error} (are root certificates installed?)"),
        })?;
        Ok(Self { client, headers: carried, secret, host, timeouts, limits })
    }

    /// Sends a POST request and waits for the response headers. Any status but success is an error.
    pub(crate) async fn post(&self, call: ModelHttpRequest) -> Result<ModelHttpResponse, ModelError> {
        let request = self.client.post(call.url).header(CONTENT_TYPE, "application/json").body(call.body);
        self.send(request).await
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, url: String) -> Result<ModelHttpResponse, ModelError> {
        self.send(self.client.get(url)).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<ModelHttpResponse, ModelError> {
        let mut deadline = MovableDeadline::expiring_at(Instant::now() + self.timeouts.first_byte);
        let mut request = request.headers(self.headers.clone());
        if let Some(trace) = TraceContext::outgoing_header() {
            request = request.header(TRACEPARENT, trace);
        }
        let sent = request.send();
        let response = match deadline.wait_for(sent).await {
            Some(Ok(response)) => response,
            Some(Err(error)) => return Err(self.send_error(error)),
            None => return Err(self.first_byte_timeout_error()),
        };
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        if !(200..300).contains(&status) {
            let (milliseconds, seconds) = (header("retry-after-ms"), header("retry-after"));
            let wait = vendor_errors::parse_retry_after(
                milliseconds.as_deref(),
                seconds.as_deref(),
                SystemTime::now(),
            );
            let body = read_error_body(response, self.timeouts.idle).await;
            return Err(vendor_errors::classify_error_response(status, wait, &body, &self.secret));
        }
        let kind = header("content-type").unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("text/html") {
            return Err(ModelError::Unreachable {
                reason: format!(
                    "`{}` answered with a web page; a login page or a proxy may stand in between",
                    self.host
                ),
                source: None,
            });
        }
        let is_stream = !kind.starts_with("application/json");
        Ok(ModelHttpResponse {
            response,
            host: self.host.clone(),
            is_stream,
            timeouts: self.timeouts,
            deadline,
            has_received_body: false,
            has_answer_started: false,
            remaining_body_bytes: self.limits.body_bytes,
        })
    }

    fn first_byte_timeout_error(&self) -> ModelError {
        let reason = format!("`{}` said nothing for {:?}", self.host, self.timeouts.first_byte);
        ModelError::Unavailable { reason, retry_after: None, source: None }
    }

    fn send_error(&self, error: reqwest::Error) -> ModelError {
        let error = error.without_url();
        let host = &self.host;
        if error.is_connect() && error.is_timeout() {
            let reason = format!("no connection to `{host}` within {:?}", self.timeouts.connect);
            return ModelError::Unreachable { reason, source: Some(Box::new(error)) };
        }
        if error.is_connect() {
            let reason = match innermost_error_message(&error) {
                Some(why) => format!("no connection to `{host}`: {why}"),
                None => format!("no connection to `{host}`"),
            };
            return ModelError::Unreachable { reason, source: Some(Box::new(error)) };
        }
        if error.is_builder() {
            return ModelError::Rejected { reason: format!("the request cannot be built: {error}") };
        }
        let reason = format!("`{host}` closed the connection before it answered");
        ModelError::Unavailable { reason, retry_after: None, source: Some(Box::new(error)) }
    }
}

impl ModelHttpResponse {
    /// Returns the next bytes of the body, or `None` at its end.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, ModelError> {
        let max_wait = if self.has_answer_started {
            self.timeouts.idle
        } else {
            self.timeouts.first_byte.max(self.timeouts.idle)
        };
        // The wait for the headers counts towards the timeout of the first byte.
        if self.has_received_body {
            self.deadline.set_deadline(Instant::now() + max_wait);
        }
        let piece = match self.deadline.wait_for(self.response.chunk()).await {
            None => {
                let reason = format!("`{}` said nothing more for {max_wait:?}", self.host);
                return Err(ModelError::Broken { reason });
            }
            Some(Err(_)) => {
                return Err(ModelError::Broken {
                    reason: format!("the connection to `{}` was lost", self.host),
                });
            }
            Some(Ok(piece)) => piece,
        };
        self.has_received_body = true;
        if let Some(piece) = &piece {
            self.remaining_body_bytes =
                self.remaining_body_bytes.checked_sub(piece.len()).ok_or_else(|| {
                    ModelError::LimitExceeded {
                        reason: format!("`{}` sent more bytes than are taken in", self.host),
                    }
                })?;
        }
        Ok(piece)
    }

    /// Returns the whole body. More than `most` bytes are an error.
    pub(crate) async fn read_body(&mut self, max_bytes: usize) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        while let Some(piece) = self.next_chunk().await? {
            self.has_answer_started = true;
            body.extend_from_slice(piece.as_ref());
            if body.len() > max_bytes {
                let reason = format!("the answer has more than {max_bytes} bytes");
                return Err(ModelError::LimitExceeded { reason });
            }
        }
        Ok(body)
    }
}

/// Parses PEM certificates. A text without a certificate is an error.
fn parse_certificates(certificates: &[Vec<u8>]) -> Result<Vec<reqwest::Certificate>, ModelError> {
    let mut parsed = Vec::new();
    for pem in certificates {
        let reason = match reqwest::Certificate::from_pem_bundle(pem) {
            Ok(bundle) if bundle.is_empty() => "there is no certificate in it".to_owned(),
            Ok(bundle) => {
                parsed.extend(bundle);
                continue;
            }
            Err(error) => innermost_error_message(&error).unwrap_or_else(|| error.to_string()),
        };
        return Err(ModelError::Rejected { reason: format!("a root certificate cannot be read: {reason}") });
    }
    Ok(parsed)
}

/// Parses a server URL: `http` or `https`, a host, no user name or password.
pub(crate) fn parse_server_url(base: &str) -> Result<reqwest::Url, ModelError> {
    let refuse = |why: &str| ModelError::Rejected { reason: format!("the address of the server {why}") };
    let url =
        reqwest::Url::parse(base).map_err(|_| refuse("cannot be read; it looks like `https://host/v1`"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refuse("is not `http://…` or `https://…`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("holds a name or password; set the key apart from it"));
    }
    Ok(url)
}

pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the message of the innermost error, which is the most specific.
fn innermost_error_message(error: &dyn std::error::Error) -> Option<String> {
    let mut deepest = error.source()?;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    Some(deepest.to_string())
}

async fn read_error_body(mut response: reqwest::Response, time_limit: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BODY_BYTES {
        match timeout(time_limit.min(Duration::from_secs(5)), response.chunk()).await {
            Ok(Ok(Some(piece))) => body.extend_from_slice(&piece),
            _ => break,
        }
    }
    body.truncate(MAX_ERROR_BODY_BYTES);
    body
}

/// Installs the TLS crypto provider of the process, unless the program has installed one already.
pub fn install_tls_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none()
        && rustls::crypto::ring::default_provider().install_default().is_err()
    {
        tracing::debug!("the TLS provider is already installed");
    }
}

//! The HTTP client for a cluster: JSON over HTTP, retried while the cluster is busy or unreachable for a moment.

use std::time::Duration;

use reqwest::{Client, Method, StatusCode, Url};
use serde_json::Value;

use crate::retriever::RetrieveError;

/// The maximum number of attempts for one request. The delay grows with each one.
const MAX_REQUEST_ATTEMPTS: u32 = 6;
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(100);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum size of a response body.
const MAX_RESPONSE_BYTES: usize = 256 << 20;
/// The oldest major version that has what Doran uses.
const OLDEST_MAJOR_VERSION: u32 = 2;

/// A client for one cluster.
#[derive(Clone)]
pub(super) struct OpenSearchClient {
    client: Client,
    base: Url,
}

/// A response: its status, and its body if it has one.
#[derive(Debug)]
pub(super) struct OpenSearchResponse {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl OpenSearchClient {
    /// Creates a client for the cluster at an address such as `https://name:password@host:9200`.
    pub(super) fn new(address: &str) -> Result<Self, RetrieveError> {
        let odd = || unavailable_error("the address of OpenSearch is none; write it as `https://host:9200`");
        let base = Url::parse(address).map_err(|_| odd())?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(odd());
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // The provider may be installed already.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let mut builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(RESPONSE_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("doran/", env!("CARGO_PKG_VERSION")));
        if base.scheme() == "http" {
            builder = builder.tls_certs_only([]).no_proxy();
        }
        let client = builder.build().map_err(unreachable_error)?;
        Ok(Self { client, base })
    }

    /// Sends and receives JSON. Retries transient errors.
    pub(super) async fn send_json(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<OpenSearchResponse, RetrieveError> {
        self.send_with_retries(
            method,
            path,
            body.map(|body| (body.to_string().into_bytes(), "application/json")),
        )
        .await
    }

    /// Sends newline-delimited JSON.
    pub(super) async fn send_ndjson(
        &self,
        path: &str,
        lines: Vec<u8>,
    ) -> Result<OpenSearchResponse, RetrieveError> {
        self.send_with_retries(Method::POST, path, Some((lines, "application/x-ndjson"))).await
    }

    /// Sends JSON and returns an error unless the response is a success.
    pub(super) async fn send_json_expecting_success(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, RetrieveError> {
        let answer = self.send_json(method, path, body).await?;
        answer.into_success_body()
    }

    /// Asks once for the cluster itself. Another program at this address, or an OpenSearch that is too old, is an error.
    pub(super) async fn ping(&self) -> Result<(), RetrieveError> {
        let request = self.client.get(self.base.clone()).timeout(PING_TIMEOUT);
        let answer = read_response(request.send().await.map_err(unreachable_error)?).await?;
        check_version(&answer.into_success_body()?)
    }

    async fn send_with_retries(
        &self,
        method: Method,
        path: &str,
        body: Option<(Vec<u8>, &'static str)>,
    ) -> Result<OpenSearchResponse, RetrieveError> {
        let url = self.base.join(path).map_err(|_| unavailable_error("an odd path"))?;
        let mut wait = INITIAL_RETRY_DELAY;
        for attempt in 1.. {
            let mut request = self.client.request(method.clone(), url.clone());
            if let Some((bytes, kind)) = &body {
                request = request.header("content-type", *kind).body(bytes.clone());
            }
            let answer = match request.send().await {
                Ok(response) => read_response(response).await,
                Err(error) => Err(unreachable_error(error)),
            };
            match answer {
                Ok(answer) if attempt >= MAX_REQUEST_ATTEMPTS || !is_transient(answer.status) => {
                    return Ok(answer);
                }
                Err(error) if attempt >= MAX_REQUEST_ATTEMPTS => return Err(error),
                Ok(_) | Err(_) => tokio::time::sleep(wait).await,
            }
            wait *= 2;
        }
        Err(unavailable_error("OpenSearch was never asked"))
    }
}

impl OpenSearchResponse {
    /// Returns the body of a successful response.
    pub(super) fn into_success_body(self) -> Result<Value, RetrieveError> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let reason = self.body.pointer("/error/reason").or_else(|| self.body.get("error"));
        let mut reason = reason.map(Value::to_string).unwrap_or_default();
        reason.truncate(reason.floor_char_boundary(300));
        Err(unavailable_error(format!("OpenSearch answered {}: {reason}", self.status.as_u16())))
    }
}

/// Checks what a cluster says of itself.
fn check_version(about: &Value) -> Result<(), RetrieveError> {
    if about["version"]["distribution"] != "opensearch" {
        return Err(unavailable_error("what answers at this address is not OpenSearch"));
    }
    let version = about["version"]["number"].as_str().unwrap_or_default();
    match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= OLDEST_MAJOR_VERSION => Ok(()),
        _ => Err(unavailable_error(format!(
            "OpenSearch {version} is too old; Doran needs version {OLDEST_MAJOR_VERSION} or newer"
        ))),
    }
}

/// Returns whether a retry of the same request may succeed.
fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

async fn read_response(mut response: reqwest::Response) -> Result<OpenSearchResponse, RetrieveError> {
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unreachable_error)? {
        if bytes.len() + piece.len() > MAX_RESPONSE_BYTES {
            return Err(unavailable_error("an answer of OpenSearch is too long"));
        }
        bytes.extend_from_slice(&piece);
    }
    let body = match serde_json::from_slice(&bytes) {
        Ok(body) => body,
        Err(_) if bytes.is_empty() || !status.is_success() => Value::Null,
        // A proxy or another program answers in its place. Nothing found would be wrong.
        Err(_) => return Err(unavailable_error("an answer of OpenSearch is not JSON")),
    };
    Ok(OpenSearchResponse { status, body })
}

fn unreachable_error(error: reqwest::Error) -> RetrieveError {
    // The address may carry a password.
    RetrieveError::Unavailable {
        reason: "OpenSearch cannot be reached".to_owned(),
        source: Some(Box::new(error.without_url())),
    }
}

pub(super) fn unavailable_error(reason: impl Into<String>) -> RetrieveError {
    RetrieveError::Unavailable { reason: reason.into(), source: None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    #[test]
    fn only_opensearch_2_or_newer_is_used() {
        let check = |about: Value| check_version(&about).map_err(|error| error.to_string());
        let cluster = |number: &str| json!({ "version": { "distribution": "opensearch", "number": number } });
        assert_eq!(check(cluster("2.19.1")), Ok(()));
        assert_eq!(check(cluster("10.0.0")), Ok(()));
        for (about, reason) in [
            (cluster("1.3.2"), "OpenSearch 1.3.2 is too old"),
            (json!({ "version": { "number": "8.1.0" } }), "is not OpenSearch"),
            (json!({}), "is not OpenSearch"),
        ] {
            let error = check(about).expect_err("refused");
            assert!(error.contains(reason), "{error}");
        }
    }
}

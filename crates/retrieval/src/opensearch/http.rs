//! Talks to a cluster: JSON over HTTP, tried again while the cluster is busy or away for a moment.

use std::time::Duration;

use reqwest::{Client, Method, StatusCode, Url};
use serde_json::Value;

use crate::retriever::RetrieveError;

/// So often a request is tried, each time after a longer wait.
const TRIES: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(100);
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);
/// The most bytes of an answer that are read.
const MOST: usize = 256 << 20;

/// A client for one cluster.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
    base: Url,
}

/// An answer: its status, and its body where there is one.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl Http {
    /// A client for the cluster at an address such as `https://name:password@host:9200`.
    pub(super) fn new(address: &str) -> Result<Self, RetrieveError> {
        let odd = || unavailable("the address of OpenSearch is none; write it as `https://host:9200`");
        let base = Url::parse(address).map_err(|_| odd())?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(odd());
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Somebody else may have been quicker, which is as good.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let mut builder = Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("doran/", env!("CARGO_PKG_VERSION")));
        if base.scheme() == "http" {
            builder = builder.tls_certs_only([]).no_proxy();
        }
        let client = builder.build().map_err(away)?;
        Ok(Self { client, base })
    }

    /// Sends JSON and reads JSON, again while that may help.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, RetrieveError> {
        self.ask(method, path, body.map(|body| (body.to_string().into_bytes(), "application/json"))).await
    }

    /// Sends lines of JSON.
    pub(super) async fn lines(&self, path: &str, lines: Vec<u8>) -> Result<Answer, RetrieveError> {
        self.ask(Method::POST, path, Some((lines, "application/x-ndjson"))).await
    }

    /// Sends JSON and takes anything but success for a failure.
    pub(super) async fn done(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, RetrieveError> {
        let answer = self.send(method, path, body).await?;
        answer.ok()
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(Vec<u8>, &'static str)>,
    ) -> Result<Answer, RetrieveError> {
        let url = self.base.join(path).map_err(|_| unavailable("an odd path"))?;
        let mut wait = FIRST_WAIT;
        for attempt in 1.. {
            let mut request = self.client.request(method.clone(), url.clone());
            if let Some((bytes, kind)) = &body {
                request = request.header("content-type", *kind).body(bytes.clone());
            }
            let answer = match request.send().await {
                Ok(response) => read(response).await,
                Err(error) => Err(away(error)),
            };
            match answer {
                Ok(answer) if attempt >= TRIES || !is_passing(answer.status) => return Ok(answer),
                Err(error) if attempt >= TRIES => return Err(error),
                Ok(_) | Err(_) => tokio::time::sleep(wait).await,
            }
            wait *= 2;
        }
        Err(unavailable("OpenSearch was never asked"))
    }
}

impl Answer {
    /// The body of a success.
    pub(super) fn ok(self) -> Result<Value, RetrieveError> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let told = self.body.pointer("/error/reason").or_else(|| self.body.get("error"));
        let mut told = told.map(Value::to_string).unwrap_or_default();
        told.truncate(told.floor_char_boundary(300));
        Err(unavailable(format!("OpenSearch answered {}: {told}", self.status.as_u16())))
    }
}

/// Whether the same request may do better in a moment.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

async fn read(mut response: reqwest::Response) -> Result<Answer, RetrieveError> {
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(away)? {
        if bytes.len() + piece.len() > MOST {
            return Err(unavailable("an answer of OpenSearch is too long"));
        }
        bytes.extend_from_slice(&piece);
    }
    let body =
        if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap_or(Value::Null) };
    Ok(Answer { status, body })
}

fn away(error: reqwest::Error) -> RetrieveError {
    // The address may carry a password.
    RetrieveError::Unavailable {
        reason: "OpenSearch cannot be reached".to_owned(),
        source: Some(Box::new(error.without_url())),
    }
}

pub(super) fn unavailable(reason: impl Into<String>) -> RetrieveError {
    RetrieveError::Unavailable { reason: reason.into(), source: None }
}

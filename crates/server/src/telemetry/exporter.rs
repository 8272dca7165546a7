//! Sends requests to a collector. Nothing waits for it: what it does not take in time is dropped and counted.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use doran_agents::llm::install_tls_provider;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::otlp::OtlpMessage;
use super::settings::{OtlpEncoding, OtlpTarget};

/// How often a request is sent, the first time included, and how long to wait before the next time.
const ATTEMPTS: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// A way to a collector.
#[derive(Debug)]
pub(super) struct OtlpExporter {
    target: OtlpTarget,
    client: reqwest::Client,
    headers: HeaderMap,
    has_failed: AtomicBool,
}

/// What became of a request.
enum SendOutcome {
    Taken,
    /// It may be taken later.
    Later(String),
    Refused(String),
}

impl OtlpExporter {
    /// A way to this collector, or why there is none.
    pub(super) fn new(target: OtlpTarget) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &target.headers {
            let (Ok(name), Ok(mut value)) =
                (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()))
            else {
                return Err(format!("the header `{name}` cannot be sent"));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let kind = match target.encoding {
            OtlpEncoding::Protobuf => "application/x-protobuf",
            OtlpEncoding::Json => "application/json",
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if target.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        install_tls_provider();
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(target.timeout)
            .user_agent(concat!("doran/", env!("CARGO_PKG_VERSION")));
        if target.url.starts_with("http:") {
            // Plain HTTP needs no certificates, so a machine without any can reach its collector.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { target, client, headers, has_failed: AtomicBool::new(false) })
    }

    /// Sends a request. `false` if the collector did not take it; the first such case, and the first one after it worked
    /// again, is logged.
    pub(super) async fn send(&self, signal: &str, request: &OtlpMessage) -> bool {
        let body = self.body(request);
        let mut wait = FIRST_WAIT;
        for attempt in 1..=ATTEMPTS {
            let why = match self.send_once(body.clone()).await {
                SendOutcome::Taken => {
                    if self.has_failed.swap(false, Ordering::Relaxed) {
                        tracing::info!(signal, "the collector takes telemetry again");
                    }
                    return true;
                }
                SendOutcome::Later(_) if attempt < ATTEMPTS => {
                    tokio::time::sleep(wait).await;
                    wait *= 4;
                    continue;
                }
                SendOutcome::Later(why) | SendOutcome::Refused(why) => why,
            };
            if !self.has_failed.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    signal,
                    why,
                    "the collector does not take telemetry; it is dropped until it does"
                );
            }
            return false;
        }
        false
    }

    fn body(&self, request: &OtlpMessage) -> Vec<u8> {
        let plain = request.encode(self.target.encoding);
        if !self.target.gzip {
            return plain;
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        // Writing into memory does not fail.
        encoder.write_all(&plain).ok();
        encoder.finish().unwrap_or_default()
    }

    async fn send_once(&self, body: Vec<u8>) -> SendOutcome {
        let request = self.client.post(&self.target.url).headers(self.headers.clone()).body(body);
        match request.send().await {
            Ok(response) if response.status().is_success() => SendOutcome::Taken,
            Ok(response) => match response.status().as_u16() {
                status @ (429 | 502..=504) => SendOutcome::Later(format!("status {status}")),
                status => SendOutcome::Refused(format!("status {status}")),
            },
            Err(error) => SendOutcome::Later(error.without_url().to_string()),
        }
    }
}

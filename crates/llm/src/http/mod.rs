//! HTTP to model servers: requests, streamed responses, and errors that never contain a secret.
//!
//! Redirects are not followed, so a key is sent only to the configured host. Every wait and every size has a limit.

mod client;
mod deadline;
mod sse;
mod vendor_errors;

use std::fmt;
use std::time::Duration;

pub use self::client::install_tls_provider;
pub(crate) use self::client::{
    ModelHttpClient, ModelHttpRequest, ModelHttpResponse, is_loopback, parse_server_url,
};
pub(crate) use self::sse::{SseDecoder, SseEvent, SseEventTooLong};
pub(crate) use self::vendor_errors::classify_stream_error;

/// An API key. Its `Debug` output never contains the key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ModelApiKey(String);

impl ModelApiKey {
    /// Creates a key. Whitespace around the text is removed.
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// Returns the empty key, for servers that need none.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns whether the key is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ModelApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret(none)" } else { "Secret(…)" })
    }
}

/// The timeouts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelTimeouts {
    /// The timeout for a connection.
    pub connect: Duration,
    /// The timeout for the first byte of the response, from the moment the request is sent.
    pub first_byte: Duration,
    /// The timeout between two chunks of an answer that has begun. Before that, each keep-alive chunk extends the wait
    /// by `first_byte`.
    pub idle: Duration,
}

impl Default for ModelTimeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(5), first_byte: seconds(30), idle: seconds(30) }
    }
}

/// The size limits of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelResponseLimits {
    /// The maximum size of one event in bytes.
    pub event_bytes: usize,
    /// The maximum size of the whole body in bytes, including comments.
    pub body_bytes: usize,
    /// The maximum size of text, reasoning and arguments in an answer, in bytes.
    pub answer_bytes: usize,
    /// The maximum number of tool calls in an answer.
    pub tool_calls: usize,
}

impl Default for ModelResponseLimits {
    fn default() -> Self {
        Self { event_bytes: 4 << 20, body_bytes: 64 << 20, answer_bytes: 4 << 20, tool_calls: 128 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(
            format!("{:?} {:?}", ModelApiKey::new(" sk-1234\n"), ModelApiKey::none()),
            "Secret(…) Secret(none)"
        );
    }
}

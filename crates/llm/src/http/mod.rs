//! The one way out of the process: a request, an answer in pieces, and errors that never tell a secret.
//!
//! Redirects are not followed, so a key reaches the host it was meant for and no other. Every wait and every size has
//! a limit.

mod client;
mod deadline;
mod sse;
mod vendor_errors;

use std::fmt;
use std::time::Duration;

pub(crate) use self::client::{
    ModelHttpClient, ModelHttpRequest, ModelHttpResponse, install_tls_provider, is_loopback, parse_server_url,
};
pub(crate) use self::sse::{SseDecoder, SseEvent, SseEventTooLong};
pub(crate) use self::vendor_errors::classify_stream_error;

/// A key. It prints nothing of itself, wherever it is printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ModelApiKey(String);

impl ModelApiKey {
    /// The key with this text; spaces around it are a slip of the hand.
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// No key: for servers that ask for none.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether there is no key.
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

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelTimeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the first byte of an answer, from the moment the request is sent.
    pub first_byte: Duration,
    /// Between two pieces of an answer that has begun. Until then a server that only says that it is alive has as long for
    /// each further sign of life as it had for the first byte.
    pub idle: Duration,
}

impl Default for ModelTimeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(5), first_byte: seconds(30), idle: seconds(30) }
    }
}

/// How much is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelResponseLimits {
    /// The most bytes of one piece of an answer as it is sent.
    pub event_bytes: usize,
    /// The most bytes of a whole answer as it is sent, comments and all.
    pub body_bytes: usize,
    /// The most bytes of words, thoughts and arguments in an answer.
    pub answer_bytes: usize,
    /// The most tool calls in an answer.
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

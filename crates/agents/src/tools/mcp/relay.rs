//! Passes messages between an MCP host, which writes lines, and an MCP server on HTTP.

use std::collections::BTreeMap;
use std::io;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rmcp::RoleClient;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::sync::mpsc::Receiver;

use super::http;
use crate::tools::ToolSecret;

/// The most bytes of one message of the server.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Why messages are no longer passed on.
#[derive(Debug, thiserror::Error)]
pub enum McpRelayError {
    /// Correct the address or the headers.
    #[error("{0}")]
    Address(String),
    /// Start the server again.
    #[error("the connection to `{url}` ended: {reason}")]
    ServerGone {
        /// The server.
        url: String,
        /// Why.
        reason: String,
    },
    /// The host no longer reads.
    #[error("the MCP host no longer reads: {0}")]
    HostGone(#[source] io::Error),
}

/// Passes the lines of a host on to the server at `url`, and what the server says to `write_line`, until the host or the
/// server ends.
pub async fn relay(
    mut lines: Receiver<String>,
    mut write_line: impl FnMut(&str) -> io::Result<()>,
    url: &str,
    headers: &BTreeMap<String, ToolSecret>,
) -> Result<(), McpRelayError> {
    let (client, config) =
        http::http_client(url, headers, MAX_MESSAGE_BYTES).map_err(McpRelayError::Address)?;
    let mut server = StreamableHttpClientTransport::with_client(client, config);
    let gone = |reason: String| McpRelayError::ServerGone { url: url.to_owned(), reason };
    let mut sending = FuturesUnordered::new();
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break };
                match serde_json::from_str::<ClientJsonRpcMessage>(&line) {
                    Ok(message) => sending.push(Transport::<RoleClient>::send(&mut server, message)),
                    Err(error) => tracing::warn!(%error, "the MCP host wrote a line that is not a message"),
                }
            }
            Some(sent) = sending.next() => sent.map_err(|error| gone(error.to_string()))?,
            message = Transport::<RoleClient>::receive(&mut server) => {
                let message = message.ok_or_else(|| gone("it was closed".to_owned()))?;
                let line = serde_json::to_string(&message).map_err(|error| gone(error.to_string()))?;
                write_line(&line).map_err(McpRelayError::HostGone)?;
            }
        }
    }
    Transport::<RoleClient>::close(&mut server).await.map_err(|error| gone(error.to_string()))
}

//! Passes messages between an MCP host, which writes lines, and an MCP server on HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, InitializedNotification,
    JsonRpcError, JsonRpcMessage, JsonRpcResponse, RequestId, ServerJsonRpcMessage,
};
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

/// Passes the lines of a host on to the server at `url`, and what the server says to `write_line`, until the server ends, or
/// the host's lines do: what they asked for is still answered then.
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
    let mut write = |message: &ServerJsonRpcMessage| {
        let line = serde_json::to_string(message).map_err(|error| gone(error.to_string()))?;
        write_line(&line).map_err(McpRelayError::HostGone)
    };
    let mut conversation = RelayedConversation::default();
    let mut sending = FuturesUnordered::new();
    loop {
        for message in conversation.messages_for_the_host() {
            write(&message)?;
        }
        for message in conversation.messages_for_the_server() {
            sending.push(Transport::<RoleClient>::send(&mut server, message));
        }
        if conversation.is_over() && sending.is_empty() {
            break;
        }
        tokio::select! {
            line = lines.recv(), if conversation.takes_lines() => match line {
                None => conversation.host_ended(),
                Some(line) => match serde_json::from_str(&line) {
                    Ok(message) => conversation.host_said(message),
                    Err(error) => tracing::warn!(%error, "the MCP host wrote a line that is not a message"),
                },
            },
            Some(sent) = sending.next() => sent.map_err(|error| gone(error.to_string()))?,
            message = Transport::<RoleClient>::receive(&mut server) => {
                conversation.server_said(message.ok_or_else(|| gone("it was closed".to_owned()))?);
            }
        }
    }
    // A transport that was not yet used by an initialized host never ends by itself. Dropped, it does.
    if conversation.phase != Phase::Initialized {
        return Ok(());
    }
    Transport::<RoleClient>::close(&mut server).await.map_err(|error| gone(error.to_string()))
}

/// How far a host has opened its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It has to ask for a session.
    #[default]
    New,
    /// The answer to its `initialize` is awaited.
    Initializing(RequestId),
    /// It has to say that it read the answer. The transport takes whatever comes next for that.
    Answered,
    /// It can ask.
    Initialized,
}

/// Who waits for what between a host and a server.
#[derive(Debug, Default)]
struct RelayedConversation {
    phase: Phase,
    has_host_ended: bool,
    /// What the host asked and the server has not answered.
    requests: BTreeSet<String>,
    /// What the server asked and the host has not answered.
    questions: BTreeMap<String, RequestId>,
    to_server: Vec<ClientJsonRpcMessage>,
    to_host: Vec<ServerJsonRpcMessage>,
}

impl RelayedConversation {
    fn takes_lines(&self) -> bool {
        !self.has_host_ended && !matches!(self.phase, Phase::Initializing(_))
    }

    /// Whether nothing more can come for the host.
    fn is_over(&self) -> bool {
        self.has_host_ended && self.requests.is_empty()
    }

    fn host_said(&mut self, message: ClientJsonRpcMessage) {
        let is_initialize = matches!(&message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_)));
        let is_initialized = matches!(&message, JsonRpcMessage::Notification(notification)
            if matches!(notification.notification, ClientNotification::InitializedNotification(_)));
        match (&self.phase, &message) {
            (Phase::New, JsonRpcMessage::Request(request)) if is_initialize => {
                self.phase = Phase::Initializing(request.id.clone());
            }
            (Phase::New, JsonRpcMessage::Request(request)) => {
                let error = ErrorData::invalid_request("the first request must be `initialize`", None);
                return self.to_host.push(ServerJsonRpcMessage::error(error, Some(request.id.clone())));
            }
            (Phase::New, _) => return tracing::warn!("the MCP host wrote a message before `initialize`"),
            (Phase::Answered, _) if is_initialized => self.phase = Phase::Initialized,
            (Phase::Answered, _) => self.initialize_for_the_host(),
            (Phase::Initializing(_) | Phase::Initialized, _) => {}
        }
        match &message {
            JsonRpcMessage::Request(request) => {
                self.requests.insert(request.id.to_string());
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.requests.remove(&id.to_string());
                }
            }
            JsonRpcMessage::Response(JsonRpcResponse { id, .. })
            | JsonRpcMessage::Error(JsonRpcError { id: Some(id), .. }) => {
                self.questions.remove(&id.to_string());
            }
            JsonRpcMessage::Error(_) => {}
        }
        self.to_server.push(message);
    }

    fn server_said(&mut self, message: ServerJsonRpcMessage) {
        match &message {
            JsonRpcMessage::Request(request) => {
                self.questions.insert(request.id.to_string(), request.id.clone());
            }
            JsonRpcMessage::Response(JsonRpcResponse { id, .. })
            | JsonRpcMessage::Error(JsonRpcError { id: Some(id), .. }) => {
                self.requests.remove(&id.to_string());
                if matches!(&self.phase, Phase::Initializing(initialize) if initialize == id) {
                    self.phase = Phase::Answered;
                    if self.has_host_ended {
                        self.initialize_for_the_host();
                    }
                }
            }
            JsonRpcMessage::Error(_) | JsonRpcMessage::Notification(_) => {}
        }
        self.to_host.push(message);
    }

    /// The session is opened even if the host said nothing more, so that it can be closed.
    fn host_ended(&mut self) {
        self.has_host_ended = true;
        if self.phase == Phase::Answered {
            self.initialize_for_the_host();
        }
    }

    fn initialize_for_the_host(&mut self) {
        self.phase = Phase::Initialized;
        let notification = InitializedNotification::default();
        self.to_server.push(ClientJsonRpcMessage::notification(notification.into()));
    }

    fn messages_for_the_host(&mut self) -> Vec<ServerJsonRpcMessage> {
        std::mem::take(&mut self.to_host)
    }

    fn messages_for_the_server(&mut self) -> Vec<ClientJsonRpcMessage> {
        if self.has_host_ended {
            // A host that reads nothing more cannot answer, and the server waits for an answer.
            for id in std::mem::take(&mut self.questions).into_values() {
                let error = ErrorData::internal_error("the MCP host has ended its input", None);
                self.to_server.push(ClientJsonRpcMessage::error(error, Some(id)));
            }
        }
        std::mem::take(&mut self.to_server)
    }
}

//! The connection to one MCP server: started when it is needed, restarted with a growing delay after it ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use doran_llm::TraceContext;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, JsonObject,
    PaginatedRequestParams, Prompt, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    RequestParamsMeta, Resource, ResourceTemplate, Tool,
};
use rmcp::service::{NotificationContext, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::pin::ToolClaim;
use super::result_text::clean_and_truncate;
use super::stdio::{McpCommand, StderrTail};
use super::{McpServer, McpTransport, http, stdio};

/// The most pages of a list of tools that are requested.
const MAX_TOOL_LIST_PAGES: usize = 32;
/// How long a server may take to show that it is there.
const MAX_PING_TIME: Duration = Duration::from_secs(5);
/// The most bytes of a server's words in an error.
const MAX_ERROR_BYTES: usize = 500;

/// A server and the way to it.
#[derive(Debug)]
pub(super) struct McpConnection {
    server: McpServer,
    state: Mutex<McpConnectionState>,
}

#[derive(Debug, Default)]
struct McpConnectionState {
    live: Option<Arc<LiveMcpConnection>>,
    failures: u32,
    not_before: Option<Instant>,
}

/// What a server has beside tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct McpOffers {
    pub(super) resources: bool,
    pub(super) prompts: bool,
}

/// A server that is there.
#[derive(Debug)]
struct LiveMcpConnection {
    service: RunningService<RoleClient, McpClientHandler>,
    /// What its tools claim to be, by their own names.
    claims: std::sync::Mutex<BTreeMap<String, ToolClaim>>,
    changed: Arc<AtomicBool>,
    offers: McpOffers,
    _program: Option<stdio::McpProcess>,
    stderr: StderrTail,
}

/// Why a server was of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum McpServerError {
    /// It did not start, or did not speak the protocol.
    NotStarted { server: String, why: String },
    /// It failed before, and is left alone for a while.
    LeftAlone { server: String, seconds: u64 },
    /// It ended in the middle of a call. What it wrote to its standard error last, if anything.
    Ended { server: String, stderr: String },
    /// It took too long.
    TimedOut { server: String, seconds: u64 },
    /// The tool is not what was approved.
    Changed { server: String, tool: String },
    /// The server has no such tool any more.
    Gone { server: String, tool: String },
    /// It refused.
    Refused { server: String, why: String },
}

impl McpConnection {
    pub(super) fn new(server: McpServer) -> Self {
        Self { server, state: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.server.name
    }

    pub(super) fn server(&self) -> &McpServer {
        &self.server
    }

    /// The tools it has now, and what else it has.
    pub(super) async fn list_tools(&self) -> Result<(Vec<Tool>, McpOffers), McpServerError> {
        let live = self.ensure_live().await?;
        let limit = self.server.bounds.start;
        let tools =
            timeout(limit, live.list_tools(&self.server)).await.map_err(|_| self.timeout_error(limit))??;
        Ok((tools, live.offers))
    }

    /// Has `tool` do its work, if it still is what `claim` says.
    pub(super) async fn call_tool(
        &self,
        tool: &str,
        claim: &ToolClaim,
        arguments: JsonObject,
    ) -> Result<CallToolResult, McpServerError> {
        self.request(async |live| {
            live.check_claim(&self.server, tool, claim).await?;
            let mut params = CallToolRequestParams::new(tool.to_string()).with_arguments(arguments);
            if let Some(trace) = TraceContext::outgoing_header() {
                params.set_traceparent(&trace);
            }
            match live.service.call_tool_once(params).await.map_err(|error| self.to_server_error(error))? {
                CallToolResponse::Complete(result) => Ok(result),
                _ => Err(self.input_required_error()),
            }
        })
        .await
    }

    /// The first page of its resources and of its templates of resources.
    pub(super) async fn list_resources(
        &self,
    ) -> Result<(Vec<Resource>, Vec<ResourceTemplate>), McpServerError> {
        self.request(async |live| {
            let listed = live.service.list_resources(None).await;
            let resources = listed.map_err(|error| self.to_server_error(error))?.resources;
            let templates = match live.service.list_resource_templates(None).await {
                Ok(listed) => listed.resource_templates,
                // A server may have resources and no templates.
                Err(ServiceError::McpError(_)) => Vec::new(),
                Err(error) => return Err(self.to_server_error(error)),
            };
            Ok((resources, templates))
        })
        .await
    }

    /// What the resource at `uri` holds.
    pub(super) async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, McpServerError> {
        self.request(async |live| {
            let params = ReadResourceRequestParams::new(uri);
            match live
                .service
                .read_resource_once(params)
                .await
                .map_err(|error| self.to_server_error(error))?
            {
                ReadResourceResponse::Complete(result) => Ok(result),
                _ => Err(self.input_required_error()),
            }
        })
        .await
    }

    /// The first page of its prompts.
    pub(super) async fn list_prompts(&self) -> Result<Vec<Prompt>, McpServerError> {
        self.request(async |live| {
            let listed = live.service.list_prompts(None).await;
            Ok(listed.map_err(|error| self.to_server_error(error))?.prompts)
        })
        .await
    }

    /// The messages of the prompt `name`.
    pub(super) async fn get_prompt(
        &self,
        name: &str,
        arguments: JsonObject,
    ) -> Result<GetPromptResult, McpServerError> {
        self.request(async |live| {
            let params = GetPromptRequestParams::new(name).with_arguments(arguments);
            match live.service.get_prompt_once(params).await.map_err(|error| self.to_server_error(error))? {
                GetPromptResponse::Complete(result) => Ok(result),
                _ => Err(self.input_required_error()),
            }
        })
        .await
    }

    /// Asks the server something, within the time of a call.
    async fn request<T>(
        &self,
        ask: impl AsyncFnOnce(&LiveMcpConnection) -> Result<T, McpServerError>,
    ) -> Result<T, McpServerError> {
        let live = self.ensure_live().await?;
        let limit = self.server.bounds.call;
        // Dropping the inner future tells the server that nobody waits any more.
        let mut result = timeout(limit, ask(&live)).await.unwrap_or_else(|_| Err(self.timeout_error(limit)));
        if let Err(McpServerError::Ended { stderr, .. }) = &mut result {
            *stderr = live.stderr.last_words().await;
        }
        let is_gone = match &result {
            Err(McpServerError::Ended { .. }) => true,
            // Only the tool may be slow. A server that does not answer at all is replaced by the next call.
            Err(McpServerError::TimedOut { .. }) => !live.answers().await,
            Ok(_) | Err(_) => false,
        };
        let mut state = self.state.lock().await;
        if result.is_ok() {
            state.failures = 0;
        }
        // Another call may have found out before, and the server that is there now is a new one.
        if is_gone && state.live.as_ref().is_none_or(|now| Arc::ptr_eq(now, &live)) {
            state.record_failure();
        }
        result
    }

    /// The server, started if it is not there. Others who need it meanwhile wait for the same start, which is why the
    /// lock is held: there must not be two of it.
    async fn ensure_live(&self) -> Result<Arc<LiveMcpConnection>, McpServerError> {
        let mut state = self.state.lock().await;
        if let Some(live) = state.live.as_ref().filter(|live| !live.service.is_transport_closed()) {
            return Ok(live.clone());
        }
        state.live = None;
        if let Some(wait) = state.not_before.and_then(|until| until.checked_duration_since(Instant::now())) {
            let seconds = wait.as_secs() + 1;
            return Err(McpServerError::LeftAlone { server: self.server.name.clone(), seconds });
        }
        let limit = self.server.bounds.start;
        let stderr = StderrTail::default();
        match timeout(limit, open_connection(&self.server, &stderr))
            .await
            .unwrap_or_else(|_| Err(self.timeout_error(limit)))
        {
            Ok(live) => {
                let live = Arc::new(live);
                state.live = Some(live.clone());
                state.not_before = None;
                Ok(live)
            }
            Err(error) => {
                state.record_failure();
                Err(self.with_stderr(error, &stderr).await)
            }
        }
    }

    /// What a program that did not start wrote says more than that it did not start.
    async fn with_stderr(&self, error: McpServerError, stderr: &StderrTail) -> McpServerError {
        if !matches!(self.server.reach, McpTransport::Stdio { .. }) {
            return error;
        }
        let why = match &error {
            McpServerError::NotStarted { why, .. } => why.clone(),
            McpServerError::TimedOut { seconds, .. } => format!("no answer within {seconds} seconds"),
            _ => return error,
        };
        let words = stderr.last_words().await;
        if words.is_empty() {
            return error;
        }
        McpServerError::NotStarted {
            server: self.server.name.clone(),
            why: format!("{why}; it wrote: {words}"),
        }
    }

    fn to_server_error(&self, error: ServiceError) -> McpServerError {
        match error {
            ServiceError::TransportClosed => {
                McpServerError::Ended { server: self.server.name.clone(), stderr: String::new() }
            }
            ServiceError::McpError(error) => self.refused_error(&error.message),
            ServiceError::Timeout { timeout } => self.timeout_error(timeout),
            other => self.refused_error(&other.to_string()),
        }
    }

    fn input_required_error(&self) -> McpServerError {
        self.refused_error("it wants to be answered or polled, which is not supported")
    }

    fn refused_error(&self, why: &str) -> McpServerError {
        McpServerError::Refused {
            server: self.server.name.clone(),
            why: clean_and_truncate(why, MAX_ERROR_BYTES),
        }
    }

    fn timeout_error(&self, limit: Duration) -> McpServerError {
        McpServerError::TimedOut { server: self.server.name.clone(), seconds: limit.as_secs() }
    }
}

impl McpConnectionState {
    fn record_failure(&mut self) {
        self.live = None;
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + restart_delay(self.failures));
    }
}

/// How long a server is left alone after so many failures in a row: not at all after the first, then longer and longer.
fn restart_delay(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => Duration::from_secs(1 << (more - 2).min(6)).min(Duration::from_secs(60)),
    }
}

async fn open_connection(
    server: &McpServer,
    stderr: &StderrTail,
) -> Result<LiveMcpConnection, McpServerError> {
    let not_started = |why: &dyn std::fmt::Display| McpServerError::NotStarted {
        server: server.name.clone(),
        why: clean_and_truncate(&why.to_string(), MAX_ERROR_BYTES),
    };
    let changed = Arc::new(AtomicBool::new(false));
    let listener = McpClientHandler { changed: changed.clone() };
    let (service, program) = match &server.reach {
        McpTransport::Stdio { command, arguments, inherited, environment } => {
            let max_message_bytes = server.bounds.message;
            let program = McpCommand { command, arguments, inherited, environment };
            let (program, output, input) =
                stdio::start_process(&program, max_message_bytes, &server.name, stderr).map_err(|error| {
                    // The child was not started, so nobody writes any more.
                    stderr.end();
                    not_started(&format!("`{command}`: {error}"))
                })?;
            let service = listener.serve((output, input)).await.map_err(|error| not_started(&error))?;
            (service, Some(program))
        }
        McpTransport::Http { url, headers } => {
            stderr.end();
            let (client, config) = http::http_client(url, headers, server.bounds.message)
                .map_err(|error| not_started(&error))?;
            let transport = StreamableHttpClientTransport::with_client(client, config);
            (listener.serve(transport).await.map_err(|error| not_started(&error))?, None)
        }
    };
    let mut live = LiveMcpConnection {
        service,
        claims: std::sync::Mutex::default(),
        changed,
        offers: McpOffers::default(),
        _program: program,
        stderr: stderr.clone(),
    };
    live.list_tools(server).await?;
    live.offers = live.find_offers().await;
    Ok(live)
}

impl LiveMcpConnection {
    /// Whether the server answers a question that takes it no time.
    async fn answers(&self) -> bool {
        timeout(MAX_PING_TIME, self.service.list_tools(None)).await.is_ok_and(|listed| listed.is_ok())
    }

    /// What it has beside tools. Many servers say that they can have resources and prompts, and have none.
    async fn find_offers(&self) -> McpOffers {
        let info = self.service.peer_info();
        let Some(can) = info.as_ref().map(|info| &info.capabilities) else { return McpOffers::default() };
        let mut offers = McpOffers::default();
        if can.resources.is_some() {
            let resources = self.service.list_resources(None).await;
            offers.resources = resources.is_ok_and(|listed| !listed.resources.is_empty());
            if !offers.resources {
                let templates = self.service.list_resource_templates(None).await;
                offers.resources = templates.is_ok_and(|listed| !listed.resource_templates.is_empty());
            }
        }
        if can.prompts.is_some() {
            let prompts = self.service.list_prompts(None).await;
            offers.prompts = prompts.is_ok_and(|listed| !listed.prompts.is_empty());
        }
        offers
    }

    /// Asks for the tools and remembers what they claim.
    async fn list_tools(&self, server: &McpServer) -> Result<Vec<Tool>, McpServerError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_TOOL_LIST_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let page =
                self.service.list_tools(Some(page)).await.map_err(|error| McpServerError::NotStarted {
                    server: server.name.clone(),
                    why: clean_and_truncate(&error.to_string(), MAX_ERROR_BYTES),
                })?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= server.bounds.tools {
                break;
            }
        }
        tools.truncate(server.bounds.tools);
        let claims = tools.iter().map(|tool| (tool.name.to_string(), ToolClaim::from_tool(tool))).collect();
        *self.claims.lock().unwrap_or_else(PoisonError::into_inner) = claims;
        Ok(tools)
    }

    /// Whether the tool is still what was approved. A server that says its tools have changed is asked for the list again.
    async fn check_claim(
        &self,
        server: &McpServer,
        tool: &str,
        claim: &ToolClaim,
    ) -> Result<(), McpServerError> {
        if self.changed.swap(false, Ordering::AcqRel) {
            self.list_tools(server).await?;
        }
        let (server, tool) = (server.name.clone(), tool.to_string());
        match self.claims.lock().unwrap_or_else(PoisonError::into_inner).get(&tool) {
            Some(now) if now == claim => Ok(()),
            Some(_) => Err(McpServerError::Changed { server, tool }),
            None => Err(McpServerError::Gone { server, tool }),
        }
    }
}

/// What we are to a server: a client that offers nothing, no models, no files, no questions to people.
#[derive(Clone, Debug)]
struct McpClientHandler {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for McpClientHandler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("doran", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Release);
    }
}

impl McpServerError {
    /// In Korean.
    pub(super) fn korean_message(&self) -> String {
        match self {
            Self::NotStarted { server, why } => {
                format!(
                    "MCP 서버 `{server}`을(를) 시작할 수 없습니다: {why}. 설정의 명령이나 주소를 확인하세요"
                )
            }
            Self::LeftAlone { server, seconds } => {
                format!("MCP 서버 `{server}`이(가) 거듭 실패했습니다. {seconds}초 뒤에 다시 시도합니다")
            }
            Self::Ended { server, stderr } => {
                let words =
                    if stderr.is_empty() { String::new() } else { format!(". 마지막 출력: {stderr}") };
                format!(
                    "MCP 서버 `{server}`이(가) 호출 도중에 끝났습니다. 일이 되었는지는 알 수 없습니다{words}"
                )
            }
            Self::TimedOut { server, seconds } => {
                format!("MCP 서버 `{server}`이(가) {seconds}초 안에 답하지 않았습니다")
            }
            Self::Changed { server, tool } => format!(
                "MCP 서버 `{server}`의 도구 `{tool}`이(가) 승인된 것과 다릅니다. 다시 승인할 때까지 쓸 수 없습니다"
            ),
            Self::Gone { server, tool } => format!("MCP 서버 `{server}`에 이제 도구 `{tool}`이(가) 없습니다"),
            Self::Refused { server, why } => format!("MCP 서버 `{server}`: {why}"),
        }
    }

    /// In English.
    pub(super) fn english_message(&self) -> String {
        match self {
            Self::NotStarted { server, why } => {
                format!(
                    "the MCP server `{server}` cannot be started: {why}; check its command or address in the settings"
                )
            }
            Self::LeftAlone { server, seconds } => {
                format!(
                    "the MCP server `{server}` has failed repeatedly; it is tried again in {seconds} seconds"
                )
            }
            Self::Ended { server, stderr } => {
                let words = if stderr.is_empty() { String::new() } else { format!("; it wrote: {stderr}") };
                format!(
                    "the MCP server `{server}` ended during the call; whether the work was done is not known{words}"
                )
            }
            Self::TimedOut { server, seconds } => {
                format!("the MCP server `{server}` did not answer within {seconds} seconds")
            }
            Self::Changed { server, tool } => format!(
                "the tool `{tool}` of the MCP server `{server}` is not what was approved; it is refused until it is approved again"
            ),
            Self::Gone { server, tool } => format!("the MCP server `{server}` has no tool `{tool}` any more"),
            Self::Refused { server, why } => format!("the MCP server `{server}`: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_server_is_left_alone_longer_each_time() {
        let delays: Vec<u64> = (0..12).map(|failures| restart_delay(failures).as_secs()).collect();
        assert_eq!(delays, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(restart_delay(u32::MAX).as_secs(), 60);
    }
}

//! Sessions of MCP hosts over streamable HTTP. Each tenant has its own, so a session of somebody else does not exist.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use doran_engine::TenantId;
use futures_util::StreamExt;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use super::McpEndpoint;
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::body_memory::BodyMemory;
use crate::error::{ApiError, ApiErrorCode};

const SESSION_HEADER: &str = "mcp-session-id";
/// The most sessions of a tenant.
const MAX_SESSIONS: usize = 256;
/// A session in which nothing happens for so long ends. Its runs go on.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The most bytes of an error that is passed on.
const MAX_ERROR_BYTES: usize = 10_000;

type McpService = StreamableHttpService<Arc<McpEndpoint>, LocalSessionManager>;

/// The sessions of all tenants. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct McpSessions(Arc<Mutex<BTreeMap<TenantId, TenantSessions>>>);

#[derive(Clone)]
struct TenantSessions {
    service: McpService,
    sessions: Arc<LocalSessionManager>,
}

impl McpSessions {
    fn of_tenant(&self, app: &ServerApp, caller: &ApiCaller) -> TenantSessions {
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.entry(caller.tenant.clone()).or_insert_with(|| TenantSessions::new(app, caller)).clone()
    }
}

impl TenantSessions {
    fn new(app: &ServerApp, caller: &ApiCaller) -> Self {
        let endpoint = McpEndpoint::shared(app, caller);
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE_TIMEOUT);
        let sessions = Arc::new(sessions);
        // `Host` and `Origin` were checked before the request came here.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_cancellation_token(app.draining.child_token())
            .with_sse_keep_alive(Some(app.limits.heartbeat_interval))
            .with_max_request_body_bytes(app.limits.max_body_bytes);
        let service = StreamableHttpService::new(move || Ok(endpoint.clone()), sessions.clone(), config);
        Self { service, sessions }
    }
}

/// Hands a request over to the sessions of its tenant. `body` was read from it.
pub(crate) async fn handle_request(
    app: &ServerApp,
    caller: ApiCaller,
    request: Request<Bytes>,
) -> Result<Response, ApiError> {
    let TenantSessions { service, sessions } = app.mcp.of_tenant(app, &caller);
    let session = request.headers().get(SESSION_HEADER).map(|id| id.to_str().unwrap_or_default());
    if let Some(session) = session
        && !sessions.sessions.read().await.contains_key(session)
    {
        return Err(ApiErrorCode::NotFound.into());
    }
    if session.is_none() && sessions.sessions.read().await.len() >= MAX_SESSIONS {
        app.metrics.count_request_shed();
        return Err(ApiError::with_message(
            ApiErrorCode::Overloaded,
            format!("there are {MAX_SESSIONS} MCP sessions of this key's tenant"),
            format!("이 키의 테넌트에 MCP 세션이 {MAX_SESSIONS}개 있습니다"),
        ));
    }
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts, Body::from(body));
    let response = service.handle(request).await.map(Body::new);
    if response.status().is_client_error() || response.status().is_server_error() {
        return Err(rejection(response).await);
    }
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if is_stream { counted_stream(app, caller, response) } else { Ok(response) }
}

/// What the protocol rejects, in the form of all errors of this server.
async fn rejection(response: Response) -> ApiError {
    let status = response.status();
    let code = match status {
        StatusCode::NOT_FOUND => ApiErrorCode::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => ApiErrorCode::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => ApiErrorCode::TooLarge,
        status if status.is_client_error() => ApiErrorCode::BadInput,
        _ => ApiErrorCode::Internal,
    };
    let words = to_bytes(response.into_body(), MAX_ERROR_BYTES).await.unwrap_or_default();
    let words = String::from_utf8_lossy(&words).into_owned();
    if code == ApiErrorCode::Internal {
        tracing::error!(%status, "the MCP endpoint returned an error: {words}");
        return code.into();
    }
    ApiError::with_message(code, words.clone(), format!("MCP 요청이 맞지 않습니다 ({words})"))
}

/// A stream of events that counts as one of its tenant's and ends when its key is revoked.
fn counted_stream(app: &ServerApp, caller: ApiCaller, response: Response) -> Result<Response, ApiError> {
    let room = app.shares.streams.try_acquire(caller.tenant.as_str(), 1).map_err(|_| {
        app.metrics.count_request_shed();
        ApiErrorCode::Overloaded
    })?;
    let guards = Arc::new((app.metrics.open_stream(), room));
    let (memory, keys) = (BodyMemory::new(app, &caller), app.keys.clone());
    let (mut parts, body) = response.into_parts();
    let frames = body.into_data_stream().filter_map(move |frame| {
        let (memory, guards) = (memory.clone(), guards.clone());
        async move {
            let _guards = guards;
            // A client whose frame was left out asks for it again by its event id.
            memory.count(frame.ok()?).await.ok().map(Ok::<Bytes, Infallible>)
        }
    });
    let frames = frames.take_until(async move { keys.wait_until_revoked(&caller).await });
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    parts.headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(Response::from_parts(parts, Body::from_stream(frames)))
}

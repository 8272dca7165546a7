//! HTTP and server-sent events over the engine. The only crate that knows status codes.
//!
//! A route converts a request and calls the engine or an agent. A run belongs to the store, not to the connection that
//! started it: closing the connection does not stop the run. All dialects read the same event log.
//!
//! [`router`] returns the service. [`bind`] and [`serve`] run it on a socket, with deadlines and limits. [`serve_graphs()`] does
//! all of it for graphs of your own.

mod agent_request;
pub mod api;
mod authentication;
mod body_memory;
mod budget;
mod bulk_read;
mod cors;
mod error;
mod error_detail;
mod eval_budget;
mod eval_leases;
mod eval_runs;
mod eval_store;
mod eval_usage;
mod header_lines;
mod host_guard;
mod idempotency;
mod listen;
mod mcp;
mod metrics;
mod model_registry;
mod openapi;
mod rate_limit;
mod request_body;
mod request_origin;
mod routes;
mod run_images;
mod serve_graphs;
mod sse;
mod stored_json;
mod telemetry;
mod thread_settings;
mod trace;
mod transcript_stream;
mod ui;
mod unread_body;
mod url_encoding;
mod write_timeout;

use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use doran_agents::Agent;
use doran_agents::admission::{AdmissionPolicy, FairAdmission};
use doran_agents::llm::Embedder;
use doran_agents::memory::MemoryStore;
use doran_agents::retrieval::{DocumentIndex, Library};
use doran_engine::store::{IdempotencyStore, KeyValueStore};
use doran_engine::{RunHandle, Runtime};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

pub use agent_request::title_from_message;
pub use authentication::{ApiKey, ApiKeys, KeyHash};
pub use budget::{BudgetError, MonthlyBudget};
pub use cors::{AllowedOrigin, InvalidOriginError};
pub use error::{ApiErrorCode, ApiErrorInfo};
pub use eval_store::{EvalStore, EvalStoreError, EvalUsageStore, StoredEvalSet};
pub use eval_usage::{EvalUsage, ModelUsage};
pub use host_guard::is_valid_host;
pub use listen::{BindError, bind, serve};
pub use metrics::Metrics;
pub use model_registry::{ModelRegistry, ModelRegistryError, SubmittedModelKey};
pub use openapi::openapi_document;
pub use rate_limit::RateLimit;
pub use routes::{
    ApiRoute, CHAT_COMPLETION_FIELDS, EMBEDDING_FIELDS, OpenAiFieldSupport, OpenAiRequestField,
    RESPONSE_FIELDS, RouteAccess, router, routes,
};
pub use serve_graphs::{ServeGraphsError, serve_graphs};
pub use telemetry::{Telemetry, TelemetrySettings, TelemetryWarning};
pub use thread_settings::apply_thread_settings;
pub use url_encoding::percent_encode;

use crate::eval_leases::EvalLeases;
use crate::eval_runs::EvalRuns;
use crate::idempotency::StoredResponses;
use crate::mcp::McpSessions;
use crate::rate_limit::RateLimiter;
use crate::telemetry::RunMetrics;

/// How many starts of runs are queued for a stream. One that is further behind asks the store.
const MAX_QUEUED_RUN_STARTS: usize = 256;

/// The state of the server that all routes share. A clone is one reference: every layer of every request makes one.
#[derive(Clone)]
pub struct ServerApp(Arc<ServerParts>);

/// What a [`ServerApp`] is made of.
#[derive(Clone)]
pub struct ServerParts {
    /// Runs the graphs.
    pub(crate) runtime: Runtime,
    /// The agents.
    pub(crate) agents: ServerAgents,
    /// The API keys.
    pub(crate) keys: ApiKeys,
    /// The search index.
    pub(crate) index: Option<Arc<dyn DocumentIndex>>,
    /// Turns texts into vectors.
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    /// The library that stores uploaded documents.
    pub(crate) library: Option<Library>,
    /// Memories across threads.
    pub(crate) memories: Option<Arc<dyn MemoryStore>>,
    /// Models that chats can choose.
    pub(crate) models: Option<Arc<dyn ModelRegistry>>,
    /// What the runs of a tenant may cost in a month.
    pub(crate) budget: Option<MonthlyBudget>,
    /// Won for a US dollar, to show costs in both.
    pub(crate) krw_per_usd: Option<f64>,
    /// Host names of this server besides `localhost`.
    pub(crate) allowed_hosts: Arc<[String]>,
    /// Origins whose pages may call this server.
    pub(crate) allowed_origins: Arc<[AllowedOrigin]>,
    /// Limits and timeouts.
    pub(crate) limits: ServerLimits,
    /// Metrics.
    pub(crate) metrics: Metrics,
    /// Metrics of runs, where they are measured.
    pub(crate) run_metrics: Option<RunMetrics>,
    /// Cancelled on shutdown. Every stream then ends with `draining`.
    pub(crate) draining: CancellationToken,
    pub(crate) rate_limiter: RateLimiter,
    /// Capacity that tenants share.
    pub(crate) shares: TenantShares,
    /// Responses to requests with an idempotency key.
    pub(crate) idempotency: StoredResponses,
    /// Sessions of MCP hosts.
    pub(crate) mcp: McpSessions,
    /// Runs that start, for streams that wait for one.
    pub(crate) run_starts: broadcast::Sender<Arc<RunHandle>>,
    /// Evaluations.
    pub(crate) evals: Option<Arc<dyn EvalStore>>,
    /// What evaluations used.
    pub(crate) eval_usage: Option<Arc<dyn EvalUsageStore>>,
    /// Evaluations that are under way.
    pub(crate) eval_runs: EvalRuns,
}

impl ServerApp {
    /// A server of these agents, for this machine, without keys. Responses to requests with an idempotency key are stored
    /// in `idempotency`.
    pub fn new(runtime: Runtime, idempotency: Arc<dyn IdempotencyStore>, agents: Vec<Agent>) -> Self {
        let limits = ServerLimits::default();
        Self(Arc::new(ServerParts {
            runtime,
            agents: ServerAgents::new(agents),
            keys: ApiKeys::default(),
            index: None,
            embedder: None,
            library: None,
            memories: None,
            models: None,
            budget: None,
            krw_per_usd: None,
            allowed_hosts: Arc::from([]),
            allowed_origins: Arc::from([]),
            limits,
            metrics: Metrics::default(),
            run_metrics: None,
            draining: CancellationToken::new(),
            rate_limiter: RateLimiter::new(limits.rate_limit),
            shares: TenantShares::new(&limits),
            idempotency: StoredResponses::new(idempotency),
            mcp: McpSessions::default(),
            run_starts: broadcast::channel(MAX_QUEUED_RUN_STARTS).0,
            evals: None,
            eval_usage: None,
            eval_runs: EvalRuns::default(),
        }))
    }

    /// This server with other parts.
    pub(crate) fn change_parts(mut self, change: impl FnOnce(&mut ServerParts)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Requires one of these keys for every request.
    pub fn keys(self, keys: ApiKeys) -> Self {
        self.change_parts(|parts| parts.keys = keys)
    }

    /// Sets the search index.
    pub fn index(self, index: Arc<dyn DocumentIndex>) -> Self {
        self.change_parts(|parts| parts.index = Some(index))
    }

    /// Sets the encoder for `/v1/embeddings`.
    pub fn embedder(self, embedder: Arc<dyn Embedder>) -> Self {
        self.change_parts(|parts| parts.embedder = Some(embedder))
    }

    /// Sets the library for uploaded documents.
    pub fn library(self, library: Library) -> Self {
        self.change_parts(|parts| parts.library = Some(library))
    }

    /// Sets the store of memories.
    pub fn memories(self, memories: Arc<dyn MemoryStore>) -> Self {
        self.change_parts(|parts| parts.memories = Some(memories))
    }

    /// Sets the models that chats can choose.
    pub fn models(self, models: Arc<dyn ModelRegistry>) -> Self {
        self.change_parts(|parts| parts.models = Some(models))
    }

    /// Sets where evaluations are stored, and what they used.
    pub fn evals(self, evals: Arc<dyn EvalStore>, usage: Arc<dyn EvalUsageStore>) -> Self {
        self.change_parts(|parts| {
            parts.evals = Some(evals);
            parts.eval_usage = Some(usage);
        })
    }

    /// Sets the values that the replicas of this server share. Without them it has none.
    pub fn shared_values(self, values: Arc<dyn KeyValueStore>) -> Self {
        self.change_parts(|parts| parts.eval_runs = EvalRuns::with_leases(EvalLeases::new(values)))
    }

    /// Sets what the runs of a tenant may cost in a month.
    pub fn budget(self, budget: MonthlyBudget) -> Self {
        self.change_parts(|parts| {
            parts.runtime.set_run_gate(Arc::new(budget.clone()));
            parts.budget = Some(budget);
        })
    }

    /// Sets the rate at which costs are also shown in won.
    pub fn krw_per_usd(self, rate: f64) -> Self {
        self.change_parts(|parts| parts.krw_per_usd = Some(rate))
    }

    /// Accepts these hosts too. One that [`is_valid_host`] does not take is named by no request.
    pub fn allowed_hosts(self, hosts: Vec<String>) -> Self {
        let hosts = hosts.into_iter().map(host_guard::with_brackets).collect();
        self.change_parts(|parts| parts.allowed_hosts = hosts)
    }

    /// Lets pages of these origins call the server (CORS).
    pub fn allowed_origins(self, origins: Vec<AllowedOrigin>) -> Self {
        self.change_parts(|parts| parts.allowed_origins = origins.into())
    }

    /// Shows the metrics of runs that this measures.
    pub fn telemetry(self, telemetry: &Telemetry) -> Self {
        self.change_parts(|parts| parts.run_metrics = Some(telemetry.run_metrics()))
    }

    /// Sets the limits.
    pub fn limits(self, limits: ServerLimits) -> Self {
        self.change_parts(|parts| {
            parts.rate_limiter = RateLimiter::new(limits.rate_limit);
            parts.shares = TenantShares::new(&limits);
            parts.limits = limits;
        })
    }

    /// Sets the token that ends every stream when it is cancelled.
    pub fn shutdown_token(self, draining: CancellationToken) -> Self {
        self.change_parts(|parts| parts.draining = draining)
    }

    /// The token that ends every stream when it is cancelled.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// The agents, to be replaced while the server runs.
    pub fn agent_list(&self) -> ServerAgents {
        self.agents.clone()
    }

    /// Whether a run of this agent goes on here. One whose file was deleted is gone, also while its graph is still in memory.
    pub(crate) fn has_agent(&self, name: &str) -> bool {
        self.agents.current().iter().any(|agent| agent.name == name)
    }

    pub(crate) fn find_agent(&self, name: &str) -> Option<Agent> {
        self.agents.current().iter().find(|agent| agent.name == name).cloned()
    }
}

impl Deref for ServerApp {
    type Target = ServerParts;

    fn deref(&self) -> &ServerParts {
        &self.0
    }
}

/// The agents of a server. Cheap to clone; a change is seen by every clone at once.
#[derive(Clone)]
pub struct ServerAgents(Arc<RwLock<Arc<[Agent]>>>);

impl ServerAgents {
    fn new(agents: Vec<Agent>) -> Self {
        Self(Arc::new(RwLock::new(agents.into())))
    }

    /// These agents from now on. The graphs of new ones have to be known to the runtime.
    pub fn replace(&self, agents: Vec<Agent>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = agents.into();
    }

    /// The agents of now.
    pub(crate) fn current(&self) -> Arc<[Agent]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Capacity that is shared fairly, so that one tenant at its limit leaves room for the others.
#[derive(Clone, Debug)]
pub(crate) struct TenantShares {
    /// Concurrent requests.
    pub(crate) requests: FairAdmission,
    /// Open streams.
    pub(crate) streams: FairAdmission,
    /// Concurrent uploads.
    pub(crate) uploads: FairAdmission,
    /// Concurrent requests that read a whole document or conversation.
    pub(crate) bulk_reads: FairAdmission,
    /// Bytes of request and response bodies in memory.
    pub(crate) body_memory: FairAdmission,
}

impl TenantShares {
    fn new(limits: &ServerLimits) -> Self {
        let leave_room = |capacity| FairAdmission::new(capacity, 0, AdmissionPolicy::LeaveRoom);
        Self {
            requests: leave_room(limits.max_requests),
            streams: leave_room(limits.max_streams),
            uploads: leave_room(limits.max_uploads),
            bulk_reads: FairAdmission::new(
                limits.max_bulk_reads,
                limits.max_requests,
                AdmissionPolicy::UseAll,
            ),
            body_memory: FairAdmission::new(
                limits.max_body_memory_bytes,
                body_memory::MAX_WAITING_BODIES,
                AdmissionPolicy::LeaveRoom,
            ),
        }
    }
}

/// Limits and timeouts. One tenant gets at most half of what tenants share.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Maximum open connections. More wait to be accepted.
    pub max_connections: usize,
    /// Time limit for the head of a request.
    pub header_timeout: Duration,
    /// Maximum bytes of the head of a request.
    pub max_header_bytes: usize,
    /// Time limit for the body of a request.
    pub body_timeout: Duration,
    /// Maximum bytes of the body of a request.
    pub max_body_bytes: usize,
    /// Maximum bytes of one message.
    pub max_message_bytes: usize,
    /// Maximum bytes of a document. The library may have a lower limit.
    pub max_document_bytes: usize,
    /// Maximum concurrent uploads. More are rejected. Shared by tenants.
    pub max_uploads: usize,
    /// Time limit for an upload.
    pub upload_timeout: Duration,
    /// Maximum concurrent requests, without open streams. More are rejected. Shared by tenants.
    pub max_requests: usize,
    /// Maximum open streams. More are rejected. Shared by tenants.
    pub max_streams: usize,
    /// Maximum concurrent requests that read a whole document or conversation. More wait.
    pub max_bulk_reads: usize,
    /// Bytes of bodies that are held at a time, of requests and answers; requests for more are refused. Shared by
    /// tenants.
    pub max_body_memory_bytes: usize,
    /// Minimum average rate, in bytes per second, at which a client must read a large response.
    pub min_read_rate: usize,
    /// How long a request waits for the end of its run.
    pub answer_timeout: Duration,
    /// Rate limit per API key.
    pub rate_limit: RateLimit,
    /// Maximum stored responses to requests with an idempotency key, per tenant. The oldest are deleted first.
    pub max_stored_responses: usize,
    /// Time between heartbeats of an idle stream.
    pub heartbeat_interval: Duration,
    /// Time after which a client that does not read is disconnected.
    pub write_timeout: Duration,
    /// How long open connections may take to end on shutdown.
    pub shutdown_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            header_timeout: Duration::from_secs(10),
            max_header_bytes: 16 * 1024,
            body_timeout: Duration::from_secs(15),
            max_body_bytes: 1024 * 1024,
            max_message_bytes: 512 * 1024,
            max_document_bytes: 50 * 1024 * 1024,
            max_uploads: 32,
            upload_timeout: Duration::from_secs(300),
            max_requests: 1024,
            max_streams: 16_384,
            max_bulk_reads: 4,
            max_body_memory_bytes: 512 * 1024 * 1024,
            min_read_rate: 64 * 1024,
            answer_timeout: Duration::from_secs(300),
            rate_limit: RateLimit::default(),
            max_stored_responses: 10_000,
            heartbeat_interval: Duration::from_secs(15),
            write_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(4),
        }
    }
}

//! HTTP and server-sent events over the engine. The only crate that knows status codes.
//!
//! A route translates and hands over: what a run does is the engine's business, what an agent says the agents'. A run
//! belongs to the store, not to the connection that started it; closing the connection changes nothing. Every dialect
//! is a view of the one event log of a run.
//!
//! [`router`] is the whole of it as a service, [`bind`] and [`serve`] put it on a socket with deadlines and limits.

mod agent_request;
pub mod api;
mod authentication;
mod error;
mod error_detail;
mod header_lines;
mod host_guard;
mod idempotency;
mod listen;
mod metrics;
mod openapi;
mod rate_limit;
mod request_body;
mod routes;
mod sse;
mod trace;
mod transcript_stream;
mod ui;
mod write_timeout;

use std::sync::Arc;
use std::time::Duration;

use doran_agents::Agent;
use doran_agents::memory::MemoryStore;
use doran_agents::retrieval::{DocumentIndex, Library};
use doran_engine::Runtime;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use authentication::{ApiKey, ApiKeys, KeyHash};
pub use error::{ApiErrorCode, ApiErrorInfo};
pub use listen::{BindError, bind, serve};
pub use metrics::Metrics;
pub use openapi::openapi_document;
pub use rate_limit::RateLimit;
pub use routes::{ApiRoute, RouteAccess, router, routes};

use crate::idempotency::IdempotencyCache;
use crate::rate_limit::RateLimiter;

/// What the routes work with. Cheap to clone.
#[derive(Clone)]
pub struct ServerApp {
    /// Runs the graphs.
    pub(crate) runtime: Runtime,
    /// Who may be asked.
    pub(crate) agents: Arc<[Agent]>,
    /// Who may ask.
    pub(crate) keys: ApiKeys,
    /// Where documents are searched.
    pub(crate) index: Option<Arc<dyn DocumentIndex>>,
    /// Where documents are handed in.
    pub(crate) library: Option<Library>,
    /// What is remembered across threads.
    pub(crate) memories: Option<Arc<dyn MemoryStore>>,
    /// Names of this server beside those of this machine.
    pub(crate) allowed_hosts: Arc<[String]>,
    /// How much of anything is allowed.
    pub(crate) limits: ServerLimits,
    /// What happened so far.
    pub(crate) metrics: Metrics,
    /// Ends every stream with `draining`.
    pub(crate) draining: CancellationToken,
    pub(crate) rate_limiter: RateLimiter,
    /// Room for documents on their way in, which are held whole until they are on disk.
    pub(crate) upload_slots: Arc<Semaphore>,
    /// What was answered to requests that may be sent again.
    pub(crate) idempotency: IdempotencyCache,
}

impl ServerApp {
    /// A server of these agents, for this machine, without keys.
    pub fn new(runtime: Runtime, agents: Vec<Agent>) -> Self {
        let limits = ServerLimits::default();
        Self {
            runtime,
            agents: agents.into(),
            keys: ApiKeys::default(),
            index: None,
            library: None,
            memories: None,
            allowed_hosts: Arc::from([]),
            limits,
            metrics: Metrics::default(),
            draining: CancellationToken::new(),
            rate_limiter: RateLimiter::new(limits.rate_limit),
            upload_slots: Arc::new(Semaphore::new(limits.max_uploads)),
            idempotency: IdempotencyCache::default(),
        }
    }

    /// Wants one of these keys from everybody.
    pub fn keys(mut self, keys: ApiKeys) -> Self {
        self.keys = keys;
        self
    }

    /// Documents are searched here.
    pub fn index(mut self, index: Arc<dyn DocumentIndex>) -> Self {
        self.index = Some(index);
        self
    }

    /// Documents are handed in here.
    pub fn library(mut self, library: Library) -> Self {
        self.library = Some(library);
        self
    }

    /// What agents remember across threads is here.
    pub fn memories(mut self, memories: Arc<dyn MemoryStore>) -> Self {
        self.memories = Some(memories);
        self
    }

    /// Answers to these names too.
    pub fn allowed_hosts(mut self, hosts: Vec<String>) -> Self {
        self.allowed_hosts = hosts.into();
        self
    }

    /// With these limits.
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.rate_limiter = RateLimiter::new(limits.rate_limit);
        self.upload_slots = Arc::new(Semaphore::new(limits.max_uploads));
        self.limits = limits;
        self
    }

    /// Ends every stream when this is cancelled.
    pub fn shutdown_token(mut self, draining: CancellationToken) -> Self {
        self.draining = draining;
        self
    }

    /// Ends every stream when it is cancelled.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    pub(crate) fn find_agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

/// How much of anything is allowed.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at a time; more wait to be accepted.
    pub max_connections: usize,
    /// Time to send the head of a request.
    pub header_timeout: Duration,
    /// Bytes of the head of a request.
    pub max_header_bytes: usize,
    /// Time to send the body of a request.
    pub body_timeout: Duration,
    /// Bytes of the body of a request.
    pub max_body_bytes: usize,
    /// Bytes of one message.
    pub max_message_bytes: usize,
    /// Bytes of a document.
    pub max_document_bytes: usize,
    /// Documents on their way in at a time; more are turned away.
    pub max_uploads: usize,
    /// Time to send a document.
    pub upload_timeout: Duration,
    /// Requests answered at a time, open streams not counted; more are turned away.
    pub max_requests: usize,
    /// Open streams; more are turned away.
    pub max_streams: usize,
    /// How long a request that waits for an answer waits.
    pub answer_timeout: Duration,
    /// Requests a key may send.
    pub rate_limit: RateLimit,
    /// Answers to requests that may be sent again, kept of each tenant; of more the oldest is forgotten.
    pub max_stored_responses: usize,
    /// Time between signs of life in a stream where nothing happens.
    pub heartbeat_interval: Duration,
    /// Time after which a client that does not read its stream is let go.
    pub write_timeout: Duration,
    /// Time that open connections have once the server stops.
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
            max_document_bytes: 64 * 1024 * 1024,
            max_uploads: 16,
            upload_timeout: Duration::from_secs(300),
            max_requests: 512,
            max_streams: 8192,
            answer_timeout: Duration::from_secs(300),
            rate_limit: RateLimit::default(),
            max_stored_responses: 10_000,
            heartbeat_interval: Duration::from_secs(15),
            write_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(4),
        }
    }
}

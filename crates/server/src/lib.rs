//! HTTP and server-sent events over the engine. The only crate that knows status codes.
//!
//! A route translates and hands over: what a run does is the engine's business, what an agent says the agents'. A run
//! belongs to the store, not to the connection that started it; closing the connection changes nothing. Every dialect
//! is a view of the one event log of a run.
//!
//! [`router`] is the whole of it as a service, [`bind`] and [`serve`] put it on a socket with deadlines and limits.

pub mod api;
mod ask;
mod body;
mod error;
mod fold;
mod guard;
mod heads;
mod identity;
mod listen;
mod metrics;
mod once;
mod rate;
mod routes;
mod sse;
mod stall;
mod tell;
mod trace;
mod ui;
mod why;

use std::sync::Arc;
use std::time::Duration;

use doran_agents::Agent;
use doran_agents::memory::Memories;
use doran_agents::retrieval::{Index, Library};
use doran_engine::Runtime;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use error::{Code, Row};
pub use identity::{Key, KeyHash, Keys};
pub use listen::{BindError, bind, serve};
pub use metrics::Metrics;
pub use rate::Rate;
pub use routes::{Door, ROUTES, Route, router};

use crate::once::Answers;
use crate::rate::Rates;

/// What the routes work with. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// Runs the graphs.
    pub(crate) runtime: Runtime,
    /// Who may be asked.
    pub(crate) agents: Arc<[Agent]>,
    /// Who may ask.
    pub(crate) keys: Keys,
    /// Where documents are searched.
    pub(crate) index: Option<Arc<dyn Index>>,
    /// Where documents are handed in.
    pub(crate) library: Option<Library>,
    /// What is remembered across threads.
    pub(crate) memories: Option<Arc<dyn Memories>>,
    /// Names of this server beside those of this machine.
    pub(crate) hosts: Arc<[String]>,
    /// How much of anything is allowed.
    pub(crate) limits: Limits,
    /// What happened so far.
    pub(crate) metrics: Metrics,
    /// Ends every stream with `draining`.
    pub(crate) draining: CancellationToken,
    pub(crate) rates: Rates,
    /// Room for documents on their way in, which are held whole until they are on disk.
    pub(crate) uploads: Arc<Semaphore>,
    /// What was answered to requests that may be sent again.
    pub(crate) answers: Answers,
}

impl App {
    /// A server of these agents, for this machine, without keys.
    pub fn new(runtime: Runtime, agents: Vec<Agent>) -> Self {
        let limits = Limits::default();
        Self {
            runtime,
            agents: agents.into(),
            keys: Keys::default(),
            index: None,
            library: None,
            memories: None,
            hosts: Arc::from([]),
            limits,
            metrics: Metrics::default(),
            draining: CancellationToken::new(),
            rates: Rates::new(limits.rate),
            uploads: Arc::new(Semaphore::new(limits.uploads)),
            answers: Answers::default(),
        }
    }

    /// Wants one of these keys from everybody.
    pub fn keys(mut self, keys: Keys) -> Self {
        self.keys = keys;
        self
    }

    /// Documents are searched here.
    pub fn index(mut self, index: Arc<dyn Index>) -> Self {
        self.index = Some(index);
        self
    }

    /// Documents are handed in here.
    pub fn library(mut self, library: Library) -> Self {
        self.library = Some(library);
        self
    }

    /// What agents remember across threads is here.
    pub fn memories(mut self, memories: Arc<dyn Memories>) -> Self {
        self.memories = Some(memories);
        self
    }

    /// Answers to these names too.
    pub fn hosts(mut self, hosts: Vec<String>) -> Self {
        self.hosts = hosts.into();
        self
    }

    /// With these limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.rates = Rates::new(limits.rate);
        self.uploads = Arc::new(Semaphore::new(limits.uploads));
        self.limits = limits;
        self
    }

    /// Ends every stream when this is cancelled.
    pub fn stopped_by(mut self, draining: CancellationToken) -> Self {
        self.draining = draining;
        self
    }

    /// Ends every stream when it is cancelled.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    pub(crate) fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

/// How much of anything is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// Time to send the head of a request.
    pub head_time: Duration,
    /// Bytes of the head of a request.
    pub head_bytes: usize,
    /// Time to send the body of a request.
    pub body_time: Duration,
    /// Bytes of the body of a request.
    pub body_bytes: usize,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Bytes of a document.
    pub document_bytes: usize,
    /// Documents on their way in at a time; more are turned away.
    pub uploads: usize,
    /// Time to send a document.
    pub document_time: Duration,
    /// Requests answered at a time, open streams not counted; more are turned away.
    pub requests: usize,
    /// Open streams; more are turned away.
    pub streams: usize,
    /// How long a request that waits for an answer waits.
    pub wait: Duration,
    /// Requests a key may send.
    pub rate: Rate,
    /// Answers to requests that may be sent again, kept of each tenant; of more the oldest is forgotten.
    pub kept_answers: usize,
    /// Time between signs of life in a stream where nothing happens.
    pub heartbeat: Duration,
    /// Time after which a client that does not read its stream is let go.
    pub slow_reader: Duration,
    /// Time that open connections have once the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            head_time: Duration::from_secs(10),
            head_bytes: 16 * 1024,
            body_time: Duration::from_secs(15),
            body_bytes: 1024 * 1024,
            message_bytes: 512 * 1024,
            document_bytes: 64 * 1024 * 1024,
            uploads: 16,
            document_time: Duration::from_secs(300),
            requests: 512,
            streams: 8192,
            wait: Duration::from_secs(300),
            rate: Rate::default(),
            kept_answers: 10_000,
            heartbeat: Duration::from_secs(15),
            slow_reader: Duration::from_secs(60),
            drain: Duration::from_secs(4),
        }
    }
}

//! HTTP and server-sent events over the engine. The only crate that knows status codes.
//!
//! A route translates and hands over: what a run does is the engine's business, what an agent says the agents'. A run
//! belongs to the store, not to the connection that started it; closing the connection changes nothing.
//!
//! [`router`] is the whole of it as a service, [`bind`] and [`serve`] put it on a socket with deadlines and limits.

pub mod api;
mod body;
mod error;
mod guard;
mod listen;
mod routes;
mod sse;
mod ui;

use std::sync::Arc;
use std::time::Duration;

use doran_agents::{About, Agent};
use doran_engine::{Runtime, Tenant};
use tokio_util::sync::CancellationToken;

pub use error::{Code, Row};
pub use listen::{BindError, bind, serve};
pub use routes::router;

/// What the routes work with. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// Runs the graphs.
    pub runtime: Runtime,
    /// Whose things are asked for.
    pub tenant: Tenant,
    /// Who may be asked.
    pub agents: Arc<[Agent]>,
    /// Who answers.
    pub model: Arc<About>,
    /// How much of anything is allowed.
    pub limits: Limits,
    /// Ends every stream with `draining`.
    pub draining: CancellationToken,
}

impl App {
    /// The agent of this name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
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
            connections: 1024,
            head_time: Duration::from_secs(10),
            head_bytes: 16 * 1024,
            body_time: Duration::from_secs(15),
            body_bytes: 1024 * 1024,
            message_bytes: 64 * 1024,
            heartbeat: Duration::from_secs(15),
            slow_reader: Duration::from_secs(60),
            drain: Duration::from_secs(4),
        }
    }
}

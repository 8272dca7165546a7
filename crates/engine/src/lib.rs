//! Durable graphs: typed state, supersteps, a log that survives `kill -9`.

// The derives write `::doran_engine`, in this crate as in any other; outside of tests nothing here may derive.
#[allow(unused_extern_crates)]
extern crate self as doran_engine;

mod cx;
mod drive;
pub mod error;
pub mod failpoint;
pub mod graph;
pub mod id;
pub mod log;
mod plan;
pub mod runtime;
pub mod state;
pub mod store;

pub use cx::Cx;
pub use doran_macros::{Nodes, State};
pub use drive::Limits;
pub use error::{BuildError, EngineError, NodeError};
pub use graph::{Cache, Def, Graph, Node, NodeFuture, Nodes, Retry, Timeout, To, node, subgraph};
pub use id::{RunId, RunKey, Tenant, ThreadId, ThreadKey};
pub use runtime::{Bot, Event, Outcome, RunHandle, Runtime, RuntimeOptions, StartOptions, Until, Watch};
pub use state::{Changes, Keyed, Snap, State};

/// What the derives write against. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use serde;

    /// Reads a field that is there as one that was set, so that `null` is a change to `None` and not no change.
    pub fn set<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: serde::Deserialize<'de>,
        D: serde::Deserializer<'de>,
    {
        T::deserialize(deserializer).map(Some)
    }
}

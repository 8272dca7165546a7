//! Durable graphs: typed state, supersteps, a log that survives `kill -9`.
//!
//! A graph is nodes over one [`State`]. A [`Runtime`] runs it on threads of a store: the nodes that are due run side
//! by side on the same state, their updates are folded in the order of definition, and what changed is one
//! transaction. What a node does to the world goes through its [`Cx`], which records it. So a process can be killed
//! at any time: the next one goes on at the step, and at the call, where the last one was.
//!
//! This crate knows no language models, no HTTP and no SQL. It counts tokens and cost that nodes report, and does not know
//! where they come from. Stores for SQLite and PostgreSQL are in `doran-store`;
//! [`store::RamStore`] keeps everything in memory.
//!
//! # A letter that waits for a yes
//!
//! Two nodes, a branch, a loop and a question. Killed in the middle (`--die`) and started again it goes on where it
//! was:
//!
//! ```no_run
#![doc = include_str!("../examples/approve.rs")]
//! ```
//!
//! # More examples
//!
//! Each is a file in `examples/` and runs with `cargo run -p doran-engine --example NAME`: `hello`, `branch_and_loop`,
//! `fan_out`, `subgraph`, `retry_and_timeout`, `at_most_once`, `watch`, `time_travel`, `kill_and_resume`,
//! `custom_reducer`, `supervisor`, `handoff`.
//!
//! # Where to look
//!
//! | to | see |
//! |---|---|
//! | define a state, and how its fields take changes | [`State`], [`state::reduce`] |
//! | define a graph | [`Graph::define`], [`node`], [`To`], [`subgraph`] |
//! | call the world from a node, ask a person, show text, choose the next node | [`Cx`] |
//! | start, answer, cancel, retry, rewind, watch | [`Runtime`], [`GraphHandle`], [`RunWatch`] |
//! | read what happened | [`Event`], [`ThreadEntry`] |
//! | write a store | [`store`] and its conformance suite |

// The derives write `::doran_engine`, in this crate as in any other; outside of tests nothing here may derive.
#[allow(unused_extern_crates)]
extern crate self as doran_engine;

mod cron;
mod drive;
pub mod entry;
pub mod error;
#[doc(hidden)]
pub mod failpoint;
pub mod failure;
pub mod graph;
pub mod id;
mod item_index;
mod large_work;
/// The stored form of entries. No part of the public interface: [`entry`] has what they say.
#[doc(hidden)]
pub mod log;
mod node_context;
mod plan;
pub mod question;
pub mod runtime;
pub mod state;
mod state_shape;
pub mod store;
pub mod stored_json;
mod task_path;
mod unfinished_call;

pub use cron::InvalidCron;
pub use doran_macros::{Nodes, State};
pub use drive::RunLimits;
pub use entry::{EntryBody, StateChange, StepResult, TaskResult, ThreadEntry};
pub use error::{BuildError, EngineError, MisuseError, NodeError, RunError, StateMismatchReason};
pub use failure::NodeFailure;
pub use graph::{
    Graph, Node, NodeCachePolicy, NodeDefinition, NodeFuture, NodeName, NodeTimeout, Nodes, RetryPolicy, To,
    node, subgraph, try_subgraph,
};
pub use id::{RunId, RunKey, TenantId, ThreadId, ThreadKey};
pub use log::UnfinishedTask;
pub use node_context::Cx;
pub use question::{PendingQuestion, QuestionKind};
pub use runtime::{
    Acknowledgement, Event, GraphHandle, Outcome, RunHandle, RunWatch, Runtime, RuntimeOptions, StartOptions,
    StateEdit, StateView, StateWatch, WatchUntil,
};
pub use state::{ItemChanges, Keyed, Snap, State};
pub use task_path::{InvalidTaskPath, TaskPath};
pub use unfinished_call::{CallState, UnfinishedCall};

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

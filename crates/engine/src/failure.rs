//! Codes of runs that the engine itself ended. A node that fails may bring a code of its own
//! ([`NodeError::with_code`](crate::NodeError::with_code)). The engine has no sentences for people: a user interface has
//! those, by code.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a node that handles the errors of another reads with [`Cx::input`](crate::Cx::input).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeFailure {
    /// The node that failed.
    pub node: String,
    /// Stable, for programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// The item that the failed task had been handed, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $code:literal)*) => {
        $($(#[$doc])* pub const $name: &str = $code;)*

        /// Every code of the engine.
        pub const CODES: &[&str] = &[$($name),*];
    };
}

codes! {
    /// A node failed and did not say more.
    NODE_FAILED "node_failed"
    /// A limit of the run was reached.
    LIMIT_EXCEEDED "limit_exceeded"
    /// A node took too long.
    TIMEOUT "timeout"
    /// A node, a reducer or a branch panicked.
    PANIC "panic"
    /// The process ended in the same step over and over.
    CRASH_LOOP "crash_loop"
    /// The graph is not the one that the thread stopped in.
    GRAPH_CHANGED "graph_changed"
    /// What is stored does not fit the state.
    STATE_MISMATCH "state_mismatch"
    /// A part of the thread's log is gone or damaged.
    LOG_MISSING "log_missing"
    /// What a node gave cannot be written down.
    NOT_STORABLE "not_storable"
    /// The store cannot take what the run wants to write.
    STORE_REJECTED "store_rejected"
    /// A branch led to a node that it had not declared.
    UNDECLARED_TARGET "undeclared_target"
    /// A join waits for a node that will not come.
    STUCK_JOIN "stuck_join"
    /// A task was stopped from outside the engine.
    ABORTED "aborted"
}

//! Why a store refused.

use serde_json::{Map, Value};

use super::Seq;
use crate::id::{RunId, RunKey, ThreadId, ThreadKey};
use crate::stored_json;

/// Why a store refused, sorted by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another worker has the run, or it ended or was deleted. Drop it.
    #[error("run was taken over, ended or deleted")]
    Fenced,
    /// The thread has an active run.
    #[error("thread `{thread}` is busy with run `{run}`")]
    Busy {
        /// The thread.
        thread: ThreadId,
        /// The active run.
        run: RunId,
    },
    /// The caller's view is out of date.
    #[error("{0}")]
    Conflict(String),
    /// The idempotency key was used for something else.
    #[error("idempotency key `{0}` was used for another request")]
    KeyReused(String),
    /// There is no such thing, or it belongs to another tenant.
    #[error("{what} `{id}` does not exist")]
    NotFound {
        /// Kind of thing.
        what: &'static str,
        /// Its name.
        id: String,
    },
    /// No room left. Nothing was written; reading still works.
    #[error("the disk is full")]
    Full(#[source] BoxError),
    /// The store cannot be reached or is overloaded. Nothing was written; try again.
    #[error("the store cannot be reached")]
    Unavailable(#[source] BoxError),
    /// The write failed in a way that leaves open whether it happened. Read again before going on.
    #[error("the store does not know whether the write happened")]
    Unknown(#[source] BoxError),
    /// Written by a newer program.
    #[error("the store has format {found}, this program knows up to {known}: use a newer doran")]
    Newer {
        /// Format found.
        found: u32,
        /// Newest format known.
        known: u32,
    },
    /// The content makes no sense.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The store cannot take this write, however often it is tried. Nothing was written.
    #[error("the store cannot take this write")]
    Rejected(#[source] BoxError),
    /// Anything else.
    #[error("the store failed")]
    Other(#[source] BoxError),
}

/// Any error, kept as a source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl StoreError {
    /// A thread that is not there.
    pub fn no_thread(key: &ThreadKey) -> Self {
        Self::NotFound { what: "thread", id: key.thread.to_string() }
    }

    /// The run that an idempotency key stands for is gone.
    pub fn run_of_key_deleted() -> Self {
        Self::Conflict("the run of this idempotency key was deleted with its thread".into())
    }

    /// A run that is not there.
    pub fn no_run(key: &RunKey) -> Self {
        Self::NotFound { what: "run", id: key.run.to_string() }
    }

    /// An entry that is not there.
    pub fn no_entry(seq: Seq) -> Self {
        Self::NotFound { what: "entry", id: seq.to_string() }
    }
}

/// Refuses metadata that holds a NUL character or is nested too deep to be stored.
pub fn check_metadata(metadata: &Map<String, Value>) -> Result<(), StoreError> {
    for value in metadata.values() {
        stored_json::check_depth(value)
            .map_err(|error| StoreError::Conflict(format!("metadata: {error}")))?;
    }
    if metadata.iter().any(|(key, value)| key.contains('\0') || has_nul(value)) {
        return Err(StoreError::Conflict("metadata must not hold a NUL character".into()));
    }
    Ok(())
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(pairs) => pairs.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
    }
}

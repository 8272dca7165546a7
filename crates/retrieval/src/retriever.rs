//! The seam to whoever finds passages.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::passage::Passage;

/// Finds passages for a question.
///
/// The best come first, no passage twice, never more than asked for; the same question on the same documents gives
/// the same hits. Nothing found is an empty list, not an error.
#[async_trait]
pub trait Retriever: Send + Sync + 'static {
    /// Finds at most `limit` passages.
    async fn retrieve(&self, question: &str, limit: usize) -> Result<Vec<Hit>, RetrieveError>;
}

/// A passage found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// What was found.
    pub passage: Passage,
    /// How well it fits; comparable only within one answer of one retriever. Always above zero.
    pub score: f64,
}

/// Why nothing could be looked up, by remedy.
#[derive(Debug, thiserror::Error)]
pub enum RetrieveError {
    /// Ask again later.
    #[error("the index cannot be asked now: {reason}")]
    Unavailable {
        /// What was seen.
        reason: String,
        /// What lies beneath.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Ingest the documents again: the index is damaged or from another version.
    #[error("the index must be built again: {reason}")]
    Stale {
        /// What was seen.
        reason: String,
    },
}

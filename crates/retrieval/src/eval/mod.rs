//! How well a retriever finds what should be found: questions with known passages, and the usual measures.

mod eval_set;
mod ranking_metrics;

pub use eval_set::{RetrievalEvalQuery, RetrievalEvalReport, RetrievalEvalSet, RetrievalEvalSetError};
pub use ranking_metrics::{RankingMetrics, compute_ranking_metrics};

#[cfg(test)]
mod tests;

//! Evaluates retrieval quality: queries with known relevant passages, and the usual metrics.

mod eval_set;
mod ranking_metrics;

pub use eval_set::{RetrievalEvalQuery, RetrievalEvalReport, RetrievalEvalSet, RetrievalEvalSetError};
pub use ranking_metrics::RankingMetrics;

#[cfg(test)]
mod tests;

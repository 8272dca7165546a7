//! Finds passages for a question.

use doran_engine::NodeError;
use doran_retrieval::{Filter, Hit, Question, RetrieveError, Retriever, Tenant};

use super::work::Work;
use crate::source::Source;

/// What was found for a question, numbered from 1. No model is asked.
pub(crate) async fn retrieve(
    work: &Work,
    index: &dyn Retriever,
    question: &str,
    limit: usize,
    filter: Filter,
) -> Result<Vec<Source>, NodeError> {
    let question = Question { filter, ..Question::new(tenant(work), question, limit) };
    let search = async { index.retrieve(&question).await.map_err(sorted) };
    let hits: Vec<Hit> = work.cx.effect("retrieve", search).await?;
    Ok(Source::numbered(hits))
}

/// Whose documents are searched.
pub(crate) fn tenant(work: &Work) -> Tenant {
    Tenant::new(work.cx.tenant().map_or("local", |tenant| tenant.as_str()))
}

pub(crate) fn sorted(error: RetrieveError) -> NodeError {
    match error {
        RetrieveError::Unavailable { .. } => NodeError::transient(error),
        RetrieveError::Stale { .. } => NodeError::permanent(error),
    }
}

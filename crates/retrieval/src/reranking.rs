//! Wraps an index: removes duplicate hits and ranks the best hits again.
//!
//! [`RerankingIndex`] wraps any index. Without a [`Reranker`] it only removes duplicates. A reranker may be a model. If
//! it fails, the search returns the original order, because a worse order is better than no answer.

use std::sync::Arc;

use async_trait::async_trait;

use crate::hit_postprocessing::remove_duplicate_hits;
use crate::passage::{Document, DocumentId, DocumentTenant, Passage};
use crate::retriever::{
    DocumentFilter, DocumentIndex, DocumentSummary, Hit, RetrieveError, Retriever, SearchQuery,
};

/// Ranks a short list of passages again, more carefully than a search over all documents can.
#[async_trait]
pub trait Reranker: Send + Sync + 'static {
    /// Returns one score for each passage, in the order given. A larger score means a better answer to the question.
    async fn scores(&self, question: &str, passages: &[&Passage]) -> Result<Vec<f64>, RetrieveError>;
}

/// This many times the requested number of hits are fetched, so that enough remain after duplicates are removed.
const OVERFETCH_FACTOR: usize = 2;
/// At most this many of the best hits are ranked again.
const MAX_RERANKED_HITS: usize = 30;

/// An index that removes duplicate hits and can rank the best hits again.
pub struct RerankingIndex {
    index: Arc<dyn DocumentIndex>,
    reranker: Option<Arc<dyn Reranker>>,
}

impl RerankingIndex {
    /// Wraps `index`. Its hits are returned without duplicates.
    pub fn new(index: Arc<dyn DocumentIndex>) -> Self {
        Self { index, reranker: None }
    }

    /// Sets the reranker for the best hits.
    pub fn with_reranker(self, reranker: Arc<dyn Reranker>) -> Self {
        Self { reranker: Some(reranker), ..self }
    }

    async fn rerank(&self, question: &str, hits: Vec<Hit>) -> Vec<Hit> {
        let Some(reranker) = &self.reranker else { return hits };
        let count = hits.len().min(MAX_RERANKED_HITS);
        let passages: Vec<&Passage> = hits[..count].iter().map(|hit| &hit.passage).collect();
        match reranker.scores(question, &passages).await {
            Ok(scores) if scores.len() == count && scores.iter().all(|score| score.is_finite()) => {
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by(|left, right| scores[*right].total_cmp(&scores[*left]));
                // Scores stay with their positions, so that the reranked hits still score above the rest.
                let places: Vec<f64> = hits[..count].iter().map(|hit| hit.score).collect();
                let moved =
                    order.into_iter().zip(places).map(|(at, score)| Hit { score, ..hits[at].clone() });
                moved.chain(hits[count..].iter().cloned()).collect()
            }
            Ok(scores) => {
                tracing::warn!(wanted = count, given = scores.len(), "odd scores; the order stays");
                hits
            }
            Err(error) => {
                tracing::warn!(%error, "the order stays as it was found");
                hits
            }
        }
    }
}

#[async_trait]
impl Retriever for RerankingIndex {
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        let limit = question.limit.saturating_mul(OVERFETCH_FACTOR);
        let limit =
            if self.reranker.is_some() && question.limit > 0 { limit.max(MAX_RERANKED_HITS) } else { limit };
        let wider = SearchQuery { limit, ..question.clone() };
        let hits = self.index.retrieve(&wider).await?;
        let mut hits = self.rerank(&question.text, remove_duplicate_hits(hits)).await;
        hits.truncate(question.limit);
        Ok(hits)
    }
}

#[async_trait]
impl DocumentIndex for RerankingIndex {
    async fn check_health(&self) -> Result<(), RetrieveError> {
        self.index.check_health().await
    }

    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.index.put(tenant, document, passages).await
    }

    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        self.index.put_all(tenant, documents).await
    }

    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        self.index.remove(tenant, document).await
    }

    async fn expunge_deleted(&self) -> Result<(), RetrieveError> {
        self.index.expunge_deleted().await
    }

    async fn embed_some(&self) -> Result<usize, RetrieveError> {
        self.index.embed_some().await
    }

    fn passages_without_vectors(&self) -> usize {
        self.index.passages_without_vectors()
    }

    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError> {
        self.index.tenants().await
    }

    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        self.index.list(tenant, filter).await
    }

    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        self.index.document(tenant, id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::keyword::RamKeywordIndex;

    /// Scores passages that contain a word higher.
    struct PreferredWordReranker(&'static str, bool);

    #[async_trait]
    impl Reranker for PreferredWordReranker {
        async fn scores(&self, _: &str, passages: &[&Passage]) -> Result<Vec<f64>, RetrieveError> {
            let score = |passage: &&Passage| if passage.text.contains(self.0) { 1.0 } else { 0.0 };
            let scores: Vec<f64> = passages.iter().map(score).collect();
            Ok(if self.1 { scores } else { vec![f64::NAN] })
        }
    }

    fn index() -> Arc<RamKeywordIndex> {
        let documents = [
            Document::new("a", "t", "급여는 매월 25일에 지급한다."),
            Document::new("b", "t", "급여는 매월 25일에 지급한다"),
            Document::new("c", "t", "급여 명세서는 게시판에 올린다."),
            Document::new("d", "t", "사표는 한 달 전에 낸다."),
        ];
        Arc::new(RamKeywordIndex::from_documents(&conformance::tenant(), &documents))
    }

    async fn found(refined: &RerankingIndex, text: &str, limit: usize) -> String {
        let hits =
            refined.retrieve(&SearchQuery::new(conformance::tenant(), text, limit)).await.expect("hits");
        assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "best first");
        hits.iter().map(|hit| hit.passage.document.as_str().to_owned()).collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn a_refined_index_keeps_the_contract() {
        conformance::check_retriever(async |documents: Vec<Document>| {
            RerankingIndex::new(Arc::new(RamKeywordIndex::from_documents(&conformance::tenant(), &documents)))
        })
        .await;
    }

    #[tokio::test]
    async fn copies_make_room_for_others() {
        assert_eq!(found(&RerankingIndex::new(index()), "급여 지급", 2).await, "a c");
    }

    #[tokio::test]
    async fn the_best_are_ranked_again() {
        let refined = |good| {
            RerankingIndex::new(index()).with_reranker(Arc::new(PreferredWordReranker("명세서", good)))
        };
        assert_eq!(found(&refined(true), "급여 지급", 5).await, "c a");
        assert_eq!(found(&refined(true), "급여 지급", 1).await, "c", "more than wanted are looked at");
        assert_eq!(found(&refined(false), "급여 지급", 5).await, "a c", "odd scores change nothing");
    }
}

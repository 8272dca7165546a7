//! An index whose hits are distinct: no two of them say the same.

use std::sync::Arc;

use async_trait::async_trait;

use crate::hit_postprocessing::remove_duplicate_hits;
use crate::index_wrapper::IndexWrapper;
use crate::retriever::{DocumentIndex, Hit, RetrieveError, SearchQuery};

/// This many times the requested number of hits are fetched, so that enough remain after duplicates are removed.
const OVERFETCH_FACTOR: usize = 2;

/// An index around another one that removes duplicate hits.
pub struct DistinctHitsIndex(Arc<dyn DocumentIndex>);

impl DistinctHitsIndex {
    /// Wraps an index.
    pub fn new(index: Arc<dyn DocumentIndex>) -> Self {
        Self(index)
    }
}

#[async_trait]
impl IndexWrapper for DistinctHitsIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &*self.0
    }

    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        let limit = question.limit.saturating_mul(OVERFETCH_FACTOR);
        let wider = SearchQuery { limit, ..question.clone() };
        let mut hits = remove_duplicate_hits(self.0.retrieve(&wider).await?);
        hits.truncate(question.limit);
        Ok(hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::keyword::RamKeywordIndex;
    use crate::passage::Document;

    #[tokio::test]
    async fn an_index_with_distinct_hits_keeps_the_contract() {
        conformance::check_retriever(async |documents: Vec<Document>| {
            let index = RamKeywordIndex::from_documents(&conformance::tenant(), &documents);
            DistinctHitsIndex::new(Arc::new(index))
        })
        .await;
    }

    #[tokio::test]
    async fn copies_make_room_for_others() {
        let documents = [
            Document::new("a", "t", "급여는 매월 25일에 지급한다."),
            Document::new("b", "t", "급여는 매월 25일에 지급한다"),
            Document::new("c", "t", "급여 명세서는 게시판에 올린다."),
            Document::new("d", "t", "사표는 한 달 전에 낸다."),
        ];
        let index = RamKeywordIndex::from_documents(&conformance::tenant(), &documents);
        let query = SearchQuery::new(conformance::tenant(), "급여 지급", 2);
        let hits = DistinctHitsIndex::new(Arc::new(index)).retrieve(&query).await.expect("hits");
        let found: Vec<&str> = hits.iter().map(|hit| hit.passage.document.as_str()).collect();
        assert_eq!(found, ["a", "c"]);
    }
}

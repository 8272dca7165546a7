//! Documents that belong to one conversation. They are stored under a tenant of their own, so that no other conversation finds
//! them, and [`AttachmentIndex`] searches them together with the library.

use std::sync::Arc;

use async_trait::async_trait;
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, DocumentSummary, DocumentTenant, Hit, IndexWrapper,
    RetrieveError, SearchQuery,
};
use sha2::{Digest, Sha256};

/// Parts the tenant from the conversation. The name of a tenant does not contain it.
const SEPARATOR: char = '/';

/// The owner of the documents that are attached to a conversation.
pub fn attachment_tenant(tenant: &str, thread: &str) -> DocumentTenant {
    let digest = hex::encode(&Sha256::digest(thread.as_bytes())[..16]);
    DocumentTenant::new(format!("{tenant}{SEPARATOR}{digest}"))
}

/// The tenant whose library a conversation searches, if this is the owner of attachments.
pub fn library_tenant(tenant: &DocumentTenant) -> Option<DocumentTenant> {
    tenant.as_str().split_once(SEPARATOR).map(|(library, _)| DocumentTenant::new(library))
}

/// An index that also searches the library of a tenant where the attachments of a conversation are searched.
pub struct AttachmentIndex(Arc<dyn DocumentIndex>);

impl AttachmentIndex {
    /// Wraps an index.
    pub fn new(index: Arc<dyn DocumentIndex>) -> Self {
        Self(index)
    }
}

/// The best of both, half and half as long as there are enough. Scores of two lists cannot be compared.
fn merge_hits(attached: Vec<Hit>, library: Vec<Hit>, limit: usize) -> Vec<Hit> {
    let share = attached.len().min(limit.div_ceil(2).max(limit.saturating_sub(library.len())));
    let from_library = library.into_iter().take(limit - share);
    attached.into_iter().take(share).chain(from_library).collect()
}

#[async_trait]
impl IndexWrapper for AttachmentIndex {
    fn inner(&self) -> &dyn DocumentIndex {
        &*self.0
    }

    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        let Some(library) = library_tenant(&question.tenant) else { return self.0.retrieve(question).await };
        // Attachments are in no collection: they are searched whichever was chosen.
        let filter = DocumentFilter { collection: None, ..question.filter.clone() };
        let attached = SearchQuery { filter, ..question.clone() };
        let library = SearchQuery { tenant: library, ..question.clone() };
        let (attached, library) =
            futures_util::future::try_join(self.0.retrieve(&attached), self.0.retrieve(&library)).await?;
        Ok(merge_hits(attached, library, question.limit))
    }

    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        let Some(library) = library_tenant(tenant) else { return self.0.list(tenant, filter).await };
        let attached_filter = DocumentFilter { collection: None, ..filter.clone() };
        let lists = futures_util::future::try_join(
            self.0.list(tenant, &attached_filter),
            self.0.list(&library, filter),
        );
        let (attached, library) = lists.await?;
        Ok(attached.into_iter().chain(library).collect())
    }

    async fn titles(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Result<Vec<String>, RetrieveError> {
        let Some(library) = library_tenant(tenant) else {
            return self.0.titles(tenant, filter, limit).await;
        };
        let attached_filter = DocumentFilter { collection: None, ..filter.clone() };
        let titles = futures_util::future::try_join(
            self.0.titles(tenant, &attached_filter, limit),
            self.0.titles(&library, filter, limit),
        );
        let (attached, library) = titles.await?;
        Ok(attached.into_iter().chain(library).take(limit).collect())
    }

    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        if let Some(library) = library_tenant(tenant)
            && let Some(document) = self.0.document(&library, id).await?
        {
            return Ok(Some(document));
        }
        self.0.document(tenant, id).await
    }
}

#[cfg(test)]
mod tests {
    use doran_retrieval::{RamKeywordIndex, split_into_passages};

    use super::*;

    async fn put(index: &dyn DocumentIndex, tenant: &DocumentTenant, name: &str, text: &str) {
        let document = Document::new(name, name, text);
        index.put(tenant, &document, &split_into_passages(&document)).await.expect("stored");
    }

    async fn found(index: &dyn DocumentIndex, tenant: &DocumentTenant, limit: usize) -> Vec<String> {
        let question = SearchQuery::new(tenant.clone(), "연차", limit);
        let hits = index.retrieve(&question).await.expect("hits");
        hits.iter().map(|hit| hit.passage.document.to_string()).collect()
    }

    #[tokio::test]
    async fn a_chat_finds_its_attachments_and_the_library_and_no_other_chat_does() {
        let index: &dyn DocumentIndex = &AttachmentIndex::new(Arc::new(RamKeywordIndex::default()));
        let library = DocumentTenant::new("a");
        let (mine, other) = (attachment_tenant("a", "나의 대화"), attachment_tenant("a", "다른 대화"));
        put(index, &library, "규정", "연차는 15일이다.").await;
        put(index, &library, "안내", "연차는 미리 알린다.").await;
        put(index, &mine, "첨부", "연차는 20일로 한다.").await;
        assert_eq!(found(index, &mine, 3).await[0], "첨부");
        assert_eq!(found(index, &mine, 3).await.len(), 3);
        assert_eq!(found(index, &mine, 2).await.len(), 2);
        assert!(!found(index, &other, 3).await.contains(&"첨부".to_owned()));
        assert!(!found(index, &library, 3).await.contains(&"첨부".to_owned()));
        assert!(!found(index, &attachment_tenant("b", "나의 대화"), 3).await.contains(&"첨부".to_owned()));
        let listed = index.list(&mine, &DocumentFilter::default()).await.expect("a list");
        assert_eq!(listed.len(), 3);
        let titles = index.titles(&mine, &DocumentFilter::default(), 2).await.expect("titles");
        assert_eq!(titles, ["첨부", "규정"]);
        for (tenant, id, is_there) in [(&mine, "첨부", true), (&mine, "규정", true), (&other, "첨부", false)]
        {
            let document = index.document(tenant, &DocumentId::new(id)).await.expect("a lookup");
            assert_eq!(document.is_some(), is_there, "{id}");
        }
    }
}

//! Indexes around another index.

use async_trait::async_trait;

use crate::passage::{Document, DocumentId, DocumentTenant, Passage};
use crate::retriever::{
    DocumentFilter, DocumentIndex, DocumentPage, DocumentSummary, Hit, RetrieveError, Retriever, SearchQuery,
};

/// An index around another one. What it does not override, the inner index does.
///
/// ```
/// # use doran_retrieval::{DocumentIndex, Hit, IndexWrapper, RetrieveError, SearchQuery};
/// /// Finds one passage at most.
/// struct BestHitIndex(Box<dyn DocumentIndex>);
///
/// #[async_trait::async_trait]
/// impl IndexWrapper for BestHitIndex {
///     fn inner(&self) -> &dyn DocumentIndex {
///         &*self.0
///     }
///
///     async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
///         self.0.retrieve(&SearchQuery { limit: question.limit.min(1), ..question.clone() }).await
///     }
/// }
/// ```
#[async_trait]
pub trait IndexWrapper: Send + Sync + 'static {
    /// The index inside.
    fn inner(&self) -> &dyn DocumentIndex;

    /// As [`Retriever::retrieve`].
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        self.inner().retrieve(question).await
    }

    /// As [`DocumentIndex::put`].
    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.inner().put(tenant, document, passages).await
    }

    /// As [`DocumentIndex::put_all`]. It does not call `put`: who overrides one overrides both.
    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        self.inner().put_all(tenant, documents).await
    }

    /// As [`DocumentIndex::remove`].
    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        self.inner().remove(tenant, document).await
    }

    /// As [`DocumentIndex::check_health`].
    async fn check_health(&self) -> Result<(), RetrieveError> {
        self.inner().check_health().await
    }

    /// As [`DocumentIndex::check_embedder`].
    async fn check_embedder(&self) -> Result<(), RetrieveError> {
        self.inner().check_embedder().await
    }

    /// As [`DocumentIndex::list`].
    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        self.inner().list(tenant, filter).await
    }

    /// As [`DocumentIndex::titles`]. It does not call `list`: who overrides one overrides both.
    async fn titles(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Result<Vec<String>, RetrieveError> {
        self.inner().titles(tenant, filter, limit).await
    }

    /// As [`DocumentIndex::document`].
    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        self.inner().document(tenant, id).await
    }
}

#[async_trait]
impl<W: IndexWrapper> Retriever for W {
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        IndexWrapper::retrieve(self, question).await
    }
}

#[async_trait]
impl<W: IndexWrapper> DocumentIndex for W {
    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        IndexWrapper::put(self, tenant, document, passages).await
    }

    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        IndexWrapper::put_all(self, tenant, documents).await
    }

    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        IndexWrapper::remove(self, tenant, document).await
    }

    async fn expunge_deleted(&self) -> Result<(), RetrieveError> {
        self.inner().expunge_deleted().await
    }

    async fn embed_some(&self) -> Result<usize, RetrieveError> {
        self.inner().embed_some().await
    }

    fn passages_without_vectors(&self) -> usize {
        self.inner().passages_without_vectors()
    }

    async fn check_health(&self) -> Result<(), RetrieveError> {
        IndexWrapper::check_health(self).await
    }

    async fn check_embedder(&self) -> Result<(), RetrieveError> {
        IndexWrapper::check_embedder(self).await
    }

    async fn ensure_exists(&self) -> Result<Option<String>, RetrieveError> {
        self.inner().ensure_exists().await
    }

    async fn list_page(&self, after: Option<&str>) -> Result<DocumentPage, RetrieveError> {
        self.inner().list_page(after).await
    }

    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError> {
        self.inner().tenants().await
    }

    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        IndexWrapper::list(self, tenant, filter).await
    }

    async fn titles(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Result<Vec<String>, RetrieveError> {
        IndexWrapper::titles(self, tenant, filter, limit).await
    }

    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        IndexWrapper::document(self, tenant, id).await
    }
}

//! The traits of search: [`Retriever`] for queries, [`DocumentIndex`] for indexes that also store documents.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::passage::{Document, DocumentId, DocumentKind, DocumentTenant, Passage};

/// Finds passages for a query.
///
/// Hits are sorted best first, contain no passage twice and never exceed the limit of the query. The same query on the
/// same documents returns the same hits. A search without results returns an empty list, not an error. The text of a
/// query is never parsed as query syntax.
#[async_trait]
pub trait Retriever: Send + Sync + 'static {
    /// Returns the passages that are relevant to the query, from documents of its tenant only.
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError>;
}

/// A search query: the text, the tenant and the filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchQuery {
    /// The tenant whose documents are searched.
    pub tenant: DocumentTenant,
    /// The text of the query.
    pub text: String,
    /// The maximum number of hits.
    pub limit: usize,
    /// Restricts which documents are searched.
    #[serde(default)]
    pub filter: DocumentFilter,
}

/// Restricts which documents are searched. The default allows all documents of the tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentFilter {
    /// Only documents of this collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Only these documents; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentId>,
    /// Only documents of these kinds; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<DocumentKind>,
}

impl DocumentFilter {
    /// Returns whether a document passes the filter.
    pub(crate) fn admits(&self, document: &Document) -> bool {
        self.collection.as_ref().is_none_or(|wanted| *wanted == document.collection)
            && (self.documents.is_empty() || self.documents.contains(&document.id))
            && (self.kinds.is_empty() || self.kinds.contains(&document.kind))
    }
}

impl SearchQuery {
    /// Creates a query over all documents of a tenant.
    pub fn new(tenant: DocumentTenant, text: impl Into<String>, limit: usize) -> Self {
        Self { tenant, text: text.into(), limit, filter: DocumentFilter::default() }
    }
}

/// An index of documents: documents can be stored, searched, read and removed.
///
/// `put` replaces a document of the same identifier atomically: a search sees either the old passages or the new ones.
/// In a persistent index, whatever `put` and `remove` have acknowledged survives a crash.
#[async_trait]
pub trait DocumentIndex: Retriever {
    /// Stores a document and its passages, and replaces any older version.
    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError>;

    /// Stores many documents. Each one is replaced atomically, as by `put`. Of two with the same identifier the later
    /// one is kept. After an error some of them may be stored. An index overrides this if one large write is cheaper
    /// than many small ones.
    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        for (document, passages) in documents {
            self.put(tenant, document, passages).await?;
        }
        Ok(())
    }

    /// Removes a document with all its passages. Returns whether it existed.
    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError>;

    /// Deletes the text of replaced versions, if the index still keeps it.
    async fn expunge_deleted(&self) -> Result<(), RetrieveError> {
        Ok(())
    }

    /// Computes vectors for some passages that have none yet, for at most a second or so with the built-in encoder. Returns
    /// how many passages are still without. What is computed is kept if the process ends. An index that computes
    /// vectors when documents are stored, or has no embedder, does nothing.
    async fn embed_some(&self) -> Result<usize, RetrieveError> {
        Ok(0)
    }

    /// Returns how many passages have no vectors yet. Until they have, they are found by keywords alone.
    fn passages_without_vectors(&self) -> usize {
        0
    }

    /// Returns whether the index can be asked now. One in this process always can.
    async fn check_health(&self) -> Result<(), RetrieveError> {
        Ok(())
    }

    /// Returns whether the embedder answers, of an index that asks one when documents are stored.
    async fn check_embedder(&self) -> Result<(), RetrieveError> {
        Ok(())
    }

    /// Makes the index anew, empty, if it is gone. Returns what identifies it: another name than before means another
    /// index, which may lack documents. `None` if it cannot go away while it is open.
    async fn ensure_exists(&self) -> Result<Option<String>, RetrieveError> {
        Ok(None)
    }

    /// Lists documents of all tenants, a page at a time: the first one, or the one that follows `after`. A document that is
    /// stored or removed meanwhile may be listed or not; each other one is listed once.
    async fn list_page(&self, after: Option<&str>) -> Result<DocumentPage, RetrieveError> {
        let mut tenants = self.tenants().await?;
        tenants.sort();
        let mut following =
            tenants.into_iter().filter(|tenant| after.is_none_or(|after| tenant.as_str() > after));
        let Some(tenant) = following.next() else { return Ok(DocumentPage::default()) };
        let listed = self.list(&tenant, &DocumentFilter::default()).await?;
        let next = following.next().map(|_| tenant.as_str().to_owned());
        Ok(DocumentPage { documents: listed.into_iter().map(|one| (tenant.clone(), one)).collect(), next })
    }

    /// Returns the tenants that have documents in the index.
    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError>;

    /// Lists the documents of a tenant by identifier, without their texts.
    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError>;

    /// Returns titles of documents that [`list`](Self::list) would give: at most `limit`, of the same documents on every
    /// call. An index overrides this if a few cost less than all.
    async fn titles(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Result<Vec<String>, RetrieveError> {
        let listed = self.list(tenant, filter).await?;
        Ok(listed.into_iter().take(limit).map(|document| document.title).collect())
    }

    /// Returns a whole document, to show a quote in its context and to verify it.
    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError>;
}

/// Some of the documents of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentPage {
    /// The documents with their tenants.
    pub documents: Vec<(DocumentTenant, DocumentSummary)>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<String>,
}

/// The metadata of a document in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentSummary {
    /// Its identifier.
    pub id: DocumentId,
    /// The title that is shown to people.
    pub title: String,
    /// Its collection.
    pub collection: String,
    /// Its kind.
    pub kind: DocumentKind,
    /// Its version.
    pub version: String,
    /// How many passages it has.
    pub passages: usize,
}

impl DocumentSummary {
    /// Summarises a document that has `passages` passages.
    pub fn from_document(document: &Document, passages: usize) -> Self {
        let Document { id, title, collection, kind, version, .. } = document.clone();
        Self { id, title, collection, kind, version, passages }
    }
}

/// A passage that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The passage.
    pub passage: Passage,
    /// The relevance score. It is always above zero, and comparable only within one result list of one retriever.
    pub score: f64,
}

/// Why a search or a write to the index failed. The variants are sorted by remedy.
#[derive(Debug, thiserror::Error)]
pub enum RetrieveError {
    /// The index cannot be reached now. Retry later.
    #[error("the index cannot be asked now: {reason}")]
    Unavailable {
        /// What went wrong.
        reason: String,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The index was deleted. A running library makes it anew and fills it.
    #[error("OpenSearch has no index `{index}`; it was deleted")]
    Missing {
        /// The name of the index.
        index: String,
    },
    /// Another index has the name that the alias needs. Delete it, or choose another name.
    #[error(
        "OpenSearch has an index called `{index}`, a name that is needed for an alias; {foreign} entries in it are not of doran"
    )]
    NameTaken {
        /// The name of that index.
        index: String,
        /// How many entries in it were not written by this program.
        foreign: u64,
    },
    /// The index was built with another embedder. Open it with that embedder or rebuild it: vectors of two embedders
    /// cannot be compared.
    #[error("the index was made with {made} and is opened with {wanted}")]
    OtherEmbedder {
        /// The embedder it was built with.
        made: String,
        /// The embedder it was opened with.
        wanted: String,
    },
    /// The index is damaged or from another version. Rebuild it.
    #[error("the index must be built again: {reason}")]
    Stale {
        /// What went wrong.
        reason: String,
    },
}

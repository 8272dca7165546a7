//! The seam to whoever finds passages.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::passage::{Document, DocumentId, DocumentKind, DocumentTenant, Passage};

/// Finds passages for a question.
///
/// The best come first, no passage twice, never more than asked for; the same question on the same documents gives
/// the same hits. Nothing found is an empty list, not an error. The text of a question is never query syntax.
#[async_trait]
pub trait Retriever: Send + Sync + 'static {
    /// Finds the passages that bear on the question, within what its tenant may see.
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError>;
}

/// What is looked for, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchQuery {
    /// Whose documents are searched.
    pub tenant: DocumentTenant,
    /// The words of the person.
    pub text: String,
    /// The most passages wanted.
    pub limit: usize,
    /// Which documents compete.
    #[serde(default)]
    pub filter: DocumentFilter,
}

/// Which documents compete. Nothing set means all of the tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentFilter {
    /// Only this collection.
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
    /// Whether a document competes.
    pub fn admits(&self, document: &Document) -> bool {
        self.collection.as_ref().is_none_or(|wanted| *wanted == document.collection)
            && (self.documents.is_empty() || self.documents.contains(&document.id))
            && (self.kinds.is_empty() || self.kinds.contains(&document.kind))
    }
}

impl SearchQuery {
    /// Looks through all documents of a tenant.
    pub fn new(tenant: DocumentTenant, text: impl Into<String>, limit: usize) -> Self {
        Self { tenant, text: text.into(), limit, filter: DocumentFilter::default() }
    }
}

/// A searchable home of documents: what is put in can be found, read and removed again.
///
/// `put` replaces a document of the same name at once: a search sees the old passages or the new ones, never both or
/// a part. What `put` and `remove` acknowledged survives a crash in every index that survives at all.
#[async_trait]
pub trait DocumentIndex: Retriever {
    /// Puts a document and its passages in place of any older version.
    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError>;

    /// Puts many documents. Each is replaced at once, as by `put`; of two with the same name the later stays. An error
    /// may leave some of them in place. An index for which one large write is cheaper than many small ones does that.
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

    /// Removes a document with all its passages. Gives whether there was one.
    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError>;

    /// Forgets the words of versions that were replaced, where an index keeps them for a while.
    async fn expunge_deleted(&self) -> Result<(), RetrieveError> {
        Ok(())
    }

    /// Whose documents are in it.
    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError>;

    /// What is in it, by name, without the texts.
    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError>;

    /// A document whole, to show a quote in its place and to check it.
    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError>;
}

/// A document as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentSummary {
    /// Its name.
    pub id: DocumentId,
    /// What a person calls it.
    pub title: String,
    /// Its collection.
    pub collection: String,
    /// What it is.
    pub kind: DocumentKind,
    /// Its version.
    pub version: String,
    /// How many passages it has.
    pub passages: usize,
}

impl DocumentSummary {
    /// A document with so many passages.
    pub fn from_document(document: &Document, passages: usize) -> Self {
        let Document { id, title, collection, kind, version, .. } = document.clone();
        Self { id, title, collection, kind, version, passages }
    }
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
    /// Open the index with the embedder it was made with, or build it again: vectors of two cannot be compared.
    #[error("the index was made with {made} and is opened with {wanted}")]
    OtherEmbedder {
        /// What it was made with.
        made: String,
        /// What it is opened with.
        wanted: String,
    },
    /// Build the index again: it is damaged or from another version.
    #[error("the index must be built again: {reason}")]
    Stale {
        /// What was seen.
        reason: String,
    },
}

//! Keyword search in memory.
//!
//! Each tenant has its own list of immutable [`Segment`]s: one for each document at first, merged as their number
//! grows. A search reads all segments and ranks as if they were one. The same documents therefore give the same hits,
//! whatever the order in which they were added.

mod accumulators;
pub(crate) mod article_numbers;
mod bm25_scoring;
mod contains_words;
mod document_frequency;
mod highlight;
pub(crate) mod live_segment;
mod phrase;
mod postings;
pub(crate) mod query;
mod ranking;
pub(crate) mod search;
mod segment;
mod segment_builder;
mod stored_document;
mod synonyms;
mod term_interner;
mod typo_tolerance;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;

use crate::passage::{Document, DocumentId, DocumentTenant, Passage};
use crate::retriever::{
    DocumentFilter, DocumentIndex, DocumentSummary, Hit, RetrieveError, Retriever, SearchQuery,
};
use crate::split::split_into_passages;

pub use article_numbers::find_article_numbers;
pub use contains_words::{MAX_WORD_QUERY_CHARS, WordSearch};
pub use highlight::{Highlight, highlights, match_reasons};
pub use synonyms::find_synonyms as stem_synonyms;
pub use typo_tolerance::is_one_typo_apart;

pub(crate) use ranking::{ARTICLE_NUMBER_BOOST, RankingParameters};
pub(crate) use segment::{Segment, SegmentDocument};
pub(crate) use stored_document::{SharedBytes, StoredDocument, StoredDocumentRecord, letters_and_digits};

use live_segment::LiveSegment;
use query::KeywordQuery;

/// This many segments of about the same size are merged into one.
const SEGMENT_MERGE_FACTOR: usize = 8;

/// A keyword index in memory. It does not search by vectors, and its content is lost when the process ends.
#[derive(Debug, Default)]
pub struct RamKeywordIndex {
    tenant_indexes: RwLock<HashMap<DocumentTenant, Arc<RamTenantIndex>>>,
    ranking: RankingParameters,
}

/// The documents of one tenant. Writes are serialised. Readers wait only while a change is put in place.
#[derive(Debug, Default)]
struct RamTenantIndex {
    write_lock: Mutex<()>,
    content: RwLock<RamTenantContent>,
}

#[derive(Debug, Default)]
struct RamTenantContent {
    documents: BTreeMap<DocumentId, Arc<StoredDocument>>,
    segments: Vec<LiveSegment>,
}

impl RamKeywordIndex {
    /// Creates an index of these documents of one tenant. A document that cannot be indexed is left out and logged.
    pub fn from_documents<'a>(
        tenant: &DocumentTenant,
        documents: impl IntoIterator<Item = &'a Document>,
    ) -> Self {
        let index = Self::default();
        for document in documents {
            if let Err(error) = index.insert(tenant, document, &split_into_passages(document)) {
                tracing::error!(%error, document = %document.id, "cannot index a document");
            }
        }
        index
    }

    fn insert(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.insert_all(tenant, vec![Arc::new(StoredDocument::new(document, passages))])
    }

    /// Adds documents with different identifiers as one segment.
    fn insert_all(
        &self,
        tenant: &DocumentTenant,
        held: Vec<Arc<StoredDocument>>,
    ) -> Result<(), RetrieveError> {
        let segment = Segment::from_stored_documents(held.iter().map(|held| &**held))?;
        let tenant_index = self.tenant_index_or_create(tenant);
        let _turn = tenant_index.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut content = tenant_index.content.write().unwrap_or_else(PoisonError::into_inner);
            for held in &held {
                content.remove_document(&held.metadata().id);
                content.documents.insert(held.metadata().id.clone(), Arc::clone(held));
            }
            content.segments.push(LiveSegment::new(segment, held.into_iter().map(Some).collect()));
        }
        tenant_index.merge_segments()
    }

    fn delete(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        let Some(tenant_index) = self.tenant_index(tenant) else { return Ok(false) };
        let _turn = tenant_index.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let removed =
            tenant_index.content.write().unwrap_or_else(PoisonError::into_inner).remove_document(document);
        tenant_index.merge_segments()?;
        Ok(removed)
    }

    fn search(&self, question: &SearchQuery) -> Vec<Hit> {
        let Some(tenant_index) = self.tenant_index(&question.tenant) else { return Vec::new() };
        let query = KeywordQuery::parse(&question.text, self.ranking.synonym_weight);
        let content = tenant_index.content.read().unwrap_or_else(PoisonError::into_inner);
        let found =
            search::search(&content.segments, &query, &self.ranking, &question.filter, question.limit);
        let hit = |found: &search::KeywordHit| {
            let passage = content.segments[found.segment].passage_at_slot(found.slot)?;
            Some(Hit { passage, score: f64::from(found.score) })
        };
        found.iter().filter_map(hit).collect()
    }

    fn tenant_index(&self, tenant: &DocumentTenant) -> Option<Arc<RamTenantIndex>> {
        self.tenant_indexes.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    fn tenant_index_or_create(&self, tenant: &DocumentTenant) -> Arc<RamTenantIndex> {
        if let Some(tenant_index) = self.tenant_index(tenant) {
            return tenant_index;
        }
        let mut tenant_indexes = self.tenant_indexes.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tenant_indexes.entry(tenant.clone()).or_default())
    }
}

impl RamTenantContent {
    /// Marks a document as removed. Its slots stay until the segment is rewritten.
    fn remove_document(&mut self, id: &DocumentId) -> bool {
        let Some(gone) = self.documents.remove(id) else { return false };
        for part in &mut self.segments {
            let is_it = |held: &Option<Arc<StoredDocument>>| {
                held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &gone))
            };
            if let Some(place) = part.documents().iter().position(is_it) {
                part.remove_document(place);
            }
        }
        true
    }
}

impl RamTenantIndex {
    /// Merges segments where there are many of one size, and rewrites those in which most documents are removed. The
    /// caller holds the write lock, so nothing else changes meanwhile. Readers keep using the old segments.
    fn merge_segments(&self) -> Result<(), RetrieveError> {
        loop {
            let chosen = self.content.read().unwrap_or_else(PoisonError::into_inner).segments_to_merge();
            if chosen.is_empty() {
                return Ok(());
            }
            let joined = {
                let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
                content.merge(&chosen)?
            };
            let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
            for at in chosen.iter().rev() {
                content.segments.remove(*at);
            }
            if joined.segment.slot_count() > 0 {
                content.segments.push(joined);
            }
        }
    }
}

impl RamTenantContent {
    fn segments_to_merge(&self) -> Vec<usize> {
        let mut by_size: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, part) in self.segments.iter().enumerate() {
            if part.live_document_count() * 2 < part.documents().len() || part.live_document_count() == 0 {
                return vec![at];
            }
            by_size
                .entry((part.segment.slot_count().max(1) as u32).ilog(SEGMENT_MERGE_FACTOR as u32))
                .or_default()
                .push(at);
        }
        by_size.into_values().find(|parts| parts.len() >= SEGMENT_MERGE_FACTOR).unwrap_or_default()
    }

    fn merge(&self, chosen: &[usize]) -> Result<LiveSegment, RetrieveError> {
        let parts: Vec<&LiveSegment> = chosen.iter().map(|at| &self.segments[*at]).collect();
        let segments: Vec<&Segment> = parts.iter().map(|part| &*part.segment).collect();
        let segment =
            Segment::merge(&segments, |part, document| parts[part].documents()[document].is_some())?;
        let held =
            parts.iter().flat_map(|part| part.documents().iter().flatten()).cloned().map(Some).collect();
        Ok(LiveSegment::new(segment, held))
    }
}

#[async_trait]
impl Retriever for RamKeywordIndex {
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        Ok(self.search(question))
    }
}

#[async_trait]
impl DocumentIndex for RamKeywordIndex {
    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.insert(tenant, document, passages)
    }

    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        let held = StoredDocument::latest_by_id(documents);
        if held.is_empty() { Ok(()) } else { self.insert_all(tenant, held) }
    }

    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        self.delete(tenant, document)
    }

    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError> {
        Ok(self.tenant_indexes.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect())
    }

    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        let Some(tenant_index) = self.tenant_index(tenant) else { return Ok(Vec::new()) };
        let content = tenant_index.content.read().unwrap_or_else(PoisonError::into_inner);
        let held = content.documents.values().filter(|held| filter.admits(held.metadata()));
        Ok(held.map(|held| DocumentSummary::from_document(held.metadata(), held.len())).collect())
    }

    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        let Some(tenant_index) = self.tenant_index(tenant) else { return Ok(None) };
        let content = tenant_index.content.read().unwrap_or_else(PoisonError::into_inner);
        Ok(content.documents.get(id).map(|held| held.to_document()))
    }
}

#[cfg(test)]
mod equivalence_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;

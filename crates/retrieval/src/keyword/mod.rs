//! Finds passages by shared words, in the memory of the process.
//!
//! Each tenant has a shelf of its own: immutable [`Segment`]s, one for each document at first, joined as they grow in
//! number. A search looks at all of them and ranks as if they were one, so the same documents give the same hits
//! whatever the order they came in.

pub(crate) mod article;
mod everyday;
mod gather;
mod held;
mod highlight;
mod holds;
mod memory;
pub(crate) mod part;
mod phrase;
mod postings;
pub(crate) mod query;
mod ranking;
mod score;
pub(crate) mod search;
mod segment;
mod sums;
mod typo;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;

use crate::passage::{Document, DocumentId, Passage, Tenant};
use crate::retriever::{Filter, Hit, Index, Listed, Question, RetrieveError, Retriever};
use crate::split::split;

pub use article::articles_named;
pub use highlight::{Highlight, highlights, reasons};
pub use holds::holds;
pub use ranking::Ranking;
pub use segment::{Segment, SegmentDocument};

pub(crate) use held::{Held, Kept, Line, bare};

use part::Part;
use query::Query;

/// Segments of about the same size are joined when there are so many.
const FAN: usize = 8;

/// An index of shared words. It finds words, not meanings, and forgets with the process.
#[derive(Debug, Default)]
pub struct RamKeyword {
    shelves: RwLock<HashMap<Tenant, Arc<Shelf>>>,
    ranking: Ranking,
}

/// The documents of one tenant. Writers take turns; readers wait only for the moment a change is put in place.
#[derive(Debug, Default)]
struct Shelf {
    turn: Mutex<()>,
    content: RwLock<Content>,
}

#[derive(Debug, Default)]
struct Content {
    documents: BTreeMap<DocumentId, Arc<Held>>,
    parts: Vec<Part>,
}

impl RamKeyword {
    /// An empty index that ranks like this.
    pub fn ranked(ranking: Ranking) -> Self {
        Self { ranking, ..Self::default() }
    }

    /// An index of these documents of one tenant.
    pub fn of<'a>(tenant: &Tenant, documents: impl IntoIterator<Item = &'a Document>) -> Self {
        let index = Self::default();
        for document in documents {
            index.insert(tenant, document, &split(document));
        }
        index
    }

    fn insert(&self, tenant: &Tenant, document: &Document, passages: &[Passage]) {
        self.insert_all(tenant, vec![Arc::new(Held::new(document, passages))]);
    }

    /// Puts documents of different names in, as one segment.
    fn insert_all(&self, tenant: &Tenant, held: Vec<Arc<Held>>) {
        let shelf = self.shelf_for(tenant);
        let segment = Segment::of(held.iter().map(|held| &**held));
        let _turn = shelf.turn.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut content = shelf.content.write().unwrap_or_else(PoisonError::into_inner);
            for held in &held {
                content.take_out(&held.about().id);
                content.documents.insert(held.about().id.clone(), Arc::clone(held));
            }
            content.parts.push(Part::new(segment, held.into_iter().map(Some).collect()));
        }
        shelf.tidy();
    }

    fn delete(&self, tenant: &Tenant, document: &DocumentId) -> bool {
        let Some(shelf) = self.shelf(tenant) else { return false };
        let _turn = shelf.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = shelf.content.write().unwrap_or_else(PoisonError::into_inner).take_out(document);
        shelf.tidy();
        removed
    }

    fn search(&self, question: &Question) -> Vec<Hit> {
        let Some(shelf) = self.shelf(&question.tenant) else { return Vec::new() };
        let query = Query::of(&question.text, self.ranking.meant);
        let content = shelf.content.read().unwrap_or_else(PoisonError::into_inner);
        let found = search::search(&content.parts, &query, &self.ranking, &question.filter, question.limit);
        let hit = |found: &search::Found| {
            let passage = content.parts[found.part].passage(found.slot)?;
            Some(Hit { passage, score: f64::from(found.score) })
        };
        found.iter().filter_map(hit).collect()
    }

    fn shelf(&self, tenant: &Tenant) -> Option<Arc<Shelf>> {
        self.shelves.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned()
    }

    fn shelf_for(&self, tenant: &Tenant) -> Arc<Shelf> {
        if let Some(shelf) = self.shelf(tenant) {
            return shelf;
        }
        let mut shelves = self.shelves.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shelves.entry(tenant.clone()).or_default())
    }
}

impl Content {
    /// Takes a document out of sight. Its slots stay until the segment is written anew.
    fn take_out(&mut self, id: &DocumentId) -> bool {
        let Some(gone) = self.documents.remove(id) else { return false };
        for part in &mut self.parts {
            let is_it = |held: &Option<Arc<Held>>| held.as_ref().is_some_and(|held| Arc::ptr_eq(held, &gone));
            if let Some(place) = part.held().iter().position(is_it) {
                part.take_out(place);
            }
        }
        true
    }
}

impl Shelf {
    /// Joins segments where there are many of a size, and writes anew those that are mostly removed. Called by the
    /// writer whose turn it is, so nothing else changes meanwhile; readers go on with the old segments.
    fn tidy(&self) {
        loop {
            let chosen = self.content.read().unwrap_or_else(PoisonError::into_inner).worth_joining();
            if chosen.is_empty() {
                return;
            }
            let joined = {
                let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
                content.join(&chosen)
            };
            let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
            for at in chosen.iter().rev() {
                content.parts.remove(*at);
            }
            if joined.segment.slots() > 0 {
                content.parts.push(joined);
            }
        }
    }
}

impl Content {
    fn worth_joining(&self) -> Vec<usize> {
        let mut by_size: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, part) in self.parts.iter().enumerate() {
            if part.live() * 2 < part.held().len() || part.live() == 0 {
                return vec![at];
            }
            by_size.entry((part.segment.slots().max(1) as u32).ilog(FAN as u32)).or_default().push(at);
        }
        by_size.into_values().find(|parts| parts.len() >= FAN).unwrap_or_default()
    }

    fn join(&self, chosen: &[usize]) -> Part {
        let parts: Vec<&Part> = chosen.iter().map(|at| &self.parts[*at]).collect();
        let segments: Vec<&Segment> = parts.iter().map(|part| &*part.segment).collect();
        let segment = Segment::merge(&segments, |part, document| parts[part].held()[document].is_some());
        let held = parts.iter().flat_map(|part| part.held().iter().flatten()).cloned().map(Some).collect();
        Part::new(segment, held)
    }
}

#[async_trait]
impl Retriever for RamKeyword {
    async fn retrieve(&self, question: &Question) -> Result<Vec<Hit>, RetrieveError> {
        Ok(self.search(question))
    }
}

#[async_trait]
impl Index for RamKeyword {
    async fn put(
        &self,
        tenant: &Tenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.insert(tenant, document, passages);
        Ok(())
    }

    async fn put_all(
        &self,
        tenant: &Tenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        let held = Held::latest(documents);
        if !held.is_empty() {
            self.insert_all(tenant, held);
        }
        Ok(())
    }

    async fn remove(&self, tenant: &Tenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        Ok(self.delete(tenant, document))
    }

    async fn tenants(&self) -> Result<Vec<Tenant>, RetrieveError> {
        Ok(self.shelves.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect())
    }

    async fn list(&self, tenant: &Tenant, filter: &Filter) -> Result<Vec<Listed>, RetrieveError> {
        let Some(shelf) = self.shelf(tenant) else { return Ok(Vec::new()) };
        let content = shelf.content.read().unwrap_or_else(PoisonError::into_inner);
        let held = content.documents.values().filter(|held| filter.admits(held.about()));
        Ok(held.map(|held| Listed::of(held.about(), held.len())).collect())
    }

    async fn document(&self, tenant: &Tenant, id: &DocumentId) -> Result<Option<Document>, RetrieveError> {
        let Some(shelf) = self.shelf(tenant) else { return Ok(None) };
        let content = shelf.content.read().unwrap_or_else(PoisonError::into_inner);
        Ok(content.documents.get(id).map(|held| held.document()))
    }
}

#[cfg(test)]
mod equal;
#[cfg(test)]
mod hard;
#[cfg(test)]
mod tests;

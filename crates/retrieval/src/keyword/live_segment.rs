//! A segment together with its documents and the marks of those that were removed.

use std::sync::Arc;

use crate::passage::Passage;
use crate::retriever::DocumentFilter;

use super::segment::Segment;
use super::stored_document::StoredDocument;

/// A segment and the documents that its slots belong to. `None` marks a removed document.
#[derive(Debug)]
pub(crate) struct LiveSegment {
    pub(crate) segment: Arc<Segment>,
    documents: Vec<Option<Arc<StoredDocument>>>,
    /// The number of removed documents.
    removed_count: usize,
}

impl LiveSegment {
    pub(crate) fn new(segment: Segment, held: Vec<Option<Arc<StoredDocument>>>) -> Self {
        let gone = held.iter().filter(|held| held.is_none()).count();
        Self { segment: Arc::new(segment), documents: held, removed_count: gone }
    }

    pub(crate) fn documents(&self) -> &[Option<Arc<StoredDocument>>] {
        &self.documents
    }

    /// Returns the number of documents that are not removed.
    pub(crate) fn live_document_count(&self) -> usize {
        self.documents.len() - self.removed_count
    }

    /// Returns the number of passages of the documents that are not removed.
    pub(crate) fn live_passage_count(&self) -> usize {
        self.documents.iter().flatten().map(|held| held.len()).sum()
    }

    /// Marks a document as removed, by its position.
    pub(crate) fn remove_document(&mut self, place: usize) {
        if self.documents.get_mut(place).is_some_and(|held| held.take().is_some()) {
            self.removed_count += 1;
        }
    }

    /// Returns the document of a slot and the position of the passage in it, unless the document was removed.
    pub(crate) fn document_at_slot(&self, slot: usize) -> Option<(&StoredDocument, usize)> {
        let document = self.segment.document_of_slot(slot);
        let within = slot - self.segment.slots_of_document(document).start;
        Some((self.documents[document].as_deref()?, within))
    }

    /// Returns the passage of a slot, unless its document was removed.
    pub(crate) fn passage_at_slot(&self, slot: usize) -> Option<Passage> {
        let (held, within) = self.document_at_slot(slot)?;
        held.passage(within)
    }
}

/// Which slots of a segment are searched. `None` means all of them.
pub(crate) type SlotMask = Option<Vec<bool>>;

pub(crate) fn slot_mask(part: &LiveSegment, filter: &DocumentFilter) -> SlotMask {
    let open = *filter == DocumentFilter::default();
    if open && part.removed_count == 0 {
        return None;
    }
    let admits = |held: &StoredDocument| open || filter.admits(held.metadata());
    let documents: Vec<bool> =
        part.documents.iter().map(|held| held.as_deref().is_some_and(admits)).collect();
    if documents.iter().all(|admitted| *admitted) {
        return None;
    }
    let mut slots = vec![false; part.segment.slot_count()];
    for (at, _) in documents.iter().enumerate().filter(|(_, admitted)| **admitted) {
        slots[part.segment.slots_of_document(at)].fill(true);
    }
    Some(slots)
}

//! A segment with the documents whose passages are its slots, and which of them compete.

use std::sync::Arc;

use crate::passage::Passage;
use crate::retriever::Filter;

use super::held::Held;
use super::segment::Segment;

/// A segment with the documents its slots stand for. `None` stands for a document that was removed.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) segment: Arc<Segment>,
    held: Vec<Option<Arc<Held>>>,
    /// How many were removed.
    gone: usize,
}

impl Part {
    pub(crate) fn new(segment: Segment, held: Vec<Option<Arc<Held>>>) -> Self {
        let gone = held.iter().filter(|held| held.is_none()).count();
        Self { segment: Arc::new(segment), held, gone }
    }

    pub(crate) fn held(&self) -> &[Option<Arc<Held>>] {
        &self.held
    }

    /// How many of its documents are there.
    pub(crate) fn live(&self) -> usize {
        self.held.len() - self.gone
    }

    /// Takes a document out of sight, by its place.
    pub(crate) fn take_out(&mut self, place: usize) {
        if self.held.get_mut(place).is_some_and(|held| held.take().is_some()) {
            self.gone += 1;
        }
    }

    /// The document of a slot and the place of the passage there, unless the document was removed.
    pub(crate) fn at(&self, slot: usize) -> Option<(&Held, usize)> {
        let document = self.segment.document_of(slot);
        let within = slot - self.segment.slots_of(document).start;
        Some((self.held[document].as_deref()?, within))
    }

    /// The passage in a slot, unless its document was removed.
    pub(crate) fn passage(&self, slot: usize) -> Option<Passage> {
        let (held, within) = self.at(slot)?;
        held.passage(within)
    }
}

/// Which slots of a part compete. `None` means all of them.
pub(crate) type Mask = Option<Vec<bool>>;

pub(crate) fn mask(part: &Part, filter: &Filter) -> Mask {
    let open = *filter == Filter::default();
    if open && part.gone == 0 {
        return None;
    }
    let admits = |held: &Held| open || filter.admits(held.about());
    let documents: Vec<bool> = part.held.iter().map(|held| held.as_deref().is_some_and(admits)).collect();
    if documents.iter().all(|admitted| *admitted) {
        return None;
    }
    let mut slots = vec![false; part.segment.slots()];
    for (at, _) in documents.iter().enumerate().filter(|(_, admitted)| **admitted) {
        slots[part.segment.slots_of(at)].fill(true);
    }
    Some(slots)
}

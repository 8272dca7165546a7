//! The documents of one tenant as they are searched: immutable parts, each a mapped file.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::keyword::part::{Part, mask};
use crate::keyword::query::Query;
use crate::keyword::search::{self, Found};
use crate::keyword::{Held, Ranking, Segment};
use crate::passage::{DocumentId, PassageId};
use crate::retriever::{Filter, Hit};
use crate::vector::{Field, Rows, nearest};

use super::file;
use super::grow::Vectors;

/// Files of about the same size are joined when there are so many.
const FAN: usize = 8;

/// The documents of one tenant.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    documents: BTreeMap<DocumentId, Spot>,
    parts: Vec<Part>,
    /// The vectors of each part.
    vectors: Vec<Option<Arc<Vectors>>>,
    /// The number of the file of each part.
    files: Vec<u64>,
    /// Held by whoever joins files.
    turn: Arc<Mutex<()>>,
}

/// Files that are to be joined, as they were at one moment.
pub(super) struct Joining {
    files: Vec<u64>,
    parts: Vec<(Arc<Segment>, Vec<Option<Arc<Held>>>, Option<Arc<Vectors>>)>,
}

/// What such files hold that was not gone.
pub(super) struct Joined {
    pub(super) held: Vec<Arc<Held>>,
    pub(super) segment: Segment,
    /// The bytes of the vectors.
    pub(super) rows: Vec<u8>,
}

/// A document, and where it lies: the number of its file, and its place there.
#[derive(Debug)]
struct Spot {
    held: Arc<Held>,
    file: u64,
    place: u32,
}

impl Shelf {
    /// The documents, by name.
    pub(super) fn documents(&self) -> impl Iterator<Item = &Held> {
        self.documents.values().map(|spot| &*spot.held)
    }

    /// The document of this name.
    pub(super) fn document(&self, id: &DocumentId) -> Option<&Held> {
        self.documents.get(id).map(|spot| &*spot.held)
    }

    /// How many passages there are, removed ones included.
    pub(super) fn slots(&self) -> usize {
        self.parts.iter().map(|part| part.segment.slots()).sum()
    }

    /// Adds a file, less the documents in it that are gone, and gives its vectors.
    pub(super) fn add(&mut self, number: u64, content: file::Content, dead: &[u32]) -> Option<Arc<Vectors>> {
        let gone = |at: usize| u32::try_from(at).is_ok_and(|at| dead.contains(&at));
        let held: Vec<Option<Arc<Held>>> =
            content.held.into_iter().enumerate().map(|(at, held)| (!gone(at)).then_some(held)).collect();
        self.settle(number, &held);
        self.keep(number, Part::new(content.segment, held), content.rows)
    }

    /// Notes where the documents of a file lie. Older ones of the same names go out of sight.
    fn settle(&mut self, number: u64, all: &[Option<Arc<Held>>]) {
        for (place, held) in (0..).zip(all) {
            let Some(held) = held else { continue };
            let id = &held.about().id;
            let spot = Spot { held: Arc::clone(held), file: number, place };
            match self.documents.get_mut(id) {
                Some(older) => {
                    let Spot { file, place, .. } = std::mem::replace(older, spot);
                    self.hide(file, place);
                }
                None => drop(self.documents.insert(id.clone(), spot)),
            }
        }
    }

    /// Gives the vectors, for a graph to be made over them.
    fn keep(&mut self, number: u64, part: Part, rows: Option<Rows>) -> Option<Arc<Vectors>> {
        let vectors = rows.map(|rows| Arc::new(Vectors::new(rows)));
        self.parts.push(part);
        self.vectors.push(vectors.clone());
        self.files.push(number);
        vectors
    }

    /// Where a document lies: the number of its file, and its place there.
    pub(super) fn place(&self, id: &DocumentId) -> Option<(u64, u32)> {
        self.documents.get(id).map(|spot| (spot.file, spot.place))
    }

    /// Takes a document out of sight.
    pub(super) fn take_out(&mut self, id: &DocumentId) {
        if let Some(Spot { file, place, .. }) = self.documents.remove(id) {
            self.hide(file, place);
        }
    }

    /// Takes what lies somewhere out of sight.
    fn hide(&mut self, file: u64, place: u32) {
        if let Some(at) = self.files.iter().position(|number| *number == file) {
            self.parts[at].take_out(place as usize);
        }
    }

    /// Puts one file in the place of others that hold the same documents, less those that are gone by now.
    pub(super) fn swap(
        &mut self,
        old: &[u64],
        new: Option<(u64, file::Content, Vec<u32>)>,
    ) -> Option<Arc<Vectors>> {
        for number in old {
            if let Some(at) = self.files.iter().position(|file| file == number) {
                self.parts.remove(at);
                self.files.remove(at);
                if let Some(vectors) = self.vectors.remove(at) {
                    vectors.leave();
                }
            }
        }
        let (number, content, dead) = new?;
        self.add(number, content, &dead)
    }

    /// Tells whoever makes graphs over these vectors that nobody waits for them any more.
    pub(super) fn leave(&self) {
        self.vectors.iter().flatten().for_each(|vectors| vectors.leave());
    }

    /// Whether every graph there should be is there.
    #[cfg(test)]
    pub(super) fn graphs(&self) -> Vec<bool> {
        self.vectors.iter().flatten().map(|vectors| vectors.graph().is_some()).collect()
    }

    /// The files that are worth joining: many of a size, or one that is mostly gone.
    pub(super) fn worth_joining(&self) -> Vec<u64> {
        let mut by_size: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (part, file) in self.parts.iter().zip(&self.files) {
            if part.live() * 2 < part.held().len() || part.live() == 0 {
                return vec![*file];
            }
            let size = part.segment.slots().max(part.held().len()).max(1);
            by_size.entry((size as u32).ilog(FAN as u32)).or_default().push(*file);
        }
        by_size.into_values().find(|files| files.len() >= FAN).unwrap_or_default()
    }

    /// A file that still has words of documents that are gone.
    pub(super) fn unclean(&self) -> Option<u64> {
        let mut parts = self.parts.iter().zip(&self.files);
        parts.find(|(part, _)| part.live() < part.held().len()).map(|(_, file)| *file)
    }

    /// Whose turn it is to join files.
    pub(super) fn turn(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.turn)
    }

    /// Some files as they are now.
    pub(super) fn joining(&self, files: Vec<u64>) -> Joining {
        let chosen = (0..self.files.len()).filter(|at| files.contains(&self.files[*at]));
        let parts = chosen.map(|at| {
            let part = &self.parts[at];
            (Arc::clone(&part.segment), part.held().to_vec(), self.vectors[at].clone())
        });
        Joining { parts: parts.collect(), files }
    }

    /// The places, among the documents that were joined, of those that went out of sight since.
    pub(super) fn gone(&self, joining: &Joining) -> Vec<u32> {
        let chosen = (0..self.files.len()).filter(|at| joining.files.contains(&self.files[*at]));
        let now = chosen.flat_map(|at| self.parts[at].held());
        let then = joining.parts.iter().flat_map(|(_, held, _)| held);
        let kept = then.zip(now).filter(|(then, _)| then.is_some());
        (0..).zip(kept).filter(|(_, (_, now))| now.is_none()).map(|(place, _)| place).collect()
    }

    /// The best passages by their words.
    pub(super) fn by_words(
        &self,
        query: &Query,
        ranking: &Ranking,
        filter: &Filter,
        limit: usize,
    ) -> Vec<Found> {
        search::search(&self.parts, query, ranking, filter, limit)
    }

    /// The hits of what was found by words.
    pub(super) fn hits(&self, found: &[Found]) -> Vec<Hit> {
        found.iter().filter_map(|found| self.hit(found.part, found.slot, found.score)).collect()
    }

    /// The nearest passages to a vector, and how near those are that were found by words.
    pub(super) fn by_vector(
        &self,
        vector: &[f32],
        filter: &Filter,
        limit: usize,
        found: &[Found],
    ) -> Vec<Hit> {
        let masks: Vec<Option<Vec<bool>>> = self.parts.iter().map(|part| mask(part, filter)).collect();
        let empty = Rows::none();
        let fields: Vec<Field<'_>> = self
            .vectors
            .iter()
            .map(|vectors| match vectors {
                Some(vectors) => Field { rows: vectors.rows(), graph: vectors.graph() },
                None => Field { rows: &empty, graph: None },
            })
            .collect();
        let admits = |part: usize, row: usize| masks[part].as_ref().is_none_or(|mask| mask[row]);
        // Twice as many, so that of equally near ones the names decide and not the order they came in.
        let mut near: Vec<Hit> = nearest(&fields, vector, limit.saturating_mul(2), &admits)
            .iter()
            .filter_map(|near| self.hit(near.part, near.row, near.score))
            .collect();
        let order = |left: &Hit, right: &Hit| {
            right.score.total_cmp(&left.score).then_with(|| left.passage.id.cmp(&right.passage.id))
        };
        near.sort_by(order);
        near.truncate(limit);
        let known: HashSet<PassageId> = near.iter().map(|near| near.passage.id.clone()).collect();
        for Found { part, slot, .. } in found {
            let rows = fields[*part].rows;
            if rows.dimension() == vector.len()
                && let Some(hit) = self.hit(*part, *slot, rows.dot(*slot, vector))
                && !known.contains(&hit.passage.id)
            {
                near.push(hit);
            }
        }
        near.sort_by(order);
        near
    }

    fn hit(&self, part: usize, slot: usize, score: f32) -> Option<Hit> {
        let passage = self.parts[part].passage(slot)?;
        Some(Hit { passage, score: f64::from(score) })
    }
}

impl Joining {
    /// The numbers of the files.
    pub(super) fn files(&self) -> &[u64] {
        &self.files
    }

    /// Joins them. `None` if everything was gone.
    pub(super) fn join(&self) -> Option<Joined> {
        let held: Vec<Arc<Held>> =
            self.parts.iter().flat_map(|(_, held, _)| held.iter().flatten()).cloned().collect();
        if held.is_empty() {
            return None;
        }
        let segments: Vec<&Segment> = self.parts.iter().map(|(segment, _, _)| &**segment).collect();
        let segment = Segment::merge(&segments, |part, document| self.parts[part].1[document].is_some());
        let mut dimension = None;
        let mut rows = Vec::new();
        for (segment, held, vectors) in &self.parts {
            let Some(old) = vectors.as_ref().map(|vectors| vectors.rows()) else { continue };
            dimension = Some(old.dimension());
            for document in (0..held.len()).filter(|document| held[*document].is_some()) {
                rows.extend(segment.slots_of(document).map(|slot| old.row(slot)));
            }
        }
        let rows = dimension.and_then(|dimension| Rows::write(dimension, rows.iter().map(Vec::as_slice)));
        Some(Joined { held, segment, rows: rows.unwrap_or_default() })
    }
}

//! The documents of one tenant as they are searched: immutable parts, each a mapped file.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::keyword::live_segment::{LiveSegment, slot_mask};
use crate::keyword::query::KeywordQuery;
use crate::keyword::search::{self, KeywordHit};
use crate::keyword::{RankingParameters, Segment, StoredDocument};
use crate::passage::{DocumentId, PassageId};
use crate::retriever::{DocumentFilter, Hit};
use crate::vector::{VectorRows, VectorSearchTarget, nearest_rows};

use super::background_graph::FileVectors;
use super::index_file;

/// Files of about the same size are joined when there are so many.
const FILE_MERGE_FACTOR: usize = 8;

/// The documents of one tenant.
#[derive(Debug, Default)]
pub(super) struct TenantIndex {
    document_locations: BTreeMap<DocumentId, DocumentLocation>,
    segments: Vec<LiveSegment>,
    /// The vectors of each part.
    segment_vectors: Vec<Option<Arc<FileVectors>>>,
    /// The number of the file of each part.
    file_numbers: Vec<u64>,
    /// Held by whoever joins files.
    merge_lock: Arc<Mutex<()>>,
}

/// Files that are to be joined, as they were at one moment.
pub(super) struct FileMergeInput {
    file_numbers: Vec<u64>,
    segments: Vec<(Arc<Segment>, Vec<Option<Arc<StoredDocument>>>, Option<Arc<FileVectors>>)>,
}

/// What such files hold that was not gone.
pub(super) struct FileMergeOutput {
    pub(super) documents: Vec<Arc<StoredDocument>>,
    pub(super) segment: Segment,
    /// The bytes of the vectors.
    pub(super) vector_bytes: Vec<u8>,
}

/// A document, and where it lies: the number of its file, and its place there.
#[derive(Debug)]
struct DocumentLocation {
    document: Arc<StoredDocument>,
    file: u64,
    position: u32,
}

impl TenantIndex {
    /// The documents, by name.
    pub(super) fn documents(&self) -> impl Iterator<Item = &StoredDocument> {
        self.document_locations.values().map(|spot| &*spot.document)
    }

    /// The document of this name.
    pub(super) fn document(&self, id: &DocumentId) -> Option<&StoredDocument> {
        self.document_locations.get(id).map(|spot| &*spot.document)
    }

    /// How many passages there are, removed ones included.
    pub(super) fn slot_count(&self) -> usize {
        self.segments.iter().map(|part| part.segment.slot_count()).sum()
    }

    /// Adds a file, less the documents in it that are gone, and gives its vectors.
    pub(super) fn add_file(
        &mut self,
        number: u64,
        content: index_file::IndexFileContent,
        dead: &[u32],
    ) -> Option<Arc<FileVectors>> {
        let gone = |at: usize| u32::try_from(at).is_ok_and(|at| dead.contains(&at));
        let held: Vec<Option<Arc<StoredDocument>>> =
            content.documents.into_iter().enumerate().map(|(at, held)| (!gone(at)).then_some(held)).collect();
        self.record_locations(number, &held);
        self.push_segment(number, LiveSegment::new(content.segment, held), content.rows)
    }

    /// Notes where the documents of a file lie. Older ones of the same names go out of sight.
    fn record_locations(&mut self, number: u64, all: &[Option<Arc<StoredDocument>>]) {
        for (place, held) in (0..).zip(all) {
            let Some(held) = held else { continue };
            let id = &held.metadata().id;
            let spot = DocumentLocation { document: Arc::clone(held), file: number, position: place };
            match self.document_locations.get_mut(id) {
                Some(older) => {
                    let DocumentLocation { file, position: place, .. } = std::mem::replace(older, spot);
                    self.hide_document(file, place);
                }
                None => drop(self.document_locations.insert(id.clone(), spot)),
            }
        }
    }

    /// Gives the vectors, for a graph to be made over them.
    fn push_segment(
        &mut self,
        number: u64,
        part: LiveSegment,
        rows: Option<VectorRows>,
    ) -> Option<Arc<FileVectors>> {
        let vectors = rows.map(|rows| Arc::new(FileVectors::new(rows)));
        self.segments.push(part);
        self.segment_vectors.push(vectors.clone());
        self.file_numbers.push(number);
        vectors
    }

    /// Where a document lies: the number of its file, and its place there.
    pub(super) fn location(&self, id: &DocumentId) -> Option<(u64, u32)> {
        self.document_locations.get(id).map(|spot| (spot.file, spot.position))
    }

    /// Takes a document out of sight.
    pub(super) fn remove_document(&mut self, id: &DocumentId) {
        if let Some(DocumentLocation { file, position: place, .. }) = self.document_locations.remove(id) {
            self.hide_document(file, place);
        }
    }

    /// Takes what lies somewhere out of sight.
    fn hide_document(&mut self, file: u64, place: u32) {
        if let Some(at) = self.file_numbers.iter().position(|number| *number == file) {
            self.segments[at].remove_document(place as usize);
        }
    }

    /// Puts one file in the place of others that hold the same documents, less those that are gone by now.
    pub(super) fn replace_files(
        &mut self,
        old: &[u64],
        new: Option<(u64, index_file::IndexFileContent, Vec<u32>)>,
    ) -> Option<Arc<FileVectors>> {
        for number in old {
            if let Some(at) = self.file_numbers.iter().position(|file| file == number) {
                self.segments.remove(at);
                self.file_numbers.remove(at);
                if let Some(vectors) = self.segment_vectors.remove(at) {
                    vectors.abandon();
                }
            }
        }
        let (number, content, dead) = new?;
        self.add_file(number, content, &dead)
    }

    /// Tells whoever makes graphs over these vectors that nobody waits for them any more.
    pub(super) fn abandon_graphs(&self) {
        self.segment_vectors.iter().flatten().for_each(|vectors| vectors.abandon());
    }

    /// Whether every graph there should be is there.
    #[cfg(test)]
    pub(super) fn graphs_ready(&self) -> Vec<bool> {
        self.segment_vectors.iter().flatten().map(|vectors| vectors.graph().is_some()).collect()
    }

    /// The files that are worth joining: many of a size, or one that is mostly gone.
    pub(super) fn files_to_merge(&self) -> Vec<u64> {
        let mut by_size: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (part, file) in self.segments.iter().zip(&self.file_numbers) {
            if part.live_document_count() * 2 < part.documents().len() || part.live_document_count() == 0 {
                return vec![*file];
            }
            let size = part.segment.slot_count().max(part.documents().len()).max(1);
            by_size.entry((size as u32).ilog(FILE_MERGE_FACTOR as u32)).or_default().push(*file);
        }
        by_size.into_values().find(|files| files.len() >= FILE_MERGE_FACTOR).unwrap_or_default()
    }

    /// A file that still has words of documents that are gone.
    pub(super) fn file_with_deleted_documents(&self) -> Option<u64> {
        let mut parts = self.segments.iter().zip(&self.file_numbers);
        parts.find(|(part, _)| part.live_document_count() < part.documents().len()).map(|(_, file)| *file)
    }

    /// Whose turn it is to join files.
    pub(super) fn merge_lock(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.merge_lock)
    }

    /// Some files as they are now.
    pub(super) fn merge_input(&self, files: Vec<u64>) -> FileMergeInput {
        let chosen = (0..self.file_numbers.len()).filter(|at| files.contains(&self.file_numbers[*at]));
        let parts = chosen.map(|at| {
            let part = &self.segments[at];
            (Arc::clone(&part.segment), part.documents().to_vec(), self.segment_vectors[at].clone())
        });
        FileMergeInput { segments: parts.collect(), file_numbers: files }
    }

    /// The places, among the documents that were joined, of those that went out of sight since.
    pub(super) fn deleted_since(&self, joining: &FileMergeInput) -> Vec<u32> {
        let chosen =
            (0..self.file_numbers.len()).filter(|at| joining.file_numbers.contains(&self.file_numbers[*at]));
        let now = chosen.flat_map(|at| self.segments[at].documents());
        let then = joining.segments.iter().flat_map(|(_, held, _)| held);
        let kept = then.zip(now).filter(|(then, _)| then.is_some());
        (0..).zip(kept).filter(|(_, (_, now))| now.is_none()).map(|(place, _)| place).collect()
    }

    /// The best passages by their words.
    pub(super) fn search_keywords(
        &self,
        query: &KeywordQuery,
        ranking: &RankingParameters,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Vec<KeywordHit> {
        search::search(&self.segments, query, ranking, filter, limit)
    }

    /// The hits of what was found by words.
    pub(super) fn to_hits(&self, found: &[KeywordHit]) -> Vec<Hit> {
        found.iter().filter_map(|found| self.to_hit(found.segment, found.slot, found.score)).collect()
    }

    /// The nearest passages to a vector, and how near those are that were found by words.
    pub(super) fn search_vectors(
        &self,
        vector: &[f32],
        filter: &DocumentFilter,
        limit: usize,
        found: &[KeywordHit],
    ) -> Vec<Hit> {
        let masks: Vec<Option<Vec<bool>>> =
            self.segments.iter().map(|part| slot_mask(part, filter)).collect();
        let empty = VectorRows::empty();
        let fields: Vec<VectorSearchTarget<'_>> = self
            .segment_vectors
            .iter()
            .map(|vectors| match vectors {
                Some(vectors) => VectorSearchTarget { rows: vectors.rows(), graph: vectors.graph() },
                None => VectorSearchTarget { rows: &empty, graph: None },
            })
            .collect();
        let admits = |part: usize, row: usize| masks[part].as_ref().is_none_or(|mask| mask[row]);
        // Twice as many, so that of equally near ones the names decide and not the order they came in.
        let mut near: Vec<Hit> = nearest_rows(&fields, vector, limit.saturating_mul(2), &admits)
            .iter()
            .filter_map(|near| self.to_hit(near.target, near.row, near.score))
            .collect();
        let order = |left: &Hit, right: &Hit| {
            right.score.total_cmp(&left.score).then_with(|| left.passage.id.cmp(&right.passage.id))
        };
        near.sort_by(order);
        near.truncate(limit);
        let known: HashSet<PassageId> = near.iter().map(|near| near.passage.id.clone()).collect();
        for KeywordHit { segment: part, slot, .. } in found {
            let rows = fields[*part].rows;
            if rows.dimension() == vector.len()
                && let Some(hit) = self.to_hit(*part, *slot, rows.dot(*slot, vector))
                && !known.contains(&hit.passage.id)
            {
                near.push(hit);
            }
        }
        near.sort_by(order);
        near
    }

    fn to_hit(&self, part: usize, slot: usize, score: f32) -> Option<Hit> {
        let passage = self.segments[part].passage_at_slot(slot)?;
        Some(Hit { passage, score: f64::from(score) })
    }
}

impl FileMergeInput {
    /// The numbers of the files.
    pub(super) fn file_numbers(&self) -> &[u64] {
        &self.file_numbers
    }

    /// Joins them. `None` if everything was gone.
    pub(super) fn merge(&self) -> Option<FileMergeOutput> {
        let held: Vec<Arc<StoredDocument>> =
            self.segments.iter().flat_map(|(_, held, _)| held.iter().flatten()).cloned().collect();
        if held.is_empty() {
            return None;
        }
        let segments: Vec<&Segment> = self.segments.iter().map(|(segment, _, _)| &**segment).collect();
        let segment = Segment::merge(&segments, |part, document| self.segments[part].1[document].is_some());
        let mut dimension = None;
        let mut rows = Vec::new();
        for (segment, held, vectors) in &self.segments {
            let Some(old) = vectors.as_ref().map(|vectors| vectors.rows()) else { continue };
            dimension = Some(old.dimension());
            for document in (0..held.len()).filter(|document| held[*document].is_some()) {
                rows.extend(segment.slots_of_document(document).map(|slot| old.row_numbers(slot)));
            }
        }
        let rows =
            dimension.and_then(|dimension| VectorRows::write(dimension, rows.iter().map(Vec::as_slice)));
        Some(FileMergeOutput { documents: held, segment, vector_bytes: rows.unwrap_or_default() })
    }
}

//! The searchable documents of one tenant: immutable segments, each in a mapped file.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::keyword::live_segment::{LiveSegment, slot_mask};
use crate::keyword::query::KeywordQuery;
use crate::keyword::search::{self, KeywordHit};
use crate::keyword::{RankingParameters, Segment, StoredDocument};
use crate::passage::{DocumentId, PassageId};
use crate::retriever::{DocumentFilter, Hit, RetrieveError};
use crate::vector::{VectorRows, VectorSearchTarget, nearest_rows};

use super::background_graph::VectorsWithGraph;
use super::index_file;

/// This many files of about the same size are merged into one.
const FILE_MERGE_FACTOR: usize = 8;
/// Larger files are not merged. A file that is merged from eight of this size has 2 GiB; its offsets reach 4 GiB.
const MAX_MERGED_BYTES: usize = 256 << 20;

/// The searchable documents of one tenant.
#[derive(Debug, Default)]
pub(super) struct TenantIndex {
    document_locations: BTreeMap<DocumentId, DocumentLocation>,
    segments: Vec<LiveSegment>,
    /// The vectors of each segment.
    segment_vectors: Vec<Option<Arc<VectorsWithGraph>>>,
    /// The file number of each segment.
    file_numbers: Vec<u64>,
    /// The file whose vectors are being computed. It is not merged with others meanwhile.
    embedding_file: Option<u64>,
    /// Held while files are merged.
    merge_lock: Arc<Mutex<()>>,
}

/// Files to merge, as they were at one moment.
pub(super) struct FileMergeInput {
    file_numbers: Vec<u64>,
    segments: Vec<(Arc<Segment>, Vec<Option<Arc<StoredDocument>>>, Option<Arc<VectorsWithGraph>>)>,
}

/// The result of a merge: what the files contain without deleted documents.
pub(super) struct FileMergeOutput {
    pub(super) documents: Vec<Arc<StoredDocument>>,
    pub(super) segment: Segment,
    /// The bytes of the vectors.
    pub(super) vector_bytes: Vec<u8>,
}

/// A document and its location: the number of its file and its position there.
#[derive(Debug)]
struct DocumentLocation {
    document: Arc<StoredDocument>,
    file: u64,
    position: u32,
}

impl TenantIndex {
    /// Returns the documents by identifier.
    pub(super) fn documents(&self) -> impl Iterator<Item = &StoredDocument> {
        self.document_locations.values().map(|spot| &*spot.document)
    }

    /// Returns a document by its identifier.
    pub(super) fn document(&self, id: &DocumentId) -> Option<&StoredDocument> {
        self.document_locations.get(id).map(|spot| &*spot.document)
    }

    /// Returns the number of passages, including removed ones.
    pub(super) fn slot_count(&self) -> usize {
        self.segments.iter().map(|part| part.segment.slot_count()).sum()
    }

    /// Adds a file without its deleted documents, and returns its vectors.
    pub(super) fn add_file(
        &mut self,
        number: u64,
        content: index_file::IndexFileContent,
        dead: &[u32],
    ) -> Option<Arc<VectorsWithGraph>> {
        let gone = |at: usize| u32::try_from(at).is_ok_and(|at| dead.contains(&at));
        let held: Vec<Option<Arc<StoredDocument>>> =
            content.documents.into_iter().enumerate().map(|(at, held)| (!gone(at)).then_some(held)).collect();
        self.record_locations(number, &held);
        self.push_segment(number, LiveSegment::new(content.segment, held), content.rows)
    }

    /// Records the locations of the documents of a file. Older documents with the same identifiers are hidden.
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

    /// Adds a segment and returns its vectors, so that a graph can be built over them.
    fn push_segment(
        &mut self,
        number: u64,
        part: LiveSegment,
        rows: Option<VectorRows>,
    ) -> Option<Arc<VectorsWithGraph>> {
        let vectors = rows.map(|rows| Arc::new(VectorsWithGraph::new(rows)));
        self.segments.push(part);
        self.segment_vectors.push(vectors.clone());
        self.file_numbers.push(number);
        vectors
    }

    /// Returns the location of a document: the number of its file and its position there.
    pub(super) fn location(&self, id: &DocumentId) -> Option<(u64, u32)> {
        self.document_locations.get(id).map(|spot| (spot.file, spot.position))
    }

    /// Removes a document from searches.
    pub(super) fn remove_document(&mut self, id: &DocumentId) {
        if let Some(DocumentLocation { file, position: place, .. }) = self.document_locations.remove(id) {
            self.hide_document(file, place);
        }
    }

    /// Removes the document at a location from searches.
    fn hide_document(&mut self, file: u64, place: u32) {
        if let Some(at) = self.file_numbers.iter().position(|number| *number == file) {
            self.segments[at].remove_document(place as usize);
        }
    }

    /// Replaces files by one that contains the same documents, without those deleted since.
    pub(super) fn replace_files(
        &mut self,
        old: &[u64],
        new: Option<(u64, index_file::IndexFileContent, Vec<u32>)>,
    ) -> Option<Arc<VectorsWithGraph>> {
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

    /// Stops building graphs over these vectors.
    pub(super) fn abandon_graphs(&self) {
        self.segment_vectors.iter().flatten().for_each(|vectors| vectors.abandon());
    }

    /// For each file with vectors, whether its graph is ready.
    #[cfg(test)]
    pub(super) fn graphs_ready(&self) -> Vec<bool> {
        self.segment_vectors.iter().flatten().map(|vectors| vectors.graph().is_some()).collect()
    }

    /// Returns the files that should be merged: many of one size, or one in which most documents are deleted.
    pub(super) fn files_to_merge(&self) -> Vec<u64> {
        // Files with vectors are not merged with files without, which would have to be computed again.
        let mut by_size: BTreeMap<(u32, bool), Vec<u64>> = BTreeMap::new();
        for ((part, vectors), file) in self.segments.iter().zip(&self.segment_vectors).zip(&self.file_numbers)
        {
            if part.live_document_count() * 2 < part.documents().len() || part.live_document_count() == 0 {
                return vec![*file];
            }
            let size = part.segment.slot_count().max(part.documents().len()).max(1);
            if self.embedding_file != Some(*file) && part.segment.byte_count() <= MAX_MERGED_BYTES {
                let level = (size as u32).ilog(FILE_MERGE_FACTOR as u32);
                by_size.entry((level, vectors.is_some())).or_default().push(*file);
            }
        }
        let mut files =
            by_size.into_values().find(|files| files.len() >= FILE_MERGE_FACTOR).unwrap_or_default();
        files.truncate(FILE_MERGE_FACTOR);
        files
    }

    /// Returns a file that still contains deleted documents.
    pub(super) fn file_with_deleted_documents(&self) -> Option<u64> {
        let mut parts = self.segments.iter().zip(&self.file_numbers);
        parts.find(|(part, _)| part.live_document_count() < part.documents().len()).map(|(_, file)| *file)
    }

    /// Returns how many passages have no vectors.
    pub(super) fn passages_without_vectors(&self) -> usize {
        self.files_without_vectors().map(|(part, _)| part.live_passage_count()).sum()
    }

    /// Chooses a file without vectors, so that they can be computed. It is not merged with others meanwhile.
    pub(super) fn begin_embedding(&mut self) -> Option<FileMergeInput> {
        let chosen = self.files_without_vectors().map(|(_, file)| file).next();
        self.embedding_file = chosen;
        chosen.map(|file| self.merge_input(vec![file]))
    }

    /// Returns whether a chosen file is still there. Cleaning may have replaced it.
    pub(super) fn end_embedding(&mut self, chosen: &FileMergeInput) -> bool {
        self.embedding_file = None;
        chosen.file_numbers.iter().all(|file| self.file_numbers.contains(file))
    }

    fn files_without_vectors(&self) -> impl Iterator<Item = (&LiveSegment, u64)> {
        let files = self.segments.iter().zip(&self.segment_vectors).zip(&self.file_numbers);
        files
            .filter(|((part, vectors), _)| vectors.is_none() && part.live_passage_count() > 0)
            .map(|((part, _), file)| (part, *file))
    }

    /// Returns the lock for merging files.
    pub(super) fn merge_lock(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.merge_lock)
    }

    /// Returns the current state of some files.
    pub(super) fn merge_input(&self, files: Vec<u64>) -> FileMergeInput {
        let chosen = (0..self.file_numbers.len()).filter(|at| files.contains(&self.file_numbers[*at]));
        let parts = chosen.map(|at| {
            let part = &self.segments[at];
            (Arc::clone(&part.segment), part.documents().to_vec(), self.segment_vectors[at].clone())
        });
        FileMergeInput { segments: parts.collect(), file_numbers: files }
    }

    /// Returns the positions, among the merged documents, of those that were deleted since.
    pub(super) fn deleted_since(&self, joining: &FileMergeInput) -> Vec<u32> {
        let chosen =
            (0..self.file_numbers.len()).filter(|at| joining.file_numbers.contains(&self.file_numbers[*at]));
        let now = chosen.flat_map(|at| self.segments[at].documents());
        let then = joining.segments.iter().flat_map(|(_, held, _)| held);
        let kept = then.zip(now).filter(|(then, _)| then.is_some());
        (0..).zip(kept).filter(|(_, (_, now))| now.is_none()).map(|(place, _)| place).collect()
    }

    /// Returns the best hits of a keyword search.
    pub(super) fn search_keywords(
        &self,
        query: &KeywordQuery,
        ranking: &RankingParameters,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Vec<KeywordHit> {
        search::search(&self.segments, query, ranking, filter, limit)
    }

    /// Converts the hits of a keyword search.
    pub(super) fn to_hits(&self, found: &[KeywordHit]) -> Vec<Hit> {
        found.iter().filter_map(|found| self.to_hit(found.segment, found.slot, found.score)).collect()
    }

    /// Returns the passages nearest to a vector, and the vector scores of the passages that the keyword search found.
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
        // Twice as many, so that equal scores are ordered by identifier and not by insertion order.
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
    /// Returns the numbers of the files.
    pub(super) fn file_numbers(&self) -> &[u64] {
        &self.file_numbers
    }

    /// Merges the files. Returns `None` if every document was deleted.
    pub(super) fn merge(&self) -> Result<Option<FileMergeOutput>, RetrieveError> {
        let held: Vec<Arc<StoredDocument>> =
            self.segments.iter().flat_map(|(_, held, _)| held.iter().flatten()).cloned().collect();
        if held.is_empty() {
            return Ok(None);
        }
        let segments: Vec<&Segment> = self.segments.iter().map(|(segment, _, _)| &**segment).collect();
        let segment = Segment::merge(&segments, |part, document| self.segments[part].1[document].is_some())?;
        let mut dimension = None;
        let mut rows = Vec::new();
        let all_have_vectors = self.segments.iter().all(|(_, _, vectors)| vectors.is_some());
        for (segment, held, vectors) in self.segments.iter().filter(|_| all_have_vectors) {
            let Some(old) = vectors.as_ref().map(|vectors| vectors.rows()) else { continue };
            dimension = Some(old.dimension());
            for document in (0..held.len()).filter(|document| held[*document].is_some()) {
                rows.extend(segment.slots_of_document(document).map(|slot| old.row_numbers(slot)));
            }
        }
        let rows =
            dimension.and_then(|dimension| VectorRows::write(dimension, rows.iter().map(Vec::as_slice)));
        Ok(Some(FileMergeOutput { documents: held, segment, vector_bytes: rows.unwrap_or_default() }))
    }
}

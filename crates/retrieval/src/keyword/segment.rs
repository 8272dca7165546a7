//! An immutable segment of the index: for each term, which passages contain it and how often.
//!
//! A segment is one byte string that can be kept in memory, written to a file and memory-mapped. It holds no texts: its
//! slots are the passages of the documents it lists, in order, and the owner stores those. The file that contains it has
//! a checksum.
//!
//! ```text
//! magic 8 · unused 8 · seed u64 · slots, terms, places, bytes of documents, of terms, of postings 6 × u32
//! documents (JSON) · lengths slots × 2 × u32 · ends of terms, ends of postings, holders 3 × terms × u32
//! places by hash × u32 · the most of a term in one passage terms × u8 · terms · postings
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::passage::DocumentId;
use crate::retriever::RetrieveError;
use crate::text_analysis::TermLayer;
use crate::text_analysis::byte_string_interner::{self, ByteStringInterner, SerializedInterner};

use super::postings::{self, Postings};
use super::segment_builder::SegmentBuilder;
use super::stored_document::StoredDocument;

const MAGIC: &[u8; 8] = b"DORANKW3";
const HEADER_BYTES: usize = 48;
/// The number of term layers: syllable pairs and stems.
pub(super) const LAYER_COUNT: usize = 2;

/// The entry of a document in a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentDocument {
    /// Its identifier.
    pub id: DocumentId,
    /// Its version.
    pub version: String,
    /// The number of its passages, each of which has one slot.
    pub passages: u32,
}

/// An immutable segment of the index over the passages of some documents.
pub(crate) struct Segment {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    documents: Vec<SegmentDocument>,
    /// The first slot of each document, and the total number of slots at the end.
    first_slots: Vec<u32>,
    seed: u64,
    slot_count: usize,
    term_count: usize,
    hash_table_len: usize,
    /// The byte offsets of the sections.
    lengths_offset: usize,
    term_ends_offset: usize,
    posting_ends_offset: usize,
    document_frequencies_offset: usize,
    hash_table_offset: usize,
    max_term_counts_offset: usize,
    term_bytes_offset: usize,
    postings_offset: usize,
    total_lengths: [u64; LAYER_COUNT],
    /// The shortest passage length in each layer.
    min_lengths: [u32; LAYER_COUNT],
}

impl Segment {
    /// Builds a segment from stored documents. A passage outside the text of its document is an error.
    pub(crate) fn from_stored_documents<'a>(
        all: impl IntoIterator<Item = &'a StoredDocument>,
    ) -> Result<Self, RetrieveError> {
        let mut gather = SegmentBuilder::default();
        for held in all {
            for at in 0..held.len() {
                let (title, text, article) = held.passage_title_and_text(at).ok_or_else(|| {
                    let id = &held.metadata().id;
                    RetrieveError::Stale {
                        reason: format!("passage {at} of document `{id}` is outside its text"),
                    }
                })?;
                gather.add_passage(title, text, article);
            }
            gather.end_document(held.to_segment_document());
        }
        gather.finish()
    }

    /// Merges segments. Documents for which `keep(segment, document)` is false are left out.
    pub(crate) fn merge(
        segments: &[&Segment],
        keep: impl Fn(usize, usize) -> bool,
    ) -> Result<Self, RetrieveError> {
        const REMOVED_SLOT: u32 = u32::MAX;
        let mut documents = Vec::new();
        let mut lengths = Vec::new();
        let mut moved: Vec<Vec<u32>> = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            let mut slots = vec![REMOVED_SLOT; segment.slot_count];
            for (at, document) in segment.documents.iter().enumerate() {
                if keep(number, at) {
                    for slot in segment.first_slots[at]..segment.first_slots[at + 1] {
                        slots[slot as usize] = lengths.len() as u32;
                        lengths.push(segment.lengths_of_slot(slot));
                    }
                    documents.push(document.clone());
                }
            }
            moved.push(slots);
        }
        // The number of each new term in each of the old segments.
        let mut words = ByteStringInterner::with_seed(segments.first().map_or(0, |first| first.seed));
        let mut places: Vec<u32> = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            let whole = !moved[number].contains(&REMOVED_SLOT);
            for term in 0..segment.term_count {
                let living = || {
                    let mut found = false;
                    segment.for_each_posting(term, |slot, _| {
                        found |= moved[number][slot as usize] != REMOVED_SLOT;
                    });
                    found
                };
                if whole || living() {
                    let (new, _) = words.intern(segment.key_of_term(term));
                    places.resize(words.len() * segments.len(), REMOVED_SLOT);
                    places[new as usize * segments.len() + number] = term as u32;
                }
            }
        }
        Self::write(documents, &lengths, &words.to_serialized(), &|term, list| {
            let places = &places[term * segments.len()..(term + 1) * segments.len()];
            for (number, place) in places.iter().enumerate().filter(|(_, place)| **place != REMOVED_SLOT) {
                segments[number].for_each_posting(*place as usize, |slot, count| {
                    match moved[number][slot as usize] {
                        REMOVED_SLOT => {}
                        slot => list.push((slot, count)),
                    }
                });
            }
        })
    }

    /// Opens a segment whose bytes the caller has verified.
    pub(crate) fn open_checked(
        bytes: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Self, RetrieveError> {
        let all = bytes.as_ref();
        if all.len() < HEADER_BYTES || all[..8] != MAGIC[..] {
            return Err(stale_segment_error("has another format"));
        }
        Self::parse(Box::new(bytes), None).ok_or_else(|| stale_segment_error("contradicts itself"))
    }

    /// Returns the bytes to save. The caller adds a checksum.
    pub(crate) fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// Returns the same segment over an identical copy of its bytes, such as a mapped file.
    pub(crate) fn with_bytes_at(self, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        if bytes.as_ref().len() == self.bytes().len() {
            Self { bytes: Box::new(bytes), ..self }
        } else {
            self
        }
    }

    /// Returns the documents whose passages it covers.
    pub(crate) fn documents(&self) -> &[SegmentDocument] {
        &self.documents
    }

    /// Returns the size of the segment in bytes.
    pub(crate) fn byte_count(&self) -> usize {
        (*self.bytes).as_ref().len()
    }

    /// Returns the number of passages it covers, including removed ones.
    pub(crate) fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// Returns the slots of a document.
    pub(crate) fn slots_of_document(&self, document: usize) -> std::ops::Range<usize> {
        self.first_slots[document] as usize..self.first_slots[document + 1] as usize
    }

    /// Returns the document that a slot belongs to.
    pub(crate) fn document_of_slot(&self, slot: usize) -> usize {
        self.first_slots.partition_point(|first| *first as usize <= slot) - 1
    }

    /// Returns the number of terms in each layer of the passage in a slot.
    pub(super) fn lengths_of_slot(&self, slot: u32) -> [u32; LAYER_COUNT] {
        let at = self.lengths_offset + slot as usize * 4 * LAYER_COUNT;
        [self.read_u32(at), self.read_u32(at + 4)]
    }

    /// Returns the lengths of every slot, one for each layer, as little-endian u32 bytes.
    pub(super) fn lengths(&self) -> &[[[u8; 4]; LAYER_COUNT]] {
        let bytes =
            &self.bytes()[self.lengths_offset..self.lengths_offset + self.slot_count * 4 * LAYER_COUNT];
        bytes.as_chunks::<4>().0.as_chunks::<LAYER_COUNT>().0
    }

    /// Returns the sum of the lengths of all slots, including removed ones.
    pub(super) fn total_lengths(&self) -> [u64; LAYER_COUNT] {
        self.total_lengths
    }

    /// Returns the shortest length of any slot, for each layer.
    pub(super) fn min_lengths(&self) -> [u32; LAYER_COUNT] {
        self.min_lengths
    }

    /// Returns the number of a term, if any passage contains it.
    pub(super) fn find_term(&self, term: &[u8]) -> Option<usize> {
        let all = self.bytes();
        let long = |at: usize| all[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let entry = |at: usize| long(self.hash_table_offset + at * 4);
        let same = |number: u32| {
            let number = number as usize;
            if number >= self.term_count {
                return false;
            }
            let start =
                number.checked_sub(1).map_or(0, |before| long(self.term_ends_offset + before * 4)) as usize;
            let end = long(self.term_ends_offset + number * 4) as usize;
            all.get(self.term_bytes_offset + start..self.term_bytes_offset + end) == Some(term)
        };
        byte_string_interner::find_in_table(self.seed, self.hash_table_len, term, entry, same)
            .map(|number| number as usize)
    }

    /// Returns how many passages contain a term, including removed ones.
    pub(super) fn document_frequency(&self, term: usize) -> u32 {
        self.read_u32(self.document_frequencies_offset + term * 4)
    }

    /// Returns the highest count of a term in one passage; 255 means 255 or more.
    pub(super) fn max_term_count(&self, term: usize) -> u8 {
        self.bytes()[self.max_term_counts_offset + term]
    }

    /// Returns the posting list of a term.
    #[inline]
    pub(super) fn postings(&self, term: usize) -> Postings<'_> {
        let (start, end) = self.range_from_ends(self.posting_ends_offset, term);
        let bytes =
            self.bytes().get(self.postings_offset + start..self.postings_offset + end).unwrap_or_default();
        Postings::new(bytes, self.document_frequency(term), self.slot_count as u32)
    }

    /// Calls `each` for every slot that contains a term, with the count.
    #[inline]
    pub(super) fn for_each_posting(&self, term: usize, each: impl FnMut(u32, u32)) {
        self.postings(term).for_each_posting(each);
    }

    fn key_of_term(&self, at: usize) -> &[u8] {
        let (start, end) = self.range_from_ends(self.term_ends_offset, at);
        self.bytes().get(self.term_bytes_offset + start..self.term_bytes_offset + end).unwrap_or_default()
    }

    /// Returns the byte range of an item from a table of end offsets.
    fn range_from_ends(&self, ends: usize, at: usize) -> (usize, usize) {
        let start = at.checked_sub(1).map_or(0, |before| self.read_u32(ends + before * 4));
        (start as usize, self.read_u32(ends + at * 4) as usize)
    }

    fn read_u32(&self, at: usize) -> u32 {
        let bytes = self.bytes();
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    /// Parses a segment. The list of documents is parsed too, unless the caller passes it.
    fn parse(
        bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
        documents: Option<Vec<SegmentDocument>>,
    ) -> Option<Self> {
        let all = (*bytes).as_ref();
        let long =
            |at: usize| all.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        let seed = u64::from_le_bytes(all.get(16..24)?.try_into().ok()?);
        let (slots, terms, places) = (long(24)?, long(28)?, long(32)?);
        let (document_bytes, term_bytes, posting_bytes) = (long(36)?, long(40)?, long(44)?);
        let documents: Vec<SegmentDocument> = match documents {
            Some(documents) => documents,
            None => serde_json::from_slice(all.get(HEADER_BYTES..HEADER_BYTES + document_bytes)?).ok()?,
        };
        let lengths = HEADER_BYTES + document_bytes;
        let term_ends = lengths + slots * 4 * LAYER_COUNT;
        let posting_ends = term_ends + terms * 4;
        let holders = posting_ends + terms * 4;
        let table = holders + terms * 4;
        let max_counts_at = table + places * 4;
        let term_at = max_counts_at + terms;
        let postings = term_at + term_bytes;
        if postings + posting_bytes != all.len() || !places.is_power_of_two() {
            return None;
        }
        let mut firsts = vec![0_u32];
        for document in &documents {
            firsts.push(firsts.last()?.checked_add(document.passages)?);
        }
        if *firsts.last()? as usize != slots {
            return None;
        }
        let (mut totals, mut least) = ([0; LAYER_COUNT], [u32::MAX; LAYER_COUNT]);
        for slot in all.get(lengths..term_ends)?.as_chunks::<4>().0.as_chunks::<LAYER_COUNT>().0 {
            for (layer, length) in slot.iter().enumerate() {
                let length = u32::from_le_bytes(*length);
                totals[layer] += u64::from(length);
                least[layer] = least[layer].min(length);
            }
        }
        Some(Self {
            bytes,
            total_lengths: totals,
            min_lengths: least,
            documents,
            first_slots: firsts,
            seed,
            slot_count: slots,
            term_count: terms,
            hash_table_len: places,
            lengths_offset: lengths,
            term_ends_offset: term_ends,
            posting_ends_offset: posting_ends,
            document_frequencies_offset: holders,
            hash_table_offset: table,
            max_term_counts_offset: max_counts_at,
            term_bytes_offset: term_at,
            postings_offset: postings,
        })
    }

    /// Writes a segment. `list` returns the slots that contain a term, sorted, with their counts. A segment that is too
    /// large for its format is an error.
    pub(super) fn write(
        documents: Vec<SegmentDocument>,
        lengths: &[[u32; LAYER_COUNT]],
        terms: &SerializedInterner,
        list: &dyn Fn(usize, &mut Vec<(u32, u32)>),
    ) -> Result<Self, RetrieveError> {
        let listed = serde_json::to_vec(&documents)
            .map_err(|error| stale_segment_error(&format!("cannot list its documents: {error}")))?;
        let count = terms.ends.len();
        let mut lists = Vec::with_capacity(count * 4);
        let (mut ends, mut holders) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut max_counts = Vec::with_capacity(count);
        let mut one = Vec::new();
        for term in 0..count {
            one.clear();
            list(term, &mut one);
            postings::write_postings(&one, &mut lists);
            ends.push(lists.len() as u32);
            holders.push(one.len() as u32);
            let highest = one.iter().map(|(_, count)| *count).max().unwrap_or(0);
            max_counts.push(u8::try_from(highest).unwrap_or(u8::MAX));
        }
        let tables = [&terms.ends, &ends, &holders, &terms.table];
        let words: usize =
            tables.iter().map(|table| table.len()).sum::<usize>() + lengths.len() * LAYER_COUNT;
        let size =
            HEADER_BYTES + listed.len() + words * 4 + max_counts.len() + terms.bytes.len() + lists.len();
        let mut bytes = Vec::with_capacity(size);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&terms.seed.to_le_bytes());
        let sizes = [lengths.len(), count, terms.table.len(), listed.len(), terms.bytes.len(), lists.len()];
        for size in sizes {
            let size = u32::try_from(size).map_err(|_| stale_segment_error("is larger than 4 GiB"))?;
            bytes.extend_from_slice(&size.to_le_bytes());
        }
        bytes.extend_from_slice(&listed);
        bytes.extend(lengths.iter().flatten().flat_map(|length| length.to_le_bytes()));
        for table in tables {
            bytes.extend(table.iter().flat_map(|word| word.to_le_bytes()));
        }
        for part in [&max_counts, &terms.bytes, &lists] {
            bytes.extend_from_slice(part);
        }
        Self::parse(Box::new(bytes), Some(documents)).ok_or_else(|| stale_segment_error("contradicts itself"))
    }
}

fn stale_segment_error(what: &str) -> RetrieveError {
    RetrieveError::Stale { reason: format!("a keyword segment {what}") }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let documents = self.documents.len();
        write!(f, "Segment({documents} documents, {} slots, {} terms)", self.slot_count, self.term_count)
    }
}

/// Writes the key of a term in the dictionary: its layer, then its letters.
pub(super) fn write_term_key(layer: TermLayer, term: &str, key: &mut Vec<u8>) {
    key.clear();
    key.push(match layer {
        TermLayer::Bigrams => b'p',
        TermLayer::Stems => b's',
    });
    key.extend_from_slice(term.as_bytes());
}

/// Returns the key of a term as a new byte string.
pub(super) fn term_key(layer: TermLayer, term: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(term.len() + 1);
    write_term_key(layer, term, &mut bytes);
    bytes
}

//! An immutable piece of the index: for each term, which passages hold it and how often.
//!
//! A segment is one run of bytes, checksummed, that can be kept in memory, written to a file and mapped back. It
//! holds no texts: its slots are the passages of the documents it lists, in order, and whoever keeps it keeps those.
//!
//! ```text
//! magic 8 · checksum 8 · slots, terms, bytes of documents, of terms, of postings 5 × u32
//! documents (JSON) · lengths slots × 2 × u32 · term starts, posting starts (terms + 1) × u32 · holders terms × u32
//! terms, sorted · postings: gap and count as varints
//! ```

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::passage::{DocumentId, Passage};
use crate::retriever::RetrieveError;
use crate::text::{self, Layer};

use super::article;

const MAGIC: &[u8; 8] = b"DORANKW1";
const HEAD: usize = 36;
/// The layers whose lengths are kept.
pub(super) const LAYERS: usize = 2;

/// A document as a segment lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentDocument {
    /// Its name.
    pub id: DocumentId,
    /// Its version.
    pub version: String,
    /// How many passages it has: so many slots are its.
    pub passages: u32,
}

/// An immutable piece of the index over the passages of some documents.
pub struct Segment {
    bytes: Box<dyn AsRef<[u8]> + Send + Sync>,
    documents: Vec<SegmentDocument>,
    /// The first slot of each document, and one past the last.
    firsts: Vec<u32>,
    slots: usize,
    terms: usize,
    lengths: usize,
    term_starts: usize,
    posting_starts: usize,
    holders: usize,
    term_bytes: usize,
    postings: usize,
    totals: [u64; LAYERS],
}

impl Segment {
    /// Makes a segment of documents with their passages.
    pub fn build<'a>(documents: impl IntoIterator<Item = (SegmentDocument, &'a [Passage])>) -> Self {
        let mut writer = Writer::default();
        let mut titles = Titles::default();
        for (document, passages) in documents {
            for passage in passages {
                writer.passage(passage, &mut titles);
            }
            writer.documents.push(SegmentDocument { passages: passages.len() as u32, ..document });
        }
        writer.finish()
    }

    /// Joins segments, leaving out the documents for which `keep` (segment, document) is false.
    pub fn merge(segments: &[&Segment], keep: impl Fn(usize, usize) -> bool) -> Self {
        let mut writer = Writer::default();
        let mut moved: Vec<Vec<Option<u32>>> = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            let mut slots = vec![None; segment.slots];
            for (at, document) in segment.documents.iter().enumerate() {
                if keep(number, at) {
                    for slot in segment.firsts[at]..segment.firsts[at + 1] {
                        slots[slot as usize] = Some(writer.lengths.len() as u32);
                        writer.lengths.push(segment.lengths_of(slot));
                    }
                    writer.documents.push(document.clone());
                }
            }
            moved.push(slots);
        }
        let mut all: Vec<(&[u8], usize, usize)> = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            all.extend((0..segment.terms).map(|term| (segment.term(term), number, term)));
        }
        all.sort_unstable();
        let mut sorted = Vec::new();
        for group in all.chunk_by(|left, right| left.0 == right.0) {
            let mut postings = Vec::new();
            for (_, number, term) in group {
                segments[*number].decode(*term, |slot, count| {
                    if let Some(slot) = moved[*number][slot as usize] {
                        postings.push((slot, count));
                    }
                });
            }
            if !postings.is_empty() {
                sorted.push((group[0].0, postings));
            }
        }
        Self::write(&writer.documents, &writer.lengths, &sorted)
    }

    /// Reads a segment that was saved, checking every byte.
    pub fn open(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Self, RetrieveError> {
        let damaged = |what: &str| RetrieveError::Stale { reason: format!("a keyword segment {what}") };
        let all = bytes.as_ref();
        if all.len() < HEAD || all[..8] != MAGIC[..] {
            return Err(damaged("has another format"));
        }
        if checksum(&all[16..])[..] != all[8..16] {
            return Err(damaged("is damaged"));
        }
        Self::parse(Box::new(bytes)).ok_or_else(|| damaged("contradicts itself"))
    }

    /// The bytes to save.
    pub fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// The documents whose passages it covers.
    pub fn documents(&self) -> &[SegmentDocument] {
        &self.documents
    }

    /// How many passages it covers, removed ones included.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The slots of a document.
    pub(crate) fn slots_of(&self, document: usize) -> std::ops::Range<usize> {
        self.firsts[document] as usize..self.firsts[document + 1] as usize
    }

    /// The document a slot belongs to.
    pub(crate) fn document_of(&self, slot: usize) -> usize {
        self.firsts.partition_point(|first| *first as usize <= slot) - 1
    }

    /// How many terms of each layer the passage in a slot has.
    pub(super) fn lengths_of(&self, slot: u32) -> [u32; LAYERS] {
        let at = self.lengths + slot as usize * 4 * LAYERS;
        [self.long(at), self.long(at + 4)]
    }

    /// The lengths of every slot, one for each layer, as bytes of u32.
    pub(super) fn lengths(&self) -> &[[[u8; 4]; LAYERS]] {
        let bytes = &self.bytes()[self.lengths..self.lengths + self.slots * 4 * LAYERS];
        bytes.as_chunks::<4>().0.as_chunks::<LAYERS>().0
    }

    /// The lengths of all slots together, removed ones included.
    pub(super) fn totals(&self) -> [u64; LAYERS] {
        self.totals
    }

    /// The number of a term, if any passage holds it.
    pub(super) fn find(&self, term: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.terms);
        while low < high {
            let middle = low.midpoint(high);
            match self.term(middle).cmp(term) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// How many passages hold a term, removed ones included.
    pub(super) fn holders(&self, term: usize) -> u32 {
        self.long(self.holders + term * 4)
    }

    /// Gives every slot that holds a term, and how often.
    #[inline]
    pub(super) fn decode(&self, term: usize, mut each: impl FnMut(u32, u32)) {
        let bytes = self.bytes();
        let start = self.long(self.posting_starts + term * 4) as usize;
        let end = self.long(self.posting_starts + term * 4 + 4) as usize;
        let mut rest = &bytes[self.postings + start..self.postings + end];
        let mut next = 0_u32;
        while let Some(code) = varint(&mut rest) {
            // Not checked for overflow: whoever takes the slot checks that it is one.
            let slot = next.wrapping_add(code >> 1);
            let count = if code & 1 == 0 { 1 } else { varint(&mut rest).unwrap_or(1) };
            each(slot, count);
            next = slot.wrapping_add(1);
        }
    }

    fn term(&self, at: usize) -> &[u8] {
        let start = self.long(self.term_starts + at * 4) as usize;
        let end = self.long(self.term_starts + at * 4 + 4) as usize;
        &self.bytes()[self.term_bytes + start..self.term_bytes + end]
    }

    fn long(&self, at: usize) -> u32 {
        let bytes = self.bytes();
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn parse(bytes: Box<dyn AsRef<[u8]> + Send + Sync>) -> Option<Self> {
        let all = (*bytes).as_ref();
        let long =
            |at: usize| all.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        let (slots, terms) = (long(16)?, long(20)?);
        let (document_bytes, term_bytes, posting_bytes) = (long(24)?, long(28)?, long(32)?);
        let documents: Vec<SegmentDocument> =
            serde_json::from_slice(all.get(HEAD..HEAD + document_bytes)?).ok()?;
        let lengths = HEAD + document_bytes;
        let term_starts = lengths + slots * 4 * LAYERS;
        let posting_starts = term_starts + (terms + 1) * 4;
        let holders = posting_starts + (terms + 1) * 4;
        let term_at = holders + terms * 4;
        let postings = term_at + term_bytes;
        if postings + posting_bytes != all.len() {
            return None;
        }
        let mut firsts = vec![0_u32];
        for document in &documents {
            firsts.push(firsts.last()?.checked_add(document.passages)?);
        }
        if *firsts.last()? as usize != slots {
            return None;
        }
        let mut totals = [0; LAYERS];
        for slot in all.get(lengths..term_starts)?.as_chunks::<4>().0.as_chunks::<LAYERS>().0 {
            totals
                .iter_mut()
                .zip(slot)
                .for_each(|(total, length)| *total += u64::from(u32::from_le_bytes(*length)));
        }
        Some(Self {
            bytes,
            totals,
            documents,
            firsts,
            slots,
            terms,
            lengths,
            term_starts,
            posting_starts,
            holders,
            term_bytes: term_at,
            postings,
        })
    }

    fn write(
        documents: &[SegmentDocument],
        lengths: &[[u32; LAYERS]],
        sorted: &[(&[u8], Vec<(u32, u32)>)],
    ) -> Self {
        let listed = serde_json::to_vec(documents).unwrap_or_default();
        let term_bytes: usize = sorted.iter().map(|(term, _)| term.len()).sum();
        let mut postings = Vec::new();
        let mut posting_starts = Vec::with_capacity(sorted.len() + 1);
        for (_, list) in sorted {
            posting_starts.push(postings.len() as u32);
            let mut next = 0;
            for (slot, count) in list {
                put_varint(&mut postings, (slot - next) << 1 | u32::from(*count > 1));
                if *count > 1 {
                    put_varint(&mut postings, *count);
                }
                next = slot + 1;
            }
        }
        posting_starts.push(postings.len() as u32);
        let mut bytes = Vec::with_capacity(
            HEAD + listed.len() + lengths.len() * 8 + sorted.len() * 12 + term_bytes + postings.len(),
        );
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        for size in [lengths.len(), sorted.len(), listed.len(), term_bytes, postings.len()] {
            bytes.extend_from_slice(&(size as u32).to_le_bytes());
        }
        bytes.extend_from_slice(&listed);
        for length in lengths.iter().flatten() {
            bytes.extend_from_slice(&length.to_le_bytes());
        }
        let mut start = 0_u32;
        for (term, _) in sorted {
            bytes.extend_from_slice(&start.to_le_bytes());
            start += term.len() as u32;
        }
        bytes.extend_from_slice(&start.to_le_bytes());
        for start in &posting_starts {
            bytes.extend_from_slice(&start.to_le_bytes());
        }
        for (_, list) in sorted {
            bytes.extend_from_slice(&(list.len() as u32).to_le_bytes());
        }
        for (term, _) in sorted {
            bytes.extend_from_slice(term);
        }
        bytes.extend_from_slice(&postings);
        let sum = checksum(&bytes[16..]);
        bytes[8..16].copy_from_slice(&sum);
        let empty = || Self::write(&[], &[], &[]);
        Self::parse(Box::new(bytes)).unwrap_or_else(empty)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let documents = self.documents.len();
        write!(f, "Segment({documents} documents, {} slots, {} terms)", self.slots, self.terms)
    }
}

/// The key of a term in the dictionary: its layer, then its letters.
pub(super) fn key(layer: Layer, term: &str, key: &mut Vec<u8>) {
    key.clear();
    key.push(match layer {
        Layer::Pairs => b'p',
        Layer::Stems => b's',
    });
    key.extend_from_slice(term.as_bytes());
}

/// The key of a term, alone.
pub(super) fn key_of(layer: Layer, term: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(term.len() + 1);
    key(layer, term, &mut bytes);
    bytes
}

/// The terms of headings, remembered while the passages below them come by.
#[derive(Default)]
struct Titles {
    title: String,
    terms: Vec<(Layer, String)>,
}

/// Gathers terms of passages, slot after slot.
#[derive(Default)]
struct Writer {
    documents: Vec<SegmentDocument>,
    lengths: Vec<[u32; LAYERS]>,
    terms: HashMap<Box<[u8]>, Vec<(u32, u32)>>,
}

impl Writer {
    fn passage(&mut self, passage: &Passage, titles: &mut Titles) {
        let slot = self.lengths.len() as u32;
        let mut lengths = [0; LAYERS];
        let mut term_key = Vec::new();
        if titles.title != passage.title {
            titles.title.clone_from(&passage.title);
            titles.terms.clear();
            text::terms(&passage.title, |layer, term, _| titles.terms.push((layer, term.to_owned())));
        }
        for (layer, term) in &titles.terms {
            key(*layer, term, &mut term_key);
            self.add(&term_key, slot);
            lengths[*layer as usize] += 1;
        }
        text::terms(&passage.text, |layer, term, _| {
            key(layer, term, &mut term_key);
            self.add(&term_key, slot);
            lengths[layer as usize] += 1;
        });
        if let Some(number) = article::of_passage(passage) {
            self.add(&article::key(number), slot);
        }
        self.lengths.push(lengths);
    }

    fn add(&mut self, term: &[u8], slot: u32) {
        let postings = match self.terms.get_mut(term) {
            Some(postings) => postings,
            None => self.terms.entry(term.into()).or_default(),
        };
        match postings.last_mut() {
            Some((last, count)) if *last == slot => *count += 1,
            _ => postings.push((slot, 1)),
        }
    }

    fn finish(self) -> Segment {
        let mut sorted: Vec<(&[u8], Vec<(u32, u32)>)> = Vec::with_capacity(self.terms.len());
        let mut terms: Vec<(Box<[u8]>, Vec<(u32, u32)>)> = self.terms.into_iter().collect();
        terms.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        for (term, postings) in &mut terms {
            sorted.push((term, std::mem::take(postings)));
        }
        Segment::write(&self.documents, &self.lengths, &sorted)
    }
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let digest = Sha256::digest(bytes);
    std::array::from_fn(|at| digest[at])
}

#[inline]
fn varint(rest: &mut &[u8]) -> Option<u32> {
    let (first, tail) = rest.split_first()?;
    if *first < 0x80 {
        *rest = tail;
        return Some(u32::from(*first));
    }
    let mut value = 0_u32;
    for (at, byte) in rest.iter().enumerate().take(5) {
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

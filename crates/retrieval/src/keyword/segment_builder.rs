//! Collects the terms of passages, slot by slot, and builds a segment.

use crate::passage::ArticleNumber;
use crate::retriever::RetrieveError;

use super::article_numbers;
use super::segment::{LAYER_COUNT, Segment, SegmentDocument};
use super::term_interner::{TermCounter, TermInterner};

/// Collects the terms of passages for one segment.
pub(super) struct SegmentBuilder {
    documents: Vec<SegmentDocument>,
    lengths: Vec<[u32; LAYER_COUNT]>,
    interner: TermInterner,
    term_counts: SlotTermCounts,
    heading: CachedHeadingTerms,
}

/// The terms of slots, by their numbers in the [`TermInterner`].
#[derive(Default)]
struct SlotTermCounts {
    /// The terms that any slot contains, in the order in which they were seen first.
    distinct_terms: Vec<u32>,
    /// The terms of each slot, each once, with their counts.
    counts: Vec<(u32, u32)>,
    /// The end of each slot's terms in `counts`.
    ends: Vec<usize>,
    /// The start of the current slot's terms in `counts`.
    start: u32,
}

/// The terms of a heading, reused for all passages below it.
#[derive(Default)]
struct CachedHeadingTerms {
    text: String,
    terms: Vec<u32>,
    article: Option<ArticleNumber>,
}

impl Default for SegmentBuilder {
    fn default() -> Self {
        Self {
            documents: Vec::new(),
            lengths: Vec::new(),
            interner: TermInterner::acquire_idle(),
            term_counts: SlotTermCounts::default(),
            heading: CachedHeadingTerms::default(),
        }
    }
}

impl SegmentBuilder {
    /// Adds the next passage.
    pub(super) fn add_passage(&mut self, title: &str, text: &str, article: Option<ArticleNumber>) {
        let (memory, tally) = (&mut self.interner, &mut self.term_counts);
        tally.start = tally.counts.len() as u32;
        let mut lengths = [0; LAYER_COUNT];
        if self.heading.text != title {
            self.heading.terms.clear();
            memory.for_each_term(title, |_, term| self.heading.terms.push(term));
            title.clone_into(&mut self.heading.text);
            self.heading.article = article_numbers::last_article_in_title(title);
        }
        for term in &self.heading.terms {
            tally.count(&mut memory.counters, *term, &mut lengths);
        }
        memory.for_each_term(text, |states, term| tally.count(states, term, &mut lengths));
        if let Some(number) = article.or(self.heading.article) {
            let term = memory.intern_key(&article_numbers::article_term_key(number));
            // Article numbers belong to no layer and do not count towards a length.
            tally.count(&mut memory.counters, term << 1, &mut [0; LAYER_COUNT]);
        }
        self.lengths.push(lengths);
        tally.ends.push(tally.counts.len());
    }

    /// Ends a document. The passages added since the previous document belong to it.
    pub(super) fn end_document(&mut self, document: SegmentDocument) {
        self.documents.push(document);
    }

    /// Builds the segment.
    pub(super) fn finish(self) -> Result<Segment, RetrieveError> {
        let Self { documents, lengths, interner: mut memory, term_counts: tally, .. } = self;
        let SlotTermCounts { distinct_terms: used, counts, ends, .. } = tally;
        // From here on the counter of a term holds the position of its next posting.
        let mut starts = Vec::with_capacity(used.len() + 1);
        let mut start = 0;
        for term in &used {
            starts.push(start as usize);
            let holders = &mut memory.counters[*term as usize].document_frequency;
            start += std::mem::replace(holders, start);
        }
        starts.push(start as usize);
        let mut postings = vec![(0_u32, 0_u32); counts.len()];
        let mut from = 0;
        for (slot, end) in ends.iter().enumerate() {
            for (term, count) in &counts[from..*end] {
                let place = &mut memory.counters[*term as usize].document_frequency;
                postings[*place as usize] = (slot as u32, *count);
                *place += 1;
            }
            from = *end;
        }
        for term in &used {
            memory.counters[*term as usize] = TermCounter::default();
        }
        let terms = memory.terms.to_serialized_subset(used.iter().copied());
        memory.release();
        let list = |term: usize, into: &mut Vec<(u32, u32)>| {
            into.extend_from_slice(&postings[starts[term]..starts[term + 1]]);
        };
        Segment::write(documents, &lengths, &terms, &list)
    }
}

impl SlotTermCounts {
    #[inline]
    fn count(&mut self, states: &mut [TermCounter], term: u32, lengths: &mut [u32; LAYER_COUNT]) {
        lengths[(term & 1) as usize] += 1;
        let term = term >> 1;
        let state = &mut states[term as usize];
        if state.last_count_index_plus_one > self.start {
            self.counts[state.last_count_index_plus_one as usize - 1].1 += 1;
            return;
        }
        if state.document_frequency == 0 {
            self.distinct_terms.push(term);
        }
        self.counts.push((term, 1));
        *state = TermCounter {
            last_count_index_plus_one: self.counts.len() as u32,
            document_frequency: state.document_frequency + 1,
        };
    }
}

//! Gathers the terms of passages, slot after slot, for a segment.

use crate::passage::ArticleNumber;

use super::article;
use super::memory::{Memory, State};
use super::segment::{LAYERS, Segment, SegmentDocument};

/// The terms of passages.
pub(super) struct Gather {
    documents: Vec<SegmentDocument>,
    lengths: Vec<[u32; LAYERS]>,
    memory: Memory,
    tally: Tally,
    title: Title,
}

/// The terms of slots by their numbers in the memory.
#[derive(Default)]
struct Tally {
    /// Those that any slot holds, in the order they came.
    used: Vec<u32>,
    /// The terms of each slot, each once, and how often.
    counts: Vec<(u32, u32)>,
    /// Where the terms of each slot end.
    ends: Vec<usize>,
    /// Where the terms of the slot at hand start.
    start: u32,
}

/// The terms of a heading, remembered while the passages below it come by.
#[derive(Default)]
struct Title {
    text: String,
    terms: Vec<u32>,
    article: Option<ArticleNumber>,
}

impl Default for Gather {
    fn default() -> Self {
        Self {
            documents: Vec::new(),
            lengths: Vec::new(),
            memory: Memory::borrow(),
            tally: Tally::default(),
            title: Title::default(),
        }
    }
}

impl Gather {
    /// Takes in the next passage.
    pub(super) fn passage(&mut self, title: &str, text: &str, article: Option<ArticleNumber>) {
        let (memory, tally) = (&mut self.memory, &mut self.tally);
        tally.start = tally.counts.len() as u32;
        let mut lengths = [0; LAYERS];
        if self.title.text != title {
            self.title.terms.clear();
            memory.each(title, |_, term| self.title.terms.push(term));
            title.clone_into(&mut self.title.text);
            self.title.article = article::last_named(title);
        }
        for term in &self.title.terms {
            tally.count(&mut memory.states, *term, &mut lengths);
        }
        memory.each(text, |states, term| tally.count(states, term, &mut lengths));
        if let Some(number) = article.or(self.title.article) {
            let term = memory.number(&article::key(number));
            // Articles belong to no layer and lengthen none.
            tally.count(&mut memory.states, term << 1, &mut [0; LAYERS]);
        }
        self.lengths.push(lengths);
        tally.ends.push(tally.counts.len());
    }

    /// The passages since the last document were those of this one.
    pub(super) fn document(&mut self, document: SegmentDocument) {
        self.documents.push(document);
    }

    /// The segment of all that came.
    pub(super) fn finish(self) -> Segment {
        let Self { documents, lengths, mut memory, tally, .. } = self;
        let Tally { used, counts, ends, .. } = tally;
        // From here on a state says where the next slot of a term goes.
        let mut starts = Vec::with_capacity(used.len() + 1);
        let mut start = 0;
        for term in &used {
            starts.push(start as usize);
            let holders = &mut memory.states[*term as usize].holders;
            start += std::mem::replace(holders, start);
        }
        starts.push(start as usize);
        let mut postings = vec![(0_u32, 0_u32); counts.len()];
        let mut from = 0;
        for (slot, end) in ends.iter().enumerate() {
            for (term, count) in &counts[from..*end] {
                let place = &mut memory.states[*term as usize].holders;
                postings[*place as usize] = (slot as u32, *count);
                *place += 1;
            }
            from = *end;
        }
        for term in &used {
            memory.states[*term as usize] = State::default();
        }
        let terms = memory.terms.written_of(used.iter().copied());
        memory.give_back();
        let list = |term: usize, into: &mut Vec<(u32, u32)>| {
            into.extend_from_slice(&postings[starts[term]..starts[term + 1]]);
        };
        Segment::write(documents, &lengths, &terms, &list)
    }
}

impl Tally {
    #[inline]
    fn count(&mut self, states: &mut [State], term: u32, lengths: &mut [u32; LAYERS]) {
        lengths[(term & 1) as usize] += 1;
        let term = term >> 1;
        let state = &mut states[term as usize];
        if state.last > self.start {
            self.counts[state.last as usize - 1].1 += 1;
            return;
        }
        if state.holders == 0 {
            self.used.push(term);
        }
        self.counts.push((term, 1));
        *state = State { last: self.counts.len() as u32, holders: state.holders + 1 };
    }
}

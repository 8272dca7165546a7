//! Gathers the terms of passages, slot after slot, for a segment.
//!
//! Words come again and again: the terms of each are made once and remembered as numbers.

use crate::passage::ArticleNumber;
use crate::text::letters::{Letter, letters_into};
use crate::text::words::Words;
use crate::text::{self, Before, Layer, Run, Script};

use super::article;
use super::segment::{LAYERS, Segment, SegmentDocument, key};

/// Longer runs are no words and are not remembered.
const LONGEST: usize = 64;

/// The terms of passages.
#[derive(Default)]
pub(super) struct Gather {
    documents: Vec<SegmentDocument>,
    lengths: Vec<[u32; LAYERS]>,
    terms: Words,
    states: Vec<State>,
    /// The terms of each slot, each once, and how often.
    counts: Vec<(u32, u32)>,
    /// Where the terms of each slot end.
    ends: Vec<usize>,
    known: [Known; 3],
    letters: Vec<Letter>,
    title: Title,
    scratch: Vec<u8>,
}

/// What is known of a term.
struct State {
    /// Where in `counts` it was counted last, and one.
    last: usize,
    holders: u32,
}

/// Words and their terms: the number of a term twice, and one more for the layer of stems.
#[derive(Default)]
struct Known {
    words: Words,
    terms: Vec<u32>,
    ends: Vec<u32>,
}

/// The terms of a heading, remembered while the passages below it come by.
#[derive(Default)]
struct Title {
    text: String,
    terms: Vec<u32>,
    article: Option<ArticleNumber>,
}

impl Gather {
    /// Takes in the next passage.
    pub(super) fn passage(&mut self, title: &str, text: &str, article: Option<ArticleNumber>) {
        let start = self.counts.len();
        let mut lengths = [0; LAYERS];
        if self.title.text != title {
            let mut terms = std::mem::take(&mut self.title.terms);
            terms.clear();
            self.each(title, |_, term| terms.push(term));
            self.title = Title { text: title.to_owned(), terms, article: article::last_named(title) };
        }
        let terms = std::mem::take(&mut self.title.terms);
        for term in &terms {
            self.count(start, *term, &mut lengths);
        }
        self.title.terms = terms;
        self.each(text, |gather, term| gather.count(start, term, &mut lengths));
        if let Some(number) = article.or(self.title.article) {
            let (term, _) = self.terms.number(&article::key(number));
            // Articles belong to no layer and lengthen none.
            self.count(start, term << 1, &mut [0; LAYERS]);
        }
        self.lengths.push(lengths);
        self.ends.push(self.counts.len());
    }

    /// The passages since the last document were those of this one.
    pub(super) fn document(&mut self, document: SegmentDocument) {
        self.documents.push(document);
    }

    /// The segment of all that came.
    pub(super) fn finish(mut self) -> Segment {
        self.states.resize_with(self.terms.len(), || State { last: 0, holders: 0 });
        let mut places = Vec::with_capacity(self.states.len() + 1);
        let mut start = 0;
        for state in &self.states {
            places.push(start);
            start += state.holders as usize;
        }
        let starts = places.clone();
        let mut postings = vec![(0_u32, 0_u32); self.counts.len()];
        let mut from = 0;
        for (slot, end) in self.ends.iter().enumerate() {
            for (term, count) in &self.counts[from..*end] {
                let place = &mut places[*term as usize];
                postings[*place] = (slot as u32, *count);
                *place += 1;
            }
            from = *end;
        }
        let list = |term: usize, into: &mut Vec<(u32, u32)>| {
            into.extend_from_slice(&postings[starts[term]..places[term]]);
        };
        Segment::write(&self.documents, &self.lengths, &self.terms, &list)
    }

    #[inline]
    fn count(&mut self, start: usize, term: u32, lengths: &mut [u32; LAYERS]) {
        lengths[(term & 1) as usize] += 1;
        let term = (term >> 1) as usize;
        if self.states.len() <= term {
            self.states.resize_with(self.terms.len(), || State { last: 0, holders: 0 });
        }
        let state = &mut self.states[term];
        if state.last > start {
            self.counts[state.last - 1].1 += 1;
        } else {
            self.counts.push((term as u32, 1));
            *state = State { last: self.counts.len(), holders: state.holders + 1 };
        }
    }

    /// Gives the terms of a text.
    fn each(&mut self, text: &str, mut each: impl FnMut(&mut Self, u32)) {
        let mut letters = std::mem::take(&mut self.letters);
        letters_into(text, &mut letters);
        for run in text::runs(&letters) {
            let kind = match run {
                Run { script: Script::Latin, .. } => 2,
                Run { script: Script::Hangul, before: Before::Letters, .. } => 1,
                Run { script: Script::Hangul, before: Before::Space, .. } => 0,
                Run { script: Script::Han, .. } => LONGEST,
            };
            if kind == LONGEST || run.letters.len() > LONGEST {
                let mut terms = Vec::new();
                let (words, scratch) = (&mut self.terms, &mut self.scratch);
                run.terms(&mut |layer, term, _| terms.push(number(words, scratch, layer, term)));
                terms.into_iter().for_each(|term| each(self, term));
                continue;
            }
            for at in self.known(&run, kind, text) {
                each(self, self.known[kind].terms[at]);
            }
        }
        self.letters = letters;
    }

    /// Where the terms of a word lie.
    fn known(&mut self, run: &Run<'_>, kind: usize, text: &str) -> std::ops::Range<usize> {
        let known = &mut self.known[kind];
        let (first, last) = (run.letters[0], run.letters[run.letters.len() - 1]);
        let plain = &text.as_bytes()[first.start as usize..last.end as usize];
        let (word, new) = if kind < 2 && plain.len() == run.letters.len() * 3 {
            // Whole syllables stand in the text as they are compared.
            known.words.number(plain)
        } else {
            self.scratch.clear();
            for letter in run.letters {
                self.scratch.extend_from_slice(letter.char.encode_utf8(&mut [0; 4]).as_bytes());
            }
            known.words.number(&self.scratch)
        };
        if new {
            let (words, scratch) = (&mut self.terms, &mut self.scratch);
            run.terms(&mut |layer, term, _| known.terms.push(number(words, scratch, layer, term)));
            known.ends.push(known.terms.len() as u32);
        }
        let start = (word as usize).checked_sub(1).map_or(0, |before| known.ends[before]);
        start as usize..known.ends[word as usize] as usize
    }
}

fn number(words: &mut Words, scratch: &mut Vec<u8>, layer: Layer, term: &str) -> u32 {
    key(layer, term, scratch);
    words.number(scratch).0 << 1 | layer as u32
}

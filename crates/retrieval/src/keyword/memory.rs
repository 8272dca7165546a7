//! The terms of words as numbers, remembered from one batch of passages to the next.
//!
//! What stands between two spaces is cut without regard to what stands around it, so its terms are made once and found
//! again by its bytes. Whoever makes segments borrows a memory and gives it back; there are no more than processors.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::text::letters::{Letter, MOST, letters_into};
use crate::text::words::Words;
use crate::text::{self, Layer};

use super::segment::key;

/// So many words are remembered; the next one makes room by forgetting all.
const REMEMBERED: usize = if cfg!(test) { 64 } else { 3 << 16 };
/// A memory with more terms than this starts anew with the next batch.
const MOST_TERMS: usize = if cfg!(test) { 256 } else { 1 << 19 };

static IDLE: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

/// Terms by number, and the terms of words that were read before.
pub(super) struct Memory {
    /// The keys of the terms.
    pub(super) terms: Words,
    /// A number for each term that whoever has the memory counts with. All are zero when it is given back.
    pub(super) states: Vec<State>,
    known: Known,
    letters: Vec<Letter>,
    scratch: Vec<u8>,
    /// The words of the text at hand, and their terms.
    marked: Vec<Marked>,
    all: Vec<u32>,
}

/// A word of a text.
struct Marked {
    short: Option<Short>,
    hash: u64,
    range: Range<usize>,
}

/// What is counted of a term.
#[derive(Clone, Copy, Default)]
pub(super) struct State {
    /// Where it was counted last, and one.
    pub(super) last: u32,
    /// How many slots hold it.
    pub(super) holders: u32,
}

impl Memory {
    /// One that nobody uses, or a new one.
    pub(super) fn borrow() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| Self {
            terms: Words::default(),
            states: Vec::new(),
            known: Known::new(),
            letters: Vec::new(),
            scratch: Vec::new(),
            marked: Vec::new(),
            all: Vec::new(),
        })
    }

    /// Keeps it for whoever comes next.
    pub(super) fn give_back(mut self) {
        if self.terms.len() > MOST_TERMS {
            self.terms = Words::default();
            self.states = Vec::new();
            self.known = Known::new();
        }
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < most {
            idle.push(self);
        }
    }

    /// The number of a key that is no word.
    pub(super) fn number(&mut self, key: &[u8]) -> u32 {
        let (number, _) = self.terms.number(key);
        self.room();
        number
    }

    /// Gives the terms of a text: twice the number of each, and one more in the layer of stems.
    ///
    /// First all words are marked and the places looked at where they may be known, so that the memory of the machine is
    /// asked for many at a time and not for one after another.
    #[inline]
    pub(super) fn each(&mut self, text: &str, mut each: impl FnMut(&mut [State], u32)) {
        let bytes = &text.as_bytes()[..text.floor_char_boundary(MOST)];
        let mut marked = std::mem::take(&mut self.marked);
        let mut near = 0;
        for word in bytes.split(|byte| *byte <= b' ') {
            let Some(word) = trimmed(word) else { continue };
            let start = word.as_ptr().addr() - bytes.as_ptr().addr();
            let (short, hash) = match short(word) {
                Some(short) => (Some(short), self.known.hash(short, word.len())),
                None => (None, 0),
            };
            near ^= self.known.table[hash as usize & (self.known.table.len() - 1)].length;
            marked.push(Marked { short, hash, range: start..start + word.len() });
        }
        std::hint::black_box(near);
        let mut all = std::mem::take(&mut self.all);
        for Marked { short, hash, range } in marked.drain(..) {
            let known = short.and_then(|short| self.known.find(short, range.len(), hash));
            let known = known.unwrap_or_else(|| self.read(&bytes[range], short));
            all.extend_from_slice(&self.known.terms[known]);
        }
        for term in all.drain(..) {
            each(&mut self.states, term);
        }
        (self.marked, self.all) = (marked, all);
    }

    /// Cuts a word, and remembers it if it is short.
    #[cold]
    fn read(&mut self, word: &[u8], short: Option<Short>) -> Range<usize> {
        if self.known.count >= REMEMBERED {
            self.known.forget();
        }
        let start = self.known.kept;
        self.known.terms.truncate(start);
        // Spaces and marks are bytes of their own, so what lies between them is text.
        letters_into(std::str::from_utf8(word).unwrap_or_default(), &mut self.letters);
        let (terms, scratch) = (&mut self.terms, &mut self.scratch);
        let mut number = |layer: Layer, term: &str, _| {
            key(layer, term, scratch);
            self.known.terms.push(terms.number(scratch).0 << 1 | layer as u32);
        };
        text::runs(&self.letters).for_each(|run| run.terms(&mut number));
        let found = start..self.known.terms.len();
        // Those of a word that is not kept lie there until the next new word.
        if let Some(short) = short {
            self.known.keep(short, word.len(), found.clone());
        }
        self.room();
        found
    }

    fn room(&mut self) {
        self.states.resize(self.terms.len(), State::default());
    }
}

/// A word without the marks around it; `None` if nothing is left. Other scripts have marks too: those are left to the cut.
#[inline]
fn trimmed(word: &[u8]) -> Option<&[u8]> {
    let is_mark = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
    let start = word.iter().position(|byte| !is_mark(byte))?;
    let end = word.iter().rposition(|byte| !is_mark(byte))?;
    Some(&word[start..=end])
}

/// The bytes of a short word: with its length they tell it from every other.
type Short = [u64; 3];

#[inline]
fn short(word: &[u8]) -> Option<Short> {
    let long = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
    match (word.first_chunk::<8>(), word.last_chunk::<8>()) {
        (Some(first), Some(last)) if word.len() <= 16 => Some([long(first), long(last), 0]),
        (Some(first), Some(last)) if word.len() <= 24 => {
            Some([long(first), long(last), long(word[8..].first_chunk()?)])
        }
        (Some(_), _) => None,
        _ => match (word.first_chunk::<4>(), word.last_chunk::<4>()) {
            (Some(first), Some(last)) => Some([half(first) | half(last) << 32, 0, 0]),
            _ => {
                let at = |at: usize| u64::from(word.get(at).copied().unwrap_or(0));
                Some([at(0) | at(1) << 8 | at(2) << 16, 0, 0])
            }
        },
    }
}

/// Short words and their terms.
struct Known {
    seed: u64,
    table: Vec<Entry>,
    count: usize,
    terms: Vec<u32>,
    /// Where the terms of remembered words end.
    kept: usize,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    word: Short,
    start: u32,
    terms: u16,
    /// The bytes of the word, or 0.
    length: u16,
}

impl Known {
    fn new() -> Self {
        let seed = RandomState::new().hash_one(0_u8);
        Self { seed, table: vec![Entry::default(); 64], count: 0, terms: Vec::new(), kept: 0 }
    }

    fn forget(&mut self) {
        self.table.fill(Entry::default());
        self.terms.clear();
        self.count = 0;
        self.kept = 0;
    }

    #[inline]
    fn find(&self, word: Short, length: usize, hash: u64) -> Option<Range<usize>> {
        let entry = &self.table[self.place(word, length, hash)];
        let start = entry.start as usize;
        (entry.length != 0).then(|| start..start + usize::from(entry.terms))
    }

    #[inline]
    fn hash(&self, word: Short, length: usize) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let fold = |state: u64, word: u64| {
            let product = u128::from(state ^ word) * u128::from(ODD);
            product as u64 ^ (product >> 64) as u64
        };
        fold(fold(fold(self.seed ^ length as u64, word[0]), word[1]), word[2] ^ self.seed)
    }

    /// Where a word is, or would be.
    #[inline]
    fn place(&self, word: Short, length: usize, hash: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let entry = &self.table[at];
            if entry.length == 0 || entry.word == word && usize::from(entry.length) == length {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    fn keep(&mut self, word: Short, length: usize, terms: Range<usize>) {
        let (Ok(start), Ok(count)) = (u32::try_from(terms.start), u16::try_from(terms.len())) else { return };
        if self.count * 4 >= self.table.len() * 3 {
            let larger = vec![Entry::default(); self.table.len() * 2];
            for entry in
                std::mem::replace(&mut self.table, larger).into_iter().filter(|entry| entry.length != 0)
            {
                let length = usize::from(entry.length);
                let at = self.place(entry.word, length, self.hash(entry.word, length));
                self.table[at] = entry;
            }
        }
        let at = self.place(word, length, self.hash(word, length));
        self.table[at] = Entry { word, start, terms: count, length: length as u16 };
        self.count += 1;
        self.kept = terms.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The terms of a text, with and without a memory.
    fn check(memory: &mut Memory, text: &str) {
        let mut found = Vec::new();
        memory.each(text, |_, term| found.push(term));
        let found: Vec<Vec<u8>> = found.iter().map(|term| memory.terms.run(term >> 1).to_vec()).collect();
        let mut expected = Vec::new();
        text::terms(text, |layer, term, _| {
            key(layer, term, &mut memory.scratch);
            expected.push(memory.scratch.clone());
        });
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn words_are_cut_alike_with_and_without_a_memory() {
        let pieces = [
            "연차휴가는",
            "VPN을",
            "1,000원",
            "1,",
            "3,14",
            "don't",
            "'quoted'",
            "don’t",
            "제5조(대금의",
            "個人情報를",
            "ＶＰＮ",
            "-",
            "—",
            "\u{301}",
            "e\u{301}",
            "<\u{338}",
            "\u{1112}\u{1172}",
            "\u{1161}\u{11a8}",
            "\u{a0}",
            "\u{345}",
            "ㄱ",
            "㎡",
            "a",
            "가",
            "한 글",
            "x_y",
            "아주길고길어서기억하지않는낱말입니다그렇지요",
            "supercalifragilisticexpialidocious",
            ",",
            "1",
            "000",
            "s",
            "'s",
            "\u{3000}",
            "ﬁ",
        ];
        let joints = [" ", "", ",", "'", "\n", "\u{a0}", "  ", "."];
        let mut memory = Memory::borrow();
        for (at, first) in pieces.iter().enumerate() {
            for (to, second) in pieces.iter().enumerate() {
                let joint = |number: usize| joints[(at * 7 + to * 3 + number) % joints.len()];
                check(&mut memory, &format!("{first}{}{second}{}{first}", joint(0), joint(1)));
                check(&mut memory, &format!("{}{first} {second}{}", joint(2), joint(3)));
            }
        }
        check(&mut memory, "");
    }

    #[test]
    fn short_words_are_told_apart() {
        let words = [
            "a",
            "b",
            "ab",
            "ba",
            "aa",
            "aaa",
            "aaaa",
            "aaaaa",
            "abaa",
            "가",
            "가가",
            "가가가",
            "가나가",
            "가나다라마바사아",
            "가나다라마바사자",
        ];
        for left in words {
            for right in words {
                let same = (short(left.as_bytes()), left.len()) == (short(right.as_bytes()), right.len());
                assert_eq!(same, left == right, "{left} {right}");
            }
        }
        assert_eq!(short(&[b'a'; 25]), None);
    }
}

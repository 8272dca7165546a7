//! Assigns numbers to terms and caches the terms of words from one batch of passages to the next.
//!
//! The text between two spaces is analysed without regard to its surroundings, so its terms are computed once and found
//! again by its bytes. A segment builder acquires an interner and releases it. At most one idle
//! interner for each processor is kept.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::text_analysis::byte_string_interner::ByteStringInterner;
use crate::text_analysis::normalization::{MAX_TEXT_BYTES, NormalizedChar, normalize_into};
use crate::text_analysis::{self, TermLayer};

use super::segment::write_term_key;

/// The maximum number of cached words. When it is reached the cache is cleared. Tests use small values here and below,
/// so that a short text already causes both kinds of reset.
const MAX_CACHED_WORDS: usize = if cfg!(test) { 64 } else { 3 << 16 };
/// An interner with more terms than this is cleared when it is released.
const MAX_INTERNED_TERMS: usize = if cfg!(test) { 256 } else { 1 << 19 };

static IDLE_INTERNERS: Mutex<Vec<TermInterner>> = Mutex::new(Vec::new());

/// Terms by number, and a cache of the terms of words.
pub(super) struct TermInterner {
    /// The keys of the terms.
    pub(super) terms: ByteStringInterner,
    /// One counter for each term, for the segment builder. All are zero when the interner is released.
    pub(super) counters: Vec<TermCounter>,
    short_words: ShortWordCache,
    letters: Vec<NormalizedChar>,
    scratch: Vec<u8>,
    /// The words of the current text and their terms.
    word_spans: Vec<WordSpan>,
    pending_terms: Vec<u32>,
}

/// A word of a text.
struct WordSpan {
    key: Option<ShortWordKey>,
    hash: u64,
    range: Range<usize>,
}

/// What a segment builder counts for a term.
#[derive(Clone, Copy, Default)]
pub(super) struct TermCounter {
    /// The index of its last count plus one, or zero.
    pub(super) last_count_index_plus_one: u32,
    /// The number of slots that contain it.
    pub(super) document_frequency: u32,
}

impl TermInterner {
    /// Returns an idle interner, or a new one.
    pub(super) fn acquire_idle() -> Self {
        let idle = IDLE_INTERNERS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| Self {
            terms: ByteStringInterner::default(),
            counters: Vec::new(),
            short_words: ShortWordCache::new(),
            letters: Vec::new(),
            scratch: Vec::new(),
            word_spans: Vec::new(),
            pending_terms: Vec::new(),
        })
    }

    /// Returns the interner to the pool.
    pub(super) fn release(mut self) {
        if self.terms.len() > MAX_INTERNED_TERMS {
            self.terms = ByteStringInterner::default();
            self.counters = Vec::new();
            self.short_words = ShortWordCache::new();
        }
        let max_idle = std::thread::available_parallelism().map_or(1, usize::from);
        let mut idle = IDLE_INTERNERS.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < max_idle {
            idle.push(self);
        }
    }

    /// Returns the number of a key that is not a word.
    pub(super) fn intern_key(&mut self, key: &[u8]) -> u32 {
        let (number, _) = self.terms.intern(key);
        self.grow_counters();
        number
    }

    /// Calls `each` for the terms of a text: twice the number of each term, plus one in the stem layer.
    ///
    /// All words are found and their cache slots touched first, so that the processor loads many cache lines at a time
    /// instead of one after another.
    #[inline]
    pub(super) fn for_each_term(&mut self, text: &str, mut each: impl FnMut(&mut [TermCounter], u32)) {
        let bytes = &text.as_bytes()[..text.floor_char_boundary(MAX_TEXT_BYTES)];
        let mut marked = std::mem::take(&mut self.word_spans);
        let mut near = 0;
        for word in bytes.split(|byte| *byte <= b' ') {
            let Some(word) = trim_ascii_punctuation(word) else { continue };
            let start = word.as_ptr().addr() - bytes.as_ptr().addr();
            let (short, hash) = match short_word_key(word) {
                Some(short) => (Some(short), self.short_words.hash(short, word.len())),
                None => (None, 0),
            };
            near ^= self.short_words.table[hash as usize & (self.short_words.table.len() - 1)].length;
            marked.push(WordSpan { key: short, hash, range: start..start + word.len() });
        }
        std::hint::black_box(near);
        let mut all = std::mem::take(&mut self.pending_terms);
        for WordSpan { key: short, hash, range } in marked.drain(..) {
            let known = short.and_then(|short| self.short_words.find(short, range.len(), hash));
            let known = known.unwrap_or_else(|| self.analyze_word(&bytes[range], short));
            all.extend_from_slice(&self.short_words.terms[known]);
        }
        for term in all.drain(..) {
            each(&mut self.counters, term);
        }
        (self.word_spans, self.pending_terms) = (marked, all);
    }

    /// Analyses a word, and caches the result if the word is short.
    #[cold]
    fn analyze_word(&mut self, word: &[u8], short: Option<ShortWordKey>) -> Range<usize> {
        if self.short_words.count >= MAX_CACHED_WORDS {
            self.short_words.clear();
        }
        let start = self.short_words.cached_terms_end;
        self.short_words.terms.truncate(start);
        // Spaces and punctuation are single bytes, so what lies between them is valid UTF-8.
        normalize_into(std::str::from_utf8(word).unwrap_or_default(), &mut self.letters);
        let (terms, scratch) = (&mut self.terms, &mut self.scratch);
        let mut number = |layer: TermLayer, term: &str, _| {
            write_term_key(layer, term, scratch);
            self.short_words.terms.push(terms.intern(scratch).0 << 1 | layer as u32);
        };
        text_analysis::script_runs(&self.letters).for_each(|run| run.for_each_term(&mut number));
        let found = start..self.short_words.terms.len();
        // The terms of an uncached word stay here until the next new word.
        if let Some(short) = short {
            self.short_words.insert(short, word.len(), found.clone());
        }
        self.grow_counters();
        found
    }

    fn grow_counters(&mut self) {
        self.counters.resize(self.terms.len(), TermCounter::default());
    }
}

/// Removes ASCII punctuation around a word. Returns `None` if nothing is left. Punctuation of other scripts is left to
/// the analyser.
#[inline]
fn trim_ascii_punctuation(word: &[u8]) -> Option<&[u8]> {
    let is_mark = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
    let start = word.iter().position(|byte| !is_mark(byte))?;
    let end = word.iter().rposition(|byte| !is_mark(byte))?;
    Some(&word[start..=end])
}

/// The bytes of a short word. Together with its length they identify it.
type ShortWordKey = [u64; 3];

#[inline]
fn short_word_key(word: &[u8]) -> Option<ShortWordKey> {
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

/// A cache of short words and their terms.
struct ShortWordCache {
    seed: u64,
    table: Vec<ShortWordCacheEntry>,
    count: usize,
    terms: Vec<u32>,
    /// The end of the terms of cached words.
    cached_terms_end: usize,
}

#[derive(Clone, Copy, Default)]
struct ShortWordCacheEntry {
    word: ShortWordKey,
    start: u32,
    terms: u16,
    /// The length of the word in bytes; 0 marks an empty slot.
    length: u16,
}

impl ShortWordCache {
    fn new() -> Self {
        let seed = RandomState::new().hash_one(0_u8);
        Self {
            seed,
            table: vec![ShortWordCacheEntry::default(); 64],
            count: 0,
            terms: Vec::new(),
            cached_terms_end: 0,
        }
    }

    fn clear(&mut self) {
        self.table.fill(ShortWordCacheEntry::default());
        self.terms.clear();
        self.count = 0;
        self.cached_terms_end = 0;
    }

    #[inline]
    fn find(&self, word: ShortWordKey, length: usize, hash: u64) -> Option<Range<usize>> {
        let entry = &self.table[self.probe_index(word, length, hash)];
        let start = entry.start as usize;
        (entry.length != 0).then(|| start..start + usize::from(entry.terms))
    }

    #[inline]
    fn hash(&self, word: ShortWordKey, length: usize) -> u64 {
        const GOLDEN_RATIO_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let fold = |state: u64, word: u64| {
            let product = u128::from(state ^ word) * u128::from(GOLDEN_RATIO_MULTIPLIER);
            product as u64 ^ (product >> 64) as u64
        };
        fold(fold(fold(self.seed ^ length as u64, word[0]), word[1]), word[2] ^ self.seed)
    }

    /// Returns the index where a word is, or would be inserted.
    #[inline]
    fn probe_index(&self, word: ShortWordKey, length: usize, hash: u64) -> usize {
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

    fn insert(&mut self, word: ShortWordKey, length: usize, terms: Range<usize>) {
        let (Ok(start), Ok(count)) = (u32::try_from(terms.start), u16::try_from(terms.len())) else { return };
        if self.count * 4 >= self.table.len() * 3 {
            let larger = vec![ShortWordCacheEntry::default(); self.table.len() * 2];
            for entry in
                std::mem::replace(&mut self.table, larger).into_iter().filter(|entry| entry.length != 0)
            {
                let length = usize::from(entry.length);
                let at = self.probe_index(entry.word, length, self.hash(entry.word, length));
                self.table[at] = entry;
            }
        }
        let at = self.probe_index(word, length, self.hash(word, length));
        self.table[at] = ShortWordCacheEntry { word, start, terms: count, length: length as u16 };
        self.count += 1;
        self.cached_terms_end = terms.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the terms of a text with and without the cache.
    fn check(memory: &mut TermInterner, text: &str) {
        let mut found = Vec::new();
        memory.for_each_term(text, |_, term| found.push(term));
        let found: Vec<Vec<u8>> =
            found.iter().map(|term| memory.terms.bytes_of(term >> 1).to_vec()).collect();
        let mut expected = Vec::new();
        text_analysis::for_each_term(text, |layer, term, _| {
            write_term_key(layer, term, &mut memory.scratch);
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
        let mut memory = TermInterner::acquire_idle();
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
    fn short_words_are_distinguished() {
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
                let same = (short_word_key(left.as_bytes()), left.len())
                    == (short_word_key(right.as_bytes()), right.len());
                assert_eq!(same, left == right, "{left} {right}");
            }
        }
        assert_eq!(short_word_key(&[b'a'; 25]), None);
    }
}

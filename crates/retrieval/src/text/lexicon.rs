//! The word list behind [`korean`](super::korean): nouns, stems, endings and particles with how dear each is, and how
//! dear it is that one follows another.
//!
//! `lexicon.bin` was made from mecab-ko-dic (Apache-2.0) by `lexicon/build.py`, which says what was kept. It is read
//! once, on first use.

use std::ops::Range;
use std::sync::LazyLock;

static BYTES: &[u8] = include_bytes!("lexicon.bin");
static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::read(BYTES).unwrap_or_default());

/// One way to read a piece of a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// What it is to the piece before it.
    pub(super) left: u8,
    /// What it is to the piece after it.
    pub(super) right: u8,
    /// What it says.
    pub(super) sense: Sense,
    /// Whether it never starts a word: particles, endings, suffixes.
    pub(super) bound: bool,
    /// How dear it is; the cheapest reading of a word is taken.
    pub(super) cost: i32,
}

/// What a piece of a word says to a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sense {
    /// Nothing: a particle, an ending.
    Nothing,
    /// Itself.
    Itself,
    /// The first syllables of the piece, as many as `kept`, and one more: 도와 is 돕.
    Stem {
        /// How many syllables of the piece are kept.
        kept: u8,
        /// The syllable that follows them.
        last: Option<char>,
    },
}

/// All words, sorted, with their readings.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    lefts: usize,
    costs: Vec<i8>,
    syllables: Vec<u16>,
    /// Where each word starts in `syllables`, and one past the last.
    starts: Vec<u32>,
    readings: Vec<Reading>,
    /// Where the readings of each word start, and one past the last.
    reads: Vec<u32>,
    /// The words that start with each syllable.
    firsts: Vec<u32>,
}

/// Words that begin alike, while syllables are added one by one.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    words: Range<usize>,
    depth: usize,
}

const SYLLABLES: usize = 11172;
const BASE: u32 = '가' as u32;
/// What one step in the table of costs stands for.
const COST_STEP: i32 = 32;

impl Lexicon {
    /// The list that is built in.
    pub(super) fn get() -> &'static Self {
        &LEXICON
    }

    /// How dear it is that `left` follows `right`.
    pub(super) fn joint(&self, right: u8, left: u8) -> i32 {
        let at = usize::from(right) * (self.lefts + 1) + usize::from(left);
        i32::from(self.costs.get(at).copied().unwrap_or(0)) * COST_STEP
    }

    /// How dear it is to start a word with this.
    pub(super) fn first(&self, left: u8) -> i32 {
        let begin = self.costs.len() / (self.lefts + 1);
        i32::from(
            self.costs.get((begin.max(1) - 1) * (self.lefts + 1) + usize::from(left)).copied().unwrap_or(0),
        ) * COST_STEP
    }

    /// How dear it is to end a word with this.
    pub(super) fn last(&self, right: u8) -> i32 {
        self.joint(right, self.lefts as u8)
    }

    /// All words that start with this syllable.
    pub(super) fn starting(&self, syllable: char) -> Option<Prefix> {
        let at = index(syllable)?;
        let words =
            *self.firsts.get(usize::from(at))? as usize..*self.firsts.get(usize::from(at) + 1)? as usize;
        (!words.is_empty()).then_some(Prefix { words, depth: 1 })
    }

    /// Those of them that go on with this syllable.
    pub(super) fn going_on(&self, prefix: &Prefix, syllable: char) -> Option<Prefix> {
        let wanted = index(syllable)?;
        let depth = prefix.depth;
        let at = |word: usize| self.word(word).get(depth).copied();
        let low =
            prefix.words.start + partition(prefix.words.len(), |i| at(prefix.words.start + i) < Some(wanted));
        let rest = prefix.words.end - low;
        let high = low + partition(rest, |i| at(low + i) <= Some(wanted));
        (low < high).then_some(Prefix { words: low..high, depth: depth + 1 })
    }

    /// The readings of the word that is the prefix itself.
    pub(super) fn readings(&self, prefix: &Prefix) -> &[Reading] {
        let word = prefix.words.start;
        if self.word(word).len() != prefix.depth {
            return &[];
        }
        &self.readings[self.reads[word] as usize..self.reads[word + 1] as usize]
    }

    fn word(&self, at: usize) -> &[u16] {
        &self.syllables[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        if cursor.take(4)? != b"DKL1" {
            return None;
        }
        let (lefts, rights, classes) = (cursor.short()?, cursor.short()?, cursor.short()?);
        let words = u32::from_le_bytes(cursor.take(4)?.try_into().ok()?) as usize;
        let table = cursor.take((usize::from(lefts) + 1) * (usize::from(rights) + 1))?;
        let classes = cursor.take(usize::from(classes) * 3)?;
        let mut lexicon = Self {
            lefts: usize::from(lefts),
            costs: table.iter().map(|cost| cost.cast_signed()).collect(),
            firsts: vec![0; SYLLABLES + 1],
            ..Self::default()
        };
        let mut word: Vec<u16> = Vec::new();
        for _ in 0..words {
            let lengths = cursor.byte()?;
            word.truncate(usize::from(lengths >> 4));
            for _ in 0..lengths & 15 {
                word.push(cursor.short()?);
            }
            lexicon.firsts[usize::from(*word.first()?) + 1] += 1;
            lexicon.starts.push(lexicon.syllables.len() as u32);
            lexicon.syllables.extend_from_slice(&word);
            lexicon.reads.push(lexicon.readings.len() as u32);
            for _ in 0..cursor.byte()? {
                let class = usize::from(cursor.short()?) * 3;
                let [left, right, kind] = *classes.get(class..class + 3)? else { return None };
                let cost = i32::from(cursor.byte()?) * 56 - 4000;
                let sense = match kind & 3 {
                    0 => Sense::Nothing,
                    1 => Sense::Itself,
                    _ => cursor.stem()?,
                };
                lexicon.readings.push(Reading { left, right, sense, bound: kind & 4 != 0, cost });
            }
        }
        lexicon.starts.push(lexicon.syllables.len() as u32);
        lexicon.reads.push(lexicon.readings.len() as u32);
        for at in 0..SYLLABLES {
            lexicon.firsts[at + 1] += lexicon.firsts[at];
        }
        Some(lexicon)
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn stem(&mut self) -> Option<Sense> {
        let kept = self.byte()?;
        let last = if kept & 0x80 == 0 { None } else { char::from_u32(BASE + u32::from(self.short()?)) };
        Some(Sense::Stem { kept: kept & 0x7f, last })
    }
}

fn index(syllable: char) -> Option<u16> {
    let at = (syllable as u32).checked_sub(BASE)?;
    ((at as usize) < SYLLABLES).then_some(at as u16)
}

fn partition(count: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_whole() {
        let lexicon = Lexicon::read(BYTES).expect("readable");
        assert!(lexicon.starts.len() > 100_000);
        let prefix = lexicon.starting('휴').expect("words with 휴");
        let prefix = lexicon.going_on(&prefix, '가').expect("휴가");
        assert!(lexicon.readings(&prefix).iter().any(|reading| reading.sense == Sense::Itself));
        assert!(lexicon.starting('a').is_none());
    }
}

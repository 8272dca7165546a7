//! The lexicon of [`korean_morphology`](super::korean_morphology): nouns, stems, endings and particles with their
//! costs, and the costs of one following another.
//!
//! `lexicon.bin` was made from mecab-ko-dic (Apache-2.0) by `lexicon/build.py`, which documents what was kept. Its words
//! are unpacked on first use. Their readings are used where they lie in the program.

use std::ops::Range;
use std::sync::LazyLock;

static LEXICON_BYTES: &[u8] = include_bytes!("lexicon.bin");
#[allow(clippy::expect_used, reason = "the lexicon is compiled in, and a test reads it")]
static LEXICON: LazyLock<Lexicon> =
    LazyLock::new(|| Lexicon::parse(LEXICON_BYTES).expect("`lexicon.bin` is damaged"));

/// One reading of a part of a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct LexiconMorpheme {
    /// Its context class towards the previous morpheme.
    pub(super) left_context: u8,
    /// Its context class towards the next morpheme.
    pub(super) right_context: u8,
    /// What is indexed for it.
    pub(super) indexed_form: IndexedForm,
    /// Whether it cannot start a word: particles, endings, suffixes.
    pub(super) is_bound: bool,
    /// Its cost. The reading of a word with the lowest total cost is chosen.
    pub(super) cost: i32,
}

/// What is indexed for a morpheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexedForm {
    /// Nothing, for a particle or an ending.
    Nothing,
    /// The morpheme itself.
    Itself,
    /// The first `kept` syllables of the morpheme and one more: 도와 is indexed as 돕.
    Stem {
        /// The number of syllables that are kept.
        kept: u8,
        /// The syllable after them.
        last: Option<char>,
    },
}

/// All words, sorted, with their readings.
#[derive(Debug)]
pub(super) struct Lexicon {
    left_context_count: usize,
    connection_costs: Vec<i8>,
    syllables: Vec<u16>,
    /// The start of each word in `syllables`, and the end of the last.
    word_starts: Vec<u32>,
    /// The contexts and the kind of each class of readings.
    classes: &'static [u8],
    /// The words with their readings, as in the file.
    entries: &'static [u8],
    /// Where the readings of each word begin in `entries`.
    reading_starts: Vec<u32>,
    /// The first word for each first syllable.
    first_word_by_syllable: Vec<u32>,
}

/// The words with a common prefix, which is extended syllable by syllable.
#[derive(Clone, Debug)]
pub(super) struct LexiconPrefix {
    words: Range<usize>,
    depth: usize,
}

const HANGUL_SYLLABLE_COUNT: usize = 11172;
const HANGUL_BASE: u32 = '가' as u32;
/// The unit of the cost table.
const COST_STEP: i32 = 32;

impl Lexicon {
    /// Returns the built-in lexicon.
    pub(super) fn built_in() -> &'static Self {
        &LEXICON
    }

    /// Returns the cost of `left` following `right`.
    pub(super) fn connection_cost(&self, right: u8, left: u8) -> i32 {
        let at = usize::from(right) * (self.left_context_count + 1) + usize::from(left);
        i32::from(self.connection_costs.get(at).copied().unwrap_or(0)) * COST_STEP
    }

    /// Returns the cost of starting a word with this context.
    pub(super) fn word_start_cost(&self, left: u8) -> i32 {
        let begin = self.connection_costs.len() / (self.left_context_count + 1);
        i32::from(
            self.connection_costs
                .get((begin.max(1) - 1) * (self.left_context_count + 1) + usize::from(left))
                .copied()
                .unwrap_or(0),
        ) * COST_STEP
    }

    /// Returns the cost of ending a word with this context.
    pub(super) fn word_end_cost(&self, right: u8) -> i32 {
        self.connection_cost(right, self.left_context_count as u8)
    }

    /// Returns all words that start with this syllable.
    pub(super) fn words_starting_with(&self, syllable: char) -> Option<LexiconPrefix> {
        let at = syllable_index(syllable)?;
        let words = *self.first_word_by_syllable.get(usize::from(at))? as usize
            ..*self.first_word_by_syllable.get(usize::from(at) + 1)? as usize;
        (!words.is_empty()).then_some(LexiconPrefix { words, depth: 1 })
    }

    /// Returns the words of a prefix that continue with this syllable.
    pub(super) fn extend_prefix(&self, prefix: &LexiconPrefix, syllable: char) -> Option<LexiconPrefix> {
        let wanted = syllable_index(syllable)?;
        let depth = prefix.depth;
        let at = |word: usize| self.word_syllables(word).get(depth).copied();
        let low = prefix.words.start
            + partition_point(prefix.words.len(), |i| at(prefix.words.start + i) < Some(wanted));
        let rest = prefix.words.end - low;
        let high = low + partition_point(rest, |i| at(low + i) <= Some(wanted));
        (low < high).then_some(LexiconPrefix { words: low..high, depth: depth + 1 })
    }

    /// Returns the readings of the word that equals the prefix.
    pub(super) fn morphemes_of(&self, prefix: &LexiconPrefix) -> impl Iterator<Item = LexiconMorpheme> {
        let word = prefix.words.start;
        let is_whole = self.word_syllables(word).len() == prefix.depth;
        let mut readings = LexiconByteReader(&self.entries[self.reading_starts[word] as usize..]);
        let count = if is_whole { readings.read_u8().unwrap_or_default() } else { 0 };
        (0..count).map_while(move |_| readings.read_morpheme(self.classes))
    }

    fn word_syllables(&self, at: usize) -> &[u16] {
        &self.syllables[self.word_starts[at] as usize..self.word_starts[at + 1] as usize]
    }

    fn parse(bytes: &'static [u8]) -> Option<Self> {
        let mut cursor = LexiconByteReader(bytes);
        if cursor.take_bytes(4)? != b"DKL1" {
            return None;
        }
        let (lefts, rights, classes) = (cursor.read_u16()?, cursor.read_u16()?, cursor.read_u16()?);
        let words = u32::from_le_bytes(cursor.take_bytes(4)?.try_into().ok()?) as usize;
        let table = cursor.take_bytes((usize::from(lefts) + 1) * (usize::from(rights) + 1))?;
        let classes = cursor.take_bytes(usize::from(classes) * 3)?;
        let mut lexicon = Self {
            left_context_count: usize::from(lefts),
            connection_costs: table.iter().map(|cost| cost.cast_signed()).collect(),
            syllables: Vec::new(),
            word_starts: Vec::with_capacity(words + 1),
            classes,
            entries: cursor.0,
            reading_starts: Vec::with_capacity(words),
            first_word_by_syllable: vec![0; HANGUL_SYLLABLE_COUNT + 1],
        };
        let mut word: Vec<u16> = Vec::new();
        for _ in 0..words {
            let lengths = cursor.read_u8()?;
            word.truncate(usize::from(lengths >> 4));
            for _ in 0..lengths & 15 {
                word.push(cursor.read_u16()?);
            }
            lexicon.first_word_by_syllable[usize::from(*word.first()?) + 1] += 1;
            lexicon.word_starts.push(lexicon.syllables.len() as u32);
            lexicon.syllables.extend_from_slice(&word);
            lexicon.reading_starts.push((lexicon.entries.len() - cursor.0.len()) as u32);
            for _ in 0..cursor.read_u8()? {
                cursor.read_morpheme(classes)?;
            }
        }
        lexicon.word_starts.push(lexicon.syllables.len() as u32);
        lexicon.syllables.shrink_to_fit();
        for at in 0..HANGUL_SYLLABLE_COUNT {
            lexicon.first_word_by_syllable[at + 1] += lexicon.first_word_by_syllable[at];
        }
        Some(lexicon)
    }
}

struct LexiconByteReader<'a>(&'a [u8]);

impl<'a> LexiconByteReader<'a> {
    fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn read_u8(&mut self) -> Option<u8> {
        self.take_bytes(1).map(|bytes| bytes[0])
    }

    fn read_u16(&mut self) -> Option<u16> {
        self.take_bytes(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn read_morpheme(&mut self, classes: &[u8]) -> Option<LexiconMorpheme> {
        let class = usize::from(self.read_u16()?) * 3;
        let [left_context, right_context, kind] = *classes.get(class..class + 3)? else { return None };
        let cost = i32::from(self.read_u8()?) * 56 - 4000;
        let indexed_form = match kind & 3 {
            0 => IndexedForm::Nothing,
            1 => IndexedForm::Itself,
            _ => self.read_stem()?,
        };
        Some(LexiconMorpheme { left_context, right_context, indexed_form, is_bound: kind & 4 != 0, cost })
    }

    fn read_stem(&mut self) -> Option<IndexedForm> {
        let kept = self.read_u8()?;
        let last =
            if kept & 0x80 == 0 { None } else { char::from_u32(HANGUL_BASE + u32::from(self.read_u16()?)) };
        Some(IndexedForm::Stem { kept: kept & 0x7f, last })
    }
}

fn syllable_index(syllable: char) -> Option<u16> {
    let at = (syllable as u32).checked_sub(HANGUL_BASE)?;
    ((at as usize) < HANGUL_SYLLABLE_COUNT).then_some(at as u16)
}

fn partition_point(count: usize, before: impl Fn(usize) -> bool) -> usize {
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
        let lexicon = Lexicon::parse(LEXICON_BYTES).expect("readable");
        assert!(lexicon.word_starts.len() > 100_000);
        let prefix = lexicon.words_starting_with('휴').expect("words with 휴");
        let prefix = lexicon.extend_prefix(&prefix, '가').expect("휴가");
        assert!(lexicon.morphemes_of(&prefix).any(|reading| reading.indexed_form == IndexedForm::Itself));
        assert!(lexicon.words_starting_with('a').is_none());
    }
}

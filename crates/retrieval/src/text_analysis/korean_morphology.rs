//! Korean morphological analysis: finds the nouns and stems of a word, without particles and endings, by the cheapest
//! sequence of known morphemes.
//!
//! A word is the run of syllables between two spaces. Morphemes come from the [`Lexicon`]; an unknown one may be a
//! name. The sequence is found by dynamic programming over a window, so the time is linear in the length of the text.

use std::cell::RefCell;
use std::sync::{LazyLock, Mutex};

use super::byte_string_interner::ByteStringInterner;
use super::lexicon::{IndexedForm, Lexicon, LexiconMorpheme};

/// Longer words are analysed in windows of this many syllables.
pub(super) const MAX_WINDOW_SYLLABLES: usize = 48;
/// The maximum length of an unknown morpheme.
const MAX_UNKNOWN_SYLLABLES: usize = 6;
/// The cost of an unknown morpheme, and of each of its syllables.
const UNKNOWN_MORPHEME_COST: i32 = 5200;
const UNKNOWN_SYLLABLE_COST: i32 = 1100;
/// The cost of starting a word with a particle or an ending.
const BOUND_MORPHEME_AT_START_COST: i32 = 6000;
/// The cost of reading the end of a word as a part of a compound that ends like a noun with its particle: 위약 + 금은 for 위약금은,
/// 개발 + 자가 for 개발자가. Nouns that end like the first particles are rare; many end like the others, such as 성과 and 제도.
const RARE_NOUN_ENDING_COST: i32 = 3000;
const COMMON_NOUN_ENDING_COST: i32 = 800;
/// Parts of compounds of more syllables are what they look like.
const MAX_MISREAD_SYLLABLES: usize = 2;
/// The cache of analysed words has this many shards, so that threads rarely wait for each other.
const CACHE_SHARDS: usize = 16;
const MAX_CACHED_WORDS_PER_SHARD: usize = 16_000;

static MORPHEME_CACHE: LazyLock<[Mutex<MorphemeCacheShard>; CACHE_SHARDS]> = LazyLock::new(Default::default);

thread_local! {
    /// A reusable buffer for the morphemes of a word.
    static MORPHEME_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static LATTICE_BUFFER: RefCell<Vec<Vec<LatticeStep>>> = const { RefCell::new(Vec::new()) };
}

/// Words and their morphemes, as bytes: start and end in the word, the length of the stem, the stem.
#[derive(Default)]
struct MorphemeCacheShard {
    words: ByteStringInterner,
    morphemes: Vec<u8>,
    /// The end of each word's morphemes.
    ends: Vec<u32>,
}

impl MorphemeCacheShard {
    fn shard_of_word(word: &[u8]) -> &'static Mutex<Self> {
        let sum =
            word.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        &MORPHEME_CACHE[(sum ^ sum >> 8) % CACHE_SHARDS]
    }

    fn clear(&mut self) {
        self.words.clear();
        self.morphemes.clear();
        self.ends.clear();
    }

    fn morphemes_of_word(&mut self, word: &[u8], chars: &[char]) -> &[u8] {
        if self.ends.len() >= MAX_CACHED_WORDS_PER_SHARD {
            self.clear();
        }
        let (number, new) = self.words.intern(word);
        if new {
            segment_word(chars, PrecededBy::Space, &mut |stem, start, end| {
                self.morphemes.extend([start as u8, end as u8, stem.len() as u8]);
                self.morphemes.extend_from_slice(stem.as_bytes());
            });
            self.ends.push(self.morphemes.len() as u32);
        }
        let start = (number as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.morphemes[start as usize..self.ends[number as usize] as usize]
    }
}

/// Whether other letters precede a word without a space, as in `VPN을`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrecededBy {
    /// A space, punctuation or the start of the text.
    Space,
    /// A number or letters of another script.
    Letters,
}

/// Calls `each` for the meaningful morphemes of a word, in order: the noun, stem or name, the index of its first
/// syllable and the index after its last.
pub(crate) fn for_each_morpheme(word: &[char], before: PrecededBy, mut each: impl FnMut(&str, usize, usize)) {
    if before == PrecededBy::Letters || word.len() > MAX_WINDOW_SYLLABLES {
        segment_word(word, before, &mut each);
        return;
    }
    let mut bytes = [0; MAX_WINDOW_SYLLABLES * 4];
    let mut end = 0;
    word.iter().for_each(|syllable| end += syllable.encode_utf8(&mut bytes[end..]).len());
    let text = &bytes[..end];
    let shard = MorphemeCacheShard::shard_of_word(text);
    // Taken out while in use, because `each` may analyse another word.
    let mut known = MORPHEME_BUFFER.take();
    known.clear();
    let mut open = shard.lock().unwrap_or_else(|broken| {
        // A thread panicked in the middle of a word, so the shard is cleared.
        shard.clear_poison();
        let mut whole = broken.into_inner();
        whole.clear();
        whole
    });
    known.extend_from_slice(open.morphemes_of_word(text, word));
    drop(open);
    let mut rest = known.as_slice();
    while let [start, end, length, tail @ ..] = rest {
        let Some((stem, tail)) = tail.split_at_checked(usize::from(*length)) else { break };
        each(std::str::from_utf8(stem).unwrap_or_default(), usize::from(*start), usize::from(*end));
        rest = tail;
    }
    MORPHEME_BUFFER.set(known);
}

fn segment_word(word: &[char], before: PrecededBy, each: &mut dyn FnMut(&str, usize, usize)) {
    let mut stem = String::new();
    for (number, window) in word.chunks(MAX_WINDOW_SYLLABLES).enumerate() {
        let before = if number == 0 { before } else { PrecededBy::Letters };
        let offset = number * MAX_WINDOW_SYLLABLES;
        for_each_on_cheapest_path(window, before, &mut |start, end, sense| {
            let syllables = &window[start..end];
            stem.clear();
            match sense {
                IndexedForm::Nothing => return,
                IndexedForm::Itself => stem.extend(syllables),
                IndexedForm::Stem { kept, last } => {
                    stem.extend(syllables.iter().copied().take(usize::from(kept)).chain(last));
                }
            }
            if !is_stop_stem(&stem) {
                each(&stem, offset + start, offset + end);
            }
        });
    }
}

/// A morpheme on the cheapest path to its end.
#[derive(Clone, Copy)]
struct LatticeStep {
    cost: i32,
    right_context: u8,
    start: u8,
    /// The index of the previous step, among those that end at `start`.
    previous_step: u8,
    indexed_form: IndexedForm,
}

fn for_each_on_cheapest_path(
    word: &[char],
    before: PrecededBy,
    each: &mut dyn FnMut(usize, usize, IndexedForm),
) {
    // Taken out while in use: after a panic no half-built lattice is reused.
    let mut steps = LATTICE_BUFFER.take();
    steps.iter_mut().for_each(Vec::clear);
    steps.resize_with(MAX_WINDOW_SYLLABLES + 1, Vec::new);
    find_cheapest_path(word, before, &mut steps, each);
    LATTICE_BUFFER.set(steps);
}

fn find_cheapest_path(
    word: &[char],
    before: PrecededBy,
    steps: &mut [Vec<LatticeStep>],
    each: &mut dyn FnMut(usize, usize, IndexedForm),
) {
    let lexicon = Lexicon::built_in();
    for start in 0..word.len() {
        if start > 0 && steps[start].is_empty() {
            continue;
        }
        let mut prefix = lexicon.words_starting_with(word[start]);
        for end in start + 1..=word.len() {
            if let Some(found) = &prefix {
                let last_part = start > 0 && end == word.len() && end - start <= MAX_MISREAD_SYLLABLES;
                let ending_cost = if last_part { particle_ending_cost(word) } else { 0 };
                for reading in lexicon.morphemes_of(found) {
                    let says_something = reading.indexed_form != IndexedForm::Nothing;
                    let cost = reading.cost + if says_something { ending_cost } else { 0 };
                    let reading = LexiconMorpheme { cost, ..reading };
                    add_lattice_step(lexicon, steps, start, end, &reading, before);
                }
            }
            if end - start <= MAX_UNKNOWN_SYLLABLES {
                let cost = UNKNOWN_MORPHEME_COST + UNKNOWN_SYLLABLE_COST * (end - start) as i32;
                let sense = if end - start == 1 && word.len() > 1 {
                    IndexedForm::Nothing
                } else {
                    IndexedForm::Itself
                };
                let right = if has_final_consonant(word[end - 1]) {
                    NOUN_RIGHT_CONTEXT
                } else {
                    NOUN_RIGHT_CONTEXT + 1
                };
                let reading = LexiconMorpheme {
                    left_context: NOUN_LEFT_CONTEXT,
                    right_context: right,
                    indexed_form: sense,
                    is_bound: false,
                    cost,
                };
                add_lattice_step(lexicon, steps, start, end, &reading, before);
            }
            prefix = match (prefix, word.get(end)) {
                (Some(found), Some(next)) => lexicon.extend_prefix(&found, *next),
                _ => None,
            };
            if prefix.is_none() && end - start >= MAX_UNKNOWN_SYLLABLES {
                break;
            }
        }
    }
    let mut way = Vec::new();
    let mut at = word.len();
    let Some(mut step) =
        steps[at].iter().copied().min_by_key(|step| step.cost + lexicon.word_end_cost(step.right_context))
    else {
        return;
    };
    loop {
        way.push((usize::from(step.start), at, step.indexed_form));
        at = usize::from(step.start);
        if at == 0 {
            break;
        }
        step = steps[at][usize::from(step.previous_step)];
    }
    for (start, end, sense) in way.into_iter().rev() {
        each(start, end, sense);
    }
}

/// The contexts of common nouns in the cost tables, which are used for unknown morphemes. The right context depends on
/// whether the noun ends in a consonant (first) or in a vowel (second).
const NOUN_LEFT_CONTEXT: u8 = 0;
const NOUN_RIGHT_CONTEXT: u8 = 0;

fn has_final_consonant(syllable: char) -> bool {
    !(syllable as u32).wrapping_sub('가' as u32).is_multiple_of(28)
}

/// Returns the cost of reading the last syllable of a word as anything but the particle that can follow the syllable before it.
fn particle_ending_cost(word: &[char]) -> i32 {
    let [.., before, last] = word else { return 0 };
    match (last, has_final_consonant(*before)) {
        ('은' | '을', true) | ('는' | '를' | '와', false) => RARE_NOUN_ENDING_COST,
        ('이' | '과', true) | ('가', false) | ('의' | '도', _) => COMMON_NOUN_ENDING_COST,
        _ => 0,
    }
}

fn add_lattice_step(
    lexicon: &Lexicon,
    steps: &mut [Vec<LatticeStep>],
    start: usize,
    end: usize,
    reading: &LexiconMorpheme,
    before: PrecededBy,
) {
    let (cost, from) = if start == 0 {
        match before {
            PrecededBy::Space if reading.is_bound => (BOUND_MORPHEME_AT_START_COST, 0),
            PrecededBy::Space => (lexicon.word_start_cost(reading.left_context), 0),
            PrecededBy::Letters => (lexicon.connection_cost(NOUN_RIGHT_CONTEXT, reading.left_context), 0),
        }
    } else {
        let best = steps[start].iter().enumerate().map(|(from, step)| {
            (step.cost + lexicon.connection_cost(step.right_context, reading.left_context), from)
        });
        let Some((cost, from)) = best.min() else { return };
        (cost, from)
    };
    let step = LatticeStep {
        cost: cost + reading.cost,
        right_context: reading.right_context,
        start: start as u8,
        previous_step: from as u8,
        indexed_form: reading.indexed_form,
    };
    let there = &mut steps[end];
    // One step for each right context is enough.
    match there.iter().position(|other| other.right_context == step.right_context) {
        Some(at) if there[at].cost <= step.cost => {}
        Some(at) => there[at] = step,
        None => there.push(step),
    }
}

/// Returns whether a stem has no meaning for a search, such as the verbs for doing and being.
fn is_stop_stem(stem: &str) -> bool {
    matches!(
        stem,
        "하" | "되"
            | "있"
            | "없"
            | "않"
            | "이"
            | "그"
            | "저"
            | "것"
            | "수"
            | "등"
            | "및"
            | "또는"
            | "그리고"
            | "같"
            | "위하"
            | "대하"
            | "관하"
            | "따르"
            | "의하"
            | "때"
            | "경우"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expected: &str) {
        let chars: Vec<char> = word.chars().collect();
        let mut found = Vec::new();
        for_each_morpheme(&chars, PrecededBy::Space, |stem, _, _| found.push(stem.to_owned()));
        assert_eq!(found.join(" "), expected, "{word}");
    }

    #[test]
    fn particles_and_endings_say_nothing() {
        check("휴가를", "휴가");
        check("휴가입니다", "휴가");
        check("근로자에게는", "근로");
        check("해지하려면", "해지");
        check("그만두면", "그만두");
        check("도와주세요", "돕");
    }

    #[test]
    fn compounds_come_apart() {
        check("재택근무", "재택 근무");
        check("손해배상책임은", "손해 배상 책임");
        check("연차휴가", "연차 휴가");
    }

    #[test]
    fn the_end_of_a_compound_is_a_particle_before_it_is_a_rare_noun() {
        check("위약금은", "위약 금");
        check("보험금은", "보험 금");
        check("개발자와", "개발");
        check("재택근무자가", "재택 근무 자");
        check("가능성의", "가능");
        check("경영성과", "경영 성과");
        check("급여제도", "급여 제도");
        check("경조휴가", "경조 휴가");
        check("주간회의", "주간 회의");
        check("시골마을", "시골 마을");
        check("나이차이", "나이 차이");
        check("서면동의", "서면 동의");
    }

    #[test]
    fn a_long_word_is_read_in_windows() {
        let chars: Vec<char> = "휴가".repeat(500).chars().collect();
        let mut count = 0;
        for_each_morpheme(&chars, PrecededBy::Space, |_, _, _| count += 1);
        assert_eq!(count, 500);
    }
}

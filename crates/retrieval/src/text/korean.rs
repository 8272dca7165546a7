//! What a Korean word says, freed of its particles and endings: the cheapest way to read it as known pieces.
//!
//! A word is the syllables between two spaces. Pieces come from the [`Lexicon`]; what it does not know may be a name.
//! The way is found by dynamic programming over a window, so time grows with the length of the text and no faster.

use std::cell::RefCell;
use std::sync::{LazyLock, Mutex};

use super::lexicon::{Lexicon, Reading, Sense};
use super::words::Words;

/// Longer words are read in windows of so many syllables.
pub(super) const WINDOW: usize = 48;
/// The longest unknown piece.
const UNKNOWN: usize = 6;
/// How dear an unknown piece is, and each of its syllables.
const UNKNOWN_COST: i32 = 5200;
const UNKNOWN_SYLLABLE: i32 = 1100;
/// How dear it is to start a word with a particle or an ending.
const BOUND_COST: i32 = 6000;
/// Words remembered by the process; the same ones come again and again. They lie on shelves, so that threads seldom wait
/// for each other.
const SHELVES: usize = 16;
const REMEMBERED: usize = 16_000;

static READ: LazyLock<[Mutex<Shelf>; SHELVES]> = LazyLock::new(Default::default);

thread_local! {
    /// Room for the pieces of a word.
    static KNOWN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static STEPS: RefCell<Vec<Vec<Step>>> = const { RefCell::new(Vec::new()) };
}

/// Words and their pieces, as bytes: where each starts and ends in the word, the length of its stem, its stem.
#[derive(Default)]
struct Shelf {
    words: Words,
    pieces: Vec<u8>,
    /// Where the pieces of each word end.
    ends: Vec<u32>,
}

impl Shelf {
    fn of(word: &[u8]) -> &'static Mutex<Self> {
        let sum =
            word.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        &READ[(sum ^ sum >> 8) % SHELVES]
    }

    fn clear(&mut self) {
        self.words.clear();
        self.pieces.clear();
        self.ends.clear();
    }

    fn pieces(&mut self, word: &[u8], chars: &[char]) -> &[u8] {
        if self.ends.len() >= REMEMBERED {
            self.clear();
        }
        let (number, new) = self.words.number(word);
        if new {
            read(chars, Before::Space, &mut |stem, start, end| {
                self.pieces.extend([start as u8, end as u8, stem.len() as u8]);
                self.pieces.extend_from_slice(stem.as_bytes());
            });
            self.ends.push(self.pieces.len() as u32);
        }
        let start = (number as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.pieces[start as usize..self.ends[number as usize] as usize]
    }
}

/// Whether something without a space stands before a word, as in `VPN을`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// A space, a mark or nothing.
    Space,
    /// A number or letters of another script.
    Letters,
}

/// Gives what the pieces of a word say, in order: the noun, stem or name, and its first syllable and the one past its
/// last.
pub(crate) fn pieces(word: &[char], before: Before, mut each: impl FnMut(&str, usize, usize)) {
    if before == Before::Letters || word.len() > WINDOW {
        read(word, before, &mut each);
        return;
    }
    let mut bytes = [0; WINDOW * 4];
    let mut end = 0;
    word.iter().for_each(|syllable| end += syllable.encode_utf8(&mut bytes[end..]).len());
    let text = &bytes[..end];
    let shelf = Shelf::of(text);
    // Taken out while it is used: whoever is given a piece may ask for those of another word.
    let mut known = KNOWN.take();
    known.clear();
    let mut open = shelf.lock().unwrap_or_else(|broken| {
        // Whoever held it left in the middle of a word.
        shelf.clear_poison();
        let mut whole = broken.into_inner();
        whole.clear();
        whole
    });
    known.extend_from_slice(open.pieces(text, word));
    drop(open);
    let mut rest = known.as_slice();
    while let [start, end, length, tail @ ..] = rest {
        let Some((stem, tail)) = tail.split_at_checked(usize::from(*length)) else { break };
        each(std::str::from_utf8(stem).unwrap_or_default(), usize::from(*start), usize::from(*end));
        rest = tail;
    }
    KNOWN.set(known);
}

fn read(word: &[char], before: Before, each: &mut dyn FnMut(&str, usize, usize)) {
    let mut stem = String::new();
    for (number, window) in word.chunks(WINDOW).enumerate() {
        let before = if number == 0 { before } else { Before::Letters };
        let offset = number * WINDOW;
        cheapest(window, before, &mut |start, end, sense| {
            let syllables = &window[start..end];
            stem.clear();
            match sense {
                Sense::Nothing => return,
                Sense::Itself => stem.extend(syllables),
                Sense::Stem { kept, last } => {
                    stem.extend(syllables.iter().copied().take(usize::from(kept)).chain(last));
                }
            }
            if !is_empty(&stem) {
                each(&stem, offset + start, offset + end);
            }
        });
    }
}

/// A piece on the cheapest way to where it ends.
#[derive(Clone, Copy)]
struct Step {
    cost: i32,
    right: u8,
    start: u8,
    /// Which step at `start` it follows.
    from: u8,
    sense: Sense,
}

fn cheapest(word: &[char], before: Before, each: &mut dyn FnMut(usize, usize, Sense)) {
    // Taken out while it is used: a panic leaves nothing half made behind.
    let mut steps = STEPS.take();
    steps.iter_mut().for_each(Vec::clear);
    steps.resize_with(WINDOW + 1, Vec::new);
    way(word, before, &mut steps, each);
    STEPS.set(steps);
}

fn way(word: &[char], before: Before, steps: &mut [Vec<Step>], each: &mut dyn FnMut(usize, usize, Sense)) {
    let lexicon = Lexicon::get();
    for start in 0..word.len() {
        if start > 0 && steps[start].is_empty() {
            continue;
        }
        let mut prefix = lexicon.starting(word[start]);
        for end in start + 1..=word.len() {
            if let Some(found) = &prefix {
                for reading in lexicon.readings(found) {
                    add(lexicon, steps, start, end, reading, before);
                }
            }
            if end - start <= UNKNOWN {
                let cost = UNKNOWN_COST + UNKNOWN_SYLLABLE * (end - start) as i32;
                let sense = if end - start == 1 && word.len() > 1 { Sense::Nothing } else { Sense::Itself };
                let right = if has_final(word[end - 1]) { NOUN_RIGHT } else { NOUN_RIGHT + 1 };
                let reading = Reading { left: NOUN_LEFT, right, sense, bound: false, cost };
                add(lexicon, steps, start, end, &reading, before);
            }
            prefix = match (prefix, word.get(end)) {
                (Some(found), Some(next)) => lexicon.going_on(&found, *next),
                _ => None,
            };
            if prefix.is_none() && end - start >= UNKNOWN {
                break;
            }
        }
    }
    let mut way = Vec::new();
    let mut at = word.len();
    let Some(mut step) = steps[at].iter().copied().min_by_key(|step| step.cost + lexicon.last(step.right))
    else {
        return;
    };
    loop {
        way.push((usize::from(step.start), at, step.sense));
        at = usize::from(step.start);
        if at == 0 {
            break;
        }
        step = steps[at][usize::from(step.from)];
    }
    for (start, end, sense) in way.into_iter().rev() {
        each(start, end, sense);
    }
}

/// The places of common nouns in the tables of the lexicon, which an unknown piece is taken for. On the right those
/// that end in a consonant come first, then those that end in a vowel.
const NOUN_LEFT: u8 = 0;
const NOUN_RIGHT: u8 = 0;

fn has_final(syllable: char) -> bool {
    !(syllable as u32).wrapping_sub('가' as u32).is_multiple_of(28)
}

fn add(
    lexicon: &Lexicon,
    steps: &mut [Vec<Step>],
    start: usize,
    end: usize,
    reading: &Reading,
    before: Before,
) {
    let (cost, from) = if start == 0 {
        match before {
            Before::Space if reading.bound => (BOUND_COST, 0),
            Before::Space => (lexicon.first(reading.left), 0),
            Before::Letters => (lexicon.joint(NOUN_RIGHT, reading.left), 0),
        }
    } else {
        let best = steps[start]
            .iter()
            .enumerate()
            .map(|(from, step)| (step.cost + lexicon.joint(step.right, reading.left), from));
        let Some((cost, from)) = best.min() else { return };
        (cost, from)
    };
    let step = Step {
        cost: cost + reading.cost,
        right: reading.right,
        start: start as u8,
        from: from as u8,
        sense: reading.sense,
    };
    let there = &mut steps[end];
    // One step for each way to go on is enough.
    match there.iter().position(|other| other.right == step.right) {
        Some(at) if there[at].cost <= step.cost => {}
        Some(at) => there[at] = step,
        None => there.push(step),
    }
}

/// Stems that say nothing alone: what is done, what is, that there is.
fn is_empty(stem: &str) -> bool {
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
        pieces(&chars, Before::Space, |stem, _, _| found.push(stem.to_owned()));
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
    fn a_long_word_is_read_in_windows() {
        let chars: Vec<char> = "휴가".repeat(500).chars().collect();
        let mut count = 0;
        pieces(&chars, Before::Space, |_, _, _| count += 1);
        assert_eq!(count, 500);
    }
}

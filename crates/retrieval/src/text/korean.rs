//! What a Korean word says, freed of its particles and endings: the cheapest way to read it as known pieces.
//!
//! A word is the syllables between two spaces. Pieces come from the [`Lexicon`]; what it does not know may be a name.
//! The way is found by dynamic programming over a window, so time grows with the length of the text and no faster.

use std::cell::RefCell;
use std::collections::HashMap;

use super::lexicon::{Lexicon, Reading, Sense};

/// What a piece of a word says, and the syllables it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The noun, stem or name.
    pub(crate) stem: Box<str>,
    /// Its first syllable in the word.
    pub(crate) start: usize,
    /// One past its last syllable.
    pub(crate) end: usize,
}

/// Longer words are read in windows of so many syllables.
const WINDOW: usize = 48;
/// The longest unknown piece.
const UNKNOWN: usize = 6;
/// How dear an unknown piece is, and each of its syllables.
const UNKNOWN_COST: i32 = 5200;
const UNKNOWN_SYLLABLE: i32 = 1100;
/// How dear it is to start a word with a particle or an ending.
const BOUND_COST: i32 = 6000;
/// Words remembered by a thread; the same ones come again and again.
const REMEMBERED: usize = 20_000;

thread_local! {
    static READ: RefCell<HashMap<Box<[char]>, Box<[Piece]>>> = RefCell::new(HashMap::new());
}

/// Whether something without a space stands before a word, as in `VPN을`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// A space, a mark or nothing.
    Space,
    /// A number or letters of another script.
    Letters,
}

/// Gives what the pieces of a word say, in order.
pub(crate) fn pieces(word: &[char], before: Before, mut each: impl FnMut(&Piece)) {
    if before == Before::Letters || word.len() > WINDOW {
        read(word, before).iter().for_each(each);
        return;
    }
    READ.with_borrow_mut(|known| {
        if let Some(pieces) = known.get(word) {
            pieces.iter().for_each(&mut each);
            return;
        }
        let pieces = read(word, before);
        pieces.iter().for_each(&mut each);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(word.into(), pieces.into());
    });
}

fn read(word: &[char], before: Before) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, window) in word.chunks(WINDOW).enumerate() {
        let before = if number == 0 { before } else { Before::Letters };
        let offset = number * WINDOW;
        cheapest(window, before, &mut |start, end, sense| {
            let syllables = &window[start..end];
            let stem: Option<String> = match sense {
                Sense::Nothing => None,
                Sense::Itself => Some(syllables.iter().collect()),
                Sense::Stem { kept, last } => {
                    Some(syllables.iter().copied().take(usize::from(kept)).chain(last).collect())
                }
            };
            if let Some(stem) = stem.filter(|stem| !is_empty(stem)) {
                pieces.push(Piece { stem: stem.into(), start: offset + start, end: offset + end });
            }
        });
    }
    pieces
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
    let lexicon = Lexicon::get();
    let mut steps: Vec<Vec<Step>> = vec![Vec::new(); word.len() + 1];
    for start in 0..word.len() {
        if start > 0 && steps[start].is_empty() {
            continue;
        }
        let mut prefix = lexicon.starting(word[start]);
        for end in start + 1..=word.len() {
            if let Some(found) = &prefix {
                for reading in lexicon.readings(found) {
                    add(lexicon, &mut steps, start, end, reading, before);
                }
            }
            if end - start <= UNKNOWN {
                let cost = UNKNOWN_COST + UNKNOWN_SYLLABLE * (end - start) as i32;
                let sense = if end - start == 1 && word.len() > 1 { Sense::Nothing } else { Sense::Itself };
                let right = if has_final(word[end - 1]) { NOUN_RIGHT } else { NOUN_RIGHT + 1 };
                let reading = Reading { left: NOUN_LEFT, right, sense, bound: false, cost };
                add(lexicon, &mut steps, start, end, &reading, before);
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
        pieces(&chars, Before::Space, |piece| found.push(piece.stem.to_string()));
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
        pieces(&chars, Before::Space, |_| count += 1);
        assert_eq!(count, 500);
    }
}

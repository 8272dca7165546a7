//! Terms of Korean and English text, the same for passages and questions.
//!
//! Every text gives two layers of terms. *Pairs* are neighbouring syllables and whole words of other scripts: they
//! know no grammar and miss little. *Stems* are nouns and stems without particles and endings, and English stems:
//! they tell words apart. Neither is query syntax; whatever a person types is words.

pub(crate) mod english;
pub(crate) mod korean;
pub(crate) mod letters;
mod lexicon;
pub(crate) mod words;

use std::cell::RefCell;
use std::ops::Range;

pub(crate) use korean::Before;
use letters::{Letter, is_han, is_syllable, letters_into};

/// The rules by which texts are cut. An index made by other rules must be built anew: raise this with every change of
/// the terms of any text.
pub(crate) const ANALYSIS: u32 = 2;

/// Which of the two ways of cutting a text a term comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Layer {
    /// Neighbouring syllables, and words of other scripts as they are.
    Pairs,
    /// Nouns and stems.
    Stems,
}

/// The scripts that are cut differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// Korean syllables.
    Hangul,
    /// Chinese and Japanese characters.
    Han,
    /// Letters with spaces between words, and digits.
    Latin,
}

/// Letters of one script that stand together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// The letters.
    pub(crate) letters: &'a [Letter],
    /// Their script.
    pub(crate) script: Script,
    /// What stands before them.
    pub(crate) before: Before,
}

thread_local! {
    /// Room for the letters of a text, kept by a thread.
    static LETTERS: RefCell<Vec<Letter>> = const { RefCell::new(Vec::new()) };
}

/// A thread keeps room for the letters of texts up to so many bytes.
const ROOM: usize = 1 << 16;

/// Gives every term of a text with its layer and its place, in order.
pub(crate) fn terms(text: &str, mut each: impl FnMut(Layer, &str, Range<usize>)) {
    // Taken out while it is used: whoever is given a term may ask for those of another text.
    let mut letters = LETTERS.take();
    letters_into(text, &mut letters);
    for run in runs(&letters) {
        run.terms(&mut each);
    }
    if text.len() <= ROOM {
        LETTERS.set(letters);
    }
}

/// The runs of a text, in order.
pub(crate) fn runs(letters: &[Letter]) -> impl Iterator<Item = Run<'_>> {
    let mut at = 0;
    let mut before = Before::Space;
    std::iter::from_fn(move || {
        while at < letters.len() {
            let Some(script) = script_of(letters[at].char) else {
                before = Before::Space;
                at += 1;
                continue;
            };
            let end = run_end(letters, at, script);
            let run = Run { letters: &letters[at..end], script, before };
            before = Before::Letters;
            at = end;
            return Some(run);
        }
        None
    })
}

impl Run<'_> {
    /// Gives every term of the run with its layer and its place, in order.
    pub(crate) fn terms(&self, each: &mut impl FnMut(Layer, &str, Range<usize>)) {
        match self.script {
            Script::Hangul => hangul(self.letters, self.before, each),
            Script::Han => han(self.letters, each),
            Script::Latin => latin(self.letters, each),
        }
    }
}

fn script_of(char: char) -> Option<Script> {
    if is_syllable(char) {
        Some(Script::Hangul)
    } else if is_han(char) || matches!(char, '\u{3040}'..='\u{30ff}') {
        Some(Script::Han)
    } else if char.is_alphanumeric() {
        Some(Script::Latin)
    } else {
        None
    }
}

fn run_end(letters: &[Letter], start: usize, script: Script) -> usize {
    let mut end = start + 1;
    while end < letters.len() {
        let inside = script_of(letters[end].char) == Some(script);
        let joined = script == Script::Latin && is_inner_mark(letters, end);
        if !inside && !joined {
            break;
        }
        end += 1;
    }
    end
}

/// An apostrophe between letters or a comma between digits is part of a word: `don't`, `1,000`.
fn is_inner_mark(letters: &[Letter], at: usize) -> bool {
    let (Some(before), Some(after)) = (letters.get(at.wrapping_sub(1)), letters.get(at + 1)) else {
        return false;
    };
    match letters[at].char {
        '\'' | '’' => before.char.is_ascii_alphabetic() && after.char.is_ascii_alphabetic(),
        ',' => {
            let digits = letters[at + 1..].iter().take_while(|letter| letter.char.is_ascii_digit()).count();
            before.char.is_ascii_digit() && digits == 3
        }
        _ => false,
    }
}

fn range(run: &[Letter]) -> Range<usize> {
    match run {
        [first, .., last] => first.start as usize..last.end as usize,
        [one] => one.start as usize..one.end as usize,
        [] => 0..0,
    }
}

fn hangul(run: &[Letter], before: Before, each: &mut impl FnMut(Layer, &str, Range<usize>)) {
    pairs(run, each);
    let mut short = [' '; korean::WINDOW];
    let long: Vec<char>;
    let word = match short.get_mut(..run.len()) {
        Some(word) => {
            word.iter_mut().zip(run).for_each(|(char, letter)| *char = letter.char);
            &*word
        }
        None => {
            long = run.iter().map(|letter| letter.char).collect();
            &long
        }
    };
    korean::pieces(word, before, |stem, start, end| each(Layer::Stems, stem, range(&run[start..end])));
}

fn han(run: &[Letter], each: &mut impl FnMut(Layer, &str, Range<usize>)) {
    pairs(run, each);
    let word: String = run.iter().map(|letter| letter.char).collect();
    each(Layer::Stems, &word, range(run));
}

fn pairs(run: &[Letter], each: &mut impl FnMut(Layer, &str, Range<usize>)) {
    let mut pair = [0; 8];
    for two in run.windows(2) {
        let mut end = 0;
        two.iter().for_each(|letter| end += letter.char.encode_utf8(&mut pair[end..]).len());
        each(Layer::Pairs, std::str::from_utf8(&pair[..end]).unwrap_or_default(), range(two));
    }
    if let [one] = run {
        each(Layer::Pairs, one.char.encode_utf8(&mut pair), range(run));
    }
}

fn latin(run: &[Letter], each: &mut impl FnMut(Layer, &str, Range<usize>)) {
    let word: String = run
        .iter()
        .filter(|letter| letter.char != ',')
        .map(|letter| if letter.char == '’' { '\'' } else { letter.char })
        .collect();
    each(Layer::Pairs, word.strip_suffix("'s").unwrap_or(&word), range(run));
    if !english::is_empty(&word) {
        each(Layer::Stems, &english::stem(&word), range(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, layer: Layer, expected: &str) {
        let mut found = Vec::new();
        terms(text, |of, term, range| {
            assert!(text.get(range).is_some());
            if of == layer {
                found.push(term.to_owned());
            }
        });
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn korean_gives_pairs_and_english_words() {
        check("연차휴가는 15일", Layer::Pairs, "연차 차휴 휴가 가는 15 일");
        check("VPN은 Receipts, class! 1,000원 3,14", Layer::Pairs, "vpn 은 receipts class 1000 원 3 14");
        check(" .,\n", Layer::Pairs, "");
    }

    #[test]
    fn terms_can_be_asked_for_while_others_are_given() {
        let mut inner = Vec::new();
        terms("연차휴가 신청", |_, outer, _| {
            let outer = outer.to_owned();
            terms(&outer, |_, term, _| inner.push(term.to_owned()));
        });
        let alone = |text: &str| {
            let mut alone = Vec::new();
            terms(text, |_, term, _| alone.push(term.to_owned()));
            alone
        };
        let expected: Vec<String> = alone("연차휴가 신청").iter().flat_map(|term| alone(term)).collect();
        assert_eq!(inner, expected);
    }

    #[test]
    fn stems_are_free_of_particles() {
        check("연차휴가는 VPN을 쓰나요", Layer::Stems, "연차 휴가 vpn 쓰");
        check("The parties' agreements", Layer::Stems, "parti agreement");
        check("個人情報 보호", Layer::Stems, "個人情報 보호");
    }
}

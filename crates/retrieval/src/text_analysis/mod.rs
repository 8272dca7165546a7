//! Text analysis: the terms of Korean and English text, the same for passages and queries.
//!
//! Every text gives two layers of terms. *Bigrams* are pairs of neighbouring syllables and whole words of other
//! scripts: they need no grammar and miss little. *Stems* are nouns and stems without particles and endings, and
//! English stems: they distinguish words. Neither is query syntax; everything a user types is plain text.

pub(crate) mod byte_string_interner;
pub(crate) mod english_stemmer;
pub(crate) mod korean_morphology;
mod lexicon;
pub(crate) mod normalization;
pub(crate) mod question_words;
pub(crate) mod sentences;

use std::cell::RefCell;
use std::ops::Range;

pub(crate) use korean_morphology::PrecededBy;
use normalization::{NormalizedChar, is_han_character, normalize_into};

use crate::language::is_hangul_syllable;

/// The version of the analysis rules. Every change to the terms of any text must raise it, because an index made by
/// other rules must be rebuilt.
pub(crate) const ANALYSIS_VERSION: u32 = 3;

/// The layer of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TermLayer {
    /// Pairs of neighbouring syllables, and whole words of other scripts.
    Bigrams,
    /// Nouns and stems.
    Stems,
}

/// The scripts that are analysed differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WritingScript {
    /// Korean syllables.
    Hangul,
    /// Chinese and Japanese characters.
    Han,
    /// Scripts with spaces between words, and digits.
    Latin,
}

/// Consecutive letters of one script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptRun<'a> {
    /// The letters.
    pub(crate) letters: &'a [NormalizedChar],
    /// Their script.
    pub(crate) script: WritingScript,
    /// What precedes them.
    pub(crate) preceded_by: PrecededBy,
}

thread_local! {
    /// A reusable buffer for the letters of a text.
    static CHAR_BUFFER: RefCell<Vec<NormalizedChar>> = const { RefCell::new(Vec::new()) };
}

/// The buffer is kept for texts of up to this many bytes.
const MAX_REUSED_TEXT_BYTES: usize = 1 << 16;

/// Calls `each` for every term of a text with its layer and byte range, in order.
pub(crate) fn for_each_term(text: &str, mut each: impl FnMut(TermLayer, &str, Range<usize>)) {
    // Taken out while in use, because `each` may analyse another text.
    let mut letters = CHAR_BUFFER.take();
    normalize_into(text, &mut letters);
    for run in script_runs(&letters) {
        run.for_each_term(&mut each);
    }
    if text.len() <= MAX_REUSED_TEXT_BYTES {
        CHAR_BUFFER.set(letters);
    }
}

/// Returns the nouns and stems of a text, as keyword search compares them, with their byte ranges.
pub fn text_stems(text: &str) -> Vec<(String, Range<usize>)> {
    let mut stems = Vec::new();
    for_each_term(text, |layer, term, range| {
        if layer == TermLayer::Stems {
            stems.push((term.to_owned(), range));
        }
    });
    stems
}

/// Returns the script runs of a text, in order.
pub(crate) fn script_runs(letters: &[NormalizedChar]) -> impl Iterator<Item = ScriptRun<'_>> {
    let mut at = 0;
    let mut before = PrecededBy::Space;
    std::iter::from_fn(move || {
        while at < letters.len() {
            let Some(script) = script_of_char(letters[at].char) else {
                before = PrecededBy::Space;
                at += 1;
                continue;
            };
            let end = run_end(letters, at, script);
            let run = ScriptRun { letters: &letters[at..end], script, preceded_by: before };
            before = PrecededBy::Letters;
            at = end;
            return Some(run);
        }
        None
    })
}

impl ScriptRun<'_> {
    /// Calls `each` for every term of the run with its layer and byte range, in order.
    pub(crate) fn for_each_term(&self, each: &mut impl FnMut(TermLayer, &str, Range<usize>)) {
        match self.script {
            WritingScript::Hangul => hangul_terms(self.letters, self.preceded_by, each),
            WritingScript::Han => han_terms(self.letters, each),
            WritingScript::Latin => latin_terms(self.letters, each),
        }
    }
}

fn script_of_char(char: char) -> Option<WritingScript> {
    if is_hangul_syllable(char) {
        Some(WritingScript::Hangul)
    } else if is_han_character(char) || matches!(char, '\u{3040}'..='\u{30ff}') {
        Some(WritingScript::Han)
    } else if char.is_alphanumeric() {
        Some(WritingScript::Latin)
    } else {
        None
    }
}

fn run_end(letters: &[NormalizedChar], start: usize, script: WritingScript) -> usize {
    let mut end = start + 1;
    while end < letters.len() {
        let inside = script_of_char(letters[end].char) == Some(script);
        let joined = script == WritingScript::Latin && is_inner_mark(letters, end);
        if !inside && !joined {
            break;
        }
        end += 1;
    }
    end
}

/// Returns whether an apostrophe between letters or a comma between digits is part of a word: `don't`, `1,000`.
fn is_inner_mark(letters: &[NormalizedChar], at: usize) -> bool {
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

fn byte_range(run: &[NormalizedChar]) -> Range<usize> {
    match run {
        [first, .., last] => first.start as usize..last.end as usize,
        [one] => one.start as usize..one.end as usize,
        [] => 0..0,
    }
}

fn hangul_terms(
    run: &[NormalizedChar],
    before: PrecededBy,
    each: &mut impl FnMut(TermLayer, &str, Range<usize>),
) {
    bigram_terms(run, each);
    let mut short = [' '; korean_morphology::MAX_WINDOW_SYLLABLES];
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
    korean_morphology::for_each_morpheme(word, before, |stem, start, end| {
        each(TermLayer::Stems, stem, byte_range(&run[start..end]));
    });
}

fn han_terms(run: &[NormalizedChar], each: &mut impl FnMut(TermLayer, &str, Range<usize>)) {
    bigram_terms(run, each);
    let word: String = run.iter().map(|letter| letter.char).collect();
    each(TermLayer::Stems, &word, byte_range(run));
}

fn bigram_terms(run: &[NormalizedChar], each: &mut impl FnMut(TermLayer, &str, Range<usize>)) {
    let mut pair = [0; 8];
    for two in run.windows(2) {
        let mut end = 0;
        two.iter().for_each(|letter| end += letter.char.encode_utf8(&mut pair[end..]).len());
        each(TermLayer::Bigrams, std::str::from_utf8(&pair[..end]).unwrap_or_default(), byte_range(two));
    }
    if let [one] = run {
        each(TermLayer::Bigrams, one.char.encode_utf8(&mut pair), byte_range(run));
    }
}

fn latin_terms(run: &[NormalizedChar], each: &mut impl FnMut(TermLayer, &str, Range<usize>)) {
    let word: String = run
        .iter()
        .filter(|letter| letter.char != ',')
        .map(|letter| if letter.char == '’' { '\'' } else { letter.char })
        .collect();
    each(TermLayer::Bigrams, word.strip_suffix("'s").unwrap_or(&word), byte_range(run));
    if !english_stemmer::is_stop_word(&word) {
        each(TermLayer::Stems, &english_stemmer::stem(&word), byte_range(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, layer: TermLayer, expected: &str) {
        let mut found = Vec::new();
        for_each_term(text, |of, term, range| {
            assert!(text.get(range).is_some());
            if of == layer {
                found.push(term.to_owned());
            }
        });
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn korean_gives_pairs_and_english_words() {
        check("연차휴가는 15일", TermLayer::Bigrams, "연차 차휴 휴가 가는 15 일");
        check(
            "VPN은 Receipts, class! 1,000원 3,14",
            TermLayer::Bigrams,
            "vpn 은 receipts class 1000 원 3 14",
        );
        check(" .,\n", TermLayer::Bigrams, "");
    }

    #[test]
    fn terms_can_be_looked_up_while_others_are_added() {
        let mut inner = Vec::new();
        for_each_term("연차휴가 신청", |_, outer, _| {
            let outer = outer.to_owned();
            for_each_term(&outer, |_, term, _| inner.push(term.to_owned()));
        });
        let alone = |text: &str| {
            let mut alone = Vec::new();
            for_each_term(text, |_, term, _| alone.push(term.to_owned()));
            alone
        };
        let expected: Vec<String> = alone("연차휴가 신청").iter().flat_map(|term| alone(term)).collect();
        assert_eq!(inner, expected);
    }

    #[test]
    fn stems_are_free_of_particles() {
        check("연차휴가는 VPN을 쓰나요", TermLayer::Stems, "연차 휴가 vpn 쓰");
        check("The parties' agreements", TermLayer::Stems, "parti agreement");
        check("個人情報 보호", TermLayer::Stems, "個人情報 보호");
    }
}

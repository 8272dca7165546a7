//! Scores phrases and headings: whether a passage contains the words of a query side by side, and whether its heading
//! matches the query.

use std::collections::HashSet;

use crate::split::HEADING_SEPARATOR;
use crate::text_analysis::normalization::{NormalizedChar, is_letter_or_digit, normalize};
use crate::text_analysis::{self, TermLayer};

/// Returns the normalised words of a text.
pub(super) fn normalized_words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for_each_word(text.as_bytes(), |word| all.push(String::from_utf8_lossy(word).into_owned()));
    all
}

/// A word of a query.
#[derive(Clone, Copy)]
pub(super) struct PhraseWord<'a> {
    bytes: &'a [u8],
    /// Its first bytes, and a mask of the bits that are compared.
    prefix: u64,
    prefix_mask: u64,
}

impl<'a> PhraseWord<'a> {
    pub(super) fn new(word: &'a str) -> Self {
        let counts = if word.len() < 8 { (1 << (word.len() * 8)) - 1 } else { u64::MAX };
        Self { bytes: word.as_bytes(), prefix: first_eight_bytes(word.as_bytes()), prefix_mask: counts }
    }

    /// Returns whether a word with these first bytes starts with this one.
    #[inline]
    fn is_prefix_of(&self, word: &[u8], first: u64) -> bool {
        (self.prefix ^ first) & self.prefix_mask == 0 && word.starts_with(self.bytes)
    }
}

#[inline]
fn first_eight_bytes(word: &[u8]) -> u64 {
    match word.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)),
    }
}

/// Searches texts for the words of a query.
pub(super) struct PhraseMatcher<'a> {
    query_words: &'a [PhraseWord<'a>],
    /// For each word of the query: the length of the run that ended with it at the previous word of the text, and at
    /// this one.
    previous_runs: Vec<usize>,
    current_runs: Vec<usize>,
}

impl<'a> PhraseMatcher<'a> {
    pub(super) fn new(question: &'a [PhraseWord<'a>]) -> Self {
        Self {
            query_words: question,
            previous_runs: vec![0; question.len()],
            current_runs: vec![0; question.len()],
        }
    }

    /// Returns the longest run of query words that occur side by side in a text, as a share of the query. A single word
    /// gives 0, because its own score already counts it. The last word of a run may be a prefix: 휴가 matches 휴가는.
    pub(super) fn longest_phrase_share(&mut self, text: &[u8]) -> f32 {
        let Self { query_words: question, previous_runs: before, current_runs: now } = self;
        if question.len() < 2 {
            return 0.0;
        }
        let mut longest = 0;
        before.fill(0);
        // Whether the previous word matched any word of the query. Most words of a text match none.
        let mut running = false;
        for_each_word(text, |word| {
            let first = first_eight_bytes(word);
            if !running && !question.iter().any(|asked| asked.is_prefix_of(word, first)) {
                return;
            }
            running = false;
            let mut run = 0;
            for (asked, (before, now)) in question.iter().zip(before.iter().zip(now.iter_mut())) {
                *now = 0;
                if asked.is_prefix_of(word, first) {
                    if word.len() == asked.bytes.len() {
                        *now = run + 1;
                        running = true;
                    }
                    if run > 0 || word.len() == asked.bytes.len() {
                        longest = longest.max(run + 1);
                    }
                }
                run = *before;
            }
            std::mem::swap(before, now);
        });
        if longest < 2 { 0.0 } else { longest as f32 / question.len() as f32 }
    }
}

/// Calls `each` for every normalised word of a text.
#[inline]
fn for_each_word(text: &[u8], mut each: impl FnMut(&[u8])) {
    let (mut at, mut start) = (0, 0);
    let mut lower = Vec::new();
    // ASCII and whole Korean syllables are compared as they are, apart from capitals.
    if is_ascii_or_hangul(text) {
        let mut give = |word: &[u8], capitals: bool| {
            if word.is_empty() {
            } else if capitals {
                lower.clear();
                lower.extend(word.iter().map(u8::to_ascii_lowercase));
                each(&lower);
            } else {
                each(word);
            }
        };
        let mut capitals = false;
        while let Some(byte) = text.get(at) {
            if !byte.is_ascii() {
                at += 3;
                continue;
            }
            if byte.is_ascii_alphanumeric() {
                capitals |= byte.is_ascii_uppercase();
            } else {
                give(&text[start..at], capitals);
                (start, capitals) = (at + 1, false);
            }
            at += 1;
        }
        give(&text[start..], capitals);
        return;
    }
    for NormalizedChar { char, .. } in normalize(&String::from_utf8_lossy(text)) {
        let char = if is_letter_or_digit(char) { char } else { ' ' };
        lower.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }
    lower.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).for_each(each);
}

/// Returns whether a text consists of ASCII and whole Korean syllables.
fn is_ascii_or_hangul(text: &[u8]) -> bool {
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return true,
            [first, rest @ ..] if first.is_ascii() => rest,
            [first, second, third, rest @ ..] if is_hangul_syllable_utf8(*first, *second, *third) => rest,
            _ => return false,
        };
    }
}

/// Returns whether three bytes encode a whole Korean syllable.
#[inline]
fn is_hangul_syllable_utf8(first: u8, second: u8, third: u8) -> bool {
    let low = |byte: u8| u32::from(byte & 0x3f);
    let code = u32::from(first & 0x0f) << 12 | low(second) << 6 | low(third);
    first >> 4 == 0xe && ('가' as u32..='힣' as u32).contains(&code)
}

/// Returns how much of the last heading above a passage occurs in the query.
pub(super) fn heading_overlap(asked: &HashSet<String>, title: &str) -> f32 {
    let heading = title.rsplit(HEADING_SEPARATOR).next().unwrap_or(title);
    let (mut all, mut known) = (0_u32, 0_u32);
    text_analysis::for_each_term(heading, |layer, term, _| {
        if layer == TermLayer::Stems {
            all += 1;
            known += u32::from(asked.contains(term));
        }
    });
    if all == 0 { 0.0 } else { known as f32 / all as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, text: &str, expected: f32) {
        let question_words = normalized_words(question);
        let asked: Vec<PhraseWord<'_>> = question_words.iter().map(|word| PhraseWord::new(word)).collect();
        let mut matcher = PhraseMatcher::new(&asked);
        // The matcher keeps no state from one text to the next.
        for _ in 0..2 {
            let share = matcher.longest_phrase_share(text.as_bytes());
            assert!((share - expected).abs() < 1e-6, "{question} | {text}");
        }
    }

    #[test]
    fn words_side_by_side_are_a_phrase() {
        check("연차 유급 휴가", "근로자의 연차 유급 휴가는 15일이다.", 1.0);
        check("연차 유급 휴가", "연차 유급은 휴가가 아니다.", 2.0 / 3.0);
        check("연차 휴가", "휴가 연차", 0.0);
        check("휴가", "휴가", 0.0);
        check("가 나 가 나 다", "가 나 가 나 가 나 다", 1.0);
        check("가 나 다", "나 다라 가 나", 2.0 / 3.0);
        check("연차휴가사용촉진 제도", "연차휴가사용촉구 제도 연차휴가사용촉진 제도를", 1.0);
        check("Net Profit margin", "the net-profit, margin", 1.0);
        check("", "글", 0.0);
    }

    #[test]
    fn words_are_the_same_in_every_form() {
        for (text, expected) in [
            ("휴가(연차) VPN-Net", "휴가 연차 vpn net"),
            ("\u{1112}\u{1172}\u{1100}\u{1161} ＶＰＮ", "휴가 vpn"),
            ("휴가\u{301}는 e\u{301}", "휴가 는 é"),
            ("가\u{11a8} 힣 ퟀ 契約書", "각 힣 ퟀ 契約書"),
        ] {
            let spaced: String = normalize(text)
                .iter()
                .map(|letter| if is_letter_or_digit(letter.char) { letter.char } else { ' ' })
                .collect();
            let expected: Vec<&str> = expected.split(' ').collect();
            assert_eq!(
                normalized_words(text),
                spaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>()
            );
            assert_eq!(normalized_words(text), expected);
        }
    }

    #[test]
    fn a_heading_counts_by_how_much_of_it_was_asked() {
        let asked = |text: &str| {
            let mut stems = HashSet::new();
            text_analysis::for_each_term(text, |layer, term, _| {
                if layer == TermLayer::Stems {
                    stems.insert(term.to_owned());
                }
            });
            stems
        };
        let all = heading_overlap(&asked("비밀유지 의무는?"), "용역계약서 › 비밀유지");
        assert!((all - 1.0).abs() < 1e-6, "{all}");
        assert!(heading_overlap(&asked("비밀유지 의무는?"), "용역계약서 › 대금 지급") <= 0.0);
        assert!(heading_overlap(&asked("비밀유지"), "") <= 0.0);
    }
}

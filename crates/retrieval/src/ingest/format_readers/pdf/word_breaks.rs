//! Decides whether a Korean word continues on the next line. Korean lines break after any syllable, and a page does not
//! mark where a word ends: some programs leave a blank at the end of a line, most do not. In that case the other words
//! of the document decide. If they do not, the lines stay separate.

use std::collections::HashSet;

use crate::language::is_hangul_syllable;

/// How a line ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineEnd {
    /// Whether it reaches the margin, so that another syllable would not have fitted.
    pub(super) reaches_margin: bool,
    /// Whether a blank follows its last word.
    pub(super) has_trailing_blank: bool,
}

/// The vocabulary of a document, without words at the ends of lines.
#[derive(Debug, Default)]
pub(super) struct WordBreaks {
    words: HashSet<String>,
    /// The prefixes of those words, from two syllables on.
    prefixes: HashSet<String>,
    bytes: usize,
}

/// The maximum size of the vocabulary.
const MAX_VOCABULARY_BYTES: usize = 4 << 20;

/// The maximum length of a prefix in syllables.
const MAX_PREFIX_SYLLABLES: usize = 8;

/// Particles, which follow a noun and never stand alone. Some only follow a closed syllable, some only an open one.
const PARTICLES: &[(&str, Option<bool>)] = &[
    ("은", Some(true)),
    ("는", Some(false)),
    ("을", Some(true)),
    ("를", Some(false)),
    ("의", None),
    ("에서", None),
    ("에게", None),
    ("에서는", None),
    ("에서의", None),
    ("에는", None),
    ("에도", None),
    ("으로", Some(true)),
    ("으로서", Some(true)),
    ("으로써", Some(true)),
    ("으로는", Some(true)),
    ("까지", None),
    ("까지는", None),
    ("까지의", None),
    ("부터", None),
    ("부터는", None),
    ("이며", Some(true)),
    ("이라고", Some(true)),
];

/// Forms of the second party of a contract, which look like particles.
const CONTRACT_PARTY_WORDS: &[&str] =
    &["갑", "갑은", "갑이", "갑의", "갑과", "을은", "을이", "을의", "을에게"];

/// One-syllable words that stand alone in rules, contracts and reports, including units.
const ONE_SYLLABLE_WORDS: &str = "가각간갑개건것곳과권그급끝나날내너네년단달당대더데돈된될동두들등때또뜻만말매면명목몇못및바밖번법\
별병본분뿐상새서세수시쓴쓸안앞약양어억여열옆온외원월위을의이인일있잘장저전절점정제조좀주준줄중즉지집쪽채천첫총\
층큰타통팀편표하한할함항해호회후";

impl WordBreaks {
    /// Adds the words of a line to the vocabulary.
    pub(super) fn learn_words(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, inner @ .., _] = words.as_slice() else { return };
        for word in inner {
            if self.bytes > MAX_VOCABULARY_BYTES {
                return;
            }
            let hangul: Vec<char> = word.chars().take_while(|char| is_hangul_syllable(*char)).collect();
            self.bytes += word.len();
            for length in 2..=hangul.len().min(MAX_PREFIX_SYLLABLES) {
                self.prefixes.insert(hangul[..length].iter().collect());
            }
            if !hangul.is_empty() {
                self.words.insert(hangul.iter().collect());
            }
        }
    }

    /// Returns whether the last word of `above`, a line with this end, continues with the first word of `below`.
    pub(super) fn word_continues(&self, above: &str, end: LineEnd, below: &str) -> bool {
        if !end.reaches_margin || end.has_trailing_blank {
            return false;
        }
        let last = above.rsplit(char::is_whitespace).next().unwrap_or_default();
        let first = below.split_whitespace().next().unwrap_or_default();
        let head: String = first.chars().take_while(|char| is_hangul_syllable(*char)).collect();
        if self.is_particle(last, &head) {
            return true;
        }
        let Some((at, _)) =
            last.char_indices().rev().take_while(|(_, char)| is_hangul_syllable(*char)).last()
        else {
            return false;
        };
        let tail = &last[at..];
        // `제2항`, `3개`: the text after a number is a word of its own.
        let unit = last[..at].ends_with(|char: char| char.is_ascii_digit());
        let short = tail.chars().count() == 1 && ONE_SYLLABLE_WORDS.contains(tail);
        let start: String = head.chars().take(2).collect();
        let apart = self.words.contains(tail) || self.words.contains(&head) || self.prefixes.contains(&start);
        // If both could be separate words, more evidence is needed to join them.
        let more = if unit || short || apart { 2 } else { 1 };
        let joined: String = tail.chars().chain(head.chars().take(more)).collect();
        head.chars().count() >= more && self.prefixes.contains(&joined)
    }

    fn is_particle(&self, noun: &str, head: &str) -> bool {
        let Some((_, closed)) = PARTICLES.iter().find(|(particle, _)| *particle == head) else {
            return false;
        };
        let Some(before) = noun.chars().next_back() else { return false };
        let fits = match (closed, is_hangul_syllable(before)) {
            (Some(closed), true) => (before as u32 - '가' as u32).is_multiple_of(28) != *closed,
            (_, false) => before.is_alphanumeric() || ")]」』”\"'".contains(before),
            (None, true) => true,
        };
        let party = head == "을" && CONTRACT_PARTY_WORDS.iter().any(|word| self.words.contains(*word));
        fits && (!party || self.words.contains(&format!("{noun}{head}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &str, above: &str, below: &str, expected: bool) {
        let mut breaks = WordBreaks::default();
        document.lines().for_each(|line| breaks.learn_words(line));
        let full = LineEnd { reaches_margin: true, has_trailing_blank: false };
        assert_eq!(breaks.word_continues(above, full, below), expected, "{above}|{below}");
        assert!(!breaks.word_continues(above, LineEnd { reaches_margin: false, ..full }, below));
        assert!(!breaks.word_continues(above, LineEnd { has_trailing_blank: true, ..full }, below));
    }

    #[test]
    fn a_particle_stands_behind_its_noun() {
        check("", "내용연수의 절반", "까지 인정한다", true);
        check("", "회사(주)", "의 규정", true);
        check("", "비밀번호는 12자", "를 넘는다", true);
        check("", "비밀번호는 12자", "은 부족하다", false);
        check("", "정한다.", "은 값이 올랐다", false);
        check("", "대금", "을 지급한다", true);
        // The second party of a contract is called 을.
        check("이때 갑은 을에게 통지하고", "갑 또는", "을 가운데", false);
        check("이때 대금을 갑은 을에게", "대금", "을 지급한다", true);
    }

    #[test]
    fn a_unit_ends_its_word() {
        let document = "합계 원이 아니라 개이다 그\n모든 항본 항목은 그";
        check(document, "제2항", "본문에 따른다", false);
        check(document, "3개", "이상이다", false);
        check(document, "5만 원", "이하로 한다", false);
        check(document, "그 밖의 항", "목은 따로", true);
    }

    #[test]
    fn what_the_document_writes_elsewhere_decides() {
        let document = "그 뒤 장비를 반납하고 나서\n모든 비용을 회사가 낸다\n이 계약은 은행에 맡긴다";
        check(document, "퇴사하면 장비를 반", "납한다", true);
        check(document, "모든 비", "용은 회사가", true);
        check(document, "출장 비용", "정산은", false);
        // `계약은` is one word, and `은행` is another.
        check(document, "우리 계약", "은행과 맺은", false);
    }

    #[test]
    fn without_a_sign_the_lines_stay_apart() {
        check("", "연차휴가는", "열다섯 날이다", false);
        check("", "할 수", "있다", false);
        check("", "version 2", "출시", false);
        check("", "", "출시", false);
        check("", "새 컴퓨터를 빌", "려준다", false);
    }
}

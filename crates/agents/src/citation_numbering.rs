//! Renumbers sources from 1 in the order in which an answer cites them. Agents number all they found, and an answer cites only
//! some of it.

use std::collections::BTreeSet;

use doran_llm::{CitationMark, CitationScanner, TextEnd};

use crate::source::AnswerSource;

/// Puts numbers in place while the words come. Nothing but a number in a mark that names sources changes.
#[derive(Clone, Debug, Default)]
pub struct CitationNumbering {
    /// The numbers that are sources.
    source_numbers: BTreeSet<u32>,
    /// Those that were named, in order.
    cited_order: Vec<u32>,
    scanner: CitationScanner,
    /// Words that may yet become a mark.
    pending_text: String,
}

impl CitationNumbering {
    /// All of a text at once.
    pub fn renumber_text(text: &str, known: impl IntoIterator<Item = u32>) -> (Self, String) {
        let mut cited = Self::default();
        cited.add_source_numbers(known);
        let mut shown = cited.push_text(text);
        shown.push_str(&cited.finish_text());
        (cited, shown)
    }

    /// These numbers are sources.
    pub fn add_source_numbers(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.source_numbers.extend(numbers);
    }

    /// The sources under the numbers by which people know them, in their order. One that was not named keeps its own.
    pub fn renumber_sources(&self, sources: &[AnswerSource]) -> Vec<AnswerSource> {
        let number = |source: &AnswerSource| {
            self.displayed_number(source.number).and_then(|shown| u32::try_from(shown).ok())
        };
        let mut counted: Vec<AnswerSource> = sources
            .iter()
            .map(|source| AnswerSource { number: number(source).unwrap_or(source.number), ..source.clone() })
            .collect();
        counted.sort_by_key(|source| source.number);
        counted
    }

    /// The answer begins anew.
    pub fn reset(&mut self) {
        self.cited_order.clear();
        self.pending_text.clear();
        self.scanner = CitationScanner::default();
    }

    /// The number by which people know a source, if it was named.
    pub fn displayed_number(&self, number: u32) -> Option<usize> {
        self.cited_order.iter().position(|named| *named == number).map(|at| at + 1)
    }

    /// The next words with their numbers in place. What may be the beginning of a mark is held back.
    pub fn push_text(&mut self, words: &str) -> String {
        self.pending_text.push_str(words);
        self.renumber_pending(TextEnd::Open)
    }

    /// What was held back, when the text is at its end. What is pushed next is another text.
    pub fn finish_text(&mut self) -> String {
        let rest = self.renumber_pending(TextEnd::Reached);
        self.scanner = CitationScanner::default();
        rest
    }

    fn renumber_pending(&mut self, end: TextEnd) -> String {
        let text = std::mem::take(&mut self.pending_text);
        let mut marks = Vec::new();
        let decided = self.scanner.scan(&text, end, |mark| marks.push(mark));
        let mut out = String::with_capacity(decided);
        let mut from = 0;
        for CitationMark { range, numbers } in marks {
            if numbers.iter().all(|number| self.source_numbers.contains(number)) {
                out.push_str(&text[from..range.start]);
                out.push_str(&self.renumber_mark(&text[range.clone()]));
                from = range.end;
            }
        }
        out.push_str(&text[from..decided]);
        text[decided..].clone_into(&mut self.pending_text);
        out
    }

    /// A mark with other numbers; what stands between them stays.
    fn renumber_mark(&mut self, mark: &str) -> String {
        let mut shown = String::with_capacity(mark.len());
        for piece in mark.split_inclusive(|char: char| !char.is_ascii_digit()) {
            let digits = piece.trim_end_matches(|char: char| !char.is_ascii_digit());
            let number = digits.parse().ok();
            if let Some(number) = number.filter(|number| !self.cited_order.contains(number)) {
                self.cited_order.push(number);
            }
            match number.and_then(|number| self.displayed_number(number)) {
                Some(displayed) => shown.push_str(&displayed.to_string()),
                // No number of a source: it stays as it is.
                None => shown.push_str(digits),
            }
            shown.push_str(&piece[digits.len()..]);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_counted_as_they_are_first_named_wherever_the_words_are_cut() {
        let text = "가 [7], 나[3,7] 다 [9] [7, 9] a[가] [] m[7][3] `[7]` [2";
        let (_, whole) = CitationNumbering::renumber_text(text, [1, 2, 3, 7]);
        assert_eq!(whole, "가 [1], 나[2,1] 다 [9] [7, 9] a[가] [] m[7][3] `[7]` [2");
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for at in places {
            let mut cited = CitationNumbering::default();
            cited.add_source_numbers([1, 2, 3, 7]);
            let mut shown = cited.push_text(&text[..at]);
            shown.push_str(&cited.push_text(&text[at..]));
            shown.push_str(&cited.finish_text());
            assert_eq!(shown, whole, "{at}");
            assert_eq!(
                (cited.displayed_number(7), cited.displayed_number(3), cited.displayed_number(2)),
                (Some(1), Some(2), None)
            );
        }
    }

    /// Random texts of brackets, code, Markdown, Korean and control characters.
    fn random_text(random: &mut impl FnMut(usize) -> usize) -> String {
        const PIECES: &[&str] = &[
            "[",
            "]",
            "[ ]",
            "[x]",
            "- [ ] ",
            "[    ]년",
            "m[4][1]",
            "[9]",
            "[12, 9]",
            "[1](#)",
            "(",
            ")",
            "`",
            "``",
            "```\n",
            "```",
            "~~~\n",
            "\n",
            "\n\n",
            " ",
            "    ",
            "\t",
            "\r\n",
            "\u{0}",
            "\u{1b}[31m",
            "\u{200b}",
            "제5조",
            "가",
            "연차는 15일",
            "word",
            "1",
            ",",
            "**",
            "_",
            "\\[",
            "|a|b|\n",
            "# ",
            "> ",
            "🙂",
            "$x_1[2]$",
        ];
        (0..random(40)).map(|_| PIECES[random(PIECES.len())]).collect()
    }

    #[test]
    fn no_byte_changes_that_is_not_a_number_of_a_mark() {
        let mut seed = 0x2545_F491_4F6C_DD1D_u64;
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % below as u64).expect("small")
        };
        for _ in 0..10_000 {
            let text = random_text(&mut random);
            // Nothing in it names a source, so nothing is a mark.
            let mut cited = CitationNumbering::default();
            cited.add_source_numbers([2, 3, 4]);
            let mut shown = String::new();
            for char in text.chars() {
                shown.push_str(&cited.push_text(char.encode_utf8(&mut [0; 4])));
            }
            shown.push_str(&cited.finish_text());
            assert_eq!(shown, text);
            assert_eq!(CitationNumbering::renumber_text(&text, [2, 3, 4]).1, text);
        }
    }
}

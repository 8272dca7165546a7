//! Sources as people count them: from 1, in the order in which an answer first names them. Agents number what they
//! found, and an answer names only some of it.

use std::collections::BTreeSet;

use crate::source::AnswerSource;

/// The longest list of numbers between brackets.
const MAX_CITATION_LIST_BYTES: usize = 48;

/// Puts numbers in place while the words come.
#[derive(Clone, Debug, Default)]
pub struct CitationNumbering {
    /// The numbers that are sources.
    source_numbers: BTreeSet<u32>,
    /// Those that were named, in order.
    cited_order: Vec<u32>,
    /// A bracket that may yet become a number.
    pending_text: String,
}

impl CitationNumbering {
    /// All of a text at once.
    pub fn renumber_text(text: &str, known: impl IntoIterator<Item = u32>) -> (Self, String) {
        let mut cited = Self::default();
        cited.add_source_numbers(known);
        let mut told = cited.push_text(text);
        told.push_str(&cited.take_pending());
        (cited, told)
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
    }

    /// The number by which people know a source, if it was named.
    pub fn displayed_number(&self, number: u32) -> Option<usize> {
        self.cited_order.iter().position(|named| *named == number).map(|at| at + 1)
    }

    /// The next words with their numbers in place. What may be the beginning of one is held back.
    pub fn push_text(&mut self, words: &str) -> String {
        self.pending_text.push_str(words);
        let held = std::mem::take(&mut self.pending_text);
        let mut out = String::with_capacity(held.len());
        let mut rest = held.as_str();
        while let Some(at) = rest.find('[') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let inner = &rest[1..];
            let end = inner.find(|char: char| !(char.is_ascii_digit() || char == ',' || char == ' '));
            match end {
                None if inner.len() < MAX_CITATION_LIST_BYTES => {
                    rest.clone_into(&mut self.pending_text);
                    return out;
                }
                Some(end) if end > 0 && end < MAX_CITATION_LIST_BYTES && inner[end..].starts_with(']') => {
                    out.push_str(&self.renumber_list(&inner[..end]));
                    rest = &inner[end + 1..];
                }
                Some(_) | None => {
                    out.push('[');
                    rest = inner;
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// What was held back, when nothing more comes.
    pub fn take_pending(&mut self) -> String {
        std::mem::take(&mut self.pending_text)
    }

    fn renumber_list(&mut self, list: &str) -> String {
        let mut shown = Vec::new();
        for one in list.split(',') {
            let number = one.trim().parse().ok().filter(|number| self.source_numbers.contains(number));
            let Some(number) = number else {
                shown.push(one.trim().to_owned());
                continue;
            };
            if !self.cited_order.contains(&number) {
                self.cited_order.push(number);
            }
            shown.push(self.displayed_number(number).unwrap_or_default().to_string());
        }
        format!("[{}]", shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_counted_as_they_are_first_named_wherever_the_words_are_cut() {
        let text = "가 [7], 나 [3, 7] 다 [9] a[가] [] [2";
        let (_, whole) = CitationNumbering::renumber_text(text, [1, 2, 3, 7]);
        assert_eq!(whole, "가 [1], 나 [2, 1] 다 [9] a[가] [] [2");
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for at in places {
            let mut cited = CitationNumbering::default();
            cited.add_source_numbers([1, 2, 3, 7]);
            let mut told = cited.push_text(&text[..at]);
            told.push_str(&cited.push_text(&text[at..]));
            told.push_str(&cited.take_pending());
            assert_eq!(told, whole, "{at}");
            assert_eq!(
                (cited.displayed_number(7), cited.displayed_number(3), cited.displayed_number(2)),
                (Some(1), Some(2), None)
            );
        }
    }
}

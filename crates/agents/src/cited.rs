//! Sources as people count them: from 1, in the order in which an answer first names them. Agents number what they
//! found, and an answer names only some of it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::source::Source;

/// The longest list of numbers between brackets.
const LONGEST: usize = 48;

/// Puts numbers in place while the words come.
#[derive(Clone, Debug, Default)]
pub struct Cited {
    /// The numbers that are sources.
    known: BTreeSet<u32>,
    /// Those that were named, in order.
    order: Vec<u32>,
    /// A bracket that may yet become a number.
    held: String,
}

impl Cited {
    /// All of a text at once.
    pub fn all(text: &str, known: impl IntoIterator<Item = u32>) -> (Self, String) {
        let mut cited = Self::default();
        cited.learn(known);
        let mut told = cited.pass(text);
        told.push_str(&cited.rest());
        (cited, told)
    }

    /// These numbers are sources.
    pub fn learn(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.known.extend(numbers);
    }

    /// What the update of a node found are sources.
    pub fn learn_from(&mut self, update: &Value) {
        let lists = ["context", "documents", "collected_info"]
            .iter()
            .filter_map(|name| update.get(*name)?.as_array());
        let numbers = lists.flatten().filter_map(|found| found.get("number")?.as_u64());
        self.learn(numbers.filter_map(|number| u32::try_from(number).ok()));
    }

    /// The sources under the numbers by which people know them, in their order. One that was not named keeps its own.
    pub fn counted(&self, sources: &[Source]) -> Vec<Source> {
        let number = |source: &Source| self.shown(source.number).and_then(|shown| u32::try_from(shown).ok());
        let mut counted: Vec<Source> = sources
            .iter()
            .map(|source| Source { number: number(source).unwrap_or(source.number), ..source.clone() })
            .collect();
        counted.sort_by_key(|source| source.number);
        counted
    }

    /// The answer begins anew.
    pub fn begin_anew(&mut self) {
        self.order.clear();
        self.held.clear();
    }

    /// The number by which people know a source, if it was named.
    pub fn shown(&self, number: u32) -> Option<usize> {
        self.order.iter().position(|named| *named == number).map(|at| at + 1)
    }

    /// The next words with their numbers in place. What may be the beginning of one is held back.
    pub fn pass(&mut self, words: &str) -> String {
        self.held.push_str(words);
        let held = std::mem::take(&mut self.held);
        let mut out = String::with_capacity(held.len());
        let mut rest = held.as_str();
        while let Some(at) = rest.find('[') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let inner = &rest[1..];
            let end = inner.find(|char: char| !(char.is_ascii_digit() || char == ',' || char == ' '));
            match end {
                None if inner.len() < LONGEST => {
                    rest.clone_into(&mut self.held);
                    return out;
                }
                Some(end) if end > 0 && end < LONGEST && inner[end..].starts_with(']') => {
                    out.push_str(&self.numbers(&inner[..end]));
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
    pub fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    fn numbers(&mut self, list: &str) -> String {
        let mut shown = Vec::new();
        for one in list.split(',') {
            let number = one.trim().parse().ok().filter(|number| self.known.contains(number));
            let Some(number) = number else {
                shown.push(one.trim().to_owned());
                continue;
            };
            if !self.order.contains(&number) {
                self.order.push(number);
            }
            shown.push(self.shown(number).unwrap_or_default().to_string());
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
        let (_, whole) = Cited::all(text, [1, 2, 3, 7]);
        assert_eq!(whole, "가 [1], 나 [2, 1] 다 [9] a[가] [] [2");
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for at in places {
            let mut cited = Cited::default();
            cited.learn([1, 2, 3, 7]);
            let mut told = cited.pass(&text[..at]);
            told.push_str(&cited.pass(&text[at..]));
            told.push_str(&cited.rest());
            assert_eq!(told, whole, "{at}");
            assert_eq!((cited.shown(7), cited.shown(3), cited.shown(2)), (Some(1), Some(2), None));
        }
    }
}

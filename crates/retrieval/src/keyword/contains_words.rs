//! Searches texts for all words of a query, without an index.

use std::collections::BTreeSet;

use crate::text_analysis::normalization::{is_letter_or_digit, normalize};
use crate::text_analysis::{self, TermLayer};

/// The longest query of a [`WordSearch`], in characters. Checked before the query is normalised, which can make it longer.
pub const MAX_WORD_QUERY_CHARS: usize = 200;
/// Texts are normalised in pieces of at most so many bytes, because they can grow too.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// Finds out whether texts contain every word of a query, in any order. Whitespace, punctuation and case are ignored, and
/// a word may have other particles or endings in a text. A query without letters must occur literally.
#[derive(Clone, Debug)]
pub struct WordSearch {
    /// The query, if it has no letters.
    literal: Option<String>,
    missing: Vec<MissingWord>,
}

/// A word that was not found yet.
#[derive(Clone, Debug)]
struct MissingWord {
    letters: String,
    /// Its stems that were not found yet. A word with a number has none: the stem of a number with a unit is the number
    /// alone, which could count anything.
    stems: Option<BTreeSet<String>>,
}

impl WordSearch {
    /// Searches for this query. `None` if it is too long.
    pub fn new(query: &str) -> Option<Self> {
        let query = query.trim();
        if query.chars().nth(MAX_WORD_QUERY_CHARS).is_some() {
            return None;
        }
        let words = query.split_whitespace().map(letters_and_digits).filter(|word| !word.is_empty());
        let missing: Vec<MissingWord> = words
            .map(|letters| {
                let has_number = letters.chars().any(char::is_numeric);
                let stems = Some(stem_set(&letters)).filter(|stems| !has_number && !stems.is_empty());
                MissingWord { letters, stems }
            })
            .collect();
        Some(Self { literal: missing.is_empty().then(|| query.to_owned()), missing })
    }

    /// Looks for the words that are still missing. Texts that belong together are given one after the other.
    pub fn look_into(&mut self, text: &str) {
        if self.literal.as_ref().is_some_and(|literal| text.contains(literal)) {
            self.literal = None;
        }
        let mut rest = text;
        while !self.missing.is_empty() && !rest.is_empty() {
            let (piece, after) = rest.split_at(piece_end(rest));
            self.look_into_piece(piece);
            rest = after;
        }
    }

    fn look_into_piece(&mut self, text: &str) {
        let whole = letters_and_digits(text);
        self.missing.retain(|word| !whole.contains(&word.letters));
        if self.missing.iter().any(|word| word.stems.is_some()) {
            let here = stem_set(text);
            self.missing.retain_mut(|word| {
                let Some(stems) = &mut word.stems else { return true };
                stems.retain(|stem| !here.contains(stem));
                !stems.is_empty()
            });
        }
    }

    /// Whether every word was found.
    pub fn is_found(&self) -> bool {
        self.missing.is_empty() && self.literal.is_none()
    }
}

/// Returns where the first piece of a text ends: after the last blank that fits, so that no word is cut.
fn piece_end(text: &str) -> usize {
    if text.len() <= MAX_PIECE_BYTES {
        return text.len();
    }
    let limit = text.floor_char_boundary(MAX_PIECE_BYTES);
    let blank = text[..limit].rfind(char::is_whitespace);
    blank.map_or(limit, |at| text.ceil_char_boundary(at + 1))
}

/// Returns the letters and digits of a text.
fn letters_and_digits(text: &str) -> String {
    normalize(text).iter().map(|letter| letter.char).filter(|char| is_letter_or_digit(*char)).collect()
}

fn stem_set(text: &str) -> BTreeSet<String> {
    let mut stems = BTreeSet::new();
    text_analysis::for_each_term(text, |layer, term, _| {
        if layer == TermLayer::Stems {
            stems.insert(term.to_owned());
        }
    });
    stems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains_all_words(text: &str, query: &str) -> bool {
        let mut search = WordSearch::new(query).expect("short");
        search.look_into(text);
        search.is_found()
    }

    #[test]
    fn words_may_stand_in_different_texts() {
        let mut search = WordSearch::new("연차휴가를 receipts").expect("short");
        search.look_into("연차휴가는 며칠인가요?");
        assert!(!search.is_found());
        search.look_into("When must receipts be uploaded?");
        assert!(search.is_found());
    }

    #[test]
    fn a_query_is_bounded_before_it_grows() {
        // Each of these is three bytes and eighteen letters.
        assert!(WordSearch::new(&"\u{fdfa}".repeat(MAX_WORD_QUERY_CHARS + 1)).is_none());
        assert!(WordSearch::new(&"가".repeat(MAX_WORD_QUERY_CHARS)).is_some());
    }

    #[test]
    fn a_long_text_is_looked_into_to_its_end() {
        let long = format!(
            "{} 연차휴가를 {}병가",
            "가나다 ".repeat(MAX_PIECE_BYTES / 4),
            "x".repeat(MAX_PIECE_BYTES)
        );
        assert!(contains_all_words(&long, "연차휴가 병가") && !contains_all_words(&long, "출장"));
    }

    #[test]
    fn every_word_counts_and_neither_order_nor_blanks_nor_particles_do() {
        let text = "연차휴가는 며칠인가요? 만 1년이면 15일입니다.";
        for query in [
            "연차휴가",
            "연차휴가 며칠",
            "며칠 연차휴가",
            "연차 휴가",
            "연차휴가를",
            "연차휴가가 며칠",
            "15일",
            "15 일",
            "\u{110b}\u{1167}\u{11ab}\u{110e}\u{1161}",
            "",
            "?",
        ] {
            assert!(contains_all_words(text, query), "{query}");
        }
        for query in ["연차휴가 출장", "병가", "16일", "15개", "!"] {
            assert!(!contains_all_words(text, query), "{query}");
        }
        let english = "When must receipts be uploaded?";
        assert!(
            contains_all_words(english, "RECEIPTS uploaded") && contains_all_words(english, "upload receipt")
        );
        assert!(!contains_all_words(english, "receipts paid"));
    }
}

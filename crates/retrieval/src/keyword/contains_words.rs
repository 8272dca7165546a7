//! Checks whether a text contains all words of a query.

use std::collections::BTreeSet;

use crate::text_analysis::normalization::{is_letter_or_digit, normalize};
use crate::text_analysis::{self, TermLayer};

/// Returns whether a text contains every word of a query, in any order. Whitespace, punctuation and case are ignored,
/// and a word may have other particles or endings in the text. A query without letters must occur literally.
pub fn contains_all_words(text: &str, query: &str) -> bool {
    let words: Vec<String> =
        query.split_whitespace().map(letters_and_digits).filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return text.contains(query.trim());
    }
    let whole = letters_and_digits(text);
    let missing: Vec<String> = words.into_iter().filter(|word| !whole.contains(word)).collect();
    if missing.is_empty() {
        return true;
    }
    let here = stem_set(text);
    missing.iter().all(|word| {
        let wanted = stem_set(word);
        // The stem of a number with a unit is the number alone, which could count anything.
        let has_number = word.chars().any(char::is_numeric);
        !has_number && !wanted.is_empty() && wanted.is_subset(&here)
    })
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

//! How the articles of a document are called in its language.

use crate::language::is_hangul_syllable;

/// What was found begins with its place in brackets, which is named in the language of its document.
pub fn localize_place_label(text: &str) -> String {
    match text.strip_prefix('[').and_then(|rest| rest.split_once("]\n")) {
        Some((place, rest)) => format!("[{}]\n{rest}", localize_article_numbers(place, place)),
        None => text.to_owned(),
    }
}

/// Articles are counted in Korean (제2조); of a document that is not in Korean, in English.
pub fn localize_article_numbers(label: &str, title: &str) -> String {
    let pieces = |text: &str| -> Vec<String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('제') {
            let after = &rest[at + '제'.len_utf8()..];
            let digits = after.find(|char: char| !char.is_ascii_digit()).unwrap_or(after.len());
            match after[digits..].strip_prefix('조') {
                Some(tail) if digits > 0 => {
                    pieces.extend([rest[..at].to_owned(), after[..digits].to_owned()]);
                    rest = tail;
                }
                _ => {
                    pieces.clear();
                    return pieces;
                }
            }
        }
        pieces.push(rest.to_owned());
        pieces
    };
    let of_title = pieces(title);
    if of_title.is_empty() || of_title.iter().any(|piece| piece.contains(is_hangul_syllable)) {
        return label.to_owned();
    }
    let mut named = String::new();
    for (place, piece) in pieces(label).iter().enumerate() {
        // Words and numbers take turns.
        match place % 2 {
            0 if place > 0 && piece.starts_with('(') => named.push_str(&format!(" {piece}")),
            0 => named.push_str(piece),
            _ => named.push_str(&format!("Article {piece}")),
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_are_counted_in_the_language_of_their_document() {
        let check = |label: &str, title: &str, expected: &str| {
            assert_eq!(localize_article_numbers(label, title), expected);
        };
        let english = "Services Agreement › 제2조(Fees)";
        check(english, english, "Services Agreement › Article 2 (Fees)");
        check("제2조", english, "Article 2");
        check("제5조", "용역계약서 › 제5조(계약 금액)", "제5조");
        check("Handbook › Leave", "Handbook › Leave", "Handbook › Leave");
        check("제도 안내", "제도 안내", "제도 안내");
    }
}

//! Normalises characters for comparison: NFKC and lower case, each with its position in the text.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

use crate::language::is_hangul_syllable;

/// A normalised character of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NormalizedChar {
    /// The normalised character.
    pub(crate) char: char,
    /// The start of the original character, in bytes.
    pub(crate) start: u32,
    /// The end of the original character.
    pub(crate) end: u32,
}

/// A longer text is searchable only up to this size.
pub(crate) const MAX_TEXT_BYTES: usize = u32::MAX as usize;

/// Returns the normalised characters of a text, in order. Decomposed jamo become one syllable.
pub(crate) fn normalize(text: &str) -> Vec<NormalizedChar> {
    let mut letters = Vec::with_capacity(text.len());
    normalize_into(text, &mut letters);
    letters
}

/// Like [`normalize`], but replaces the content of `letters`.
pub(crate) fn normalize_into(text: &str, letters: &mut Vec<NormalizedChar>) {
    letters.clear();
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let mut chars = text.char_indices().peekable();
    while let Some((start, char)) = chars.next() {
        let mut end = start + char.len_utf8();
        while let Some(&(at, next)) = chars.peek().filter(|(_, next)| is_combining(*next)) {
            end = at + next.len_utf8();
            chars.next();
        }
        let place = |char| NormalizedChar { char, start: start as u32, end: end as u32 };
        let alone = end - start == char.len_utf8();
        if alone && char.is_ascii() {
            letters.push(place(char.to_ascii_lowercase()));
        } else if alone && is_hangul_syllable(char) {
            letters.push(place(char));
        } else {
            letters.extend(text[start..end].nfkc().flat_map(char::to_lowercase).map(place));
        }
    }
}

/// Returns whether a character is a letter or a digit of any script.
pub(crate) fn is_letter_or_digit(char: char) -> bool {
    // Most characters are syllables, and the Unicode table for all letters is large.
    is_hangul_syllable(char) || char.is_alphanumeric()
}

/// Returns whether a character is a Chinese character.
pub(crate) fn is_han_character(char: char) -> bool {
    matches!(char, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns whether a character combines with the one before it: an accent, or a medial or final jamo.
fn is_combining(char: char) -> bool {
    !char.is_ascii()
        && !is_hangul_syllable(char)
        && (matches!(char, '\u{1160}'..='\u{11ff}') || canonical_combining_class(char) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let letters = normalize(text);
        assert_eq!(letters.iter().map(|letter| letter.char).collect::<String>(), expected);
        assert!(letters.iter().all(|letter| text.get(letter.start as usize..letter.end as usize).is_some()));
    }

    #[test]
    fn what_looks_alike_is_alike() {
        check("ＶＰＮ Ⅷ", "vpn viii");
        check("\u{1112}\u{1172}\u{1100}\u{1161}", "휴가");
        check("cafe\u{301} ﬁ ㎡", "café fi m2");
        check("", "");
    }
}

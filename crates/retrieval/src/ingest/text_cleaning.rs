//! Cleans text before it is stored: composed syllables, plain line ends, no invisible characters.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Returns the text without invisible characters, in NFC and with `\n` for every line end, and the number of invisible
/// characters.
pub(super) fn clean_text(text: &str) -> (Cow<'_, str>, usize) {
    let (seen, hidden) = remove_invisible_characters(text);
    // macOS stores 한 as three jamo; people type it as one syllable.
    match is_nfc_quick(seen.chars()) {
        IsNormalized::Yes => (seen, hidden),
        IsNormalized::No | IsNormalized::Maybe => (seen.nfc().collect::<String>().into(), hidden),
    }
}

fn remove_invisible_characters(text: &str) -> (Cow<'_, str>, usize) {
    if text.chars().all(|char| character_treatment(char) == CharacterTreatment::Keep) {
        return (text.into(), 0);
    }
    let mut hidden = 0;
    let mut seen = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match character_treatment(char) {
            CharacterTreatment::Keep => seen.push(char),
            CharacterTreatment::Space => seen.push(' '),
            CharacterTreatment::Drop => {}
            CharacterTreatment::Hidden => hidden += 1,
            CharacterTreatment::Return if chars.peek() == Some(&'\n') => {}
            CharacterTreatment::Return => seen.push('\n'),
        }
    }
    (seen.into(), hidden)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharacterTreatment {
    Keep,
    Space,
    Drop,
    Hidden,
    Return,
}

fn character_treatment(char: char) -> CharacterTreatment {
    match char {
        '\n' | '\t' | '\u{c}' => CharacterTreatment::Keep,
        '\r' | '\u{2028}' | '\u{2029}' => CharacterTreatment::Return,
        '\0'..='\u{1f}' | '\u{7f}' | '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{fffe}' | '\u{ffff}' => {
            CharacterTreatment::Drop
        }
        '\u{a0}' => CharacterTreatment::Space,
        '\u{200b}'
        | '\u{2060}'..='\u{2064}'
        | '\u{feff}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => CharacterTreatment::Hidden,
        '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{e0000}'..='\u{e007f}' => CharacterTreatment::Hidden,
        _ => CharacterTreatment::Keep,
    }
}

/// Returns the text on one line, with single spaces.
pub(super) fn to_single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_left_out_and_counted() {
        let (text, hidden) = clean_text("a\u{202e}b\u{e0041}\u{200b}c\u{0}\r\nd\re\u{a0}f");
        assert_eq!((text.as_ref(), hidden), ("abc\nd\ne f", 3));
        assert_eq!(clean_text("그대로").0, "그대로");
    }

    #[test]
    fn letters_that_were_torn_apart_are_joined() {
        assert_eq!(clean_text("\u{1112}\u{1161}\u{11ab}글").0, "한글");
    }
}

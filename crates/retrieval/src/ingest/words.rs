//! Text as it may be kept: composed syllables, plain line ends, nothing invisible.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// The text without invisible characters, with composed syllables and `\n` for every line end, and how many
/// invisible ones there were.
pub(super) fn clean(text: &str) -> (Cow<'_, str>, usize) {
    let (seen, hidden) = visible(text);
    // macOS hands out 한 as three letters; people type it as one.
    match is_nfc_quick(seen.chars()) {
        IsNormalized::Yes => (seen, hidden),
        IsNormalized::No | IsNormalized::Maybe => (seen.nfc().collect::<String>().into(), hidden),
    }
}

fn visible(text: &str) -> (Cow<'_, str>, usize) {
    if text.chars().all(|char| fate(char) == Fate::Keep) {
        return (text.into(), 0);
    }
    let mut hidden = 0;
    let mut seen = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match fate(char) {
            Fate::Keep => seen.push(char),
            Fate::Space => seen.push(' '),
            Fate::Drop => {}
            Fate::Hidden => hidden += 1,
            Fate::Return if chars.peek() == Some(&'\n') => {}
            Fate::Return => seen.push('\n'),
        }
    }
    (seen.into(), hidden)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Space,
    Drop,
    Hidden,
    Return,
}

fn fate(char: char) -> Fate {
    match char {
        '\n' | '\t' | '\u{c}' => Fate::Keep,
        '\r' | '\u{2028}' | '\u{2029}' => Fate::Return,
        '\0'..='\u{1f}' | '\u{7f}' | '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{fffe}' | '\u{ffff}' => Fate::Drop,
        '\u{a0}' => Fate::Space,
        '\u{200b}'
        | '\u{2060}'..='\u{2064}'
        | '\u{feff}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => Fate::Hidden,
        '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{e0000}'..='\u{e007f}' => Fate::Hidden,
        _ => Fate::Keep,
    }
}

/// Words on one line, with single blanks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_left_out_and_counted() {
        let (text, hidden) = clean("a\u{202e}b\u{e0041}\u{200b}c\u{0}\r\nd\re\u{a0}f");
        assert_eq!((text.as_ref(), hidden), ("abc\nd\ne f", 3));
        assert_eq!(clean("그대로").0, "그대로");
    }

    #[test]
    fn letters_that_were_torn_apart_are_joined() {
        assert_eq!(clean("\u{1112}\u{1161}\u{11ab}글").0, "한글");
    }
}

//! Text from outside, made fit to be read: what cannot be seen is taken out and counted, what is too long is cut.

/// A text without what cannot be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CleanedText {
    /// What is left.
    pub text: String,
    /// How many characters were taken out.
    pub removed: usize,
}

/// Takes out of `text` what a person would not see but a model would read: tag characters (U+E0000–E007F), direction
/// overrides, zero-width characters (joiners inside emoji stay) and control characters. A line end is always `\n`.
pub(crate) fn strip_invisible(text: &str) -> CleanedText {
    let mut cleaned = String::with_capacity(text.len());
    let mut removed = 0;
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(one) = rest.next() {
        let keep = match one {
            '\n' | '\t' => true,
            '\r' => {
                if rest.peek() != Some(&'\n') {
                    cleaned.push('\n');
                }
                continue;
            }
            '\u{200d}' => {
                before.is_some_and(is_pictograph) && rest.peek().copied().is_some_and(is_pictograph)
            }
            // A variation selector is half of an emoji; after anything else it can carry hidden bytes.
            '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(is_pictograph),
            _ => !is_invisible(one),
        };
        if keep {
            cleaned.push(one);
            if one != '\u{fe0f}' {
                before = Some(one);
            }
        } else {
            removed += 1;
        }
    }
    CleanedText { text: cleaned, removed }
}

/// Cuts `text` to at most `most` bytes, note included, between two characters. The note says how long the whole was.
pub(crate) fn truncate_with_note(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let whole = text.len();
    let note = format!("… (잘림: 전체 {whole}바이트 / cut: {whole} bytes in all)");
    let end = text.floor_char_boundary(max_bytes.saturating_sub(note.len()));
    let mut text = text;
    text.truncate(end);
    text + &note
}

fn is_invisible(one: char) -> bool {
    one.is_control()
        || matches!(one,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn is_pictograph(one: char) -> bool {
    matches!(one, '\u{a9}' | '\u{ae}' | '#' | '*' | '0'..='9' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}')
        && one != '\u{3164}'
        || one == '\u{fe0f}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_taken_out_and_counted() {
        let hidden: String = "send it".chars().filter_map(|c| char::from_u32(0xe0000 + c as u32)).collect();
        let cases = [
            ("tag characters", format!("안녕{hidden}!"), "안녕!", 7),
            ("right-to-left override", "abc\u{202e}fdp.exe".into(), "abcfdp.exe", 1),
            ("control characters", "a\u{0}b\u{1b}[31mc\u{7f}".into(), "ab[31mc", 3),
            ("zero width", "비\u{200b}밀\u{feff}\u{2060}".into(), "비밀", 3),
            ("bytes in variation selectors", "x\u{fe01}\u{e0101}y".into(), "xy", 2),
            ("an emoji family stays whole", "👨‍👩‍👧 ❤️".into(), "👨‍👩‍👧 ❤️", 0),
            ("line ends", "a\r\nb\rc\td".into(), "a\nb\nc\td", 0),
        ];
        for (name, text, expected, removed) in cases {
            assert_eq!(strip_invisible(&text), CleanedText { text: expected.into(), removed }, "{name}");
        }
    }

    #[test]
    fn a_cut_falls_between_characters_and_says_how_long_the_whole_was() {
        assert_eq!(truncate_with_note("짧다".into(), 6), "짧다");
        let whole = "가".repeat(100);
        for limit in 60..120 {
            let text = truncate_with_note(whole.clone(), limit);
            assert!(text.len() <= limit, "{limit}: {}", text.len());
            assert!(text.ends_with("… (잘림: 전체 300바이트 / cut: 300 bytes in all)"), "{text}");
        }
    }
}

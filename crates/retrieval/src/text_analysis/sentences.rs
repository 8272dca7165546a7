//! Splits a text into sentences.

/// The sentences of a line. `.`, `!`, `?` or `。` before a space or the end closes one, and `②` begins one; so `1.5` and
/// `a.b` stay whole. A stop before a small letter is that of an abbreviation, as in "9 a.m. and 6 p.m.".
pub fn split_sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        if is_circled_number(char) && text[start..at].trim().chars().any(char::is_alphanumeric) {
            let inside = text[..at].ends_with(|before: char| !before.is_whitespace());
            if !inside {
                found.push(text[start..at].trim());
                start = at;
            }
        }
        let stop = matches!(char, '.' | '!' | '?' | '。');
        // A numbered item such as "1. text" is one sentence with its number.
        let number = char == '.' && text[start..at].trim().chars().all(|c| c.is_ascii_digit());
        let next = chars.peek().map(|(_, next)| *next);
        let goes_on = text[..at].ends_with(|before: char| before.is_ascii_alphabetic())
            && text[at + char.len_utf8()..].trim_start().starts_with(|next: char| next.is_ascii_lowercase());
        if stop && !number && !goes_on && next.is_none_or(|next| next.is_whitespace() || is_closing(next)) {
            let mut end = at + char.len_utf8();
            while let Some((_, quote)) = chars.next_if(|(_, next)| is_closing(*next)) {
                end += quote.len_utf8();
            }
            found.push(text[start..end].trim());
            start = end;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    found
}

fn is_closing(char: char) -> bool {
    matches!(char, '"' | '\'' | ')' | ']' | '”' | '’' | '」')
}

/// Whether a character is a number in a circle, as clauses have it.
pub fn is_circled_number(char: char) -> bool {
    ('①'..='⑳').contains(&char)
}

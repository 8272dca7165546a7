//! Splits a text into sentences.

/// The sentences of a line. `.`, `!`, `?` or `。` before a space or the end closes one, and `②` begins one; so `1.5` and
/// `a.b` stay whole. A stop before a small letter is that of an abbreviation, as in "9 a.m. and 6 p.m.".
pub fn split_sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut open) = (0, OpenSentence::default());
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let before = text[..at].chars().next_back();
        if is_circled_number(char) && open.has_words && before.is_some_and(char::is_whitespace) {
            found.push(text[start..at].trim());
            (start, open) = (at, OpenSentence::default());
        }
        let is_stop = matches!(char, '.' | '!' | '?' | '。');
        let next = chars.peek().map(|(_, next)| *next);
        if is_stop
            && next.is_none_or(|next| next.is_whitespace() || is_closing(next))
            // A numbered item such as "1. text" is one sentence with its number.
            && !(char == '.' && open.is_number())
            && !is_abbreviation(before, &text[at + char.len_utf8()..])
        {
            let mut end = at + char.len_utf8();
            while let Some((_, quote)) = chars.next_if(|(_, next)| is_closing(*next)) {
                end += quote.len_utf8();
            }
            found.push(text[start..end].trim());
            (start, open) = (end, OpenSentence::default());
        } else {
            open.read(char);
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    found
}

/// What was read of a sentence so far. A look back at the text for every stop would be quadratic.
#[derive(Default)]
struct OpenSentence {
    has_words: bool,
    has_digits: bool,
    /// Whether blanks follow the digits.
    is_after_digits: bool,
    /// Whether there is anything but digits with blanks around them.
    has_others: bool,
}

impl OpenSentence {
    fn read(&mut self, char: char) {
        self.has_words |= char.is_alphanumeric();
        if char.is_whitespace() {
            self.is_after_digits = self.has_digits;
        } else {
            self.has_others |= self.is_after_digits || !char.is_ascii_digit();
            self.has_digits |= char.is_ascii_digit();
        }
    }

    /// Whether there are no more than the digits of one number.
    fn is_number(&self) -> bool {
        !self.has_others
    }
}

/// Whether a stop is that of an abbreviation: it follows a letter, and the text goes on with a small one.
fn is_abbreviation(before: Option<char>, after: &str) -> bool {
    before.is_some_and(|before| before.is_ascii_alphabetic())
        && after.trim_start().starts_with(|next: char| next.is_ascii_lowercase())
}

fn is_closing(char: char) -> bool {
    matches!(char, '"' | '\'' | ')' | ']' | '”' | '’' | '」')
}

/// Whether a character is a number in a circle, as clauses have it.
pub fn is_circled_number(char: char) -> bool {
    ('①'..='⑳').contains(&char)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear_cost::assert_cost_is_linear;

    /// Splits as `split_sentences`, but looks at the whole sentence again at each character.
    fn split_by_looking_back(text: &str) -> Vec<&str> {
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
            let number = char == '.' && text[start..at].trim().chars().all(|c| c.is_ascii_digit());
            let next = chars.peek().map(|(_, next)| *next);
            let goes_on = text[..at].ends_with(|before: char| before.is_ascii_alphabetic())
                && text[at + char.len_utf8()..]
                    .trim_start()
                    .starts_with(|next: char| next.is_ascii_lowercase());
            if stop && !number && !goes_on && next.is_none_or(|next| next.is_whitespace() || is_closing(next))
            {
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

    /// Random texts of a few characters that matter, the same in every run.
    fn random_texts(count: usize) -> impl Iterator<Item = String> {
        const ALPHABET: [&str; 20] = [
            "1", "2", ".", ".", ".", "①", "②", " ", " ", "\u{3000}", "a", "b", "A", "가", "다", "\"", ")",
            "”", "?", "。",
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |bound: usize| {
            // xorshift
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).expect("31 bits") % bound
        };
        (0..count).map(move |_| {
            let length = next(16);
            (0..length).map(|_| ALPHABET[next(ALPHABET.len())]).collect()
        })
    }

    #[test]
    fn sentences_are_those_of_looking_back_at_each_character() {
        for text in random_texts(200_000) {
            assert_eq!(split_sentences(&text), split_by_looking_back(&text), "{text:?}");
        }
    }

    #[test]
    fn a_text_without_end_of_sentence_costs_no_more_by_the_character() {
        for (head, rest) in
            [("1", ".a"), (" ", ".a"), ("-", "①"), ("-", "x①"), ("a. ", "a."), (" ", "a. "), ("1 .", " ①")]
        {
            assert_cost_is_linear(&format!("{head:?}, then {rest:?}"), |size| {
                let text = head.repeat(size) + &rest.repeat(size);
                move || drop(split_sentences(&text))
            });
        }
    }
}

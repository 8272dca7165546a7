//! Which words of a source an answer quotes. Only words that stand in the source are ever shown as a quote.

use crate::source::Source;

/// Quotes shorter than this, in characters, say nothing about where they come from.
const SHORTEST: usize = 4;

/// The sources that an answer names, each narrowed to the words that the answer quotes from it, where it does.
pub(super) fn cited(answer: &str, collected: &[Source]) -> Vec<Source> {
    Source::named_in(answer, collected).into_iter().map(|source| narrowed(answer, source)).collect()
}

fn narrowed(answer: &str, source: Source) -> Source {
    let mark = format!("[{}]", source.number);
    // The quote before a mark belongs to it; the nearest one that stands in the source counts.
    let before = answer.match_indices(&mark).map(|(at, _)| &answer[..at]);
    let quotes = before.flat_map(|before| quoted(before).into_iter().rev().take(1));
    for quote in quotes {
        if let Some(at) = source.quote.find(quote) {
            let start = source.start + at;
            return Source { quote: quote.to_owned(), start, end: start + quote.len(), ..source };
        }
    }
    source
}

fn quoted(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (at, char) in text.char_indices() {
        match (open, char) {
            (None, '"') => open = Some((at + 1, '"')),
            (None, '“') => open = Some((at + '“'.len_utf8(), '”')),
            (None, '「') => open = Some((at + '「'.len_utf8(), '」')),
            (Some((start, close)), _) if char == close => {
                let quote = text[start..at].trim();
                if quote.chars().count() >= SHORTEST {
                    found.push(quote);
                }
                open = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32, start: usize, quote: &str) -> Source {
        Source { number, start, end: start + quote.len(), quote: quote.into(), ..Source::default() }
    }

    #[test]
    fn a_quote_is_narrowed_to_words_of_its_source_and_made_up_ones_are_not_shown() {
        let text = "제5조(해지) ① 해지는 30일 전에 서면으로 통보한다. ② 위약금은 잔여 대금의 10%로 한다.";
        let collected = [source(1, 100, text), source(2, 500, "제9조(비밀유지) 3년간 지킨다.")];
        let shown = |answer: &str| -> Vec<(u32, String)> {
            cited(answer, &collected).into_iter().map(|source| (source.number, source.quote)).collect()
        };
        let honest = "통보는 \"30일 전에 서면으로 통보한다\" [1]이고, 비밀은 \"3년간 지킨다.\" [2]";
        assert_eq!(shown(honest), [(1, "30일 전에 서면으로 통보한다".into()), (2, "3년간 지킨다.".into())]);
        let made_up = "위약금은 \"잔여 대금의 50%로 한다\" [1]";
        assert_eq!(shown(made_up), [(1, text.into())], "the place is shown, the made-up words are not");
        for source in cited(honest, &collected) {
            let whole = if source.number == 1 {
                (100, text)
            } else {
                (500, "제9조(비밀유지) 3년간 지킨다.")
            };
            assert_eq!(&whole.1[source.start - whole.0..source.end - whole.0], source.quote);
        }
        assert!(shown("근거가 없습니다.").is_empty());
    }
}

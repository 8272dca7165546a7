//! Finds the words of a source that an answer quotes. Only words that are in the source are shown as a quote.

use doran_llm::find_citation_marks;
use doran_retrieval::Document;
use doran_retrieval::contract::Contract;

use crate::source::AnswerSource;

/// Quotes shorter than this, in characters, say nothing about where they come from.
const MIN_QUOTE_CHARS: usize = 4;

/// The sources that an answer names, each narrowed to the words that the answer quotes from it, where it does.
pub(super) fn cited_sources(answer: &str, collected: &[AnswerSource]) -> Vec<AnswerSource> {
    AnswerSource::cited_in(answer, collected)
        .into_iter()
        .map(|source| narrow_to_quote(answer, source))
        .collect()
}

fn narrow_to_quote(answer: &str, source: AnswerSource) -> AnswerSource {
    // The quote before a mark belongs to it; those that stand in the source count, from the first to the last.
    let marks = find_citation_marks(answer).into_iter().filter(|mark| mark.numbers.contains(&source.number));
    let before = marks.map(|mark| &answer[..mark.range.start]);
    let quotes = before.filter_map(|before| quoted_phrases(before).pop());
    let places = quotes.filter_map(|quote| source.quote.find(quote).map(|at| (at, at + quote.len())));
    let hull = places.reduce(|whole, place| (whole.0.min(place.0), whole.1.max(place.1)));
    match hull {
        Some((from, to)) => AnswerSource {
            quote: source.quote[from..to].to_owned(),
            start: source.start + from,
            end: source.start + to,
            ..source
        },
        None => source,
    }
}

/// The source with the clause that its quote stands in, where it stands in one.
pub(super) fn with_clause(document: &Document, source: AnswerSource) -> AnswerSource {
    let contract = Contract::parse(document);
    let holds = |range: &std::ops::Range<usize>| range.start <= source.start && source.end <= range.end;
    let article = contract.articles.iter().find(|article| holds(&article.range));
    let clause = article.and_then(|article| article.clauses.iter().find(|clause| holds(&clause.range)));
    let clause = clause.map(|clause| clause.label.clone()).or_else(|| source.clause.clone());
    AnswerSource { clause, ..source }
}

fn quoted_phrases(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (at, char) in text.char_indices() {
        match (open, char) {
            (None, '"') => open = Some((at + 1, '"')),
            (None, '“') => open = Some((at + '“'.len_utf8(), '”')),
            (None, '「') => open = Some((at + '「'.len_utf8(), '」')),
            (Some((start, close)), _) if char == close => {
                let quote = text[start..at].trim();
                if quote.chars().count() >= MIN_QUOTE_CHARS {
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

    fn source(number: u32, start: usize, quote: &str) -> AnswerSource {
        AnswerSource {
            number,
            start,
            end: start + quote.len(),
            quote: quote.into(),
            ..AnswerSource::default()
        }
    }

    #[test]
    fn a_quote_is_narrowed_to_words_of_its_source_and_made_up_ones_are_not_shown() {
        let text = "제5조(해지) ① 해지는 30일 전에 서면으로 통보한다. ② 위약금은 잔여 대금의 10%로 한다.";
        let collected = [source(1, 100, text), source(2, 500, "제9조(비밀유지) 3년간 지킨다.")];
        let shown = |answer: &str| -> Vec<(u32, String)> {
            cited_sources(answer, &collected)
                .into_iter()
                .map(|source| (source.number, source.quote))
                .collect()
        };
        let honest = "통보는 \"30일 전에 서면으로 통보한다\" [1]이고, 비밀은 \"3년간 지킨다.\" [2]";
        assert_eq!(shown(honest), [(1, "30일 전에 서면으로 통보한다".into()), (2, "3년간 지킨다.".into())]);
        let made_up = "위약금은 \"잔여 대금의 50%로 한다\" [1]";
        assert_eq!(shown(made_up), [(1, text.into())], "the place is shown, the made-up words are not");
        for source in cited_sources(honest, &collected) {
            let whole = if source.number == 1 {
                (100, text)
            } else {
                (500, "제9조(비밀유지) 3년간 지킨다.")
            };
            assert_eq!(&whole.1[source.start - whole.0..source.end - whole.0], source.quote);
        }
        assert!(shown("근거가 없습니다.").is_empty());
    }
    #[test]
    fn several_quotes_of_one_source_are_shown_from_the_first_to_the_last() {
        let text = "① 가나다라 마바사. ② 아자차카 타파하. ③ 끝나는 말이다.";
        let collected = [source(1, 10, text)];
        let answer = "\"② 아자차카 타파하.\" [1]\n\"① 가나다라 마바사.\" [1]";
        let shown = cited_sources(answer, &collected);
        assert_eq!(shown[0].quote, "① 가나다라 마바사. ② 아자차카 타파하.");
        assert_eq!((shown[0].start, shown[0].end - shown[0].start), (10, shown[0].quote.len()));
    }

    #[test]
    fn a_quote_within_a_clause_names_it_and_one_across_clauses_does_not() {
        let text = "계약서\n\n제5조(해지) ① 해지는 30일 전에 알린다.\n② 위약금은 10%로 한다.\n";
        let document = Document::new("계약.md", "계약서", text);
        let clause = |quote: &str| {
            let start = text.find(quote).expect("there");
            with_clause(&document, source(1, start, quote)).clause
        };
        assert_eq!(clause("30일 전에 알린다").as_deref(), Some("①"));
        assert_eq!(clause("위약금은 10%로 한다.").as_deref(), Some("②"));
        assert_eq!(clause("30일 전에 알린다.\n② 위약금은"), None);
        assert_eq!(clause("제5조(해지)"), None);
    }
}

//! The sources of an answer as `url_citation` annotations: where the mark is in the text, and what it cites.

use doran_agents::AnswerSource;

use crate::api::{OpenAiAnnotation, UrlCitation};
use crate::url_encoding::percent_encode;

/// One for each source, by the first mark that names it. Places are counted in characters.
pub(super) fn url_citations(words: &str, sources: &[AnswerSource], origin: &str) -> Vec<OpenAiAnnotation> {
    sources.iter().map(|source| url_citation(words, source, origin)).collect()
}

fn url_citation(words: &str, source: &AnswerSource, origin: &str) -> OpenAiAnnotation {
    let (start, end) = find_citation_mark(words, source.number).unwrap_or_default();
    let count = |at: usize| words[..at].chars().count();
    OpenAiAnnotation {
        kind: "url_citation",
        url_citation: UrlCitation {
            start_index: count(start),
            end_index: count(end),
            title: source.title.clone(),
            url: format!("{origin}/api/documents/{}/text", percent_encode(&source.document)),
            number: source.number,
            document: source.document.clone(),
            page: source.page,
            quote: source.quote.clone(),
        },
    }
}

/// Where the first `[…]` that names this number stands, in bytes.
fn find_citation_mark(words: &str, number: u32) -> Option<(usize, usize)> {
    let opens = words.match_indices('[').map(|(at, _)| at);
    opens
        .filter_map(|at| {
            let list = &words[at + 1..at + 1 + words[at + 1..].find(']')?];
            let names = list.split(',').any(|one| one.trim().parse() == Ok(number));
            names.then_some((at, at + list.len() + 2))
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_stands_where_its_source_is_first_named() {
        let source = |number| AnswerSource { number, document: "가 b".into(), ..AnswerSource::default() };
        let citations = url_citations(
            "연차는 [참고] 15일 [1], 병가는 10일 [2, 1]. [3",
            &[source(1), source(2), source(3)],
            "http://localhost",
        );
        let places: Vec<(usize, usize)> =
            citations.iter().map(|one| (one.url_citation.start_index, one.url_citation.end_index)).collect();
        assert_eq!(places, [(13, 16), (26, 32), (0, 0)]);
        assert_eq!(citations[0].url_citation.url, "http://localhost/api/documents/%EA%B0%80%20b/text");
    }
}

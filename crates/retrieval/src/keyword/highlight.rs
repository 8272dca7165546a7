//! Finds the words of a query in a passage, to highlight them and to explain a hit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use serde::Serialize;

use crate::passage::{ArticleNumber, Passage};
use crate::text_analysis::{self, TermLayer, text_stems};

use super::article_numbers::{ArticlePlaces, article_of_passage, find_article_numbers};
use super::query::MAX_QUERY_BYTES;
use super::synonyms;

/// A query word that occurs in a passage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Highlight {
    /// The stem that was searched: of a word of the query or of a synonym. An English word is given as the passage has
    /// it, because its stem may not be a word, and so is a synonym of several stems.
    pub term: String,
    /// Its byte ranges in the text of the passage.
    pub ranges: Vec<Range<usize>>,
}

/// The most words of a query that are highlighted. The first ones count.
const MAX_HIGHLIGHTED_TERMS: usize = 64;

/// Returns the words of a query that occur in a text, in the order of the query, and references to the articles that
/// it names by number. Pairs of syllables are returned only where no whole word matches. Of a long query only the first
/// words are looked for.
pub fn highlights(question: &str, text: &str) -> Vec<Highlight> {
    let mut stems = Vec::new();
    let mut pairs = Vec::new();
    let mut parts = Vec::new();
    let question = &question[..question.floor_char_boundary(MAX_QUERY_BYTES)];
    let articles = find_article_numbers(question);
    let places = ArticlePlaces::new(&articles);
    text_analysis::for_each_term(question, |layer, term, range| match layer {
        // The digits of an article number are no words.
        _ if places.overlap(&range) => {}
        TermLayer::Stems if stems.len() < MAX_HIGHLIGHTED_TERMS => {
            stems.push(term.to_owned());
            parts.push((term.to_owned(), range));
        }
        TermLayer::Bigrams if pairs.len() < MAX_HIGHLIGHTED_TERMS => pairs.push(term.to_owned()),
        TermLayer::Stems | TermLayer::Bigrams => {}
    });
    let torn = find_split_syllables(question, &parts);
    let mut compounds = Vec::new();
    for (word, _) in synonyms::find_synonyms(&stems.clone()) {
        let mut parts: Vec<String> = text_stems(&word).into_iter().map(|(stem, _)| stem).collect();
        match parts.len() {
            0 | 1 => stems.append(&mut parts),
            _ => compounds.push(parts),
        }
    }
    let mut found = join_split_syllables(highlight_terms(text, TermLayer::Stems, &stems), text, &torn);
    found.extend(highlight_compounds(text, &compounds));
    if found.is_empty() {
        found = highlight_terms(text, TermLayer::Bigrams, &pairs);
    }
    found.extend(highlight_articles(text, &articles));
    found
}

/// Returns the places where a text refers to one of these articles.
fn highlight_articles(text: &str, articles: &[(ArticleNumber, Range<usize>)]) -> Option<Highlight> {
    if articles.is_empty() {
        return None;
    }
    let wanted: HashSet<ArticleNumber> = articles.iter().map(|(number, _)| *number).collect();
    let mut ranges: Vec<Range<usize>> = find_article_numbers(text)
        .into_iter()
        .filter(|(number, _)| wanted.contains(number))
        .map(|(_, range)| range)
        .collect();
    // The articles of 제3~5조 share one place.
    ranges.dedup();
    let term = ranges.first().and_then(|range| text.get(range.clone()))?.to_owned();
    Some(Highlight { term, ranges })
}

/// Syllables of a longer word that were taken for a word, with the characters before and after them in the query.
type SplitSyllables = HashMap<String, Vec<(Option<char>, Option<char>)>>;

/// Returns the one-syllable words that were split from a longer word, such as 방 from 방문객.
fn find_split_syllables(question: &str, parts: &[(String, Range<usize>)]) -> SplitSyllables {
    let mut torn = SplitSyllables::new();
    for (term, range) in parts.iter().filter(|(term, _)| term.chars().count() == 1) {
        let before = parts.iter().any(|(_, other)| other.end == range.start);
        let after = parts.iter().any(|(_, other)| other.start == range.end);
        let before = question[..range.start].chars().next_back().filter(|_| before);
        let after = question[range.end..].chars().next().filter(|_| after);
        torn.entry(term.clone()).or_default().push((before, after));
    }
    // A syllable that also occurs alone is a word of its own.
    torn.retain(|_, beside| beside.iter().all(|beside| *beside != (None, None)));
    torn
}

/// Removes split syllables whose neighbours differ from those in the query, and joins the others to the word that they
/// are a part of.
fn join_split_syllables(mut found: Vec<Highlight>, text: &str, torn: &SplitSyllables) -> Vec<Highlight> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for Highlight { term, ranges } in &mut found {
        let Some(wanted) = torn.get(term) else { continue };
        ranges.retain(|range| {
            let before = text[..range.start].chars().next_back();
            let after = text[range.end..].chars().next();
            let same = |(left, right): &(Option<char>, Option<char>)| {
                left.is_some() && *left == before || right.is_some() && *right == after
            };
            wanted.iter().any(same)
        });
        joined.extend(ranges.iter().cloned());
    }
    let mut is_part_of_word = HashSet::new();
    for syllable in joined {
        let mut others = found.iter_mut().filter(|other| !torn.contains_key(&other.term));
        let beside = others.find_map(|other| {
            // They are in the order of the text.
            let at = other.ranges.partition_point(|range| range.end < syllable.start);
            let near = other.ranges[at..].iter_mut().take_while(|range| range.start <= syllable.end);
            near.into_iter().find(|range| range.start == syllable.end || range.end == syllable.start)
        });
        if let Some(range) = beside {
            *range = range.start.min(syllable.start)..range.end.max(syllable.end);
            is_part_of_word.insert(syllable);
        }
    }
    for highlight in found.iter_mut().filter(|one| torn.contains_key(&one.term)) {
        highlight.ranges.retain(|range| !is_part_of_word.contains(range));
    }
    found.retain(|highlight| !highlight.ranges.is_empty());
    found
}

/// Explains why a passage was found: the article that the query names by number, then the words of the passage that
/// match the query, whole and as they are written. Words of the title are used if the text has none. Returns nothing
/// for a passage that only the vector search found.
pub fn match_reasons(question: &str, passage: &Passage) -> Vec<String> {
    let named = find_article_numbers(question);
    let mine = article_of_passage(passage).filter(|mine| named.iter().any(|(number, _)| number == mine));
    let mut reasons: Vec<String> = mine.map(|number| number.to_string()).into_iter().collect();
    let mut words = matching_words(question, &passage.text);
    if words.is_empty() {
        words = matching_words(question, &passage.title);
    }
    for word in words {
        if !reasons.iter().any(|known| known.contains(word)) {
            reasons.push(word.to_owned());
        }
    }
    reasons
}

/// Returns the words of a text that match a word of the query, as they are written, each once.
fn matching_words<'a>(question: &str, text: &'a str) -> Vec<&'a str> {
    let found = highlights(question, text);
    let whole = |range: &Range<usize>| {
        let part = |char: &char| char.is_alphanumeric();
        let before: usize = text[..range.start].chars().rev().take_while(part).map(char::len_utf8).sum();
        let after: usize = text[range.end..].chars().take_while(part).map(char::len_utf8).sum();
        &text[range.start - before..range.end + after]
    };
    found.iter().filter_map(|found| found.ranges.first()).map(whole).collect()
}

/// Finds words of several stems where all of them stand side by side. One stem alone may be that of another word: 자동 of
/// 자동차 is in 자동 연장, too.
fn highlight_compounds(text: &str, compounds: &[Vec<String>]) -> Vec<Highlight> {
    if compounds.is_empty() {
        return Vec::new();
    }
    let mut by_first_stem: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, parts) in compounds.iter().enumerate() {
        by_first_stem.entry(&parts[0]).or_default().push(at);
    }
    let stems = text_stems(text);
    let mut ranges: Vec<Vec<Range<usize>>> = vec![Vec::new(); compounds.len()];
    for (start, (first, range)) in stems.iter().enumerate() {
        for at in by_first_stem.get(first.as_str()).into_iter().flatten() {
            let parts = &compounds[*at];
            let Some(beside) = stems.get(start..start + parts.len()) else { continue };
            if beside.iter().map(|(stem, _)| stem).eq(parts) {
                let end = beside.last().map_or(range.end, |(_, last)| last.end);
                ranges[*at].push(range.start..end);
            }
        }
    }
    let found = ranges.into_iter().filter_map(|ranges| {
        let term = text.get(ranges.first()?.clone())?.to_lowercase();
        Some(Highlight { term, ranges })
    });
    found.collect()
}

fn highlight_terms(text: &str, layer: TermLayer, wanted: &[String]) -> Vec<Highlight> {
    let mut order: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found: Vec<Highlight> = Vec::new();
    for term in wanted {
        if !order.contains_key(term.as_str()) {
            order.insert(term, found.len());
            found.push(Highlight { term: term.clone(), ranges: Vec::new() });
        }
    }
    text_analysis::for_each_term(text, |of, term, range| {
        if of == layer
            && let Some(at) = order.get(term)
        {
            found[*at].ranges.push(range);
        }
    });
    found.retain(|highlight| !highlight.ranges.is_empty());
    for Highlight { term, ranges } in &mut found {
        if term.is_ascii()
            && let Some(word) = ranges.first().and_then(|range| text.get(range.clone()))
        {
            *term = word.to_lowercase();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear_cost::assert_cost_is_linear;

    #[test]
    fn a_text_of_the_same_words_costs_no_more_by_the_word() {
        for unit in ["방문객 ", "방문객은 상대방에게 ", "「민법」 제1조 ", "방", "부칙"]
        {
            assert_cost_is_linear(unit, |size| {
                let text = unit.repeat(size / 4);
                move || drop(highlights("방문객의 방 제1조", &text))
            });
        }
    }

    fn check(question: &str, text: &str, expected: &str) {
        let shown: Vec<String> = highlights(question, text)
            .iter()
            .map(|highlight| {
                let words: Vec<&str> = highlight.ranges.iter().map(|range| &text[range.clone()]).collect();
                format!("{}={}", highlight.term, words.join(","))
            })
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn a_hit_shows_which_words_of_the_question_it_holds() {
        check("연차휴가는 며칠?", "휴가는 연차로 15일, 휴가비 별도", "연차=연차 휴가=휴가,휴가");
        check(
            "terminating the agreement",
            "Either party may terminate this Agreement.",
            "terminate=terminate agreement=Agreement",
        );
        check("월급", "임금은 매월 지급한다", "임금=임금");
        check("", "휴가", "");
        check("방문객", "방문객은 상대방에게 알린다", "문객=방문객");
        check("방은 몇 개", "방이 둘이다", "방=방");
        check("제5조", "제5조에 따라 제3자에게 5일 안에 알린다. 제 5 조는 예외", "제5조=제5조,제 5 조");
        for question in ["제10-2조", "10의2조"] {
            check(question, "② 제3자에게 10일의 기간을 준다.", "");
            check(question, "제10조의2에 따른 기간", "제10조의2=제10조의2");
        }
        check("art. 5 fees", "Fees under Article 5 and Section 15", "fees=Fees Article 5=Article 5");
    }

    #[test]
    fn a_synonym_of_several_stems_counts_where_they_stand_together() {
        check("택시비", "계약은 자동 연장된다. 차를 세운다.", "");
        check(
            "택시",
            "여객자동차 운송사업자와 여객 자동차",
            "여객자동차=여객자동차,여객 자동차 운송사업=운송사업",
        );
    }

    #[test]
    fn a_reason_is_a_word_as_it_is_written_or_the_number_that_was_asked_for() {
        let highlighted = |question: &str, title: &str, text: &str| {
            let passage = Passage { title: title.into(), text: text.into(), ..Passage::default() };
            match_reasons(question, &passage).join(", ")
        };
        assert_eq!(highlighted("구월산은 어디?", "산", "황해도의 구월산에는 절이 있다."), "구월산에는");
        for asked in ["제 5 조", "第五條", "제오조"] {
            assert_eq!(
                highlighted(asked, "규정 › 제5조(목적)", "이 규정은 휴가를 정한다."),
                "제5조",
                "{asked}"
            );
        }
        assert_eq!(highlighted("경조사 휴가", "경조사 휴가", "본인 결혼은 닷새."), "경조사, 휴가");
        assert_eq!(highlighted("vacation days", "휴가", "연차는 15일"), "");
    }
}

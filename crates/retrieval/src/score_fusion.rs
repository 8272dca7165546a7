//! Merges keyword hits and vector hits: a weighted sum of the scores. The best keyword score becomes 1 and the others keep
//! their ratio to it; vector scores are spread from 0 to 1.
//!
//! Ranks are not fused. With an embedder that is weaker than keyword search, reciprocal rank fusion gives worse results
//! on every set of a single language. The weight of the vector score depends on the languages of the query and of the
//! passage. Within one language it also depends on the evidence: the more of the query the best keyword hit contains, and
//! the farther it is ahead of the second one, the less the vectors weigh, and nothing if the query contains its heading. A
//! query of which a passage in another language contains every word is a code or a name, and vectors count for nothing.
//! A long passage has one vector for many sentences, so its vector weighs less.
//!
//! Passages whose article the query names by number come first, in any language. Scores are between 0 and 1 and fall
//! with the evidence: a query that shares no word with any passage scores at most its highest similarity, and a passage
//! that is not the article that the query names by number scores at most half.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use doran_llm::EmbedderInfo;

use crate::keyword::article_numbers::article_of_passage;
use crate::keyword::search::MAX_STEMS_FOR_TYPO_TOLERANCE;
use crate::keyword::{ARTICLE_NUMBER_BOOST, find_article_numbers, is_one_typo_apart, letters_and_digits};
use crate::language::{Language, is_hangul_syllable};
use crate::passage::{ArticleNumber, Passage, PassageId};
use crate::retriever::Hit;
use crate::split::HEADING_SEPARATOR;
use crate::text_analysis::{TermLayer, for_each_term};

/// The weight of the vector score; the rest of a score comes from keywords.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FusionWeights {
    /// The weight if query and passage are both Korean, or if one of them is neither Korean nor English.
    pub korean: f64,
    /// The weight if both are English.
    pub english: f64,
    /// The weight if one is Korean and the other English.
    pub cross_language: f64,
    /// A passage without any word of the query is found by its vector only if the dot product is at least this. A
    /// question about something else finds nothing then.
    pub min_similarity: f64,
}

/// Keywords always have at least this weight, so that an exact name is never lost.
pub(crate) const MIN_KEYWORD_WEIGHT: f64 = 0.1;

/// The share of a score that a passage gets for being the article that the query names by number.
const NAMED_ARTICLE_SHARE: f64 = 0.5;

/// If the best keyword hit contains up to the first share of the terms of a query, vectors have their full weight. From the
/// second share on they have none.
const COVERAGE_WITH_FULL_WEIGHT: f64 = 0.3;
const COVERAGE_WITHOUT_WEIGHT: f64 = 0.75;

/// The share of their weight that vectors lose beside a keyword hit that is the only one.
const LEAD_DISCOUNT: f64 = 0.25;

/// Vectors of longer passages weigh less. In Korean; English needs twice as many letters for the same text.
const MAX_CHARS_WITH_FULL_WEIGHT: f64 = 700.0;

/// The provider in the identifier of the embedder that is compiled in.
pub(crate) const BUILT_IN_PROVIDER: &str = "built-in";

impl Default for FusionWeights {
    /// The weights for a multilingual embedder that is weaker than keyword search within one language.
    fn default() -> Self {
        Self { korean: 0.15, english: 0.3, cross_language: 0.9, min_similarity: -1.0 }
    }
}

impl FusionWeights {
    /// Returns the weights for an embedder. An embedder of a single language is assumed to be for English, and to be
    /// better at it than a multilingual one; its vectors for other languages are ignored.
    pub(crate) fn for_embedder(about: &EmbedderInfo) -> Self {
        if about.id.split(':').next() == Some(BUILT_IN_PROVIDER) {
            // It was trained on Korean documents, and on less English.
            Self { korean: 0.55, english: 0.3, cross_language: 0.9, min_similarity: 0.25 }
        } else if about.multilingual {
            Self::default()
        } else {
            Self { korean: 0.0, english: 0.5, cross_language: 0.0, ..Self::default() }
        }
    }

    /// Returns the weight of the vector score for a query and a passage of these languages.
    pub(crate) fn vector_weight(&self, question: Option<Language>, passage: Option<Language>) -> f64 {
        let weight = match (question, passage) {
            (question, passage) if is_cross_language(question, passage) => self.cross_language,
            (Some(Language::English), Some(Language::English)) => self.english,
            _ => self.korean,
        };
        weight.clamp(0.0, 1.0 - MIN_KEYWORD_WEIGHT)
    }
}

/// Detects the language of a text of a document or a query; `None` for numbers, punctuation and other scripts. A text counts
/// as Korean if a tenth of its letters are Hangul, because Korean texts often quote English names.
pub(crate) fn dominant_language(text: &str) -> Option<Language> {
    let (mut hangul, mut latin) = (0_usize, 0_usize);
    for char in text.chars().take(2000) {
        hangul += usize::from(is_hangul_syllable(char));
        latin += usize::from(char.is_ascii_alphabetic());
    }
    match (hangul, latin) {
        (0, 0) => None,
        (hangul, latin) if hangul * 10 >= latin => Some(Language::Korean),
        _ => Some(Language::English),
    }
}

/// Merges both hit lists, best first. Equal scores are ordered by the identifier of the passage. A keyword hit that is
/// not among the vector hits has no vector yet, and only its keyword score counts. A passage that is only a heading
/// gains nothing from its vector. If keyword search found articles that the query names by number, they come first.
pub(crate) fn fuse_hits(
    question: &str,
    keyword: &[Hit],
    vector: &[Hit],
    weights: &FusionWeights,
    limit: usize,
) -> Vec<Hit> {
    let question_language = dominant_language(question);
    let numbers = find_article_numbers(question);
    let named = named_articles(&numbers, keyword);
    let evidence = keyword.first().map_or(0.0, |best| keyword_evidence(question, &best.passage));
    let relative = relative_scores(keyword);
    let trust = vector_trust(evidence, &relative);
    let nearest = vector.iter().map(|hit| hit.score).filter(|score| score.is_finite()).fold(0.0, f64::max);
    let certainty = evidence.max(nearest).clamp(MIN_KEYWORD_WEIGHT, 1.0);
    let mut scores: BTreeMap<&PassageId, (f64, Option<f64>, &Passage)> = BTreeMap::new();
    for (hit, score) in keyword.iter().zip(relative) {
        scores.insert(&hit.passage.id, (score, None, &hit.passage));
    }
    for (hit, score) in vector.iter().zip(spread_scores(vector)) {
        match scores.get_mut(&hit.passage.id) {
            Some(known) => known.1 = Some(score),
            // A score that is not a number is not compared.
            None if hit.score < weights.min_similarity => {}
            None => drop(scores.insert(&hit.passage.id, (0.0, Some(score), &hit.passage))),
        }
    }
    let mut fused: Vec<Hit> = scores
        .into_values()
        .map(|(keyword, vector, passage)| {
            let Some(vector) = vector else { return Hit { passage: passage.clone(), score: keyword } };
            let own = dominant_language(&passage.text);
            let weight = weights.vector_weight(question_language, own);
            let weight = match is_cross_language(question_language, own) {
                true if evidence >= 1.0 => 0.0,
                true => weight,
                false => weight * trust * focus(passage, own),
            };
            let vector = if is_heading_only(passage) { 0.0 } else { vector };
            Hit { passage: passage.clone(), score: (1.0 - weight) * keyword + weight * vector }
        })
        .filter(|hit| hit.score > 0.0)
        .collect();
    for hit in &mut fused {
        hit.score *= certainty;
        if !numbers.is_empty() {
            let share = if named.contains(&hit.passage.id) { NAMED_ARTICLE_SHARE } else { 0.0 };
            hit.score = share + (1.0 - NAMED_ARTICLE_SHARE) * hit.score;
        }
    }
    fused.sort_by(|left, right| right.score.total_cmp(&left.score));
    fused.truncate(limit);
    fused
}

/// Returns the keyword hits that were boosted because they are an article that the query names by number.
fn named_articles<'a>(
    numbers: &[(ArticleNumber, Range<usize>)],
    keyword: &'a [Hit],
) -> HashSet<&'a PassageId> {
    let is_named = |hit: &&Hit| {
        let article = article_of_passage(&hit.passage);
        hit.score >= f64::from(ARTICLE_NUMBER_BOOST)
            && numbers.iter().any(|(number, _)| article == Some(*number))
    };
    keyword.iter().filter(is_named).map(|hit| &hit.passage.id).collect()
}

/// Returns how much of a query the best keyword hit contains: 1 if the query names its heading, or else the share of
/// its terms.
fn keyword_evidence(question: &str, best: &Passage) -> f64 {
    if contains_heading(question, &best.title) { 1.0 } else { term_coverage(question, best) }
}

/// Returns how far vectors count beside these keyword scores: 0 if keywords are enough, 1 if they say little.
fn vector_trust(evidence: f64, keyword: &[f64]) -> f64 {
    let excess =
        (evidence - COVERAGE_WITH_FULL_WEIGHT) / (COVERAGE_WITHOUT_WEIGHT - COVERAGE_WITH_FULL_WEIGHT);
    let lead = keyword.first().map_or(0.0, |best| best - keyword.get(1).unwrap_or(&0.0));
    (1.0 - excess.clamp(0.0, 1.0)) * (1.0 - LEAD_DISCOUNT * lead)
}

/// Returns the share of the terms of a query that a passage contains: pairs of syllables, and words of other scripts,
/// which may have a typo in queries where keyword search corrects typos. A pair of syllables is too short for that.
fn term_coverage(question: &str, passage: &Passage) -> f64 {
    let mut missing = HashSet::new();
    let mut stem_count = 0;
    for_each_term(question, |layer, term, _| match layer {
        TermLayer::Bigrams => drop(missing.insert(term.to_owned())),
        TermLayer::Stems => stem_count += 1,
    });
    let term_count = missing.len();
    for text in [&passage.title, &passage.text] {
        for_each_term(text, |_, term, _| {
            missing.remove(term);
        });
    }
    if stem_count <= MAX_STEMS_FOR_TYPO_TOLERANCE && missing.iter().any(|wanted| wanted.is_ascii()) {
        for text in [&passage.title, &passage.text] {
            for_each_term(text, |_, term, _| {
                missing.retain(|wanted| !wanted.is_ascii() || !is_one_typo_apart(wanted, term));
            });
        }
    }
    if term_count == 0 { 0.0 } else { (term_count - missing.len()) as f64 / term_count as f64 }
}

/// Returns how well one vector can stand for a passage of this length.
fn focus(passage: &Passage, language: Option<Language>) -> f64 {
    let limit = match language {
        Some(Language::Korean) => MAX_CHARS_WITH_FULL_WEIGHT,
        Some(Language::English) | None => 2.0 * MAX_CHARS_WITH_FULL_WEIGHT,
    };
    let chars = passage.title.chars().count() + passage.text.chars().count();
    (limit / chars.max(1) as f64).min(1.0)
}

/// Returns whether the text of a passage is only its heading.
fn is_heading_only(passage: &Passage) -> bool {
    let text = letters_and_digits(&passage.text);
    let last = passage.title.rsplit(HEADING_SEPARATOR).next().unwrap_or_default();
    text == letters_and_digits(last) || text == letters_and_digits(&passage.title)
}

fn is_cross_language(question: Option<Language>, passage: Option<Language>) -> bool {
    matches!(
        (question, passage),
        (Some(Language::Korean), Some(Language::English)) | (Some(Language::English), Some(Language::Korean))
    )
}

/// Returns whether a query contains the last heading above a passage, ignoring whitespace and punctuation.
fn contains_heading(question: &str, title: &str) -> bool {
    let heading = letters_and_digits(last_heading_text(title));
    heading.chars().nth(1).is_some() && letters_and_digits(question).contains(&heading)
}

/// Returns the text of the last heading of a title without its article number: 연차휴가 for 취업규칙 › 제15조(연차휴가).
/// Returns the empty string for a document without headings.
fn last_heading_text(title: &str) -> &str {
    let (above, last) = title.rsplit_once(HEADING_SEPARATOR).map_or((false, title), |(_, last)| (true, last));
    match find_article_numbers(last).last() {
        Some((_, number)) => last.get(number.end..).unwrap_or_default(),
        None if above => last,
        None => "",
    }
}

/// The least score of a hit after scaling: it was found, so it is above 0.
const MIN_SCALED_SCORE: f64 = 1e-6;

fn finite_scores(hits: &[Hit]) -> Vec<f64> {
    hits.iter().map(|hit| if hit.score.is_finite() { hit.score } else { 0.0 }).collect()
}

/// The scores as shares of the best one.
fn relative_scores(hits: &[Hit]) -> Vec<f64> {
    let scores = finite_scores(hits);
    let high = scores.iter().copied().fold(0.0, f64::max);
    let scale = |score: f64| if high > 0.0 { score / high } else { 1.0 };
    scores.into_iter().map(|score| scale(score).max(MIN_SCALED_SCORE)).collect()
}

/// The scores spread out: the best becomes 1 and the last is just above 0.
fn spread_scores(hits: &[Hit]) -> Vec<f64> {
    let scores = finite_scores(hits);
    let high = scores.iter().copied().fold(f64::MIN, f64::max);
    let low = scores.iter().copied().fold(f64::MAX, f64::min);
    let scale = |score: f64| if high > low { (score - low) / (high - low) } else { 1.0 };
    scores.into_iter().map(|score| scale(score).max(MIN_SCALED_SCORE)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passage::DocumentId;

    fn hits(listed: &[(&str, f64)]) -> Vec<Hit> {
        let hit = |(text, score): &(&str, f64)| {
            let passage = Passage {
                id: PassageId::from_start(&DocumentId::new(*text), 0),
                text: (*text).to_owned(),
                ..Passage::default()
            };
            Hit { passage, score: *score }
        };
        listed.iter().map(hit).collect()
    }

    fn check(question: &str, keyword: &[(&str, f64)], vector: &[(&str, f64)], expected: &str) {
        let fused = fuse_hits(question, &hits(keyword), &hits(vector), &FusionWeights::default(), 10);
        assert!(fused.iter().all(|hit| hit.score > 0.0), "{fused:?}");
        let order: Vec<&str> = fused.iter().map(|hit| hit.passage.text.as_str()).collect();
        assert_eq!(order.join(" "), expected);
    }

    #[test]
    fn within_a_language_words_lead() {
        check(
            "휴가",
            &[("가", 9.0), ("나", 8.5), ("다", 1.0)],
            &[("다", 0.9), ("나", 0.8), ("가", 0.1)],
            "나 가 다",
        );
        check("휴가", &[("가", 9.0), ("나", 1.0)], &[("나", 0.9), ("가", 0.1)], "가 나");
    }

    #[test]
    fn across_languages_meaning_leads() {
        check("leave policy", &[("가", 9.0), ("나", 1.0)], &[("나", 0.9), ("가", 0.1)], "나 가");
    }

    #[test]
    fn meaning_does_not_lead_away_from_a_heading_that_is_named() {
        let mut keyword = hits(&[("가", 9.0), ("나", 8.5), ("다", 1.0)]);
        let vector = hits(&[("나", 0.9), ("라", 0.8), ("가", 0.1)]);
        for (title, question, expected) in [
            ("취업규칙 › 제15조(연차 휴가)", "연차휴가는 며칠이야?", "가 나 다"),
            (
                "민법 제629조(임차권의 양도, 전대의 제한)",
                "민법의 임차권의 양도, 전대의 제한 조항",
                "가 나 다",
            ),
            ("안내 › 연차휴가", "연차휴가 신청", "가 나 다"),
            ("연차", "연차휴가 신청", "나 가 라 다"),
            ("안내 › 병가", "연차휴가 신청", "나 가 라 다"),
            ("안내 › 제2조", "2조의 휴가", "가 나 라 다"),
        ] {
            keyword[0].passage.title = title.to_owned();
            let fused = fuse_hits(question, &keyword, &vector, &FusionWeights::default(), 10);
            let order: Vec<&str> = fused.iter().map(|hit| hit.passage.text.as_str()).collect();
            assert_eq!(order.join(" "), expected, "{title}: {question}");
        }
        // A query in another language cannot contain the heading of the passage.
        let english = hits(&[("leave", 9.0), ("나", 1.0)]);
        let fused = fuse_hits(
            "휴가",
            &english,
            &hits(&[("leave", 0.9), ("pay", 0.1)]),
            &FusionWeights::default(),
            10,
        );
        assert_eq!(fused[0].passage.text, "leave");
    }

    fn check_first(question: &str, keyword: &[Hit], vector: &[Hit], expected: &str) {
        let about = EmbedderInfo { id: "built-in:1".to_owned(), dimension: 2, multilingual: true };
        let fused = fuse_hits(question, keyword, vector, &FusionWeights::for_embedder(&about), 10);
        assert_eq!(fused[0].passage.text, expected, "{question}");
    }

    #[test]
    fn meaning_counts_less_the_more_words_of_the_query_are_found() {
        let keyword =
            hits(&[("퇴직금은 퇴사한 날부터 14일 안에 지급한다", 2.0), ("임금 청산", 1.2), ("기타", 0.1)]);
        let vector = hits(&[("임금 청산", 0.9), ("퇴직금은 퇴사한 날부터 14일 안에 지급한다", 0.2)]);
        check_first("그만두면 밀린 월급은 언제 받나", &keyword, &vector, "임금 청산");
        check_first(
            "퇴직금은 퇴사한 날부터 며칠 안에 지급",
            &keyword,
            &vector,
            "퇴직금은 퇴사한 날부터 14일 안에 지급한다",
        );
    }

    #[test]
    fn the_vector_of_a_long_passage_counts_less() {
        let long = "임금 청산 ".repeat(300);
        let vector = hits(&[(&long, 0.9), ("임금 청산", 0.85), ("기타", 0.1)]);
        check_first("그만두면 월급은 언제 받나", &[], &vector, "임금 청산");
    }

    #[test]
    fn a_code_is_found_by_its_letters_in_any_language() {
        let keyword = hits(&[("별책 규정 xqx78 은 3일이다", 2.0), ("보고서 78", 0.5)]);
        let vector = hits(&[("보고서 78", 0.6), ("별책 규정 xqx78 은 3일이다", 0.4)]);
        check_first("xqx78", &keyword, &vector, "별책 규정 xqx78 은 3일이다");
        check_first("how many days is xqx78", &keyword, &vector, "보고서 78");
    }

    #[test]
    fn a_heading_without_text_does_not_win_by_meaning() {
        let keyword = hits(&[("본문이 있는 문단", 2.0), ("기타", 0.1)]);
        let mut vector = hits(&[("제15조(연차휴가)", 0.9), ("본문이 있는 문단", 0.5), ("기타", 0.1)]);
        for question in ["쉬는 날은 언제", "when can I rest"] {
            vector[0].passage.title = "취업규칙".to_owned();
            check_first(question, &[], &vector, "제15조(연차휴가)");
            for title in ["취업규칙 › 제15조(연차휴가)", "제15조 (연차휴가)"] {
                vector[0].passage.title = title.to_owned();
                check_first(question, &keyword, &vector, "본문이 있는 문단");
                check_first(question, &[], &vector, "본문이 있는 문단");
            }
        }
    }

    #[test]
    fn a_passage_far_from_the_query_is_found_by_its_words_only() {
        let weights = FusionWeights { min_similarity: 0.3, ..FusionWeights::default() };
        let vector = hits(&[("가", 0.29), ("나", 0.1)]);
        assert_eq!(fuse_hits("xyzzy", &[], &vector, &weights, 10), []);
        let fused = fuse_hits("xyzzy", &hits(&[("나", 1.0)]), &vector, &weights, 10);
        assert_eq!(fused.iter().map(|hit| hit.passage.text.as_str()).collect::<Vec<_>>(), ["나"]);
    }

    #[test]
    fn a_passage_without_a_vector_is_ranked_by_its_words() {
        let keyword = hits(&[("새 문단", 2.0), ("나", 1.0), ("다", 0.5)]);
        check_first("아무 말", &keyword, &hits(&[("나", 0.9), ("다", 0.1)]), "새 문단");
        check_first("anything", &keyword, &hits(&[("나", 0.9), ("다", 0.1)]), "새 문단");
    }

    #[test]
    fn one_list_alone_keeps_its_order() {
        check("휴가", &[("가", 3.0), ("나", 2.0), ("다", 1.0)], &[], "가 나 다");
        check("휴가", &[], &[("다", 0.3), ("나", 0.2)], "다 나");
        check("휴가", &[], &[("다", f64::NAN), ("나", 0.2)], "나 다");
        check("휴가", &[], &[], "");
    }

    #[test]
    fn the_words_of_a_question_never_stop_counting() {
        let weights = FusionWeights {
            korean: 7.0,
            english: f64::INFINITY,
            cross_language: 1.0,
            ..FusionWeights::default()
        };
        for (question, passage) in [("가", "가"), ("a", "a"), ("a", "가"), ("1", "a")] {
            assert!(
                weights.vector_weight(dominant_language(question), dominant_language(passage))
                    <= 1.0 - MIN_KEYWORD_WEIGHT
            );
        }
    }

    #[test]
    fn an_encoder_of_english_says_nothing_of_korean() {
        let about = EmbedderInfo { id: "e".to_owned(), dimension: 2, multilingual: false };
        let weights = FusionWeights::for_embedder(&about);
        let fused = fuse_hits(
            "휴가",
            &hits(&[("가", 2.0), ("나", 1.0)]),
            &hits(&[("나", 0.9), ("다", 0.8)]),
            &weights,
            9,
        );
        let order: Vec<&str> = fused.iter().map(|hit| hit.passage.text.as_str()).collect();
        assert_eq!(order, ["가", "나"]);
        assert!(
            weights.vector_weight(Some(Language::English), Some(Language::English))
                > FusionWeights::default().english
        );
        assert_eq!(
            FusionWeights::for_embedder(&EmbedderInfo { multilingual: true, ..about }),
            FusionWeights::default()
        );
    }

    #[test]
    fn korean_with_english_names_is_korean() {
        assert_eq!(dominant_language("VPN을 Kubernetes에 설치"), Some(Language::Korean));
        assert_eq!(dominant_language("Pods in a cluster"), Some(Language::English));
        assert_eq!(dominant_language("123 !?"), None);
    }
}

//! Merges keyword hits and vector hits: a weighted sum of the scores, each scaled to its own list.
//!
//! Ranks are not fused. With an embedder that is weaker than keyword search, reciprocal rank fusion gives worse results
//! on every set of a single language. The weight of the vector score depends on the languages of the query and of the
//! passage. If the query contains the heading of the best keyword hit, vector scores do not count within one language.

use std::collections::BTreeMap;

use doran_llm::EmbedderInfo;

use crate::keyword::{find_article_numbers, letters_and_digits};
use crate::passage::{Passage, PassageId};
use crate::retriever::Hit;
use crate::split::HEADING_SEPARATOR;

/// The language that most letters of a text belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DominantLanguage {
    /// Hangul.
    Korean,
    /// Latin letters.
    English,
    /// Neither: numbers, punctuation or other scripts.
    Other,
}

/// The weight of the vector score; the rest of a score comes from keywords.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusionWeights {
    /// The weight if query and passage are both Korean, or if one of them is neither Korean nor English.
    pub korean: f64,
    /// The weight if both are English.
    pub english: f64,
    /// The weight if one is Korean and the other English.
    pub cross_language: f64,
}

/// Keywords always have at least this weight, so that an exact name is never lost.
pub const MIN_KEYWORD_WEIGHT: f64 = 0.1;

impl Default for FusionWeights {
    /// The weights for a multilingual embedder that is weaker than keyword search within one language.
    fn default() -> Self {
        Self { korean: 0.15, english: 0.3, cross_language: 0.9 }
    }
}

impl FusionWeights {
    /// Returns the weights for an embedder. An embedder of a single language is assumed to be for English, and to be
    /// better at it than a multilingual one; its vectors for other languages are ignored.
    pub fn for_embedder(about: &EmbedderInfo) -> Self {
        if about.multilingual {
            Self::default()
        } else {
            Self { korean: 0.0, english: 0.5, cross_language: 0.0 }
        }
    }

    /// Returns the weight of the vector score for a query and a passage of these languages.
    pub fn vector_weight(&self, question: DominantLanguage, passage: DominantLanguage) -> f64 {
        let weight = match (question, passage) {
            (question, passage) if is_cross_language(question, passage) => self.cross_language,
            (DominantLanguage::English, DominantLanguage::English) => self.english,
            _ => self.korean,
        };
        weight.clamp(0.0, 1.0 - MIN_KEYWORD_WEIGHT)
    }
}

/// Detects the language of a text. A text counts as Korean if a tenth of its letters are Hangul, because Korean texts
/// often quote English names.
pub fn dominant_language(text: &str) -> DominantLanguage {
    let (mut hangul, mut latin) = (0_usize, 0_usize);
    for char in text.chars().take(2000) {
        hangul += usize::from(('가'..='힣').contains(&char));
        latin += usize::from(char.is_ascii_alphabetic());
    }
    match (hangul, latin) {
        (0, 0) => DominantLanguage::Other,
        (hangul, latin) if hangul * 10 >= latin => DominantLanguage::Korean,
        _ => DominantLanguage::English,
    }
}

/// Merges both hit lists, best first. Equal scores are ordered by the identifier of the passage.
pub fn fuse_hits(
    question: &str,
    keyword: &[Hit],
    vector: &[Hit],
    weights: &FusionWeights,
    limit: usize,
) -> Vec<Hit> {
    let asked = dominant_language(question);
    let named = keyword.first().is_some_and(|best| contains_heading(question, &best.passage.title));
    let mut sums: BTreeMap<&PassageId, (f64, &Passage)> = BTreeMap::new();
    for (hits, by_vector) in [(keyword, false), (vector, true)] {
        for (hit, score) in hits.iter().zip(scaled_scores(hits)) {
            let own = dominant_language(&hit.passage.text);
            let share =
                if named && !is_cross_language(asked, own) { 0.0 } else { weights.vector_weight(asked, own) };
            let weight = if by_vector { share } else { 1.0 - share };
            sums.entry(&hit.passage.id).or_insert((0.0, &hit.passage)).0 += weight * score;
        }
    }
    let mut fused: Vec<Hit> = sums
        .into_values()
        .filter(|(score, _)| *score > 0.0)
        .map(|(score, passage)| Hit { passage: passage.clone(), score })
        .collect();
    fused.sort_by(|left, right| right.score.total_cmp(&left.score));
    fused.truncate(limit);
    fused
}

fn is_cross_language(question: DominantLanguage, passage: DominantLanguage) -> bool {
    matches!(
        (question, passage),
        (DominantLanguage::Korean, DominantLanguage::English)
            | (DominantLanguage::English, DominantLanguage::Korean)
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

/// Scales the scores of a list: the best becomes 1 and the last is just above 0.
fn scaled_scores(hits: &[Hit]) -> Vec<f64> {
    const MIN_SCALED_SCORE: f64 = 1e-6;
    let sane = |score: f64| if score.is_finite() { score } else { 0.0 };
    let high = hits.iter().map(|hit| sane(hit.score)).fold(f64::MIN, f64::max);
    let low = hits.iter().map(|hit| sane(hit.score)).fold(f64::MAX, f64::min);
    let scale = |score: f64| if high > low { (score - low) / (high - low) } else { 1.0 };
    hits.iter().map(|hit| scale(sane(hit.score)).max(MIN_SCALED_SCORE)).collect()
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
            ("연차휴가", "연차휴가 신청", "나 가 라 다"),
            ("안내 › 병가", "연차휴가 신청", "나 가 라 다"),
            ("안내 › 제2조", "2조의 휴가", "나 가 라 다"),
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

    #[test]
    fn one_list_alone_keeps_its_order() {
        check("휴가", &[("가", 3.0), ("나", 2.0), ("다", 1.0)], &[], "가 나 다");
        check("휴가", &[], &[("다", 0.3), ("나", 0.2)], "다 나");
        check("휴가", &[], &[("다", f64::NAN), ("나", 0.2)], "나 다");
        check("휴가", &[], &[], "");
    }

    #[test]
    fn the_words_of_a_question_never_stop_counting() {
        let weights = FusionWeights { korean: 7.0, english: f64::INFINITY, cross_language: 1.0 };
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
            weights.vector_weight(DominantLanguage::English, DominantLanguage::English)
                > FusionWeights::default().english
        );
        assert_eq!(
            FusionWeights::for_embedder(&EmbedderInfo { multilingual: true, ..about }),
            FusionWeights::default()
        );
    }

    #[test]
    fn korean_with_english_names_is_korean() {
        assert_eq!(dominant_language("VPN을 Kubernetes에 설치"), DominantLanguage::Korean);
        assert_eq!(dominant_language("Pods in a cluster"), DominantLanguage::English);
        assert_eq!(dominant_language("123 !?"), DominantLanguage::Other);
    }
}

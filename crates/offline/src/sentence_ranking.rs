//! Sentences ranked by what they share with a question.

use std::collections::{BTreeMap, BTreeSet};

use super::expected_answer::ExpectedAnswer;
use super::quotes::{PickedSentence, QuotableSource, quotable};
use super::text::{question_features, sentence_features};

/// How much of a question's weight a sentence must share to be quoted. Set by trial on the sample documents: 0.5
/// leaves some of their questions unanswered; less than this answers no more of them and quotes on thinner ground.
const MIN_SHARED_WEIGHT: f64 = 0.4;

/// What a sentence gains by holding a number in the unit that was asked for.
const UNIT_BONUS: f64 = 0.1;

/// How much a feature counts that stands in the title of a passage and not in the sentence itself.
const TITLE_SHARE: f64 = 0.5;

/// The most sentences that rules look at; material beyond is not read.
const MAX_RANKED_SENTENCES: usize = 4000;

/// The sentences of the sources with what they hold.
pub(super) struct SentenceIndex<'a> {
    candidates: Vec<(PickedSentence<'a>, BTreeSet<String>)>,
    titles: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> SentenceIndex<'a> {
    pub(super) fn from_sources(sources: &[QuotableSource<'a>]) -> Self {
        let picks = sources.iter().flat_map(|source| {
            quotable(source.text).map(move |sentence| PickedSentence { sentence, source: *source })
        });
        let candidates =
            picks.take(MAX_RANKED_SENTENCES).map(|pick| (pick, sentence_features(pick.sentence))).collect();
        let titles = sources.iter().map(|source| (source.title, sentence_features(source.title))).collect();
        Self { candidates, titles }
    }

    /// The sentence of these sources that shares most with the question. A feature counts the more, the fewer
    /// sentences have it.
    pub(super) fn best(
        &self,
        question: &str,
        of: impl Fn(&QuotableSource<'a>) -> bool,
    ) -> Option<PickedSentence<'a>> {
        let asked = ExpectedAnswer::of_question(question);
        let named = question_features(&asked.rest);
        let wanted = if named.is_empty() { question_features(question) } else { named };
        let candidates: Vec<_> = self.candidates.iter().filter(|(pick, _)| of(&pick.source)).collect();
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, has) in &candidates {
            for feature in wanted.iter().filter(|feature| has.contains(*feature)) {
                *holders.entry(feature).or_default() += 1;
            }
        }
        let total = candidates.len() as f64;
        let weight = |feature: &str| {
            let holders = holders.get(feature).copied().unwrap_or(0) as f64;
            (1.0 + total / (1.0 + holders)).ln()
        };
        let whole: f64 = wanted.iter().map(|feature| weight(feature)).sum();
        let mut best: Option<(f64, PickedSentence<'a>)> = None;
        for (pick, has) in candidates {
            let title = self.titles.get(pick.source.title);
            let (mut in_sentence, mut in_title) = (0.0, 0.0);
            for feature in &wanted {
                if has.contains(feature) {
                    in_sentence += weight(feature);
                } else if title.is_some_and(|title| title.contains(feature)) {
                    in_title += weight(feature);
                }
            }
            let score = (in_sentence + TITLE_SHARE * in_title) / whole;
            // A title alone says nothing about which of its sentences answers.
            let enough = in_sentence > 0.0 && score >= MIN_SHARED_WEIGHT && asked.fits(pick.sentence);
            let rank = score + if asked.is_counted_in(pick.sentence) { UNIT_BONUS } else { 0.0 };
            if enough && best.is_none_or(|(most, _)| rank > most) {
                best = Some((rank, *pick));
            }
        }
        best.map(|(_, pick)| pick)
    }
}

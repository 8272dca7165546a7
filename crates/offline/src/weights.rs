//! The fitted weights, from `data/weights.tsv`, which `training/answers/fit.py` writes.

use std::sync::LazyLock;

use super::ranking::{FEATURES, Features, KIND_MISSES, RankedUnit};

/// From this confidence on a quote is stated as the answer, if every rare word of the question is there.
const SURE: f64 = 0.42;

/// From this confidence on a quote is given as the nearest sentence. Below it nothing is quoted.
pub(super) const NEAR: f64 = 0.30;

/// From this rarity on, an answer that does not speak of a word of the question is not sure.
const RARE: f64 = 0.5;

/// A unit whose score is this near to the best is quoted with it.
pub(super) const CLOSE: f64 = 1.5;

/// The weight of each feature in the ranking and in the confidence, and the constant of the confidence.
#[allow(clippy::expect_used, reason = "the file is compiled in, and every test reads it")]
static WEIGHTS: LazyLock<(Features, Features, f64)> = LazyLock::new(|| {
    let cell = |name: &str, column: usize| -> f64 {
        let mut rows =
            include_str!("data/weights.tsv").lines().map(|row| row.split('\t').collect::<Vec<_>>());
        let row = rows.find(|row| row[0] == name).expect("a row for every feature");
        row[column].parse().expect("a number")
    };
    let [ranking, confidence] = [1, 2].map(|column| FEATURES.map(|name| cell(name, column)));
    (ranking, confidence, cell("constant", 2))
});

fn weigh(features: &Features, weights: &Features) -> f64 {
    features.iter().zip(weights).map(|(feature, weight)| feature * weight).sum()
}

/// How well a unit with these features answers.
pub(super) fn score(features: &Features) -> f64 {
    weigh(features, &WEIGHTS.0)
}

/// How likely the best of these units is an answer, from 0 to 1.
pub(super) fn confidence(ranked: &[RankedUnit<'_>]) -> f64 {
    let (_, weights, constant) = &*WEIGHTS;
    ranked.first().map_or(0.0, |best| 1.0 / (1.0 + (-weigh(&best.features, weights) - constant).exp()))
}

/// Whether the best of these units may be stated as the answer.
pub(super) fn is_sure(ranked: &[RankedUnit<'_>]) -> bool {
    confidence(ranked) >= SURE && ranked.first().is_some_and(covers_question)
}

/// Whether every rare word of the question stands in a unit or around it, and what it asks for, such as a time, is there.
pub(super) fn covers_question(one: &RankedUnit<'_>) -> bool {
    one.rarest_missing < RARE && one.features[KIND_MISSES] == 0.0
}

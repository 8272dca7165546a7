//! The fitted weights.

use super::ranking::{FEATURES, Features, RankedUnit};

/// From this confidence on a quote is stated as the answer, if every rare word of the question is there.
const SURE: f64 = 0.55;

/// From this confidence on a quote is given as the nearest sentence. Below it nothing is quoted.
pub(super) const NEAR: f64 = 0.4;

/// A unit whose score is this near to the best is quoted with it.
pub(super) const CLOSE: f64 = 1.5;

/// The weight of each feature in the ranking, fitted by `training/answers/fit.py`.
const RANKING: [f64; FEATURES.len()] = [
    4.365, 0.570, -1.091, -1.742, -0.910, -1.192, 0.0, 0.826, -0.124, -0.180, 1.160, 0.599, 2.915, 1.324,
    -1.324, 2.221, 0.380, -0.238, -1.001, 0.0, 0.0,
];

/// The weight of each feature of the best unit in the confidence, of its lead over the second, and the constant.
const CONFIDENCE: [f64; FEATURES.len() + 2] = [
    3.749, -0.168, 0.0, 0.0, 0.0, 0.083, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.075, -2.767, 1.139, 0.214,
    -3.708, -1.837, 0.0, -3.182, 0.251, -3.015,
];

/// The most that the lead over the second unit counts.
const MAX_LEAD: f64 = 3.0;

/// How well a unit with these features answers.
pub(super) fn score(features: &Features) -> f64 {
    features.iter().zip(RANKING).map(|(feature, weight)| feature * weight).sum()
}

/// How likely the best of these units is an answer, from 0 to 1.
pub(super) fn confidence(ranked: &[RankedUnit<'_>]) -> f64 {
    let Some(best) = ranked.first() else { return 0.0 };
    let lead = ranked.get(1).map_or(MAX_LEAD, |second| (best.score - second.score).min(MAX_LEAD));
    let [.., of_lead, constant] = CONFIDENCE;
    let sum: f64 = best.features.iter().zip(CONFIDENCE).map(|(feature, weight)| feature * weight).sum();
    1.0 / (1.0 + (-(sum + lead * of_lead + constant)).exp())
}

/// Whether the best of these units may be stated as the answer.
pub(super) fn is_sure(ranked: &[RankedUnit<'_>]) -> bool {
    confidence(ranked) >= SURE && ranked.first().is_some_and(|best| best.is_covered)
}

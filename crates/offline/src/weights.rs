//! The fitted weights.

use super::ranking::{FEATURES, Features, RankedUnit};

/// From this confidence on a quote is stated as the answer.
pub(super) const SURE: f64 = 0.55;

/// From this confidence on a quote is given as the nearest sentence. Below it nothing is quoted.
pub(super) const NEAR: f64 = 0.45;

/// The weight of each feature in the ranking, fitted by `training/answers/fit.py`.
const RANKING: [f64; FEATURES.len()] =
    [2.834, 1.551, 1.796, 0.442, 1.317, -1.317, 0.942, -0.328, -0.566, 0.0, -1.263, -0.241, 0.922];

/// The weight of each feature of the best unit in the confidence, of its lead over the second, and the constant.
const CONFIDENCE: [f64; FEATURES.len() + 2] = [
    2.322, 0.154, 0.0, 0.313, 0.105, -1.692, 0.134, -0.198, -0.466, -1.141, -0.899, -0.638, 0.632, 0.531,
    -2.762,
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

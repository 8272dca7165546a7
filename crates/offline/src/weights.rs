//! The fitted weights.

use super::ranking::{FEATURES, Features, RankedUnit};

/// From this confidence on a quote is stated as the answer, if every rare word of the question is there.
const SURE: f64 = 0.6;

/// From this confidence on a quote is given as the nearest sentence. Below it nothing is quoted.
pub(super) const NEAR: f64 = 0.5;

/// A unit whose score is this near to the best is quoted with it.
pub(super) const CLOSE: f64 = 2.5;

/// The weight of each feature in the ranking, fitted by `training/answers/fit.py`.
const RANKING: [f64; FEATURES.len()] =
    [4.635, 0.0, -1.542, -2.541, 0.993, 0.889, 3.707, -2.451, 3.086, 0.0, 0.0, -1.460, 0.0];

/// The weight of each feature of the best unit in the confidence, of its lead over the second, and the constant.
const CONFIDENCE: [f64; FEATURES.len() + 2] =
    [3.683, -0.212, 0.0, 0.0, 0.0, 0.0, 0.0, -1.008, 1.219, 0.066, -4.293, -0.669, -2.290, 0.234, -2.674];

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

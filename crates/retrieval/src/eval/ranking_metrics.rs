//! nDCG@10, recall@5 and MRR of one ranking, with binary relevance.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The metrics of one ranking, or their averages over many. All are between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankingMetrics {
    /// nDCG@10.
    #[serde(rename = "ndcg@10")]
    pub ndcg: f64,
    /// Recall@5.
    #[serde(rename = "recall@5")]
    pub recall: f64,
    /// The reciprocal rank of the first relevant passage among the first hundred.
    pub mrr: f64,
}

/// Computes the metrics of one ranking.
pub(crate) fn compute_ranking_metrics(ranked: &[&str], relevant: &BTreeSet<String>) -> RankingMetrics {
    if relevant.is_empty() {
        return RankingMetrics::default();
    }
    let gain = |place: usize| 1.0 / ((place + 2) as f64).log2();
    let good = |id: &&str| relevant.contains(*id);
    let found: f64 = ranked
        .iter()
        .take(10)
        .enumerate()
        .filter(|(_, id)| good(id))
        .map(|(place, _)| gain(place))
        .fold(0.0, |sum, gain| sum + gain);
    let ideal: f64 = (0..relevant.len().min(10)).map(gain).sum();
    let early = ranked.iter().take(5).filter(|id| good(id)).count();
    let first = ranked.iter().take(100).position(|id| relevant.contains(*id));
    RankingMetrics {
        ndcg: found / ideal,
        recall: early as f64 / relevant.len() as f64,
        mrr: first.map_or(0.0, |place| 1.0 / (place + 1) as f64),
    }
}

impl RankingMetrics {
    /// Returns the averages.
    pub fn mean(all: &[Self]) -> Self {
        let over = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
        Self { ndcg: over(|m| m.ndcg), recall: over(|m| m.recall), mrr: over(|m| m.mrr) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ranked: &str, relevant: &str, expected: &str) {
        let ranked: Vec<&str> = ranked.split(' ').collect();
        let relevant = relevant.split(' ').map(str::to_owned).collect();
        let RankingMetrics { ndcg, recall, mrr } = compute_ranking_metrics(&ranked, &relevant);
        assert_eq!(format!("{ndcg:.3} {recall:.3} {mrr:.3}"), expected);
    }

    #[test]
    fn the_measures_are_the_usual_ones() {
        check("a b c", "a", "1.000 1.000 1.000");
        check("x a", "a", "0.631 1.000 0.500");
        check("x y z", "a", "0.000 0.000 0.000");
        check("x a y z w b", "a b", "0.605 0.500 0.500");
        check("1 2 3 4 5 6 7 8 9 10 a", "a", "0.000 0.000 0.091");
    }
}

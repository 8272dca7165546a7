//! What models took, by name, and what the questions of evaluations used.

use std::collections::BTreeMap;

use doran_agents::eval::EvalCaseUsage;
use doran_agents::llm::TokenCountSource;
use doran_agents::protocol::ModelCallNote;
use doran_engine::store::RunUsage;
use serde::{Deserialize, Serialize};

/// The name under which calls are summed whose notes cannot be read.
const UNKNOWN_MODEL: &str = "unknown";
/// Usage within the same quarter of an hour is summed: days begin at such a time in every time zone.
const QUARTER_HOUR_MILLIS: i64 = 15 * 60 * 1000;

/// The requests to one model, and what they used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The number of calls.
    pub calls: u64,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// `None` as soon as the price of one call is not known: nothing is not what it cost.
    pub cost_micros: Option<u64>,
}

impl Default for ModelUsage {
    fn default() -> Self {
        Self { calls: 0, input_tokens: 0, output_tokens: 0, cost_micros: Some(0) }
    }
}

impl ModelUsage {
    /// Adds a call of which this much is known.
    fn add_call(&mut self, input_tokens: u64, output_tokens: u64, cost_micros: Option<u64>) {
        self.add(&Self { calls: 1, input_tokens, output_tokens, cost_micros });
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_micros = self.cost_micros.zip(other.cost_micros).map(|(sum, cost)| sum + cost);
    }
}

/// What each model took.
pub(crate) type UsageByModel = BTreeMap<String, ModelUsage>;

pub(crate) fn add_by_model(sums: &mut UsageByModel, others: &UsageByModel) {
    for (name, used) in others {
        sums.entry(name.clone()).or_default().add(used);
    }
}

/// Adds a call as the node that made it noted it. A reply from the cache took nothing; of a note of another version
/// only that there was a call is known.
pub(crate) fn add_note(took: &mut UsageByModel, note: ModelCallNote) {
    let (name, input, output, cost) = match note {
        ModelCallNote::Asked(call) => (call.name, call.input_tokens, call.output_tokens, call.cost_micros),
        ModelCallNote::Unfinished(call) => {
            (call.name, call.input_tokens, call.output_tokens, call.cost_micros)
        }
        ModelCallNote::FromCache(_) => return,
        ModelCallNote::Unknown(_) => (UNKNOWN_MODEL.to_owned(), 0, 0, None),
    };
    took.entry(name).or_default().add_call(input, output, cost);
}

/// Whether what a request took is an estimate: its model did not report it, or the request was cut off.
pub(crate) fn is_estimate(note: &ModelCallNote) -> bool {
    match note {
        ModelCallNote::Asked(call) => call.counted == TokenCountSource::Estimated,
        ModelCallNote::Unfinished(call) => call.input_tokens > 0,
        ModelCallNote::FromCache(_) | ModelCallNote::Unknown(_) => false,
    }
}

/// What questions of evaluations used that one agent was asked with one API key in a quarter of an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvalUsage {
    /// When the quarter began, in milliseconds since 1970.
    pub at: i64,
    /// The agent.
    pub agent: String,
    /// The name of the API key; empty without one.
    pub key: String,
    /// The number of turns.
    pub turns: u64,
    /// What they used together.
    pub used: RunUsage,
    /// What each model took.
    pub models: BTreeMap<String, ModelUsage>,
    /// Whether nothing of it is an estimate.
    pub is_exact: bool,
}

impl EvalUsage {
    /// What a question used that ended at this time.
    pub fn of_case(at: i64, agent: &str, key: Option<&str>, usage: EvalCaseUsage) -> Self {
        let EvalCaseUsage { turns, used, model_calls, is_exact } = usage;
        let is_exact = is_exact && !model_calls.iter().any(is_estimate);
        let mut models = UsageByModel::new();
        model_calls.into_iter().for_each(|note| add_note(&mut models, note));
        let at = at.div_euclid(QUARTER_HOUR_MILLIS) * QUARTER_HOUR_MILLIS;
        Self {
            at,
            agent: agent.to_owned(),
            key: key.unwrap_or_default().to_owned(),
            turns,
            used,
            models,
            is_exact,
        }
    }

    /// Adds it to the row of the same quarter, agent and key, or as a row of its own.
    pub fn add_to(self, rows: &mut Vec<Self>) {
        let is_same = |row: &&mut Self| row.at == self.at && row.agent == self.agent && row.key == self.key;
        match rows.iter_mut().find(is_same) {
            Some(row) => {
                row.turns += self.turns;
                row.used += self.used;
                add_by_model(&mut row.models, &self.models);
                row.is_exact &= self.is_exact;
            }
            None => rows.push(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reply_from_the_cache_neither_counts_nor_hides_what_the_others_cost() {
        let mut took = BTreeMap::new();
        let call = json!({ "name": "m", "kind": "language", "purpose": "answer", "role": "main", "finish": "stop",
            "input_tokens": 7, "output_tokens": 3, "cached_tokens": 0, "cost_micros": 20, "counted": "reported",
            "ms": 1 });
        let cached = json!({ "name": "m", "purpose": "answer", "finish": "stop", "cached": true });
        for note in [call, cached, json!({ "of": "a later version" })] {
            add_note(&mut took, serde_json::from_value(note).expect("a note"));
        }
        let sum = ModelUsage { calls: 1, input_tokens: 7, output_tokens: 3, cost_micros: Some(20) };
        let unknown = ModelUsage { calls: 1, input_tokens: 0, output_tokens: 0, cost_micros: None };
        assert_eq!(took, [("m".to_owned(), sum), (UNKNOWN_MODEL.to_owned(), unknown)].into());
    }

    #[test]
    fn a_call_without_a_known_price_makes_the_sum_unknown_and_not_smaller() {
        let mut took = ModelUsage::default();
        took.add_call(7, 3, Some(20));
        assert_eq!(took, ModelUsage { calls: 1, input_tokens: 7, output_tokens: 3, cost_micros: Some(20) });
        took.add_call(7, 3, None);
        took.add_call(7, 3, Some(20));
        assert_eq!(took, ModelUsage { calls: 3, input_tokens: 21, output_tokens: 9, cost_micros: None });
    }

    #[test]
    fn questions_of_the_same_quarter_agent_and_key_are_one_row() {
        let used = RunUsage { input_tokens: 5, output_tokens: 2, cost_micros: 40 };
        let usage = || EvalCaseUsage { turns: 2, used, model_calls: Vec::new(), is_exact: true };
        let mut rows = Vec::new();
        let minute = 60_000;
        for (at, key) in [(0, None), (14 * minute, None), (15 * minute, None), (1, Some("boss"))] {
            EvalUsage::of_case(at, "react", key, usage()).add_to(&mut rows);
        }
        let rows: Vec<(i64, &str, u64, u64)> =
            rows.iter().map(|row| (row.at, row.key.as_str(), row.turns, row.used.cost_micros)).collect();
        assert_eq!(rows, [(0, "", 4, 80), (15 * minute, "", 2, 40), (0, "boss", 2, 40)]);
    }
}

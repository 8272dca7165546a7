//! The report of an evaluation, and the changes since the previous one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EvalExpectation, EvalVariant};

/// The results of all cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentEvalReport {
    /// The model that answered.
    pub model: String,
    /// What the questions were asked with.
    pub variant: EvalVariant,
    /// When the last question was answered, in milliseconds since 1970.
    pub ended_at: i64,
    /// What changed since the report before it.
    pub changes: Vec<EvalChange>,
    /// The result of each case.
    pub cases: Vec<EvalCaseOutcome>,
}

impl AgentEvalReport {
    /// How many held.
    pub fn passed_count(&self) -> usize {
        self.cases.iter().filter(|case| case.failures.is_empty() && case.known.is_none()).count()
    }

    /// How many are known not to hold.
    pub fn known_failure_count(&self) -> usize {
        self.cases.iter().filter(|case| case.known.is_some()).count()
    }

    /// What all of it cost, in millionths of a dollar.
    pub fn cost_micros(&self) -> u64 {
        self.cases.iter().map(|case| case.observed.cost_micros).sum()
    }

    /// How many models were asked.
    pub fn model_calls(&self) -> u32 {
        self.cases.iter().map(|case| case.observed.model_calls).sum()
    }
}

/// The result of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvalCaseOutcome {
    /// The case.
    pub id: String,
    /// Who was asked.
    pub agent: String,
    /// What did not hold.
    pub failures: Vec<FailedExpectation>,
    /// Why the case is a known failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    /// What was seen.
    pub observed: ObservedTurn,
}

/// An expectation that did not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedExpectation {
    /// The name of the expectation that failed.
    pub what: String,
    /// What was expected.
    pub expected: String,
    /// What was seen.
    pub was: String,
}

/// What was seen of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObservedTurn {
    /// The route the agent chose: `rag` or `agent` for `assistant`; `out_of_scope`, `no_tools`,
    /// `execute_sequential` or `execute_parallel` for `contract`, as its first plan went; `tool`, `response` or `error`
    /// for `react`; `question`, `summary` or `chitchat` for `docqa`. For others the nodes, joined by `>`.
    pub route: String,
    /// The nodes that ran.
    pub path: Vec<String>,
    /// The tools that ran.
    pub tools: Vec<String>,
    /// Titles of what was cited.
    pub sources: Vec<String>,
    /// The answer.
    pub response: String,
    /// How many models were asked.
    pub model_calls: u32,
    /// What they cost, in millionths of a dollar.
    pub cost_micros: u64,
    /// The code of the error it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What a person was asked about: a tool, or `question`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// How long it took.
    pub ms: u64,
}

impl ObservedTurn {
    /// Whether the answer depends on the clock, and so differs every time.
    fn uses_clock(&self) -> bool {
        self.tools.iter().any(|tool| tool.ends_with("get_current_datetime"))
    }

    /// What did not hold.
    pub(super) fn failures(&self, expect: &EvalExpectation) -> Vec<FailedExpectation> {
        let mut failures = Vec::new();
        let mut differ = |what: &str, expected: String, was: String| {
            failures.push(FailedExpectation { what: what.to_owned(), expected, was });
        };
        let listed = |list: &[String]| format!("[{}]", list.join(", "));
        if let Some(route) = expect.route.as_ref().filter(|route| **route != self.route) {
            differ("route", route.clone(), self.route.clone());
        }
        if let Some(path) = expect.path.as_ref().filter(|path| **path != self.path) {
            differ("path", listed(path), listed(&self.path));
        }
        if let Some(tools) = expect.tools.as_ref().filter(|tools| **tools != self.tools) {
            differ("tools", listed(tools), listed(&self.tools));
        }
        if let Some(sources) = &expect.sources {
            let cited = |part: &String| self.sources.iter().any(|title| title.contains(part.as_str()));
            let wanted = |title: &String| sources.iter().any(|part| title.contains(part.as_str()));
            if !sources.iter().all(cited) || !self.sources.iter().all(wanted) {
                differ("sources", listed(sources), listed(&self.sources));
            }
        }
        for words in expect.contains.iter().filter(|words| !self.response.contains(words.as_str())) {
            differ("contains", words.clone(), self.response.clone());
        }
        for words in expect.lacks.iter().filter(|words| self.response.contains(words.as_str())) {
            differ("lacks", words.clone(), self.response.clone());
        }
        if let Some(calls) = expect.model_calls.filter(|calls| *calls != self.model_calls) {
            differ("model_calls", calls.to_string(), self.model_calls.to_string());
        }
        let cost = self.cost_micros as f64 / 1e6;
        if let Some(max_cost) = expect.most_cost.filter(|max_cost| cost > *max_cost) {
            differ("most_cost", format!("{max_cost:.6}"), format!("{cost:.6}"));
        }
        let code = |code: &Option<String>| code.clone().unwrap_or_else(|| "-".to_owned());
        if expect.error != self.error {
            differ("error", code(&expect.error), code(&self.error));
        }
        if expect.asks != self.asks {
            differ("asks", code(&expect.asks), code(&self.asks));
        }
        failures
    }
}

/// What changed for a case since an earlier report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum EvalChange {
    /// It passed before and fails now.
    Broke {
        /// The case.
        id: String,
    },
    /// It did not hold and does now.
    Mended {
        /// The case.
        id: String,
    },
    /// The answer is another one.
    Answer {
        /// The case.
        id: String,
        /// As it was.
        before: String,
        /// As it is.
        now: String,
    },
    /// So many models are asked now.
    ModelCalls {
        /// The case.
        id: String,
        /// As it was.
        before: u32,
        /// As it is.
        now: u32,
    },
    /// It costs so much now, in millionths of a dollar.
    Cost {
        /// The case.
        id: String,
        /// As it was.
        before: u64,
        /// As it is.
        now: u64,
    },
    /// It was not there.
    New {
        /// The case.
        id: String,
    },
    /// It is not there any more.
    Gone {
        /// The case.
        id: String,
    },
}

/// What changed from one report to the next, by the order of the newer one. Time is not compared: it never stands still.
pub fn compare_reports(before: &AgentEvalReport, now: &AgentEvalReport) -> Vec<EvalChange> {
    let earlier: BTreeMap<&str, &EvalCaseOutcome> =
        before.cases.iter().map(|case| (case.id.as_str(), case)).collect();
    let mut changes = Vec::new();
    for case in &now.cases {
        let id = case.id.clone();
        let Some(old) = earlier.get(case.id.as_str()) else {
            changes.push(EvalChange::New { id });
            continue;
        };
        match (old.failures.is_empty(), case.failures.is_empty()) {
            (true, false) => changes.push(EvalChange::Broke { id: id.clone() }),
            (false, true) => changes.push(EvalChange::Mended { id: id.clone() }),
            (true, true) | (false, false) => {}
        }
        let (was, is) = (&old.observed, &case.observed);
        if was.response != is.response && !(was.uses_clock() && is.uses_clock()) {
            let (before, now) = (was.response.clone(), is.response.clone());
            changes.push(EvalChange::Answer { id: id.clone(), before, now });
        }
        if was.model_calls != is.model_calls {
            let (before, now) = (was.model_calls, is.model_calls);
            changes.push(EvalChange::ModelCalls { id: id.clone(), before, now });
        }
        if was.cost_micros != is.cost_micros {
            changes.push(EvalChange::Cost { id, before: was.cost_micros, now: is.cost_micros });
        }
    }
    let is_in_set = |id: &str| now.cases.iter().any(|case| case.id == id);
    changes.extend(
        before
            .cases
            .iter()
            .filter(|case| !is_in_set(&case.id))
            .map(|case| EvalChange::Gone { id: case.id.clone() }),
    );
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_observation() -> ObservedTurn {
        ObservedTurn {
            route: "rag".into(),
            tools: vec!["calculator".into()],
            sources: vec!["휴가 규정 › 연차휴가".into()],
            response: "15일입니다. [1]".into(),
            model_calls: 3,
            cost_micros: 20,
            ..ObservedTurn::default()
        }
    }

    fn check(expect: &EvalExpectation, failed: &str) {
        let failures = sample_observation().failures(expect);
        let names: Vec<&str> = failures.iter().map(|failure| failure.what.as_str()).collect();
        assert_eq!(names.join(" "), failed, "{failures:?}");
    }

    #[test]
    fn every_expectation_can_hold_and_can_fail() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        check(&EvalExpectation::default(), "");
        let holds = EvalExpectation {
            route: Some("rag".into()),
            path: Some(Vec::new()),
            tools: Some(texts(&["calculator"])),
            sources: Some(texts(&["휴가 규정"])),
            contains: texts(&["15일"]),
            lacks: texts(&["30일"]),
            model_calls: Some(3),
            most_cost: Some(0.00002),
            ..EvalExpectation::default()
        };
        check(&holds, "");
        check(&EvalExpectation { route: Some("agent".into()), ..EvalExpectation::default() }, "route");
        check(&EvalExpectation { path: Some(texts(&["router"])), ..EvalExpectation::default() }, "path");
        check(&EvalExpectation { tools: Some(Vec::new()), ..EvalExpectation::default() }, "tools");
        check(
            &EvalExpectation { sources: Some(texts(&["경비 규정"])), ..EvalExpectation::default() },
            "sources",
        );
        check(&EvalExpectation { sources: Some(Vec::new()), ..EvalExpectation::default() }, "sources");
        check(
            &EvalExpectation { contains: texts(&["30일", "15일"]), ..EvalExpectation::default() },
            "contains",
        );
        check(&EvalExpectation { lacks: texts(&["15일"]), ..EvalExpectation::default() }, "lacks");
        check(&EvalExpectation { model_calls: Some(2), ..EvalExpectation::default() }, "model_calls");
        check(&EvalExpectation { most_cost: Some(0.00001), ..EvalExpectation::default() }, "most_cost");
        check(&EvalExpectation { error: Some("empty_input".into()), ..EvalExpectation::default() }, "error");
        check(&EvalExpectation { asks: Some("web_search".into()), ..EvalExpectation::default() }, "asks");
    }

    #[test]
    fn two_reports_are_compared_case_by_case() {
        let case = |id: &str, response: &str, holds: bool| EvalCaseOutcome {
            id: id.into(),
            failures: if holds { Vec::new() } else { vec![FailedExpectation::default()] },
            observed: ObservedTurn { response: response.into(), ..ObservedTurn::default() },
            ..EvalCaseOutcome::default()
        };
        let report = |cases: Vec<EvalCaseOutcome>| AgentEvalReport {
            model: "m".into(),
            cases,
            ..AgentEvalReport::default()
        };
        let before = report(vec![
            case("a", "1", true),
            case("b", "2", false),
            case("c", "3", true),
            case("d", "4", true),
        ]);
        let now = report(vec![
            case("a", "1", false),
            case("b", "2", true),
            case("c", "5", true),
            case("e", "6", true),
        ]);
        let expected = [
            EvalChange::Broke { id: "a".into() },
            EvalChange::Mended { id: "b".into() },
            EvalChange::Answer { id: "c".into(), before: "3".into(), now: "5".into() },
            EvalChange::New { id: "e".into() },
            EvalChange::Gone { id: "d".into() },
        ];
        assert_eq!(compare_reports(&before, &now), expected);
        assert_eq!(compare_reports(&now, &now), []);
        let clock = |time: &str| {
            let mut case = case("t", time, true);
            case.observed.tools.push("get_current_datetime".into());
            report(vec![case])
        };
        assert_eq!(compare_reports(&clock("09:00"), &clock("09:01")), [], "time never stands still");
    }
}

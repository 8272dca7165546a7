//! Evaluation: questions with what is expected of their turns, asked one by one, each on a thread of its own.
//!
//! ```toml
//! documents = "samples"            # or "library", the documents that were handed in
//!
//! [[case]]
//! id = "assistant-ko-leave"
//! agent = "assistant"
//! before = ["안녕하세요"]           # earlier turns of the same thread, if it needs any
//! ask = "연차휴가는 며칠인가요?"
//! expect = { route = "rag", tools = [], sources = ["휴가 규정"], contains = ["15일"], model_calls = 2 }
//! ```
//!
//! [`run_eval_set`] runs the cases, [`AgentEvalReport`] is the result, and [`EvalChange`] is a difference between two reports.
//! Expectations are checked word for word; this module does not judge whether an answer is good.

mod answers;
mod report;
mod run;
mod set_text;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agents::{Agent, AskOptions};

pub use answers::{AnswerGrade, AnswerQuestion, GradeCounts, GradedAnswer, run_answer_questions};
pub use report::{
    AgentEvalReport, EvalCaseOutcome, EvalChange, FailedExpectation, ObservedTurn, compare_reports,
};
pub use run::{EvalCaseOptions, EvalCaseRun, EvalCaseUsage, EvalError, run_eval_case, run_eval_set};
pub use set_text::EvalSetText;

/// Questions with expectations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentEvalSet {
    /// What they are asked about.
    pub documents: EvalDocuments,
    /// The questions.
    #[serde(rename = "case")]
    pub cases: Vec<AgentEvalCase>,
}

/// Which documents a set is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvalDocuments {
    /// Those that were handed in.
    #[default]
    Library,
    /// The samples that come with the program, and no others.
    Samples,
}

/// What the questions of a set are asked with, in place of what is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvalVariant {
    /// The model that answers; without it, the model of each agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Instructions for every question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// One question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentEvalCase {
    /// Its name, which no other has.
    pub id: String,
    /// Who is asked.
    pub agent: String,
    /// What was said before, in the same thread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The question.
    pub ask: String,
    /// What comes with every question of it.
    #[serde(skip_serializing_if = "is_default")]
    pub options: AskOptions,
    /// Why this case is a known failure. If it passes, that is reported as a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<String>,
    /// What is expected of the turn.
    pub expect: EvalExpectation,
}

/// Expectations. A field that is not set is not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvalExpectation {
    /// The route the agent chose; see [`ObservedTurn::route`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The nodes that ran, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
    /// The tools that ran, each named once, in the order of their first call, and no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Parts of the titles of what is cited: each is cited, and nothing else is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// Words of the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
    /// Words that are not in the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// How many models were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u32>,
    /// Maximum cost in dollars, at least 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub most_cost: Option<f64>,
    /// The code of the error that it ends with. Without it, it must end without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The tool that needs approval. If not set, the run must not ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Why a set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentEvalSetError {
    /// It is not what the format wants.
    #[error("the questions cannot be read: {0}")]
    Unreadable(String),
    /// There is nothing in it.
    #[error("there is no `[[case]]` in it")]
    Empty,
    /// A case of it is wrong.
    #[error("case `{id}`: {reason}")]
    Case {
        /// The case.
        id: String,
        /// Why.
        reason: String,
    },
}

impl AgentEvalSet {
    /// Reads a set in TOML.
    pub fn from_toml(text: &str) -> Result<Self, AgentEvalSetError> {
        let set: Self = toml::from_str(text)
            .map_err(|error| AgentEvalSetError::Unreadable(error.to_string().trim().to_owned()))?;
        if set.cases.is_empty() {
            return Err(AgentEvalSetError::Empty);
        }
        let mut ids = BTreeSet::new();
        for case in &set.cases {
            let wrong =
                |reason: &str| AgentEvalSetError::Case { id: case.id.clone(), reason: reason.to_owned() };
            if case.id.is_empty() || !ids.insert(case.id.as_str()) {
                return Err(wrong("every case needs an `id` that no other has"));
            }
            if case.expect == EvalExpectation::default() {
                return Err(wrong("it expects nothing, so it could not fail: say what to `expect`"));
            }
            if case.expect.most_cost.is_some_and(|cost| cost < 0.0 || !cost.is_finite()) {
                return Err(wrong("`most_cost` is a number of dollars that is not less than 0"));
            }
        }
        Ok(set)
    }

    /// Checks that everybody who is asked is there.
    pub fn check_agents_exist(&self, agents: &[Agent]) -> Result<(), AgentEvalSetError> {
        for case in &self.cases {
            if !agents.iter().any(|agent| agent.name == case.agent) {
                let known: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
                let reason = format!("there is no agent `{}`; there are: {}", case.agent, known.join(", "));
                return Err(AgentEvalSetError::Case { id: case.id.clone(), reason });
            }
        }
        Ok(())
    }

    /// The same questions for another model or with other instructions.
    #[must_use]
    pub fn for_variant(mut self, variant: &EvalVariant) -> Self {
        for case in &mut self.cases {
            if let Some(model) = &variant.model {
                case.options.chosen.model = Some(model.clone());
            }
            if let Some(instructions) = &variant.instructions {
                case.options.instructions = Some(instructions.clone());
            }
        }
        self
    }

    /// Only the cases whose id begins so.
    #[must_use]
    pub fn with_id_prefix(mut self, prefix: &str) -> Self {
        self.cases.retain(|case| case.id.starts_with(prefix));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_could_not_fail_is_refused() {
        let error = |text: &str| AgentEvalSet::from_toml(text).expect_err("wrong").to_string();
        assert_eq!(error(""), "there is no `[[case]]` in it");
        assert_eq!(
            error("[[case]]\nid = \"a\"\nagent = \"react\"\nask = \"?\"\n"),
            "case `a`: it expects nothing, so it could not fail: say what to `expect`"
        );
        for cost in ["-1", "-0.001", "nan", "inf"] {
            let never = error(&format!("[[case]]\nid = \"a\"\nexpect = {{ most_cost = {cost} }}\n"));
            assert_eq!(
                never, "case `a`: `most_cost` is a number of dollars that is not less than 0",
                "{cost}"
            );
        }
        let twice = "[[case]]\nid = \"a\"\nexpect = { route = \"rag\" }\n".repeat(2);
        assert_eq!(error(&twice), "case `a`: every case needs an `id` that no other has");
        let misspelt = error("[[case]]\nid = \"a\"\nexpect = { tool = [] }\n");
        assert!(misspelt.contains("unknown field `tool`"), "{misspelt}");
    }
}

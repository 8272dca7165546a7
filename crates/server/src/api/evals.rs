//! Evaluations: sets of questions with expected answers, and what came of them.

use doran_agents::eval::{AgentEvalCase, AgentEvalReport, EvalDocuments, EvalExpectation, EvalVariant};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sets of a tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EvalSetList {
    /// The sets, sorted by name.
    pub sets: Vec<EvalSetSummary>,
    /// Whether the caller may change and run them.
    pub may_change: bool,
}

/// A set in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EvalSetSummary {
    /// The name.
    pub name: String,
    /// How many cases it has.
    pub cases: usize,
    /// How many cases passed in the last report.
    pub passed: Option<usize>,
    /// When the last report was made, in milliseconds since 1970.
    pub ended_at: Option<i64>,
    /// Why its file cannot be read.
    pub problem: Option<String>,
}

/// A set with its cases and last reports.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EvalSetInfo {
    /// The name.
    pub name: String,
    /// Which documents it is about.
    pub documents: EvalDocuments,
    /// The cases.
    pub cases: Vec<EvalCaseInfo>,
    /// The last report of each variant, the newest first.
    pub reports: Vec<AgentEvalReport>,
    /// The run of this set that goes on or ended last.
    pub run: Option<EvalRunInfo>,
    /// Whether the caller may change and run it.
    pub may_change: bool,
}

/// A question with what is expected of its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalCaseInfo {
    /// The name of the case, which no other case of the set has.
    #[schemars(length(min = 1, max = 100))]
    pub id: String,
    /// The agent that is asked.
    pub agent: String,
    /// Earlier questions of the same conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The question.
    #[schemars(length(min = 1))]
    pub ask: String,
    /// Why this case is a known failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<String>,
    /// What is expected. Something has to be.
    pub expect: EvalExpectation,
}

impl EvalCaseInfo {
    pub(crate) fn from_case(case: &AgentEvalCase) -> Self {
        Self {
            id: case.id.clone(),
            agent: case.agent.clone(),
            before: case.before.clone(),
            ask: case.ask.clone(),
            fails: case.fails.clone(),
            expect: case.expect.clone(),
        }
    }

    /// The case, with what this type does not show taken from the case that it replaces.
    pub(crate) fn into_case(self, replaced: Option<&AgentEvalCase>) -> AgentEvalCase {
        let options = replaced.map(|case| case.options.clone()).unwrap_or_default();
        let Self { id, agent, before, ask, fails, expect } = self;
        AgentEvalCase { id, agent, before, ask, options, fails, expect }
    }
}

/// What a set is asked with.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartEvalRun {
    /// One report is made of each. An empty object asks with what is set up.
    #[schemars(length(min = 1, max = 8))]
    pub variants: Vec<EvalVariant>,
}

/// A run of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvalRunInfo {
    /// The id of the run.
    pub id: String,
    /// The set.
    pub set: String,
    /// How it stands.
    pub status: EvalRunStatus,
    /// What it is asked with.
    pub variants: Vec<EvalVariant>,
    /// When it was started, in milliseconds since 1970.
    pub started_at: i64,
    /// How many questions were answered.
    pub done: usize,
    /// How many questions there are, for all variants together.
    pub total: usize,
    /// How many did not hold.
    pub failed: usize,
    /// The case that is asked now.
    pub case: Option<String>,
    /// Why it failed, in English.
    pub en: Option<String>,
    /// The same in Korean.
    pub ko: Option<String>,
}

/// How the run of a set stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvalRunStatus {
    /// Questions are asked.
    Running,
    /// Every question was asked.
    Finished,
    /// It was stopped. Its results are in no report.
    Stopped,
    /// A question could not be asked.
    Failed,
    /// The server stopped before the last case. Results since the last report are lost.
    Interrupted,
}

//! Tokens, money, memory and health.

use doran_agents::memory::MemoryFact;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What runs and evaluations used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsageInfo {
    /// The number of runs, and of questions of evaluations.
    pub runs: u64,
    /// Whether all runs and steps were counted, not only the newest 20,000 runs and 20,000 steps of a thread, and none of the numbers
    /// is an estimate. What a request took that was stopped or cut off is an estimate, and so is all that the built-in model takes; what
    /// a request took that was under way when the server died is not counted. Of runs that finished, this is known only with `thread` or
    /// `days`.
    pub complete: bool,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The cost in millionths of a US dollar.
    pub cost_micros: u64,
    /// The usage of each model, without `deleted`. Only with `thread` or `days`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_model: Option<Vec<ModelUsageInfo>>,
    /// The usage of each day, newest first. Only with `days`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_day: Option<Vec<DayUsageInfo>>,
    /// The usage of each agent. Only with `days`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_agent: Option<Vec<NamedUsageInfo>>,
    /// The usage of each API key, without `deleted`; runs without one have an empty name. Only with `days`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_key: Option<Vec<NamedUsageInfo>>,
    /// What of all this evaluations used, if they used anything. Not with `thread`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evals: Option<EvalUsageInfo>,
    /// What of all this runs used whose threads were deleted. Not with `thread`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<DeletedUsageInfo>,
    /// Won for a US dollar, if the settings have a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub krw_per_usd: Option<f64>,
    /// The budget of the month, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetInfo>,
}

/// What the questions of evaluations used.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct EvalUsageInfo {
    /// The number of questions, earlier ones of the same conversation included.
    pub runs: u64,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The cost in millionths of a US dollar.
    pub cost_micros: u64,
}

/// What runs used whose threads were deleted.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct DeletedUsageInfo {
    /// The number of runs.
    pub runs: u64,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The cost in millionths of a US dollar.
    pub cost_micros: u64,
}

/// The budget of a month.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct BudgetInfo {
    /// The budget, in millionths of a US dollar.
    pub limit_micros: u64,
    /// What was spent of it since the month began (UTC).
    pub spent_micros: u64,
}

/// What the runs of a day used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DayUsageInfo {
    /// When the day began, in milliseconds since 1970.
    pub start: i64,
    /// The number of runs.
    pub runs: u64,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The cost in millionths of a US dollar.
    pub cost_micros: u64,
}

/// What the runs of an agent or of an API key used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamedUsageInfo {
    /// The name.
    pub name: String,
    /// The number of runs.
    pub runs: u64,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The cost in millionths of a US dollar.
    pub cost_micros: u64,
}

/// What calls of one model used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModelUsageInfo {
    /// The name of the model.
    pub name: String,
    /// The number of calls.
    pub calls: u64,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// The cost in millionths of a US dollar; `null` if the price of a call is unknown.
    pub cost_micros: Option<u64>,
}

/// A fact that agents remember across threads.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFactInfo {
    /// The id of the fact.
    pub id: String,
    /// The fact.
    pub text: String,
    /// When it was stored, in milliseconds since 1970.
    pub at: i64,
}

impl MemoryFactInfo {
    /// A fact of the store of memories.
    pub fn from_fact(fact: MemoryFact) -> Self {
        Self { id: fact.id, text: fact.text, at: fact.at_ms }
    }
}

/// The facts that agents remember.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFactList {
    /// The facts.
    pub facts: Vec<MemoryFactInfo>,
}

/// The health of the server.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct HealthInfo {
    /// The status.
    pub status: HealthStatus,
}

/// Whether the server can do its work.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// The process runs and accepts new runs.
    Ok,
    /// The store answers as well.
    Ready,
}

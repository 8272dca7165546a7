//! Things as lists show them.

use doran_agents::{AnswerSource, ModelInfo, StarterQuestions};
use doran_engine::store::{RunRow, RunStatus, RunUsage, ThreadRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::advice;

/// An agent, for people.
#[derive(Clone, Debug, Serialize)]
pub struct AgentInfo {
    /// Its name in calls.
    pub id: String,
    /// What it does.
    pub en: String,
    /// The same in Korean.
    pub ko: String,
    /// Questions to begin with.
    pub starters: StarterQuestions,
    /// Who answers.
    pub model: ModelInfo,
}

impl AgentInfo {
    pub(crate) fn from_agent(agent: &doran_agents::Agent) -> Self {
        Self {
            id: agent.name.clone(),
            en: agent.en.clone(),
            ko: agent.ko.clone(),
            starters: agent.starters.clone(),
            model: agent.model.clone(),
        }
    }
}

/// A thread, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInfo {
    /// Its name in calls.
    pub id: String,
    /// What people call it; empty until something was asked.
    pub title: String,
    /// Who was asked first.
    pub agent: Option<String>,
    /// The run that is under way or waits.
    pub active: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created: i64,
    /// When it last changed.
    pub updated: i64,
}

impl ThreadInfo {
    pub(crate) fn from_row(row: &ThreadRow) -> Self {
        let text = |key: &str| row.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            id: row.key.thread.to_string(),
            title: text("title").unwrap_or_default(),
            agent: text("agent"),
            active: row.active.map(|run| run.to_string()),
            created: row.created_at,
            updated: row.updated_at,
        }
    }
}

/// A run, as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Its id.
    pub id: String,
    /// Its thread.
    pub thread: String,
    /// Its agent.
    pub agent: String,
    /// Where it stands.
    pub status: RunStatus,
    /// When it was accepted, in milliseconds since 1970.
    pub created: i64,
    /// When it began.
    pub started: Option<i64>,
    /// When it ended.
    pub ended: Option<i64>,
    /// Steps finished.
    pub steps: u32,
    /// What was spent.
    pub usage: RunUsage,
    /// Why it failed, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Why it failed, as whoever failed put it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Why it failed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_en: Option<String>,
    /// The same in Korean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_ko: Option<String>,
}

impl RunInfo {
    /// A run of the store.
    pub fn from_row(row: &RunRow) -> Self {
        let error = row.error.clone();
        let words = error.as_ref().map(|error| advice(&error.code));
        Self {
            id: row.run.to_string(),
            thread: row.thread.thread.to_string(),
            agent: row.graph.clone(),
            status: row.status,
            created: row.created_at,
            started: row.started_at,
            ended: row.ended_at,
            steps: row.steps,
            usage: row.usage,
            error_code: error.as_ref().map(|error| error.code.clone()),
            error_message: error.map(|error| error.message),
            error_en: words.map(|words| words.en.to_owned()),
            error_ko: words.map(|words| words.ko.to_owned()),
        }
    }
}

/// A message, as it was said.
#[derive(Clone, Debug, Serialize)]
pub struct MessageInfo {
    /// Its name within the thread.
    pub id: String,
    /// Whose turn it was.
    pub role: Value,
    /// Its words.
    pub text: String,
    /// All it holds, tool calls and results too.
    pub parts: Value,
    /// What it rests on.
    pub sources: Vec<AnswerSource>,
    /// The run it belongs to.
    pub run: Option<String>,
    /// The entry of the log that holds it.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

impl MessageInfo {
    pub(crate) fn from_history(said: doran_agents::history::HistoryMessage) -> Self {
        let doran_agents::history::HistoryMessage { message, sources, run, seq, at } =
            said.with_renumbered_sources();
        Self {
            id: message.id.to_string(),
            text: message.text(),
            role: serde_json::to_value(message.role).unwrap_or_default(),
            parts: serde_json::to_value(&message.parts).unwrap_or_default(),
            sources,
            run,
            seq,
            at,
        }
    }
}

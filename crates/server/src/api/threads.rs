//! Threads, their messages, their history and their state.

use doran_agents::{AnswerSource, MessagePart, Role};
use doran_engine::store::{EntryKind, Seq, ThreadRow};
use doran_engine::{EntryBody, ThreadEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadInfo {
    /// The name of the thread in requests.
    pub id: String,
    /// The title; empty until the first message.
    pub title: String,
    /// The agent that was asked first.
    pub agent: Option<String>,
    /// The run that is active or waits.
    pub active: Option<String>,
    /// When the thread was created, in milliseconds since 1970.
    pub created: i64,
    /// When the thread last changed, in milliseconds since 1970.
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

/// A page of threads.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadList {
    /// The threads, most recently changed first.
    pub threads: Vec<ThreadInfo>,
    /// The `cursor` of the next page; `null` on the last page.
    pub next: Option<usize>,
}

/// A message of a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MessageInfo {
    /// The id of the message within the thread.
    pub id: String,
    /// Who wrote it.
    pub role: Role,
    /// The text.
    pub text: String,
    /// All parts, including tool calls and their results.
    pub parts: Vec<MessagePart>,
    /// The sources of the answer.
    pub sources: Vec<AnswerSource>,
    /// The run that the message belongs to.
    pub run: Option<String>,
    /// The log entry that holds the message.
    pub seq: Seq,
    /// When the entry was written, in milliseconds since 1970.
    pub at: i64,
}

impl MessageInfo {
    pub(crate) fn from_history(said: doran_agents::history::HistoryMessage) -> Self {
        let doran_agents::history::HistoryMessage { message, sources, run, seq, at } =
            said.with_renumbered_sources();
        Self {
            id: message.id.to_string(),
            text: message.text(),
            role: message.role,
            parts: message.parts,
            sources,
            run,
            seq,
            at,
        }
    }
}

/// The messages of a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MessageList {
    /// The messages, oldest first.
    pub messages: Vec<MessageInfo>,
}

/// An entry of the log of a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryEntry {
    /// The number of the entry.
    pub seq: Seq,
    /// The entry before it.
    pub parent: Seq,
    /// What the entry records.
    pub kind: EntryKind,
    /// The run that wrote it.
    pub run: Option<String>,
    /// When it was written, in milliseconds since 1970.
    pub at: i64,
    /// The step.
    #[serde(flatten)]
    pub step: Option<HistoryStep>,
}

/// A step of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryStep {
    /// How many steps of the run are finished.
    pub step: u32,
    /// The nodes that ran.
    pub nodes: Vec<String>,
    /// The nodes that are due next.
    pub next: Vec<String>,
}

impl HistoryEntry {
    pub(crate) fn from_log(entry: &ThreadEntry) -> Self {
        let step = match &entry.body {
            EntryBody::Step(step) | EntryBody::InnerStep(step) => Some(HistoryStep {
                step: step.step,
                nodes: step.tasks.iter().map(|task| task.node.clone()).collect(),
                next: step.next.clone(),
            }),
            _ => None,
        };
        Self {
            seq: entry.seq,
            parent: entry.parent,
            kind: entry.kind(),
            run: entry.run.map(|run| run.to_string()),
            at: entry.at,
            step,
        }
    }
}

/// A page of the log of a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadHistory {
    /// The entries, oldest first.
    pub steps: Vec<HistoryEntry>,
    /// The `after` of the next page; `null` on the last page.
    pub next: Option<Seq>,
}

/// The state of a thread after an entry.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThreadStateInfo {
    /// The entry.
    pub seq: Seq,
    /// The nodes that are due next.
    pub next: Vec<String>,
    /// The requests that the node in `explain` would send to models in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<Value>>,
    /// The state, as the agent defines it.
    pub state: Value,
}

//! Threads, their messages, their history and their state.

use doran_agents::history::HistoryMessage;
use doran_agents::{AnswerSource, MessagePart, Role};
use doran_engine::store::{EntryKind, Seq, ThreadRow};
use doran_engine::{EntryBody, StateView, ThreadEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::QuestionInfo;
use crate::agent_request::DORAN_METADATA;
use crate::stored_json::read_stored;
use crate::thread_settings;

/// Where a thread says that it is pinned.
pub(crate) const PINNED_METADATA: &str = "pinned";

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadInfo {
    /// The name of the thread in requests.
    pub id: String,
    /// The title; empty until the first message.
    pub title: String,
    /// The agent that was asked first.
    pub agent: Option<String>,
    /// The run that is active or waits.
    pub active: Option<String>,
    /// The model of the chat, by the `id` of one of the models; `null` for the default.
    #[serde(default)]
    pub model: Option<String>,
    /// The temperature of answers; `null` leaves it to the model.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// Instructions for the model, sent with every turn.
    #[serde(default)]
    pub instructions: String,
    /// Whether the thread is pinned to the top of lists.
    #[serde(default)]
    pub pinned: bool,
    /// When the thread was created, in milliseconds since 1970.
    pub created: i64,
    /// When the thread last changed, in milliseconds since 1970.
    pub updated: i64,
}

impl ThreadInfo {
    /// A thread of the store.
    pub fn from_row(row: &ThreadRow) -> Self {
        let text = |key: &str| row.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        let first_message = || Some(row.metadata.get(DORAN_METADATA)?.get("title")?.as_str()?.to_owned());
        Self {
            id: row.key.thread.to_string(),
            title: text("title").filter(|title| !title.is_empty()).or_else(first_message).unwrap_or_default(),
            agent: text("agent"),
            active: row.active.map(|run| run.to_string()),
            model: text(thread_settings::MODEL_METADATA),
            temperature: thread_settings::temperature_of(row),
            instructions: text(thread_settings::INSTRUCTIONS_METADATA).unwrap_or_default(),
            pinned: row.metadata.get(PINNED_METADATA) == Some(&Value::Bool(true)),
            created: row.created_at,
            updated: row.updated_at,
        }
    }
}

/// A page of threads.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ThreadList {
    /// The threads, most recently changed first.
    pub threads: Vec<ThreadInfo>,
    /// The `cursor` of the next page; `null` on the last page.
    pub next: Option<String>,
}

/// A message of a thread.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
    /// The model that wrote the message; `null` if a person or the program did.
    pub model: Option<String>,
    /// The run that the message belongs to.
    pub run: Option<String>,
    /// The log entry that holds the message.
    pub seq: Seq,
    /// When the entry was written, in milliseconds since 1970.
    pub at: i64,
}

impl MessageInfo {
    /// A message of a conversation.
    pub fn from_history(message: HistoryMessage) -> Self {
        let HistoryMessage { message, sources, model, run, seq, at } = message.with_renumbered_sources();
        Self {
            id: message.id.to_string(),
            text: message.text(),
            role: message.role,
            parts: message.parts,
            sources,
            model,
            run,
            seq,
            at,
        }
    }
}

/// The messages of a thread, along one branch of its log.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MessageList {
    /// The messages, oldest first.
    pub messages: Vec<MessageInfo>,
    /// The `before` of the page with earlier messages; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Seq>,
    /// What people were asked, oldest first.
    pub decisions: Vec<DecisionInfo>,
    /// What people think of the answers.
    pub feedback: Vec<FeedbackInfo>,
}

/// How a thread names what people think of its answers, followed by the id of the run.
pub(crate) const FEEDBACK_METADATA_PREFIX: &str = "feedback:";

/// What a person thinks of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FeedbackInfo {
    /// The run that answered.
    pub run: String,
    /// The rating.
    pub rating: FeedbackRating,
    /// Why.
    pub note: String,
}

/// The rating of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackRating {
    /// The answer helped.
    Up,
    /// The answer was wrong or did not help.
    Down,
}

impl FeedbackInfo {
    /// All that a thread holds.
    pub(crate) fn of_thread(row: &ThreadRow) -> Vec<Self> {
        let read = |(key, value): (&String, &Value)| {
            let run = key.strip_prefix(FEEDBACK_METADATA_PREFIX)?.to_owned();
            // One that cannot be read is logged.
            let rating = read_stored(value.get("rating"), &format!("rating of run `{run}`")).ok()??;
            let note = value.get("note").and_then(Value::as_str).unwrap_or_default().to_owned();
            Some(Self { run, rating, note })
        };
        row.metadata.iter().filter_map(read).collect()
    }
}

/// A question of a run to a person, with the answer once there is one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DecisionInfo {
    /// The question.
    #[serde(flatten)]
    pub question: QuestionInfo,
    /// When it was asked, in milliseconds since 1970.
    pub asked: i64,
    /// The answer; absent while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// When it was answered, in milliseconds since 1970.
    pub answered: Option<i64>,
}

impl DecisionInfo {
    pub(crate) fn from_asked_question(asked: &doran_agents::asked_questions::QuestionToPerson) -> Self {
        Self {
            question: QuestionInfo::from_log(asked.run, &asked.question),
            asked: asked.asked_at,
            answer: asked.answer.clone(),
            answered: asked.answered_at,
        }
    }
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
    /// Why the node in `explain` cannot make its requests in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks_error: Option<String>,
    /// The digests of `asks`. A request with the digest of a model call (`request`) is the one that was sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<String>,
    /// The state, as the agent defines it.
    pub state: Value,
}

impl ThreadStateInfo {
    pub(crate) fn from_view(view: StateView) -> Self {
        let StateView { seq, next, state, .. } = view;
        Self { seq, next, asks: None, asks_error: None, digests: Vec::new(), state }
    }
}

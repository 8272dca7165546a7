//! Runs: how they are started, what they are, and what they ask.

use doran_agents::{AgentTurn, AskOptions};
use doran_engine::store::{IfBusy, RunRow, RunStatus, RunUsage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{QuestionInfo, advice};

/// The message for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// The name of the agent.
    #[schemars(example = &"assistant")]
    pub agent: String,
    /// The message. It must not be empty.
    #[schemars(length(min = 1), example = &"연차는 며칠인가요?")]
    pub message: String,
    /// What to do when the thread has an active run: `reject` (the default), `enqueue`, `interrupt` or `rollback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<IfBusy>,
    /// The document id of the contract that the message is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_id: Option<String>,
    /// The collection of documents to search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<super::CollectionName>")]
    pub collection: Option<String>,
    /// A text that comes with the message and that the person did not type, such as a file. The model sees it as a quoted
    /// document and trusts it as any other document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
}

impl StartRun {
    /// Asks an agent.
    pub fn new(agent: impl Into<String>, message: impl Into<String>) -> Self {
        let (agent, message) = (agent.into(), message.into());
        Self { agent, message, if_busy: None, contract_id: None, collection: None, document: None }
    }

    /// What comes with the question.
    pub fn options(&self) -> AskOptions {
        AskOptions {
            contract_id: self.contract_id.clone(),
            collection: self.collection.clone(),
            document: self.document.clone(),
            ..AskOptions::default()
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// The id of the run.
    pub id: String,
    /// The thread of the run.
    pub thread: String,
    /// The agent of the run.
    pub agent: String,
    /// The status of the run.
    pub status: RunStatus,
    /// When the run was accepted, in milliseconds since 1970.
    pub created: i64,
    /// When the run started, in milliseconds since 1970.
    pub started: Option<i64>,
    /// When the run ended, in milliseconds since 1970.
    pub ended: Option<i64>,
    /// The number of finished steps.
    pub steps: u32,
    /// The tokens and the money that the run used.
    pub usage: RunUsage,
    /// The code of the error, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The message of the part that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The error in English.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_en: Option<String>,
    /// The error in Korean.
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

/// The runs of a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunList {
    /// The runs, newest first.
    pub runs: Vec<RunInfo>,
}

/// A run with its open questions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: RunInfo,
    /// The open questions of a paused run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub questions: Option<Vec<QuestionInfo>>,
    /// In the response to `cancel`: the run was told to end and has not ended yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancel_requested: bool,
}

impl RunDetail {
    pub(crate) fn from_row(row: &RunRow) -> Self {
        Self { run: RunInfo::from_row(row), questions: None, cancel_requested: false }
    }
}

/// A run and its answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunAnswer {
    /// The run.
    #[serde(flatten)]
    pub run: RunInfo,
    /// The answer of a finished run.
    #[serde(flatten)]
    pub turn: Option<AgentTurn>,
    /// The open questions of a paused run, or of the earlier run of the thread that this run waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub questions: Option<Vec<QuestionInfo>>,
}

/// An open question of any thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WaitingQuestion {
    /// The question.
    #[serde(flatten)]
    pub question: QuestionInfo,
    /// The thread of the run that asks.
    pub thread: String,
    /// The agent of the run that asks.
    pub agent: String,
    /// When the run started, in milliseconds since 1970.
    pub since: Option<i64>,
}

/// The open questions of all threads.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WaitingQuestionList {
    /// The questions; those of the newest run come first.
    pub questions: Vec<WaitingQuestion>,
}

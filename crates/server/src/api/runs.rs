//! Runs: how they are started, what they are, and what they ask.

use std::collections::BTreeSet;

use doran_agents::{AgentTurn, AskOptions, ModelChoice};
use doran_engine::store::{IfBusy, RunRow, RunStatus, RunUsage, Seq};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{QuestionInfo, advice};
use crate::ServerApp;
use crate::agent_request::QUESTION_TITLE_METADATA;

/// The message for an agent, or the input of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// The name of the agent.
    #[schemars(example = &"assistant")]
    pub agent: String,
    /// The message. It must not be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1), example = &"연차는 며칠인가요?")]
    pub message: String,
    /// The input of a graph instead of a message: an update of its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Map<String, Value>>,
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
    /// The model that answers this message, by the `id` of one of the models. The default is that of the thread, else that of
    /// the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 300))]
    pub model: Option<String>,
    /// A text that comes with the message and that the person did not type, such as a file. The model sees it as a quoted
    /// document and trusts it as any other document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// Images that belong to the message, as `data:image/TYPE;base64,DATA`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = crate::run_images::MAX_IMAGES))]
    pub images: Vec<String>,
    /// The log entry that the message follows. The default is the newest entry. What came after an older one stays in the
    /// log as another branch, and the agent does not see it. 0 is the beginning of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Seq>,
    /// Nodes before which the run pauses.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pause_before: BTreeSet<String>,
    /// Nodes after which the run pauses.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pause_after: BTreeSet<String>,
}

impl StartRun {
    /// Asks an agent.
    pub fn new(agent: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            message: message.into(),
            input: None,
            if_busy: None,
            contract_id: None,
            collection: None,
            model: None,
            document: None,
            images: Vec::new(),
            from: None,
            pause_before: BTreeSet::new(),
            pause_after: BTreeSet::new(),
        }
    }

    /// What comes with the question.
    pub fn options(&self) -> AskOptions {
        AskOptions {
            contract_id: self.contract_id.clone(),
            collection: self.collection.clone(),
            document: self.document.clone(),
            chosen: ModelChoice { model: self.model.clone(), ..ModelChoice::default() },
            images: self.images.iter().map(|url| crate::run_images::image_reference(url)).collect(),
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
    /// The beginning of the message that the run answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The status of the run.
    pub status: RunStatus,
    /// Whether the run waits because the server does not have its agent any more. It continues when the agent is back, and it
    /// can be cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_missing: bool,
    /// When the run was accepted, in milliseconds since 1970.
    pub created: i64,
    /// When the run started, in milliseconds since 1970.
    pub started: Option<i64>,
    /// When the run ended, in milliseconds since 1970.
    pub ended: Option<i64>,
    /// The log entry that the run follows. Runs that follow the same entry are branches of the thread.
    #[serde(default)]
    pub from: Option<Seq>,
    /// The first log entry of the run.
    #[serde(default)]
    pub first: Option<Seq>,
    /// The last log entry of the run; `null` until it has ended.
    #[serde(default)]
    pub last: Option<Seq>,
    /// The number of finished steps.
    pub steps: u32,
    /// The tokens and the money that the run used.
    pub usage: RunUsage,
    /// What its client noted with it, such as `user` and `metadata` of an OpenAI request.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
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
    /// A run that this server works on, or would if it had the agent.
    pub(crate) fn of_server(row: &RunRow, app: &ServerApp) -> Self {
        let agent_missing = !row.status.is_end() && !app.has_agent(&row.graph);
        Self { agent_missing, ..Self::from_row(row) }
    }

    /// A run of the store.
    pub fn from_row(row: &RunRow) -> Self {
        let error = row.error.clone();
        let words = error.as_ref().map(|error| advice(&error.code));
        Self {
            id: row.run.to_string(),
            thread: row.thread.thread.to_string(),
            agent: row.graph.clone(),
            question: row.metadata.get(QUESTION_TITLE_METADATA).and_then(Value::as_str).map(str::to_owned),
            status: row.status,
            agent_missing: false,
            created: row.created_at,
            started: row.started_at,
            ended: row.ended_at,
            from: row.parent_seq,
            first: row.first_seq,
            last: row.last_seq,
            steps: row.steps,
            usage: row.usage,
            metadata: row.metadata.clone(),
            error_code: error.as_ref().map(|error| error.code.clone()),
            error_message: error.map(|error| error.message),
            error_en: words.map(|words| words.en.to_owned()),
            error_ko: words.map(|words| words.ko.to_owned()),
        }
    }
}

/// The runs of a thread.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunList {
    /// The runs, newest first.
    pub runs: Vec<RunInfo>,
}

/// A page of the runs of all threads.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunPage {
    /// The runs, newest first.
    pub runs: Vec<RunInfo>,
    /// The `before` of the next page; `null` on the last page.
    pub next: Option<String>,
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
    /// In the response to `cancel`: cancellation was requested, but the run has not ended yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancel_requested: bool,
}

impl RunDetail {
    pub(crate) fn of_server(row: &RunRow, app: &ServerApp) -> Self {
        Self { run: RunInfo::of_server(row, app), questions: None, cancel_requested: false }
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaitingQuestionList {
    /// The questions; those of the newest run come first.
    pub questions: Vec<WaitingQuestion>,
}

//! The response of `POST /api/chat`.

use doran_agents::AnswerSource;
use schemars::JsonSchema;
use serde::Serialize;

use super::QuestionInfo;

/// An answer.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatAnswer {
    /// The thread.
    pub session_id: String,
    /// The run. An empty message starts none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// How long the request took, in seconds.
    pub execution_time: f64,
    /// The answer; `null` while the run waits for an approval.
    pub response: Option<String>,
    /// What the agent did for the answer.
    #[serde(flatten)]
    pub turn: Option<ChatTurn>,
    /// The requests that were sent to models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u32>,
    /// Whether there is no answer but an error.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
    /// The code of the error, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The run that waits, and what it asks.
    #[serde(flatten)]
    pub paused: Option<ChatPause>,
}

/// What an agent did for an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatTurn {
    /// The tools that were used, each once.
    pub tools_used: Vec<String>,
    /// The sources of the answer, numbered from 1 as the answer cites them.
    pub sources: Vec<AnswerSource>,
    /// The nodes that ran, in order.
    pub path: Vec<String>,
}

/// A run that waits for an approval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChatPause {
    /// Always `paused`.
    pub status: ChatPauseStatus,
    /// `false` if an earlier run of the thread waits, so that this message was not sent.
    pub accepted: bool,
    /// The open questions.
    pub questions: Vec<QuestionInfo>,
}

impl ChatPause {
    pub(crate) fn new(accepted: bool, questions: Vec<QuestionInfo>) -> Self {
        Self { status: ChatPauseStatus::Paused, accepted, questions }
    }
}

/// The status of an answer that is not there yet.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatPauseStatus {
    /// A run waits for an approval.
    Paused,
}

//! What a person sees of a turn, whichever agent answered it.

use serde::{Deserialize, Serialize};

use crate::citation_numbering::CitationNumbering;
use crate::language::UserLanguage;
use crate::source::AnswerSource;
use crate::state::TurnProgress;

/// A turn, read from the state after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentTurn {
    /// The answer.
    pub response: String,
    /// What it rests on.
    pub sources: Vec<AnswerSource>,
    /// Tools that were run, each named once.
    pub tools_used: Vec<String>,
    /// Whether the answer only says that there is none.
    pub error: bool,
    /// Why, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Requests sent to models, those that failed and were sent again included.
    pub model_calls: u32,
    /// Nodes that ran, in order.
    pub path: Vec<String>,
    /// What the conversation held before the messages that are still worked with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The language of the answer.
    pub language: UserLanguage,
    /// Seconds from question to answer, where the agent counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_time: Option<f64>,
    /// The way the question took, in the words of the agent's description; for evaluations, not for clients.
    #[serde(skip)]
    pub route: String,
}

impl AgentTurn {
    /// What is known of a turn by how far it has come.
    pub(crate) fn from_progress(progress: &TurnProgress) -> Self {
        Self {
            tools_used: progress.tools_used.clone(),
            model_calls: progress.model_calls,
            path: progress.path.clone(),
            language: progress.language,
            route: progress.path.join(">"),
            ..Self::default()
        }
    }

    /// The turn with its sources counted as people count them: from 1, as the answer names them.
    #[must_use]
    pub fn with_renumbered_sources(self) -> Self {
        let (cited, response) =
            CitationNumbering::renumber_text(&self.response, self.sources.iter().map(|source| source.number));
        Self { sources: cited.renumber_sources(&self.sources), response, ..self }
    }
}

/// What the update of a node says about the turn, whatever its agent calls its fields. Only `messages` has the same name
/// in all agents, and is not repeated here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct TurnUpdate {
    /// Numbers of sources that were found, and that the answer may cite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<u32>,
    /// What the answer in this update rests on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<AnswerSource>,
    /// How far the turn has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<TurnProgress>,
    /// Why the answer only says that there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Whether the messages in this update were said before, and are only shortened or put in place again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rewrites_messages: bool,
}

impl TurnUpdate {
    /// The update found these sources.
    pub(crate) fn with_found(self, sources: &[AnswerSource]) -> Self {
        Self { found: sources.iter().map(|source| source.number).collect(), ..self }
    }
}

/// What may come with a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AskOptions {
    /// The contract that is asked about: the id of its document. Without it, all contracts are.
    #[serde(alias = "contractId")]
    pub contract_id: Option<String>,
    /// The collection of documents to look in.
    pub collection: Option<String>,
    /// What was said before, where the conversation is kept by whoever asks; oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierMessage>,
    /// What whoever asks wants to hold for the whole conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// A text that comes with the question and that the person did not type: a file that was piped in, for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
}

/// A message of a conversation that is kept elsewhere. Nobody else speaks in it than the person and the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierMessage {
    /// The person.
    Asked(String),
    /// The agent.
    Answered(String),
}

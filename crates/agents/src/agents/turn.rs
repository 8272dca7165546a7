//! A turn as a person sees it, for all agents.

use doran_llm::{ImageReference, Message, MessageId, MessagePart, ToolCall, ToolResult};
use doran_retrieval::Language;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::turn_request::TurnRequest;
use crate::citation_numbering::CitationNumbering;
use crate::source::AnswerSource;
use crate::state::{ModelChoice, TurnProgress};

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
    /// A summary of messages that are no longer sent to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The language of the answer.
    pub language: Language,
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
    /// Whether the messages in this update only replace earlier ones.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AskOptions {
    /// The contract that is asked about: the id of its document. Without it, all contracts are.
    #[serde(alias = "contractId")]
    pub contract_id: Option<String>,
    /// The collection of documents to look in.
    pub collection: Option<String>,
    /// What was said before, where the conversation is kept by the client; oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierMessage>,
    /// Instructions of the client for the whole conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// A text that comes with the question and that the person did not type: a file that was piped in, for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// Pictures that belong to the question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageReference>,
    /// What was said after the question, where the turn is not over: tool calls and what they gave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub following: Vec<EarlierMessage>,
    /// How the turn is to be answered.
    #[serde(skip_serializing_if = "TurnRequest::is_default")]
    pub request: TurnRequest,
    /// The instructions of the chat, in place of those of the turn before; empty ones remove them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The model that was chosen for the turn.
    pub chosen: ModelChoice,
    /// How the client knows the question.
    #[serde(skip_serializing_if = "QuestionLabel::is_default")]
    pub label: QuestionLabel,
}

/// How the program that sends a question knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct QuestionLabel {
    /// The id of its message. Without it, the message gets a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageId>,
    /// What the program stores with the message.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub client_fields: Map<String, Value>,
}

impl QuestionLabel {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The question under this label.
    pub(crate) fn apply_to(&self, question: Message) -> Message {
        let id = self.id.clone().unwrap_or(question.id);
        Message { id, client_fields: self.client_fields.clone(), ..question }
    }
}

impl AskOptions {
    /// The texts of all messages that come with the question.
    pub fn message_texts(&self) -> impl Iterator<Item = &str> {
        self.earlier.iter().chain(&self.following).flat_map(EarlierMessage::texts)
    }
}

/// A message of a conversation that is kept elsewhere. It has messages of the person and of the agent only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlierMessage {
    /// The person.
    Asked(String),
    /// The person, with pictures.
    AskedWithImages {
        /// What they said.
        text: String,
        /// The pictures.
        images: Vec<ImageReference>,
    },
    /// The agent.
    Answered(String),
    /// The agent, who wanted tools to be run by the client.
    Called {
        /// What it said beside it.
        text: String,
        /// The calls.
        calls: Vec<ToolCall>,
    },
    /// What the calls gave.
    Returned(Vec<ToolResult>),
    /// A message of either, under the id that the client knows it by.
    Labelled(Message),
}

impl EarlierMessage {
    fn texts(&self) -> Vec<&str> {
        match self {
            Self::Asked(text) | Self::Answered(text) | Self::Called { text, .. } => vec![text],
            Self::AskedWithImages { text, images } => {
                images.iter().map(|image| image.url.as_str()).chain([text.as_str()]).collect()
            }
            Self::Returned(results) => results.iter().map(|result| result.text.as_str()).collect(),
            Self::Labelled(message) => message.parts.iter().filter_map(part_text).collect(),
        }
    }
}

fn part_text(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Text { text, .. } | MessagePart::Reasoning { text, .. } => Some(text),
        MessagePart::Image(image) => Some(&image.url),
        MessagePart::ToolResult(result) => Some(&result.text),
        MessagePart::Passage(passage) => Some(&passage.text),
        MessagePart::ToolCall(_) => None,
    }
}

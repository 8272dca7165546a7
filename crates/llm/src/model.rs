//! The interface to chat models: a request in, deltas out, errors sorted by what the caller can do about them.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

pub use crate::error::ModelError;
use crate::json_depth::bounded_depth;
use crate::message::{Message, MessagePart, Role, TextOrigin, ToolCall};
use crate::request_label::RequestLabel;

/// A model that answers a conversation, piece by piece.
///
/// The stream does its work as it is polled and stops when it is dropped. It gives any number of texts and then
/// exactly one [`Delta::Done`], or one error and nothing after it. Joined, the texts are the whole answer.
pub trait ChatModel: Send + Sync + 'static {
    /// What this model is, in words that may be shown to a person.
    fn info(&self) -> ModelInfo;

    /// What answers requests of this role, where that differs.
    fn info_for_role(&self, _role: ModelRole) -> ModelInfo {
        self.info()
    }

    /// What a request in this role that took so much cost, in millionths of a US dollar. `None` where the price is not
    /// known. For requests that did not end and so brought no cost of their own.
    fn cost_micros(&self, _role: ModelRole, _usage: &Usage) -> Option<u64> {
        None
    }

    /// Answers the request.
    fn stream(&self, request: ChatRequest) -> DeltaStream;
}

/// An answer that is being streamed.
pub type DeltaStream = BoxStream<'static, Result<Delta, ModelError>>;

/// What a model is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ModelInfo {
    /// The name to put on every answer.
    pub name: String,
    /// What kind of thing answers.
    pub kind: ModelKind,
    /// What it does and does not do, in Korean.
    pub ko: String,
    /// The same in English.
    pub en: String,
    /// Settings of a request that it does not take.
    #[serde(skip)]
    pub unsupported_settings: Vec<SamplingSetting>,
}

/// A setting of a request about how words are chosen, which not every model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingSetting {
    /// [`ChatRequest::temperature`]. It is a wish: a model that does not take one gets a request without it.
    Temperature,
    /// [`ChatRequest::top_p`].
    TopP,
    /// [`ChatRequest::seed`].
    Seed,
    /// [`ChatRequest::stop`].
    Stop,
}

impl SamplingSetting {
    /// Its name in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::Seed => "seed",
            Self::Stop => "stop",
        }
    }
}

/// What kind of thing answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// A language model: it writes sentences of its own.
    Language,
    /// Rules that quote what they were given and write nothing of their own beyond fixed sentences.
    Extractive,
}

/// A request to a model.
///
/// Dropping the stream of the answer cancels the request: nothing more is read, and a connection is closed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The conversation, oldest first. The newest message of the user is what is to be answered.
    pub messages: Vec<Message>,
    /// What the answer is for. It shows in traces and recordings.
    pub purpose: RequestLabel,
    /// Which of the configured models is meant.
    pub role: ModelRole,
    /// What the model may want to be run.
    pub tools: Vec<ToolSpec>,
    /// Whether it may, must or must not.
    pub tool_choice: ToolChoice,
    /// The shape that the whole text of the answer must have, if it is to be JSON.
    pub schema: Option<ResponseSchema>,
    /// How freely words are chosen; none means that the model decides. 0 is the most repeatable.
    pub temperature: Option<f32>,
    /// Only the likeliest words that together have this probability are chosen from, at most 1; none means that the model
    /// decides. A model that does not take it rejects the request, and so it does with the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// The most tokens the answer may have; none means that the model decides.
    pub max_output_tokens: Option<u64>,
    /// Asks for the same choice of words again.
    pub seed: Option<i64>,
    /// Texts at which the answer ends.
    pub stop: Vec<String>,
    /// Who it is sent for. A model may let tenants take turns. It is neither sent to a vendor nor recorded.
    #[serde(skip)]
    pub tenant: Option<String>,
}

impl ChatRequest {
    /// Asks for an answer to a conversation.
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, ..Self::default() }
    }

    /// Whether it has this setting. A `top_p` of 1 leaves all words to choose from, and so is none.
    pub fn has_setting(&self, setting: SamplingSetting) -> bool {
        match setting {
            SamplingSetting::Temperature => self.temperature.is_some(),
            SamplingSetting::TopP => self.top_p.is_some_and(|top_p| top_p < 1.0),
            SamplingSetting::Seed => self.seed.is_some(),
            SamplingSetting::Stop => !self.stop.is_empty(),
        }
    }

    /// What the person asked: the text of the newest message of the user. Words that the program puts there, such as
    /// a request to repair an answer, are not a question.
    pub fn question(&self) -> Option<String> {
        let is_question = |message: &&Message| {
            message.role == Role::User
                && !message.parts.iter().all(|part| part.origin() == TextOrigin::Program)
        };
        self.messages.iter().rev().find(is_question).map(Message::text)
    }
}

/// Which of the configured models is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    /// Quick decisions.
    Small,
    /// What a person reads.
    #[default]
    Main,
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolSpec {
    /// Its name: ASCII letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub parameters: serde_json::Value,
}

/// Whether a model may, must or must not ask for tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// The shape of an answer that is to be JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ResponseSchema {
    /// What the shape is called: ASCII letters, digits, `_` and `-`.
    pub name: String,
    /// JSON Schema of the whole answer, an object.
    pub schema: serde_json::Value,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// The next words.
    Text {
        /// The words, spaces included.
        text: String,
    },
    /// The next words of what the model thinks aloud.
    Reasoning {
        /// The words.
        text: String,
        /// What the vendor wants to see again with the next request; comes at the end of a thought.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A tool call, once it is whole.
    ToolCall(ToolCall),
    /// The end of the answer.
    Done {
        /// What it took.
        usage: Usage,
        /// Why it ended.
        finish: FinishReason,
    },
}

/// What an answer took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Those of them that the vendor had cached.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Those of them that the vendor put into its cache, where that has a price of its own.
    #[serde(default)]
    pub cache_written_tokens: u64,
    /// Tokens written, thoughts included.
    pub output_tokens: u64,
    /// Those of them that were thoughts.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// Who counted.
    pub counted: TokenCountSource,
    /// What it cost in millionths of a US dollar; none where the price is not known or nobody looked it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// Who counted tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenCountSource {
    /// The model reported them.
    Reported,
    /// They are an estimate from the length of the text.
    #[default]
    Estimated,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The answer is whole.
    Stop,
    /// The limit on tokens cut it.
    Length,
    /// Tools are to be run first.
    ToolCalls,
    /// The provider filtered the reply.
    Filtered,
    /// The vendor gave a reason that is not known here; the answer may not be whole.
    Other,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The words.
    pub text: String,
    /// What the model thought aloud.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<MessagePart>,
    /// The tools it wants to be run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// What it took.
    pub usage: Usage,
    /// Why it ended.
    pub finish: FinishReason,
}

impl ModelReply {
    /// The reply as a message of the conversation: thoughts, words, tool calls.
    pub fn into_message(self, id: impl Into<String>) -> Message {
        let mut parts = self.reasoning;
        if !self.text.is_empty() {
            parts.push(MessagePart::Text { text: self.text, origin: TextOrigin::Model });
        }
        parts.extend(self.tool_calls.into_iter().map(MessagePart::ToolCall));
        Message::new(id, Role::Assistant, parts)
    }
}

/// Puts the pieces of an answer together.
#[derive(Debug, Default)]
pub struct ReplyCollector {
    text: String,
    reasoning: Vec<MessagePart>,
    tool_calls: Vec<ToolCall>,
}

impl ReplyCollector {
    /// Takes the next piece; gives the whole answer when that was the end.
    pub fn add_delta(&mut self, delta: Delta) -> Option<ModelReply> {
        match delta {
            Delta::Text { text } => self.text.push_str(&text),
            Delta::Reasoning { text: piece, signature: sign } => match self.reasoning.last_mut() {
                Some(MessagePart::Reasoning { text, signature: signature @ None }) => {
                    text.push_str(&piece);
                    *signature = sign;
                }
                _ => self.reasoning.push(MessagePart::Reasoning { text: piece, signature: sign }),
            },
            Delta::ToolCall(mut call) => {
                call.arguments = bounded_depth(call.arguments);
                self.tool_calls.push(call);
            }
            Delta::Done { usage, finish } => {
                let Self { text, reasoning, tool_calls } = std::mem::take(self);
                return Some(ModelReply { text, reasoning, tool_calls, usage, finish });
            }
        }
        None
    }
}

/// Waits for the whole answer. An answer without its end is [`ModelError::Broken`], never a short answer.
pub async fn collect_reply(mut deltas: DeltaStream) -> Result<ModelReply, ModelError> {
    let mut collector = ReplyCollector::default();
    while let Some(delta) = deltas.next().await {
        if let Some(reply) = collector.add_delta(delta?) {
            return Ok(reply);
        }
    }
    Err(ModelError::Broken { reason: "it ended without saying so".into() })
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn an_answer_without_an_end_is_broken() {
        let deltas = stream::iter([Ok(Delta::Text { text: "half an".into() })]).boxed();
        let error = collect_reply(deltas).await.expect_err("no end");
        assert!(matches!(error, ModelError::Broken { .. }));
        assert!(error.is_transient());
    }

    #[tokio::test]
    async fn an_error_on_the_way_is_the_outcome() {
        let refused = ModelError::Unauthorized { reason: "no key".into() };
        let deltas = stream::iter([Ok(Delta::Text { text: "x".into() }), Err(refused)]).boxed();
        let error = collect_reply(deltas).await.expect_err("refused");
        assert_eq!(error.to_string(), "the API key is missing or was refused: no key");
        assert!(!error.is_transient());
    }
}

//! The seam to whoever answers: a request in, deltas out, errors sorted by what the caller can do about them.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::message::Message;

/// A model that answers a conversation, piece by piece.
///
/// The stream does its work as it is polled and stops when it is dropped. It gives any number of texts and then
/// exactly one [`Delta::Done`], or one error and nothing after it. Joined, the texts are the whole answer.
pub trait ChatModel: Send + Sync + 'static {
    /// What this model is, in words that may be shown to a person.
    fn about(&self) -> About;

    /// Answers the request.
    fn stream(&self, request: ChatRequest) -> DeltaStream;
}

/// An answer on its way.
pub type DeltaStream = BoxStream<'static, Result<Delta, ModelError>>;

/// What a model is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The name to put on every answer.
    pub name: String,
    /// What kind of thing answers.
    pub kind: Kind,
    /// What it does and does not do, in Korean.
    pub ko: String,
    /// The same in English.
    pub en: String,
}

/// What kind of thing answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A language model: it writes sentences of its own.
    Language,
    /// Rules that quote what they were given and write nothing of their own beyond fixed sentences.
    Extractive,
}

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatRequest {
    /// The conversation, oldest first. The newest message of the user is what is to be answered.
    pub messages: Vec<Message>,
    /// The most tokens the answer may have; none means that the model decides.
    pub max_output_tokens: Option<u64>,
}

impl ChatRequest {
    /// Asks for an answer to a conversation.
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, max_output_tokens: None }
    }
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
    /// The end of the answer.
    Done {
        /// What it took.
        usage: Usage,
        /// Why it ended.
        finish: Finish,
    },
}

/// What an answer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Who counted.
    pub counted: Counted,
}

/// Who counted tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// The model reported them.
    Reported,
    /// They are an estimate from the length of the text.
    Estimated,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The answer is whole.
    Stop,
    /// The limit on tokens cut it.
    Length,
}

/// Why there is no answer, by remedy.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Ask again later.
    #[error("the model cannot answer now: {reason}")]
    Unavailable {
        /// What was seen.
        reason: String,
        /// How long to wait, if the model said so.
        retry_after: Option<Duration>,
        /// What lies beneath.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// Ask again: the answer broke off or could not be read.
    #[error("the answer of the model broke off: {reason}")]
    Broken {
        /// What was seen.
        reason: String,
    },
    /// Set a key that is allowed to ask.
    #[error("the model refused the key: {reason}")]
    Unauthorized {
        /// What was seen.
        reason: String,
    },
    /// Send less.
    #[error("the conversation is too long for the model: {reason}")]
    TooLong {
        /// What was seen.
        reason: String,
    },
    /// Change the request; asking the same again gives the same.
    #[error("the model does not take the request: {reason}")]
    Rejected {
        /// What was seen.
        reason: String,
    },
}

impl ModelError {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Broken { .. } => true,
            Self::Unauthorized { .. } | Self::TooLong { .. } | Self::Rejected { .. } => false,
        }
    }
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The words.
    pub text: String,
    /// What it took.
    pub usage: Usage,
    /// Why it ended.
    pub finish: Finish,
}

/// Waits for the whole answer. An answer without its end is [`ModelError::Broken`], never a short answer.
pub async fn collect(mut deltas: DeltaStream) -> Result<Reply, ModelError> {
    let mut text = String::new();
    while let Some(delta) = deltas.next().await {
        match delta? {
            Delta::Text { text: piece } => text.push_str(&piece),
            Delta::Done { usage, finish } => return Ok(Reply { text, usage, finish }),
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
        let error = collect(deltas).await.expect_err("no end");
        assert!(matches!(error, ModelError::Broken { .. }));
        assert!(error.is_transient());
    }

    #[tokio::test]
    async fn an_error_on_the_way_is_the_outcome() {
        let refused = ModelError::Unauthorized { reason: "no key".into() };
        let deltas = stream::iter([Ok(Delta::Text { text: "x".into() }), Err(refused)]).boxed();
        let error = collect(deltas).await.expect_err("refused");
        assert_eq!(error.to_string(), "the model refused the key: no key");
        assert!(!error.is_transient());
    }
}

//! The state of a conversation with the document agent. Clients know the names of its fields.

use std::collections::BTreeMap;

use doran_engine::State;
use doran_llm::{Message, Role};
use serde::{Deserialize, Serialize};

use crate::agents::{AgentTurn, AskOptions, ConversationState, TurnUpdate};
use crate::source::AnswerSource;
use crate::state::{ByMessageId, TurnProgress, question_messages, taint_of_attachments};
use crate::summaries::Summaries;
use crate::tools::Taint;

/// The state of a conversation with the document chatbot.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DocqaState {
    /// The messages that are worked with, oldest first. Older ones, and shortened ones whole, are in the history.
    #[reduce(rule = ByMessageId)]
    pub messages: Vec<Message>,
    /// What the older messages said; at most one.
    pub summary: Summaries,
    /// What the person wants.
    pub query_type: Option<QueryType>,
    /// What was found for the newest question, numbered from 1.
    pub documents: Vec<AnswerSource>,
    /// What the newest answer rests on.
    pub sources: Vec<AnswerSource>,
    /// The node that ran last.
    pub current_step: String,
    /// The estimate of tokens before and after the newest compression.
    pub compressed: Option<CompressionResult>,
    /// The newest answer whole, where it is shortened in the messages.
    pub full_answer: Option<String>,
    /// Where to look, when the person said so.
    pub collection: Option<String>,
    /// How far the turn has come.
    pub progress: TurnProgress,
    /// What the thread has read.
    pub taint: Taint,
    /// What tools want to see at their next call, by name.
    #[reduce(merge)]
    pub sessions: BTreeMap<String, String>,
}

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryType {
    /// An answer from documents.
    Question,
    /// A summary of the conversation.
    Summary,
    /// Small talk.
    Chitchat,
}

impl QueryType {
    /// Its name in the reply of a model.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Summary => "summary",
            Self::Chitchat => "chitchat",
        }
    }
}

/// What a compression did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompressionResult {
    /// Tokens before, estimated.
    pub tokens_before: usize,
    /// Tokens after, estimated.
    pub tokens_after: usize,
    /// The most there may be after.
    pub most_tokens: usize,
}

impl DocqaState {
    /// Whether nothing was said before the newest question.
    pub(crate) fn is_first_turn(&self) -> bool {
        self.messages.len() <= 1 && self.summary_text().is_empty()
    }

    /// The text of the summary; empty where there is none.
    pub(crate) fn summary_text(&self) -> &str {
        self.summary.0.last().map_or("", String::as_str)
    }
}

impl ConversationState for DocqaState {
    fn new_turn_update(message: &str, options: &AskOptions) -> DocqaStateUpdate {
        let mut update = Self::update()
            .messages(question_messages(message, options))
            .query_type(None)
            .documents(Vec::new())
            .sources(Vec::new())
            .current_step(String::new())
            .compressed(None)
            .full_answer(None)
            .collection(options.collection.clone())
            .progress(TurnProgress::of_turn(options));
        update.taint = taint_of_attachments(options);
        update
    }

    fn turn(&self) -> AgentTurn {
        let answer = self.messages.iter().rev().find(|message| message.role == Role::Assistant);
        AgentTurn {
            response: self.full_answer.clone().or(answer.map(Message::text)).unwrap_or_default(),
            sources: self.sources.clone(),
            summary: self.summary.joined_text(),
            route: self.query_type.map_or("", QueryType::as_str).to_owned(),
            ..AgentTurn::from_progress(&self.progress)
        }
    }

    fn turn_update(update: DocqaStateUpdate) -> TurnUpdate {
        TurnUpdate {
            sources: update.sources.unwrap_or_default(),
            progress: update.progress,
            // A compression puts messages again, shortened.
            rewrites_messages: update.compressed.flatten().is_some(),
            ..TurnUpdate::default()
        }
        .with_found(&update.documents.unwrap_or_default())
    }
}

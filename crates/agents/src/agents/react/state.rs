//! The state of a conversation with the react agent. HTTP clients know the names of its fields.

use std::collections::BTreeMap;

use doran_engine::State;
use doran_engine::state::{ItemChange, ItemChanges};
use doran_llm::{ImageReference, Message, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};

use crate::agents::{AgentTurn, AskOptions, ConversationState, QuestionLabel, TurnRequest, TurnUpdate};
use crate::state::{
    ByMessageId, TurnProgress, chat_instructions, earlier_messages, following_messages, taint_of_attachments,
};
use crate::tools::Taint;

/// The state of a conversation with the react agent.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReactState {
    /// The conversation, oldest first.
    #[reduce(rule = ByMessageId)]
    pub messages: Vec<Message>,
    /// What the person typed.
    pub user_message: Option<String>,
    /// A text that came with it and that they did not type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// Pictures that came with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageReference>,
    /// The id and fields that the client gave it.
    #[serde(skip_serializing_if = "QuestionLabel::is_default")]
    pub label: QuestionLabel,
    /// What was said after it, where the client keeps the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub following: Vec<Message>,
    /// The newest answer of the model.
    pub ai_message: Option<Message>,
    /// The tool calls it asked for.
    pub tool_execution_requests: Vec<ToolCall>,
    /// What the last of them gave.
    pub tool_execution_results: Vec<ToolResult>,
    /// Requests to models in this turn.
    pub iteration_count: u32,
    /// The node that ran last.
    pub current_step: String,
    /// The thread.
    pub session_id: Option<String>,
    /// What went wrong, for people who look into it.
    pub error: Option<String>,
    /// What went wrong, for programs.
    pub error_code: Option<ReactErrorCode>,
    /// The answer, or a friendly sentence instead of it.
    pub response: Option<String>,
    /// When the turn began, in milliseconds since 1970.
    pub started_ms: u64,
    /// Seconds from question to answer.
    pub execution_time: Option<f64>,
    /// How far the turn has come.
    pub progress: TurnProgress,
    /// What the thread has read.
    pub taint: Taint,
    /// What tools want to see at their next call, by name.
    #[reduce(merge)]
    pub sessions: BTreeMap<String, String>,
    /// How the turn is to be answered.
    #[serde(skip_serializing_if = "TurnRequest::is_default")]
    pub request: TurnRequest,
}

/// Why there is no answer. Stable: programs go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReactErrorCode {
    /// There is no question.
    EmptyInput,
    /// Too many rounds.
    MaxIterationsExceeded,
    /// The model could not be reached, or broke off, three times.
    ModelUnavailable,
    /// The model did not take the key.
    ModelUnauthorized,
    /// The account at the vendor has run out.
    ModelOutOfCredit,
    /// The vendor held the question or the answer back.
    ModelFiltered,
    /// The conversation is too long for the model.
    ModelContextTooLong,
    /// The model did not take the request.
    ModelRejected,
    /// Something else.
    Internal,
}

impl ReactErrorCode {
    /// A friendly sentence that says the way out.
    pub fn message(self, language: doran_retrieval::Language) -> &'static str {
        super::error_messages::error_message(self, language)
    }

    /// As programs see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EmptyInput => "empty_input",
            Self::MaxIterationsExceeded => "max_iterations_exceeded",
            Self::ModelUnavailable => "model_unavailable",
            Self::ModelUnauthorized => "model_unauthorized",
            Self::ModelOutOfCredit => "model_out_of_credit",
            Self::ModelFiltered => "model_filtered",
            Self::ModelContextTooLong => "model_context_too_long",
            Self::ModelRejected => "model_rejected",
            Self::Internal => "internal",
        }
    }
}

impl ConversationState for ReactState {
    fn new_turn_update(message: &str, options: &AskOptions) -> ReactStateUpdate {
        let earlier = earlier_messages(options).into_iter().map(ItemChange::Put);
        let before: Vec<_> = chat_instructions(options).into_iter().chain(earlier).collect();
        let update =
            if before.is_empty() { Self::update() } else { Self::update().messages(ItemChanges(before)) };
        let mut update = update
            .user_message(Some(message.to_owned()))
            .document(options.document.clone())
            .images(options.images.clone())
            .label(options.label.clone())
            .following(following_messages(options))
            .request(options.request.clone())
            .ai_message(None)
            .tool_execution_requests(Vec::new())
            .tool_execution_results(Vec::new())
            .iteration_count(0)
            .current_step(String::new())
            .error(None)
            .error_code(None)
            .response(None)
            .execution_time(None)
            .progress(TurnProgress::of_turn(options));
        update.taint = taint_of_attachments(options);
        update
    }

    fn turn(&self) -> AgentTurn {
        AgentTurn {
            response: self.response.clone().unwrap_or_default(),
            error: self.error_code.is_some(),
            error_code: self.error_code.map(|code| code.as_str().to_owned()),
            execution_time: self.execution_time,
            route: self
                .progress
                .first_node_route(&[("tool", "tool"), ("error", "error")], "response")
                .to_owned(),
            ..AgentTurn::from_progress(&self.progress)
        }
    }

    fn turn_update(update: ReactStateUpdate) -> TurnUpdate {
        TurnUpdate {
            progress: update.progress,
            error_code: update.error_code.flatten().map(|code| code.as_str().to_owned()),
            ..TurnUpdate::default()
        }
    }
}

//! The state of a conversation with the assistant.

use std::collections::BTreeMap;

use doran_engine::State;
use doran_llm::{Message, Role, ToolCall};
use serde::{Deserialize, Serialize};

use crate::agents::{AgentTurn, AskOptions, ConversationState, TurnRequest, TurnUpdate};
use crate::source::AnswerSource;
use crate::state::{ByMessageId, TurnProgress, question_messages, taint_of_attachments};
use crate::summaries::Summaries;
use crate::tools::Taint;

/// The state of a conversation with the assistant.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct AssistantState {
    /// The messages that are worked with, oldest first. Older ones are in the history of the thread.
    #[reduce(rule = ByMessageId)]
    pub messages: Vec<Message>,
    /// What the older messages said, newest last.
    pub summary: Summaries,
    /// What was found for the newest question, numbered from 1; nothing where it was not looked for.
    pub context: Option<Vec<AnswerSource>>,
    /// Where the turn goes next.
    pub next_action: Option<NextAction>,
    /// Why the router chose as it did.
    pub route_reason: Option<String>,
    /// What the newest answer rests on.
    pub sources: Vec<AnswerSource>,
    /// How far the turn has come.
    pub progress: TurnProgress,
    /// Where to look, when the person said so.
    pub collection: Option<String>,
    /// What the thread has read.
    pub taint: Taint,
    /// What tools want to see at their next call, by name.
    #[reduce(merge)]
    pub sessions: BTreeMap<String, String>,
    /// How the turn is to be answered.
    #[serde(skip_serializing_if = "TurnRequest::is_default")]
    pub request: TurnRequest,
}

/// Where a turn goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// Look documents up first.
    Rag,
    /// Answer.
    Agent,
    /// Run the tools that the model asked for.
    Tools,
    /// The answer is there.
    End,
}

impl AssistantState {
    /// The tool calls that wait to be run.
    pub(crate) fn pending_tool_calls(&self) -> Vec<ToolCall> {
        match self.messages.last() {
            Some(last) if last.role == Role::Assistant => last.tool_calls().cloned().collect(),
            _ => Vec::new(),
        }
    }
}

impl ConversationState for AssistantState {
    fn new_turn_update(message: &str, options: &AskOptions) -> AssistantStateUpdate {
        let mut update = Self::update()
            .messages(question_messages(message, options))
            .context(None)
            .next_action(None)
            .route_reason(None)
            .sources(Vec::new())
            .collection(options.collection.clone())
            .request(options.request.clone())
            .progress(TurnProgress::of_turn(options));
        update.taint = taint_of_attachments(options);
        update
    }

    fn turn(&self) -> AgentTurn {
        let answer = self.messages.last().filter(|last| last.role == Role::Assistant);
        AgentTurn {
            response: answer.map(Message::text).unwrap_or_default(),
            sources: self.sources.clone(),
            summary: self.summary.joined_text(),
            route: self.progress.first_node_route(&[("rag", "rag")], "agent").to_owned(),
            ..AgentTurn::from_progress(&self.progress)
        }
    }

    fn turn_update(update: AssistantStateUpdate) -> TurnUpdate {
        TurnUpdate {
            sources: update.sources.unwrap_or_default(),
            progress: update.progress,
            ..TurnUpdate::default()
        }
        .with_found(&update.context.flatten().unwrap_or_default())
    }
}

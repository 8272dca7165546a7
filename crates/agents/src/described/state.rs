//! The state of a conversation with a described agent: the fields of all ready nodes, and the values that nodes store.

use std::collections::BTreeMap;

use doran_engine::State;
use doran_engine::state::ItemChange;
use doran_llm::{Message, Role};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agents::{AgentTurn, AskOptions, ConversationState, TurnUpdate};
use crate::source::AnswerSource;
use crate::state::{ByMessageId, TurnProgress, question_messages, taint_of_attachments};
use crate::summaries::Summaries;
use crate::tools::Taint;

/// The state of a conversation with a described agent.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct DescribedState {
    /// The messages that are worked with, oldest first.
    #[reduce(rule = ByMessageId)]
    pub messages: Vec<Message>,
    /// What older messages said.
    pub summary: Summaries,
    /// What was found for the newest question, numbered from 1.
    pub context: Option<Vec<AnswerSource>>,
    /// What the newest answer rests on.
    pub sources: Vec<AnswerSource>,
    /// What nodes left behind, by the name in their description. Branches go by these.
    #[reduce(rule = MergeOrResetValues)]
    pub values: BTreeMap<String, Value>,
    /// How far the turn has come.
    pub progress: TurnProgress,
    /// The tools that the newest reply was offered. No others are run for it.
    pub offered: Vec<String>,
    /// Where to look, when the person said so.
    pub collection: Option<String>,
    /// What the thread has read.
    pub taint: Taint,
    /// What tools want to see at their next call, by name.
    #[reduce(merge)]
    pub sessions: BTreeMap<String, String>,
}

/// Values are merged key by key; an empty change starts anew.
#[derive(Debug)]
pub struct MergeOrResetValues;

impl doran_engine::state::Reduce<BTreeMap<String, Value>> for MergeOrResetValues {
    type Change = BTreeMap<String, Value>;

    fn fold(field: &mut BTreeMap<String, Value>, change: BTreeMap<String, Value>) {
        if change.is_empty() {
            field.clear();
        }
        field.extend(change);
    }

    fn join(earlier: &mut BTreeMap<String, Value>, later: BTreeMap<String, Value>) {
        Self::fold(earlier, later);
    }
}

impl DescribedState {
    /// The text of a value; empty where there is none.
    pub(super) fn value_text(&self, name: &str) -> String {
        match self.values.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }
}

impl ConversationState for DescribedState {
    fn new_turn_update(message: &str, options: &AskOptions) -> DescribedStateUpdate {
        let update = Self::update()
            .messages(question_messages(message, options))
            .context(None)
            .sources(Vec::new())
            .values(BTreeMap::new())
            .offered(Vec::new())
            .collection(options.collection.clone())
            .progress(TurnProgress::of_turn(options));
        match taint_of_attachments(options) {
            Some(read) => update.taint(read),
            None => update,
        }
    }

    fn turn(&self) -> AgentTurn {
        let answer = self.messages.last().filter(|last| last.role == Role::Assistant);
        AgentTurn {
            response: answer.map(Message::text).unwrap_or_default(),
            sources: self.sources.clone(),
            summary: self.summary.joined_text(),
            ..AgentTurn::from_progress(&self.progress)
        }
    }

    fn turn_update(update: DescribedStateUpdate) -> TurnUpdate {
        // What an agent says that works for another one is not part of the answer.
        if update.progress.as_ref().is_some_and(|progress| progress.is_subagent) {
            let progress = update.progress;
            return TurnUpdate { progress, rewrites_messages: true, ..TurnUpdate::default() };
        }
        // A subgraph hands back all messages in place of those before it; what is new was said in its own steps.
        let is_clear = |change: &ItemChange<Message>| matches!(change, ItemChange::Clear);
        TurnUpdate {
            sources: update.sources.unwrap_or_default(),
            progress: update.progress,
            rewrites_messages: update.messages.is_some_and(|changes| changes.0.iter().any(is_clear)),
            ..TurnUpdate::default()
        }
        .with_found(&update.context.flatten().unwrap_or_default())
    }
}

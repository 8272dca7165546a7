//! The state of a conversation about contracts.

use std::collections::BTreeMap;

use doran_engine::State;
use doran_llm::{Message, Role, TextOrigin, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agents::{AgentTurn, AskOptions, ConversationState, TurnUpdate};
use crate::source::{AnswerSource, without_citation_marks};
use crate::state::{
    ByMessageId, TurnProgress, is_standing_instruction, question_messages, taint_of_attachments,
};
use crate::tools::Taint;

/// The state of a conversation about contracts.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ContractState {
    /// This turn and the one before it; older ones are in the history of the thread.
    #[reduce(rule = ByMessageId)]
    pub messages: Vec<Message>,
    /// The question.
    pub user_message: String,
    /// The contract that is asked about; without it, all of the user's.
    pub contract_id: Option<String>,
    /// The thread.
    pub session_id: Option<String>,
    /// Whether the question is about contracts.
    pub in_scope: Option<bool>,
    /// Whether the turn before is needed to answer.
    pub need_previous_context: Option<bool>,
    /// Tools to run next.
    pub next_tools: Vec<ToolCall>,
    /// Whether all tools that were wanted had been run before.
    pub all_tools_skipped: bool,
    /// Tools that were run.
    pub tool_history: Vec<ToolRun>,
    /// What they brought, each place once, numbered from 1.
    pub collected_info: Vec<AnswerSource>,
    /// Articles that were seen.
    pub explored_articles: Vec<String>,
    /// Articles that those refer to and that were not seen.
    pub unexplored_articles: Vec<String>,
    /// What the evaluator misses.
    pub missing_info: Option<String>,
    /// Rounds of evaluation.
    pub iteration_count: u32,
    /// What the evaluator decided, round by round.
    pub decision_log: Vec<SufficiencyDecision>,
    /// The answer.
    pub final_response: Option<String>,
    /// What it rests on.
    pub sources: Vec<AnswerSource>,
    /// What the thread has read.
    pub taint: Taint,
    /// What tools want to see at their next call, by name.
    #[reduce(merge)]
    pub sessions: BTreeMap<String, String>,
    /// How far the turn has come.
    pub progress: TurnProgress,
}

/// A tool that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolRun {
    /// The round it was run in, from 0.
    pub iteration: u32,
    /// The call.
    pub call: ToolCall,
    /// What it gave, for the model.
    pub text: String,
    /// Whether it failed.
    pub failed: bool,
    /// Whose words it gave.
    #[serde(default = "document_origin", skip_serializing_if = "is_document_origin")]
    pub origin: TextOrigin,
    /// What has to be said about it beside the places it gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What its own tools give.
fn document_origin() -> TextOrigin {
    TextOrigin::Document
}

fn is_document_origin(origin: &TextOrigin) -> bool {
    *origin == TextOrigin::Document
}

/// What the evaluator decided in one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SufficiencyDecision {
    /// The round, from 1.
    pub iteration: u32,
    /// What comes next.
    pub action: SufficiencyAction,
    /// Whether what was collected is enough.
    pub is_sufficient: bool,
    /// Why.
    pub reasoning: String,
    /// What is missing.
    pub missing_info: Option<String>,
}

/// What comes after an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SufficiencyAction {
    /// Look further.
    Continue,
    /// Answer.
    Finish,
}

impl ContractState {
    /// The turn before the question: what was asked and what was answered, without marks, since the same numbers mean
    /// other places now.
    pub(crate) fn previous_turn(&self) -> Vec<Message> {
        let conversation: Vec<&Message> =
            self.messages.iter().filter(|message| !is_standing_instruction(message)).collect();
        let question_at = conversation.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
        let before = &conversation[..question_at];
        let start = before.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
        before[start..].iter().copied().map(without_citation_marks).collect()
    }

    /// What holds for the whole conversation, as it was said last.
    pub(crate) fn standing_instruction(&self) -> Option<&Message> {
        self.messages.iter().rev().find(|message| is_standing_instruction(message))
    }

    fn route(&self) -> &'static str {
        if !self.progress.path.iter().any(|node| node == "planner") {
            return "out_of_scope";
        }
        let executors = [("executor", "execute_sequential"), ("parallel_executor", "execute_parallel")];
        self.progress.first_node_route(&executors, "no_tools")
    }

    /// Whether a call with the same tool and arguments was run.
    pub(crate) fn has_run(&self, call: &ToolCall) -> bool {
        self.tool_history.iter().any(|run| call_signature(&run.call) == call_signature(call))
    }
}

/// What makes two calls the same: the tool and the arguments, in whatever order and spelling.
pub(crate) fn call_signature(call: &ToolCall) -> String {
    let mut arguments = call.arguments.clone();
    if let Some(fields) = arguments.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        for (name, value) in fields.iter_mut() {
            let Some(text) = value.as_str().map(str::trim).map(str::to_owned) else { continue };
            let number = (name == "article")
                .then(|| doran_retrieval::contract::ArticleReference::parse(&text))
                .flatten();
            *value = Value::String(number.map_or(text, |reference| reference.to_string()));
        }
    }
    format!("{}({arguments})", call.name)
}

impl ConversationState for ContractState {
    fn new_turn_update(message: &str, options: &AskOptions) -> ContractStateUpdate {
        let mut update = Self::update()
            .messages(question_messages(message, options))
            .user_message(message)
            .contract_id(options.contract_id.clone())
            .in_scope(None)
            .need_previous_context(None)
            .next_tools(Vec::new())
            .all_tools_skipped(false)
            .tool_history(Vec::new())
            .collected_info(Vec::new())
            .explored_articles(Vec::new())
            .unexplored_articles(Vec::new())
            .missing_info(None)
            .iteration_count(0)
            .decision_log(Vec::new())
            .final_response(None)
            .sources(Vec::new())
            .progress(TurnProgress::of_turn(options));
        update.taint = taint_of_attachments(options);
        update
    }

    fn turn(&self) -> AgentTurn {
        AgentTurn {
            response: self.final_response.clone().unwrap_or_default(),
            sources: self.sources.clone(),
            route: self.route().to_owned(),
            ..AgentTurn::from_progress(&self.progress)
        }
    }

    fn turn_update(update: ContractStateUpdate) -> TurnUpdate {
        TurnUpdate {
            sources: update.sources.unwrap_or_default(),
            progress: update.progress,
            ..TurnUpdate::default()
        }
        .with_found(&update.collected_info.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: Value) -> ToolCall {
        ToolCall { id: "x".into(), name: "get_article_by_index".into(), arguments }
    }

    #[test]
    fn calls_are_the_same_in_any_order_and_spelling() {
        let same = |left: Value, right: Value| call_signature(&call(left)) == call_signature(&call(right));
        assert!(same(json!({ "article": "제5조" }), json!({ "article": " 제 5 조 " })));
        assert!(same(json!({ "article": "5조", "document": null }), json!({ "article": "제오조" })));
        assert!(same(json!({ "a": 1, "b": 2 }), json!({ "b": 2, "a": 1 })));
        assert!(!same(json!({ "article": "제5조" }), json!({ "article": "제5조의2" })));
        assert!(!same(json!({ "article": "제5조" }), json!({ "article": "제5조 제1항" })));
    }

    #[test]
    fn the_previous_turn_is_the_last_question_with_its_answer() {
        let messages = vec![
            Message::user("1", "계약 기간은?"),
            Message::assistant("2", "1년입니다. [1]"),
            Message::user("3", "그럼 위약금은?"),
        ];
        let state = ContractState { messages: messages.clone(), ..ContractState::default() };
        let before: Vec<String> = state.previous_turn().iter().map(Message::text).collect();
        assert_eq!(before, ["계약 기간은?", "1년입니다."]);
        let first = ContractState { messages: messages[..1].to_vec(), ..ContractState::default() };
        assert!(first.previous_turn().is_empty());
    }
}

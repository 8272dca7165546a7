//! The node `subgraph`: another described agent. Without an `input` it goes on with the same conversation and values. With
//! one it is asked a question of its own, works behind the agent that asks, and its answer is stored as a value.

use std::collections::BTreeMap;

use doran_engine::NodeError;
use doran_engine::state::{ItemChange, ItemChanges};
use doran_llm::Message;
use serde_json::{Value, json};

use super::description::NodeDescription;
use super::http_nodes::node_variables;
use super::state::{DescribedState, DescribedStateUpdate};
use super::template;
use crate::agents::ConversationState;
use crate::state::TurnProgress;

/// What the template of a result may use.
pub(super) const RESULT_VARIABLES: [&str; 2] = ["answer", "values"];
/// The id of the question, the only message that the agent inside begins with.
const QUESTION_MESSAGE_ID: &str = "input";

/// A question for the agent inside, and what is kept of its answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SubgraphQuestion {
    question: Value,
    /// The values that it begins with: an object of templates.
    values: Value,
    result: Value,
    into: String,
}

impl SubgraphQuestion {
    /// The question of a node, if it has one.
    pub(super) fn new(form: &NodeDescription) -> Option<Self> {
        let input = form.input.as_ref()?;
        Some(Self {
            question: input.question.clone().into(),
            values: input.values.clone().into_iter().collect::<serde_json::Map<_, _>>().into(),
            result: form.result.clone().unwrap_or_else(|| "{{ answer }}".into()),
            into: form.into.clone().unwrap_or_else(|| form.name.clone()),
        })
    }

    /// What the agent inside begins with: the question and the values, and nothing of the conversation. What was read before
    /// stays read, so that a person is asked about its tools as before.
    pub(super) fn input(&self, outer: &DescribedState) -> Result<DescribedStateUpdate, NodeError> {
        let variables = node_variables(outer);
        let render = |template: &Value| {
            template::render_json(template, &variables).map_err(|error| failed("input", &error))
        };
        let question = match render(&self.question)? {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        };
        if question.trim().is_empty() {
            return Err(failed("input", "its `question` is empty"));
        }
        let progress = TurnProgress {
            is_subagent: true,
            tool_rounds: 0,
            tool_choice_applied: false,
            ..outer.progress.clone()
        };
        let update = DescribedState::update()
            .messages(Message::user(QUESTION_MESSAGE_ID, question))
            .progress(progress)
            .collection(outer.collection.clone())
            .taint(outer.taint);
        match render(&self.values)? {
            Value::Object(values) if !values.is_empty() => {
                Ok(update.values(values.into_iter().collect::<BTreeMap<_, _>>()))
            }
            _ => Ok(update),
        }
    }

    /// What the agent that asked keeps: the result, and how far the turn has come.
    pub(super) fn output(
        &self,
        outer: &DescribedState,
        inner: &DescribedState,
    ) -> Result<DescribedStateUpdate, NodeError> {
        let variables = json!({ "answer": inner.turn().response, "values": inner.values });
        let result =
            template::render_json(&self.result, &variables).map_err(|error| failed("result", &error))?;
        let TurnProgress { path, model_calls, tools_used, .. } = inner.progress.clone();
        let progress = TurnProgress { path, model_calls, tools_used, ..outer.progress.clone() };
        Ok(DescribedState::update()
            .values([(self.into.clone(), result)])
            .progress(progress)
            .taint(inner.taint))
    }
}

fn failed(field: &str, reason: &str) -> NodeError {
    NodeError::permanent(format!("`{field}`: {reason}"))
}

/// What an agent inside is given that goes on with the conversation: all that the outer one has.
pub(super) fn shared_input(outer: &DescribedState) -> DescribedStateUpdate {
    let mut update = DescribedState::update()
        .messages(outer.messages.clone())
        .summary(outer.summary.clone())
        .context(outer.context.clone())
        .progress(outer.progress.clone())
        .offered(outer.offered.clone())
        .collection(outer.collection.clone())
        .taint(outer.taint)
        .sessions(outer.sessions.clone());
    if !outer.values.is_empty() {
        update = update.values(outer.values.clone());
    }
    update
}

/// What the outer agent takes from it. What that one took out of the messages is out of them here too.
pub(super) fn shared_output(inner: &DescribedState) -> DescribedStateUpdate {
    let mut update = DescribedState::update()
        .messages(ItemChanges(vec![ItemChange::Clear]).put(inner.messages.clone()))
        .summary(inner.summary.clone())
        .context(inner.context.clone())
        .sources(inner.sources.clone())
        .progress(inner.progress.clone())
        .offered(inner.offered.clone())
        .taint(inner.taint)
        .sessions(inner.sessions.clone());
    if !inner.values.is_empty() {
        update = update.values(inner.values.clone());
    }
    update
}

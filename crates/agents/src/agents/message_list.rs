//! A conversation with a graph of which nothing is known but that its state has a list of messages.

use async_trait::async_trait;
use doran_engine::NodeError;
use doran_llm::{ChatRequest, Message, Role};
use doran_retrieval::DocumentTenant;
use serde_json::{Value, json};

use super::{AgentTurn, AskOptions, Conversation, TurnUpdate};
use crate::state::question_messages;

/// The field that a chat has its messages in.
pub const MESSAGES_FIELD: &str = "messages";

/// The fields of a state that are lists of [`Message`], by the JSON Schema of the state.
pub(super) fn message_fields(schema: &Value) -> Vec<String> {
    let is_message_list =
        |field: &Value| field["items"]["$ref"].as_str().is_some_and(|schema| schema.ends_with("/Message"));
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields.filter(|(_, field)| is_message_list(field)).map(|(name, _)| name.clone()).collect()
}

/// The fields of a state that take changes to items: lists of messages, and those with the rule `by_id`.
pub(super) fn item_fields(schema: &Value, reducers: &[(&str, &str)]) -> Vec<String> {
    // The rules are known by the names of the code, and the fields by those of the JSON.
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let by_id =
        |name: &str| reducers.iter().any(|(field, rule)| *rule == "ById" && plain(field) == plain(name));
    let messages = message_fields(schema);
    let fields = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
    fields.filter(|name| messages.contains(name) || by_id(name)).collect()
}

/// What may come with a question, where the state has a place for it. A text that comes along is part of the message.
pub(super) fn question_fields(schema: &Value) -> Vec<String> {
    let has_place = |name: &&str| schema["properties"].get(name).is_some();
    let placed = ["collection", "contract_id"].into_iter().filter(has_place);
    placed.chain(["document"]).map(str::to_owned).collect()
}

/// Questions are appended to the list, and the last message of the list is the answer.
pub(super) struct MessageListConversation;

#[async_trait]
impl Conversation for MessageListConversation {
    fn input(&self, message: &str, options: &AskOptions) -> Value {
        json!({ MESSAGES_FIELD: question_messages(message, options) })
    }

    fn read_turn(&self, state: &Value) -> Result<AgentTurn, serde_json::Error> {
        let messages: Vec<Message> = serde_json::from_value(state[MESSAGES_FIELD].clone())?;
        let answer = messages.last().filter(|last| last.role == Role::Assistant);
        Ok(AgentTurn { response: answer.map(Message::text).unwrap_or_default(), ..AgentTurn::default() })
    }

    fn read_update(&self, _: &str) -> Result<TurnUpdate, serde_json::Error> {
        Ok(TurnUpdate::default())
    }

    async fn explain(&self, _: &str, _: &Value, _: &DocumentTenant) -> Result<Vec<ChatRequest>, NodeError> {
        Ok(Vec::new())
    }
}

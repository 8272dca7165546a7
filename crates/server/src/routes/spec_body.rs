//! The request body that the specifications of the agents define: camel case, or the names of their arguments (`contract_id`,
//! `user_message`, `session_id`, `previous_turn`).

use doran_agents::{AskOptions, EarlierMessage};
use doran_engine::ThreadKey;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ServerApp;
use crate::agent_request;
use crate::api::CollectionName;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};

/// A message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = spec_chat_example())]
pub(super) struct SpecChatBody {
    /// The message. `user_message` is another name for it.
    #[serde(alias = "user_message", alias = "userMessage")]
    message: Option<String>,
    /// The thread to continue; a new one without it. `session_id` is another name for it.
    #[serde(alias = "session_id")]
    session_id: Option<String>,
    /// The same as `sessionId`. `thread_id` is another name for it.
    #[serde(alias = "thread_id")]
    thread_id: Option<String>,
    /// The name of the agent. `POST /api/contract/chat` takes only `contract`.
    pub(super) agent: Option<String>,
    /// The document id of the contract that the message is about. `contract_id` is another name for it.
    #[serde(alias = "contract_id")]
    contract_id: Option<String>,
    /// The collection of documents to search.
    #[schemars(with = "Option<CollectionName>")]
    collection: Option<String>,
    /// Earlier messages, for a new thread. An existing thread has its own. `previous_turn` is another name for it.
    #[serde(alias = "previous_turn")]
    previous_turn: Option<Vec<SpecPreviousMessage>>,
}

fn spec_chat_example() -> Value {
    json!({
        "message": "제5조 내용이 뭐야?",
        "contractId": "samples/contracts/용역계약서.docx",
        "sessionId": "session_456",
        "previousTurn": [
            { "role": "user", "content": "계약 기간은?" },
            { "role": "assistant", "content": "계약 기간은 1년입니다." },
        ],
    })
}

/// An earlier message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpecPreviousMessage {
    /// Who wrote it.
    role: SpecMessageRole,
    /// The text.
    content: String,
}

/// Who wrote an earlier message.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum SpecMessageRole {
    User,
    Assistant,
}

impl SpecChatBody {
    /// What is asked; nothing where it was left out or is null.
    pub(super) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// The thread that is named, else the one of this key.
    pub(super) async fn thread(
        &self,
        app: &ServerApp,
        caller: &ApiCaller,
        key: Option<&str>,
    ) -> Result<ThreadKey, ApiError> {
        match (&self.session_id, &self.thread_id) {
            (Some(session), Some(thread)) if session != thread => Err(ApiError::with_message(
                ApiErrorCode::BadInput,
                "`sessionId` and `threadId` name two threads",
                "`sessionId`와 `threadId`가 서로 다른 대화를 가리킵니다",
            )),
            (Some(name), _) => agent_request::thread_key_from_field(caller, "sessionId", name),
            (None, Some(name)) => agent_request::thread_key_from_field(caller, "threadId", name),
            (None, None) => agent_request::new_thread_key(app, caller, key).await,
        }
    }

    /// What comes with the question. On a thread of ours the agent knows what was said before.
    pub(super) async fn ask_options(
        &self,
        app: &ServerApp,
        thread: &ThreadKey,
    ) -> Result<AskOptions, ApiError> {
        let before = self.previous_turn.as_deref().unwrap_or_default();
        let earlier = if !before.is_empty() && agent_request::is_new_thread(app, thread).await? {
            let to_earlier = |SpecPreviousMessage { role, content }: &SpecPreviousMessage| match role {
                SpecMessageRole::User => EarlierMessage::Asked(content.clone()),
                SpecMessageRole::Assistant => EarlierMessage::Answered(content.clone()),
            };
            before.iter().filter(|message| !message.content.trim().is_empty()).map(to_earlier).collect()
        } else {
            Vec::new()
        };
        Ok(AskOptions {
            contract_id: self.contract_id.clone(),
            collection: self.collection.clone(),
            earlier,
            ..AskOptions::default()
        })
    }
}

//! Notes of a node, stored beside its step.

use std::collections::BTreeMap;

use doran_engine::EntryBody;
use doran_llm::{ChatRequest, FinishReason, ModelKind, ModelRole, RequestLabel, TokenCountSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::AgentActivity;
use crate::request_purpose::RequestPurpose;

/// The notes of a step that programs read. Each field is a note of its own, absent while it is empty; a step may have
/// further notes for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StepNotes {
    /// What the node showed, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<AgentActivity>,
    /// Replies of models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelCallNote>,
    /// Searches in documents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<SearchNote>,
    /// Calls of tools and of programs over HTTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallNote>,
}

/// A call of a tool, or of a program over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallNote {
    /// What was called.
    pub kind: CallNoteKind,
    /// The name of the tool, or the node that made the call.
    pub name: String,
    /// The id that the model gave the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub at: i64,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// The id of its span in the trace of the run.
    pub span: String,
    /// Whether it failed.
    #[serde(default)]
    pub failed: bool,
}

/// What a [`CallNote`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallNoteKind {
    /// A tool.
    Tool,
    /// A program over HTTP.
    Http,
    /// A search in documents.
    Search,
}

/// A search in documents, and what it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchNote {
    /// What was searched for.
    pub query: String,
    /// Other wordings that were searched for too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wordings: Vec<String>,
    /// How the passages were put in a new order, if they were to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reranking: Option<RerankingNote>,
    /// The passages, as the model was given them.
    pub hits: Vec<SearchHitNote>,
}

/// How the best passages of a search were put in a new order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RerankingNote {
    /// The model that was asked, or would have been.
    pub by: String,
    /// The places of the passages in the search, counted from 1, in the new order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u32>,
    /// Why the order of the search was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// A passage that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchHitNote {
    /// The number by which the answer cites it.
    pub number: u32,
    /// The document.
    pub document: String,
    /// The title of the document and the headings above the passage.
    pub title: String,
    /// The id of the passage.
    pub passage: String,
    /// The score, comparable within one search only.
    pub score: f64,
}

impl StepNotes {
    /// The name of the note that holds [`StepNotes::events`].
    pub(crate) const EVENTS: &str = "events";
    /// The name of the note that holds [`StepNotes::models`].
    pub(crate) const MODELS: &str = "models";
    /// The name of the note that holds [`StepNotes::searches`].
    pub(crate) const SEARCHES: &str = "searches";
    /// The name of the note that holds [`StepNotes::calls`].
    pub(crate) const CALLS: &str = "calls";

    /// How many requests were sent to models.
    pub fn request_count(&self) -> u32 {
        let requests = self.models.iter().filter(|note| note.is_request()).count();
        u32::try_from(requests).unwrap_or(u32::MAX)
    }

    /// The model that wrote the words of the step, as far as the notes tell. A model that only decided something is not it.
    pub(crate) fn answering_model(&self) -> Option<&str> {
        self.models.iter().rev().find_map(|note| match note {
            ModelCallNote::Asked(ModelRequestNote { name, purpose, .. })
            | ModelCallNote::FromCache(CachedReplyNote { name, purpose, .. }) => {
                (*purpose == RequestPurpose::Answer).then_some(name.as_str())
            }
            ModelCallNote::Unfinished(_) | ModelCallNote::Unknown(_) => None,
        })
    }

    /// Reads the notes of a step. An item of another version is kept as it came; a note that is no list is an error.
    pub fn from_notes(notes: &BTreeMap<String, Value>) -> Result<Self, serde_json::Error> {
        fn list<T: serde::de::DeserializeOwned>(note: Option<&Value>) -> Result<Vec<T>, serde_json::Error> {
            note.map_or(Ok(Vec::new()), Vec::deserialize)
        }
        Ok(Self {
            events: list(notes.get(Self::EVENTS))?,
            models: list(notes.get(Self::MODELS))?,
            searches: list(notes.get(Self::SEARCHES))?,
            calls: list(notes.get(Self::CALLS))?,
        })
    }
}

/// The notes of every task that an entry of a log tells of, those that did not finish included.
pub fn notes_of_entry(body: &EntryBody) -> Result<Vec<StepNotes>, serde_json::Error> {
    match body {
        EntryBody::Step(step) | EntryBody::InnerStep(step) => {
            step.tasks.iter().map(|task| StepNotes::from_notes(&task.notes)).collect()
        }
        EntryBody::Failed { unfinished, .. } | EntryBody::Cancelled { unfinished, .. } => {
            unfinished.iter().map(|task| StepNotes::from_notes(&task.notes)).collect()
        }
        EntryBody::Started { .. }
        | EntryBody::Paused { .. }
        | EntryBody::Resumed { .. }
        | EntryBody::Restarted { .. }
        | EntryBody::Finished
        | EntryBody::Edited(_) => Ok(Vec::new()),
    }
}

/// A reply of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelCallNote {
    /// The model was asked.
    Asked(ModelRequestNote),
    /// The reply came from the cache: no request, no cost.
    FromCache(CachedReplyNote),
    /// The model was asked, and there is no reply: the request failed, or the run was stopped.
    Unfinished(UnfinishedRequestNote),
    /// A note of another version.
    #[schemars(skip)]
    Unknown(Value),
}

impl ModelCallNote {
    /// Whether a request was sent.
    pub(crate) fn is_request(&self) -> bool {
        matches!(self, Self::Asked(_) | Self::Unfinished(_))
    }
}

/// Names a request by its content. Prompts are not stored: one that is built again from the state is the one that was sent
/// if it has the same digest.
pub fn request_digest(request: &ChatRequest) -> String {
    hex::encode(&Sha256::digest(super::to_json(request).to_string())[..16])
}

/// A request to a model, and what it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRequestNote {
    /// The model.
    pub name: String,
    /// What kind of thing answered.
    pub kind: ModelKind,
    /// What the reply was for.
    pub purpose: RequestLabel,
    /// Which of the configured models was meant.
    pub role: ModelRole,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens that the vendor read from its cache.
    pub cached_tokens: u64,
    /// What it cost, in millionths of a dollar; `null` where the price is not known.
    pub cost_micros: Option<u64>,
    /// Who counted the tokens.
    pub counted: TokenCountSource,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// The [`request_digest`] of the request as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// When it was sent, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<i64>,
    /// The id of its span in the trace of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<String>,
}

/// A request to a model that brought no reply. Its tokens are an estimate; a request that the vendor refused took none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnfinishedRequestNote {
    /// The model.
    pub name: String,
    /// What kind of thing was asked.
    pub kind: ModelKind,
    /// What the reply was for.
    pub purpose: RequestLabel,
    /// Which of the configured models was meant.
    pub role: ModelRole,
    /// Why there is no reply: `stopped`, or the code of the error.
    pub unfinished: String,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// What it cost, in millionths of a dollar; `null` where the price is not known.
    pub cost_micros: Option<u64>,
    /// Who counted the tokens.
    pub counted: TokenCountSource,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// When it was sent, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<i64>,
    /// The id of its span in the trace of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<String>,
}

/// A reply that came from the cache of replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedReplyNote {
    /// The model.
    pub name: String,
    /// What the reply was for.
    pub purpose: RequestLabel,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// Always `true`.
    pub cached: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(notes: Value) -> Result<StepNotes, serde_json::Error> {
        StepNotes::from_notes(&serde_json::from_value(notes).expect("a map"))
    }

    #[test]
    fn the_json_of_a_model_call_is_the_one_in_stored_logs() {
        let call = json!({ "name": "m", "kind": "language", "purpose": "answer", "role": "main", "finish": "stop",
            "input_tokens": 1, "output_tokens": 2, "cached_tokens": 0, "cost_micros": null, "counted": "reported",
            "ms": 3 });
        let cached = json!({ "name": "m", "purpose": "classify", "finish": "stop", "cached": true });
        let notes = read(json!({ "models": [call, cached] })).expect("notes");
        assert!(matches!(notes.models[..], [ModelCallNote::Asked(_), ModelCallNote::FromCache(_)]));
        let written = serde_json::to_value(&notes).expect("JSON");
        assert_eq!(written.to_string(), json!({ "models": [call, cached] }).to_string());
    }

    #[test]
    fn the_model_that_wrote_the_answer_is_distinguished_from_those_that_decided() {
        let call = |name: &str, purpose: &str| json!({ "name": name, "purpose": purpose, "finish": "stop", "cached": true });
        let model = |calls: Value| {
            read(json!({ "models": calls })).expect("notes").answering_model().map(str::to_owned)
        };
        let calls = json!([call("tiny", "route"), call("large", "answer"), call("tiny", "summarize")]);
        assert_eq!(model(calls).as_deref(), Some("large"));
        assert_eq!(model(json!([call("tiny", "route")])), None);
        let failed = json!([{ "name": "large", "kind": "language", "purpose": "answer", "role": "main", "unfinished": "stopped",
            "input_tokens": 1, "output_tokens": 2, "cost_micros": null, "counted": "estimated", "ms": 3 }]);
        assert_eq!(model(failed), None, "its words are not a message");
    }

    #[test]
    fn one_item_of_another_version_does_not_hide_the_others() {
        let thought = json!({ "type": "thinking", "step": "planning", "content": "…" });
        let notes = read(json!({
            "events": [{ "type": "drawing" }, thought],
            "models": [{ "name": "m", "kind": "quantum" }],
            "of a later version": 3,
        }))
        .expect("notes");
        assert!(matches!(notes.events[..], [AgentActivity::Unknown(_), AgentActivity::Thinking { .. }]));
        assert!(matches!(notes.models[..], [ModelCallNote::Unknown(_)]));
        assert!(read(json!({ "events": "no list" })).is_err());
    }
}

//! What a node notes beside its step, for whoever looks at it later.

use std::collections::BTreeMap;

use doran_engine::EntryBody;
use doran_llm::{FinishReason, ModelKind, ModelRole, RequestLabel, TokenCountSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AgentActivity;

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
}

impl StepNotes {
    /// The name of the note that holds [`StepNotes::events`].
    pub(crate) const EVENTS: &str = "events";
    /// The name of the note that holds [`StepNotes::models`].
    pub(crate) const MODELS: &str = "models";

    /// How many requests were sent to models.
    pub fn request_count(&self) -> u32 {
        let requests = self.models.iter().filter(|note| note.is_request()).count();
        u32::try_from(requests).unwrap_or(u32::MAX)
    }

    /// Reads the notes of a step. An item of another version is kept as it came; a note that is no list is an error.
    pub fn from_notes(notes: &BTreeMap<String, Value>) -> Result<Self, serde_json::Error> {
        fn list<T: serde::de::DeserializeOwned>(note: Option<&Value>) -> Result<Vec<T>, serde_json::Error> {
            note.map_or(Ok(Vec::new()), Vec::deserialize)
        }
        Ok(Self { events: list(notes.get(Self::EVENTS))?, models: list(notes.get(Self::MODELS))? })
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
        | EntryBody::Edited { .. } => Ok(Vec::new()),
    }
}

/// A reply of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelCallNote {
    /// The model was asked.
    Asked(ModelRequestNote),
    /// It had answered the same before: nobody was asked and nothing was spent.
    FromCache(CachedReplyNote),
    /// The model was asked, and there is no reply: the request failed, or the run was stopped.
    Unfinished(UnfinishedRequestNote),
    /// A note of another version.
    #[schemars(skip)]
    Unknown(Value),
}

impl ModelCallNote {
    /// Whether a request was sent.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::Asked(_) | Self::Unfinished(_))
    }
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
        let asked = json!({ "name": "m", "kind": "language", "purpose": "answer", "role": "main", "finish": "stop",
            "input_tokens": 1, "output_tokens": 2, "cached_tokens": 0, "cost_micros": null, "counted": "reported",
            "ms": 3 });
        let cached = json!({ "name": "m", "purpose": "classify", "finish": "stop", "cached": true });
        let notes = read(json!({ "models": [asked, cached] })).expect("notes");
        assert!(matches!(notes.models[..], [ModelCallNote::Asked(_), ModelCallNote::FromCache(_)]));
        let written = serde_json::to_value(&notes).expect("JSON");
        assert_eq!(written.to_string(), json!({ "models": [asked, cached] }).to_string());
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

//! The types that agents, the server, the terminal and the page exchange besides the text of an answer: activities
//! ([`AgentActivity`]), questions to a person ([`InterruptQuestion`]) and notes of a step ([`StepNotes`]).
//!
//! All of it is stored in the log and sent to clients as JSON. A reader may meet a log of another version: whatever it
//! does not know, or cannot read, becomes the variant `Unknown` with the JSON as it came, and breaks nothing beside it.

mod activity;
mod question;
mod step_notes;

pub use activity::{AgentActivity, ThinkingStep};
pub use question::{ClientToolAnswer, EffectOutcomeAnswer, InterruptQuestion, ToolApprovalAnswer};
pub use step_notes::{
    CachedReplyNote, CallNote, CallNoteKind, ModelCallNote, ModelRequestNote, RerankingNote, SearchHitNote,
    SearchNote, StepNotes, UnfinishedRequestNote, notes_of_entry, request_digest,
};

use serde::Serialize;
use serde_json::Value;

/// The JSON of a part of the protocol.
#[allow(clippy::expect_used, reason = "texts, numbers and JSON under text keys can always be written")]
fn to_json<T: Serialize>(part: &T) -> Value {
    serde_json::to_value(part).expect("the protocol is JSON")
}

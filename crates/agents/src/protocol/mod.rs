//! What agents, the server, the terminal and the page tell each other beside the words of an answer: what an agent
//! shows ([`AgentActivity`]), what it asks a person ([`InterruptQuestion`]) and what it notes beside a step
//! ([`StepNotes`]).
//!
//! All of it is stored in the log and sent to clients as JSON. A reader may meet a log of another version: whatever it
//! does not know, or cannot read, becomes the variant `Unknown` with the JSON as it came, and breaks nothing beside it.

mod activity;
mod question;
mod step_notes;

pub use activity::{AgentActivity, ThinkingStep};
pub use question::{EffectOutcomeAnswer, InterruptQuestion, ToolApprovalAnswer};
pub use step_notes::{
    CachedReplyNote, ModelCallNote, ModelRequestNote, StepNotes, UnfinishedRequestNote, notes_of_entry,
};

use serde::Serialize;
use serde_json::Value;

/// The JSON of a part of the protocol.
#[allow(clippy::expect_used, reason = "texts, numbers and JSON under text keys can always be written")]
fn to_json<T: Serialize>(part: &T) -> Value {
    serde_json::to_value(part).expect("the protocol is JSON")
}

//! What a run asks of people.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something a run asks of a person. Stored with the pause, so its fields are a format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingQuestion {
    /// Names the question in an answer. Unique in its run.
    pub id: String,
    /// Who asks.
    pub node: String,
    /// Why.
    pub kind: QuestionKind,
    /// What.
    pub question: Value,
    /// Why the last answer was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Why a run waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// A node asked.
    Ask,
    /// A breakpoint. Any answer goes on.
    Breakpoint,
    /// A node sleeps. A timer answers when its time has come; any answer wakes it earlier.
    Timer,
    /// A call that must not be repeated may or may not have happened. Answer `{"result": …}` when it did,
    /// `{"retry": true}` when it did not.
    EffectUnknown,
}

//! Calls to the world in a step that was not finished: what the log says of them when the step is given up.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A recorded call of a step that was not finished. Stored with a pause or a cancel, so its fields are a format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnfinishedCall {
    /// The task that made it, as a path.
    pub task: String,
    /// As the node calls it.
    pub name: String,
    /// What the outside knows it by.
    pub key: String,
    /// How far it got.
    pub state: CallState,
    /// What it gave, unless that is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// How far a call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It was begun. Whether it happened is not known.
    Begun,
    /// It happened.
    Done,
    /// It did not happen.
    NotDone,
}

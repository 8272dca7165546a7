//! What an agent shows before its answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::source::AnswerSource;

/// What an agent shows beside the words of its answer: as `data` of a delta, and in the note `events` of its
/// step on record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentActivity {
    /// What it is doing.
    Thinking {
        /// In a word.
        step: ThinkingStep,
        /// In the person's language.
        content: String,
    },
    /// It calls a tool.
    ToolCall {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// What the tool is given.
        arguments: Value,
    },
    /// What a call gave, or why it was not made.
    ToolResult {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// The beginning of the result.
        text: String,
        /// Whether the call failed or was refused.
        failed: bool,
        /// How long it took, in milliseconds.
        #[serde(default)]
        ms: u64,
    },
    /// What the answer rests on.
    Sources {
        /// The places, under the numbers by which the answer cites them.
        sources: Vec<AnswerSource>,
    },
    /// Something of another version. Never written, passed on as it came.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(Value),
}

/// What an agent is doing, in a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingStep {
    /// It decides where the question goes.
    Routing,
    /// It looks documents up.
    Searching,
    /// It sums the conversation up.
    Summarizing,
    /// It decides what to look up.
    Planning,
    /// It chose tools.
    ToolSelected,
    /// It judged what was found.
    EvaluationResult,
    /// It writes the answer.
    Generating,
    /// A word of another version.
    #[serde(untagged)]
    #[schemars(skip)]
    Other(String),
}

impl AgentActivity {
    /// Reads what was stored or sent.
    pub fn from_json(shown: &Value) -> Self {
        Self::deserialize(shown).unwrap_or_else(|_| Self::Unknown(shown.clone()))
    }

    /// As it is stored and sent.
    pub fn to_json(&self) -> Value {
        super::to_json(self)
    }

    /// Whether it is the call of a tool, which ends a reply.
    pub(crate) fn is_tool_call(&self) -> bool {
        matches!(self, Self::ToolCall { .. })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_json_of_an_activity_is_the_one_in_stored_logs() {
        let stored = [
            json!({ "type": "thinking", "step": "tool_selected", "content": "f({})" }),
            json!({ "type": "tool_call", "call": "a", "name": "f", "arguments": { "x": null } }),
            json!({ "type": "tool_result", "call": "a", "name": "f", "text": "1", "failed": false, "ms": 2 }),
            json!({ "type": "sources", "sources": [] }),
        ];
        for shown in stored {
            let read = AgentActivity::from_json(&shown);
            assert!(!matches!(read, AgentActivity::Unknown(_)), "{shown}");
            assert_eq!(read.to_json().to_string(), shown.to_string());
        }
    }

    #[test]
    fn an_activity_of_another_version_is_kept_as_it_came() {
        for shown in [
            json!({ "type": "drawing", "lines": 3 }),
            json!({ "type": "tool_call", "name": "without an id" }),
            json!({ "kind": "?" }),
            json!("?"),
            json!(null),
        ] {
            assert_eq!(AgentActivity::from_json(&shown), AgentActivity::Unknown(shown.clone()));
            assert_eq!(AgentActivity::from_json(&shown).to_json(), shown);
        }
        let later = json!({ "type": "thinking", "step": "dreaming", "content": "…" });
        let AgentActivity::Thinking { step, .. } = AgentActivity::from_json(&later) else {
            panic!("{later}")
        };
        assert_eq!(step, ThinkingStep::Other("dreaming".into()));
    }
}

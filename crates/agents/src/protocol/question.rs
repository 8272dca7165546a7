//! Questions of a run to a person, and their answers.

use doran_retrieval::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agents::{EarlierMessage, TurnRequest};
use crate::tools::ToolCallReason;

/// A question of a run that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InterruptQuestion {
    /// May this tool be called? Answered by a [`ToolApprovalAnswer`].
    ApproveTool {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// What the tool would be given.
        arguments: Value,
        /// Why it is asked.
        why: ToolCallReason,
        /// The exact call that the answer is bound to.
        approval: String,
        /// The question in Korean.
        ko: String,
        /// The question in English.
        en: String,
    },
    /// Did this call happen? It was cut off and must not be repeated. Answered by an [`EffectOutcomeAnswer`].
    ToolUnknown {
        /// The tool.
        name: String,
        /// What the tool was given.
        arguments: Value,
        /// The question in Korean.
        ko: String,
        /// The question in English.
        en: String,
        /// The name of the recorded effect. The engine adds it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// The idempotency key of the call. The engine adds it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A tool that the client runs. Answered by its result: a [`ClientToolAnswer`], or any JSON.
    ClientTool {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// What the tool is given.
        arguments: Value,
        /// The request in Korean.
        ko: String,
        /// The request in English.
        en: String,
    },
    /// What the node of a described agent asks. Answered by any JSON.
    Question {
        /// The question in Korean.
        ko: String,
        /// The question in English.
        en: String,
    },
    /// A pause of the engine, or a question of another version. Answered by any JSON.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(Value),
}

impl InterruptQuestion {
    /// Reads what was stored or sent.
    pub fn from_json(question: &Value) -> Self {
        Self::deserialize(question).unwrap_or_else(|_| Self::Unknown(question.clone()))
    }

    /// As it is stored and sent.
    pub fn to_json(&self) -> Value {
        super::to_json(self)
    }

    /// Whether it asks if a tool may be called.
    pub fn is_tool_approval(&self) -> bool {
        matches!(self, Self::ApproveTool { .. })
    }

    /// The question in words; its JSON where it has none.
    pub fn text(&self, language: Language) -> String {
        match self {
            Self::ApproveTool { ko, en, .. }
            | Self::ToolUnknown { ko, en, .. }
            | Self::ClientTool { ko, en, .. }
            | Self::Question { ko, en } => language.pick(ko, en).clone(),
            Self::Unknown(asked) => {
                let words = asked.get(language.pick("ko", "en")).and_then(Value::as_str);
                words.map_or_else(|| asked.to_string(), str::to_owned)
            }
        }
    }

    /// The tool it is about, with the arguments of the call.
    pub fn tool(&self) -> Option<(&str, &Value)> {
        match self {
            Self::ApproveTool { name, arguments, .. }
            | Self::ToolUnknown { name, arguments, .. }
            | Self::ClientTool { name, arguments, .. } => Some((name, arguments)),
            Self::Question { .. } | Self::Unknown(_) => None,
        }
    }
}

/// The answer to [`InterruptQuestion::ApproveTool`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolApprovalAnswer {
    /// Whether the call may be made.
    pub approve: bool,
    /// Whether further calls of this tool in this thread may be made without asking. Only a question that a policy asks
    /// (`why` is `policy`) takes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// The arguments to call the tool with instead of those of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// What the person wrote beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ToolApprovalAnswer {
    /// Reads an answer. Only an object is one; a list that holds the fields in order is not.
    pub fn from_json(answer: &Value) -> Option<Self> {
        answer.as_object().and_then(|_| Self::deserialize(answer).ok())
    }

    /// As it is stored and sent.
    pub fn to_json(&self) -> Value {
        super::to_json(self)
    }
}

/// The answer to [`InterruptQuestion::ClientTool`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientToolAnswer {
    /// What the tool gave, for the model.
    pub output: String,
    /// How the turn is to be answered from now on, if that changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<TurnRequest>,
    /// The client's instructions for the whole conversation, if it sent some. They replace those it sent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Messages that follow the results, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub following: Vec<EarlierMessage>,
    /// Free pairs that the client stores with its results.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl ClientToolAnswer {
    /// Reads an answer. Any other JSON is what the tool gave, a text as its words.
    pub fn from_json(answer: &Value) -> Self {
        let read = answer.as_object().and_then(|_| Self::deserialize(answer).ok());
        read.unwrap_or_else(|| Self {
            output: answer.as_str().map_or_else(|| answer.to_string(), str::to_owned),
            ..Self::default()
        })
    }

    /// As it is stored and sent.
    pub fn to_json(&self) -> Value {
        super::to_json(self)
    }
}

/// The answer to [`InterruptQuestion::ToolUnknown`], and to any effect whose outcome is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectOutcomeAnswer {
    /// It happened, and gave this.
    Result(Value),
    /// With `true`: it did not happen, and may be made now.
    Retry(bool),
}

impl EffectOutcomeAnswer {
    /// As it is stored and sent.
    pub fn to_json(&self) -> Value {
        super::to_json(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_json_of_a_question_is_the_one_in_stored_logs() {
        let stored = [
            json!({ "type": "approve_tool", "call": "a", "name": "f", "arguments": {}, "why": "policy",
                "approval": "0f", "ko": "쓸까요?", "en": "use it?" }),
            json!({ "type": "tool_unknown", "name": "f", "arguments": {}, "ko": "했나요?", "en": "done?" }),
            json!({ "type": "tool_unknown", "name": "f", "arguments": {}, "ko": "했나요?", "en": "done?",
                "call": "tool-0", "key": "k" }),
            json!({ "type": "client_tool", "call": "a", "name": "f", "arguments": {}, "ko": "실행하세요", "en": "run it" }),
            json!({ "type": "question", "ko": "며칠?", "en": "which days?" }),
        ];
        for question in stored {
            let read = InterruptQuestion::from_json(&question);
            assert!(!matches!(read, InterruptQuestion::Unknown(_)), "{question}");
            assert_eq!(read.to_json().to_string(), question.to_string());
        }
        assert_eq!(
            ToolApprovalAnswer { approve: true, ..Default::default() }.to_json().to_string(),
            r#"{"approve":true}"#
        );
        assert_eq!(EffectOutcomeAnswer::Retry(true).to_json().to_string(), r#"{"retry":true}"#);
        assert_eq!(EffectOutcomeAnswer::Result(Value::Null).to_json().to_string(), r#"{"result":null}"#);
    }

    #[test]
    fn a_question_of_another_version_is_shown_in_its_words_or_as_it_came() {
        let check = |question: Value, ko: &str| {
            let read = InterruptQuestion::from_json(&question);
            assert_eq!(read, InterruptQuestion::Unknown(question.clone()));
            assert_eq!(read.text(Language::Korean), ko);
            assert_eq!(read.to_json(), question);
        };
        check(json!({ "type": "choose", "ko": "무엇?", "en": "what?" }), "무엇?");
        check(json!({ "pause": "before", "due": ["a"] }), r#"{"due":["a"],"pause":"before"}"#);
        check(json!("며칠?"), r#""며칠?""#);
    }

    #[test]
    fn what_the_server_adds_to_a_question_does_not_hide_its_kind() {
        let question = json!({ "type": "question", "ko": "며칠?", "en": "which days?", "answer": "3" });
        assert!(matches!(InterruptQuestion::from_json(&question), InterruptQuestion::Question { .. }));
    }
}

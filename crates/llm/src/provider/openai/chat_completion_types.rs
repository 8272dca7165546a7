//! The wire types of chat completions, whole and streamed: `message` in one, `delta` in the other.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A whole answer or a chunk of one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatCompletionChunk {
    #[serde(default)]
    pub(super) choices: Option<Vec<ChatCompletionChoice>>,
    #[serde(default)]
    pub(super) usage: Option<Value>,
    #[serde(default)]
    pub(super) x_groq: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatCompletionChoice {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default, alias = "message")]
    pub(super) delta: Option<ChatCompletionMessage>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

/// The message, or the next part of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatCompletionMessage {
    #[serde(default)]
    pub(super) content: LenientText,
    #[serde(default)]
    pub(super) refusal: LenientText,
    #[serde(default)]
    pub(super) reasoning_content: LenientText,
    #[serde(default)]
    pub(super) reasoning: LenientText,
    #[serde(default)]
    pub(super) tool_calls: Option<Vec<ToolCallFragment>>,
}

/// A tool call or a part of one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolCallFragment {
    #[serde(default)]
    pub(super) index: Option<i64>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<ToolCallFunction>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ToolCallFunction {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: LenientText,
}

/// Text that may also arrive as null, as a list of parts, or as an object. Reasoning parts in a list are kept separate
/// from the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LenientText {
    pub(super) text: String,
    pub(super) thought: String,
}

impl<'de> Deserialize<'de> for LenientText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientTextVisitor)
    }
}

struct LenientTextVisitor;

impl<'de> Visitor<'de> for LenientTextVisitor {
    type Value = LenientText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E>(self, text: &str) -> Result<LenientText, E> {
        Ok(LenientText { text: text.to_owned(), thought: String::new() })
    }

    fn visit_string<E>(self, text: String) -> Result<LenientText, E> {
        Ok(LenientText { text, thought: String::new() })
    }

    fn visit_unit<E>(self) -> Result<LenientText, E> {
        Ok(LenientText::default())
    }

    fn visit_none<E>(self) -> Result<LenientText, E> {
        Ok(LenientText::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<LenientText, A::Error> {
        let mut words = LenientText::default();
        while let Some(part) = parts.next_element::<Value>()? {
            let text =
                |value: &Value| value.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
            match part.get("thinking") {
                Some(Value::Array(thoughts)) => words.thought.extend(thoughts.iter().map(text)),
                Some(Value::String(thought)) => words.thought.push_str(thought),
                _ => words.text.push_str(&text(&part)),
            }
        }
        Ok(words)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LenientText, A::Error> {
        let value = Value::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(LenientText { text: value.to_string(), thought: String::new() })
    }
}

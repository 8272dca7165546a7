//! What chat completions look like on the wire, whole and in pieces: a message in one, a delta in the other.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A whole answer or a piece of one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub(super) choices: Option<Vec<Choice>>,
    #[serde(default)]
    pub(super) usage: Option<Value>,
    #[serde(default)]
    pub(super) x_groq: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default, alias = "message")]
    pub(super) delta: Option<Said>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

/// What was said, or the next of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Said {
    #[serde(default)]
    pub(super) content: Words,
    #[serde(default)]
    pub(super) refusal: Words,
    #[serde(default)]
    pub(super) reasoning_content: Words,
    #[serde(default)]
    pub(super) reasoning: Words,
    #[serde(default)]
    pub(super) tool_calls: Option<Vec<Fragment>>,
}

/// A tool call or a piece of one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Fragment {
    #[serde(default)]
    pub(super) index: Option<i64>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<Function>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Function {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Words,
}

/// Text that may also come as nothing, as a list of parts, or as an object. What is thought aloud in a list is kept
/// apart from what is said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) text: String,
    pub(super) thought: String,
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Words, E> {
        Ok(Words { text: text.to_owned(), thought: String::new() })
    }

    fn visit_string<E>(self, text: String) -> Result<Words, E> {
        Ok(Words { text, thought: String::new() })
    }

    fn visit_unit<E>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_none<E>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Words, A::Error> {
        let mut words = Words::default();
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

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Words, A::Error> {
        let value = Value::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(Words { text: value.to_string(), thought: String::new() })
    }
}

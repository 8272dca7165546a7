//! What a conversation is made of. Every piece of text says where it came from, so that words from a document or a
//! tool are never taken for words of the person.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of a message, unique within its thread and chosen by the program that makes the message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct MessageId(String);

impl MessageId {
    /// The id with this text.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose turn a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions and material of the program.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// What tools gave back.
    Tool,
}

/// The original source of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextOrigin {
    /// Written into the program: prompts, fixed sentences.
    Program,
    /// Typed by the person.
    User,
    /// Read from an ingested document.
    Document,
    /// Fetched from the web.
    Web,
    /// Returned by a tool.
    Tool,
    /// Produced by a model.
    Model,
}

/// What a passage is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PassageKind {
    /// Any document that is not a contract.
    #[default]
    Document,
    /// A contract of the user.
    Contract,
    /// A standard contract.
    StandardContract,
}

impl PassageKind {
    fn is_document(&self) -> bool {
        *self == Self::Document
    }
}

/// A passage given to a model as material, with the number by which an answer cites it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NumberedPassage {
    /// The citation number; `[1]` in an answer means the passage numbered 1.
    pub number: u32,
    /// What a person calls the place: document and heading.
    pub title: String,
    /// The words themselves.
    pub text: String,
    /// What it is taken from.
    #[serde(default, skip_serializing_if = "PassageKind::is_document")]
    pub kind: PassageKind,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessagePart {
    /// Plain text.
    Text {
        /// The words.
        text: String,
        /// Where they came from.
        origin: TextOrigin,
    },
    /// Material from a document.
    Passage(NumberedPassage),
    /// A model wants a tool to be run.
    ToolCall(ToolCall),
    /// What a tool gave back.
    ToolResult(ToolResult),
    /// A picture, by reference.
    Image(ImageReference),
    /// What a model thought aloud before it answered. Not part of the answer.
    Reasoning {
        /// The words.
        text: String,
        /// What the vendor wants to see again with the next request, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
}

/// A model's request to run a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolCall {
    /// Names the call; its result carries the same.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What it is to work on; fits the schema of the tool only after it was checked. Arguments that are not JSON, or
    /// are nested too deep, are a string.
    pub arguments: serde_json::Value,
}

/// What a tool gave back for one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolResult {
    /// The call that this answers.
    pub call: String,
    /// The tool.
    pub name: String,
    /// What it said, as text.
    pub text: String,
    /// Whether it failed; then the text says why.
    #[serde(default)]
    pub failed: bool,
    /// Where the text came from: `tool`, `document` or `web`.
    pub origin: TextOrigin,
}

/// A picture by reference: a `data:` URL or an address the model can reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ImageReference {
    /// Where it is.
    pub url: String,
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Who gave it.
    pub origin: TextOrigin,
}

impl MessagePart {
    /// Where the words of this part came from.
    pub fn origin(&self) -> TextOrigin {
        match self {
            Self::Text { origin, .. } => *origin,
            Self::Passage(_) => TextOrigin::Document,
            Self::ToolCall(_) | Self::Reasoning { .. } => TextOrigin::Model,
            Self::ToolResult(result) => result.origin,
            Self::Image(image) => image.origin,
        }
    }
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Message {
    /// Its name within the thread.
    pub id: MessageId,
    /// Whose turn it is.
    pub role: Role,
    /// What it holds, in order.
    pub parts: Vec<MessagePart>,
    /// What the program that sent the message stores with it, such as the name of the person. Models do not see it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub client_fields: Map<String, Value>,
}

impl Message {
    /// A message of these parts.
    pub fn new(id: impl Into<String>, role: Role, parts: Vec<MessagePart>) -> Self {
        Self { id: MessageId::new(id), role, parts, client_fields: Map::new() }
    }

    /// What a person typed.
    pub fn user(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::with_text(id, Role::User, text, TextOrigin::User)
    }

    /// What a model answered.
    pub fn assistant(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::with_text(id, Role::Assistant, text, TextOrigin::Model)
    }

    /// What the program tells a model.
    pub fn system(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::with_text(id, Role::System, text, TextOrigin::Program)
    }

    /// Passages for a model to answer from.
    pub fn passages(id: impl Into<String>, passages: impl IntoIterator<Item = NumberedPassage>) -> Self {
        let parts = passages.into_iter().map(MessagePart::Passage).collect();
        Self::new(id, Role::System, parts)
    }

    /// What tools gave back for the calls of one reply, in the order of the calls.
    pub fn tool_output(id: impl Into<String>, results: impl IntoIterator<Item = ToolResult>) -> Self {
        let parts = results.into_iter().map(MessagePart::ToolResult).collect();
        Self::new(id, Role::Tool, parts)
    }

    /// With images after what is in it already.
    #[must_use]
    pub fn with_images(mut self, images: impl IntoIterator<Item = ImageReference>) -> Self {
        self.parts.extend(images.into_iter().map(MessagePart::Image));
        self
    }

    /// The plain text of the message; passages are material, not text of the turn, and are left out.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                MessagePart::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The tools it wants to be run, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// What tools gave back, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    fn with_text(id: impl Into<String>, role: Role, text: impl Into<String>, origin: TextOrigin) -> Self {
        Self::new(id, role, vec![MessagePart::Text { text: text.into(), origin }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_its_json_shape() {
        let mut message = Message::user("m1", "안녕");
        let passage = NumberedPassage {
            number: 1,
            title: "규정".into(),
            text: "연차는 15일이다.".into(),
            ..NumberedPassage::default()
        };
        message.parts.push(MessagePart::Passage(passage));
        let json = r#"{"id":"m1","role":"user","parts":[{"type":"text","text":"안녕","origin":"user"},{"type":"passage","number":1,"title":"규정","text":"연차는 15일이다."}]}"#;
        assert_eq!(serde_json::to_string(&message).expect("json"), json);
        assert_eq!(serde_json::from_str::<Message>(json).expect("message"), message);
    }

    #[test]
    fn words_of_a_document_are_not_words_of_the_person() {
        let passage = NumberedPassage {
            number: 1,
            title: String::new(),
            text: "내 이름은 영희야.".into(),
            ..NumberedPassage::default()
        };
        let mut message = Message::user("m1", "읽어 줘");
        message.parts.push(MessagePart::Passage(passage));
        assert_eq!(message.text(), "읽어 줘");
        assert_eq!(message.parts[1].origin(), TextOrigin::Document);
    }
}

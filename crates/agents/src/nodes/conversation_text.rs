//! A conversation as the text of one message, for a model that summarises it and must not continue it.

use doran_llm::{Message, MessagePart, Role, TextOrigin};
use doran_retrieval::Language;

use crate::request_format::{answer_line_prefix, user_line_prefix};
use crate::source::without_citation_marks;

/// The messages as text, each after the name of its speaker. Every part keeps its origin. Citation marks are removed,
/// because their sources are not part of the text.
pub(crate) fn conversation_as_text(id: &str, messages: &[Message], language: Language) -> Message {
    let mut parts = Vec::new();
    for message in messages {
        let prefix = match message.role {
            Role::System => continue,
            Role::User => user_line_prefix(language),
            Role::Assistant => answer_line_prefix(language),
            Role::Tool => language.pick("도구: ", "Tool: "),
        };
        for (text, origin) in without_citation_marks(message).parts.iter().filter_map(part_text) {
            parts.push(MessagePart::Text { text: format!("{prefix}{text}\n"), origin });
        }
    }
    Message::new(id, Role::User, parts)
}

fn part_text(part: &MessagePart) -> Option<(String, TextOrigin)> {
    match part {
        MessagePart::Text { text, origin } => Some((text.clone(), *origin)),
        MessagePart::ToolResult(result) => {
            Some((format!("{} → {}", result.name, result.text), result.origin))
        }
        MessagePart::ToolCall(_)
        | MessagePart::Passage(_)
        | MessagePart::Image(_)
        | MessagePart::Reasoning { .. } => None,
    }
}

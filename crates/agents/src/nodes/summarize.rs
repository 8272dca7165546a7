//! A conversation as one message, for a model that is to sum it up and not to go on with it.

use doran_llm::{Message, MessageId, Origin, Part, Role};

use crate::language::Language;
use crate::source::unmarked;

/// What was said, each turn under its speaker. Every part keeps where its words came from. Marks of sources are left
/// out: nobody could look them up any more.
pub(crate) fn transcript(id: &str, messages: &[Message], language: Language) -> Message {
    let mut parts = Vec::new();
    for message in messages {
        let speaker = match message.role {
            Role::System => continue,
            Role::User => language.pick("사용자", "User"),
            Role::Assistant => language.pick("답변", "Answer"),
            Role::Tool => language.pick("도구", "Tool"),
        };
        for (text, origin) in unmarked(message).parts.iter().filter_map(words) {
            parts.push(Part::Text { text: format!("{speaker}: {text}\n"), origin });
        }
    }
    Message { id: MessageId::new(id), role: Role::User, parts }
}

fn words(part: &Part) -> Option<(String, Origin)> {
    match part {
        Part::Text { text, origin } => Some((text.clone(), *origin)),
        Part::ToolResult(result) => Some((format!("{} → {}", result.name, result.text), result.origin)),
        Part::ToolCall(_) | Part::Passage(_) | Part::Image(_) | Part::Reasoning { .. } => None,
    }
}

//! Activities of an agent as reasoning text.

use doran_agents::protocol::{AgentActivity, ThinkingStep};
use serde_json::{Value, json};

/// The most characters of a tool's arguments that are shown.
const MAX_ARGUMENT_CHARS: usize = 300;

/// A line of reasoning, if the activity is any: a thought, or a tool that is used. What a tool gave back is long and stands
/// in the answer as far as it matters.
pub(super) fn reasoning_line(activity: &AgentActivity) -> Option<String> {
    let line = match activity {
        // The call itself follows, and says more.
        AgentActivity::Thinking { step: ThinkingStep::ToolSelected, .. } => return None,
        AgentActivity::Thinking { content, .. } => content.trim().to_owned(),
        AgentActivity::ToolCall { name, arguments, .. } => {
            let arguments: String = arguments.to_string().chars().take(MAX_ARGUMENT_CHARS).collect();
            format!("{name} {arguments}")
        }
        AgentActivity::ToolResult { .. } | AgentActivity::Sources { .. } | AgentActivity::Unknown(_) => {
            return None;
        }
    };
    (!line.is_empty()).then(|| format!("{line}\n"))
}

/// The reasoning under both names that clients look for; nothing where there is none.
pub(super) fn reasoning_fields(text: &str) -> Value {
    if text.is_empty() { json!({}) } else { json!({ "reasoning_content": text, "reasoning": text }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_and_tools_are_reasoning_and_nothing_else_is() {
        let line = |shown: Value| reasoning_line(&AgentActivity::from_json(&shown));
        let thought = json!({ "type": "thinking", "step": "planning", "content": " 계획합니다 " });
        assert_eq!(line(thought).as_deref(), Some("계획합니다\n"));
        let call = json!({ "type": "tool_call", "call": "a", "name": "calculator", "arguments": { "expression": "1+1" } });
        assert_eq!(line(call).as_deref(), Some("calculator {\"expression\":\"1+1\"}\n"));
        let long = json!({ "type": "tool_call", "call": "a", "name": "f", "arguments": "가".repeat(9000) });
        assert!(line(long).is_some_and(|line| line.chars().count() <= MAX_ARGUMENT_CHARS + 3));
        for other in [
            json!({ "type": "tool_result", "call": "a", "name": "f", "text": "2", "failed": false, "ms": 1 }),
            json!({ "type": "sources", "sources": [] }),
            json!({ "type": "thinking", "step": "planning", "content": " " }),
            json!({ "type": "thinking", "step": "tool_selected", "content": "calculator({})" }),
            json!({ "type": "thinking" }),
            json!("thinking"),
            json!(null),
        ] {
            assert_eq!(line(other.clone()), None, "{other}");
        }
        assert_eq!(reasoning_fields(""), json!({}));
    }
}

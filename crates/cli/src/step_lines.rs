//! The steps and tool calls of a run, on a line each.

use doran_agents::TurnUpdate;
use doran_agents::protocol::AgentActivity;
use doran_retrieval::{Language, localize_article_numbers, localize_place_label};
use doran_server::api::StepTask;
use serde_json::Value;

use crate::output::{BilingualMessage, bilingual};

/// The most characters of a tool's arguments or result on a line.
const MAX_LINE_CHARS: usize = 80;

/// What a node did, on a line.
pub(crate) fn describe_step(task: &StepTask, turn: &TurnUpdate, calls: &[String]) -> BilingualMessage {
    let (node, ms, found) = (&task.node, task.ms, turn.found.len());
    let called = calls.iter().map(|call| format!(" {call}")).collect::<String>();
    match found {
        0 => bilingual!("{node}{called} {ms}밀리초", "{node}{called} {ms} ms"),
        found => {
            bilingual!("{node} 문단 {found}개{called} {ms}밀리초", "{node} {found} passages{called} {ms} ms")
        }
    }
}

/// The tool calls of a node, as it noted them, for a person who asked in this language.
pub(crate) fn describe_tool_calls(shown: &[AgentActivity], language: Language) -> Vec<String> {
    let arguments_of = |id: &str| {
        shown.iter().find_map(|activity| match activity {
            AgentActivity::ToolCall { call, arguments, .. } if call == id => {
                Some(format_arguments(arguments, language))
            }
            _ => None,
        })
    };
    let described = shown.iter().filter_map(|activity| match activity {
        AgentActivity::ToolResult { call, name, text, failed, .. } => {
            let text = truncate_to_line(&localize_place_label(text));
            let sign = if *failed { "✗" } else { "=" };
            Some(format!("{name}({}) {sign} {text}", arguments_of(call).unwrap_or_default()))
        }
        _ => None,
    });
    described.collect()
}

/// Arguments as a person would write them: the value alone when there is one.
fn format_arguments(arguments: &Value, language: Language) -> String {
    let values: Vec<&Value> = arguments.as_object().into_iter().flat_map(|fields| fields.values()).collect();
    match values.as_slice() {
        [] => String::new(),
        [Value::String(only)] if language == Language::English => {
            truncate_to_line(&localize_article_numbers(only, only))
        }
        [Value::String(only)] => truncate_to_line(only),
        _ => truncate_to_line(&arguments.to_string()),
    }
}

fn truncate_to_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn activities(shown: &Value) -> Vec<AgentActivity> {
        shown.as_array().expect("a list").iter().map(AgentActivity::from_json).collect()
    }

    #[test]
    fn a_tool_call_is_shown_with_its_result() {
        let events = activities(&json!([
            { "type": "tool_call", "call": "a", "name": "calculator", "arguments": { "expression": "15-6.5" } },
            { "type": "tool_result", "call": "a", "name": "calculator", "text": "8.5\n", "failed": false, "ms": 0 },
            { "type": "tool_result", "call": "b", "name": "x", "text": "y", "failed": true, "ms": 0 },
        ]));
        assert_eq!(describe_tool_calls(&events, Language::Korean), ["calculator(15-6.5) = 8.5", "x() ✗ y"]);
    }

    #[test]
    fn an_article_is_counted_in_the_language_of_the_question_and_of_its_document() {
        let called = |article: &str, place: &str, language: Language| {
            let events = activities(&json!([
                { "type": "tool_call", "call": "a", "name": "read", "arguments": { "article": article } },
                { "type": "tool_result", "call": "a", "name": "read", "text": format!("[{place}]\n30 days."), "failed": false },
            ]));
            describe_tool_calls(&events, language).concat()
        };
        assert_eq!(
            called("제2조", "Agreement › 제2조(Fees)", Language::English),
            "read(Article 2) = [Agreement › Article 2 (Fees)] 30 days."
        );
        assert_eq!(
            called("제2조", "용역계약서 › 제2조(대금)", Language::Korean),
            "read(제2조) = [용역계약서 › 제2조(대금)] 30 days."
        );
        assert_eq!(
            called("제2조", "용역계약서 › 제2조(대금)", Language::English),
            "read(Article 2) = [용역계약서 › 제2조(대금)] 30 days."
        );
    }
}

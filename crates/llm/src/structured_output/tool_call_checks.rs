//! Checks tool calls before any of them runs: known tool, distinct ids, valid arguments, not too many at once.

use std::collections::HashSet;

use serde_json::Value;

use super::response_schema::schema_violations;
use crate::message::{Message, TextOrigin, ToolCall, ToolResult};
use crate::model::ToolSpec;

/// The maximum number of tool calls of one reply that are run. The others get an error as their result.
pub const MAX_PARALLEL_TOOL_CALLS: usize = 16;

/// The maximum size of the arguments of one call.
pub const MAX_ARGUMENT_BYTES: usize = 256 * 1024;

/// Why a tool call is not run. The message is sent back to the model, which can try another way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToolCall {
    /// The tool does not exist.
    #[error("there is no tool `{name}`; the tools are: {}", known.join(", "))]
    UnknownTool {
        /// The requested tool.
        name: String,
        /// The tools that exist.
        known: Vec<String>,
    },
    /// The arguments are not a JSON object.
    #[error("the arguments of `{name}` are not a JSON object")]
    NotJson {
        /// The tool.
        name: String,
    },
    /// The arguments do not match the schema.
    #[error("the arguments of `{name}` do not fit its schema: {}", problems.join("; "))]
    WrongShape {
        /// The tool.
        name: String,
        /// The violations, each with its location.
        problems: Vec<String>,
    },
    /// The arguments are too large.
    #[error("the arguments of `{name}` have {bytes} bytes; the most is {MAX_ARGUMENT_BYTES}")]
    TooLarge {
        /// The tool.
        name: String,
        /// Their size.
        bytes: usize,
    },
    /// Another call of the same reply has the same id.
    #[error("two calls have the id `{id}`; only the first is run")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// Too many calls in one reply.
    #[error(
        "only {MAX_PARALLEL_TOOL_CALLS} tool calls are run at once; ask for this one again if it is still needed"
    )]
    TooMany,
}

/// A tool call after the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckedToolCall {
    /// The call may run.
    Valid(ToolCall),
    /// The call does not run; this is its result.
    Invalid(ToolResult),
}

/// Checks one call against the tool it names. Arguments that were not JSON are a string here.
pub fn check_tool_arguments(tool: &ToolSpec, call: &ToolCall) -> Result<(), InvalidToolCall> {
    let name = || tool.name.clone();
    let bytes = call.arguments.to_string().len();
    if bytes > MAX_ARGUMENT_BYTES {
        return Err(InvalidToolCall::TooLarge { name: name(), bytes });
    }
    if !matches!(call.arguments, Value::Object(_)) {
        return Err(InvalidToolCall::NotJson { name: name() });
    }
    let problems = schema_violations(&tool.parameters, &call.arguments);
    if problems.is_empty() { Ok(()) } else { Err(InvalidToolCall::WrongShape { name: name(), problems }) }
}

/// Checks all calls of one reply. Returns one entry for each call, in order, so that every call gets a result.
pub fn check_tool_calls(tools: &[ToolSpec], calls: &[ToolCall]) -> Vec<CheckedToolCall> {
    let mut seen = HashSet::new();
    let checked =
        calls.iter().enumerate().map(|(at, call)| match check_tool_call(tools, call, at, &mut seen) {
            Ok(()) => CheckedToolCall::Valid(call.clone()),
            Err(bad) => CheckedToolCall::Invalid(ToolResult {
                call: call.id.clone(),
                name: call.name.clone(),
                text: format!("Error: {bad}"),
                failed: true,
                origin: TextOrigin::Program,
            }),
        });
    checked.collect()
}

/// Returns how often the conversation already contains this call, by tool and arguments. A caller can stop a loop by
/// it.
pub fn count_repeated_calls(messages: &[Message], call: &ToolCall) -> usize {
    let same = |made: &&ToolCall| made.name == call.name && made.arguments == call.arguments;
    messages.iter().flat_map(Message::tool_calls).filter(same).count()
}

fn check_tool_call<'a>(
    tools: &[ToolSpec],
    call: &'a ToolCall,
    at: usize,
    seen: &mut HashSet<&'a str>,
) -> Result<(), InvalidToolCall> {
    if !seen.insert(&call.id) {
        return Err(InvalidToolCall::DuplicateId { id: call.id.clone() });
    }
    if at >= MAX_PARALLEL_TOOL_CALLS {
        return Err(InvalidToolCall::TooMany);
    }
    match tools.iter().find(|tool| tool.name == call.name) {
        Some(tool) => check_tool_arguments(tool, call),
        None => Err(InvalidToolCall::UnknownTool {
            name: call.name.chars().take(64).collect(),
            known: tools.iter().map(|tool| tool.name.clone()).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool_add() -> ToolSpec {
        let parameters = json!({
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "required": ["x"],
            "additionalProperties": false
        });
        ToolSpec { name: "add".into(), description: "adds".into(), parameters }
    }

    fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), arguments }
    }

    fn check(name: &str, arguments: Value, expected: &str) {
        let told = match &check_tool_calls(&[tool_add()], &[call("c1", name, arguments)])[0] {
            CheckedToolCall::Valid(call) => format!("runs {}", call.name),
            CheckedToolCall::Invalid(result) => result.text.clone(),
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn only_a_call_that_fits_is_run() {
        check("add", json!({"x": 1}), "runs add");
        check("sub", json!({"x": 1}), "Error: there is no tool `sub`; the tools are: add");
        check("add", json!("{\"x\": "), "Error: the arguments of `add` are not a JSON object");
        check(
            "add",
            json!({"x": "one"}),
            "Error: the arguments of `add` do not fit its schema: at `/x`: \"one\" is not of type \"integer\"",
        );
        check(
            "add",
            json!({"x": 1, "y": "a".repeat(1_000_000)}),
            "Error: the arguments of `add` have 1000014 bytes; the most is 262144",
        );
    }

    #[test]
    fn every_call_gets_an_outcome_and_at_most_sixteen_run() {
        let calls: Vec<ToolCall> =
            (0..50).map(|at| call(&format!("c{at}"), "add", json!({"x": at}))).collect();
        let checked = check_tool_calls(&[tool_add()], &calls);
        let good = checked.iter().filter(|checked| matches!(checked, CheckedToolCall::Valid(_))).count();
        assert_eq!((checked.len(), good), (50, MAX_PARALLEL_TOOL_CALLS));
    }

    #[test]
    fn a_second_call_with_the_same_id_is_not_run() {
        let calls = [call("c1", "add", json!({"x": 1})), call("c1", "add", json!({"x": 2}))];
        let checked = check_tool_calls(&[tool_add()], &calls);
        assert!(matches!(&checked[0], CheckedToolCall::Valid(_)));
        assert!(
            matches!(&checked[1], CheckedToolCall::Invalid(result) if result.text.contains("only the first"))
        );
    }

    #[test]
    fn the_same_call_again_is_noticed() {
        let made = call("c1", "add", json!({"x": 1}));
        let message = Message {
            id: crate::MessageId::new("a"),
            role: crate::Role::Assistant,
            parts: vec![crate::MessagePart::ToolCall(made)],
        };
        let messages = [message.clone(), message];
        assert_eq!(count_repeated_calls(&messages, &call("c9", "add", json!({"x": 1}))), 2);
        assert_eq!(count_repeated_calls(&messages, &call("c9", "add", json!({"x": 2}))), 0);
    }
}

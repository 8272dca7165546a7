//! Extracts JSON from model output: in a code fence, after a thinking block, or with text around it. The JSON itself
//! must be complete.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::message::ToolCall;
use crate::model::ToolSpec;

/// Extracts the JSON value of a text: the whole text, or the first fenced block, or the first object in it. The error
/// is written for the model.
pub(crate) fn extract_json(text: &str) -> Result<Value, String> {
    let text = skip_think_block(text).trim();
    if text.is_empty() {
        return Err("it is empty".into());
    }
    let whole = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if let Some(inside) = first_fenced_block(text)
        && let Ok(value) = serde_json::from_str(inside.trim())
    {
        return Ok(value);
    }
    // Only a few start positions are tried, so that a text full of braces does not take quadratic time.
    for (start, _) in text.match_indices('{').take(8) {
        if let Ok(value) = serde_json::Deserializer::from_str(&text[start..]).into_iter().next().transpose()
            && let Some(value @ Value::Object(_)) = value
        {
            return Ok(value);
        }
    }
    Err(whole.to_string())
}

/// The most tool calls that are taken from one text.
const MAX_WRITTEN_CALLS: usize = 8;

/// Extracts tool calls that a local model wrote as text, with nothing else beside them: JSON objects `{"name": …,
/// "arguments": {…}}`, one after another or in an array, bare, in a code fence or in `<tool_call>`. The names `tool`,
/// `function`, `parameters` and `args`, a call as `NAME {…}`, arguments that are a string of JSON, a call inside `"function"`, and doubled
/// braces are accepted. A call that is written twice is one. Returns nothing unless every call names one of the known
/// tools or has arguments: a call of a tool that does not exist is for the model to correct and not for a person to read.
pub(crate) fn extract_written_tool_calls(text: &str, tools: &[ToolSpec]) -> Vec<ToolCall> {
    let text = skip_think_block(text).trim();
    let written = match tagged_blocks(text) {
        Some(blocks) => blocks.into_iter().map(parse_written_calls).collect::<Option<Vec<_>>>(),
        None => {
            let text = sole_fenced_block(text).unwrap_or(text);
            named_call(text, tools).or_else(|| parse_written_calls(text)).map(|calls| vec![calls])
        }
    };
    let mut calls: Vec<ToolCall> = Vec::new();
    for call in written.into_iter().flatten().flatten() {
        let call = match tools.iter().find(|tool| tool.name == call.name) {
            Some(tool) => without_schema_words(call, &tool.parameters),
            None => call,
        };
        if !calls.iter().any(|known| known.name == call.name && known.arguments == call.arguments) {
            calls.push(call);
        }
    }
    let is_call =
        |call: &ToolCall| tools.iter().any(|tool| tool.name == call.name) || call.arguments != json!({});
    if calls.iter().all(is_call) && calls.len() <= MAX_WRITTEN_CALLS { calls } else { Vec::new() }
}

/// Returns whether a text, cut off anywhere, ends with a line that was written before it as a call.
pub(crate) fn repeats_written_call(text: &str) -> bool {
    let Some((before, last)) = text.trim_end().rsplit_once('\n') else { return false };
    let last = last.trim();
    last.starts_with('{')
        && last.ends_with('}')
        && before.lines().any(|line| line.trim() == last)
        && parse_written_calls(last).is_some()
}

/// Takes the words of a schema that a small model has copied into the arguments of a call out of them, unless the tool
/// has arguments of these names.
fn without_schema_words(mut call: ToolCall, parameters: &Value) -> ToolCall {
    const WORDS: [&str; 5] = ["type", "required", "properties", "description", "additionalProperties"];
    if let Value::Object(arguments) = &mut call.arguments {
        arguments
            .retain(|name, _| !WORDS.contains(&name.as_str()) || !parameters["properties"][name].is_null());
    }
    call
}

/// The call in `NAME {ARGUMENTS}`, as prompts write examples.
fn named_call(text: &str, tools: &[ToolSpec]) -> Option<Vec<ToolCall>> {
    let (name, arguments) = text.trim().split_once('{')?;
    let name = tools.iter().map(|tool| &tool.name).find(|known| *known == name.trim())?.clone();
    let arguments: Value = serde_json::from_str(&format!("{{{arguments}")).ok()?;
    Some(vec![ToolCall { id: String::new(), name, arguments }])
}

/// The contents of `<tool_call>` blocks, if the text is nothing else. The last one may be open.
fn tagged_blocks(text: &str) -> Option<Vec<&str>> {
    let rest = text.strip_prefix("<tool_call>")?;
    let mut blocks = Vec::new();
    for block in rest.split("<tool_call>") {
        let (inside, after) = block.split_once("</tool_call>").unwrap_or((block, ""));
        if !after.trim().is_empty() {
            return None;
        }
        blocks.push(inside);
    }
    Some(blocks)
}

fn parse_written_calls(text: &str) -> Option<Vec<ToolCall>> {
    let text = text.trim();
    let doubled = || text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    let several = || {
        let values = serde_json::Deserializer::from_str(text).into_iter().collect::<Result<Vec<Value>, _>>();
        values.ok().map(Value::Array)
    };
    let value = match serde_json::from_str(text).ok().or_else(several) {
        Some(value) => value,
        // Templates of prompts have doubled braces, and some models repeat them: outside only, or everywhere.
        None => serde_json::from_str(&format!("{{{}}}", doubled()?))
            .or_else(|_| serde_json::from_str(&text.replace("{{", "{").replace("}}", "}")))
            .ok()?,
    };
    match value {
        Value::Array(calls) if !calls.is_empty() => calls.into_iter().map(parse_written_call).collect(),
        value => Some(vec![parse_written_call(value)?]),
    }
}

fn parse_written_call(mut value: Value) -> Option<ToolCall> {
    #[derive(Deserialize)]
    struct WrittenToolCall {
        #[serde(alias = "tool", alias = "function")]
        name: String,
        #[serde(alias = "parameters", alias = "args", default)]
        arguments: Value,
    }
    if let Some(inner @ Value::Object(_)) = value.get_mut("function") {
        value = inner.take();
    }
    let WrittenToolCall { name, arguments } = serde_json::from_value(value).ok()?;
    let arguments = match arguments {
        Value::String(json) => serde_json::from_str(&json).ok()?,
        Value::Null => Value::Object(serde_json::Map::new()),
        arguments => arguments,
    };
    arguments.is_object().then(|| ToolCall { id: String::new(), name, arguments })
}

/// Returns the text after a `<think>` block at the start.
fn skip_think_block(text: &str) -> &str {
    let trimmed = text.trim_start();
    match trimmed.strip_prefix("<think>").and_then(|rest| rest.split_once("</think>")) {
        Some((_, rest)) => rest,
        None => text,
    }
}

/// Returns the content of the first code fence.
fn first_fenced_block(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("```")?;
    let body = &rest[rest.find('\n')? + 1..];
    Some(body.split_once("```").map_or(body, |(inside, _)| inside))
}

/// Returns the content of the code fence if the text is nothing but one fence.
fn sole_fenced_block(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("```")?.strip_suffix("```")?;
    let (language, body) = inside.split_once('\n')?;
    let language = language.trim();
    (matches!(language, "" | "json" | "tool_call" | "tool_code") && !body.contains("```")).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let outcome = match extract_json(text) {
            Ok(value) => value.to_string(),
            Err(reason) => format!("no: {reason}"),
        };
        assert_eq!(outcome, expected, "{text}");
    }

    #[test]
    fn json_is_found_in_what_models_put_around_it() {
        check(r#"{"a":1}"#, r#"{"a":1}"#);
        check("```json\n{\"a\":1}\n```", r#"{"a":1}"#);
        check("물론입니다!\n```\n{\"a\":1}\n```\n더 필요하세요?", r#"{"a":1}"#);
        check("<think>{ hmm }</think>\n{\"a\":1}", r#"{"a":1}"#);
        check("답: {\"a\":{\"b\":[1]}} 입니다.", r#"{"a":{"b":[1]}}"#);
    }

    #[test]
    fn half_of_json_is_not_json() {
        check("", "no: it is empty");
        check(r#"{"a":1"#, "no: EOF while parsing an object at line 1 column 6");
        check("모르겠습니다", "no: expected value at line 1 column 1");
        check(&"[".repeat(100_000), "no: recursion limit exceeded at line 1 column 128");
    }

    fn written(text: &str) -> String {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({ "properties": { "x": {}, "description": {} } }),
        };
        let calls = extract_written_tool_calls(text, &[tool("add"), tool("now")]);
        calls.iter().map(|call| format!("{}{}", call.name, call.arguments)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_tool_call_may_be_written_in_many_ways() {
        let call = r#"{"name":"add","arguments":{"x":1}}"#;
        for text in [
            call.to_owned(),
            format!("```json\n{call}\n```"),
            format!("<tool_call>{call}</tool_call>"),
            format!("<tool_call>\n{call}\n"),
            format!("<think>hm</think>\n{call}"),
            r#"{"tool":"add","args":{"x":1}}"#.to_owned(),
            r#"<tool_call>{"name":"add","parameters":{"x":1}}</tool_call>"#.to_owned(),
            r#"{"type":"function","function":{"name":"add","arguments":"{\"x\":1}"}}"#.to_owned(),
            r#"{{"name":"add","arguments":{"x":1}}}"#.to_owned(),
            r#"{{"name":"add","arguments":{{"x":1}}}}"#.to_owned(),
            format!("[{call}]"),
            format!("[\n  {call}\n]"),
            format!("{call}\n{call}\n"),
            r#"add {"x": 1}"#.to_owned(),
            "```\nadd\n{\"x\":1}\n```".to_owned(),
        ] {
            assert_eq!(written(&text), r#"add{"x":1}"#, "{text}");
        }
    }

    #[test]
    fn several_written_tool_calls_are_taken_in_order() {
        let (add, now) = (r#"{"name":"add","arguments":{"x":1}}"#, r#"{"name":"now"}"#);
        for text in [
            format!("<tool_call>{add}</tool_call>\n<tool_call>{now}</tool_call>"),
            format!("```json\n[{add}, {now}]\n```"),
            format!("{add}\n{now}"),
            format!("```\n{add}\n{now}\n{add}\n```"),
        ] {
            assert_eq!(written(&text), r#"add{"x":1} now{}"#, "{text}");
        }
    }

    #[test]
    fn words_of_the_schema_are_no_arguments() {
        let copied =
            r#"{"name":"add","arguments":{"x":1,"type":"object","required":["x"],"description":"d","y":2}}"#;
        assert_eq!(written(copied), r#"add{"description":"d","x":1,"y":2}"#);
    }

    #[test]
    fn a_call_that_is_written_again_is_seen_at_its_end() {
        let call = r#"{"name":"add","arguments":{"x":1}}"#;
        assert!(repeats_written_call(&format!("{call}\n{call}")));
        assert!(repeats_written_call(&format!("```json\n{call}\n{call}\n")));
        for text in [
            call.to_owned(),
            format!("{call}\n{{"),
            format!("{call}\n{}", call.replace('1', "2")),
            "{}\n{}".to_owned(),
        ] {
            assert!(!repeats_written_call(&text), "{text}");
        }
    }

    #[test]
    fn a_written_call_of_an_unknown_tool_is_a_call() {
        assert_eq!(written(r#"{"name":"greet","arguments":{"who":"Kim"}}"#), r#"greet{"who":"Kim"}"#);
    }

    #[test]
    fn text_that_only_shows_a_tool_call_is_text() {
        for text in [
            "```json\n{\"name\":\"rm\",\"arguments\":{}}\n```",
            "예를 들면\n```json\n{\"name\":\"add\",\"arguments\":{\"x\":1}}\n```",
            "```python\n{\"name\":\"add\",\"arguments\":{\"x\":1}}\n```",
            "<tool_call>{\"name\":\"add\"}</tool_call> 입니다",
            "<tool_call>{\"name\":\"add\"}</tool_call><tool_call>{\"name\":\"rm\"}</tool_call>",
            "[{\"name\":\"add\"},{\"name\":\"rm\"}]",
            "{\"name\":\"rm\",\"arguments\":{}}",
            "{\"name\":\"add\"}\n{\"name\":\"rm\"}",
            "{\"name\":\"add\"}\n입니다",
            "add {\"x\":1} 입니다",
            "rm {\"x\":1}",
            "[]",
            "{}",
            "{\"name\":\"add\",\"arguments\":\"x\"}",
            "{\"name\":\"add\",\"arguments\":[1]}",
        ] {
            assert_eq!(written(text), "", "{text}");
        }
        let many: Vec<String> =
            (0..9).map(|x| format!(r#"{{"name":"add","arguments":{{"x":{x}}}}}"#)).collect();
        assert_eq!(written(&format!("[{}]", many.join(","))), "");
    }
}

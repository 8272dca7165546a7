//! Extracts JSON from model output: in a code fence, after a thinking block, or with text around it. The JSON itself
//! must be complete.

use serde::Deserialize;
use serde_json::Value;

use crate::message::ToolCall;

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

/// Extracts a tool call that a local model wrote as text: one fenced or bare JSON object `{"name": …, "arguments":
/// {…}}` (or `parameters`, or inside `<tool_call>`) that names one of the tools, with nothing else beside it.
pub(crate) fn extract_written_tool_call(text: &str, known: &[&str]) -> Option<ToolCall> {
    #[derive(Deserialize)]
    struct WrittenToolCall {
        #[serde(alias = "tool", alias = "function")]
        name: String,
        #[serde(alias = "parameters", alias = "args", default)]
        arguments: serde_json::Map<String, Value>,
    }
    let text = skip_think_block(text).trim();
    let tagged =
        text.strip_prefix("<tool_call>").map(|rest| rest.strip_suffix("</tool_call>").unwrap_or(rest));
    let inside =
        tagged.or_else(|| sole_fenced_block(text)).or_else(|| text.starts_with('{').then_some(text))?;
    let written: WrittenToolCall = serde_json::from_str(inside.trim()).ok()?;
    known.contains(&written.name.as_str()).then(|| ToolCall {
        id: String::new(),
        name: written.name,
        arguments: Value::Object(written.arguments),
    })
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

    #[test]
    fn a_written_tool_call_is_one_only_if_it_stands_alone_and_is_known() {
        let call =
            |text: &str| extract_written_tool_call(text, &["add"]).map(|call| call.arguments.to_string());
        let expected = Some(r#"{"x":1}"#.to_owned());
        assert_eq!(call("```json\n{\"name\":\"add\",\"arguments\":{\"x\":1}}\n```"), expected);
        assert_eq!(call("<tool_call>{\"name\":\"add\",\"parameters\":{\"x\":1}}</tool_call>"), expected);
        assert_eq!(call("{\"tool\":\"add\",\"args\":{\"x\":1}}"), expected);
        assert_eq!(call("```json\n{\"name\":\"rm\",\"arguments\":{}}\n```"), None);
        assert_eq!(call("예를 들면\n```json\n{\"name\":\"add\",\"arguments\":{\"x\":1}}\n```"), None);
        assert_eq!(call("```python\n{\"name\":\"add\",\"arguments\":{\"x\":1}}\n```"), None);
    }
}

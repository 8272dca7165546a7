//! Messages as LangChain writes them, and states and updates that hold such messages.

use doran_agents::llm::{ImageReference, Message, TextOrigin, ToolCall, ToolResult};
use doran_agents::{Agent, MessagePart, Role};
use doran_engine::stored_json;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::{ApiError, ApiErrorCode};

use super::invalid;

/// The id by which LangChain removes all messages.
const REMOVE_ALL: &str = "__remove_all__";
/// What a model thought aloud, in the `additional_kwargs` of its message.
const REASONING: &str = "reasoning_content";
/// The most characters of the id of a message.
const MAX_ID_CHARS: usize = 256;
/// The most bytes of what a client stores with a message, as JSON.
const MAX_CLIENT_FIELDS_BYTES: usize = 64 * 1024;

/// Reads a value of the log. One that cannot be read is an error, and not a value that is not there.
pub(super) fn parse_raw_json(stored: &RawValue) -> Result<Value, ApiError> {
    stored_json::from_str(stored.get()).map_err(|error| {
        tracing::error!(%error, "cannot read a value of the log");
        ApiErrorCode::Internal.into()
    })
}

/// A state of a graph, with its messages as LangChain writes them.
pub(super) fn state_to_json(agent: &Agent, mut state: Value) -> Value {
    for field in agent.message_fields() {
        if let Some(Value::Array(messages)) = state.get_mut(field) {
            *messages = messages.drain(..).flat_map(|message| message_to_json(&message)).collect();
        }
    }
    state
}

/// An update of a graph, with its messages as LangChain writes them.
pub(super) fn update_to_json(agent: &Agent, mut update: Value) -> Value {
    for field in agent.item_fields() {
        let is_message = agent.message_fields().contains(field);
        if let Some(Value::Array(changes)) = update.get_mut(field) {
            *changes = changes.drain(..).flat_map(|change| change_to_json(change, is_message)).collect();
        }
    }
    update
}

fn change_to_json(change: Value, is_message: bool) -> Vec<Value> {
    let removal = |id: &Value| json!({ "type": "remove", "content": "", "id": id });
    match (change.get("put"), change.get("remove")) {
        (Some(message), _) if is_message => message_to_json(message),
        (Some(item), _) => vec![item.clone()],
        (None, Some(id)) if is_message => vec![removal(id)],
        _ if is_message && change == "clear" => vec![removal(&REMOVE_ALL.into())],
        _ => vec![change],
    }
}

/// What a client sends as values of a state, as an update of the graph.
pub(super) fn update_from_json(agent: &Agent, field: &str, values: Value) -> Result<Value, ApiError> {
    let Value::Object(mut values) = values else {
        return Err(invalid(
            &format!("`{field}` is not an object"),
            &format!("`{field}`이(가) 객체가 아닙니다"),
        ));
    };
    for name in agent.item_fields() {
        let Some(value) = values.get_mut(name) else { continue };
        let items = match value.take() {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            one => vec![one],
        };
        let changes = if agent.message_fields().contains(name) {
            let read = |(at, item)| change_from_json(&format!("{field}.{name}[{at}]"), &item);
            items.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?
        } else {
            items.into_iter().map(|item| json!({ "put": item })).collect()
        };
        *value = changes.into();
    }
    Ok(values.into())
}

fn change_from_json(place: &str, item: &Value) -> Result<Value, ApiError> {
    if item["type"] == "remove" {
        let wrong = || invalid(&format!("`{place}.id` is missing"), &format!("`{place}.id`가 없습니다"));
        return match item["id"].as_str().ok_or_else(wrong)? {
            REMOVE_ALL => Ok("clear".into()),
            id => Ok(json!({ "remove": id })),
        };
    }
    Ok(json!({ "put": message_from_json(place, item)? }))
}

/// A message as LangChain writes it. Results of several tools are a message each.
pub(super) fn message_to_json(message: &Value) -> Vec<Value> {
    // What the state holds is what the log holds; a message of another version is shown as it is.
    let Ok(message) = serde_json::from_value::<Message>(message.clone()) else {
        return vec![message.clone()];
    };
    if message.role == Role::Tool {
        let results: Vec<&ToolResult> = message.tool_results().collect();
        let many = results.len() > 1;
        return results.into_iter().map(|result| tool_message(&message, result, many)).collect();
    }
    let mut json = json!({
        "content": content_of(&message),
        "additional_kwargs": {},
        "response_metadata": {},
        "type": match message.role {
            Role::System => "system",
            Role::User => "human",
            Role::Assistant | Role::Tool => "ai",
        },
        "name": null,
        "id": message.id,
    });
    if message.role == Role::Assistant {
        json["tool_calls"] = message.tool_calls().map(tool_call_to_json).collect();
        json["invalid_tool_calls"] = json!([]);
        json["usage_metadata"] = Value::Null;
    }
    add_client_fields(&message, &mut json);
    let reasoning: String = message.parts.iter().filter_map(reasoning_text).collect();
    if !reasoning.is_empty() {
        json["additional_kwargs"][REASONING] = reasoning.into();
    }
    vec![json]
}

/// Shows a client what it stored with a message.
fn add_client_fields(message: &Message, json: &mut Value) {
    if let Some(shown) = json.as_object_mut() {
        shown.extend(message.client_fields.clone());
    }
}

/// The next words of a message that is being written.
pub(super) fn message_chunk(id: &str, text: &str, is_last: bool) -> Value {
    json!({
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "AIMessageChunk",
        "name": null,
        "id": id,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": null,
        "tool_call_chunks": [],
        "chunk_position": if is_last { json!("last") } else { Value::Null },
    })
}

/// A message of a model so far.
pub(super) fn partial_message(id: &str, text: &str) -> Value {
    json!({
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "ai",
        "name": null,
        "id": id,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": null,
    })
}

fn reasoning_text(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Reasoning { text, .. } => Some(text),
        _ => None,
    }
}

fn tool_call_to_json(call: &ToolCall) -> Value {
    // Arguments that are not JSON are a string.
    let args = if call.arguments.is_object() { call.arguments.clone() } else { json!({}) };
    json!({ "name": call.name, "args": args, "id": call.id, "type": "tool_call" })
}

fn tool_message(message: &Message, result: &ToolResult, many: bool) -> Value {
    let id = if many { format!("{}:{}", message.id, result.call) } else { message.id.to_string() };
    let mut json = json!({
        "content": result.text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "tool",
        "name": result.name,
        "id": id,
        "tool_call_id": result.call,
        "artifact": null,
        "status": if result.failed { "error" } else { "success" },
    });
    if !many {
        add_client_fields(message, &mut json);
    }
    json
}

/// Plain text where there is nothing else, else a list of blocks.
fn content_of(message: &Message) -> Value {
    let blocks: Vec<Value> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Text { text, .. } => Some(json!({ "type": "text", "text": text })),
            MessagePart::Passage(passage) => {
                let text = format!("[{}] {}\n{}", passage.number, passage.title, passage.text);
                Some(json!({ "type": "text", "text": text }))
            }
            MessagePart::Image(image) => {
                Some(json!({ "type": "image_url", "image_url": { "url": image.url } }))
            }
            MessagePart::ToolCall(_) | MessagePart::ToolResult(_) | MessagePart::Reasoning { .. } => None,
        })
        .collect();
    match blocks.as_slice() {
        [] => "".into(),
        blocks if blocks.iter().all(|block| block["type"] == "text") => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<String>().into()
        }
        _ => blocks.into(),
    }
}

/// Reads a message as LangChain's clients send it: by `type` or by `role`, with text or blocks.
pub(super) fn message_from_json(place: &str, json: &Value) -> Result<Message, ApiError> {
    let bad = |name: &str, en: &str, ko: &str| {
        Err(invalid(&format!("`{place}.{name}` {en}"), &format!("`{place}.{name}`: {ko}")))
    };
    if let Value::String(text) = json {
        return Ok(Message::user(new_id(), text.as_str()));
    }
    if let Value::Array(pair) = json
        && let [role @ Value::String(_), content] = pair.as_slice()
    {
        return message_from_json(place, &json!({ "role": role, "content": content }));
    }
    let kind = json["type"].as_str().or_else(|| json["role"].as_str()).unwrap_or_default();
    let role = match kind {
        "human" | "user" | "HumanMessage" | "HumanMessageChunk" => Role::User,
        "ai" | "assistant" | "AIMessage" | "AIMessageChunk" => Role::Assistant,
        "system" | "developer" | "SystemMessage" => Role::System,
        "tool" | "ToolMessage" => Role::Tool,
        _ => {
            return bad(
                "type",
                "is not `human`, `ai`, `system` or `tool`",
                "`human`, `ai`, `system`, `tool`만 받습니다",
            );
        }
    };
    let id = match &json["id"] {
        Value::String(id) if id.chars().nth(MAX_ID_CHARS).is_some() => {
            return bad("id", "has more than 256 characters", "256자를 넘습니다");
        }
        Value::String(id) if !id.is_empty() => id.clone(),
        Value::Null | Value::String(_) => new_id(),
        _ => return bad("id", "is not a text", "문자열이 아닙니다"),
    };
    let origin = if role == Role::Assistant { TextOrigin::Model } else { TextOrigin::User };
    let mut message = Message::new(id, role, Vec::new());
    message.client_fields = client_fields(json, role);
    if json!(message.client_fields).to_string().len() > MAX_CLIENT_FIELDS_BYTES {
        return bad(
            "additional_kwargs",
            "and the other fields that are stored with the message have more than 65,536 bytes",
            "함께 저장할 다른 필드까지 더해 65,536바이트를 넘습니다",
        );
    }
    if let Some(Value::Object(kwargs)) = message.client_fields.get_mut("additional_kwargs")
        && role == Role::Assistant
        && let Some(Value::String(text)) = kwargs.remove(REASONING)
    {
        message.parts.push(MessagePart::Reasoning { text, signature: None });
    }
    message.client_fields.retain(|_, value| !is_empty(value));
    if role == Role::Tool {
        let Some(call) = json["tool_call_id"].as_str() else {
            return bad("tool_call_id", "is missing", "없습니다");
        };
        let Some(text) = plain_text(&json["content"]) else {
            return bad("content", "is not a text", "문자열이 아닙니다");
        };
        message.parts.push(MessagePart::ToolResult(ToolResult {
            call: call.to_owned(),
            name: json["name"].as_str().unwrap_or_default().to_owned(),
            text,
            failed: match json["status"].as_str() {
                Some("error") => true,
                Some("success") | None => false,
                Some(_) => {
                    return bad(
                        "status",
                        "is neither `success` nor `error`",
                        "`success`나 `error`만 받습니다",
                    );
                }
            },
            origin: TextOrigin::Tool,
        }));
        return Ok(message);
    }
    match &json["content"] {
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => message.parts.push(MessagePart::Text { text: text.clone(), origin }),
        Value::Array(blocks) => {
            for (at, block) in blocks.iter().enumerate() {
                let Some(part) = part_from_block(block, origin) else {
                    return bad(
                        &format!("content[{at}]"),
                        "is neither text nor an image by its address",
                        "글도 아니고 주소로 주어진 그림도 아닙니다",
                    );
                };
                if let Some(name) = unread_field(block) {
                    return bad(&format!("content[{at}].{name}"), "is not supported", "지원하지 않습니다");
                }
                message.parts.push(part);
            }
        }
        _ => return bad("content", "is neither a text nor a list of blocks", "글도 블록 목록도 아닙니다"),
    }
    if !json["tool_calls"].is_null() && !json["tool_calls"].is_array() {
        return bad("tool_calls", "is not a list", "목록이 아닙니다");
    }
    for call in json["tool_calls"].as_array().into_iter().flatten() {
        let (Some(id), Some(name)) = (call["id"].as_str(), call["name"].as_str()) else {
            return bad(
                "tool_calls",
                "has a call without `id` and `name`",
                "`id`와 `name`이 없는 호출이 있습니다",
            );
        };
        let arguments = call.get("args").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let call = ToolCall { id: id.to_owned(), name: name.to_owned(), arguments };
        message.parts.push(MessagePart::ToolCall(call));
    }
    Ok(message)
}

/// What a client sends with a message beside what is read of it.
fn client_fields(json: &Value, role: Role) -> Map<String, Value> {
    let read: &[&str] = match role {
        Role::Assistant => &["type", "role", "content", "id", "tool_calls"],
        Role::Tool => &["type", "role", "content", "id", "tool_call_id", "name", "status"],
        Role::System | Role::User => &["type", "role", "content", "id"],
    };
    let fields = json.as_object().into_iter().flatten();
    let others = fields.filter(|(name, value)| !read.contains(&name.as_str()) && !is_empty(value));
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether a field says as much as if it were not there.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// A field of a block of content that nothing is made of.
fn unread_field(block: &Value) -> Option<String> {
    let unread = |fields: &Value, read: &[&str]| {
        let fields = fields.as_object().into_iter().flatten();
        let mut unread = fields.filter(|(name, value)| !read.contains(&name.as_str()) && !is_empty(value));
        unread.next().map(|(name, _)| name.clone())
    };
    let image = unread(&block["image_url"], &["url"]).map(|name| format!("image_url.{name}"));
    unread(block, &["type", "text", "image_url"]).or(image)
}

fn part_from_block(block: &Value, origin: TextOrigin) -> Option<MessagePart> {
    match block["type"].as_str() {
        Some("text") => Some(MessagePart::Text { text: block["text"].as_str()?.to_owned(), origin }),
        Some("image_url") => {
            let url = block["image_url"]["url"].as_str().or_else(|| block["image_url"].as_str())?;
            let media_type = url.strip_prefix("data:").and_then(|rest| rest.split([';', ',']).next());
            let media_type = media_type.unwrap_or("image/*").to_owned();
            Some(MessagePart::Image(ImageReference { url: url.to_owned(), media_type, origin }))
        }
        _ if block.is_string() => Some(MessagePart::Text { text: block.as_str()?.to_owned(), origin }),
        _ => None,
    }
}

fn plain_text(content: &Value) -> Option<String> {
    match content {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            blocks.iter().map(|block| block.as_str().or_else(|| block["text"].as_str())).collect()
        }
        other => Some(other.to_string()),
    }
}

fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was_sent() {
        let sent = [
            json!({ "role": "user", "content": "안녕", "id": "1" }),
            json!({ "type": "human", "content": [{ "type": "text", "text": "a" }, { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA" } }], "id": "2" }),
            json!({ "type": "ai", "content": "", "id": "3", "tool_calls": [{ "id": "c", "name": "f", "args": { "x": 1 } }] }),
            json!({ "type": "tool", "content": "1", "id": "4", "tool_call_id": "c", "name": "f", "artifact": [1] }),
            json!({ "type": "human", "content": "a", "id": "5", "name": "ada", "additional_kwargs": { "x": 1 } }),
            json!({
                "type": "ai", "content": "b", "id": "6", "name": "bot", "response_metadata": { "model": "m" },
                "additional_kwargs": { "reasoning_content": "hm", "y": 2 }, "usage_metadata": { "total_tokens": 3 },
            }),
        ];
        let pair = message_from_json("m", &json!(["user", "안녕"])).expect("a message");
        assert_eq!((pair.role, pair.text()), (Role::User, "안녕".to_owned()));
        for json in sent {
            let message = message_from_json("m", &json).expect("a message");
            let [back] = message_to_json(&json!(message)).try_into().expect("one message");
            assert_eq!((&back["content"], &back["id"]), (&json["content"], &json["id"]));
            assert_eq!(back["tool_calls"][0]["args"], json["tool_calls"][0]["args"]);
            assert_eq!(back["tool_call_id"], json["tool_call_id"]);
            for field in ["name", "additional_kwargs", "response_metadata", "usage_metadata", "artifact"] {
                assert!(json[field].is_null() || back[field] == json[field], "{field}: {back}");
            }
        }
    }

    #[test]
    fn results_of_several_tools_are_a_message_each() {
        let result = |call: &str| ToolResult {
            call: call.into(),
            name: "f".into(),
            text: "1".into(),
            failed: false,
            origin: TextOrigin::Tool,
        };
        let message = Message::tool_output("m", [result("a"), result("b")]);
        let shown = message_to_json(&json!(message));
        let ids: Vec<&Value> = shown.iter().map(|message| &message["id"]).collect();
        assert_eq!(ids, ["m:a", "m:b"]);
    }

    #[test]
    fn a_value_of_the_log_that_cannot_be_read_is_an_error_and_not_null() {
        let stored = |text: String| RawValue::from_string(text).expect("JSON");
        assert_eq!(parse_raw_json(&stored("[1]".into())).expect("readable"), json!([1]));
        let deep = stored(format!("{}{}", "[".repeat(1000), "]".repeat(1000)));
        assert_eq!(parse_raw_json(&deep).expect_err("too deep").code, ApiErrorCode::Internal);
    }

    #[test]
    fn what_is_no_message_is_named() {
        for (json, field) in [
            (json!({ "type": "bird", "content": "" }), "m.type"),
            (json!({ "type": "human", "content": 3 }), "m.content"),
            (json!({ "type": "human", "content": [{ "type": "video" }] }), "m.content[0]"),
            (json!({ "type": "tool", "content": "1" }), "m.tool_call_id"),
            (json!({ "type": "tool", "content": "1", "tool_call_id": "c", "status": "odd" }), "m.status"),
            (json!({ "type": "ai", "content": "", "tool_calls": {} }), "m.tool_calls"),
            (json!({ "type": "human", "content": "", "id": "x".repeat(257) }), "m.id"),
            (json!({ "type": "human", "content": "", "name": "x".repeat(70_000) }), "m.additional_kwargs"),
            (
                json!({ "type": "human", "content": [{ "type": "text", "text": "a", "cache_control": { "type": "x" } }] }),
                "m.content[0].cache_control",
            ),
            (
                json!({ "type": "human", "content": [{ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA", "detail": "low" } }] }),
                "m.content[0].image_url.detail",
            ),
        ] {
            let error = message_from_json("m", &json).expect_err("no message");
            assert!(
                error.to_json()["detail"].as_str().is_some_and(|detail| detail.contains(field)),
                "{error:?}"
            );
        }
    }
}

//! What vendors reject, for the scripted server: conversations whose tool calls and results do not fit together, empty
//! content, and turns in the wrong order; requests to rerank with other fields than those of the API. Each dialect answers
//! with status 400 in its own form.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::server::ScriptedHttpResponse;

/// The rejection of a request, if the vendor whose path it was sent to would reject it.
pub(super) fn vendor_rejection(path: &str, body: &Value) -> Option<ScriptedHttpResponse> {
    let path = path.split('?').next().unwrap_or_default();
    let (checked, form): (Result<(), String>, fn(&str) -> Value) = if path.ends_with("/chat/completions") {
        (check_chat(body), openai_error)
    } else if path.ends_with("/responses") {
        (check_responses(body), openai_error)
    } else if path.ends_with("/messages") {
        (check_messages(body), anthropic_error)
    } else if path.ends_with("enerateContent") {
        (check_gemini(body), gemini_error)
    } else if path.ends_with("/rerank") {
        (check_rerank(body), cohere_error)
    } else {
        return None;
    };
    checked.err().map(|reason| ScriptedHttpResponse::json(400, form(&reason).to_string()))
}

fn openai_error(reason: &str) -> Value {
    json!({ "error": { "message": reason, "type": "invalid_request_error", "param": "messages", "code": null } })
}

fn anthropic_error(reason: &str) -> Value {
    json!({ "type": "error", "error": { "type": "invalid_request_error", "message": reason } })
}

fn gemini_error(reason: &str) -> Value {
    json!({ "error": { "code": 400, "message": reason, "status": "INVALID_ARGUMENT" } })
}

fn cohere_error(reason: &str) -> Value {
    json!({ "id": "00000000-0000-0000-0000-000000000000", "message": reason })
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn check_chat(body: &Value) -> Result<(), String> {
    let messages = items(body, "messages");
    if messages.is_empty() {
        return Err("'messages' is too short - expected at least 1 item".into());
    }
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        let role = text(message, "role");
        if role == "tool" {
            let id = text(message, "tool_call_id");
            let Some(at) = open.iter().position(|open| *open == id) else {
                return Err(
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
                        .into(),
                );
            };
            open.remove(at);
            continue;
        }
        unanswered_chat_calls(&open)?;
        let calls = items(message, "tool_calls");
        open = calls.iter().map(|call| text(call, "id")).collect();
        if calls.iter().any(|call| !call["function"]["arguments"].is_string()) {
            return Err("'tool_calls[].function.arguments' must be a string".into());
        }
        if message["content"].is_null() && calls.is_empty() {
            return Err("Invalid value for 'content': expected a string, got null.".into());
        }
    }
    unanswered_chat_calls(&open)
}

fn unanswered_chat_calls(open: &[&str]) -> Result<(), String> {
    if open.is_empty() {
        return Ok(());
    }
    Err(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    ))
}

fn check_responses(body: &Value) -> Result<(), String> {
    let mut open: HashSet<&str> = HashSet::new();
    for item in items(body, "input") {
        let id = text(item, "call_id");
        match text(item, "type") {
            "function_call" => drop(open.insert(id)),
            "function_call_output" if !open.remove(id) => {
                return Err(format!("No tool call found for function call output with call_id {id}."));
            }
            _ => {}
        }
    }
    open.into_iter().next().map_or(Ok(()), |id| Err(format!("No tool output found for function call {id}.")))
}

fn check_messages(body: &Value) -> Result<(), String> {
    let messages = items(body, "messages");
    if messages.first().is_none_or(|first| text(first, "role") != "user") {
        return Err("messages: first message must use the \"user\" role".into());
    }
    let mut called: Vec<&str> = Vec::new();
    let mut last_role = "";
    for (at, message) in messages.iter().enumerate() {
        let (role, blocks) = (text(message, "role"), items(message, "content"));
        if role == last_role {
            return Err(format!(
                "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"{role}\" \
                 roles in a row"
            ));
        }
        last_role = role;
        if blocks.is_empty() && message["content"].as_str().is_none_or(str::is_empty) {
            return Err(format!("messages.{at}: all messages must have non-empty content"));
        }
        let is_text = |block: &&Value| text(block, "type") == "text";
        if blocks.iter().filter(is_text).any(|block| text(block, "text").trim().is_empty()) {
            return Err("messages: text content blocks must contain non-whitespace text".into());
        }
        let is_result = |block: &&Value| text(block, "type") == "tool_result";
        let first: Vec<&str> =
            blocks.iter().take_while(is_result).map(|block| text(block, "tool_use_id")).collect();
        if let Some(missing) = called.iter().find(|id| !first.contains(id)) {
            return Err(format!(
                "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
            ));
        }
        let mut results = blocks.iter().filter(is_result).map(|block| text(block, "tool_use_id"));
        if let Some(unexpected) = results.find(|id| !called.contains(id)) {
            return Err(format!(
                "messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {unexpected}"
            ));
        }
        let is_call = |block: &&Value| text(block, "type") == "tool_use";
        called = blocks.iter().filter(is_call).map(|block| text(block, "id")).collect();
        if called.iter().collect::<HashSet<_>>().len() < called.len() {
            return Err(format!("messages.{at}: `tool_use` ids must be unique"));
        }
    }
    called.first().map_or(Ok(()), |id| {
        Err(format!(
            "messages: `tool_use` ids were found without `tool_result` blocks immediately after: {id}"
        ))
    })
}

fn check_gemini(body: &Value) -> Result<(), String> {
    let contents = items(body, "contents");
    if contents.is_empty() {
        return Err("GenerateContentRequest.contents: contents is not specified".into());
    }
    let mut calls: Vec<&str> = Vec::new();
    let mut last_role = "";
    for content in contents {
        let (role, parts) = (text(content, "role"), items(content, "parts"));
        if parts.is_empty() {
            return Err("GenerateContentRequest.contents.parts must not be empty".into());
        }
        if parts.iter().any(|part| part["text"].as_str().is_some_and(str::is_empty)) {
            return Err("Unable to submit request because it has an empty text parameter.".into());
        }
        let names = |kind: &str| -> Vec<&str> {
            parts
                .iter()
                .filter(|part| part.get(kind).is_some())
                .map(|part| text(&part[kind], "name"))
                .collect()
        };
        let results = names("functionResponse");
        if results.len() != calls.len() {
            return Err("Please ensure that the number of function response parts is equal to the number of function \
                 call parts of the function call turn."
                .into());
        }
        if results != calls {
            return Err(
                "Please ensure that function response turn comes immediately after a function call turn."
                    .into(),
            );
        }
        calls = names("functionCall");
        if !calls.is_empty() && last_role != "user" {
            return Err("Please ensure that function call turn comes immediately after a user turn or after a function \
                 response turn."
                .into());
        }
        last_role = role;
    }
    if last_role == "user" {
        return Ok(());
    }
    Err("Please ensure that multiturn requests end with a user role or a function response.".into())
}

fn check_rerank(body: &Value) -> Result<(), String> {
    let fields = body.as_object().ok_or("invalid request: the body must be an object")?;
    if let Some(unknown) = fields.keys().find(|name| !RERANK_FIELDS.contains(&name.as_str())) {
        return Err(format!("invalid request: unknown field '{unknown}'"));
    }
    for name in ["model", "query"] {
        if text(body, name).trim().is_empty() {
            return Err(format!("invalid request: {name} must be a string that is not empty"));
        }
    }
    let documents = items(body, "documents");
    if documents.is_empty() {
        return Err("invalid request: list of documents must not be empty".into());
    }
    if documents.iter().any(|document| document.as_str().is_none_or(str::is_empty)) {
        return Err("invalid request: each document must be a string that is not empty".into());
    }
    match body["top_n"].as_u64() {
        Some(1..) => Ok(()),
        _ if body["top_n"].is_null() => Ok(()),
        _ => Err("invalid request: top_n must be an integer greater than 0".into()),
    }
}

/// The fields of a request to rerank that every server knows.
const RERANK_FIELDS: [&str; 4] = ["model", "query", "documents", "top_n"];

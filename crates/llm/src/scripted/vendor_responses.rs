//! Renders an answer in the dialect of each vendor, streamed or whole.

use serde_json::{Value, json};

use super::server::ScriptedHttpResponse;
use crate::message::ToolCall;
use crate::model::{FinishReason, Usage};

/// The content of a scripted answer.
#[derive(Clone, Debug)]
pub struct ScriptedVendorAnswer {
    /// The reasoning, before the text.
    pub reasoning: Vec<String>,
    /// The text, piece by piece.
    pub text: Vec<String>,
    /// Tool calls.
    pub calls: Vec<ToolCall>,
    /// The reported usage, if any.
    pub usage: Option<Usage>,
    /// The finish reason.
    pub finish: FinishReason,
}

impl ScriptedVendorAnswer {
    /// A text answer, one piece for each word.
    pub fn text(text: &str) -> Self {
        let text: Vec<String> = text.split_inclusive(char::is_whitespace).map(str::to_owned).collect();
        let usage = Usage { input_tokens: 20, output_tokens: text.len() as u64, ..Usage::default() };
        Self {
            reasoning: Vec::new(),
            text,
            calls: Vec::new(),
            usage: Some(usage),
            finish: FinishReason::Stop,
        }
    }

    /// An answer with tool calls.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self { calls: calls.into_iter().collect(), finish: FinishReason::ToolCalls, ..Self::text("") }
    }
}

/// The dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptedDialect {
    /// The OpenAI Chat Completions API.
    Chat,
    /// The OpenAI Responses API.
    Responses,
    /// The Anthropic Messages API.
    Messages,
    /// The Gemini `generateContent` API.
    Gemini,
}

impl ScriptedDialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Gemini];

    /// Returns the provider that uses it.
    pub fn provider(self) -> &'static str {
        match self {
            Self::Chat => "openai",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the answer as an event stream.
    pub fn streamed_response(self, answer: &ScriptedVendorAnswer) -> ScriptedHttpResponse {
        let events = match self {
            Self::Chat => chat_events(answer),
            Self::Responses => responses_events(answer),
            Self::Messages => messages_events(answer),
            Self::Gemini => gemini_events(answer),
        };
        ScriptedHttpResponse::events(events)
    }

    /// Returns the answer as one JSON document.
    pub fn whole_response(self, answer: &ScriptedVendorAnswer) -> ScriptedHttpResponse {
        let body = match self {
            Self::Chat => chat_body(answer),
            Self::Responses => responses_body(answer),
            Self::Messages => messages_body(answer),
            Self::Gemini => {
                gemini_body(answer, &answer.reasoning.concat(), &answer.text.concat(), &answer.calls, true)
            }
        };
        ScriptedHttpResponse::json(200, body.to_string())
    }
}

fn sse_data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn sse_event(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// Splits a text in two halves, at a character boundary.
fn halves(text: &str) -> [&str; 2] {
    let cut = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    [&text[..cut], &text[cut..]]
}

fn chat_events(answer: &ScriptedVendorAnswer) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        sse_data(&json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        }))
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    for thought in &answer.reasoning {
        events.push(chunk(json!({ "reasoning_content": thought }), Value::Null));
    }
    for text in &answer.text {
        events.push(chunk(json!({ "content": text }), Value::Null));
    }
    for (index, call) in answer.calls.iter().enumerate() {
        let opening = json!({
            "index": index, "id": call.id, "type": "function",
            "function": { "name": call.name, "arguments": "" },
        });
        events.push(chunk(json!({ "tool_calls": [opening] }), Value::Null));
        for half in halves(&call.arguments.to_string()) {
            let piece = json!({ "index": index, "function": { "arguments": half } });
            events.push(chunk(json!({ "tool_calls": [piece] }), Value::Null));
        }
    }
    events.push(chunk(json!({}), chat_finish(answer.finish).into()));
    if let Some(usage) = &answer.usage {
        events.push(sse_data(&json!({ "id": "chatcmpl-1", "choices": [], "usage": chat_usage(usage) })));
    }
    events.push("data: [DONE]\n\n".into());
    events
}

fn chat_body(answer: &ScriptedVendorAnswer) -> Value {
    let calls: Vec<Value> = answer
        .calls
        .iter()
        .map(|call| {
            json!({
                "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments.to_string() },
            })
        })
        .collect();
    let mut message = json!({ "role": "assistant", "content": answer.text.concat() });
    if !answer.reasoning.is_empty() {
        message["reasoning_content"] = answer.reasoning.concat().into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": chat_finish(answer.finish) }],
    });
    if let Some(usage) = &answer.usage {
        body["usage"] = chat_usage(usage);
    }
    body
}

fn chat_finish(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Filtered => "content_filter",
        FinishReason::Other => "moon_phase",
    }
}

fn chat_usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cached_tokens },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
    })
}

fn responses_events(answer: &ScriptedVendorAnswer) -> Vec<String> {
    let event = |kind: &str, mut value: Value| {
        value["type"] = kind.into();
        sse_event(kind, &value)
    };
    let whole = responses_body(answer);
    let mut events =
        vec![event("response.created", json!({ "response": { "id": "resp_1", "status": "in_progress" } }))];
    for thought in &answer.reasoning {
        events.push(event("response.reasoning_summary_text.delta", json!({ "delta": thought })));
    }
    for text in &answer.text {
        events.push(event("response.output_text.delta", json!({ "output_index": 0, "delta": text })));
    }
    for call in &answer.calls {
        for half in halves(&call.arguments.to_string()) {
            events.push(event("response.function_call_arguments.delta", json!({ "delta": half })));
        }
    }
    for item in whole["output"].as_array().into_iter().flatten() {
        events.push(event("response.output_item.done", json!({ "item": item })));
    }
    let last = if whole["status"] == "completed" { "response.completed" } else { "response.incomplete" };
    events.push(event(last, json!({ "response": whole })));
    events
}

fn responses_body(answer: &ScriptedVendorAnswer) -> Value {
    let mut output = Vec::new();
    if !answer.reasoning.is_empty() {
        let summary = json!([{ "type": "summary_text", "text": answer.reasoning.concat() }]);
        output.push(
            json!({ "type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "sealed" }),
        );
    }
    if !answer.text.is_empty() {
        let content = json!([{ "type": "output_text", "text": answer.text.concat(), "annotations": [] }]);
        output.push(json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": content }));
    }
    output.extend(answer.calls.iter().map(|call| {
        json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id,
            "name": call.name, "arguments": call.arguments.to_string(),
        })
    }));
    let (status, why) = match answer.finish {
        FinishReason::Stop | FinishReason::ToolCalls => ("completed", Value::Null),
        FinishReason::Length => ("incomplete", json!({ "reason": "max_output_tokens" })),
        FinishReason::Filtered => ("incomplete", json!({ "reason": "content_filter" })),
        FinishReason::Other => ("incomplete", json!({ "reason": "moon_phase" })),
    };
    let mut body = json!({ "id": "resp_1", "status": status, "incomplete_details": why, "output": output, "error": null });
    if let Some(usage) = &answer.usage {
        body["usage"] = json!({
            "input_tokens": usage.input_tokens,
            "input_tokens_details": { "cached_tokens": usage.cached_tokens },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
        });
    }
    body
}

fn messages_events(answer: &ScriptedVendorAnswer) -> Vec<String> {
    let event = |kind: &str, mut value: Value| {
        value["type"] = kind.into();
        sse_event(kind, &value)
    };
    let mut start = json!({ "message": { "id": "msg_1", "role": "assistant", "content": [] } });
    if let Some(usage) = &answer.usage {
        start["message"]["usage"] = json!({
            "input_tokens": usage.input_tokens - usage.cached_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": 1,
        });
    }
    let mut events = vec![event("message_start", start), event("ping", json!({}))];
    let mut index = 0;
    let mut block = |opening: Value, deltas: Vec<Value>| {
        events.push(event("content_block_start", json!({ "index": index, "content_block": opening })));
        for delta in deltas {
            events.push(event("content_block_delta", json!({ "index": index, "delta": delta })));
        }
        events.push(event("content_block_stop", json!({ "index": index })));
        index += 1;
    };
    if !answer.reasoning.is_empty() {
        let thoughts =
            answer.reasoning.iter().map(|text| json!({ "type": "thinking_delta", "thinking": text }));
        let signature = json!({ "type": "signature_delta", "signature": "sealed" });
        block(
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            thoughts.chain([signature]).collect(),
        );
    }
    if !answer.text.is_empty() {
        let texts = answer.text.iter().map(|text| json!({ "type": "text_delta", "text": text }));
        block(json!({ "type": "text", "text": "" }), texts.collect());
    }
    for call in &answer.calls {
        let arguments = call.arguments.to_string();
        let pieces =
            halves(&arguments).map(|half| json!({ "type": "input_json_delta", "partial_json": half }));
        block(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} }), pieces.into());
    }
    let mut end =
        json!({ "delta": { "stop_reason": messages_finish(answer.finish), "stop_sequence": null } });
    if let Some(usage) = &answer.usage {
        end["usage"] = json!({ "output_tokens": usage.output_tokens });
    }
    events.push(event("message_delta", end));
    events.push(event("message_stop", json!({})));
    events
}

fn messages_body(answer: &ScriptedVendorAnswer) -> Value {
    let mut content = Vec::new();
    if !answer.reasoning.is_empty() {
        content.push(
            json!({ "type": "thinking", "thinking": answer.reasoning.concat(), "signature": "sealed" }),
        );
    }
    if !answer.text.is_empty() {
        content.push(json!({ "type": "text", "text": answer.text.concat() }));
    }
    content.extend(answer.calls.iter().map(
        |call| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments }),
    ));
    let mut body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "content": content,
        "stop_reason": messages_finish(answer.finish),
    });
    if let Some(usage) = &answer.usage {
        body["usage"] = json!({
            "input_tokens": usage.input_tokens - usage.cached_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
        });
    }
    body
}

fn messages_finish(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "end_turn",
        FinishReason::Length => "max_tokens",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::Filtered => "refusal",
        FinishReason::Other => "moon_phase",
    }
}

fn gemini_events(answer: &ScriptedVendorAnswer) -> Vec<String> {
    let mut events = Vec::new();
    for thought in &answer.reasoning {
        events.push(sse_data(&gemini_body(answer, thought, "", &[], false)));
    }
    for text in &answer.text {
        events.push(sse_data(&gemini_body(answer, "", text, &[], false)));
    }
    events.push(sse_data(&gemini_body(answer, "", "", &answer.calls, true)));
    events
}

fn gemini_body(
    answer: &ScriptedVendorAnswer,
    thought: &str,
    text: &str,
    calls: &[ToolCall],
    last: bool,
) -> Value {
    let mut parts = Vec::new();
    if !thought.is_empty() {
        parts.push(json!({ "text": thought, "thought": true }));
    }
    if !text.is_empty() {
        parts.push(json!({ "text": text }));
    }
    parts.extend(calls.iter().enumerate().map(|(at, call)| {
        let mut part =
            json!({ "functionCall": { "id": call.id, "name": call.name, "args": call.arguments } });
        if at == 0 {
            part["thoughtSignature"] = "sealed".into();
        }
        part
    }));
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    let mut body = json!({ "responseId": "resp-1", "modelVersion": "m" });
    if last {
        candidate["finishReason"] = match answer.finish {
            FinishReason::Stop | FinishReason::ToolCalls => "STOP",
            FinishReason::Length => "MAX_TOKENS",
            FinishReason::Filtered => "SAFETY",
            FinishReason::Other => "MOON_PHASE",
        }
        .into();
        if let Some(usage) = &answer.usage {
            body["usageMetadata"] = json!({
                "promptTokenCount": usage.input_tokens,
                "cachedContentTokenCount": usage.cached_tokens,
                "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
                "thoughtsTokenCount": usage.reasoning_tokens,
            });
        }
    }
    body["candidates"] = json!([candidate]);
    body
}

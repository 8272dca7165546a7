//! Decodes chat completions: text at once, tool calls when they are complete.

use serde_json::Value;

use super::chat_completion_types::{ChatCompletionChunk, ChatCompletionMessage, ToolCallFragment};
use crate::error::ModelError;
use crate::http::{ModelApiKey, SseEvent, classify_stream_error};
use crate::message::ToolCall;
use crate::model::{ChatRequest, FinishReason, ToolSpec};
use crate::provider::dialect::{
    AnswerDecoder, AnswerEnding, DecodeProgress, DeltaBuffer, ReportedUsage, parse_vendor_json,
};
use crate::provider::vendors::{JsonOutputMode, VendorQuirks};
use crate::structured_output::{extract_written_tool_calls, repeats_written_call};

/// So many characters tell whether a text may be a tool call: a name of a tool has at most 64.
const MAX_CALL_START_CHARS: usize = 80;

/// Decodes one answer.
pub(super) struct ChatCompletionsDecoder {
    calls: Vec<PartialToolCall>,
    finish: Option<FinishReason>,
    has_done_marker: bool,
    /// Whether the answer was not streamed, so that every call in it is complete.
    is_whole: bool,
    reported: ReportedUsage,
    /// The tool whose arguments are the answer, if JSON was requested that way.
    answer_tool: Option<String>,
    /// Text that is held back because it may be a tool call written as text.
    held_text: Option<String>,
    tools: Vec<ToolSpec>,
    secret: ModelApiKey,
}

/// A tool call that is not complete yet.
#[derive(Default)]
struct PartialToolCall {
    index: Option<i64>,
    id: String,
    name: String,
    arguments: String,
}

impl ChatCompletionsDecoder {
    pub(super) fn new(request: &ChatRequest, quirks: &VendorQuirks, secret: ModelApiKey) -> Self {
        let answer_tool = request.schema.as_ref().filter(|_| quirks.json_output == JsonOutputMode::Tool);
        let may_write =
            quirks.accepts_calls_written_as_text && !request.tools.is_empty() && request.schema.is_none();
        Self {
            calls: Vec::new(),
            finish: None,
            has_done_marker: false,
            is_whole: false,
            reported: ReportedUsage::default(),
            answer_tool: answer_tool.map(|schema| schema.name.clone()),
            held_text: may_write.then(String::new),
            tools: request.tools.clone(),
            secret,
        }
    }

    fn take_chunk(&mut self, chunk: ChatCompletionChunk, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(classify_stream_error(&error, &self.secret));
        }
        let usage =
            chunk.usage.or_else(|| chunk.x_groq.and_then(|mut groq| Some(groq.get_mut("usage")?.take())));
        if let Some(usage) = usage.filter(Value::is_object) {
            self.reported = parse_usage(&usage);
        }
        for choice in chunk.choices.into_iter().flatten() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(delta) = choice.delta {
                self.take_message(delta, out)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(parse_finish_reason(&reason));
            }
        }
        Ok(())
    }

    fn take_message(
        &mut self,
        message: ChatCompletionMessage,
        out: &mut DeltaBuffer,
    ) -> Result<(), ModelError> {
        // Some servers send the same reasoning in both fields.
        let thought = if message.reasoning_content.text.is_empty() {
            message.reasoning.text
        } else {
            message.reasoning_content.text
        };
        out.push_reasoning(thought, None)?;
        out.push_reasoning(message.content.thought, None)?;
        self.push_or_hold_text(message.content.text, out)?;
        self.push_or_hold_text(message.refusal.text, out)?;
        for fragment in message.tool_calls.into_iter().flatten() {
            self.take_fragment(fragment, out)?;
        }
        Ok(())
    }

    /// Adds text at once, unless it starts like a tool call written as text.
    fn push_or_hold_text(&mut self, text: String, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        let Some(held) = &mut self.held_text else { return out.push_text(text) };
        held.push_str(&text);
        let start: String =
            held.chars().filter(|letter| !letter.is_whitespace()).take(MAX_CALL_START_CHARS).collect();
        let may_be = |call: &str| start.starts_with(call) || call.starts_with(&start);
        let is_named = self.tools.iter().any(|tool| may_be(&format!("{}{{", tool.name)));
        if !is_named && !["{", "[{", "```", "<tool_call>"].into_iter().any(may_be) {
            let text = std::mem::take(held);
            self.held_text = None;
            return out.push_text(text);
        }
        Ok(())
    }

    fn take_fragment(&mut self, fragment: ToolCallFragment, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        let id = fragment.id.unwrap_or_default();
        let function = fragment.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let at = match fragment.index {
            _ if self.is_whole => None,
            Some(index) => self.calls.iter().rposition(|call| call.index == Some(index)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        };
        // Another id and name under the same index is another call; some servers use index 0 for all.
        let at = at.filter(|at| {
            let call = &self.calls[*at];
            id.is_empty() || call.id.is_empty() || call.id == id || name.is_empty()
        });
        let at = at.unwrap_or_else(|| {
            self.calls.push(PartialToolCall { index: fragment.index, ..PartialToolCall::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        if self.answer_tool.as_ref() == Some(&call.name) {
            return out.push_text(function.arguments.text);
        }
        call.arguments.push_str(&function.arguments.text);
        out.check_room_for(call.arguments.len())
    }

    fn flush_tool_calls(&mut self, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        for call in std::mem::take(&mut self.calls) {
            if self.answer_tool.as_ref() == Some(&call.name) {
                continue;
            }
            let arguments = parse_call_arguments(&call.arguments);
            out.push_tool_call(ToolCall { id: call.id, name: call.name, arguments })?;
        }
        let Some(held) = self.held_text.take() else { return Ok(()) };
        let calls = extract_written_tool_calls(&held, &self.tools);
        if calls.is_empty() {
            return out.push_text(held);
        }
        calls.into_iter().try_for_each(|call| out.push_tool_call(call))
    }
}

impl AnswerDecoder for ChatCompletionsDecoder {
    fn decode_event(
        &mut self,
        event: &SseEvent,
        out: &mut DeltaBuffer,
    ) -> Result<DecodeProgress, ModelError> {
        if event.data.trim() == "[DONE]" {
            self.has_done_marker = true;
            return Ok(DecodeProgress::StreamEnded);
        }
        if event.data.trim().is_empty() {
            return Ok(DecodeProgress::InProgress);
        }
        self.take_chunk(parse_vendor_json(&event.data)?, out)?;
        // A small model that writes a call again would go on with it until its context is full.
        if self.held_text.as_deref().is_some_and(repeats_written_call) {
            self.finish = Some(FinishReason::ToolCalls);
            return Ok(DecodeProgress::StreamEnded);
        }
        Ok(if self.finish.is_some() { DecodeProgress::AnswerComplete } else { DecodeProgress::InProgress })
    }

    fn decode_body(&mut self, body: &[u8], out: &mut DeltaBuffer) -> Result<(), ModelError> {
        self.is_whole = true;
        self.take_chunk(parse_vendor_json(&String::from_utf8_lossy(body))?, out)
    }

    fn finish_decoding(&mut self, out: &mut DeltaBuffer) -> Result<AnswerEnding, ModelError> {
        // The end marker alone also ends an answer, but without a finish reason.
        let finish = self.finish.or(self.has_done_marker.then_some(FinishReason::Other));
        // Held text of an answer that was cut off is dropped: nothing was shown, so the request can be retried.
        if finish.is_some() {
            self.flush_tool_calls(out)?;
        }
        Ok(AnswerEnding { finish, reported: self.reported })
    }
}

/// Parses the arguments of a call. Text that is not JSON stays a string, so that the model can be told.
pub(in crate::provider) fn parse_call_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    match parse_vendor_json::<Value>(text) {
        // Some models encode the object as a JSON string.
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            Ok(object @ Value::Object(_)) => object,
            _ => Value::String(inner),
        },
        Ok(value) => value,
        Err(_) => Value::String(text.to_owned()),
    }
}

fn parse_finish_reason(reason: &str) -> FinishReason {
    match reason {
        "stop" | "eos" | "eos_token" | "end_turn" => FinishReason::Stop,
        "length" | "max_tokens" | "model_length" => FinishReason::Length,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::Filtered,
        _ => FinishReason::Other,
    }
}

fn parse_usage(usage: &Value) -> ReportedUsage {
    let at = |path: &str| ReportedUsage::count_at(usage, path);
    ReportedUsage {
        input: at("/prompt_tokens"),
        cached: at("/prompt_tokens_details/cached_tokens").max(at("/prompt_cache_hit_tokens")),
        cache_written: None,
        output: at("/completion_tokens"),
        reasoning: at("/completion_tokens_details/reasoning_tokens"),
    }
}

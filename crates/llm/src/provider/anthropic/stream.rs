//! Decodes answers of the Anthropic Messages API: blocks that start, grow and end.

use serde::Deserialize;
use serde_json::Value;

use super::tag_signature;
use crate::error::ModelError;
use crate::http::{ModelApiKey, SseEvent, classify_stream_error};
use crate::message::ToolCall;
use crate::model::FinishReason;
use crate::provider::dialect::{
    AnswerDecoder, AnswerEnding, DecodeProgress, DeltaBuffer, ReportedUsage, parse_vendor_json,
};
use crate::provider::openai::parse_call_arguments;

/// Decodes one answer.
pub(super) struct AnthropicDecoder {
    model: String,
    answer_tool: Option<String>,
    secret: ModelApiKey,
    partial_call: Option<AnthropicPartialCall>,
    usage: AnthropicUsageCounts,
    finish: Option<FinishReason>,
}

#[derive(Default)]
struct AnthropicPartialCall {
    id: String,
    name: String,
    arguments: String,
}

/// Usage counts arrive in two events; the later one wins.
#[derive(Clone, Copy, Default)]
struct AnthropicUsageCounts {
    fresh: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    output: Option<u64>,
}

#[derive(Deserialize)]
struct AnthropicStreamEvent {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    content_block: Option<Value>,
    #[serde(default)]
    delta: Option<AnthropicStreamDelta>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct AnthropicStreamDelta {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
}

impl AnthropicDecoder {
    pub(super) fn new(model: String, answer_tool: Option<String>, secret: ModelApiKey) -> Self {
        Self {
            model,
            answer_tool,
            secret,
            partial_call: None,
            usage: AnthropicUsageCounts::default(),
            finish: None,
        }
    }

    fn start_block(&mut self, block: &Value, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => out.push_text(text("text")),
            "thinking" => {
                let signature = match text("signature") {
                    "" => None,
                    signature => Some(tag_signature(&self.model, "thinking", signature)),
                };
                out.push_reasoning(text("thinking"), signature)
            }
            "redacted_thinking" => {
                out.push_reasoning("", Some(tag_signature(&self.model, "redacted", text("data"))))
            }
            "tool_use" => {
                let input =
                    block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
                let arguments = input.map(Value::to_string).unwrap_or_default();
                self.partial_call = Some(AnthropicPartialCall {
                    id: text("id").into(),
                    name: text("name").into(),
                    arguments,
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn apply_delta(&mut self, piece: AnthropicStreamDelta, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        out.push_text(piece.text.unwrap_or_default())?;
        let signature = piece.signature.map(|signature| tag_signature(&self.model, "thinking", &signature));
        out.push_reasoning(piece.thinking.unwrap_or_default(), signature)?;
        if let (Some(call), Some(json)) = (&mut self.partial_call, piece.partial_json) {
            if self.answer_tool.as_ref() == Some(&call.name) {
                return out.push_text(json);
            }
            call.arguments.push_str(&json);
            out.check_room_for(call.arguments.len())?;
        }
        Ok(())
    }

    fn finish_block(&mut self, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        let Some(call) = self.partial_call.take() else { return Ok(()) };
        if self.answer_tool.as_ref() == Some(&call.name) {
            return Ok(());
        }
        let arguments = parse_call_arguments(&call.arguments);
        out.push_tool_call(ToolCall { id: call.id, name: call.name, arguments })
    }

    fn record_usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let at = |path: &str| ReportedUsage::count_at(usage, path);
        let counts = &mut self.usage;
        counts.fresh = at("/input_tokens").or(counts.fresh);
        counts.read = at("/cache_read_input_tokens").or(counts.read);
        counts.written = at("/cache_creation_input_tokens").or(counts.written);
        counts.output = at("/output_tokens").or(counts.output);
    }

    fn record_stop_reason(&mut self, reason: Option<&str>) {
        self.finish = match reason {
            None => self.finish,
            Some("end_turn" | "stop_sequence") => Some(FinishReason::Stop),
            Some("max_tokens" | "model_context_window_exceeded") => Some(FinishReason::Length),
            Some("tool_use") => Some(FinishReason::ToolCalls),
            Some("refusal") => Some(FinishReason::Filtered),
            Some(_) => Some(FinishReason::Other),
        };
    }
}

impl AnswerDecoder for AnthropicDecoder {
    fn decode_event(
        &mut self,
        event: &SseEvent,
        out: &mut DeltaBuffer,
    ) -> Result<DecodeProgress, ModelError> {
        if event.data.trim().is_empty() {
            return Ok(DecodeProgress::InProgress);
        }
        let wire: AnthropicStreamEvent = parse_vendor_json(&event.data)?;
        match wire.kind.as_str() {
            "message_start" => {
                self.record_usage(wire.message.as_ref().and_then(|message| message.get("usage")))
            }
            "content_block_start" => self.start_block(&wire.content_block.unwrap_or_default(), out)?,
            "content_block_delta" => self.apply_delta(wire.delta.unwrap_or_default(), out)?,
            "content_block_stop" => self.finish_block(out)?,
            "message_delta" => {
                self.record_usage(wire.usage.as_ref());
                self.record_stop_reason(wire.delta.and_then(|piece| piece.stop_reason).as_deref());
            }
            "message_stop" => return Ok(DecodeProgress::StreamEnded),
            "error" => return Err(classify_stream_error(&wire.error.unwrap_or_default(), &self.secret)),
            _ => {}
        }
        Ok(if self.finish.is_some() { DecodeProgress::AnswerComplete } else { DecodeProgress::InProgress })
    }

    fn decode_body(&mut self, body: &[u8], out: &mut DeltaBuffer) -> Result<(), ModelError> {
        let body: Value = parse_vendor_json(&String::from_utf8_lossy(body))?;
        if let Some(error) = body.get("error") {
            return Err(classify_stream_error(error, &self.secret));
        }
        for block in body.get("content").and_then(Value::as_array).into_iter().flatten() {
            self.start_block(block, out)?;
            if let Some(call) = &self.partial_call
                && self.answer_tool.as_ref() == Some(&call.name)
            {
                out.push_text(call.arguments.clone())?;
            }
            self.finish_block(out)?;
        }
        self.record_usage(body.get("usage"));
        self.record_stop_reason(body.get("stop_reason").and_then(Value::as_str));
        Ok(())
    }

    fn finish_decoding(&mut self, _: &mut DeltaBuffer) -> Result<AnswerEnding, ModelError> {
        let AnthropicUsageCounts { fresh, read, written, output } = self.usage;
        // The vendor counts cached and uncached input separately. The sum is the input.
        let input = fresh.map(|fresh| fresh + read.unwrap_or(0) + written.unwrap_or(0));
        let reported = ReportedUsage { input, cached: read, cache_written: written, output, reasoning: None };
        Ok(AnswerEnding { finish: self.finish, reported })
    }
}

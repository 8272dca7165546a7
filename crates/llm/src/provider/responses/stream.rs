//! Decodes answers of the OpenAI Responses API: output items that grow, and one event that says how the answer ended.

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
pub(super) struct ResponsesDecoder {
    model: String,
    secret: ModelApiKey,
    pending_argument_bytes: usize,
    finish: Option<FinishReason>,
    reported: ReportedUsage,
}

#[derive(Deserialize)]
struct ResponsesStreamEvent {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    delta: Option<Value>,
    #[serde(default)]
    item: Option<Value>,
    #[serde(default)]
    response: Option<Value>,
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

impl ResponsesDecoder {
    pub(super) fn new(model: String, secret: ModelApiKey) -> Self {
        Self { model, secret, pending_argument_bytes: 0, finish: None, reported: ReportedUsage::default() }
    }

    /// Handles a complete item. Its text was already streamed; reasoning and calls are complete only now.
    fn take_item(
        &self,
        item: &Value,
        words: ItemTextStatus,
        out: &mut DeltaBuffer,
    ) -> Result<(), ModelError> {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "function_call" => out.push_tool_call(ToolCall {
                id: text("call_id").into(),
                name: text("name").into(),
                arguments: parse_call_arguments(text("arguments")),
            }),
            "reasoning" => {
                if words == ItemTextStatus::NotStreamed {
                    for part in item.get("summary").and_then(Value::as_array).into_iter().flatten() {
                        out.push_reasoning(
                            part.get("text").and_then(Value::as_str).unwrap_or_default(),
                            None,
                        )?;
                    }
                }
                match text("encrypted_content") {
                    "" => Ok(()),
                    sealed => out.push_reasoning("", Some(tag_signature(&self.model, text("id"), sealed))),
                }
            }
            "message" if words == ItemTextStatus::NotStreamed => {
                for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                    let text = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str);
                    out.push_text(text.unwrap_or_default())?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take_final_response(&mut self, response: &Value) -> Result<(), ModelError> {
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return Err(classify_stream_error(error, &self.secret));
        }
        let usage = response.get("usage").unwrap_or(&Value::Null);
        let at = |path: &str| ReportedUsage::count_at(usage, path);
        self.reported = ReportedUsage {
            input: at("/input_tokens"),
            cached: at("/input_tokens_details/cached_tokens"),
            cache_written: None,
            output: at("/output_tokens"),
            reasoning: at("/output_tokens_details/reasoning_tokens"),
        };
        let why = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.finish = match response.get("status").and_then(Value::as_str) {
            Some("completed") => Some(FinishReason::Stop),
            Some("incomplete") => Some(match why {
                Some("max_output_tokens") => FinishReason::Length,
                Some("content_filter") => FinishReason::Filtered,
                _ => FinishReason::Other,
            }),
            _ => None,
        };
        Ok(())
    }
}

/// Whether the text of an item was already streamed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemTextStatus {
    AlreadyStreamed,
    NotStreamed,
}

impl AnswerDecoder for ResponsesDecoder {
    fn decode_event(
        &mut self,
        event: &SseEvent,
        out: &mut DeltaBuffer,
    ) -> Result<DecodeProgress, ModelError> {
        if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return Ok(DecodeProgress::InProgress);
        }
        let wire: ResponsesStreamEvent = parse_vendor_json(&event.data)?;
        let grown = || wire.delta.as_ref().and_then(Value::as_str).unwrap_or_default();
        match wire.kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => out.push_text(grown())?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                out.push_reasoning(grown(), None)?;
            }
            "response.function_call_arguments.delta" => {
                self.pending_argument_bytes += grown().len();
                out.check_room_for(self.pending_argument_bytes)?;
            }
            "response.output_item.done" => {
                self.pending_argument_bytes = 0;
                self.take_item(&wire.item.unwrap_or_default(), ItemTextStatus::AlreadyStreamed, out)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.take_final_response(&wire.response.unwrap_or_default())?;
                return Ok(DecodeProgress::StreamEnded);
            }
            "error" => {
                let rest = Value::Object(wire.rest);
                return Err(classify_stream_error(rest.get("error").unwrap_or(&rest), &self.secret));
            }
            _ => {}
        }
        Ok(DecodeProgress::InProgress)
    }

    fn decode_body(&mut self, body: &[u8], out: &mut DeltaBuffer) -> Result<(), ModelError> {
        let body: Value = parse_vendor_json(&String::from_utf8_lossy(body))?;
        for item in body.get("output").and_then(Value::as_array).into_iter().flatten() {
            self.take_item(item, ItemTextStatus::NotStreamed, out)?;
        }
        self.take_final_response(&body)
    }

    fn finish_decoding(&mut self, _: &mut DeltaBuffer) -> Result<AnswerEnding, ModelError> {
        Ok(AnswerEnding { finish: self.finish, reported: self.reported })
    }
}

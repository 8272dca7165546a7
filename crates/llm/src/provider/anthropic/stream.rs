//! Reads Anthropic's messages: blocks that begin, grow and end.

use serde::Deserialize;
use serde_json::Value;

use super::signed;
use crate::error::ModelError;
use crate::http::{Event, Secret, told_in_stream};
use crate::message::ToolCall;
use crate::model::Finish;
use crate::provider::dialect::{Decoder, Ending, Out, Progress, Reported, parse};
use crate::provider::openai::arguments;

/// Reads one answer.
pub(super) struct MessagesDecoder {
    model: String,
    answer_tool: Option<String>,
    secret: Secret,
    call: Option<Partial>,
    input: Counts,
    finish: Option<Finish>,
}

#[derive(Default)]
struct Partial {
    id: String,
    name: String,
    arguments: String,
}

/// Counts come in two events; the later one wins where both have one.
#[derive(Clone, Copy, Default)]
struct Counts {
    fresh: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    output: Option<u64>,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    content_block: Option<Value>,
    #[serde(default)]
    delta: Option<Piece>,
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Piece {
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

impl MessagesDecoder {
    pub(super) fn new(model: String, answer_tool: Option<String>, secret: Secret) -> Self {
        Self { model, answer_tool, secret, call: None, input: Counts::default(), finish: None }
    }

    fn begin(&mut self, block: &Value, out: &mut Out) -> Result<(), ModelError> {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => out.text(text("text")),
            "thinking" => {
                let signature = match text("signature") {
                    "" => None,
                    signature => Some(signed(&self.model, "thinking", signature)),
                };
                out.reasoning(text("thinking"), signature)
            }
            "redacted_thinking" => out.reasoning("", Some(signed(&self.model, "redacted", text("data")))),
            "tool_use" => {
                let input =
                    block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
                let arguments = input.map(Value::to_string).unwrap_or_default();
                self.call = Some(Partial { id: text("id").into(), name: text("name").into(), arguments });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn grow(&mut self, piece: Piece, out: &mut Out) -> Result<(), ModelError> {
        out.text(piece.text.unwrap_or_default())?;
        let signature = piece.signature.map(|signature| signed(&self.model, "thinking", &signature));
        out.reasoning(piece.thinking.unwrap_or_default(), signature)?;
        if let (Some(call), Some(json)) = (&mut self.call, piece.partial_json) {
            if self.answer_tool.as_ref() == Some(&call.name) {
                return out.text(json);
            }
            call.arguments.push_str(&json);
            out.room_for(call.arguments.len())?;
        }
        Ok(())
    }

    fn finish_block(&mut self, out: &mut Out) -> Result<(), ModelError> {
        let Some(call) = self.call.take() else { return Ok(()) };
        if self.answer_tool.as_ref() == Some(&call.name) {
            return Ok(());
        }
        let arguments = arguments(&call.arguments);
        out.call(ToolCall { id: call.id, name: call.name, arguments })
    }

    fn count(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let at = |path: &str| Reported::at(usage, path);
        let counts = &mut self.input;
        counts.fresh = at("/input_tokens").or(counts.fresh);
        counts.read = at("/cache_read_input_tokens").or(counts.read);
        counts.written = at("/cache_creation_input_tokens").or(counts.written);
        counts.output = at("/output_tokens").or(counts.output);
    }

    fn stop(&mut self, reason: Option<&str>) {
        self.finish = match reason {
            None => self.finish,
            Some("end_turn" | "stop_sequence") => Some(Finish::Stop),
            Some("max_tokens" | "model_context_window_exceeded") => Some(Finish::Length),
            Some("tool_use") => Some(Finish::ToolCalls),
            Some("refusal") => Some(Finish::Filtered),
            Some(_) => Some(Finish::Other),
        };
    }
}

impl Decoder for MessagesDecoder {
    fn event(&mut self, event: &Event, out: &mut Out) -> Result<Progress, ModelError> {
        if event.data.trim().is_empty() {
            return Ok(Progress::Going);
        }
        let wire: Wire = parse(&event.data)?;
        match wire.kind.as_str() {
            "message_start" => self.count(wire.message.as_ref().and_then(|message| message.get("usage"))),
            "content_block_start" => self.begin(&wire.content_block.unwrap_or_default(), out)?,
            "content_block_delta" => self.grow(wire.delta.unwrap_or_default(), out)?,
            "content_block_stop" => self.finish_block(out)?,
            "message_delta" => {
                self.count(wire.usage.as_ref());
                self.stop(wire.delta.and_then(|piece| piece.stop_reason).as_deref());
            }
            "message_stop" => return Ok(Progress::Over),
            "error" => return Err(told_in_stream(&wire.error.unwrap_or_default(), &self.secret)),
            _ => {}
        }
        Ok(if self.finish.is_some() { Progress::Answered } else { Progress::Going })
    }

    fn whole(&mut self, body: &[u8], out: &mut Out) -> Result<(), ModelError> {
        let body: Value = parse(&String::from_utf8_lossy(body))?;
        if let Some(error) = body.get("error") {
            return Err(told_in_stream(error, &self.secret));
        }
        for block in body.get("content").and_then(Value::as_array).into_iter().flatten() {
            self.begin(block, out)?;
            if let Some(call) = &self.call
                && self.answer_tool.as_ref() == Some(&call.name)
            {
                out.text(call.arguments.clone())?;
            }
            self.finish_block(out)?;
        }
        self.count(body.get("usage"));
        self.stop(body.get("stop_reason").and_then(Value::as_str));
        Ok(())
    }

    fn end(&mut self, _: &mut Out) -> Result<Ending, ModelError> {
        let Counts { fresh, read, written, output } = self.input;
        // The vendor counts what it read afresh apart from its cache; together they are what was read.
        let input = fresh.map(|fresh| fresh + read.unwrap_or(0) + written.unwrap_or(0));
        let reported = Reported { input, cached: read, cache_written: written, output, reasoning: None };
        Ok(Ending { finish: self.finish, reported })
    }
}

//! Reads OpenAI's responses: items that grow, and one event that says how it all ended.

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
pub(super) struct ResponsesDecoder {
    model: String,
    secret: Secret,
    growing: usize,
    finish: Option<Finish>,
    reported: Reported,
}

#[derive(Deserialize)]
struct Wire {
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
    pub(super) fn new(model: String, secret: Secret) -> Self {
        Self { model, secret, growing: 0, finish: None, reported: Reported::default() }
    }

    /// A whole item. Words were shown as they grew; thoughts are sealed and calls are whole only now.
    fn item(&self, item: &Value, words: Words, out: &mut Out) -> Result<(), ModelError> {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "function_call" => out.call(ToolCall {
                id: text("call_id").into(),
                name: text("name").into(),
                arguments: arguments(text("arguments")),
            }),
            "reasoning" => {
                if words == Words::New {
                    for part in item.get("summary").and_then(Value::as_array).into_iter().flatten() {
                        out.reasoning(part.get("text").and_then(Value::as_str).unwrap_or_default(), None)?;
                    }
                }
                match text("encrypted_content") {
                    "" => Ok(()),
                    sealed => out.reasoning("", Some(signed(&self.model, text("id"), sealed))),
                }
            }
            "message" if words == Words::New => {
                for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
                    let said = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str);
                    out.text(said.unwrap_or_default())?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ended(&mut self, response: &Value) -> Result<(), ModelError> {
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return Err(told_in_stream(error, &self.secret));
        }
        let usage = response.get("usage").unwrap_or(&Value::Null);
        let at = |path: &str| Reported::at(usage, path);
        self.reported = Reported {
            input: at("/input_tokens"),
            cached: at("/input_tokens_details/cached_tokens"),
            cache_written: None,
            output: at("/output_tokens"),
            reasoning: at("/output_tokens_details/reasoning_tokens"),
        };
        let why = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.finish = match response.get("status").and_then(Value::as_str) {
            Some("completed") => Some(Finish::Stop),
            Some("incomplete") => Some(match why {
                Some("max_output_tokens") => Finish::Length,
                Some("content_filter") => Finish::Filtered,
                _ => Finish::Other,
            }),
            _ => None,
        };
        Ok(())
    }
}

/// Whether the words of an item were shown already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Shown,
    New,
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, event: &Event, out: &mut Out) -> Result<Progress, ModelError> {
        if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
            return Ok(Progress::Going);
        }
        let wire: Wire = parse(&event.data)?;
        let grown = || wire.delta.as_ref().and_then(Value::as_str).unwrap_or_default();
        match wire.kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => out.text(grown())?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                out.reasoning(grown(), None)?;
            }
            "response.function_call_arguments.delta" => {
                self.growing += grown().len();
                out.room_for(self.growing)?;
            }
            "response.output_item.done" => {
                self.growing = 0;
                self.item(&wire.item.unwrap_or_default(), Words::Shown, out)?;
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.ended(&wire.response.unwrap_or_default())?;
                return Ok(Progress::Over);
            }
            "error" => {
                let rest = Value::Object(wire.rest);
                return Err(told_in_stream(rest.get("error").unwrap_or(&rest), &self.secret));
            }
            _ => {}
        }
        Ok(Progress::Going)
    }

    fn whole(&mut self, body: &[u8], out: &mut Out) -> Result<(), ModelError> {
        let body: Value = parse(&String::from_utf8_lossy(body))?;
        for item in body.get("output").and_then(Value::as_array).into_iter().flatten() {
            self.item(item, Words::New, out)?;
        }
        self.ended(&body)
    }

    fn end(&mut self, _: &mut Out) -> Result<Ending, ModelError> {
        Ok(Ending { finish: self.finish, reported: self.reported })
    }
}

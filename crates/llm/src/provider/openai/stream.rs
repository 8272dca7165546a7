//! Reads chat completions: words at once, tool calls when they are whole.

use serde_json::Value;

use super::wire::{Chunk, Fragment, Said};
use crate::error::ModelError;
use crate::http::{Event, Secret, told_in_stream};
use crate::message::ToolCall;
use crate::model::{ChatRequest, Finish};
use crate::provider::dialect::{Decoder, Ending, Out, Progress, Reported, parse};
use crate::provider::vendors::{Json, Quirks};
use crate::structured::tool_call_in;

/// Reads one answer.
pub(super) struct ChatDecoder {
    calls: Vec<Partial>,
    finish: Option<Finish>,
    done: bool,
    /// Whether the answer came in one piece, so that every call in it is whole.
    is_whole: bool,
    reported: Reported,
    /// The tool whose arguments are the answer, where JSON is asked for that way.
    answer_tool: Option<String>,
    /// Words held back because they may be a written tool call, and the tools that exist.
    held: Option<String>,
    tools: Vec<String>,
    secret: Secret,
}

/// A tool call on its way.
#[derive(Default)]
struct Partial {
    index: Option<i64>,
    id: String,
    name: String,
    arguments: String,
}

impl ChatDecoder {
    pub(super) fn new(request: &ChatRequest, quirks: &Quirks, secret: Secret) -> Self {
        let answer_tool = request.schema.as_ref().filter(|_| quirks.json == Json::Tool);
        let may_write = quirks.written_calls && !request.tools.is_empty() && request.schema.is_none();
        Self {
            calls: Vec::new(),
            finish: None,
            done: false,
            is_whole: false,
            reported: Reported::default(),
            answer_tool: answer_tool.map(|schema| schema.name.clone()),
            held: may_write.then(String::new),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            secret,
        }
    }

    fn chunk(&mut self, chunk: Chunk, out: &mut Out) -> Result<(), ModelError> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(told_in_stream(&error, &self.secret));
        }
        let usage =
            chunk.usage.or_else(|| chunk.x_groq.and_then(|mut groq| Some(groq.get_mut("usage")?.take())));
        if let Some(usage) = usage.filter(Value::is_object) {
            self.reported = counts(&usage);
        }
        for choice in chunk.choices.into_iter().flatten() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(said) = choice.delta {
                self.said(said, out)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(finish(&reason));
            }
        }
        Ok(())
    }

    fn said(&mut self, said: Said, out: &mut Out) -> Result<(), ModelError> {
        // Some servers send the same thought under both names.
        let thought = if said.reasoning_content.text.is_empty() {
            said.reasoning.text
        } else {
            said.reasoning_content.text
        };
        out.reasoning(thought, None)?;
        out.reasoning(said.content.thought, None)?;
        self.words(said.content.text, out)?;
        self.words(said.refusal.text, out)?;
        for fragment in said.tool_calls.into_iter().flatten() {
            self.fragment(fragment, out)?;
        }
        Ok(())
    }

    /// Words go on at once, unless they begin as a written tool call does.
    fn words(&mut self, text: String, out: &mut Out) -> Result<(), ModelError> {
        let Some(held) = &mut self.held else { return out.text(text) };
        held.push_str(&text);
        let begun = held.trim_start();
        let may_be = |start: &str| begun.starts_with(start) || start.starts_with(begun);
        if !["{", "```", "<tool_call>"].into_iter().any(may_be) {
            let text = std::mem::take(held);
            self.held = None;
            return out.text(text);
        }
        Ok(())
    }

    fn fragment(&mut self, fragment: Fragment, out: &mut Out) -> Result<(), ModelError> {
        let id = fragment.id.unwrap_or_default();
        let function = fragment.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let at = match fragment.index {
            _ if self.is_whole => None,
            Some(index) => self.calls.iter().rposition(|call| call.index == Some(index)),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        };
        // Another id and another name under the same index is another call; some servers number them all 0.
        let at = at.filter(|at| {
            let call = &self.calls[*at];
            id.is_empty() || call.id.is_empty() || call.id == id || name.is_empty()
        });
        let at = at.unwrap_or_else(|| {
            self.calls.push(Partial { index: fragment.index, ..Partial::default() });
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
            return out.text(function.arguments.text);
        }
        call.arguments.push_str(&function.arguments.text);
        out.room_for(call.arguments.len())
    }

    fn give_calls(&mut self, out: &mut Out) -> Result<(), ModelError> {
        for call in std::mem::take(&mut self.calls) {
            if self.answer_tool.as_ref() == Some(&call.name) {
                continue;
            }
            let arguments = arguments(&call.arguments);
            out.call(ToolCall { id: call.id, name: call.name, arguments })?;
        }
        let Some(held) = self.held.take() else { return Ok(()) };
        let tools: Vec<&str> = self.tools.iter().map(String::as_str).collect();
        match tool_call_in(&held, &tools) {
            Some(call) => out.call(call),
            None => out.text(held),
        }
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, event: &Event, out: &mut Out) -> Result<Progress, ModelError> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Progress::Over);
        }
        if event.data.trim().is_empty() {
            return Ok(Progress::Going);
        }
        self.chunk(parse(&event.data)?, out)?;
        Ok(if self.finish.is_some() { Progress::Answered } else { Progress::Going })
    }

    fn whole(&mut self, body: &[u8], out: &mut Out) -> Result<(), ModelError> {
        self.is_whole = true;
        self.chunk(parse(&String::from_utf8_lossy(body))?, out)
    }

    fn end(&mut self, out: &mut Out) -> Result<Ending, ModelError> {
        // The marker alone ends an answer too, but nobody said that it is whole.
        let finish = self.finish.or(self.done.then_some(Finish::Other));
        // Words that were held back of an answer that broke off stay back: nothing was shown, so it may be asked again.
        if finish.is_some() {
            self.give_calls(out)?;
        }
        Ok(Ending { finish, reported: self.reported })
    }
}

/// The arguments of a call. What is not JSON stays a string, for the model that wrote it to be told.
pub(in crate::provider) fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    match parse::<Value>(text) {
        // Some models write the object as a string once more.
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            Ok(object @ Value::Object(_)) => object,
            _ => Value::String(inner),
        },
        Ok(value) => value,
        Err(_) => Value::String(text.to_owned()),
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "stop" | "eos" | "eos_token" | "end_turn" => Finish::Stop,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "tool_calls" | "function_call" => Finish::ToolCalls,
        "content_filter" => Finish::Filtered,
        _ => Finish::Other,
    }
}

fn counts(usage: &Value) -> Reported {
    let at = |path: &str| Reported::at(usage, path);
    Reported {
        input: at("/prompt_tokens"),
        cached: at("/prompt_tokens_details/cached_tokens").max(at("/prompt_cache_hit_tokens")),
        cache_written: None,
        output: at("/completion_tokens"),
        reasoning: at("/completion_tokens_details/reasoning_tokens"),
    }
}

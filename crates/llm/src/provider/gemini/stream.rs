//! Reads Gemini's answers: every event is an answer of its own that goes on from the one before.

use serde::Deserialize;
use serde_json::Value;

use crate::error::ModelError;
use crate::http::{Event, Secret, told_in_stream};
use crate::message::ToolCall;
use crate::model::Finish;
use crate::provider::dialect::{Decoder, Ending, Out, Progress, Reported, parse};

/// A signature that belongs to the words of an answer.
pub(super) fn of_text(signature: &str) -> String {
    format!("gemini text {signature}")
}

/// A signature that belongs to a call.
pub(super) fn of_call(id: &str, signature: &str) -> String {
    format!("gemini call {id} {signature}")
}

/// Reads one answer.
pub(super) struct GeminiDecoder {
    secret: Secret,
    answer: String,
    calls: usize,
    finish: Option<Finish>,
    reported: Reported,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    candidates: Option<Vec<Candidate>>,
    #[serde(default)]
    prompt_feedback: Option<Value>,
    #[serde(default)]
    usage_metadata: Option<Value>,
    #[serde(default)]
    response_id: Option<String>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Option<Vec<Piece>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Piece {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(default)]
    function_call: Option<Called>,
}

#[derive(Deserialize)]
struct Called {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default)]
    args: Option<Value>,
}

impl GeminiDecoder {
    pub(super) fn new(secret: Secret) -> Self {
        Self { secret, answer: String::new(), calls: 0, finish: None, reported: Reported::default() }
    }

    fn take(&mut self, wire: Wire, out: &mut Out) -> Result<(), ModelError> {
        if let Some(error) = wire.error {
            return Err(told_in_stream(&error, &self.secret));
        }
        if let Some(reason) =
            wire.prompt_feedback.as_ref().and_then(|feedback| feedback.get("blockReason")?.as_str())
        {
            return Err(ModelError::Filtered {
                reason: format!("the prompt was blocked ({})", reason.to_lowercase()),
            });
        }
        if let Some(id) = wire.response_id {
            self.answer = id;
        }
        if let Some(usage) = wire.usage_metadata {
            self.reported = counts(&usage);
        }
        let Some(candidate) = wire.candidates.into_iter().flatten().next() else { return Ok(()) };
        for piece in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            self.piece(piece, out)?;
        }
        if let Some(reason) = candidate.finish_reason {
            self.finish = Some(finish(&reason)?);
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece, out: &mut Out) -> Result<(), ModelError> {
        if let Some(called) = piece.function_call {
            self.calls += 1;
            // Most answers name no call, and the thread needs names that differ from turn to turn.
            let id = match (called.id, self.answer.as_str()) {
                (Some(id), _) if !id.is_empty() => id,
                (_, "") => String::new(),
                (_, answer) => format!("{answer}-{}", self.calls),
            };
            if let Some(signature) = piece.thought_signature {
                out.reasoning("", Some(of_call(&id, &signature)))?;
            }
            let arguments = called.args.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            return out.call(ToolCall { id, name: called.name, arguments });
        }
        let text = piece.text.unwrap_or_default();
        if piece.thought {
            return out.reasoning(text, None);
        }
        out.text(text)?;
        match piece.thought_signature {
            Some(signature) => out.reasoning("", Some(of_text(&signature))),
            None => Ok(()),
        }
    }
}

impl Decoder for GeminiDecoder {
    fn event(&mut self, event: &Event, out: &mut Out) -> Result<Progress, ModelError> {
        if event.data.trim().is_empty() {
            return Ok(Progress::Going);
        }
        self.take(parse(&event.data)?, out)?;
        Ok(if self.finish.is_some() { Progress::Answered } else { Progress::Going })
    }

    fn whole(&mut self, body: &[u8], out: &mut Out) -> Result<(), ModelError> {
        self.take(parse(&String::from_utf8_lossy(body))?, out)
    }

    fn end(&mut self, _: &mut Out) -> Result<Ending, ModelError> {
        Ok(Ending { finish: self.finish, reported: self.reported })
    }
}

fn finish(reason: &str) -> Result<Finish, ModelError> {
    Ok(match reason {
        "STOP" => Finish::Stop,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
        | "IMAGE_SAFETY" => Finish::Filtered,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
            return Err(ModelError::Broken {
                reason: "the model wrote a tool call that cannot be read".into(),
            });
        }
        _ => Finish::Other,
    })
}

fn counts(usage: &Value) -> Reported {
    let at = |path: &str| Reported::at(usage, path);
    let reasoning = at("/thoughtsTokenCount");
    // Thoughts are counted apart from the answer here, and paid for alike.
    let output = at("/candidatesTokenCount").map(|written| written + reasoning.unwrap_or(0));
    Reported {
        input: at("/promptTokenCount"),
        cached: at("/cachedContentTokenCount"),
        cache_written: None,
        output,
        reasoning,
    }
}

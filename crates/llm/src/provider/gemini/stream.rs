//! Decodes answers of the Gemini API: every event is a response object that continues the previous one.

use serde::Deserialize;
use serde_json::Value;

use crate::error::ModelError;
use crate::http::{ModelApiKey, SseEvent, classify_stream_error};
use crate::message::ToolCall;
use crate::model::FinishReason;
use crate::provider::dialect::{
    AnswerDecoder, AnswerEnding, DecodeProgress, DeltaBuffer, ReportedUsage, parse_vendor_json,
};

/// Tags a signature that belongs to the text of an answer.
pub(super) fn tag_text_signature(signature: &str) -> String {
    format!("gemini text {signature}")
}

/// Tags a signature that belongs to a tool call.
pub(super) fn tag_call_signature(id: &str, signature: &str) -> String {
    format!("gemini call {id} {signature}")
}

/// Decodes one answer.
pub(super) struct GeminiDecoder {
    secret: ModelApiKey,
    response_id: String,
    calls: usize,
    finish: Option<FinishReason>,
    reported: ReportedUsage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiResponse {
    #[serde(default)]
    candidates: Option<Vec<GeminiCandidate>>,
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
struct GeminiCandidate {
    #[serde(default)]
    content: Option<GeminiContent>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct GeminiContent {
    #[serde(default)]
    parts: Option<Vec<GeminiPart>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPart {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(default)]
    function_call: Option<GeminiFunctionCall>,
}

#[derive(Deserialize)]
struct GeminiFunctionCall {
    #[serde(default)]
    id: Option<String>,
    name: String,
    #[serde(default)]
    args: Option<Value>,
}

impl GeminiDecoder {
    pub(super) fn new(secret: ModelApiKey) -> Self {
        Self {
            secret,
            response_id: String::new(),
            calls: 0,
            finish: None,
            reported: ReportedUsage::default(),
        }
    }

    fn take_response(&mut self, wire: GeminiResponse, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        if let Some(error) = wire.error {
            return Err(classify_stream_error(&error, &self.secret));
        }
        if let Some(reason) =
            wire.prompt_feedback.as_ref().and_then(|feedback| feedback.get("blockReason")?.as_str())
        {
            return Err(ModelError::Filtered {
                reason: format!("the prompt was blocked ({})", reason.to_lowercase()),
            });
        }
        if let Some(id) = wire.response_id {
            self.response_id = id;
        }
        if let Some(usage) = wire.usage_metadata {
            self.reported = parse_usage(&usage);
        }
        let Some(candidate) = wire.candidates.into_iter().flatten().next() else { return Ok(()) };
        for piece in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            self.take_part(piece, out)?;
        }
        if let Some(reason) = candidate.finish_reason {
            self.finish = Some(parse_finish_reason(&reason)?);
        }
        Ok(())
    }

    fn take_part(&mut self, piece: GeminiPart, out: &mut DeltaBuffer) -> Result<(), ModelError> {
        if let Some(called) = piece.function_call {
            self.calls += 1;
            // Most answers have no call ids, and a thread needs ids that differ from turn to turn.
            let id = match (called.id, self.response_id.as_str()) {
                (Some(id), _) if !id.is_empty() => id,
                (_, "") => String::new(),
                (_, answer) => format!("{answer}-{}", self.calls),
            };
            if let Some(signature) = piece.thought_signature {
                out.push_reasoning("", Some(tag_call_signature(&id, &signature)))?;
            }
            let arguments = called.args.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            return out.push_tool_call(ToolCall { id, name: called.name, arguments });
        }
        let text = piece.text.unwrap_or_default();
        if piece.thought {
            return out.push_reasoning(text, None);
        }
        out.push_text(text)?;
        match piece.thought_signature {
            Some(signature) => out.push_reasoning("", Some(tag_text_signature(&signature))),
            None => Ok(()),
        }
    }
}

impl AnswerDecoder for GeminiDecoder {
    fn decode_event(
        &mut self,
        event: &SseEvent,
        out: &mut DeltaBuffer,
    ) -> Result<DecodeProgress, ModelError> {
        if event.data.trim().is_empty() {
            return Ok(DecodeProgress::InProgress);
        }
        self.take_response(parse_vendor_json(&event.data)?, out)?;
        Ok(if self.finish.is_some() { DecodeProgress::AnswerComplete } else { DecodeProgress::InProgress })
    }

    fn decode_body(&mut self, body: &[u8], out: &mut DeltaBuffer) -> Result<(), ModelError> {
        self.take_response(parse_vendor_json(&String::from_utf8_lossy(body))?, out)
    }

    fn finish_decoding(&mut self, _: &mut DeltaBuffer) -> Result<AnswerEnding, ModelError> {
        Ok(AnswerEnding { finish: self.finish, reported: self.reported })
    }
}

fn parse_finish_reason(reason: &str) -> Result<FinishReason, ModelError> {
    Ok(match reason {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
        | "IMAGE_SAFETY" => FinishReason::Filtered,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
            return Err(ModelError::Broken {
                reason: "the model wrote a tool call that cannot be read".into(),
            });
        }
        _ => FinishReason::Other,
    })
}

fn parse_usage(usage: &Value) -> ReportedUsage {
    let at = |path: &str| ReportedUsage::count_at(usage, path);
    let reasoning = at("/thoughtsTokenCount");
    // Reasoning tokens are counted separately here but billed as output.
    let output = at("/candidatesTokenCount").map(|written| written + reasoning.unwrap_or(0));
    ReportedUsage {
        input: at("/promptTokenCount"),
        cached: at("/cachedContentTokenCount"),
        cache_written: None,
        output,
        reasoning,
    }
}

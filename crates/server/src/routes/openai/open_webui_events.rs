//! Events of Open WebUI between the pieces of an answer: what the agent is at, and what the answer rests on. They are for
//! who asks for them by a header; any other client takes every line for a piece of the answer.

use axum::http::HeaderMap;
use doran_agents::{AnswerSource, UserLanguage};
use serde_json::{Value, json};

use crate::error::{ApiError, ApiErrorCode};
use crate::sse::SseFrame;

/// The header that asks for them.
pub(super) const EVENTS_HEADER: &str = "x-doran-events";
/// The only kind there is.
pub(super) const OPEN_WEBUI: &str = "open-webui";

/// Whether the client asks for events.
pub(super) fn wants_events(headers: &HeaderMap) -> Result<bool, ApiError> {
    match headers.get(EVENTS_HEADER) {
        None => Ok(false),
        Some(kind) if kind == OPEN_WEBUI => Ok(true),
        Some(_) => Err(ApiError::with_message(
            ApiErrorCode::BadHeader,
            format!("`{EVENTS_HEADER}` can only be `{OPEN_WEBUI}`"),
            format!("`{EVENTS_HEADER}`의 값은 `{OPEN_WEBUI}`뿐입니다"),
        )),
    }
}

/// What the agent is at, for the line above the answer.
pub(super) fn status_event(description: &str, done: bool) -> SseFrame {
    let data = json!({ "description": description.trim(), "done": done });
    SseFrame::unnamed(&json!({ "event": { "type": "status", "data": data } }))
}

/// How a stream ended well.
#[derive(Clone, Copy)]
pub(super) enum OpenWebUiEnd {
    Answered,
    WaitsForApproval,
}

/// What is told at the end: what the answer rests on, and that nothing is under way any more.
pub(super) fn end_events(
    sources: &[AnswerSource],
    ended: OpenWebUiEnd,
    language: UserLanguage,
) -> Vec<SseFrame> {
    let mut frames: Vec<SseFrame> = sources.iter().map(source_event).collect();
    let done = match (ended, language) {
        (OpenWebUiEnd::Answered, UserLanguage::Ko) => "답했습니다",
        (OpenWebUiEnd::Answered, UserLanguage::En) => "answered",
        (OpenWebUiEnd::WaitsForApproval, UserLanguage::Ko) => "승인을 기다립니다",
        (OpenWebUiEnd::WaitsForApproval, UserLanguage::En) => "waits for an approval",
    };
    frames.push(status_event(done, true));
    frames
}

fn source_event(source: &AnswerSource) -> SseFrame {
    let about: Value = json!({ "source": source.title, "document": source.document, "page": source.page });
    let name = json!({ "name": format!("[{}] {}", source.number, source.title) });
    let data = json!({ "source": name, "document": [source.quote], "metadata": [about] });
    SseFrame::unnamed(&json!({ "event": { "type": "source", "data": data } }))
}

//! What is special to Open WebUI: the header that names its chat, and events between the chunks of an answer (progress and
//! sources). Events are sent only if a header asks for them, because other clients take every line for a chunk.

use axum::http::HeaderMap;
use doran_agents::{AnswerSource, Language};
use doran_engine::ThreadId;
use serde_json::{Value, json};

use crate::error::{ApiError, ApiErrorCode};
use crate::sse::SseFrame;

/// The header that asks for them.
pub(super) const EVENTS_HEADER: &str = "x-doran-events";
/// The only kind there is.
pub(super) const OPEN_WEBUI: &str = "open-webui";

/// The header with the chat that a message belongs to. Open WebUI sends it with `ENABLE_FORWARD_USER_INFO_HEADERS`.
pub(super) const CHAT_ID_HEADER: &str = "x-openwebui-chat-id";

/// The chat of Open WebUI that the request belongs to. Temporary chats (`local`, `local:…`) are not stored there either, and
/// several may share that id.
pub(super) fn chat_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(CHAT_ID_HEADER)?.to_str().ok()?;
    (!id.starts_with("local") && ThreadId::new(id).is_ok()).then(|| id.to_owned())
}

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

/// What is sent at the end: what the answer rests on, and that nothing is under way any more.
pub(super) fn end_events(sources: &[AnswerSource], ended: OpenWebUiEnd, language: Language) -> Vec<SseFrame> {
    let mut frames: Vec<SseFrame> = sources.iter().map(source_event).collect();
    let done = match (ended, language) {
        (OpenWebUiEnd::Answered, Language::Korean) => "답했습니다",
        (OpenWebUiEnd::Answered, Language::English) => "answered",
        (OpenWebUiEnd::WaitsForApproval, Language::Korean) => "승인을 기다립니다",
        (OpenWebUiEnd::WaitsForApproval, Language::English) => "waits for an approval",
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

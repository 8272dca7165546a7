//! Events of Open WebUI between the pieces of an answer: what the agent is at, and what the answer rests on. They are for
//! who asks for them by a header; any other client takes every line for a piece of the answer.

use axum::http::HeaderMap;
use doran_agents::{Language, Source};
use serde_json::{Value, json};

use crate::error::{ApiError, Code};
use crate::sse::Frame;

/// The header that asks for them.
const HEADER: &str = "x-doran-events";
/// The only kind there is.
const KIND: &str = "open-webui";

/// Whether the client asks for events.
pub(super) fn wanted(headers: &HeaderMap) -> Result<bool, ApiError> {
    match headers.get(HEADER) {
        None => Ok(false),
        Some(kind) if kind == KIND => Ok(true),
        Some(_) => Err(ApiError::because(
            Code::BadHeader,
            format!("`{HEADER}` can only be `{KIND}`"),
            format!("`{HEADER}`의 값은 `{KIND}`뿐입니다"),
        )),
    }
}

/// What the agent is at, for the line above the answer.
pub(super) fn status(description: &str, done: bool) -> Frame {
    let data = json!({ "description": description.trim(), "done": done });
    Frame::plain(&json!({ "event": { "type": "status", "data": data } }))
}

/// How a stream ended well.
#[derive(Clone, Copy)]
pub(super) enum Ended {
    Answered,
    Waits,
}

/// What is told at the end: what the answer rests on, and that nothing is under way any more.
pub(super) fn end(sources: &[Source], ended: Ended, language: Language) -> Vec<Frame> {
    let mut frames: Vec<Frame> = sources.iter().map(source).collect();
    let done = match (ended, language) {
        (Ended::Answered, Language::Ko) => "답했습니다",
        (Ended::Answered, Language::En) => "answered",
        (Ended::Waits, Language::Ko) => "승인을 기다립니다",
        (Ended::Waits, Language::En) => "waits for an approval",
    };
    frames.push(status(done, true));
    frames
}

fn source(source: &Source) -> Frame {
    let about: Value = json!({ "source": source.title, "document": source.document, "page": source.page });
    let name = json!({ "name": format!("[{}] {}", source.number, source.title) });
    let data = json!({ "source": name, "document": [source.quote], "metadata": [about] });
    Frame::plain(&json!({ "event": { "type": "source", "data": data } }))
}

//! The dialect of OpenAI's chat completions: `model` is the name of an agent.
//!
//! A client of that dialect keeps the conversation itself and sends all of it each time. The last message of the user
//! is the question. The thread is the one the client names (`metadata.thread_id`, or the `x-thread-id` header); without
//! a name every request is a thread of its own, and what was said before is laid before the agent.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use doran_agents::AskOptions;
use doran_engine::store::{IfBusy, RunRow, Status, Usage};
use doran_engine::{RunHandle, RunKey};
use serde::Deserialize;
use serde_json::{Value, json};

use super::runs::idempotency_key;
use super::{json, path};
use crate::App;
use crate::ask::{self, Ask};
use crate::body;
use crate::error::{ApiError, Code};
use crate::fold::{End, Told};
use crate::identity::Caller;
use crate::sse::{self, Frame};
use crate::tell::Tale;

/// `POST /v1/chat/completions`. What is not listed is accepted and not used, as clients send much that an agent
/// decides for itself.
#[derive(Debug, Deserialize)]
pub(super) struct Completion {
    model: String,
    messages: Vec<Said>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    metadata: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
struct Said {
    role: String,
    #[serde(default)]
    content: Value,
}

impl Said {
    /// The words, whether they came as one text or in parts.
    fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part["text"].as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }
}

/// `GET /v1/models`
pub(super) async fn models(State(app): State<App>, _: Caller) -> Response {
    let models: Vec<Value> = app.agents.iter().map(|agent| shown(&agent.name)).collect();
    json(json!({ "object": "list", "data": models }))
}

/// `GET /v1/models/{model}`
pub(super) async fn model(
    State(app): State<App>,
    _: Caller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json(shown(&ask::agent(&app, &path(name)?)?.name)))
}

fn shown(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 1_767_225_600, "owned_by": "doran" })
}

/// `POST /v1/chat/completions`
pub(super) async fn completions(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let key = idempotency_key(request.headers())?;
    let header = request.headers().get("x-thread-id").map(|value| value.to_str().map(str::to_owned));
    let header = header.transpose().map_err(|_| Code::BadHeader)?;
    let (asked, bytes) = body::json::<Completion>(request, &app.limits).await?;
    if asked.n.is_some_and(|n| n != 1) {
        return Err(ApiError::because(Code::BadInput, "`n` can only be 1"));
    }
    let named = asked.metadata.as_ref().and_then(|metadata| metadata["thread_id"].as_str());
    let named = header.as_deref().or(named);
    let message = question(&asked.messages, named.is_some())?;
    let thread = match named {
        Some(name) => ask::thread(&caller, name)?,
        None => ask::new_thread(&caller, key.as_deref()),
    };
    let ask = Ask {
        agent: &asked.model,
        thread,
        message: &message,
        options: AskOptions::default(),
        if_busy: IfBusy::Enqueue,
        idempotency: key.map(|key| (key, &bytes[..])),
    };
    let run = ask::start(&app, ask).await?;
    let head = Head { id: format!("chatcmpl-{}", run.id()), created: now(), model: asked.model };
    let mut response = if asked.stream == Some(true) {
        streamed(&app, caller, head, &run, asked.stream_options.unwrap_or_default().include_usage).await?
    } else {
        whole(&app, &head, &run).await?
    };
    if let Ok(thread) = HeaderValue::from_str(run.thread().thread.as_str()) {
        response.headers_mut().insert("x-thread-id", thread);
    }
    Ok(response)
}

/// What is asked. On a thread of ours the agent knows what was said before; else it is told.
fn question(messages: &[Said], known: bool) -> Result<String, ApiError> {
    let bad = |why: &str| ApiError::because(Code::BadInput, why);
    let last = messages.iter().rposition(|said| said.role == "user");
    let last = last.ok_or_else(|| bad("`messages` holds no message of the user"))?;
    let question = messages[last].text();
    if question.trim().is_empty() {
        return Err(bad("the last message of the user is empty"));
    }
    let earlier: Vec<String> = messages[..last]
        .iter()
        .filter(|said| matches!(said.role.as_str(), "user" | "assistant"))
        .map(|said| format!("{}: {}", said.role, said.text()))
        .collect();
    if known || earlier.is_empty() {
        return Ok(question);
    }
    Ok(format!("{question}\n\n[이전 대화 / earlier in this conversation]\n{}", earlier.join("\n")))
}

/// What every piece of an answer repeats.
struct Head {
    id: String,
    created: u64,
    model: String,
}

impl Head {
    fn json(&self, object: &str) -> Value {
        json!({ "id": self.id, "object": object, "created": self.created, "model": self.model })
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Frame {
        let mut chunk = self.json("chat.completion.chunk");
        chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        Frame::plain(&chunk)
    }
}

async fn whole(app: &App, head: &Head, run: &RunHandle) -> Result<Response, ApiError> {
    let came = ask::wait(app, &head.model, run).await?;
    let Some(turn) = came.turn else { return Err(not_finished(&came.row)) };
    let mut answer = head.json("chat.completion");
    answer["choices"] = json!([{
        "index": 0,
        "message": { "role": "assistant", "content": turn.response, "refusal": null },
        "logprobs": null,
        "finish_reason": "stop",
    }]);
    answer["usage"] = usage(&came.row.usage);
    answer["sources"] = json!(turn.sources);
    Ok(json(answer))
}

fn not_finished(row: &RunRow) -> ApiError {
    match row.status {
        Status::Paused => ApiError::because(
            Code::Conflict,
            format!("run `{}` waits for an answer: see `GET /api/approvals`", row.run),
        ),
        Status::Cancelled => ApiError::because(Code::Conflict, "the run was cancelled"),
        Status::Failed => {
            let why = row.error.as_ref().map_or_else(String::new, |error| error.message.clone());
            ApiError::because(Code::RunFailed, why)
        }
        Status::Queued | Status::Running | Status::Finished => {
            ApiError::because(Code::TooSlow, "the run goes on; look it up later in its thread")
        }
    }
}

async fn streamed(
    app: &App,
    caller: Caller,
    head: Head,
    run: &RunHandle,
    with_usage: bool,
) -> Result<Response, ApiError> {
    let key = run.key();
    let mut tale = Tale::of(app, &head.model, key.clone(), run.thread().thread.as_str()).await?;
    let app = app.clone();
    sse::frames(&app.clone(), caller, move |frames| async move {
        let mut listens = frames.send(head.chunk(&json!({ "role": "assistant", "content": "" }), None)).await;
        while listens && let Some(told) = tale.next().await {
            let goes_on = matches!(told, Told::Words(_));
            let pieces = match told {
                Told::Words(words) => vec![head.chunk(&json!({ "content": words }), None)],
                Told::News(_) => continue,
                Told::Over(End::Finished) => last(&app, &head, &key, with_usage).await,
                // What was streamed cannot be unsaid in this dialect.
                Told::Void => problem("restarted", "the answer begins anew; ask again"),
                Told::Asks(_) => {
                    problem("interrupted", "the run waits for an answer: see GET /api/approvals")
                }
                Told::Over(End::Failed { code, message }) => problem(&code, &message),
                Told::Over(End::Cancelled) => problem("cancelled", "the run was cancelled"),
                Told::Over(End::Left) => {
                    problem("stopping", "the server stops; the run goes on in its thread")
                }
            };
            listens = frames.send_all(pieces).await && goes_on;
        }
    })
}

async fn last(app: &App, head: &Head, run: &RunKey, with_usage: bool) -> Vec<Frame> {
    let mut last = vec![head.chunk(&json!({}), Some("stop"))];
    if with_usage && let Ok(row) = app.runtime.store().run(run).await {
        let mut chunk = head.json("chat.completion.chunk");
        chunk["choices"] = json!([]);
        chunk["usage"] = usage(&row.usage);
        last.push(Frame::plain(&chunk));
    }
    last.push(Frame::done());
    last
}

fn problem(code: &str, message: &str) -> Vec<Frame> {
    vec![Frame::plain(
        &json!({ "error": { "message": message, "type": "server_error", "code": code, "param": null } }),
    )]
}

fn usage(usage: &Usage) -> Value {
    let Usage { input_tokens, output_tokens, .. } = *usage;
    json!({
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens.saturating_add(output_tokens),
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Says what went wrong as clients of this dialect read it.
pub(super) async fn in_their_words(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let is_problem = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes() == b"application/problem+json");
    if !is_problem {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 64 * 1024).await.unwrap_or_default();
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    let detail = problem["detail"].as_str().map(|detail| format!(": {detail}")).unwrap_or_default();
    let kind = match parts.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    };
    let code = if text("code") == "unknown_agent" { "model_not_found".to_owned() } else { text("code") };
    let error = json!({ "error": {
        "message": format!("{}{detail}", text("title")),
        "message_ko": format!("{}{detail}", text("title_ko")),
        "type": kind,
        "param": null,
        "code": code,
    } });
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (parts, error.to_string()).into_response()
}

//! Runs: start one and watch it, or come back to one.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use doran_agents::AskOptions;
use doran_engine::store::{Idempotency, StoreError};
use doran_engine::{EngineError, RunId, StartOptions, ThreadId, ThreadKey, Until};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::App;
use crate::api::StartRun;
use crate::error::{ApiError, Code};
use crate::{body, sse};

/// No run has more events; a larger number is a mistake.
const MOST_EVENTS: u64 = 1 << 40;

/// `POST /api/threads/{thread}/runs`: asks an agent. The input is on disk before the first byte of the answer.
pub(super) async fn start(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let thread = thread(&app, &path.map_err(|rejection| bad_path(&rejection))?.0)?;
    let key = idempotency_key(request.headers())?;
    let (asked, bytes) = body::json::<StartRun>(request, &app.limits).await?;
    check_message(&app, &asked.message)?;
    let idempotency = key.map(|key| Idempotency { key, hash: hash(&thread, &bytes) });
    let agent = app.agent(&asked.agent).ok_or_else(|| EngineError::UnknownGraph(asked.agent.clone()))?;
    let input = agent.input(&asked.message, &AskOptions::default());
    let options = StartOptions { idempotency, ..StartOptions::default() };
    let run = app.runtime.start(&asked.agent, &thread, Some(&input), options).await?;
    let watch = app.runtime.watch(&run.key(), 0, Until::Rest).await?;
    let mut response = sse::stream(&app, thread.thread.as_str(), watch);
    let place = format!("/api/threads/{}/runs/{}/events", encoded(thread.thread.as_str()), run.id());
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// What may follow the path of the events.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    after: Option<u64>,
}

/// `GET /api/threads/{thread}/runs/{run}/events`: the events of a run, from the beginning or after a number.
/// `Last-Event-ID`, which a browser sends when it comes back, beats `?after=`.
pub(super) async fn events(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<After>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Path((thread_name, run)) = path.map_err(|rejection| bad_path(&rejection))?;
    let thread = thread(&app, &thread_name)?;
    let run: RunId = run.parse().map_err(|_| Code::BadPath)?;
    let Query(After { after }) =
        query.map_err(|error| ApiError::because(Code::BadInput, error.body_text()))?;
    let after = last_event_id(&headers)?.or(after).unwrap_or(0);
    if after > MOST_EVENTS {
        return Err(ApiError::because(Code::BadInput, "no run has that many events"));
    }
    let key = thread.run(run);
    let row = app.runtime.store().run(&key).await.map_err(doran_engine::EngineError::from)?;
    if row.thread != thread {
        return Err(doran_engine::EngineError::from(StoreError::no_run(&key)).into());
    }
    let watch = app.runtime.watch(&key, after, Until::Rest).await?;
    Ok(sse::stream(&app, thread.thread.as_str(), watch))
}

fn bad_path(rejection: &PathRejection) -> ApiError {
    ApiError::because(Code::BadPath, rejection.body_text())
}

fn thread(app: &App, name: &str) -> Result<ThreadKey, ApiError> {
    let thread = ThreadId::new(name).map_err(|error| ApiError::because(Code::BadPath, error.to_string()))?;
    Ok(ThreadKey { tenant: app.tenant.clone(), thread })
}

fn check_message(app: &App, message: &str) -> Result<(), ApiError> {
    let most = app.limits.message_bytes;
    let wrong = if message.trim().is_empty() {
        "`message` is empty".to_owned()
    } else if message.len() > most {
        format!("`message` has more than {most} bytes")
    } else if message.contains('\0') {
        "`message` holds a NUL character".to_owned()
    } else {
        return Ok(());
    };
    Err(ApiError::because(Code::BadInput, wrong))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if (1..=200).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Some(key.to_owned()))
        }
        Ok(_) | Err(_) => {
            let rule = "`Idempotency-Key` takes 1 to 200 visible ASCII characters";
            Err(ApiError::because(Code::BadHeader, rule))
        }
    }
}

/// An empty one means from the beginning, as a browser sends before it saw an event.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| ApiError::because(Code::BadHeader, "`Last-Event-ID` is not a number"))
}

/// What was asked, and where. The tenant is part of the key already.
fn hash(thread: &ThreadKey, body: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(thread.thread.as_str().as_bytes());
    hash.update([0]);
    hash.update(body);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name as a part of a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

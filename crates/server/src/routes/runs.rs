//! Runs: start one and watch it or wait for it, come back to one, answer what it asks, end it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_engine::log::AskKind;
use doran_engine::store::{IfBusy, RunFilter, RunRow, Status, StoreError};
use doran_engine::{EngineError, RunHandle, RunId, RunKey, ThreadKey, Until};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{json, path, query};
use crate::App;
use crate::api::{self, StartRun};
use crate::ask::{self, Ask};
use crate::error::{ApiError, Code};
use crate::identity::Caller;
use crate::once::{self, Once};
use crate::{body, sse};

/// No run has more events; a larger number is a mistake.
const MOST_EVENTS: u64 = 1 << 40;
/// The most bytes of a note beside an answer.
const NOTE: usize = 4096;
/// The most runs a list gives.
const MOST: usize = 200;
/// How long the end of a cancelled run is waited for.
const CANCEL: Duration = Duration::from_secs(2);

/// What may follow the path when a run is started.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    #[serde(default)]
    wait: bool,
}

/// `POST /api/threads/{thread}/runs`: asks an agent. The input is on disk before the first byte of the answer, which is
/// a stream of events or, with `?wait=true`, what came of the run.
pub(super) async fn start(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
    wait: Result<Query<Wait>, QueryRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let thread = ask::thread(&caller, &path(name)?)?;
    let Wait { wait } = query(wait)?;
    let key = once::key(request.headers())?;
    let (asked, bytes) = body::json::<StartRun>(request, &app.limits).await?;
    if asked.message.trim().is_empty() {
        return Err(ApiError::because(Code::BadInput, "`message` is empty", "`message`가 비어 있습니다"));
    }
    let ask = Ask {
        agent: &asked.agent,
        thread: thread.clone(),
        message: &asked.message,
        options: asked.options(),
        if_busy: asked.if_busy.unwrap_or(IfBusy::Reject),
        idempotency: key.map(|key| (key, &bytes[..])),
    };
    let run = ask::start(&app, &ask).await?;
    let name = thread.thread.as_str();
    let told = if wait {
        outcome(&app, &asked.agent, &run).await
    } else {
        match app.runtime.watch(&run.key(), 0, Until::Rest).await {
            Ok(watch) => sse::stream(&app, caller, name, watch),
            Err(error) => Err(error.into()),
        }
    };
    // Also with an error: the run is there, and can be watched.
    let mut response = told.unwrap_or_else(|error| error.of_run(name).into_response());
    let place = format!("/api/threads/{}/runs/{}/events", encoded(name), run.id());
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// What came of a run, as JSON.
async fn outcome(app: &App, agent: &str, run: &RunHandle) -> Result<Response, ApiError> {
    let came = ask::wait(app, agent, run).await?;
    let mut shown = json!(api::Run::of(&came.row));
    if let (Some(turn), Some(shown)) = (came.turn, shown.as_object_mut())
        && let Ok(Value::Object(turn)) = serde_json::to_value(turn)
    {
        shown.extend(turn);
    }
    if let Some(waits) = came.waits {
        shown["questions"] = json!(waits.questions);
    }
    if came.row.status == Status::Paused {
        let asked = app.runtime.questions(&came.row.thread).await?;
        shown["questions"] = json!(api::Question::all(&asked));
    }
    Ok(json(shown))
}

/// What may follow the path of the list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    limit: Option<usize>,
    before: Option<String>,
}

/// `GET /api/threads/{thread}/runs`: newest first.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
    list: Result<Query<List>, QueryRejection>,
) -> Result<Response, ApiError> {
    let thread = ask::thread(&caller, &path(name)?)?;
    let List { limit, before } = query(list)?;
    let before = before.map(|before| before.parse()).transpose().map_err(|_| {
        ApiError::because(
            Code::BadInput,
            "`before` is not the id of a run",
            "`before`가 실행의 id가 아닙니다",
        )
    })?;
    let store = app.runtime.store();
    store.thread(&thread).await.map_err(EngineError::from)?;
    let filter = RunFilter {
        thread: Some(thread.thread),
        before,
        limit: limit.unwrap_or(50).clamp(1, MOST),
        ..RunFilter::default()
    };
    let runs = store.runs(&caller.tenant, &filter).await.map_err(EngineError::from)?;
    let runs: Vec<api::Run> = runs.iter().map(api::Run::of).collect();
    Ok(json(json!({ "runs": runs })))
}

/// `GET /api/threads/{thread}/runs/{run}`
pub(super) async fn one(
    State(app): State<App>,
    caller: Caller,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, ApiError> {
    let (_, row) = run(&app, &caller, &path(names)?).await?;
    let mut shown = json!(api::Run::of(&row));
    if row.status == Status::Paused {
        let asked = app.runtime.questions(&row.thread).await?;
        shown["questions"] = json!(api::Question::all(&asked));
    }
    Ok(json(shown))
}

/// What may follow the path of the events.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    after: Option<u64>,
}

/// `GET /api/threads/{thread}/runs/{run}/events`: the events of a run, from the beginning or after a number.
/// `Last-Event-ID`, which a browser sends when it comes back, beats `?after=`.
pub(super) async fn events(
    State(app): State<App>,
    caller: Caller,
    names: Result<Path<(String, String)>, PathRejection>,
    after: Result<Query<After>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let After { after } = query(after)?;
    let after = last_event_id(&headers)?.or(after).unwrap_or(0);
    if after > MOST_EVENTS {
        return Err(ApiError::because(
            Code::BadInput,
            "no run has that many events",
            "이벤트가 그렇게 많은 실행은 없습니다",
        ));
    }
    let (key, row) = run(&app, &caller, &path(names)?).await?;
    let watch = app.runtime.watch(&key, after, Until::Rest).await?;
    sse::stream(&app, caller, row.thread.thread.as_str(), watch)
}

/// `POST /api/threads/{thread}/runs/{run}/resume`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resume {
    answers: BTreeMap<String, Value>,
}

/// `POST /api/threads/{thread}/runs/{run}/resume`: answers what the run asks. Each question is answered once.
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    names: Result<Path<(String, String)>, PathRejection>,
    once: Once,
    request: Request,
) -> Result<Response, ApiError> {
    let names = path(names)?;
    let (Resume { answers }, bytes) = body::json(request, &app.limits).await?;
    if answers.is_empty() {
        return Err(ApiError::because(Code::BadInput, "`answers` is empty", "`answers`가 비어 있습니다"));
    }
    once.with(&bytes)
        .answer(async move {
            let (key, row) = run(&app, &caller, &names).await?;
            let answers = fitting(&app, &row, answers).await?;
            app.runtime.answer(&key, &answers).await?;
            changed(&app.runtime.store().run(&key).await.map_err(EngineError::from)?)
        })
        .await
}

/// The answers as the questions want them. Inside, whatever is not a clear yes is a no for good, so what fits no question
/// of the kind is refused at the door, and the question stays open.
async fn fitting(
    app: &App,
    row: &RunRow,
    mut answers: BTreeMap<String, Value>,
) -> Result<BTreeMap<String, Value>, ApiError> {
    for (of, asked) in app.runtime.questions(&row.thread).await? {
        if of.run != row.run {
            continue;
        }
        let Some(answer) = answers.get_mut(&asked.id) else { continue };
        if asked.kind == AskKind::EffectUnknown {
            settles(&asked.id, answer)?;
            continue;
        }
        if asked.question["type"] != "approve_tool" {
            continue;
        }
        let approves = match answer {
            Value::Bool(approves) => Some(*approves),
            Value::Object(fields)
                if fields.iter().all(|(name, value)| name == "approve" || is_note(name, value)) =>
            {
                fields.get("approve").and_then(Value::as_bool)
            }
            _ => None,
        };
        let Some(approves) = approves else {
            return Err(ApiError::because(
                Code::BadInput,
                format!(
                    "`{}` takes `{{\"approve\": true}}` or `{{\"approve\": false}}`, or `true` or `false` alone; it is still open",
                    asked.id
                ),
                format!(
                    "`{}`에는 `{{\"approve\": true}}`나 `{{\"approve\": false}}`, 또는 `true`나 `false`로 답합니다. 물음은 아직 열려 있습니다",
                    asked.id
                ),
            ));
        };
        // What the person noted stays in the log.
        let note = answer.get("note").filter(|note| note.as_str() != Some("")).cloned();
        *answer = json!({ "approve": approves });
        if let Some(note) = note {
            answer["note"] = note;
        }
    }
    Ok(answers)
}

/// Whether it says what became of a call.
fn settles(id: &str, answer: &Value) -> Result<(), ApiError> {
    let fields = answer.as_object().filter(|fields| fields.len() == 1);
    let clear = fields.is_some_and(|fields| {
        fields.contains_key("result") || fields.get("retry") == Some(&Value::Bool(true))
    });
    if clear {
        return Ok(());
    }
    Err(ApiError::because(
        Code::BadInput,
        format!(
            "`{id}` takes `{{\"result\": …}}` if the call happened, or `{{\"retry\": true}}` if it did not and may be made; it is still open"
        ),
        format!(
            "`{id}`에는 호출이 일어났으면 `{{\"result\": …}}`, 일어나지 않아 불러도 되면 `{{\"retry\": true}}`로 답합니다. 물음은 아직 열려 있습니다"
        ),
    ))
}

/// Whether this field of an answer is what a person wrote beside it, as the page lets them.
fn is_note(name: &str, value: &Value) -> bool {
    name == "note" && value.as_str().is_some_and(|note| note.len() <= NOTE)
}

/// `POST /api/threads/{thread}/runs/{run}/cancel`: ends the run. Durable when answered.
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    names: Result<Path<(String, String)>, PathRejection>,
    once: Once,
    request: Request,
) -> Result<Response, ApiError> {
    let names = path(names)?;
    let bytes = body::bytes(request, &app.limits).await?;
    once.with(&bytes)
        .answer(async move {
            let (key, _) = run(&app, &caller, &names).await?;
            let mut row = app.runtime.cancel(&key).await?;
            if !row.status.is_end() {
                // Whoever works on it hears of it at once, or when its lease is over.
                let run = app.runtime.run(&key).await?;
                if let Ok(ended) = tokio::time::timeout(CANCEL, run.wait()).await {
                    row = ended?;
                }
            }
            let (status, mut shown) = changed(&row)?;
            if !row.status.is_end() {
                shown["cancel_requested"] = true.into();
            }
            Ok((status, shown))
        })
        .await
}

/// `POST /api/threads/{thread}/runs/{run}/retry`: goes on with a failed run where it stopped.
pub(super) async fn retry(
    State(app): State<App>,
    caller: Caller,
    names: Result<Path<(String, String)>, PathRejection>,
    once: Once,
    request: Request,
) -> Result<Response, ApiError> {
    let names = path(names)?;
    let bytes = body::bytes(request, &app.limits).await?;
    once.with(&bytes)
        .answer(async move {
            let (key, _) = run(&app, &caller, &names).await?;
            app.runtime.retry(&key).await?;
            changed(&app.runtime.store().run(&key).await.map_err(EngineError::from)?)
        })
        .await
}

/// What a change of a run is answered with.
fn changed(row: &RunRow) -> Result<(StatusCode, Value), ApiError> {
    Ok((StatusCode::OK, json!(api::Run::of(row))))
}

/// The run of this name on the thread of that name, both the caller's.
async fn run(app: &App, caller: &Caller, names: &(String, String)) -> Result<(RunKey, RunRow), ApiError> {
    let (thread_name, run) = names;
    let thread: ThreadKey = ask::thread(caller, thread_name)?;
    let run: RunId = run.parse().map_err(|_| Code::BadPath)?;
    let key = thread.run(run);
    let row = app.runtime.store().run(&key).await.map_err(EngineError::from)?;
    if row.thread != thread {
        return Err(EngineError::from(StoreError::no_run(&key)).into());
    }
    Ok((key, row))
}

/// An empty one means from the beginning, as a browser sends before it saw an event.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        ApiError::because(
            Code::BadHeader,
            "`Last-Event-ID` is not a number",
            "`Last-Event-ID`가 숫자가 아닙니다",
        )
    })
}

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

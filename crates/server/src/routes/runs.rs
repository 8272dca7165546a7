//! Runs: start one and watch it or wait for it, come back to one, answer what it asks, end it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_agents::protocol::{EffectOutcomeAnswer, InterruptQuestion, ToolApprovalAnswer};
use doran_engine::QuestionKind;
use doran_engine::store::{IfBusy, RunFilter, RunRow, RunStatus, StoreError};
use doran_engine::{EngineError, RunHandle, RunId, RunKey, ThreadKey, WatchUntil};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApiRoute, json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request::{self, AgentRequest};
use crate::api::{self, StartRun};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::idempotency::{self, IdempotentRequest};
use crate::openapi::{IdempotencyEffect, Operation, OperationTag, count_schema};
use crate::{request_body, sse};

/// No run has more events; a larger number is a mistake.
const MAX_EVENT_NUMBER: u64 = 1 << 40;
/// The most bytes of a note beside an answer.
const MAX_NOTE_BYTES: usize = 4096;
/// The most runs a list gives.
const MAX_RUNS_PER_PAGE: usize = 200;
/// How long the end of a cancelled run is waited for.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::Runs, id, summary);
    vec![
        ApiRoute::get(
            "/api/threads/{thread}/runs",
            list_runs,
            operation("list_runs", "Lists the runs of a thread, newest first.")
                .query::<RunListQuery>()
                .returns::<api::RunList>(200, "The runs.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::post(
            "/api/threads/{thread}/runs",
            start_run,
            operation("start_run", "Sends a message to an agent.")
                .description(
                    "The message is on disk before the first byte of the response. Closing the connection changes nothing: `Location` is the path of the events to come back to. With `504` the run was started and continues; sending the message again would start another run.",
                )
                .query::<StartRunQuery>()
                .idempotent(IdempotencyEffect::SameRun)
                .body::<StartRun>()
                .streams::<api::RunEvent>("The events of the run or, with `wait`, the run and its answer.")
                .returns::<api::RunAnswer>(200, "The run and its answer.")
                .errors(&[
                    ApiErrorCode::UnknownAgent,
                    ApiErrorCode::Busy,
                    ApiErrorCode::NotFinished,
                    ApiErrorCode::DiskFull,
                ]),
        ),
        ApiRoute::get(
            "/api/threads/{thread}/runs/{run}",
            get_run,
            operation("get_run", "Returns a run.")
                .returns::<api::RunDetail>(200, "The run.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::get(
            "/api/threads/{thread}/runs/{run}/events",
            run_events,
            operation("run_events", "Streams the events of a run, from the first or after a number.")
                .query::<RunEventsQuery>()
                .header("Last-Event-ID", "The same as `after`. Browsers send it when they reconnect.", count_schema)
                .streams::<api::RunEvent>(
                    "The events of the run, numbered without gaps. `id` is the number to come back with.",
                )
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::post(
            "/api/threads/{thread}/runs/{run}/resume",
            resume_run,
            operation("resume_run", "Answers the open questions of a run.")
                .description(
                    "A question about a tool (`approve_tool`) takes `{\"approve\": true}` or `{\"approve\": false}`, or `true` or `false` alone. Any other answer is rejected with `400`, and the question stays open.",
                )
                .idempotent(IdempotencyEffect::SameResponse)
                .body::<ResumeRunBody>()
                .returns::<api::RunDetail>(200, "The run.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::post(
            "/api/threads/{thread}/runs/{run}/cancel",
            cancel_run,
            operation("cancel_run", "Cancels a run.")
                .idempotent(IdempotencyEffect::SameResponse)
                .ignored_body()
                .returns::<api::RunDetail>(200, "The run.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::post(
            "/api/threads/{thread}/runs/{run}/retry",
            retry_run,
            operation("retry_run", "Continues a failed run where it stopped.")
                .idempotent(IdempotencyEffect::SameResponse)
                .ignored_body()
                .returns::<api::RunDetail>(200, "The run.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        ),
    ]
}

/// What may follow the path when a run is started.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StartRunQuery {
    /// Whether to wait for the end of the run instead of streaming its events.
    #[serde(default)]
    wait: bool,
}

/// `POST /api/threads/{thread}/runs`: asks an agent. The input is on disk before the first byte of the answer, which is
/// a stream of events or, with `?wait=true`, what came of the run.
async fn start_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    wait: Result<Query<StartRunQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let thread = agent_request::thread_key(&caller, &path_value(name)?)?;
    let StartRunQuery { wait } = query_value(wait)?;
    let key = idempotency::idempotency_key(request.headers())?;
    let (asked, bytes) = request_body::read_json::<StartRun>(request, &app.limits).await?;
    if asked.message.trim().is_empty() {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`message` is empty",
            "`message`가 비어 있습니다",
        ));
    }
    let ask = AgentRequest {
        agent: &asked.agent,
        thread: thread.clone(),
        message: &asked.message,
        options: asked.options(),
        if_busy: asked.if_busy.unwrap_or(IfBusy::Reject),
        idempotency: key.map(|key| (key, &bytes[..])),
    };
    let run = agent_request::start_agent_run(&app, &ask).await?;
    let name = thread.thread.as_str();
    let told = if wait {
        run_outcome_response(&app, &asked.agent, &run).await
    } else {
        match app.runtime.watch(&run.key(), 0, WatchUntil::RunEndedOrPaused).await {
            Ok(watch) => sse::stream_run_events(&app, caller, name, &asked.agent, watch),
            Err(error) => Err(error.into()),
        }
    };
    // Also with an error: the run is there, and can be watched.
    let mut response = told.unwrap_or_else(|error| error.for_started_run(name).into_response());
    let place = format!("/api/threads/{}/runs/{}/events", percent_encode(name), run.id());
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// What came of a run, as JSON.
async fn run_outcome_response(app: &ServerApp, agent: &str, run: &RunHandle) -> Result<Response, ApiError> {
    let came = agent_request::wait_for_run(app, agent, run).await?;
    let questions = match came.row.status {
        RunStatus::Paused => Some(open_questions(app, &came.row).await?),
        _ => came.blocked_by.map(|waits| waits.questions),
    };
    Ok(json_response(api::RunAnswer { run: api::RunInfo::from_row(&came.row), turn: came.turn, questions }))
}

async fn open_questions(app: &ServerApp, row: &RunRow) -> Result<Vec<api::QuestionInfo>, ApiError> {
    Ok(api::QuestionInfo::from_log_all(&app.runtime.open_questions(&row.thread).await?))
}

/// What may follow the path of the list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunListQuery {
    /// The maximum number of runs. The server returns at most 200.
    limit: Option<usize>,
    /// Only runs before the run with this id.
    before: Option<String>,
}

/// `GET /api/threads/{thread}/runs`: newest first.
async fn list_runs(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    list: Result<Query<RunListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let thread = agent_request::thread_key(&caller, &path_value(name)?)?;
    let RunListQuery { limit, before } = query_value(list)?;
    let before = before.map(|before| before.parse()).transpose().map_err(|_| {
        ApiError::with_message(
            ApiErrorCode::BadInput,
            "`before` is not the id of a run",
            "`before`가 실행의 id가 아닙니다",
        )
    })?;
    app.runtime.thread_row(&thread).await?;
    let filter = RunFilter {
        thread: Some(thread.thread),
        before,
        limit: limit.unwrap_or(50).clamp(1, MAX_RUNS_PER_PAGE),
        ..RunFilter::default()
    };
    let runs = app.runtime.list_runs(&caller.tenant, &filter).await?;
    Ok(json_response(api::RunList { runs: runs.iter().map(api::RunInfo::from_row).collect() }))
}

/// `GET /api/threads/{thread}/runs/{run}`
async fn get_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, ApiError> {
    let (_, row) = load_run(&app, &caller, &path_value(names)?).await?;
    let mut shown = api::RunDetail::from_row(&row);
    if row.status == RunStatus::Paused {
        shown.questions = Some(open_questions(&app, &row).await?);
    }
    Ok(json_response(shown))
}

/// What may follow the path of the events.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunEventsQuery {
    /// Only events after this number.
    after: Option<u64>,
}

/// `GET /api/threads/{thread}/runs/{run}/events`: the events of a run, from the beginning or after a number.
/// `Last-Event-ID`, which a browser sends when it comes back, beats `?after=`.
async fn run_events(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
    after: Result<Query<RunEventsQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let RunEventsQuery { after } = query_value(after)?;
    let after = last_event_id(&headers)?.or(after).unwrap_or(0);
    if after > MAX_EVENT_NUMBER {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "no run has that many events",
            "이벤트가 그렇게 많은 실행은 없습니다",
        ));
    }
    let (key, row) = load_run(&app, &caller, &path_value(names)?).await?;
    let watch = app.runtime.watch(&key, after, WatchUntil::RunEndedOrPaused).await?;
    sse::stream_run_events(&app, caller, row.thread.thread.as_str(), &row.graph, watch)
}

/// Answers to questions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = resume_example())]
struct ResumeRunBody {
    /// The answers, by the id of the question. There must be at least one.
    #[schemars(extend("minProperties" = 1))]
    answers: BTreeMap<String, Value>,
}

fn resume_example() -> Value {
    json!({ "answers": { "5.0:ask#0": { "approve": true } } })
}

/// `POST /api/threads/{thread}/runs/{run}/resume`: answers what the run asks. Each question is answered once.
async fn resume_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
    once: IdempotentRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let names = path_value(names)?;
    let (ResumeRunBody { answers }, bytes) = request_body::read_json(request, &app.limits).await?;
    if answers.is_empty() {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`answers` is empty",
            "`answers`가 비어 있습니다",
        ));
    }
    once.with_body(&bytes)
        .respond_once(async move {
            let (key, row) = load_run(&app, &caller, &names).await?;
            let answers = validate_answers(&app, &row, answers).await?;
            app.runtime.answer(&key, &answers).await?;
            run_response(&app.runtime.run_row(&key).await?)
        })
        .await
}

/// The answers as the questions want them. Inside, whatever is not a clear yes is a no for good, so what fits no question
/// of the kind is refused at the door, and the question stays open.
async fn validate_answers(
    app: &ServerApp,
    row: &RunRow,
    mut answers: BTreeMap<String, Value>,
) -> Result<BTreeMap<String, Value>, ApiError> {
    for (of, asked) in app.runtime.open_questions(&row.thread).await? {
        if of.run != row.run {
            continue;
        }
        let Some(answer) = answers.get_mut(&asked.id) else { continue };
        if asked.kind == QuestionKind::EffectUnknown {
            check_effect_answer(&asked.id, answer)?;
            continue;
        }
        if !InterruptQuestion::from_json(&asked.question).is_tool_approval() {
            continue;
        }
        let Some(approval) = read_approval(answer) else {
            return Err(ApiError::with_message(
                ApiErrorCode::BadInput,
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
        *answer = approval.to_json();
    }
    Ok(answers)
}

/// Whether it says what became of a call.
fn check_effect_answer(id: &str, answer: &Value) -> Result<(), ApiError> {
    if let Ok(EffectOutcomeAnswer::Result(_) | EffectOutcomeAnswer::Retry(true)) =
        EffectOutcomeAnswer::deserialize(answer)
    {
        return Ok(());
    }
    Err(ApiError::with_message(
        ApiErrorCode::BadInput,
        format!(
            "`{id}` takes `{{\"result\": …}}` if the call happened, or `{{\"retry\": true}}` if it did not and may be made; it is still open"
        ),
        format!(
            "`{id}`에는 호출이 일어났으면 `{{\"result\": …}}`, 일어나지 않아 불러도 되면 `{{\"retry\": true}}`로 답합니다. 물음은 아직 열려 있습니다"
        ),
    ))
}

/// A clear yes or no, with what the person wrote beside it, as the page lets them; or `true` or `false` alone.
fn read_approval(answer: &Value) -> Option<ToolApprovalAnswer> {
    if let Value::Bool(approve) = answer {
        return Some(ToolApprovalAnswer { approve: *approve, note: None });
    }
    let ToolApprovalAnswer { approve, note } = ToolApprovalAnswer::from_json(answer)?;
    let note = note.filter(|note| !note.is_empty());
    let fits = note.as_ref().is_none_or(|note| note.len() <= MAX_NOTE_BYTES);
    fits.then_some(ToolApprovalAnswer { approve, note })
}

/// `POST /api/threads/{thread}/runs/{run}/cancel`: ends the run. Durable when answered.
async fn cancel_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
    once: IdempotentRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let names = path_value(names)?;
    let bytes = request_body::read_bytes(request, &app.limits).await?;
    once.with_body(&bytes)
        .respond_once(async move {
            let (key, _) = load_run(&app, &caller, &names).await?;
            let mut row = app.runtime.cancel(&key).await?;
            if !row.status.is_end() {
                // Whoever works on it hears of it at once, or when its lease is over.
                let run = app.runtime.run_handle(&key).await?;
                if let Ok(ended) = tokio::time::timeout(CANCEL_WAIT, run.wait()).await {
                    row = ended?;
                }
            }
            let shown =
                api::RunDetail { cancel_requested: !row.status.is_end(), ..api::RunDetail::from_row(&row) };
            Ok((StatusCode::OK, json!(shown)))
        })
        .await
}

/// `POST /api/threads/{thread}/runs/{run}/retry`: goes on with a failed run where it stopped.
async fn retry_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
    once: IdempotentRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let names = path_value(names)?;
    let bytes = request_body::read_bytes(request, &app.limits).await?;
    once.with_body(&bytes)
        .respond_once(async move {
            let (key, _) = load_run(&app, &caller, &names).await?;
            app.runtime.retry(&key).await?;
            run_response(&app.runtime.run_row(&key).await?)
        })
        .await
}

/// What a change of a run is answered with.
fn run_response(row: &RunRow) -> Result<(StatusCode, Value), ApiError> {
    Ok((StatusCode::OK, json!(api::RunDetail::from_row(row))))
}

/// The run of this name on the thread of that name, both the caller's.
async fn load_run(
    app: &ServerApp,
    caller: &ApiCaller,
    names: &(String, String),
) -> Result<(RunKey, RunRow), ApiError> {
    let (thread_name, run) = names;
    let thread: ThreadKey = agent_request::thread_key(caller, thread_name)?;
    let run: RunId = run.parse().map_err(|_| ApiErrorCode::BadPath)?;
    let key = thread.run(run);
    let row = app.runtime.run_row(&key).await?;
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
        ApiError::with_message(
            ApiErrorCode::BadHeader,
            "`Last-Event-ID` is not a number",
            "`Last-Event-ID`가 숫자가 아닙니다",
        )
    })
}

/// Encodes a name for a path or a query.
pub(super) fn percent_encode(name: &str) -> String {
    utf8_percent_encode(name, URL_RESERVED).to_string()
}

/// Everything but the unreserved characters of RFC 3986.
const URL_RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

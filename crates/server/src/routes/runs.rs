//! Runs: start, watch, list, answer, cancel and retry.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_agents::AskOptions;
use doran_agents::protocol::{EffectOutcomeAnswer, InterruptQuestion, ToolApprovalAnswer};
use doran_agents::tools::ToolCallReason;
use doran_engine::QuestionKind;
use doran_engine::store::{IfBusy, RunFilter, RunRow, RunStatus, Seq, StoreError};
use doran_engine::{Acknowledgement, EngineError, MisuseError, RunHandle, RunId, RunKey, ThreadKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fork::check_fork_entry;
use super::threads::check_seq;
use super::{ApiRoute, json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request::{self, AgentRequest, RunPlacement};
use crate::api::{self, StartRun};
use crate::authentication::ApiCaller;
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::idempotency::{self, IdempotentRequest};
use crate::openapi::{IdempotencyEffect, Operation, OperationTag, count_schema};
use crate::request_body;
use crate::run_images::check_images;
use crate::sse::{self, WatchedRun};
use crate::thread_settings::check_model_option;
use crate::url_encoding::percent_encode;

/// No run has more events; a larger number is a mistake.
const MAX_EVENT_NUMBER: u64 = 1 << 40;
/// The most bytes of a note beside an answer.
const MAX_NOTE_BYTES: usize = 4096;
/// The most runs a list gives.
const MAX_RUNS_PER_PAGE: usize = 200;
/// The most runs that one request for those of an agent looks at.
const MAX_RUNS_SEARCHED: usize = 2000;

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::Runs, id, summary);
    vec![
        ApiRoute::get(
            "/api/runs",
            list_all_runs,
            operation("list_all_runs", "Lists the runs of all threads, newest first.")
                .query::<AllRunsQuery>()
                .returns::<api::RunPage>(200, "A page of runs."),
        ),
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
                    ApiErrorCode::BudgetSpent,
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
                    "A question about a tool (`approve_tool`) takes `{\"approve\": true}` or `{\"approve\": false}`, or `true` or `false` alone. An approval may also have `always` (further calls of the tool in this thread are not asked about) and `arguments` (the tool is called with these instead). Any other answer is rejected with `400`, and the question stays open.",
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
/// a stream of events or, with `?wait=true`, the result of the run.
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
    let (body, bytes) = request_body::read_json::<StartRun>(request, &app.limits).await?;
    if body.input.is_some() && !(body.message.is_empty() && body.options() == AskOptions::default()) {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`input` comes without `message`, `contract_id`, `collection`, `model`, `document` and `images`",
            "`input`은 `message`, `contract_id`, `collection`, `model`, `document`, `images` 없이 보냅니다",
        ));
    }
    if body.input.is_none() && body.message.trim().is_empty() && body.images.is_empty() {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`message` is empty",
            "`message`가 비어 있습니다",
        ));
    }
    if let Some(model) = &body.model {
        check_model_option(&app, model)?;
    }
    let options = body.options();
    if !options.images.is_empty() {
        let agent = agent_request::find_agent(&app, &body.agent)?;
        check_images(&app, &thread, &agent, &options).await?;
    }
    let ask = AgentRequest {
        agent: &body.agent,
        thread: thread.clone(),
        message: &body.message,
        options,
        if_busy: body.if_busy.unwrap_or(IfBusy::Reject),
        acknowledge: if wait { Acknowledgement::Rest } else { Acknowledgement::Input },
        placement: RunPlacement {
            from: check_branch_point(&app, &thread, body.from).await?,
            pause_before: body.pause_before.clone(),
            pause_after: body.pause_after.clone(),
            ..RunPlacement::default()
        },
        idempotency: key.map(|key| (key, &bytes[..])),
        key: caller.key.clone(),
    };
    let run = match body.input.clone() {
        Some(input) => {
            let agent = agent_request::find_agent(&app, &body.agent)?;
            agent_request::start_run_with_input(&app, &agent, &ask, &input.into(), &agent.name).await?
        }
        None => agent_request::start_agent_run(&app, &ask).await?,
    };
    let name = thread.thread.as_str();
    let responded = if wait {
        run_outcome_response(&app, &body.agent, &run).await
    } else {
        match app.runtime.run_row(&run.key()).await {
            Ok(row) => {
                let watched = WatchedRun { row, after: 0, started: Some(&run) };
                sse::stream_run_events(&app, caller, watched).await
            }
            Err(error) => Err(error.into()),
        }
    };
    // Also with an error: the run is there, and can be watched.
    run.wait_until_accepted().await?;
    let mut response = responded.unwrap_or_else(|error| error.for_started_run(name).into_response());
    let place = format!("/api/threads/{}/runs/{}/events", percent_encode(name), run.id());
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Where a branch may begin: between two steps of the thread, or at its beginning.
async fn check_branch_point(
    app: &ServerApp,
    thread: &ThreadKey,
    from: Option<Seq>,
) -> Result<Option<Seq>, ApiError> {
    let Some(from) = from.map(|from| check_seq(Some(from))).transpose()? else { return Ok(None) };
    if from > 0 {
        let row = app.runtime.thread_row(thread).await?;
        check_fork_entry(app, &row, from).await?;
    }
    Ok(Some(from))
}

/// The result of a run, as JSON.
async fn run_outcome_response(app: &ServerApp, agent: &str, run: &RunHandle) -> Result<Response, ApiError> {
    let outcome = agent_request::wait_for_run(app, agent, run).await?;
    let questions = match outcome.row.status {
        RunStatus::Paused => Some(open_questions(app, &outcome.row).await?),
        _ => outcome.blocked_by.map(|waits| waits.questions),
    };
    Ok(json_response(api::RunAnswer {
        run: api::RunInfo::of_server(&outcome.row, app),
        turn: outcome.turn,
        questions,
    }))
}

async fn open_questions(app: &ServerApp, row: &RunRow) -> Result<Vec<api::QuestionInfo>, ApiError> {
    Ok(api::QuestionInfo::from_log_all(&app.runtime.open_questions(&row.thread).await?))
}

/// What may follow the path of the list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunListQuery {
    /// The maximum number of runs, at least 1. The server returns at most 200.
    limit: Option<NonZeroUsize>,
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
    let before = before.as_deref().map(parse_run_id).transpose()?;
    app.runtime.thread_row(&thread).await?;
    let filter = RunFilter {
        thread: Some(thread.thread),
        before,
        limit: limit.map_or(50, NonZeroUsize::get).min(MAX_RUNS_PER_PAGE),
        ..RunFilter::default()
    };
    let runs = app.runtime.list_runs(&caller.tenant, &filter).await?;
    let runs = runs.iter().map(|row| api::RunInfo::of_server(row, &app)).collect();
    Ok(json_response(api::RunList { runs }))
}

fn parse_run_id(before: &str) -> Result<RunId, ApiError> {
    before.parse().map_err(|_| {
        ApiError::with_message(
            ApiErrorCode::BadInput,
            "`before` is not the id of a run",
            "`before`가 실행의 id가 아닙니다",
        )
    })
}

/// What may follow the path of the runs of all threads.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AllRunsQuery {
    /// Only runs of this agent.
    agent: Option<String>,
    /// Only runs with this status.
    status: Option<RunStatus>,
    /// The maximum number of runs, at least 1. The server returns at most 200.
    limit: Option<NonZeroUsize>,
    /// `next` of the page before: only runs before the run with this id.
    before: Option<String>,
}

/// `GET /api/runs`: newest first. One request looks at so many runs: `next` goes on there, also when none was found yet.
async fn list_all_runs(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    list: Result<Query<AllRunsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let AllRunsQuery { agent, status, limit, before } = query_value(list)?;
    let limit = limit.map_or(50, NonZeroUsize::get).min(MAX_RUNS_PER_PAGE);
    let mut before = before.as_deref().map(parse_run_id).transpose()?;
    let (mut runs, mut searched) = (Vec::new(), 0);
    let next = 'looking: loop {
        let filter = RunFilter { thread: None, status, before, limit: MAX_RUNS_PER_PAGE };
        let page = app.runtime.list_runs(&caller.tenant, &filter).await?;
        let is_last = page.len() < MAX_RUNS_PER_PAGE;
        for row in page {
            if runs.len() == limit || searched == MAX_RUNS_SEARCHED {
                break 'looking before;
            }
            searched += 1;
            before = Some(row.run);
            if agent.as_ref().is_none_or(|agent| row.graph == *agent) {
                runs.push(api::RunInfo::of_server(&row, &app));
            }
        }
        if is_last {
            break None;
        }
    };
    Ok(json_response(api::RunPage { runs, next: next.map(|run| run.to_string()) }))
}

/// `GET /api/threads/{thread}/runs/{run}`
async fn get_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, ApiError> {
    let (_, row) = load_run(&app, &caller, &path_value(names)?).await?;
    let mut shown = api::RunDetail::of_server(&row, &app);
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
    let (_, row) = load_run(&app, &caller, &path_value(names)?).await?;
    sse::stream_run_events(&app, caller, WatchedRun { row, after, started: None }).await
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
            run_response(&app, &key).await
        })
        .await
}

/// The answers in the form of their questions. The engine takes any unclear answer as a denial, so answers that do not fit
/// are rejected here, and so are answers to a run whose agent is not on this server. The question stays open.
pub(super) async fn validate_answers(
    app: &ServerApp,
    row: &RunRow,
    mut answers: BTreeMap<String, Value>,
) -> Result<BTreeMap<String, Value>, ApiError> {
    if !app.has_agent(&row.graph) {
        return Err(EngineError::from(MisuseError::GraphOfRunMissing(row.graph.clone())).into());
    }
    for (of, pending) in app.runtime.open_questions(&row.thread).await? {
        if of.run != row.run {
            continue;
        }
        let Some(answer) = answers.get_mut(&pending.id) else { continue };
        if pending.kind == QuestionKind::EffectUnknown {
            check_effect_answer(&pending.id, answer)?;
            continue;
        }
        let InterruptQuestion::ApproveTool { why, .. } = InterruptQuestion::from_json(&pending.question)
        else {
            continue;
        };
        let Some(approval) = read_approval(answer) else {
            return Err(ApiError::with_message(
                ApiErrorCode::BadInput,
                format!(
                    "`{}` takes `{{\"approve\": true}}` or `{{\"approve\": false}}`, or `true` or `false` alone; an approval may have `always` and `arguments`; it is still open",
                    pending.id
                ),
                format!(
                    "`{}`에는 `{{\"approve\": true}}`나 `{{\"approve\": false}}`, 또는 `true`나 `false`로 답합니다. 승인에는 `always`와 `arguments`를 더할 수 있습니다. 물음은 아직 열려 있습니다",
                    pending.id
                ),
            ));
        };
        if approval.always && why != ToolCallReason::Policy {
            return Err(ApiError::with_message(
                ApiErrorCode::BadInput,
                format!(
                    "`{}` cannot be answered with `always`: the thread has read text from outside; it is still open",
                    pending.id
                ),
                format!(
                    "`{}`에는 `always`로 답할 수 없습니다. 밖에서 온 글을 읽은 대화입니다. 물음은 아직 열려 있습니다",
                    pending.id
                ),
            ));
        }
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
        return Some(ToolApprovalAnswer { approve: *approve, ..ToolApprovalAnswer::default() });
    }
    let answer = ToolApprovalAnswer::from_json(answer)?;
    let note = answer.note.filter(|note| !note.is_empty());
    let fits = note.as_ref().is_none_or(|note| note.len() <= MAX_NOTE_BYTES)
        && answer.arguments.as_ref().is_none_or(Value::is_object)
        && (answer.approve || (!answer.always && answer.arguments.is_none()));
    fits.then_some(ToolApprovalAnswer { note, ..answer })
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
            let row = app.runtime.cancel(&key).await?;
            let row = agent_request::wait_for_cancel(&app, row).await?;
            let shown = api::RunDetail {
                cancel_requested: !row.status.is_end(),
                ..api::RunDetail::of_server(&row, &app)
            };
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
            let (key, row) = load_run(&app, &caller, &names).await?;
            if row.status == RunStatus::Cancelled {
                return Err(ApiError::with_message(
                    ApiErrorCode::Conflict,
                    "a cancelled run does not go on; start a new run with the same message",
                    "취소된 실행은 이어지지 않습니다. 같은 메시지로 새 실행을 시작하세요",
                ));
            }
            app.runtime.retry(&key).await?;
            run_response(&app, &key).await
        })
        .await
}

/// What a change of a run is answered with.
async fn run_response(app: &ServerApp, run: &RunKey) -> Result<(StatusCode, Value), ApiError> {
    let row = app.runtime.run_row(run).await?;
    Ok((StatusCode::OK, json!(api::RunDetail::of_server(&row, app))))
}

/// The run of this name on the thread of that name, both the caller's.
pub(super) async fn load_run(
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

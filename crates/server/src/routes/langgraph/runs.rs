//! Runs: start, wait, stream, join, list, cancel.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_agents::Agent;
use doran_engine::failure;
use doran_engine::runtime::StateEdit;
use doran_engine::store::{RunFilter, RunRow, RunStatus, StoreError};
use doran_engine::{EngineError, RunHandle, RunId, ThreadId, ThreadKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::messages::state_to_json;
use super::run_events::{StreamMode, failure_json, interrupts_json};
use super::run_request::{
    IfNotExists, MultitaskStrategy, OnCompletion, OnDisconnect, RunGraphBody, StartedGraphRun,
    start_graph_run,
};
use super::run_stream::{StreamOptions, StreamStart, stream_run};
use super::{
    DORAN_METADATA, hidden_metadata, invalid, is_rolled_back, load_thread, mark_rolled_back, read_body,
    reject_idempotency_key, run_assistant_id, time_text,
};
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::{json_response, path_value, query_value};
use crate::url_encoding::percent_encode;

/// The most runs that one request lists.
const MAX_RUNS: usize = 1000;
/// The most runs of one batch.
const MAX_BATCH: usize = 100;
/// How long the end of a cancelled run is waited for.
const CANCEL_WAIT: Duration = Duration::from_secs(30);

/// A run as LangGraph's clients read it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct LangGraphRun {
    /// The id of the run.
    run_id: String,
    /// Its thread.
    thread_id: String,
    /// Its assistant.
    assistant_id: String,
    /// Free pairs.
    metadata: Map<String, Value>,
    /// Where it stands.
    status: LangGraphRunStatus,
    /// What it was started with.
    kwargs: Map<String, Value>,
    /// What happened to the run before it.
    multitask_strategy: MultitaskStrategy,
    /// When it was accepted.
    created_at: String,
    /// When it last changed.
    updated_at: String,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LangGraphRunStatus {
    /// It waits for its turn.
    Pending,
    /// It is under way.
    Running,
    /// It failed.
    Error,
    /// It ended, or waits for an answer.
    Success,
    /// It took too long.
    Timeout,
    /// It was cancelled.
    Interrupted,
}

impl LangGraphRunStatus {
    fn from_row(row: &RunRow) -> Self {
        match row.status {
            RunStatus::Queued => Self::Pending,
            RunStatus::Running => Self::Running,
            // A run that waits did what it could; its thread is the one that is interrupted.
            RunStatus::Paused | RunStatus::Finished => Self::Success,
            RunStatus::Failed if row.error.as_ref().is_some_and(|error| error.code == failure::TIMEOUT) => {
                Self::Timeout
            }
            RunStatus::Failed => Self::Error,
            RunStatus::Cancelled => Self::Interrupted,
        }
    }
}

impl LangGraphRun {
    fn from_row(row: &RunRow) -> Self {
        let doran = row.metadata.get(DORAN_METADATA);
        let strategy =
            doran.and_then(|doran| serde_json::from_value(doran["multitask_strategy"].clone()).ok());
        Self {
            run_id: row.run.to_string(),
            thread_id: row.thread.thread.as_str().to_owned(),
            assistant_id: run_assistant_id(row),
            metadata: hidden_metadata(&row.metadata),
            status: LangGraphRunStatus::from_row(row),
            kwargs: Map::new(),
            multitask_strategy: strategy.unwrap_or_default(),
            created_at: time_text(row.created_at),
            updated_at: time_text(row.ended_at.or(row.started_at).unwrap_or(row.created_at)),
        }
    }
}

/// A run on a thread of this name.
async fn start_on_thread(
    app: &ServerApp,
    caller: &ApiCaller,
    id: &str,
    body: &RunGraphBody,
) -> Result<StartedGraphRun, ApiError> {
    if body.on_completion.is_some() {
        return Err(invalid(
            "`on_completion` is for runs without a thread",
            "`on_completion`은 대화 없이 시작하는 실행에만 씁니다",
        ));
    }
    let thread = match body.if_not_exists.unwrap_or_default() {
        IfNotExists::Create => agent_request::thread_key(caller, id)?,
        IfNotExists::Reject => load_thread(app, caller, id).await?.key,
    };
    start_graph_run(app, &thread, body, false).await
}

/// A run on a thread of its own, which is deleted when it is over and nobody reads it any more. The sender is dropped by
/// who reads.
async fn start_stateless(
    app: &ServerApp,
    caller: &ApiCaller,
    body: &RunGraphBody,
) -> Result<(StartedGraphRun, oneshot::Sender<()>), ApiError> {
    if body.if_not_exists.is_some() || body.multitask_strategy.is_some() {
        return Err(invalid(
            "`if_not_exists` and `multitask_strategy` are for runs on a thread",
            "`if_not_exists`와 `multitask_strategy`는 대화에서 시작하는 실행에만 씁니다",
        ));
    }
    let thread = ThreadKey { tenant: caller.tenant.clone(), thread: ThreadId::random() };
    let started = start_graph_run(app, &thread, body, true).await?;
    let (reading, read) = oneshot::channel();
    if body.on_completion.unwrap_or_default() == OnCompletion::Delete {
        let app = app.clone();
        let key = started.run.key();
        tokio::spawn(async move {
            drop(read.await);
            if let Ok(run) = app.runtime.run_handle(&key).await {
                drop(run.wait().await);
            }
            if let Err(error) = app.runtime.delete_thread(&thread).await {
                tracing::warn!(%error, "cannot delete the thread of a run without one");
            }
        });
    }
    Ok((started, reading))
}

/// The path of a run, for `Content-Location`.
fn run_path(row: &RunRow) -> String {
    format!("/threads/{}/runs/{}", percent_encode(row.thread.thread.as_str()), row.run)
}

/// Says where a run is, and where to come back to.
fn with_location(mut response: Response, row: &RunRow, come_back: Option<&str>) -> Response {
    let path = run_path(row);
    let headers = response.headers_mut();
    if let Ok(place) = HeaderValue::from_str(&path) {
        headers.insert(header::CONTENT_LOCATION, place);
    }
    let come_back = come_back.and_then(|name| HeaderValue::from_str(&format!("{path}/{name}")).ok());
    if let Some(place) = come_back {
        headers.insert(header::LOCATION, place);
    }
    response
}

/// `POST /threads/{thread}/runs`
pub(super) async fn create_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let started = start_on_thread(&app, &caller, &path_value(id)?, &body).await?;
    Ok(created(&started.row))
}

/// A run that was accepted. It may have begun by now, and its client is told that it is accepted.
fn created(row: &RunRow) -> Response {
    let run = LangGraphRun { status: LangGraphRunStatus::Pending, ..LangGraphRun::from_row(row) };
    with_location(json_response(run), row, None)
}

/// `POST /runs`
pub(super) async fn create_stateless_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let (started, _) = start_stateless(&app, &caller, &body).await?;
    Ok(created(&started.row))
}

/// `POST /runs/batch`
pub(super) async fn create_batch(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let bodies: Vec<RunGraphBody> = super::read_list(request, &app, MAX_BATCH).await?;
    let mut runs = Vec::new();
    for body in &bodies {
        let (started, _) = start_stateless(&app, &caller, body).await?;
        runs.push(LangGraphRun {
            status: LangGraphRunStatus::Pending,
            ..LangGraphRun::from_row(&started.row)
        });
    }
    Ok(json_response(runs))
}

/// `POST /threads/{thread}/runs/wait`
pub(super) async fn wait_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let started = start_on_thread(&app, &caller, &path_value(id)?, &body).await?;
    answer_with_values(&app, &body, &started).await
}

/// `POST /runs/wait`
pub(super) async fn wait_stateless_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let (started, _reading) = start_stateless(&app, &caller, &body).await?;
    answer_with_values(&app, &body, &started).await
}

async fn answer_with_values(
    app: &ServerApp,
    body: &RunGraphBody,
    started: &StartedGraphRun,
) -> Result<Response, ApiError> {
    let guard = CancelGuard::new(app, &started.row, body.on_disconnect.unwrap_or_default());
    let name = started.row.thread.thread.as_str();
    let values = wait_for_values(app, &started.agent, &started.run).await;
    guard.release();
    let response = values.map_or_else(|error| error.for_started_run(name).into_response(), json_response);
    Ok(with_location(response, &started.row, Some("join")))
}

/// What a run came to: the state, with what it waits for, or why it failed.
async fn wait_for_values(app: &ServerApp, agent: &Agent, run: &RunHandle) -> Result<Value, ApiError> {
    let waited = tokio::select! {
        biased;
        () = app.draining.cancelled() => return Err(ApiErrorCode::Stopping.into()),
        waited = tokio::time::timeout(app.limits.answer_timeout, run.wait()) => waited,
    };
    let row = match waited {
        Ok(row) => row?,
        Err(_) => return Err(ApiError::not_finished(run.thread().thread.as_str())),
    };
    if let Some(failure) = row.error.as_ref().filter(|_| row.status == RunStatus::Failed) {
        return Ok(json!({ "__error__": failure_json(failure) }));
    }
    let view = match app.runtime.view(&agent.name, &row.thread, row.last_seq).await {
        Ok(view) => view,
        // The run was cancelled before it began.
        Err(EngineError::Store(StoreError::NotFound { .. })) => return Ok(json!({})),
        Err(error) => return Err(error.into()),
    };
    let mut values = state_to_json(agent, view.state);
    if row.status == RunStatus::Paused {
        let questions: Vec<_> =
            app.runtime.open_questions(&row.thread).await?.into_iter().map(|(_, ask)| ask).collect();
        let asked = interrupts_json(&questions);
        if asked.as_array().is_some_and(|asked| !asked.is_empty()) {
            values["__interrupt__"] = asked;
        }
    }
    Ok(values)
}

/// Cancels a run when whoever waits for it goes away, if that was asked for.
pub(super) struct CancelGuard(Option<(ServerApp, RunRow)>);

impl CancelGuard {
    pub(super) fn new(app: &ServerApp, row: &RunRow, on_disconnect: OnDisconnect) -> Self {
        Self((on_disconnect == OnDisconnect::Cancel).then(|| (app.clone(), row.clone())))
    }

    /// The run is over, or somebody else's.
    pub(super) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        let Some((app, row)) = self.0.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = app.runtime.cancel(&row.key()).await {
                    tracing::warn!(%error, run = %row.run, "cannot cancel a run whose client went away");
                }
            });
        }
    }
}

/// `POST /threads/{thread}/runs/stream`
pub(super) async fn stream_new_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let started = start_on_thread(&app, &caller, &path_value(id)?, &body).await?;
    stream_started(&app, caller, &body, started, None)
}

/// `POST /runs/stream`
pub(super) async fn stream_stateless_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let (started, reading) = start_stateless(&app, &caller, &body).await?;
    stream_started(&app, caller, &body, started, Some(reading))
}

fn stream_started(
    app: &ServerApp,
    caller: ApiCaller,
    body: &RunGraphBody,
    started: StartedGraphRun,
    reading: Option<oneshot::Sender<()>>,
) -> Result<Response, ApiError> {
    let StartedGraphRun { agent, run, row, first_event } = started;
    let options = StreamOptions {
        modes: body.stream_modes(),
        subgraphs: body.stream_subgraphs.unwrap_or(false),
        start: StreamStart::AtEvent(first_event),
        on_disconnect: body.on_disconnect.unwrap_or_default(),
        reading,
    };
    let name = row.thread.thread.as_str().to_owned();
    let response = stream_run(app, caller, &agent, run, &row, options)
        .unwrap_or_else(|error| error.for_started_run(&name).into_response());
    Ok(with_location(response, &row, Some("stream")))
}

/// The run of this id on the thread of that id, both the caller's.
async fn load_run(app: &ServerApp, caller: &ApiCaller, ids: &(String, String)) -> Result<RunRow, ApiError> {
    let thread = load_thread(app, caller, &ids.0).await?;
    let run: RunId =
        ids.1.parse().map_err(|_| invalid("the run id is not a UUID", "실행의 id가 UUID가 아닙니다"))?;
    let row = app.runtime.run_row(&thread.key.run(run)).await?;
    if row.thread != thread.key || is_rolled_back(&thread, run) {
        return Err(EngineError::from(StoreError::no_run(&row.key())).into());
    }
    Ok(row)
}

/// What may follow the path of the runs of a thread.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunsQuery {
    /// The maximum number, at most 1000. The default is 10.
    #[serde(default)]
    limit: Option<usize>,
    /// How many to skip.
    #[serde(default)]
    offset: Option<usize>,
    /// Only those in this status.
    #[serde(default)]
    status: Option<LangGraphRunStatus>,
}

/// `GET /threads/{thread}/runs`: newest first.
pub(super) async fn list_runs(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<RunsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let thread = load_thread(&app, &caller, &path_value(id)?).await?;
    let RunsQuery { limit, offset, status } =
        query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    let limit = limit.unwrap_or(10).clamp(1, MAX_RUNS);
    let runs = thread_runs(&app, &thread.key).await?;
    let runs = runs.iter().filter(|row| !is_rolled_back(&thread, row.run));
    let runs = runs.filter(|row| status.is_none_or(|status| LangGraphRunStatus::from_row(row) == status));
    let page: Vec<LangGraphRun> =
        runs.skip(offset.unwrap_or(0)).take(limit).map(LangGraphRun::from_row).collect();
    Ok(json_response(page))
}

/// The newest runs of a thread.
async fn thread_runs(app: &ServerApp, thread: &ThreadKey) -> Result<Vec<RunRow>, ApiError> {
    let filter = RunFilter { thread: Some(thread.thread.clone()), limit: MAX_RUNS, ..RunFilter::default() };
    Ok(app.runtime.list_runs(&thread.tenant, &filter).await?)
}

/// `GET /threads/{thread}/runs/{run}`
pub(super) async fn get_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json_response(LangGraphRun::from_row(&load_run(&app, &caller, &path_value(ids)?).await?)))
}

/// `GET /threads/{thread}/runs/{run}/join`
pub(super) async fn join_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    ids: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<JoinQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let row = load_run(&app, &caller, &path_value(ids)?).await?;
    let JoinQuery { cancel_on_disconnect } =
        query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    let agent = agent_request::find_agent(&app, &row.graph)?;
    let run = app.runtime.run_handle(&row.key()).await?;
    let on_disconnect = disconnect_choice(cancel_on_disconnect.as_deref())?;
    let guard = CancelGuard::new(&app, &row, on_disconnect);
    let values = wait_for_values(&app, &agent, &run).await;
    guard.release();
    Ok(with_location(json_response(values?), &row, Some("join")))
}

/// What may follow the path of a run that is waited for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JoinQuery {
    /// Whether the run is cancelled when the client goes away.
    #[serde(default)]
    cancel_on_disconnect: Option<String>,
}

fn disconnect_choice(text: Option<&str>) -> Result<OnDisconnect, ApiError> {
    match text.map(str::to_lowercase).as_deref() {
        None | Some("false" | "0") => Ok(OnDisconnect::Continue),
        Some("true" | "1") => Ok(OnDisconnect::Cancel),
        Some(_) => Err(invalid(
            "`cancel_on_disconnect` is neither `true` nor `false`",
            "`cancel_on_disconnect`는 `true`나 `false`입니다",
        )),
    }
}

/// What may follow the path of the stream of a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct JoinStreamQuery {
    /// What is streamed; may come more than once. The default is what the run was started with.
    #[allow(dead_code, reason = "read from the raw query, where a name may come more than once")]
    stream_mode: Option<StreamMode>,
    /// Whether the run is cancelled when the client goes away.
    #[allow(dead_code, reason = "the same")]
    cancel_on_disconnect: Option<String>,
}

/// `GET /threads/{thread}/runs/{run}/stream`: the events of a run, from the first or after `Last-Event-ID`.
pub(super) async fn join_stream(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    ids: Result<Path<(String, String)>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let row = load_run(&app, &caller, &path_value(ids)?).await?;
    let agent = agent_request::find_agent(&app, &row.graph)?;
    let (mut modes, mut on_disconnect) = (BTreeSet::new(), OnDisconnect::Continue);
    for pair in query.as_deref().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
        match name {
            // Clients name it also if they do not choose.
            "stream_mode" if value.is_empty() => {}
            "stream_mode" => modes.extend(read_stream_modes(&value)?),
            "cancel_on_disconnect" => on_disconnect = disconnect_choice(Some(&value))?,
            other => {
                return Err(invalid(
                    &format!("`{other}` is not a parameter of this route"),
                    &format!("`{other}`은(는) 이 경로의 값이 아닙니다"),
                ));
            }
        }
    }
    if modes.is_empty() {
        let doran = row.metadata.get(DORAN_METADATA).map(|doran| doran["stream_mode"].clone());
        modes = doran.and_then(|modes| serde_json::from_value(modes).ok()).unwrap_or_default();
    }
    if modes.is_empty() {
        modes.insert(StreamMode::Values);
    }
    let start = StreamStart::from_headers(&headers)?;
    let options = StreamOptions { modes, subgraphs: false, start, on_disconnect, reading: None };
    let run = app.runtime.run_handle(&row.key()).await?;
    let response = stream_run(&app, caller, &agent, run, &row, options)?;
    Ok(with_location(response, &row, Some("stream")))
}

/// One mode, or a list of them as JSON.
fn read_stream_modes(text: &str) -> Result<Vec<StreamMode>, ApiError> {
    let read = if text.starts_with('[') {
        serde_json::from_str(text)
    } else {
        serde_json::from_value(Value::from(text)).map(|mode| vec![mode])
    };
    read.map_err(|error| invalid(&format!("`stream_mode`: {error}"), &format!("`stream_mode`: {error}")))
}

/// `DELETE /threads/{thread}/runs/{run}`: a run that is over is not listed any more. The log keeps what it did.
pub(super) async fn delete_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, ApiError> {
    let row = load_run(&app, &caller, &path_value(ids)?).await?;
    if !row.status.is_end() {
        return Err(ApiError::with_message(
            ApiErrorCode::Conflict,
            "the run is not over; cancel it first",
            "실행이 끝나지 않았습니다. 먼저 취소하세요",
        ));
    }
    mark_rolled_back(&app, &row.thread, row.run).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What may follow the path of a run that is cancelled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelQuery {
    /// Whether to wait for the end of the run: `1` or `true`.
    #[serde(default)]
    wait: Option<String>,
    /// What happens to what the run did.
    #[serde(default)]
    action: Option<CancelAction>,
}

/// What happens to what a cancelled run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum CancelAction {
    /// It stays.
    #[default]
    Interrupt,
    /// It is taken back: the thread stands where the run began, and the run is not listed any more.
    Rollback,
}

/// `POST /threads/{thread}/runs/{run}/cancel`
pub(super) async fn cancel_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    ids: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<CancelQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    reject_idempotency_key(&headers)?;
    let row = load_run(&app, &caller, &path_value(ids)?).await?;
    let CancelQuery { wait, action } =
        query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    let wait = disconnect_choice(wait.as_deref())
        .map_err(|_| invalid("`wait` is neither `1` nor `0`", "`wait`는 `1`이나 `0`입니다"))?
        == OnDisconnect::Cancel;
    if row.status.is_end() {
        return Err(ApiError::with_message(
            ApiErrorCode::NotFound,
            "the run is over already",
            "실행이 이미 끝났습니다",
        ));
    }
    cancel(&app, &row, action.unwrap_or_default(), wait).await?;
    let response = if wait { json_response(json!({})) } else { StatusCode::ACCEPTED.into_response() };
    Ok(with_location(response, &row, Some("join")))
}

/// Cancels a run. To take back what it did, its end has to be waited for.
async fn cancel(app: &ServerApp, row: &RunRow, action: CancelAction, wait: bool) -> Result<(), ApiError> {
    app.runtime.cancel(&row.key()).await?;
    if !wait && action == CancelAction::Interrupt {
        return Ok(());
    }
    let run = app.runtime.run_handle(&row.key()).await?;
    let ended = match tokio::time::timeout(CANCEL_WAIT, run.wait()).await {
        Ok(ended) => ended?,
        Err(_) => return Err(ApiError::not_finished(row.thread.thread.as_str())),
    };
    if action == CancelAction::Rollback {
        mark_rolled_back(app, &row.thread, row.run).await?;
        // A run that began left entries behind; the thread goes on from before them.
        if let Some(parent) = ended.parent_seq.filter(|_| ended.first_seq.is_some()) {
            app.runtime.edit(&row.graph, &row.thread, Some(parent), &StateEdit::default()).await?;
        }
    }
    Ok(())
}

/// Which runs are cancelled.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelRunsBody {
    /// The thread.
    thread_id: String,
    /// Their ids.
    run_ids: Vec<String>,
}

/// What may follow the path of runs that are cancelled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelRunsQuery {
    /// What happens to what the runs did.
    #[serde(default)]
    action: Option<CancelAction>,
}

/// `POST /runs/cancel`
pub(super) async fn cancel_runs(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    query: Result<Query<CancelRunsQuery>, QueryRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let CancelRunsQuery { action } =
        query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    let body: CancelRunsBody = read_body(request, &app).await?;
    let mut rows = Vec::new();
    for run in body.run_ids.into_iter().take(MAX_BATCH) {
        let row = load_run(&app, &caller, &(body.thread_id.clone(), run)).await?;
        rows.extend(Some(row).filter(|row| !row.status.is_end()));
    }
    for row in &rows {
        cancel(&app, row, action.unwrap_or_default(), false).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

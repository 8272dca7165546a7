//! Runs: list, read, join and remove.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_agents::Agent;
use doran_engine::failure;
use doran_engine::store::{RunFilter, RunRow, RunStatus, StoreError};
use doran_engine::{EngineError, RunHandle, RunId, ThreadKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::cancel::{CancelGuard, read_flag};
use super::metadata::{DORAN_METADATA, hidden_metadata, is_rolled_back, mark_rolled_back, run_assistant_id};
use super::run_events::{StreamMode, failure_json, interrupts_json};
use super::run_request::{MultitaskStrategy, OnDisconnect};
use super::run_stream::{StreamOptions, StreamStart, stream_run};
use super::thread_state::load_values;
use super::times::time_text;
use super::{FOUND, invalid, load_thread, operation, page_size};
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::text_schema;
use crate::routes::{ApiRoute, json_response, path_value, query_value};
use crate::stored_json::read_stored;
use crate::url_encoding::percent_encode;

/// The most runs of a thread that are listed.
const MAX_RUNS: usize = 1000;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get(
            "/threads/{thread}/runs",
            list_runs,
            operation("langgraph_list_runs", "Lists the runs of a thread, newest first.")
                .query::<RunsQuery>()
                .returns::<Vec<LangGraphRun>>(200, "The runs.")
                .errors(&FOUND),
        ),
        ApiRoute::get(
            "/threads/{thread}/runs/{run}",
            get_run,
            operation("langgraph_get_run", "Returns a run.")
                .returns::<LangGraphRun>(200, "The run.")
                .errors(&FOUND),
        ),
        ApiRoute::delete(
            "/threads/{thread}/runs/{run}",
            delete_run,
            operation("langgraph_delete_run", "Removes a run that is over from the list.")
                .returns_nothing("It is not listed any more.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict]),
        ),
        ApiRoute::get(
            "/threads/{thread}/runs/{run}/join",
            join_run,
            operation("langgraph_join_run", "Waits for a run and returns the state that it ends with.")
                .query::<JoinQuery>()
                .returns::<Map<String, Value>>(200, "The state, with `__interrupt__` or `__error__`.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::NotFinished]),
        ),
        ApiRoute::get(
            "/threads/{thread}/runs/{run}/stream",
            join_stream,
            operation("langgraph_join_stream", "Streams the events of a run, from the first or after one.")
                .query::<JoinStreamQuery>()
                .header(
                    "Last-Event-ID",
                    "The id of the last event that the client has; `-1` for none.",
                    text_schema,
                )
                .streams_events("The events of the run.")
                .errors(&FOUND),
        ),
    ]
}

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
    /// A run that was accepted. It may have begun by now, and its client is told that it is accepted.
    pub(super) fn accepted(row: &RunRow) -> Self {
        Self { status: LangGraphRunStatus::Pending, ..Self::from_row(row) }
    }

    pub(super) fn from_row(row: &RunRow) -> Self {
        let doran = row.metadata.get(DORAN_METADATA);
        let strategy = doran.and_then(|doran| doran.get("multitask_strategy"));
        // It is only shown. One that cannot be read is in the log of the server.
        let strategy = read_stored(strategy, &format!("`multitask_strategy` of run `{}`", row.run));
        Self {
            run_id: row.run.to_string(),
            thread_id: row.thread.thread.as_str().to_owned(),
            assistant_id: run_assistant_id(row),
            metadata: hidden_metadata(&row.metadata),
            status: LangGraphRunStatus::from_row(row),
            kwargs: Map::new(),
            multitask_strategy: strategy.ok().flatten().unwrap_or_default(),
            created_at: time_text(row.created_at),
            updated_at: time_text(row.ended_at.or(row.started_at).unwrap_or(row.created_at)),
        }
    }
}

/// The path of a run, for `Content-Location`.
fn run_path(thread: &ThreadKey, run: RunId) -> String {
    format!("/threads/{}/runs/{run}", percent_encode(thread.thread.as_str()))
}

/// Says where a run is, and where to come back to.
pub(super) fn with_location(
    mut response: Response,
    thread: &ThreadKey,
    run: RunId,
    come_back: Option<&str>,
) -> Response {
    let path = run_path(thread, run);
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

/// The result of a run: the state, with what it waits for, or why it failed.
pub(super) async fn wait_for_values(
    app: &ServerApp,
    agent: &Agent,
    run: &RunHandle,
) -> Result<Value, ApiError> {
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
    let mut values = match load_values(app, agent, &row.thread, row.last_seq).await {
        Ok((values, _)) => values,
        // The run was cancelled before it began.
        Err(error) if error.code == ApiErrorCode::NotFound => return Ok(json!({})),
        Err(error) => return Err(error),
    };
    if row.status == RunStatus::Paused {
        let questions: Vec<_> =
            app.runtime.open_questions(&row.thread).await?.into_iter().map(|(_, ask)| ask).collect();
        let interrupts = interrupts_json(&questions);
        if interrupts.as_array().is_some_and(|interrupts| !interrupts.is_empty()) {
            values["__interrupt__"] = interrupts;
        }
    }
    Ok(values)
}

/// The run of this id on the thread of that id, both the caller's.
pub(super) async fn load_run(
    app: &ServerApp,
    caller: &ApiCaller,
    ids: &(String, String),
) -> Result<RunRow, ApiError> {
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
    /// The maximum number, from 1 to 1000. The default is 10.
    #[schemars(range(min = 1, max = 1000))]
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
    let limit = page_size(limit, 10)?;
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
    let on_disconnect = on_disconnect(cancel_on_disconnect.as_deref())?;
    let guard = CancelGuard::new(&app, row.key(), on_disconnect);
    let values = wait_for_values(&app, &agent, &run).await;
    guard.release();
    Ok(with_location(json_response(values?), &row.thread, row.run, Some("join")))
}

/// What may follow the path of a run that is waited for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JoinQuery {
    /// Whether the run is cancelled when the client goes away.
    #[serde(default)]
    cancel_on_disconnect: Option<String>,
}

fn on_disconnect(text: Option<&str>) -> Result<OnDisconnect, ApiError> {
    let is_cancelled = read_flag("cancel_on_disconnect", text)?;
    Ok(if is_cancelled { OnDisconnect::Cancel } else { OnDisconnect::Continue })
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
    let (mut modes, mut leaving) = (BTreeSet::new(), OnDisconnect::Continue);
    for pair in query.as_deref().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
        match name {
            // Clients name it also if they do not choose.
            "stream_mode" if value.is_empty() => {}
            "stream_mode" => modes.extend(read_stream_modes(&value)?),
            "cancel_on_disconnect" => leaving = on_disconnect(Some(&value))?,
            other => {
                return Err(invalid(
                    &format!("`{other}` is not a parameter of this route"),
                    &format!("`{other}`은(는) 이 경로의 값이 아닙니다"),
                ));
            }
        }
    }
    let modes = if modes.is_empty() { stored_modes(&row)? } else { modes };
    let doran = row.metadata.get(DORAN_METADATA);
    let subgraphs = doran.is_some_and(|doran| doran["stream_subgraphs"] == true);
    let start = StreamStart::from_headers(&headers)?;
    let options = StreamOptions { modes, subgraphs, start, on_disconnect: leaving, reading: None };
    let run = Arc::new(app.runtime.run_handle(&row.key()).await?);
    let response = stream_run(&app, caller, &agent, run, &row, options)?;
    Ok(with_location(response, &row.thread, row.run, Some("stream")))
}

/// What is streamed of a run unless another choice is made.
pub(super) fn stored_modes(row: &RunRow) -> Result<BTreeSet<StreamMode>, ApiError> {
    let stored = row.metadata.get(DORAN_METADATA).and_then(|doran| doran.get("stream_mode"));
    let stored: Option<BTreeSet<StreamMode>> =
        read_stored(stored, &format!("`stream_mode` of run `{}`", row.run))?;
    Ok(stored.filter(|modes| !modes.is_empty()).unwrap_or_else(|| BTreeSet::from([StreamMode::Values])))
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

//! New runs: start, wait, stream; on a thread, or without one.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use doran_engine::store::RunRow;
use doran_engine::{Acknowledgement, ThreadId, ThreadKey};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::cancel::CancelGuard;
use super::run_request::{IfNotExists, OnCompletion, RunGraphBody};
use super::run_stream::{StreamOptions, StreamStart, stream_run};
use super::runs::{LangGraphRun, stored_modes, wait_for_values, with_location};
use super::start_run::{StartedGraphRun, start_graph_run};
use super::{STARTED, invalid, load_thread, operation, read_body, read_list};
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::ApiError;
use crate::routes::{ApiRoute, json_response, path_value};

/// The most runs of one batch.
const MAX_BATCH: usize = 100;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post(
            "/threads/{thread}/runs",
            create_run,
            operation("langgraph_create_run", "Starts a run in the background.")
                .body::<RunGraphBody>()
                .returns::<LangGraphRun>(200, "The run.")
                .errors(&STARTED),
        ),
        ApiRoute::post(
            "/threads/{thread}/runs/wait",
            wait_run,
            operation("langgraph_wait_run", "Starts a run and returns the state that it ends with.")
                .body::<RunGraphBody>()
                .returns::<Map<String, Value>>(200, "The state, with `__interrupt__` or `__error__`.")
                .errors(&STARTED),
        ),
        ApiRoute::post(
            "/threads/{thread}/runs/stream",
            stream_new_run,
            operation("langgraph_stream_run", "Starts a run and streams its events.")
                .body::<RunGraphBody>()
                .streams_events("The events of the run.")
                .errors(&STARTED),
        ),
        ApiRoute::post(
            "/runs",
            create_stateless_run,
            operation("langgraph_create_stateless_run", "Starts a run without a thread, in the background.")
                .body::<RunGraphBody>()
                .returns::<LangGraphRun>(200, "The run.")
                .errors(&STARTED),
        ),
        ApiRoute::post(
            "/runs/wait",
            wait_stateless_run,
            operation(
                "langgraph_wait_stateless_run",
                "Starts a run without a thread and returns the state that it ends with.",
            )
            .body::<RunGraphBody>()
            .returns::<Map<String, Value>>(200, "The state, with `__interrupt__` or `__error__`.")
            .errors(&STARTED),
        ),
        ApiRoute::post(
            "/runs/stream",
            stream_stateless_run,
            operation(
                "langgraph_stream_stateless_run",
                "Starts a run without a thread and streams its events.",
            )
            .body::<RunGraphBody>()
            .streams_events("The events of the run.")
            .errors(&STARTED),
        ),
        ApiRoute::post(
            "/runs/batch",
            create_batch,
            operation("langgraph_create_batch", "Starts runs without threads, in the background.")
                .body::<Vec<RunGraphBody>>()
                .returns::<Vec<LangGraphRun>>(200, "The runs.")
                .errors(&STARTED),
        ),
    ]
}

/// A run on a thread of this name.
async fn start_on_thread(
    app: &ServerApp,
    caller: &ApiCaller,
    id: &str,
    body: &RunGraphBody,
    acknowledge: Acknowledgement,
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
    start_graph_run(app, &thread, caller.key.as_deref(), body, false, acknowledge).await
}

/// A run on a thread of its own, which is deleted when it is over and nobody reads it any more. The sender is dropped by
/// who reads.
async fn start_stateless(
    app: &ServerApp,
    caller: &ApiCaller,
    body: &RunGraphBody,
    acknowledge: Acknowledgement,
) -> Result<(StartedGraphRun, oneshot::Sender<()>), ApiError> {
    if body.if_not_exists.is_some() || body.multitask_strategy.is_some() {
        return Err(invalid(
            "`if_not_exists` and `multitask_strategy` are for runs on a thread",
            "`if_not_exists`와 `multitask_strategy`는 대화에서 시작하는 실행에만 씁니다",
        ));
    }
    let thread = ThreadKey { tenant: caller.tenant.clone(), thread: ThreadId::random() };
    let started = start_graph_run(app, &thread, caller.key.as_deref(), body, true, acknowledge).await?;
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

/// `POST /threads/{thread}/runs`
pub(super) async fn create_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    reject_on_disconnect(&body)?;
    let started = start_on_thread(&app, &caller, &path_value(id)?, &body, Acknowledgement::Input).await?;
    Ok(created(&app.runtime.run_row(&started.run.key()).await?))
}

/// Nobody waits for a run in the background who could go away.
fn reject_on_disconnect(body: &RunGraphBody) -> Result<(), ApiError> {
    match body.on_disconnect {
        Some(_) => Err(invalid(
            "`on_disconnect` is for runs that are waited for or streamed",
            "`on_disconnect`는 기다리거나 스트림으로 받는 실행에만 씁니다",
        )),
        None => Ok(()),
    }
}

fn created(row: &RunRow) -> Response {
    with_location(json_response(LangGraphRun::accepted(row)), &row.thread, row.run, None)
}

/// `POST /runs`
pub(super) async fn create_stateless_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    reject_on_disconnect(&body)?;
    let (started, _) = start_stateless(&app, &caller, &body, Acknowledgement::Input).await?;
    Ok(created(&app.runtime.run_row(&started.run.key()).await?))
}

/// `POST /runs/batch`
pub(super) async fn create_batch(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let bodies: Vec<RunGraphBody> = read_list(request, &app, MAX_BATCH).await?;
    bodies.iter().try_for_each(reject_on_disconnect)?;
    let mut runs = Vec::new();
    for body in &bodies {
        let (started, _) = start_stateless(&app, &caller, body, Acknowledgement::Input).await?;
        runs.push(LangGraphRun::accepted(&app.runtime.run_row(&started.run.key()).await?));
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
    let started = start_on_thread(&app, &caller, &path_value(id)?, &body, Acknowledgement::Rest).await?;
    answer_with_values(&app, &body, &started).await
}

/// `POST /runs/wait`
pub(super) async fn wait_stateless_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let (started, _reading) = start_stateless(&app, &caller, &body, Acknowledgement::Rest).await?;
    answer_with_values(&app, &body, &started).await
}

async fn answer_with_values(
    app: &ServerApp,
    body: &RunGraphBody,
    StartedGraphRun { agent, run, .. }: &StartedGraphRun,
) -> Result<Response, ApiError> {
    let guard = CancelGuard::new(app, run.key(), body.on_disconnect.unwrap_or_default());
    let name = run.thread().thread.as_str();
    let values = wait_for_values(app, agent, run).await;
    guard.release();
    // From here on the client is told of the run, also with an error.
    run.wait_until_accepted().await?;
    let response = values.map_or_else(|error| error.for_started_run(name).into_response(), json_response);
    Ok(with_location(response, run.thread(), run.id(), Some("join")))
}

/// `POST /threads/{thread}/runs/stream`
pub(super) async fn stream_new_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let started = start_on_thread(&app, &caller, &path_value(id)?, &body, Acknowledgement::Input).await?;
    stream_started(&app, caller, &body, started, None).await
}

/// `POST /runs/stream`
pub(super) async fn stream_stateless_run(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: RunGraphBody = read_body(request, &app).await?;
    let (started, reading) = start_stateless(&app, &caller, &body, Acknowledgement::Input).await?;
    stream_started(&app, caller, &body, started, Some(reading)).await
}

async fn stream_started(
    app: &ServerApp,
    caller: ApiCaller,
    body: &RunGraphBody,
    started: StartedGraphRun,
    reading: Option<oneshot::Sender<()>>,
) -> Result<Response, ApiError> {
    let StartedGraphRun { agent, run, first_event } = started;
    let row = app.runtime.run_row(&run.key()).await?;
    let options = StreamOptions {
        modes: body.stream_modes(),
        subgraphs: body.stream_subgraphs.unwrap_or(false),
        start: StreamStart::AtEvent(first_event),
        on_disconnect: body.on_disconnect.unwrap_or_default(),
        reading,
    };
    let name = row.thread.thread.as_str().to_owned();
    // A run that goes on is streamed as this request wants it, also when its client comes back.
    let mut come_back = "stream".to_owned();
    if !stored_modes(&row).is_ok_and(|stored| stored == options.modes) {
        let modes = options.modes.iter().map(|mode| format!("stream_mode={}", mode.name()));
        come_back = format!("stream?{}", modes.collect::<Vec<_>>().join("&"));
    }
    let response = stream_run(app, caller, &agent, run, &row, options)
        .unwrap_or_else(|error| error.for_started_run(&name).into_response());
    Ok(with_location(response, &row.thread, row.run, Some(&come_back)))
}

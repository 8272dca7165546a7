//! Cancelling runs: on request, and when a client goes away.

use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use doran_engine::RunKey;
use doran_engine::runtime::StateEdit;
use doran_engine::store::{RunFilter, RunRow, RunStatus};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::metadata::mark_rolled_back;
use super::run_request::OnDisconnect;
use super::runs::{load_run, with_location};
use super::{invalid, operation, read_body, reject_idempotency_key};
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::{ApiRoute, json_response, path_value, query_value};

/// How long the end of a cancelled run is waited for.
const CANCEL_WAIT: Duration = Duration::from_secs(30);
/// The most runs that one request cancels.
const MAX_CANCELLED: usize = 100;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post(
            "/threads/{thread}/runs/{run}/cancel",
            cancel_run,
            operation("langgraph_cancel_run", "Cancels a run.")
                .query::<CancelQuery>()
                .returns::<Map<String, Value>>(200, "The run ended.")
                .accepted("The run is to end.")
                .errors(&[
                    ApiErrorCode::NotFound,
                    ApiErrorCode::Busy,
                    ApiErrorCode::Conflict,
                    ApiErrorCode::NotFinished,
                ]),
        ),
        ApiRoute::post(
            "/runs/cancel",
            cancel_runs,
            operation("langgraph_cancel_runs", "Cancels runs of a thread.")
                .query::<CancelRunsQuery>()
                .body::<CancelRunsBody>()
                .returns_nothing("The runs are to end.")
                .errors(&[
                    ApiErrorCode::NotFound,
                    ApiErrorCode::Busy,
                    ApiErrorCode::Conflict,
                    ApiErrorCode::NotFinished,
                ]),
        ),
    ]
}

/// Cancels a run when the client that waits for it disconnects, if the request says so.
pub(super) struct CancelGuard(Option<(ServerApp, RunKey)>);

impl CancelGuard {
    pub(super) fn new(app: &ServerApp, run: RunKey, on_disconnect: OnDisconnect) -> Self {
        Self((on_disconnect == OnDisconnect::Cancel).then(|| (app.clone(), run)))
    }

    /// The run is over, or somebody else's.
    pub(super) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        let Some((app, run)) = self.0.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = app.runtime.cancel(&run).await {
                    tracing::warn!(%error, run = %run.run, "cannot cancel a run whose client went away");
                }
            });
        }
    }
}

/// Reads a value of a path that is `true` or `false`; without it `false`.
pub(super) fn read_flag(name: &str, text: Option<&str>) -> Result<bool, ApiError> {
    match text.map(str::to_lowercase).as_deref() {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(_) => Err(invalid(
            &format!("`{name}` is neither `true` nor `false`"),
            &format!("`{name}`은(는) `true`나 `false`입니다"),
        )),
    }
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
    let wait = read_flag("wait", wait.as_deref())?;
    if row.status.is_end() {
        return Err(ApiError::with_message(
            ApiErrorCode::NotFound,
            "the run is over already",
            "실행이 이미 끝났습니다",
        ));
    }
    cancel(&app, &row, action.unwrap_or_default(), wait).await?;
    let response = if wait { json_response(json!({})) } else { StatusCode::ACCEPTED.into_response() };
    Ok(with_location(response, &row.thread, row.run, Some("join")))
}

/// Cancels a run. To take back what it did, its end has to be waited for.
pub(super) async fn cancel(
    app: &ServerApp,
    row: &RunRow,
    action: CancelAction,
    wait: bool,
) -> Result<(), ApiError> {
    if action == CancelAction::Rollback && row.status != RunStatus::Queued {
        reject_with_queue(app, row).await?;
    }
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

/// The next run in line begins where a cancelled one ends, at once: what that did cannot be taken back then.
async fn reject_with_queue(app: &ServerApp, row: &RunRow) -> Result<(), ApiError> {
    let waiting = RunFilter {
        thread: Some(row.thread.thread.clone()),
        status: Some(RunStatus::Queued),
        limit: 1,
        ..RunFilter::default()
    };
    if app.runtime.list_runs(&row.thread.tenant, &waiting).await?.is_empty() {
        return Ok(());
    }
    Err(ApiError::with_message(
        ApiErrorCode::Conflict,
        "`action=rollback`: other runs wait on the thread; cancel them first",
        "`action=rollback`: 이 대화에서 기다리는 실행이 있습니다. 먼저 그 실행을 취소하세요",
    ))
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
    if body.run_ids.len() > MAX_CANCELLED {
        return Err(invalid(
            &format!("`run_ids` has more than {MAX_CANCELLED} runs"),
            &format!("`run_ids`에 실행이 {MAX_CANCELLED}개를 넘습니다"),
        ));
    }
    for run in body.run_ids {
        let row = load_run(&app, &caller, &(body.thread_id.clone(), run)).await?;
        rows.extend(Some(row).filter(|row| !row.status.is_end()));
    }
    rows.sort_by_key(|row| row.status != RunStatus::Queued);
    for row in &rows {
        cancel(&app, row, action.unwrap_or_default(), false).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

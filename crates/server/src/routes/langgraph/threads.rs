//! Threads: make, find, change, copy and delete.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use doran_agents::Agent;
use doran_engine::store::{RunFilter, RunRow, RunStatus, ThreadFilter, ThreadRow};
use doran_engine::{TenantId, ThreadId, ThreadKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::checkpoints::{Checkpoint, CheckpointSource, CheckpointTree, LangGraphState, load_checkpoints};
use super::metadata::{
    MAX_ROLLED_BACK, check_metadata, check_storable, has_pairs, hidden_metadata, is_rolled_back,
};
use super::run_events::failure_json;
use super::times::time_text;
use super::{
    FOUND, SortOrder, check_select, invalid, list_response, load_thread, operation, page_size, read_body,
    reject_idempotency_key, select_fields,
};
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::threads::remove_thread;
use crate::routes::{ApiRoute, json_response, path_value};

/// The fields of a thread that can be chosen.
const THREAD_FIELDS: [&str; 10] = [
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "status",
    "values",
    "interrupts",
    "error",
];
/// The most threads that one request looks at.
const MAX_THREADS_SEARCHED: usize = 10_000;
/// Threads that are read in one go.
const THREADS_PER_PAGE: usize = 200;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post(
            "/threads",
            create_thread,
            operation("langgraph_create_thread", "Creates a thread.")
                .body::<CreateThreadBody>()
                .returns::<LangGraphThread>(200, "The thread.")
                .errors(&[ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::post(
            "/threads/search",
            search_threads,
            operation("langgraph_search_threads", "Lists threads, the last changed first.")
                .body::<SearchThreadsBody>()
                .returns::<Vec<Map<String, Value>>>(200, "The threads."),
        ),
        ApiRoute::post(
            "/threads/count",
            count_threads,
            operation("langgraph_count_threads", "Counts threads.")
                .body::<CountThreadsBody>()
                .returns::<usize>(200, "How many there are."),
        ),
        ApiRoute::get(
            "/threads/{thread}",
            get_thread,
            operation("langgraph_get_thread", "Returns a thread.")
                .returns::<LangGraphThread>(200, "The thread.")
                .errors(&FOUND),
        ),
        ApiRoute::patch(
            "/threads/{thread}",
            update_thread,
            operation("langgraph_update_thread", "Changes the metadata of a thread.")
                .body::<ThreadMetadataBody>()
                .returns::<LangGraphThread>(200, "The thread.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::delete(
            "/threads/{thread}",
            delete_thread,
            operation("langgraph_delete_thread", "Deletes a thread.")
                .returns_nothing("It is deleted.")
                .errors(&FOUND),
        ),
        ApiRoute::post(
            "/threads/{thread}/copy",
            copy_thread,
            operation("langgraph_copy_thread", "Copies a thread.")
                .ignored_body()
                .returns::<LangGraphThread>(200, "The copy.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::DiskFull]),
        ),
    ]
}

/// A thread as LangGraph's clients read it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct LangGraphThread {
    /// The id of the thread.
    thread_id: String,
    /// When it was made.
    created_at: String,
    /// When it last changed.
    updated_at: String,
    /// When its state last changed.
    state_updated_at: String,
    /// Free pairs.
    metadata: Map<String, Value>,
    /// Whether a run is under way or waits.
    status: ThreadStatus,
    /// Settings of its last run.
    config: Map<String, Value>,
    /// The state.
    values: Option<Value>,
    /// Why its last run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    error: Option<Option<Value>>,
    /// What it waits for, by task.
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupts: Option<Map<String, Value>>,
}

/// Whether a run of a thread is under way or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ThreadStatus {
    /// Nothing is under way.
    Idle,
    /// A run is under way.
    Busy,
    /// A run waits, or was cancelled.
    Interrupted,
    /// The last run failed.
    Error,
}

/// The graph whose state a checkpoint has. Several graphs may have run on a thread.
pub(super) async fn checkpoint_agent(
    app: &ServerApp,
    row: &ThreadRow,
    tree: &CheckpointTree,
    here: &Checkpoint,
) -> Result<Option<Agent>, ApiError> {
    let here = match here.source {
        // It has the state that the graph found.
        CheckpointSource::Input => tree.parent(here).unwrap_or(here),
        CheckpointSource::Loop | CheckpointSource::Update | CheckpointSource::Fork => here,
    };
    match &here.graph {
        Some(graph) => Ok(app.find_agent(graph)),
        None => thread_agent(app, row).await,
    }
}

/// The graph of a thread on which nothing is on record yet.
pub(super) async fn thread_agent(app: &ServerApp, row: &ThreadRow) -> Result<Option<Agent>, ApiError> {
    let named = ["agent", "graph_id"].iter().find_map(|key| row.metadata.get(*key)?.as_str());
    let named = match named {
        Some(named) => Some(named.to_owned()),
        None => last_run(app, row).await?.map(|run| run.graph),
    };
    Ok(named.and_then(|name| app.find_agent(&name)))
}

/// The newest run of a thread that was not taken back.
async fn last_run(app: &ServerApp, row: &ThreadRow) -> Result<Option<RunRow>, ApiError> {
    for limit in [1, MAX_ROLLED_BACK + 1] {
        let filter = RunFilter { thread: Some(row.key.thread.clone()), limit, ..RunFilter::default() };
        let runs = app.runtime.list_runs(&row.key.tenant, &filter).await?;
        let is_all = runs.len() < limit;
        let last = runs.into_iter().find(|run| !is_rolled_back(row, run.run));
        if last.is_some() || is_all {
            return Ok(last);
        }
    }
    Ok(None)
}

async fn thread_status(app: &ServerApp, row: &ThreadRow) -> Result<(ThreadStatus, Option<RunRow>), ApiError> {
    let last = last_run(app, row).await?;
    if last.is_none() {
        // Its runs may be gone with it.
        app.runtime.thread_row(&row.key).await?;
    }
    let shown = match row.active {
        Some(active) => Some(app.runtime.run_row(&row.key.run(active)).await?),
        None => last.clone(),
    };
    let status = match shown.map(|run| run.status) {
        None | Some(RunStatus::Finished) => ThreadStatus::Idle,
        Some(RunStatus::Queued | RunStatus::Running) => ThreadStatus::Busy,
        Some(RunStatus::Paused | RunStatus::Cancelled) => ThreadStatus::Interrupted,
        Some(RunStatus::Failed) => ThreadStatus::Error,
    };
    Ok((status, last))
}

/// The newest state of a thread; none where nothing happened yet.
pub(super) async fn thread_state(
    app: &ServerApp,
    row: &ThreadRow,
) -> Result<Option<LangGraphState>, ApiError> {
    let tree = load_checkpoints(app, &row.key, None).await?;
    let Some(newest) = tree.newest() else { return Ok(None) };
    match checkpoint_agent(app, row, &tree, newest).await? {
        Some(agent) => Ok(Some(LangGraphState::load(app, &agent, &row.key, &tree, newest).await?)),
        None => Err(graph_gone(newest.graph.as_deref())),
    }
}

/// Nobody can read a state any more whose graph is not served.
pub(super) fn graph_gone(graph: Option<&str>) -> ApiError {
    let graph = graph.unwrap_or_default();
    ApiError::with_message(
        ApiErrorCode::UnknownAgent,
        format!("the graph `{graph}`, which this state is one of, is not served any more"),
        format!("이 상태를 만든 그래프 `{graph}`를 더는 쓸 수 없습니다"),
    )
}

/// The newest state of a thread for a list; none where it cannot be read.
async fn readable_state(app: &ServerApp, row: &ThreadRow) -> Result<Option<LangGraphState>, ApiError> {
    match thread_state(app, row).await {
        Err(error) if [ApiErrorCode::UnknownAgent, ApiErrorCode::Conflict].contains(&error.code) => Ok(None),
        state => state,
    }
}

impl LangGraphThread {
    pub(super) async fn load(app: &ServerApp, row: &ThreadRow) -> Result<Self, ApiError> {
        let (status, last) = thread_status(app, row).await?;
        let state = readable_state(app, row).await?;
        let failure = last.as_ref().and_then(|run| run.error.as_ref());
        Ok(Self {
            thread_id: row.key.thread.as_str().to_owned(),
            created_at: time_text(row.created_at),
            updated_at: time_text(row.updated_at),
            state_updated_at: time_text(row.updated_at),
            metadata: hidden_metadata(&row.metadata),
            status,
            config: Map::new(),
            values: state.as_ref().map(|state| state.values().clone()),
            error: last.as_ref().map(|_| failure.filter(|_| status == ThreadStatus::Error).map(failure_json)),
            interrupts: last
                .as_ref()
                .map(|_| state.map(|state| state.interrupts_by_task()).unwrap_or_default()),
        })
    }
}

/// A thread to make.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CreateThreadBody {
    /// Its id. The default is a new one.
    thread_id: Option<String>,
    /// Free pairs.
    metadata: Option<Map<String, Value>>,
    /// What happens when it exists. The default is `raise`.
    if_exists: Option<IfExists>,
    /// The graph that is to run on it.
    graph_id: Option<String>,
}

/// What happens when a thread exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum IfExists {
    /// The request is rejected.
    #[default]
    Raise,
    /// The thread is returned as it is.
    DoNothing,
}

/// `POST /threads`
pub(super) async fn create_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: CreateThreadBody = read_body(request, &app).await?;
    let mut metadata = body.metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    if let Some(graph) = body.graph_id {
        let agent = app.find_agent(&graph).ok_or_else(|| {
            invalid(
                &format!("`graph_id`: there is no graph `{graph}`"),
                &format!("`graph_id`: 그래프 `{graph}`가 없습니다"),
            )
        })?;
        metadata.insert("agent".to_owned(), agent.name.as_str().into());
        metadata.insert("graph_id".to_owned(), agent.name.as_str().into());
    }
    let thread = match &body.thread_id {
        Some(id) => agent_request::thread_key_from_field(&caller, "thread_id", id)
            .map_err(|error| error.under_code(ApiErrorCode::Invalid))?,
        None => ThreadKey { tenant: caller.tenant.clone(), thread: ThreadId::random() },
    };
    let row = match app.runtime.find_thread_row(&thread).await? {
        Some(row) if body.if_exists.unwrap_or_default() == IfExists::DoNothing => row,
        Some(_) => {
            let id = thread.thread.as_str();
            return Err(ApiError::with_message(
                ApiErrorCode::Conflict,
                format!("thread `{id}` exists already"),
                format!("대화 `{id}`가 이미 있습니다"),
            ));
        }
        None => app.runtime.put_thread(&thread, &metadata).await?,
    };
    Ok(json_response(LangGraphThread::load(&app, &row).await?))
}

/// Which threads are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchThreadsBody {
    /// Only these.
    ids: Option<Vec<String>>,
    /// Only those with these pairs.
    metadata: Option<Map<String, Value>>,
    /// Only those whose state has these values.
    values: Option<Map<String, Value>>,
    /// Only those in this status.
    status: Option<ThreadStatus>,
    /// The maximum number, from 1 to 1000. The default is 10.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
    /// By what they are sorted: by `updated_at`, the default.
    sort_by: Option<ThreadOrder>,
    /// Which of them comes first: the newest, `desc`, the default.
    sort_order: Option<SortOrder>,
    /// Fields to return. The default is all.
    select: Option<Vec<String>>,
}

/// By what threads are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ThreadOrder {
    /// When they last changed.
    UpdatedAt,
}

impl SearchThreadsBody {
    fn check(&self) -> Result<(), ApiError> {
        if self.sort_order == Some(SortOrder::Asc) {
            return Err(invalid(
                "`sort_order`: only `desc` is supported",
                "`sort_order`: `desc`만 지원합니다",
            ));
        }
        check_select(self.select.as_deref(), &THREAD_FIELDS)?;
        self.metadata.as_ref().map_or(Ok(()), check_storable)
    }
}

/// The threads that fit, the last changed first.
struct ThreadSearch<'a> {
    app: &'a ServerApp,
    tenant: &'a TenantId,
    body: &'a SearchThreadsBody,
    filter: ThreadFilter,
    page: std::vec::IntoIter<ThreadRow>,
    is_last_page: bool,
    looked: usize,
}

impl<'a> ThreadSearch<'a> {
    fn new(app: &'a ServerApp, tenant: &'a TenantId, body: &'a SearchThreadsBody) -> Self {
        let filter = ThreadFilter {
            metadata: body.metadata.clone().unwrap_or_default(),
            limit: THREADS_PER_PAGE,
            ..ThreadFilter::default()
        };
        Self { app, tenant, body, filter, page: Vec::new().into_iter(), is_last_page: false, looked: 0 }
    }

    async fn next(&mut self) -> Result<Option<ThreadRow>, ApiError> {
        loop {
            let Some(row) = self.page.next() else {
                if self.is_last_page || self.looked >= MAX_THREADS_SEARCHED {
                    return Ok(None);
                }
                let page = self.app.runtime.list_threads(self.tenant, &self.filter).await?;
                self.is_last_page = page.len() < THREADS_PER_PAGE;
                self.filter.after = page.last().map(Into::into);
                self.page = page.into_iter();
                continue;
            };
            self.looked += 1;
            if unless_deleted(fits(self.app, self.body, &row).await)? == Some(true) {
                return Ok(Some(row));
            }
        }
    }
}

/// What was read of a thread that was listed; none if the thread, or a part of it that goes with it, was deleted meanwhile.
fn unless_deleted<T>(read: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match read {
        Err(error) if error.code == ApiErrorCode::NotFound => Ok(None),
        read => read.map(Some),
    }
}

async fn fits(app: &ServerApp, body: &SearchThreadsBody, row: &ThreadRow) -> Result<bool, ApiError> {
    if body.ids.as_ref().is_some_and(|ids| !ids.iter().any(|id| id == row.key.thread.as_str())) {
        return Ok(false);
    }
    if let Some(wanted) = body.status
        && thread_status(app, row).await?.0 != wanted
    {
        return Ok(false);
    }
    if let Some(wanted) = body.values.as_ref().filter(|wanted| !wanted.is_empty()) {
        let state = readable_state(app, row).await?;
        let has =
            state.is_some_and(|state| state.values().as_object().is_some_and(|all| has_pairs(all, wanted)));
        return Ok(has);
    }
    Ok(true)
}

/// `POST /threads/search`
pub(super) async fn search_threads(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    request: Request,
) -> Result<Response, ApiError> {
    let body: SearchThreadsBody = read_body(request, &app).await?;
    body.check()?;
    let (offset, limit) = (body.offset.unwrap_or(0), page_size(body.limit, 10)?);
    let mut search = ThreadSearch::new(&app, &caller.tenant, &body);
    for _ in 0..offset {
        if search.next().await?.is_none() {
            break;
        }
    }
    let mut threads = Vec::new();
    while threads.len() < limit
        && let Some(row) = search.next().await?
    {
        if let Some(thread) = unless_deleted(LangGraphThread::load(&app, &row).await)? {
            threads.push(select_fields(&thread, body.select.as_deref()));
        }
    }
    let more = threads.len() == limit && search.next().await?.is_some();
    let end = offset.saturating_add(threads.len());
    // How many there are is not counted: at least one more than were listed so far.
    Ok(list_response(&threads, Some(end.saturating_add(usize::from(more))), more.then_some(end)))
}

/// Which threads are counted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CountThreadsBody {
    /// Only those with these pairs.
    metadata: Option<Map<String, Value>>,
    /// Only those whose state has these values.
    values: Option<Map<String, Value>>,
    /// Only those in this status.
    status: Option<ThreadStatus>,
}

/// `POST /threads/count`
pub(super) async fn count_threads(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    request: Request,
) -> Result<Response, ApiError> {
    let CountThreadsBody { metadata, values, status } = read_body(request, &app).await?;
    let wanted = SearchThreadsBody { metadata, values, status, ..SearchThreadsBody::default() };
    wanted.check()?;
    let (mut search, mut count) = (ThreadSearch::new(&app, &caller.tenant, &wanted), 0_usize);
    while search.next().await?.is_some() {
        count += 1;
    }
    Ok(json_response(count))
}

/// `GET /threads/{thread}`
pub(super) async fn get_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    Ok(json_response(LangGraphThread::load(&app, &row).await?))
}

/// A change of a thread.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadMetadataBody {
    /// Pairs to set; a pair that is `null` is removed.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

/// `PATCH /threads/{thread}`
pub(super) async fn update_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    let body: ThreadMetadataBody = read_body(request, &app).await?;
    let metadata = body.metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    let row = app.runtime.put_thread(&row.key, &metadata).await?;
    Ok(json_response(LangGraphThread::load(&app, &row).await?))
}

/// `DELETE /threads/{thread}`
pub(super) async fn delete_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    remove_thread(&app, &row.key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /threads/{thread}/copy`
pub(super) async fn copy_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    reject_idempotency_key(&headers)?;
    let row = load_thread(&app, &caller, &path_value(id)?).await?;
    let copy = app.runtime.fork(&row.key, None, &ThreadId::random()).await?;
    let row = app.runtime.thread_row(&copy).await?;
    Ok(json_response(LangGraphThread::load(&app, &row).await?))
}

//! Threads: made, found, renamed, removed, and looked into at any step.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_agents::Role;
use doran_agents::retrieval::contains_all_words;
use doran_engine::EngineError;
use doran_engine::store::{Seq, StoreError, ThreadFilter, ThreadRow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ApiRoute, json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::idempotency::IdempotentRequest;
use crate::openapi::{IdempotencyEffect, Operation, OperationTag};
use crate::request_body;

/// The most things a list gives.
const MAX_LIST_ITEMS: usize = 200;
/// Threads that one request looks through for words; `next` goes on where it stopped.
const MAX_THREADS_SEARCHED: usize = 1000;
/// No tenant has more threads; a larger cursor is a mistake.
const MAX_THREAD_CURSOR: usize = 1 << 40;
/// The most characters of a title.
pub(super) const MAX_TITLE_CHARS: usize = 200;

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::Threads, id, summary);
    vec![
        ApiRoute::get(
            "/api/threads",
            list_threads,
            operation("list_threads", "Lists threads, most recently changed first.")
                .query::<ThreadListQuery>()
                .returns::<api::ThreadList>(200, "A page of threads."),
        ),
        ApiRoute::post(
            "/api/threads",
            make_thread,
            operation("make_thread", "Creates an empty thread.")
                .idempotent(IdempotencyEffect::SameResponse)
                .body::<MakeThreadBody>()
                .returns::<api::ThreadInfo>(201, "The thread.")
                .errors(&[ApiErrorCode::UnknownAgent, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/api/threads/{thread}",
            get_thread,
            operation("get_thread", "Returns a thread.")
                .returns::<api::ThreadInfo>(200, "The thread.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::patch(
            "/api/threads/{thread}",
            rename_thread,
            operation("rename_thread", "Renames a thread.")
                .body::<RenameThreadBody>()
                .returns::<api::ThreadInfo>(200, "The thread.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::delete(
            "/api/threads/{thread}",
            delete_thread,
            operation("delete_thread", "Deletes a thread and everything in it. An active run ends.")
                .returns_nothing("The thread was deleted.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/api/threads/{thread}/messages",
            list_messages,
            operation("list_messages", "Lists the messages of a thread.")
                .returns::<api::MessageList>(200, "The messages.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::get(
            "/api/threads/{thread}/history",
            list_history,
            operation("list_history", "Lists the log entries of a thread, oldest first.")
                .query::<ThreadHistoryQuery>()
                .returns::<api::ThreadHistory>(200, "A page of entries.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::get(
            "/api/threads/{thread}/state",
            get_state,
            operation("get_state", "Returns the state after a log entry.")
                .query::<ThreadStateQuery>()
                .returns::<api::ThreadStateInfo>(200, "The state.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::UnknownAgent]),
        ),
    ]
}

/// A new thread.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MakeThreadBody {
    /// The agent that the thread is for.
    agent: Option<String>,
    /// The title of the thread.
    #[schemars(length(min = 1, max = MAX_TITLE_CHARS))]
    title: Option<String>,
}

/// `POST /api/threads`: makes an empty thread.
async fn make_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    once: IdempotentRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let (make, bytes) = request_body::read_json::<MakeThreadBody>(request, &app.limits).await?;
    let mut metadata = Map::new();
    if let Some(agent) = &make.agent {
        metadata.insert("agent".into(), agent_request::find_agent(&app, agent)?.name.clone().into());
    }
    if let Some(title) = &make.title {
        metadata.insert("title".into(), check_title(title)?.into());
    }
    let key = once.key().map(str::to_owned);
    let thread = agent_request::new_thread_key(&caller, key.as_deref());
    let asked = agent_request::request_hash("", &thread, &bytes);
    once.with_body(&bytes)
        .respond_once(async move {
            let made = match agent_request::find_created_thread(&app, &thread, key.as_deref(), &asked).await?
            {
                Some(made) => made,
                None => {
                    if key.is_some() {
                        metadata.insert(agent_request::REQUEST_HASH_METADATA.into(), asked.into());
                    }
                    app.runtime.put_thread(&thread, &metadata).await?
                }
            };
            Ok((StatusCode::CREATED, json!(api::ThreadInfo::from_row(&made))))
        })
        .await
}

/// What may follow the path of the list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ThreadListQuery {
    /// Only threads whose title and messages contain every word of this text, in any order and with any Korean particles
    /// and endings. A request searches a thousand threads: while `next` is a number there are more, even if nothing was
    /// found yet.
    q: Option<String>,
    /// The maximum number of threads. The server returns at most 200.
    limit: Option<usize>,
    /// `next` of the page before.
    cursor: Option<usize>,
}

/// `GET /api/threads`: the last changed first; with `q`, those whose title and words hold every word of it. A search looks through so
/// many at a time: `next` says where it goes on, also when nothing was found yet.
async fn list_threads(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    find: Result<Query<ThreadListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let ThreadListQuery { q, limit, cursor } = query_value(find)?;
    let limit = limit.unwrap_or(50).clamp(1, MAX_LIST_ITEMS);
    let mut offset = cursor.unwrap_or(0);
    if offset > MAX_THREAD_CURSOR {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "there are not that many threads",
            "대화가 그렇게 많지 않습니다",
        ));
    }
    let wanted = q.map(|q| q.trim().to_owned()).filter(|q| !q.is_empty());
    let most = if wanted.is_some() { MAX_THREADS_SEARCHED } else { usize::MAX };
    let (mut threads, mut looked) = (Vec::new(), 0);
    let next = 'looking: loop {
        let filter = ThreadFilter { offset, limit: MAX_LIST_ITEMS, ..ThreadFilter::default() };
        let page = app.runtime.list_threads(&caller.tenant, &filter).await?;
        let is_last = page.len() < MAX_LIST_ITEMS;
        for row in page {
            if threads.len() == limit || looked == most {
                break 'looking Some(offset);
            }
            offset += 1;
            looked += 1;
            let thread = api::ThreadInfo::from_row(&row);
            let fits = match &wanted {
                None => true,
                Some(wanted) => {
                    contains_all_words(&thread.title, wanted)
                        || thread_contains_words(&app, &row, &thread.title, wanted).await?
                }
            };
            if fits {
                threads.push(thread);
            }
        }
        if is_last {
            break None;
        }
    };
    Ok(json_response(api::ThreadList { threads, next }))
}

/// Whether these words stand in the title or were said on the thread, all of them and wherever each does.
async fn thread_contains_words(
    app: &ServerApp,
    row: &ThreadRow,
    title: &str,
    wanted: &str,
) -> Result<bool, ApiError> {
    let said = match doran_agents::history::read_history(&app.runtime, &row.key, &app.agents).await {
        Ok(said) => said,
        // Removed in between.
        Err(EngineError::Store(StoreError::NotFound { .. })) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut all = title.to_owned();
    for said in said.into_iter().map(api::MessageInfo::from_history) {
        if matches!(said.role, Role::User | Role::Assistant) {
            all.push('\n');
            all.push_str(&said.text);
        }
    }
    Ok(contains_all_words(&all, wanted))
}

/// `GET /api/threads/{thread}`
async fn get_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json_response(api::ThreadInfo::from_row(&load_thread_row(&app, &caller, &path_value(name)?).await?)))
}

/// A new title.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RenameThreadBody {
    /// The title of the thread.
    #[schemars(length(min = 1, max = MAX_TITLE_CHARS))]
    title: String,
}

/// `PATCH /api/threads/{thread}`: calls it otherwise.
async fn rename_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let (rename, _) = request_body::read_json::<RenameThreadBody>(request, &app.limits).await?;
    let metadata = Map::from_iter([("title".to_owned(), Value::from(check_title(&rename.title)?))]);
    let row = app.runtime.put_thread(&found.key, &metadata).await?;
    Ok(json_response(api::ThreadInfo::from_row(&row)))
}

/// `DELETE /api/threads/{thread}`: removes it with all it holds. A run under way ends.
async fn delete_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    if let Some(run) = found.active {
        app.runtime.cancel(&found.key.run(run)).await?;
    }
    app.runtime.delete_thread(&found.key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /api/threads/{thread}/messages`: all that was said, whatever the agent still works with.
async fn list_messages(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let said = doran_agents::history::read_history(&app.runtime, &found.key, &app.agents).await?;
    let messages = said.into_iter().map(api::MessageInfo::from_history).collect();
    Ok(json_response(api::MessageList { messages }))
}

/// What may follow the path of the history.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ThreadHistoryQuery {
    /// Only entries after this number.
    after: Option<Seq>,
    /// The maximum number of entries. The server returns at most 200.
    limit: Option<usize>,
}

/// `GET /api/threads/{thread}/history`: the steps, oldest first.
async fn list_history(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    after: Result<Query<ThreadHistoryQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let ThreadHistoryQuery { after, limit } = query_value(after)?;
    let limit = limit.unwrap_or(MAX_LIST_ITEMS).clamp(1, MAX_LIST_ITEMS);
    let entries = app.runtime.entries(&found.key, check_seq(after)?, limit).await?;
    let next = entries.last().map(|last| last.seq).filter(|last| *last < found.head);
    let steps = entries.iter().map(api::HistoryEntry::from_log).collect();
    Ok(json_response(api::ThreadHistory { steps, next }))
}

/// What may follow the path of the state.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ThreadStateQuery {
    /// The number of the entry. The default is the newest entry.
    at: Option<Seq>,
    /// The agent whose state it is. It is needed if the thread has no agent.
    agent: Option<String>,
    /// The name of a node. The response then has the requests that this node would send to models.
    explain: Option<String>,
}

/// `GET /api/threads/{thread}/state`: the state after an entry, the newest without `at`.
async fn get_state(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    at: Result<Query<ThreadStateQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let ThreadStateQuery { at, agent, explain } = query_value(at)?;
    let known = found.metadata.get("agent").and_then(Value::as_str).map(str::to_owned);
    let agent = agent.or(known).ok_or_else(missing_agent_error)?;
    let agent = agent_request::find_agent(&app, &agent)?;
    let at = at.map(|at| check_seq(Some(at))).transpose()?;
    let view = app.runtime.view(&agent.name, &found.key, at).await?;
    let asks = match explain {
        Some(node) => {
            let asked = agent.explain(&node, &view.state).map_err(|_| ApiErrorCode::Internal)?;
            Some(asked.iter().map(|request| json!(request)).collect())
        }
        None => None,
    };
    Ok(json_response(api::ThreadStateInfo { seq: view.seq, next: view.next, asks, state: view.state }))
}

pub(super) async fn load_thread_row(
    app: &ServerApp,
    caller: &ApiCaller,
    name: &str,
) -> Result<ThreadRow, ApiError> {
    let thread = agent_request::thread_key(caller, name)?;
    Ok(app.runtime.thread_row(&thread).await?)
}

pub(super) fn missing_agent_error() -> ApiError {
    ApiError::with_message(ApiErrorCode::BadInput, "name the `agent`", "`agent`를 적어 주세요")
}

/// Databases count to 2^63.
pub(super) fn check_seq(seq: Option<Seq>) -> Result<Seq, ApiError> {
    let seq = seq.unwrap_or(0);
    if seq > 1 << 53 {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "no thread has that many entries",
            "기록이 그렇게 많은 대화는 없습니다",
        ));
    }
    Ok(seq)
}

pub(super) fn check_title(title: &str) -> Result<String, ApiError> {
    let title = title.trim();
    let wrong = if title.is_empty() {
        ErrorDetail::new("`title` is empty", "`title`이 비어 있습니다")
    } else if title.chars().count() > MAX_TITLE_CHARS {
        ErrorDetail::new(
            format!("`title` has more than {MAX_TITLE_CHARS} characters"),
            format!("`title`이 {MAX_TITLE_CHARS}자를 넘습니다"),
        )
    } else if title.chars().any(char::is_control) {
        ErrorDetail::new("`title` holds a control character", "`title`에 제어 문자가 있습니다")
    } else {
        return Ok(title.to_owned());
    };
    Err(ApiError::with_detail(ApiErrorCode::BadInput, wrong))
}

//! Threads: made, found, renamed, removed, and looked into at any step.

use std::time::{Duration, Instant};

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_agents::history::HistoryMessage;
use doran_agents::retrieval::{MAX_WORD_QUERY_CHARS, WordSearch};
use doran_engine::store::{Seq, StoreError, ThreadFilter, ThreadRow};
use doran_engine::{EngineError, EntryBody, ThreadEntry};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{check_query, json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::idempotency::IdempotentRequest;
use crate::request_body;

/// The most things a list gives.
const MAX_LIST_ITEMS: usize = 200;
/// Threads that one request looks through for words; `next` goes on where it stopped.
const MAX_THREADS_SEARCHED: usize = 1000;
/// After this time a search stops, once it has looked through a thread; `next` goes on there.
const THREAD_SEARCH_TIME: Duration = Duration::from_secs(2);
/// Bytes of a thread that a search looks through, the newest first.
const MAX_SEARCHED_BYTES: usize = 4 * 1024 * 1024;
/// No tenant has more threads; a larger cursor is a mistake.
const MAX_THREAD_CURSOR: usize = 1 << 40;
/// The most characters of a title.
const MAX_TITLE_CHARS: usize = 200;

/// `POST /api/threads`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MakeThreadBody {
    agent: Option<String>,
    title: Option<String>,
}

/// `POST /api/threads`: makes an empty thread.
pub(super) async fn make_thread(
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
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadListQuery {
    q: Option<String>,
    limit: Option<usize>,
    cursor: Option<usize>,
}

/// `GET /api/threads`: the last changed first; with `q`, those whose title and words hold every word of it. A search looks through so
/// many at a time: `next` says where it goes on, also when nothing was found yet.
pub(super) async fn list_threads(
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
    let wanted = match q.filter(|q| !q.trim().is_empty()) {
        Some(q) => {
            check_query(&q, MAX_WORD_QUERY_CHARS)?;
            WordSearch::new(&q)
        }
        None => None,
    };
    let most = if wanted.is_some() { MAX_THREADS_SEARCHED } else { usize::MAX };
    // A search reads whole conversations.
    let _turn = match &wanted {
        Some(_) => Some(BulkRead::acquire(&app, &caller).await?),
        None => None,
    };
    let deadline = Instant::now() + THREAD_SEARCH_TIME;
    let (mut threads, mut looked) = (Vec::new(), 0);
    let next = 'looking: loop {
        let filter = ThreadFilter { offset, limit: MAX_LIST_ITEMS, ..ThreadFilter::default() };
        let page = app.runtime.list_threads(&caller.tenant, &filter).await?;
        let is_last = page.len() < MAX_LIST_ITEMS;
        for row in page {
            let is_late = wanted.is_some() && looked > 0 && Instant::now() >= deadline;
            if threads.len() == limit || looked == most || is_late {
                break 'looking Some(offset);
            }
            offset += 1;
            looked += 1;
            let thread = api::ThreadInfo::from_row(&row);
            let fits = match &wanted {
                None => true,
                Some(wanted) => thread_contains_words(&app, &row, &thread.title, wanted.clone()).await?,
            };
            if fits {
                threads.push(thread);
            }
        }
        if is_last {
            break None;
        }
    };
    Ok(json_response(json!({ "threads": threads, "next": next })))
}

/// Whether these words stand in the title or were said on the thread, all of them and wherever each does.
async fn thread_contains_words(
    app: &ServerApp,
    row: &ThreadRow,
    title: &str,
    mut wanted: WordSearch,
) -> Result<bool, ApiError> {
    wanted.look_into(title);
    if wanted.is_found() {
        return Ok(true);
    }
    let said = match doran_agents::history::read_history(&app.runtime, &row.key, &app.agents).await {
        Ok(said) => said,
        // Removed in between.
        Err(EngineError::Store(StoreError::NotFound { .. })) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    // Where it takes nobody else's time.
    let looking = tokio::task::spawn_blocking(move || messages_contain_words(said, wanted));
    looking.await.map_err(|error| {
        tracing::error!(%error, "a search in threads failed");
        ApiErrorCode::Internal.into()
    })
}

fn messages_contain_words(said: Vec<HistoryMessage>, mut wanted: WordSearch) -> bool {
    let mut left = MAX_SEARCHED_BYTES;
    for said in said.into_iter().rev().map(api::MessageInfo::from_history) {
        if said.role == "user" || said.role == "assistant" {
            wanted.look_into(&said.text[..said.text.floor_char_boundary(left)]);
            left = left.saturating_sub(said.text.len());
        }
        if wanted.is_found() || left == 0 {
            break;
        }
    }
    wanted.is_found()
}

/// `GET /api/threads/{thread}`
pub(super) async fn get_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json_response(api::ThreadInfo::from_row(&load_thread_row(&app, &caller, &path_value(name)?).await?)))
}

/// `PATCH /api/threads/{thread}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenameThreadBody {
    title: String,
}

/// `PATCH /api/threads/{thread}`: calls it otherwise.
pub(super) async fn rename_thread(
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
pub(super) async fn delete_thread(
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
pub(super) async fn list_messages(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _turn: BulkRead,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let said = doran_agents::history::read_history(&app.runtime, &found.key, &app.agents).await?;
    let said: Vec<api::MessageInfo> = said.into_iter().map(api::MessageInfo::from_history).collect();
    Ok(json_response(json!({ "messages": said })))
}

/// What may follow the path of the history.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadHistoryQuery {
    after: Option<Seq>,
    limit: Option<usize>,
}

/// `GET /api/threads/{thread}/history`: the steps, oldest first.
pub(super) async fn list_history(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _turn: BulkRead,
    name: Result<Path<String>, PathRejection>,
    after: Result<Query<ThreadHistoryQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let ThreadHistoryQuery { after, limit } = query_value(after)?;
    let limit = limit.unwrap_or(MAX_LIST_ITEMS).clamp(1, MAX_LIST_ITEMS);
    let entries = app.runtime.entries(&found.key, check_seq(after)?, limit).await?;
    let next = entries.last().map(|last| last.seq).filter(|last| *last < found.head);
    let steps: Vec<Value> = entries.iter().map(history_step_json).collect();
    Ok(json_response(json!({ "steps": steps, "next": next })))
}

fn history_step_json(entry: &ThreadEntry) -> Value {
    let mut shown = json!({
        "seq": entry.seq,
        "parent": entry.parent,
        "kind": entry.kind(),
        "run": entry.run.map(|run| run.to_string()),
        "at": entry.at,
    });
    if let EntryBody::Step(step) | EntryBody::InnerStep(step) = &entry.body {
        let nodes: Vec<&str> = step.tasks.iter().map(|task| task.node.as_str()).collect();
        shown["step"] = json!(step.step);
        shown["nodes"] = json!(nodes);
        shown["next"] = json!(step.next);
    }
    shown
}

/// What may follow the path of the state.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadStateQuery {
    at: Option<Seq>,
    /// Whose state it is, where the thread does not know.
    agent: Option<String>,
    /// Also what this node would ask models in that state.
    explain: Option<String>,
}

/// `GET /api/threads/{thread}/state`: the state after an entry, the newest without `at`.
pub(super) async fn get_state(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _turn: BulkRead,
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
    let mut shown = json!({ "seq": view.seq, "next": view.next });
    if let Some(node) = explain {
        let asked = agent.explain(&node, &view.state).map_err(|_| ApiErrorCode::Internal)?;
        shown["asks"] = json!(asked);
    }
    shown["state"] = view.state;
    Ok(json_response(shown))
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

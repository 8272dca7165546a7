//! Threads: create, list, search, rename, delete, and read messages, history and state.

use std::num::NonZeroUsize;
use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_agents::asked_questions::asked_questions_from_entries;
use doran_agents::history::{self, HistoryMessage};
use doran_agents::protocol::request_digest;
use doran_agents::retrieval::{MAX_WORD_QUERY_CHARS, WordSearch};
use doran_agents::{Agent, Role};
use doran_engine::store::{RunFilter, Seq, StoreError, ThreadFilter, ThreadListPosition, ThreadRow};
use doran_engine::{EngineError, ThreadId, ThreadKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use tokio::time::Instant;

use super::documents::delete_attachments;
use super::langgraph::delete_thread_crons;
use super::{ApiRoute, check_query, json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::idempotency::IdempotentRequest;
use crate::openapi::{IdempotencyEffect, Operation, OperationTag};
use crate::request_body;
use crate::thread_settings::{MAX_INSTRUCTIONS_CHARS, ThreadSettingsChange, present};

/// The most things a list gives.
const MAX_LIST_ITEMS: usize = 200;
/// Threads that one request looks through for words; `next` goes on where it stopped.
const MAX_THREADS_SEARCHED: usize = 1000;
/// After this time a search stops, once it has looked through a thread; `next` goes on there.
const THREAD_SEARCH_TIME: Duration = Duration::from_secs(2);
/// Bytes of a thread that a search looks through, the newest first.
const MAX_SEARCHED_BYTES: usize = 4 * 1024 * 1024;
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
            update_thread,
            operation("update_thread", "Changes the title or the settings of a thread.")
                .body::<UpdateThreadBody>()
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
                .query::<MessageListQuery>()
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
    /// The model that answers, by the `id` of one of the models. `null` is the default model.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<String>", length(min = 1, max = 300))]
    model: Option<Option<String>>,
    /// The temperature of answers. `null` leaves it to the model.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<f32>", range(min = 0.0, max = 2.0))]
    temperature: Option<Option<f32>>,
    /// Instructions for the model, sent with every turn.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<String>", length(max = MAX_INSTRUCTIONS_CHARS))]
    instructions: Option<Option<String>>,
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
    let MakeThreadBody { model, temperature, instructions, .. } = make;
    ThreadSettingsChange { model, temperature, instructions }.add_to(&mut metadata, &app)?;
    let key = once.key().map(str::to_owned);
    let thread = agent_request::new_thread_key(&app, &caller, key.as_deref()).await?;
    let hash = agent_request::request_hash("", &thread, &bytes);
    once.with_body(&bytes)
        .respond_once(async move {
            let made = match agent_request::find_created_thread(&app, &thread, key.as_deref(), &hash).await? {
                Some(made) => made,
                None => {
                    if key.is_some() {
                        metadata.insert(agent_request::REQUEST_HASH_METADATA.into(), hash.into());
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
    /// and endings. A request searches a thousand threads: while `next` is not `null` there are more, even if nothing was
    /// found yet.
    q: Option<String>,
    /// The maximum number of threads, at least 1. The server returns at most 200.
    limit: Option<NonZeroUsize>,
    /// `next` of the page before. Threads that are added or changed later are not on the pages after it.
    #[schemars(length(max = 160))]
    cursor: Option<String>,
    /// Only pinned threads.
    #[serde(default)]
    pinned: bool,
}

/// `GET /api/threads`: the last changed first; with `q`, those whose title and words hold every word of it. A search looks through so
/// many at a time: `next` says where it goes on, also when nothing was found yet.
async fn list_threads(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    find: Result<Query<ThreadListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let ThreadListQuery { q, limit, cursor, pinned } = query_value(find)?;
    let limit = limit.map_or(50, NonZeroUsize::get).min(MAX_LIST_ITEMS);
    let after = cursor.as_deref().map(parse_thread_cursor).transpose()?;
    let wanted = match q.filter(|q| !q.trim().is_empty()) {
        Some(q) => {
            check_query(&q, MAX_WORD_QUERY_CHARS)?;
            WordSearch::new(&q)
        }
        None => None,
    };
    let max_searched = if wanted.is_some() { MAX_THREADS_SEARCHED } else { usize::MAX };
    // A search reads whole conversations.
    let _turn = match &wanted {
        Some(_) => Some(BulkRead::acquire(&app, &caller).await?),
        None => None,
    };
    let deadline = Instant::now() + THREAD_SEARCH_TIME;
    let (mut threads, mut searched) = (Vec::new(), 0);
    let mut last_seen = after.clone();
    let mut filter = ThreadFilter { after, limit: MAX_LIST_ITEMS, ..ThreadFilter::default() };
    if pinned {
        filter.metadata.insert(api::PINNED_METADATA.into(), true.into());
    }
    let next = 'looking: loop {
        let page = app.runtime.list_threads(&caller.tenant, &filter).await?;
        let is_last = page.len() < MAX_LIST_ITEMS;
        filter.after = page.last().map(ThreadListPosition::from);
        for row in page {
            let is_late = wanted.is_some() && searched > 0 && Instant::now() >= deadline;
            if threads.len() == limit || searched == max_searched || is_late {
                break 'looking last_seen.as_ref().map(format_thread_cursor);
            }
            last_seen = Some(ThreadListPosition::from(&row));
            searched += 1;
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
    Ok(json_response(api::ThreadList { threads, next }))
}

/// Where a page of threads ended, for the next request.
fn format_thread_cursor(position: &ThreadListPosition) -> String {
    format!("{}.{}", position.updated_at, position.thread)
}

fn parse_thread_cursor(cursor: &str) -> Result<ThreadListPosition, ApiError> {
    let position = cursor.split_once('.').and_then(|(updated_at, thread)| {
        Some(ThreadListPosition { updated_at: updated_at.parse().ok()?, thread: ThreadId::new(thread).ok()? })
    });
    position.ok_or_else(|| {
        ApiError::for_parameter(
            "cursor",
            "it is not the `next` of another page",
            "다른 쪽의 `next`가 아닙니다",
        )
    })
}

/// Whether all of these words are in the title or in the messages of the thread.
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
    let messages = match history::read_history(&app.runtime, &row.key, &app.agents.current()).await {
        Ok(messages) => messages,
        // Removed in between.
        Err(EngineError::Store(StoreError::NotFound { .. })) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    // Where it takes nobody else's time.
    let looking = tokio::task::spawn_blocking(move || messages_contain_words(messages, wanted));
    looking.await.map_err(|error| {
        tracing::error!(%error, "the search in threads panicked");
        ApiErrorCode::Internal.into()
    })
}

fn messages_contain_words(messages: Vec<HistoryMessage>, mut wanted: WordSearch) -> bool {
    let mut left = MAX_SEARCHED_BYTES;
    for message in messages.into_iter().rev().map(api::MessageInfo::from_history) {
        if matches!(message.role, Role::User | Role::Assistant) {
            wanted.look_into(&message.text[..message.text.floor_char_boundary(left)]);
            left = left.saturating_sub(message.text.len());
        }
        if wanted.is_found() || left == 0 {
            break;
        }
    }
    wanted.is_found()
}

/// `GET /api/threads/{thread}`
async fn get_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json_response(api::ThreadInfo::from_row(&load_thread_row(&app, &caller, &path_value(name)?).await?)))
}

/// Changes to a thread. What is left out stays as it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateThreadBody {
    /// The title of the thread.
    #[schemars(length(min = 1, max = MAX_TITLE_CHARS))]
    title: Option<String>,
    /// Whether the thread is pinned to the top of lists.
    pinned: Option<bool>,
    /// The model that answers, by the `id` of one of the models. `null` is the default model.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<String>", length(min = 1, max = 300))]
    model: Option<Option<String>>,
    /// The temperature of answers. `null` leaves it to the model.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<f32>", range(min = 0.0, max = 2.0))]
    temperature: Option<Option<f32>>,
    /// Instructions for the model, sent with every turn.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<String>", length(max = MAX_INSTRUCTIONS_CHARS))]
    instructions: Option<Option<String>>,
}

/// `PATCH /api/threads/{thread}`
async fn update_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let (change, _) = request_body::read_json::<UpdateThreadBody>(request, &app.limits).await?;
    let mut metadata = Map::new();
    if let Some(title) = &change.title {
        metadata.insert("title".into(), check_title(title)?.into());
    }
    if let Some(pinned) = change.pinned {
        metadata.insert(api::PINNED_METADATA.into(), pinned.into());
    }
    let UpdateThreadBody { model, temperature, instructions, .. } = change;
    ThreadSettingsChange { model, temperature, instructions }.add_to(&mut metadata, &app)?;
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
    // First: a thread that is still there can be deleted again.
    delete_attachments(&app, &caller, found.key.thread.as_str()).await?;
    remove_thread(&app, &found.key).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes a thread with its runs and crons. Runs that wait end before the active one, so that none of them begins.
pub(super) async fn remove_thread(app: &ServerApp, thread: &ThreadKey) -> Result<(), ApiError> {
    // First: a cron that is due would make the thread anew.
    delete_thread_crons(app, thread).await?;
    app.runtime.delete_thread(thread).await?;
    Ok(())
}

/// What may follow the path of the messages.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MessageListQuery {
    /// The messages of the branch that leads to this log entry. The default is the newest entry.
    at: Option<Seq>,
    /// Only messages of earlier log entries than this one: the `earlier` of another page.
    before: Option<Seq>,
    /// The newest messages only, at most this many and those of the same log entry. The default is all.
    limit: Option<NonZeroUsize>,
}

/// `GET /api/threads/{thread}/messages`: all messages of a branch, also those that the agent no longer sends to the model.
async fn list_messages(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    name: Result<Path<String>, PathRejection>,
    at: Result<Query<MessageListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let MessageListQuery { at, before, limit } = query_value(at)?;
    let at = at.map(|at| check_seq(Some(at))).transpose()?;
    if at.is_some_and(|at| at == 0 || at > found.head) {
        return Err(EngineError::from(StoreError::no_entry(at.unwrap_or(0))).into());
    }
    let entries = history::read_entries(&app.runtime, &found.key, at).await?;
    let mut messages =
        history::messages_from_entries(&entries, &app.agents.current()).map_err(EngineError::from)?;
    if let Some(before) = before {
        messages.retain(|message| message.seq < before);
    }
    // A page begins with a whole log entry, so that the next one can be named by it.
    let newest = messages.len().saturating_sub(limit.map_or(usize::MAX, NonZeroUsize::get));
    let start = messages.get(newest).map_or(0, |first| first.seq);
    let page = messages.split_off(messages.iter().position(|message| message.seq >= start).unwrap_or(0));
    let earlier = if messages.is_empty() { None } else { page.first().map(|first| first.seq) };
    let messages = page;
    let asked = asked_questions_from_entries(&entries);
    Ok(json_response(api::MessageList {
        earlier,
        messages: messages.into_iter().map(api::MessageInfo::from_history).collect(),
        decisions: asked.iter().map(api::DecisionInfo::from_asked_question).collect(),
        feedback: api::FeedbackInfo::of_thread(&found),
    }))
}

/// What may follow the path of the history.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ThreadHistoryQuery {
    /// Only entries after this number.
    after: Option<Seq>,
    /// The maximum number of entries, at least 1. The server returns at most 200.
    limit: Option<NonZeroUsize>,
}

/// `GET /api/threads/{thread}/history`: the steps, oldest first.
async fn list_history(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    name: Result<Path<String>, PathRejection>,
    after: Result<Query<ThreadHistoryQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let ThreadHistoryQuery { after, limit } = query_value(after)?;
    let limit = limit.map_or(MAX_LIST_ITEMS, NonZeroUsize::get).min(MAX_LIST_ITEMS);
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
    /// The agent whose state it is. The default is that of the newest run. It is needed if the thread has no agent.
    agent: Option<String>,
    /// The name of a node. The response then has the requests that this node would send to models.
    explain: Option<String>,
}

/// `GET /api/threads/{thread}/state`: the state after an entry, the newest without `at`.
async fn get_state(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    name: Result<Path<String>, PathRejection>,
    at: Result<Query<ThreadStateQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let found = load_thread_row(&app, &caller, &path_value(name)?).await?;
    let ThreadStateQuery { at, agent, explain } = query_value(at)?;
    let agent = agent_of_thread(&app, &found, agent.as_deref()).await?;
    let at = at.map(|at| check_seq(Some(at))).transpose()?;
    let view = app.runtime.view(&agent.name, &found.key, at).await?;
    let mut info = api::ThreadStateInfo::from_view(view);
    if let Some(node) = explain {
        match agent.explain(&node, &info.state, &found.key).await {
            Ok(requests) => {
                info.digests = requests.iter().map(request_digest).collect();
                info.asks = Some(requests.iter().map(|request| json!(request)).collect());
            }
            Err(error) => info.asks_error = Some(error.to_string()),
        }
    }
    Ok(json_response(info))
}

pub(super) async fn load_thread_row(
    app: &ServerApp,
    caller: &ApiCaller,
    name: &str,
) -> Result<ThreadRow, ApiError> {
    let thread = agent_request::thread_key(caller, name)?;
    Ok(app.runtime.thread_row(&thread).await?)
}

/// The agent that is named, or else that of the newest run. Of a thread without runs it is the one that it was made for.
pub(super) async fn agent_of_thread(
    app: &ServerApp,
    thread: &ThreadRow,
    named: Option<&str>,
) -> Result<Agent, ApiError> {
    let newest = RunFilter { thread: Some(thread.key.thread.clone()), limit: 1, ..RunFilter::default() };
    let newest = app.runtime.list_runs(&thread.key.tenant, &newest).await?;
    let newest = newest.first().map(|run| run.graph.as_str());
    let known = newest.or_else(|| thread.metadata.get("agent")?.as_str());
    let missing =
        || ApiError::with_message(ApiErrorCode::BadInput, "name the `agent`", "`agent`를 적어 주세요");
    agent_request::find_agent(app, named.or(known).ok_or_else(missing)?)
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

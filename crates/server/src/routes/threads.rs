//! Threads: made, found, renamed, removed, and looked into at any step.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_agents::retrieval::holds;
use doran_engine::store::{Entry, Seq, StoreError, ThreadFilter, ThreadRow};
use doran_engine::{EngineError, log};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{json, path, query};
use crate::App;
use crate::api;
use crate::ask;
use crate::body;
use crate::error::{ApiError, Code};
use crate::identity::Caller;
use crate::once::Once;
use crate::why::Why;

/// The most things a list gives.
const MOST: usize = 200;
/// Threads that one request looks through for words; `next` goes on where it stopped.
const LOOKED: usize = 1000;
/// No tenant has more threads; a larger cursor is a mistake.
const MOST_THREADS: usize = 1 << 40;
/// The most characters of a title.
const TITLE: usize = 200;

/// `POST /api/threads`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Make {
    agent: Option<String>,
    title: Option<String>,
}

/// `POST /api/threads`: makes an empty thread.
pub(super) async fn make(
    State(app): State<App>,
    caller: Caller,
    once: Once,
    request: Request,
) -> Result<Response, ApiError> {
    let (make, bytes) = body::json::<Make>(request, &app.limits).await?;
    let mut metadata = Map::new();
    if let Some(agent) = &make.agent {
        metadata.insert("agent".into(), ask::agent(&app, agent)?.name.clone().into());
    }
    if let Some(title) = &make.title {
        metadata.insert("title".into(), checked(title)?.into());
    }
    let key = once.key().map(str::to_owned);
    let thread = ask::new_thread(&caller, key.as_deref());
    let asked = ask::hash("", &thread, &bytes);
    once.with(&bytes)
        .answer(async move {
            let made = match ask::made_before(&app, &thread, key.as_deref(), &asked).await? {
                Some(made) => made,
                None => {
                    if key.is_some() {
                        metadata.insert(ask::MADE_BY.into(), asked.into());
                    }
                    app.runtime.store().put_thread(&thread, &metadata).await.map_err(EngineError::from)?
                }
            };
            Ok((StatusCode::CREATED, json!(api::Thread::of(&made))))
        })
        .await
}

/// What may follow the path of the list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Find {
    q: Option<String>,
    limit: Option<usize>,
    cursor: Option<usize>,
}

/// `GET /api/threads`: the last changed first; with `q`, those whose title and words hold every word of it. A search looks through so
/// many at a time: `next` says where it goes on, also when nothing was found yet.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    find: Result<Query<Find>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Find { q, limit, cursor } = query(find)?;
    let limit = limit.unwrap_or(50).clamp(1, MOST);
    let mut offset = cursor.unwrap_or(0);
    if offset > MOST_THREADS {
        return Err(ApiError::because(
            Code::BadInput,
            "there are not that many threads",
            "대화가 그렇게 많지 않습니다",
        ));
    }
    let wanted = q.map(|q| q.trim().to_owned()).filter(|q| !q.is_empty());
    let most = if wanted.is_some() { LOOKED } else { usize::MAX };
    let (mut threads, mut looked) = (Vec::new(), 0);
    let next = 'looking: loop {
        let filter = ThreadFilter { offset, limit: MOST, ..ThreadFilter::default() };
        let page = app.runtime.store().threads(&caller.tenant, &filter).await.map_err(EngineError::from)?;
        let is_last = page.len() < MOST;
        for row in page {
            if threads.len() == limit || looked == most {
                break 'looking Some(offset);
            }
            offset += 1;
            looked += 1;
            let thread = api::Thread::of(&row);
            let fits = match &wanted {
                None => true,
                Some(wanted) => {
                    holds(&thread.title, wanted) || says(&app, &row, &thread.title, wanted).await?
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
    Ok(json(json!({ "threads": threads, "next": next })))
}

/// Whether these words stand in the title or were said on the thread, all of them and wherever each does.
async fn says(app: &App, row: &ThreadRow, title: &str, wanted: &str) -> Result<bool, ApiError> {
    let said = match doran_agents::history::read(&**app.runtime.store(), &row.key).await {
        Ok(said) => said,
        // Removed in between.
        Err(StoreError::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(EngineError::from(error).into()),
    };
    let mut all = title.to_owned();
    for said in said.into_iter().map(api::Said::of) {
        if said.role == "user" || said.role == "assistant" {
            all.push('\n');
            all.push_str(&said.text);
        }
    }
    Ok(holds(&all, wanted))
}

/// `GET /api/threads/{thread}`
pub(super) async fn one(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json(api::Thread::of(&row(&app, &caller, &path(name)?).await?)))
}

/// `PATCH /api/threads/{thread}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rename {
    title: String,
}

/// `PATCH /api/threads/{thread}`: calls it otherwise.
pub(super) async fn rename(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let found = row(&app, &caller, &path(name)?).await?;
    let (rename, _) = body::json::<Rename>(request, &app.limits).await?;
    let metadata = Map::from_iter([("title".to_owned(), Value::from(checked(&rename.title)?))]);
    let row = app.runtime.store().put_thread(&found.key, &metadata).await.map_err(EngineError::from)?;
    Ok(json(api::Thread::of(&row)))
}

/// `DELETE /api/threads/{thread}`: removes it with all it holds. A run under way ends.
pub(super) async fn remove(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let found = row(&app, &caller, &path(name)?).await?;
    if let Some(run) = found.active {
        app.runtime.cancel(&found.key.run(run)).await?;
    }
    app.runtime.store().delete_thread(&found.key).await.map_err(EngineError::from)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /api/threads/{thread}/messages`: all that was said, whatever the agent still works with.
pub(super) async fn messages(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let found = row(&app, &caller, &path(name)?).await?;
    let said = doran_agents::history::read(&**app.runtime.store(), &found.key).await;
    let said: Vec<api::Said> = said.map_err(EngineError::from)?.into_iter().map(api::Said::of).collect();
    Ok(json(json!({ "messages": said })))
}

/// What may follow the path of the history.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    after: Option<Seq>,
    limit: Option<usize>,
}

/// `GET /api/threads/{thread}/history`: the steps, oldest first.
pub(super) async fn history(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
    after: Result<Query<After>, QueryRejection>,
) -> Result<Response, ApiError> {
    let found = row(&app, &caller, &path(name)?).await?;
    let After { after, limit } = query(after)?;
    let limit = limit.unwrap_or(MOST).clamp(1, MOST);
    let store = app.runtime.store();
    let entries = store.entries(&found.key, number(after)?, limit).await.map_err(EngineError::from)?;
    let next = entries.last().map(|last| last.seq).filter(|last| *last < found.head);
    let steps = entries.iter().map(step).collect::<Result<Vec<Value>, ApiError>>()?;
    Ok(json(json!({ "steps": steps, "next": next })))
}

fn step(entry: &Entry) -> Result<Value, ApiError> {
    let damaged = |error: serde_json::Error| {
        tracing::error!(%error, seq = entry.seq, "an entry cannot be read");
        ApiError::from(Code::Internal)
    };
    let mut shown = json!({
        "seq": entry.seq,
        "parent": entry.parent,
        "kind": entry.kind,
        "run": entry.run.map(|run| run.to_string()),
        "at": entry.at,
    });
    if let log::Body::Step(step) | log::Body::Inner(step) = entry.read().map_err(damaged)? {
        let nodes: Vec<String> = step.tasks.iter().map(|task| task.node.to_string()).collect();
        shown["step"] = json!(step.at.step);
        shown["nodes"] = json!(nodes);
        shown["next"] = json!(step.at.due_nodes());
    }
    Ok(shown)
}

/// What may follow the path of the state.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    at: Option<Seq>,
    /// Whose state it is, where the thread does not know.
    agent: Option<String>,
    /// Also what this node would ask models in that state.
    explain: Option<String>,
}

/// `GET /api/threads/{thread}/state`: the state after an entry, the newest without `at`.
pub(super) async fn state(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
    at: Result<Query<At>, QueryRejection>,
) -> Result<Response, ApiError> {
    let found = row(&app, &caller, &path(name)?).await?;
    let At { at, agent, explain } = query(at)?;
    let known = found.metadata.get("agent").and_then(Value::as_str).map(str::to_owned);
    let agent = agent.or(known).ok_or_else(no_agent)?;
    let agent = ask::agent(&app, &agent)?;
    let at = at.map(|at| number(Some(at))).transpose()?;
    let view = app.runtime.view(&agent.name, &found.key, at).await?;
    let mut shown = json!({ "seq": view.seq, "next": view.at.due_nodes() });
    if let Some(node) = explain {
        let asked = agent.explain(&node, &view.state).map_err(|_| Code::Internal)?;
        shown["asks"] = json!(asked);
    }
    shown["state"] = view.state;
    Ok(json(shown))
}

pub(super) async fn row(app: &App, caller: &Caller, name: &str) -> Result<ThreadRow, ApiError> {
    let thread = ask::thread(caller, name)?;
    Ok(app.runtime.store().thread(&thread).await.map_err(EngineError::from)?)
}

pub(super) fn no_agent() -> ApiError {
    ApiError::because(Code::BadInput, "name the `agent`", "`agent`를 적어 주세요")
}

/// Databases count to 2^63.
pub(super) fn number(seq: Option<Seq>) -> Result<Seq, ApiError> {
    let seq = seq.unwrap_or(0);
    if seq > 1 << 53 {
        return Err(ApiError::because(
            Code::BadInput,
            "no thread has that many entries",
            "기록이 그렇게 많은 대화는 없습니다",
        ));
    }
    Ok(seq)
}

pub(super) fn checked(title: &str) -> Result<String, ApiError> {
    let title = title.trim();
    let wrong = if title.is_empty() {
        Why::new("`title` is empty", "`title`이 비어 있습니다")
    } else if title.chars().count() > TITLE {
        Why::new(
            format!("`title` has more than {TITLE} characters"),
            format!("`title`이 {TITLE}자를 넘습니다"),
        )
    } else if title.chars().any(char::is_control) {
        Why::new("`title` holds a control character", "`title`에 제어 문자가 있습니다")
    } else {
        return Ok(title.to_owned());
    };
    Err(ApiError::why(Code::BadInput, wrong))
}

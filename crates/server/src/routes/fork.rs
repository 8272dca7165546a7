//! `POST /api/threads/{thread}/fork`: a thread that goes its own way from a step of another, which stays as it is.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use doran_agents::Agent;
use doran_engine::store::{EntryKind, RunFilter, Seq, StoreError, ThreadRow};
use doran_engine::{EngineError, StartOptions, ThreadKey};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::path;
use super::threads::{checked, no_agent, number, row};
use crate::App;
use crate::api;
use crate::ask;
use crate::body;
use crate::error::{ApiError, Code};
use crate::identity::Caller;
use crate::once::Once;

/// What a fork is to be.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    /// After this entry of the history; after the newest without it.
    at: Option<Seq>,
    /// What people call it; as the source without it.
    title: Option<String>,
    /// Whose state it is, where the thread does not know.
    agent: Option<String>,
    /// Whether what was due after that entry is done again at once.
    #[serde(default)]
    go_on: bool,
}

pub(super) async fn fork(
    State(app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
    once: Once,
    request: Request,
) -> Result<Response, ApiError> {
    let name = path(name)?;
    let (fork, bytes) = body::json::<Fork>(request, &app.limits).await?;
    let title = fork.title.as_deref().map(checked).transpose()?;
    let key = once.key().map(str::to_owned);
    once.with(&bytes)
        .answer(async move {
            let source = row(&app, &caller, &name).await?;
            let at = fork.at.map(|at| number(Some(at))).transpose()?;
            if let Some(at) = at {
                check_entry(&app, &source, at).await?;
            }
            // Whatever can be wrong is found out before anything is made.
            let agent = if fork.go_on { Some(who(&app, &source, fork.agent.as_deref())?) } else { None };
            let named = name_of(&app, &caller, key.as_deref(), &source, &bytes).await?;
            let to = ask::new_thread(&caller, named.as_deref());
            let mut made = match row_of(&app, &to).await? {
                Some(made) => made,
                None => {
                    let to = app.runtime.fork(&source.key, at, &to.thread).await?;
                    app.runtime.store().thread(&to).await.map_err(EngineError::from)?
                }
            };
            // A server that died before this left the fork under the name of its source.
            if let Some(title) = title
                && made.metadata.get("title") == source.metadata.get("title")
            {
                let metadata = Map::from_iter([("title".to_owned(), title.into())]);
                made = app.runtime.store().put_thread(&to, &metadata).await.map_err(EngineError::from)?;
            }
            let made = match agent {
                Some(agent) => go_on(&app, agent, made).await?,
                None => made,
            };
            Ok((StatusCode::CREATED, json!(api::Thread::of(&made))))
        })
        .await
}

/// What the thread of a request that may be sent again is named by: its key and all that it says. So it is known for what
/// it is from the moment it is there, which is one write, and another request under the key never comes upon it.
async fn name_of(
    app: &App,
    caller: &Caller,
    key: Option<&str>,
    source: &ThreadRow,
    bytes: &[u8],
) -> Result<Option<String>, ApiError> {
    let Some(key) = key else { return Ok(None) };
    // A thread that was made or asked under the key itself is another request's.
    if row_of(app, &ask::new_thread(caller, Some(key))).await?.is_some() {
        return Err(EngineError::from(StoreError::KeyReused(key.to_owned())).into());
    }
    Ok(Some(format!("{key} {}", ask::hash("", &source.key, bytes))))
}

async fn row_of(app: &App, thread: &ThreadKey) -> Result<Option<ThreadRow>, ApiError> {
    match app.runtime.store().thread(thread).await {
        Ok(row) => Ok(Some(row)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(EngineError::from(error).into()),
    }
}

/// Only what stands between two steps can be gone on from: what a node does inside is its own.
async fn check_entry(app: &App, source: &ThreadRow, at: Seq) -> Result<(), ApiError> {
    let before = at.checked_sub(1).filter(|_| at <= source.head);
    let before = before.ok_or_else(no_entry)?;
    let found = app.runtime.store().entries(&source.key, before, 1).await.map_err(EngineError::from)?;
    match found.first() {
        Some(entry) if entry.seq == at && entry.kind != EntryKind::Inner => Ok(()),
        Some(entry) if entry.seq == at => Err(ApiError::because(
            Code::BadInput,
            "that is a step inside a node; fork after the node's own",
            "노드 안의 단계입니다. 그 노드 자신의 단계 뒤에서 나누세요",
        )),
        Some(_) | None => Err(no_entry()),
    }
}

fn no_entry() -> ApiError {
    ApiError::because(Code::BadInput, "the thread has no such entry", "이 대화에 그런 기록이 없습니다")
}

/// Whose state is gone on with.
fn who<'a>(app: &'a App, source: &ThreadRow, named: Option<&str>) -> Result<&'a Agent, ApiError> {
    let known = source.metadata.get("agent").and_then(Value::as_str);
    ask::agent(app, named.or(known).ok_or_else(no_agent)?)
}

/// Does what is due where the thread stands, if anything is and it was not done before.
async fn go_on(app: &App, agent: &Agent, made: ThreadRow) -> Result<ThreadRow, ApiError> {
    let thread = &made.key;
    let filter = RunFilter { thread: Some(thread.thread.clone()), limit: 1, ..RunFilter::default() };
    let runs = app.runtime.store().runs(&thread.tenant, &filter).await.map_err(EngineError::from)?;
    // A server that died after it began comes back to the same run.
    if let Some(run) = runs.first() {
        return Ok(ThreadRow { active: Some(run.run), ..made });
    }
    let view = app.runtime.view(&agent.name, thread, None).await?;
    if view.at.due_nodes().is_empty() {
        return Ok(made);
    }
    let run = app.runtime.start(&agent.name, thread, None, StartOptions::default()).await?;
    app.metrics.run_started();
    tracing::info!(run = %run.id(), agent = %agent.name, "run started on a fork");
    // A quick run may be over already; who asked wants to know which one it was.
    Ok(ThreadRow { active: Some(run.id()), ..made })
}

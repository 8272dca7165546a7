//! `POST /api/threads/{thread}/fork`: copies a thread up to a step. The original stays unchanged.

use std::collections::BTreeSet;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use doran_agents::Agent;
use doran_engine::runtime::StateEdit;
use doran_engine::store::{EntryKind, RunFilter, Seq, StoreError, ThreadRow};
use doran_engine::{EngineError, MisuseError, StartOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::edit_state::{check_state, edit_error};
use super::threads::{MAX_TITLE_CHARS, agent_of_thread, check_seq, check_title, load_thread_row};
use super::{ApiRoute, path_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::idempotency::IdempotentRequest;
use crate::openapi::{IdempotencyEffect, Operation, OperationTag};
use crate::request_body;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::post(
        "/api/threads/{thread}/fork",
        fork_thread,
        Operation::new(
            OperationTag::Threads,
            "fork_thread",
            "Creates a thread that continues from a log entry of this one, which stays unchanged.",
        )
        .idempotent(IdempotencyEffect::SameResponse)
        .body::<ForkThreadBody>()
        .returns::<api::ThreadInfo>(201, "The new thread.")
        .errors(&[
            ApiErrorCode::NotFound,
            ApiErrorCode::UnknownAgent,
            ApiErrorCode::BudgetSpent,
            ApiErrorCode::Conflict,
            ApiErrorCode::DiskFull,
        ]),
    )]
}

/// A fork.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForkThreadBody {
    /// The log entry (`seq`) to continue from. The default is the newest entry.
    at: Option<Seq>,
    /// The title. The default is the title of the source.
    #[schemars(length(min = 1, max = MAX_TITLE_CHARS))]
    title: Option<String>,
    /// The agent whose state it is. It is needed if the thread has no agent.
    agent: Option<String>,
    /// Whether the nodes that are due after the entry run at once. `active` is then their run.
    #[serde(default)]
    go_on: bool,
    /// Replaces the state in the fork. Fields that are left out get their default.
    state: Option<Value>,
    /// With `state`: continue as if this node had just finished. The default is where the entry stands.
    as_node: Option<String>,
    /// With `go_on`: nodes before which the run pauses.
    #[serde(default)]
    pause_before: BTreeSet<String>,
    /// With `go_on`: nodes after which the run pauses.
    #[serde(default)]
    pause_after: BTreeSet<String>,
}

async fn fork_thread(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    once: IdempotentRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let name = path_value(name)?;
    let (fork, bytes) = request_body::read_json::<ForkThreadBody>(request, &app.limits).await?;
    let title = fork.title.as_deref().map(check_title).transpose()?;
    let key = once.key().map(str::to_owned);
    once.with_body(&bytes)
        .respond_once(async move {
            let source = load_thread_row(&app, &caller, &name).await?;
            let at = fork.at.map(|at| check_seq(Some(at))).transpose()?;
            if let Some(at) = at {
                check_fork_entry(&app, &source, at).await?;
            }
            // Whatever can be wrong is found out before anything is made.
            check_fork_options(&app, &source, &fork).await?;
            let agent = if fork.go_on || fork.state.is_some() {
                Some(agent_of_thread(&app, &source, fork.agent.as_deref()).await?)
            } else {
                None
            };
            if fork.go_on {
                agent_request::check_budget(&app, &caller.tenant).await?;
            }
            let named = fork_thread_name(&app, &caller, key.as_deref(), &source, &bytes).await?;
            let to = agent_request::new_thread_key(&app, &caller, named.as_deref()).await?;
            let mut made = match app.runtime.find_thread_row(&to).await? {
                Some(made) => made,
                None => {
                    let to = app.runtime.fork(&source.key, at, &to.thread).await?;
                    app.runtime.thread_row(&to).await?
                }
            };
            // A server that died before this left the fork under the name of its source.
            if let Some(title) = title
                && made.metadata.get("title") == source.metadata.get("title")
            {
                let metadata = Map::from_iter([("title".to_owned(), title.into())]);
                made = app.runtime.put_thread(&to, &metadata).await?;
            }
            let made = match agent {
                Some(agent) => change_and_continue(&app, &agent, made, &fork).await?,
                None => made,
            };
            Ok((StatusCode::CREATED, json!(api::ThreadInfo::from_row(&made))))
        })
        .await
}

/// What the thread of a request that may be sent again is named by: its key and all that it says. So it is known for what
/// it is from the moment it is there, which is one write, and another request under the key never comes upon it.
async fn fork_thread_name(
    app: &ServerApp,
    caller: &ApiCaller,
    key: Option<&str>,
    source: &ThreadRow,
    bytes: &[u8],
) -> Result<Option<String>, ApiError> {
    let Some(key) = key else { return Ok(None) };
    // A thread that was made or used under the key itself is another request's.
    let named = agent_request::new_thread_key(app, caller, Some(key)).await?;
    if app.runtime.find_thread_row(&named).await?.is_some() {
        return Err(EngineError::from(StoreError::KeyReused(key.to_owned())).into());
    }
    Ok(Some(format!("{key} {}", agent_request::request_hash("", &source.key, bytes))))
}

/// Only what stands between two steps can be gone on from: what a node does inside is its own.
pub(super) async fn check_fork_entry(app: &ServerApp, source: &ThreadRow, at: Seq) -> Result<(), ApiError> {
    let before = at.checked_sub(1).filter(|_| at <= source.head);
    let before = before.ok_or_else(unknown_entry_error)?;
    let found = app.runtime.entries(&source.key, before, 1).await?;
    match found.first() {
        Some(entry) if entry.seq == at && entry.kind() != EntryKind::Inner => Ok(()),
        Some(entry) if entry.seq == at => Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "that is a step inside a node; fork after the node's own",
            "노드 안의 단계입니다. 그 노드 자신의 단계 뒤에서 나누세요",
        )),
        Some(_) | None => Err(unknown_entry_error()),
    }
}

fn unknown_entry_error() -> ApiError {
    ApiError::with_message(
        ApiErrorCode::BadInput,
        "the thread has no such entry",
        "이 대화에 그런 기록이 없습니다",
    )
}

/// What is of no use without something else is refused.
async fn check_fork_options(
    app: &ServerApp,
    source: &ThreadRow,
    fork: &ForkThreadBody,
) -> Result<(), ApiError> {
    if fork.as_node.is_some() && fork.state.is_none() {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`as_node` comes with `state`",
            "`as_node`는 `state`와 함께 적습니다",
        ));
    }
    let pauses = !fork.pause_before.is_empty() || !fork.pause_after.is_empty();
    if pauses && !fork.go_on {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`pause_before` and `pause_after` come with `go_on`",
            "`pause_before`와 `pause_after`는 `go_on`과 함께 적습니다",
        ));
    }
    let named: Vec<&String> =
        fork.pause_before.iter().chain(&fork.pause_after).chain(&fork.as_node).collect();
    if named.is_empty() && fork.state.is_none() {
        return Ok(());
    }
    let agent = agent_of_thread(app, source, fork.agent.as_deref()).await?;
    if let Some(state) = &fork.state {
        check_state(&agent, state)?;
    }
    let topology = app.runtime.topology(&agent.name)?;
    match named.into_iter().find(|node| !topology.has_node(node)) {
        Some(node) => {
            Err(EngineError::from(MisuseError::UnknownNode { graph: agent.name.clone(), node: node.clone() })
                .into())
        }
        None => Ok(()),
    }
}

/// Puts the state in place, which may be done twice, and does what is due.
async fn change_and_continue(
    app: &ServerApp,
    agent: &Agent,
    made: ThreadRow,
    fork: &ForkThreadBody,
) -> Result<ThreadRow, ApiError> {
    let mut made = made;
    if let Some(state) = &fork.state
        && !has_run(app, &made).await?
    {
        let edit =
            StateEdit { state: Some(state.clone()), as_node: fork.as_node.clone(), ..StateEdit::default() };
        if let Err(error) = app.runtime.edit(&agent.name, &made.key, None, &edit).await {
            app.runtime.delete_thread(&made.key).await?;
            return Err(edit_error(error));
        }
        made = app.runtime.thread_row(&made.key).await?;
    }
    if fork.go_on { start_due_nodes(app, agent, made, fork).await } else { Ok(made) }
}

async fn has_run(app: &ServerApp, thread: &ThreadRow) -> Result<bool, ApiError> {
    let filter = RunFilter { thread: Some(thread.key.thread.clone()), limit: 1, ..RunFilter::default() };
    Ok(!app.runtime.list_runs(&thread.key.tenant, &filter).await?.is_empty())
}

/// Does what is due where the thread stands, if anything is and it was not done before.
async fn start_due_nodes(
    app: &ServerApp,
    agent: &Agent,
    made: ThreadRow,
    fork: &ForkThreadBody,
) -> Result<ThreadRow, ApiError> {
    let thread = &made.key;
    let filter = RunFilter { thread: Some(thread.thread.clone()), limit: 1, ..RunFilter::default() };
    let runs = app.runtime.list_runs(&thread.tenant, &filter).await?;
    // A server that died after it began comes back to the same run.
    if let Some(run) = runs.first() {
        return Ok(ThreadRow { active: Some(run.run), ..made });
    }
    let view = app.runtime.view(&agent.name, thread, None).await?;
    if view.next.is_empty() {
        return Ok(made);
    }
    let options = StartOptions {
        pause_before: fork.pause_before.clone(),
        pause_after: fork.pause_after.clone(),
        ..StartOptions::default()
    };
    let run = agent_request::submit_run(app, agent, thread, None, options).await?;
    // A quick run may be over already; the client wants to know which one it was.
    Ok(ThreadRow { active: Some(run.id()), ..made })
}

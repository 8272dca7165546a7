//! What is remembered across threads: seen, and forgotten. Agents keep it when somebody asks them to; nothing is kept here.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_agents::memory::{Fact, MOST_FACTS, Memories, MemoryError, Owner, SPACE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{json, path, query};
use crate::App;
use crate::error::{ApiError, Code};
use crate::identity::Caller;

/// What may follow the path.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    q: Option<String>,
}

/// `GET /api/memory`: every fact of the tenant, newest first; with `?q=` those that share words with it, best first.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    of: Result<Query<Of>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (memories, owner) = (memories(&app)?, owner(&caller));
    let facts = match query(of)?.q.as_deref().map(str::trim) {
        Some(words) if !words.is_empty() => memories.find(&owner, words, MOST_FACTS).await,
        Some(_) | None => memories.list(&owner).await,
    };
    let facts: Vec<Value> = facts.map_err(sorted)?.iter().map(shown).collect();
    Ok(json(json!({ "facts": facts })))
}

/// `DELETE /api/memory/{fact}`: forgets one.
pub(super) async fn forget(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let id = path(id)?;
    if memories(&app)?.forget(&owner(&caller), &id).await.map_err(sorted)? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let (en, ko) = (format!("nothing is remembered as `{id}`"), format!("`{id}`(으)로 기억한 것이 없습니다"));
    Err(ApiError::because(Code::NotFound, en, ko))
}

fn memories(app: &App) -> Result<&dyn Memories, ApiError> {
    app.memories.as_deref().ok_or_else(|| {
        ApiError::because(
            Code::NotFound,
            "there is no memory here; switch it on with `memory = true` in `[tools]`",
            "여기에는 기억이 없습니다. `[tools]`에 `memory = true`를 적어 켜세요",
        )
    })
}

fn owner(caller: &Caller) -> Owner {
    Owner::new(caller.tenant.as_str(), SPACE)
}

fn shown(fact: &Fact) -> Value {
    json!({ "id": fact.id, "text": fact.text, "at": fact.at_ms })
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands the error over")]
fn sorted(error: MemoryError) -> ApiError {
    tracing::error!(%error, "the memories cannot be used");
    ApiError::because(
        Code::Unavailable,
        "the memories could not be written or read",
        "기억에 쓰거나 읽지 못했습니다",
    )
}

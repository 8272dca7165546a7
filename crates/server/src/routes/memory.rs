//! Memories that agents keep across threads: list and delete. Only agents add memories.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use doran_agents::memory::{DEFAULT_SPACE, MAX_FACTS_PER_OWNER, MemoryError, MemoryOwner, MemoryStore};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiRoute, check_query, json_response, path_value, query_value};
use crate::ServerApp;
use crate::api::{MemoryFactInfo, MemoryFactList};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::{Operation, OperationTag};

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get(
            "/api/memory",
            list_memory,
            Operation::new(
                OperationTag::Memory,
                "list_memory",
                "Lists the facts that agents were asked to remember.",
            )
            .query::<MemoryListQuery>()
            .returns::<MemoryFactList>(200, "The facts, newest first.")
            .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::delete(
            "/api/memory/{fact}",
            forget_fact,
            Operation::new(OperationTag::Memory, "forget_fact", "Deletes a fact.")
                .returns_nothing("The fact was deleted.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
    ]
}

/// The most characters of a query.
const MAX_QUERY_CHARS: usize = 2000;

/// What may follow the path.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MemoryListQuery {
    /// Only facts that share words with this text, best first.
    q: Option<String>,
}

/// `GET /api/memory`: every fact of the tenant, newest first; with `?q=` those that share words with it, best first.
async fn list_memory(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    of: Result<Query<MemoryListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (memories, owner) = (require_memories(&app)?, owner(&caller));
    let facts = match query_value(of)?.q.as_deref().map(str::trim) {
        Some(words) if !words.is_empty() => {
            check_query(words, MAX_QUERY_CHARS)?;
            memories.find(&owner, words, MAX_FACTS_PER_OWNER).await
        }
        Some(_) | None => memories.list(&owner).await,
    };
    let facts = facts.map_err(memory_error)?.into_iter().map(MemoryFactInfo::from_fact).collect();
    Ok(json_response(MemoryFactList { facts }))
}

/// `DELETE /api/memory/{fact}`: forgets one.
async fn forget_fact(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let id = path_value(id)?;
    if require_memories(&app)?.forget(&owner(&caller), &id).await.map_err(memory_error)? {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let (en, ko) = (format!("nothing is remembered as `{id}`"), format!("`{id}`(으)로 기억한 것이 없습니다"));
    Err(ApiError::with_message(ApiErrorCode::NotFound, en, ko))
}

fn require_memories(app: &ServerApp) -> Result<&dyn MemoryStore, ApiError> {
    app.memories.as_deref().ok_or_else(|| {
        ApiError::with_message(
            ApiErrorCode::NotFound,
            "there is no memory here; switch it on with `memory = true` in `[tools]`",
            "여기에는 기억이 없습니다. `[tools]`에 `memory = true`를 적어 켜세요",
        )
    })
}

fn owner(caller: &ApiCaller) -> MemoryOwner {
    MemoryOwner::new(caller.tenant.as_str(), DEFAULT_SPACE)
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands the error over")]
fn memory_error(error: MemoryError) -> ApiError {
    tracing::error!(%error, "cannot read or write memories; check the disk of the data directory");
    ApiError::with_message(
        ApiErrorCode::Unavailable,
        "the memories could not be written or read",
        "기억에 쓰거나 읽지 못했습니다",
    )
}

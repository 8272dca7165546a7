//! One file a resource. A route translates and hands over.

mod agents;
mod approvals;
mod chat;
mod contract;
mod docs;
mod documents;
mod home;
mod openai;
mod runs;
mod threads;
mod usage;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;

use crate::App;
use crate::error::{ApiError, Code};
use crate::guard::guard;
use crate::identity::identify;
use crate::metrics::measure;
use crate::trace::trace;

/// All routes as a service.
pub fn router(app: &App) -> Router {
    let api = Router::new()
        .route("/api/agents", get(agents::list))
        .route("/api/agents/{agent}/graph", get(agents::graph))
        .route("/api/threads", get(threads::list).post(threads::make))
        .route("/api/threads/{thread}", get(threads::one).patch(threads::rename).delete(threads::remove))
        .route("/api/threads/{thread}/messages", get(threads::messages))
        .route("/api/threads/{thread}/history", get(threads::history))
        .route("/api/threads/{thread}/state", get(threads::state))
        .route("/api/threads/{thread}/runs", get(runs::list).post(runs::start))
        .route("/api/threads/{thread}/runs/{run}", get(runs::one))
        .route("/api/threads/{thread}/runs/{run}/events", get(runs::events))
        .route("/api/threads/{thread}/runs/{run}/resume", post(runs::resume))
        .route("/api/threads/{thread}/runs/{run}/cancel", post(runs::cancel))
        .route("/api/threads/{thread}/runs/{run}/retry", post(runs::retry))
        .route("/api/approvals", get(approvals::list))
        .route("/api/documents", get(documents::list).post(documents::add))
        .route("/api/documents/{document}", get(documents::one).delete(documents::remove))
        .route("/api/documents/{document}/text", get(documents::text))
        .route("/api/documents/{document}/{change}", post(documents::change))
        .route("/api/search", get(documents::search))
        .route("/api/usage", get(usage::usage))
        .route("/api/models", get(agents::models))
        .route("/api/chat", post(chat::chat))
        .route("/api/contract/chat", post(contract::chat))
        .layer(from_fn_with_state(app.clone(), identify));
    let openai = Router::new()
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{model}", get(openai::model))
        .route("/v1/chat/completions", post(openai::completions))
        .layer(from_fn_with_state(app.clone(), identify))
        .layer(from_fn(openai::in_their_words));
    Router::new()
        .route("/", get(home::home))
        .route("/healthz", get(home::health))
        .route("/readyz", get(home::ready))
        .route("/metrics", get(home::metrics))
        .route("/openapi.json", get(docs::document))
        .route("/docs", get(docs::page))
        .route("/docs/page.js", get(docs::script))
        .route("/docs/page.css", get(docs::style))
        .merge(api)
        .merge(openai)
        .merge(crate::ui::routes())
        .fallback(async || ApiError::from(Code::NotFound))
        .method_not_allowed_fallback(async || ApiError::from(Code::MethodNotAllowed))
        .route_layer(from_fn_with_state(app.clone(), measure))
        .with_state(app.clone())
        .layer(from_fn_with_state(app.clone(), guard))
        .layer(from_fn_with_state(app.clone(), trace))
}

/// JSON that nobody keeps.
fn json(value: impl Serialize) -> Response {
    Json(value).into_response()
}

fn path<T>(path: Result<Path<T>, PathRejection>) -> Result<T, ApiError> {
    path.map(|Path(value)| value).map_err(|rejection| ApiError::because(Code::BadPath, rejection.body_text()))
}

fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    query
        .map(|Query(value)| value)
        .map_err(|rejection| ApiError::because(Code::BadInput, rejection.body_text()))
}

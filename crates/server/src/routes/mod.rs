//! One file a resource. A route translates and hands over.

mod home;
mod runs;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{get, post};

use crate::App;
use crate::error::{ApiError, Code};
use crate::guard::guard;

/// All routes as a service.
pub fn router(app: &App) -> Router {
    Router::new()
        .route("/", get(home::home))
        .route("/healthz", get(home::health))
        .route("/api/threads/{thread}/runs", post(runs::start))
        .route("/api/threads/{thread}/runs/{run}/events", get(runs::events))
        .merge(crate::ui::routes())
        .fallback(async || ApiError::from(Code::NotFound))
        .method_not_allowed_fallback(async || ApiError::from(Code::MethodNotAllowed))
        .with_state(app.clone())
        .layer(from_fn(guard))
}

//! What this server is, and whether it is well.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::App;
use crate::api::Home;
use crate::error::{ApiError, Code};
use crate::ui;

const ROUTES: &[&str] =
    &["GET /healthz", "POST /api/threads/{thread}/runs", "GET /api/threads/{thread}/runs/{run}/events"];

/// `GET /`: the page for a browser, what this server is for a program.
pub(super) async fn home(State(app): State<App>, headers: HeaderMap) -> Response {
    let mut response = if ui::is_browser(&headers) { ui::page(headers).await } else { about(&app) };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn about(app: &App) -> Response {
    Json(Home {
        name: "doran",
        version: env!("CARGO_PKG_VERSION"),
        agents: app.agents.iter().map(Into::into).collect(),
        model: &app.model,
        routes: ROUTES,
    })
    .into_response()
}

/// `GET /healthz`: whether it takes new runs.
pub(super) async fn health(State(app): State<App>) -> Result<Response, ApiError> {
    if app.draining.is_cancelled() {
        return Err(Code::Stopping.into());
    }
    Ok(Json(json!({ "status": "ok" })).into_response())
}

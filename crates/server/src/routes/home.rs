//! What this server is, and whether it is well.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use doran_engine::Tenant;
use doran_engine::store::ThreadFilter;
use serde_json::json;
use tokio::time::timeout;

use super::json;
use crate::App;
use crate::api;
use crate::error::{ApiError, Code};
use crate::ui;

/// A store that does not answer in this time is not ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET /`: the page for a browser, what this server is for a program. Which agents there are is for those who may ask
/// them.
pub(super) async fn home(State(app): State<App>, headers: HeaderMap) -> Response {
    let mut response = if ui::is_browser(&headers) { ui::page(headers).await } else { about(&app) };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn about(app: &App) -> Response {
    let mut about = json!({ "name": "doran", "version": env!("CARGO_PKG_VERSION") });
    if app.keys.is_empty() {
        about["agents"] = app.agents.iter().map(|agent| json!(api::Agent::of(agent))).collect();
    }
    json(about)
}

/// `GET /healthz`: whether the process lives and takes new runs.
pub(super) async fn health(State(app): State<App>) -> Result<Response, ApiError> {
    if app.draining.is_cancelled() {
        return Err(Code::Stopping.into());
    }
    Ok(json(json!({ "status": "ok" })))
}

/// `GET /readyz`: whether the store answers too.
pub(super) async fn ready(State(app): State<App>) -> Result<Response, ApiError> {
    if app.draining.is_cancelled() {
        return Err(Code::Stopping.into());
    }
    let (tenant, filter) = (Tenant::local(), ThreadFilter { limit: 1, ..ThreadFilter::default() });
    match timeout(PATIENCE, app.runtime.store().threads(&tenant, &filter)).await {
        Ok(Ok(_)) => Ok(json(json!({ "status": "ready" }))),
        Ok(Err(error)) => Err(doran_engine::EngineError::from(error).into()),
        Err(_) => Err(Code::Unavailable.into()),
    }
}

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let text = app.metrics.text(app.runtime.active_runs());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

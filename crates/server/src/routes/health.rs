//! Health checks and information about the server.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use doran_agents::retrieval::RetrieveError;
use doran_engine::TenantId;
use doran_engine::store::ThreadFilter;
use serde_json::json;
use tokio::time::timeout;

use super::{ApiRoute, json_response};
use crate::ServerApp;
use crate::api::{self, HealthInfo, HealthStatus};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::{Operation, OperationTag};
use crate::ui;

/// A store that does not answer in this time is not ready.
const STORE_READY_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get(
            "/healthz",
            health,
            Operation::new(OperationTag::Server, "health", "Returns whether the process accepts new runs.")
                .returns::<HealthInfo>(200, "The process accepts new runs.")
                .errors(&[ApiErrorCode::Stopping]),
        )
        .public(),
        ApiRoute::get(
            "/readyz",
            ready,
            Operation::new(
                OperationTag::Server,
                "ready",
                "Returns whether the store and the search index answer as well.",
            )
            .returns::<HealthInfo>(200, "The store and the index answer.")
            .errors(&[
                ApiErrorCode::Stopping,
                ApiErrorCode::NewerFormat,
                ApiErrorCode::Unavailable,
                ApiErrorCode::IndexUnavailable,
            ]),
        )
        .public(),
        ApiRoute::get(
            "/metrics",
            metrics,
            Operation::new(OperationTag::Server, "metrics", "Returns metrics in the format of Prometheus.")
                .returns_text("text/plain", "The metrics.")
                .errors(&[ApiErrorCode::AdminOnly]),
        )
        .monitoring(),
        ApiRoute::web_page("/", root),
    ]
}

/// `GET /`: the page for a browser, what this server is for a program. Which agents there are is for those who may ask
/// them.
pub(super) async fn root(State(app): State<ServerApp>, headers: HeaderMap) -> Response {
    let mut response = if ui::is_browser(&headers) { ui::page(headers).await } else { server_info(&app) };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

fn server_info(app: &ServerApp) -> Response {
    let mut about = json!({ "name": "doran", "version": env!("CARGO_PKG_VERSION") });
    if app.keys.is_empty() {
        about["agents"] =
            app.agents.current().iter().map(|agent| json!(api::AgentInfo::from_agent(agent))).collect();
    }
    json_response(about)
}

/// `GET /healthz`: whether the process lives and takes new runs.
pub(super) async fn health(State(app): State<ServerApp>) -> Result<Response, ApiError> {
    if app.draining.is_cancelled() {
        return Err(ApiErrorCode::Stopping.into());
    }
    Ok(json_response(HealthInfo { status: HealthStatus::Ok }))
}

/// `GET /readyz`: whether the store takes writes and the search index answers too.
pub(super) async fn ready(State(app): State<ServerApp>) -> Result<Response, ApiError> {
    if app.draining.is_cancelled() {
        return Err(ApiErrorCode::Stopping.into());
    }
    let (tenant, filter) = (TenantId::local(), ThreadFilter { limit: 1, ..ThreadFilter::default() });
    let check = async {
        app.runtime.list_threads(&tenant, &filter).await?;
        app.runtime.check_writable().await
    };
    match timeout(STORE_READY_TIMEOUT, check).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => return Err(ApiErrorCode::Unavailable.into()),
    }
    if let Some(index) = &app.index {
        match timeout(STORE_READY_TIMEOUT, index.check_health()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the search index is not ready");
                return Err(unready_index_error(&error));
            }
            Err(_) => return Err(ApiErrorCode::IndexUnavailable.into()),
        }
    }
    Ok(json_response(HealthInfo { status: HealthStatus::Ready }))
}

/// Says why the index is not ready. A probe has no key, so that the reason is said only if it names nothing private.
fn unready_index_error(error: &RetrieveError) -> ApiError {
    match error {
        RetrieveError::Missing { index } => ApiError::with_message(
            ApiErrorCode::IndexUnavailable,
            format!(
                "OpenSearch has no index `{index}`; it was deleted and is being made anew from the library"
            ),
            format!(
                "OpenSearch에 색인 `{index}`이(가) 없습니다. 지워진 색인을 문서 보관함에서 다시 만드는 중입니다"
            ),
        ),
        _ => ApiErrorCode::IndexUnavailable.into(),
    }
}

/// `GET /metrics`: of all tenants, so that a key of one of them does not open it.
pub(super) async fn metrics(State(app): State<ServerApp>, caller: ApiCaller) -> Result<Response, ApiError> {
    if !caller.is_admin && caller.tenant != TenantId::local() {
        return Err(ApiError::with_message(
            ApiErrorCode::AdminOnly,
            "the metrics are of all tenants; send a key of an administrator or of the tenant `local`",
            "지표는 모든 테넌트의 것입니다. 관리자 키나 테넌트 `local`의 키를 보내세요",
        ));
    }
    let mut text = app.metrics.prometheus_text(app.runtime.active_runs());
    if let Some(runs) = &app.run_metrics {
        runs.push_prometheus_lines(&mut text);
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

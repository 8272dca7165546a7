//! One file a resource. A route translates and hands over.

mod agents;
mod approvals;
mod chat;
mod contract;
mod docs;
mod documents;
mod fork;
mod health;
mod memory;
mod openai;
mod route;
mod runs;
mod spec_body;
mod threads;
mod usage;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde::Serialize;

pub use self::route::{ApiRoute, RouteAccess};
use crate::ServerApp;
use crate::authentication::authenticate;
use crate::error::{ApiError, ApiErrorCode};
use crate::host_guard::enforce_host_and_origin;
use crate::metrics::measure_request;
use crate::trace::trace;
use crate::ui;

/// Every route there is.
pub fn routes() -> Vec<ApiRoute> {
    [
        health::routes(),
        docs::routes(),
        web_page_routes(),
        agents::routes(),
        threads::routes(),
        fork::routes(),
        runs::routes(),
        approvals::routes(),
        documents::routes(),
        usage::routes(),
        memory::routes(),
        chat::routes(),
        contract::routes(),
        openai::routes(),
    ]
    .concat()
}

fn web_page_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::web_page("/t/{thread}", ui::page),
        ApiRoute::web_page("/documents", ui::page),
        ApiRoute::web_page("/app.js", ui::script),
        ApiRoute::web_page("/app.css", ui::style),
        ApiRoute::web_page("/highlight.js", ui::highlight_script),
        ApiRoute::web_page("/temml.js", ui::temml_script),
        ApiRoute::web_page("/icon.svg", ui::icon),
    ]
}

fn routes_with_access(access: RouteAccess) -> Router<ServerApp> {
    let routes = routes().into_iter().filter(|route| route.access == access);
    routes.fold(Router::new(), |router, route| route.add_to(router))
}

/// All routes as a service.
pub fn router(app: &ServerApp) -> Router {
    let no_method = || async { ApiError::from(ApiErrorCode::MethodNotAllowed) };
    let identified = |access| {
        let routes = routes_with_access(access).method_not_allowed_fallback(no_method);
        routes.layer(from_fn_with_state(app.clone(), authenticate))
    };
    Router::new()
        .merge(routes_with_access(RouteAccess::Public))
        .merge(routes_with_access(RouteAccess::WebPage))
        .method_not_allowed_fallback(no_method)
        .merge(identified(RouteAccess::KeyRequired))
        .merge(identified(RouteAccess::OpenAi))
        .fallback(async || ApiError::from(ApiErrorCode::NotFound))
        .route_layer(from_fn_with_state(app.clone(), measure_request))
        .with_state(app.clone())
        .layer(from_fn_with_state(app.clone(), enforce_host_and_origin))
        .layer(from_fn(openai::rewrite_errors_for_openai))
        .layer(from_fn_with_state(app.clone(), trace))
}

/// JSON that nobody keeps.
fn json_response(value: impl Serialize) -> Response {
    Json(value).into_response()
}

fn path_value<T>(path: Result<Path<T>, PathRejection>) -> Result<T, ApiError> {
    path.map(|Path(value)| value).map_err(|rejection| {
        let said = rejection.body_text();
        let ko = format!("경로를 읽을 수 없습니다 ({said})");
        ApiError::with_message(ApiErrorCode::BadPath, said, ko)
    })
}

fn query_value<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    query.map(|Query(value)| value).map_err(|rejection| {
        let said = rejection.body_text();
        let ko = format!("경로 뒤 `?` 다음의 값이 맞지 않습니다 ({said})");
        ApiError::with_message(ApiErrorCode::BadInput, said, ko)
    })
}

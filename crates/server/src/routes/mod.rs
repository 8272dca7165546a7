//! The routes, one file per resource. A route converts the request and calls the engine or an agent.

mod agents;
mod approvals;
mod chat;
mod contract;
mod docs;
pub(crate) mod document_library;
mod documents;
mod edit_state;
mod evals;
mod feedback;
mod fork;
mod health;
mod langgraph;
mod mcp;
mod memory;
mod models;
mod openai;
mod route;
mod runs;
pub(crate) mod search;
mod spec_body;
mod threads;
mod usage;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state, map_request};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde::Serialize;

pub use self::openai::{
    CHAT_COMPLETION_FIELDS, EMBEDDING_FIELDS, OpenAiFieldSupport, OpenAiRequestField, RESPONSE_FIELDS,
};
pub use self::route::{ApiRoute, RouteAccess};
use crate::ServerApp;
use crate::authentication::{admit_request, authenticate};
use crate::body_memory::count_bodies;
use crate::cors::allow_cross_origin;
use crate::error::{ApiError, ApiErrorCode};
use crate::host_guard::enforce_host_and_origin;
use crate::metrics::measure_request;
use crate::trace::trace;
use crate::ui;
use crate::unread_body::discard_unread_body;

/// Every route there is.
pub fn routes() -> Vec<ApiRoute> {
    [
        health::routes(),
        docs::routes(),
        web_page_routes(),
        agents::routes(),
        threads::routes(),
        edit_state::routes(),
        fork::routes(),
        runs::routes(),
        approvals::routes(),
        feedback::routes(),
        documents::routes(),
        search::routes(),
        usage::routes(),
        memory::routes(),
        evals::routes(),
        models::routes(),
        chat::routes(),
        contract::routes(),
        openai::routes(),
        langgraph::routes(),
        mcp::routes(),
    ]
    .concat()
}

fn web_page_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::web_page("/t/{thread}", ui::page),
        ApiRoute::web_page("/documents", ui::page),
        ApiRoute::web_page("/inbox", ui::page),
        ApiRoute::web_page("/runs", ui::page),
        ApiRoute::web_page("/usage", ui::page),
        ApiRoute::web_page("/evals", ui::page),
        ApiRoute::web_page("/evals/{set}", ui::page),
        ApiRoute::web_page("/app.js", ui::script),
        ApiRoute::web_page("/app.css", ui::style),
        ApiRoute::web_page("/highlight.js", ui::highlight_script),
        ApiRoute::web_page("/temml.js", ui::temml_script),
        ApiRoute::web_page("/diagram.js", ui::diagram_script),
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
    let identified = |routes: Router<ServerApp>| {
        routes.method_not_allowed_fallback(no_method).layer(from_fn_with_state(app.clone(), authenticate))
    };
    let admitted = |access| {
        let routes = routes_with_access(access).layer(from_fn_with_state(app.clone(), count_bodies));
        identified(routes.layer(from_fn_with_state(app.clone(), admit_request)))
    };
    Router::new()
        .merge(routes_with_access(RouteAccess::Public))
        .merge(routes_with_access(RouteAccess::WebPage))
        .merge(identified(routes_with_access(RouteAccess::Monitoring)))
        .merge(admitted(RouteAccess::KeyRequired))
        .merge(admitted(RouteAccess::OpenAi))
        // For those that anybody may call. A path may have a page for one method and a key for another.
        .method_not_allowed_fallback(no_method)
        .fallback(async |uri: Uri| langgraph::no_route(uri.path()))
        .route_layer(from_fn_with_state(app.clone(), measure_request))
        .with_state(app.clone())
        .layer(from_fn_with_state(app.clone(), allow_cross_origin))
        .layer(from_fn_with_state(app.clone(), enforce_host_and_origin))
        .layer(from_fn(openai::rewrite_errors_for_openai))
        .layer(from_fn_with_state(app.clone(), trace))
        .layer(map_request(async |request| discard_unread_body(request)))
}

/// JSON that nobody keeps.
fn json_response(value: impl Serialize) -> Response {
    Json(value).into_response()
}

/// A query is refused before anything is made of it, because normalising can make it longer.
fn check_query(q: &str, max_chars: usize) -> Result<(), ApiError> {
    if q.chars().nth(max_chars).is_none() {
        return Ok(());
    }
    Err(ApiError::for_parameter(
        "q",
        format!("it has more than {max_chars} characters"),
        format!("{max_chars}자를 넘습니다"),
    ))
}

fn path_value<T>(path: Result<Path<T>, PathRejection>) -> Result<T, ApiError> {
    path.map(|Path(value)| value).map_err(|rejection| {
        let reason = rejection.body_text();
        let ko = format!("경로를 읽을 수 없습니다 ({reason})");
        ApiError::with_message(ApiErrorCode::BadPath, reason, ko)
    })
}

fn query_value<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    query.map(|Query(value)| value).map_err(|rejection| {
        let text = rejection.body_text();
        let reason = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
        let unknown = reason.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        if let Some(name) = unknown {
            return unknown_parameter(name);
        }
        let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        if let Some(name) = missing {
            return ApiError::for_parameter(name, "it is missing", "빠졌습니다");
        }
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match reason.split_once(": ").filter(|(name, _)| is_name(name)) {
            Some((name, why)) => {
                if why.contains("nonzero") || why.contains("non-zero") {
                    return ApiError::for_parameter(name, "it is at least 1", "1 이상이어야 합니다");
                }
                ApiError::for_parameter(name, why, format!("값이 맞지 않습니다 ({why})"))
            }
            None => {
                let ko = format!("경로 뒤 `?` 다음의 값이 맞지 않습니다 ({reason})");
                ApiError::with_message(ApiErrorCode::BadInput, reason, ko)
            }
        }
    })
}

/// A parameter that a route does not have.
fn unknown_parameter(name: &str) -> ApiError {
    let shown: String = name.chars().take(64).collect();
    ApiError::for_parameter(&shown, "there is no such parameter", "그런 매개변수가 없습니다")
}

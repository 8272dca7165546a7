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

use crate::ServerApp;
use crate::authentication::authenticate;
use crate::error::{ApiError, ApiErrorCode};
use crate::host_guard::enforce_host_and_origin;
use crate::metrics::measure_request;
use crate::trace::trace;
use crate::ui;

/// Who a route is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// Everybody: whether the server is well.
    Public,
    /// Everybody with a browser: files that hold nothing of anybody.
    WebPage,
    /// Who has a key.
    KeyRequired,
    /// Who has a key and speaks the dialect of OpenAI.
    OpenAi,
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct ApiRoute {
    /// Who it is for.
    pub access: RouteAccess,
    /// Its method, in small letters.
    pub method: &'static str,
    /// Its path, with the names of its parts in braces.
    pub path: &'static str,
}

macro_rules! table {
    ($($access:ident $method:ident $path:literal $handler:path;)*) => {
        /// Every route there is.
        pub const ROUTES: &[ApiRoute] =
            &[$(ApiRoute { access: RouteAccess::$access, method: stringify!($method), path: $path }),*];

        fn routes_with_access(access: RouteAccess) -> Router<ServerApp> {
            let mut router = Router::new();
            $(if access == RouteAccess::$access {
                router = router.route($path, axum::routing::$method($handler));
            })*
            router
        }
    };
}

table! {
    Public get "/healthz" health::health;
    Public get "/readyz" health::ready;
    Public get "/metrics" health::metrics;
    WebPage get "/" health::root;
    WebPage get "/openapi.json" docs::openapi_document;
    WebPage get "/docs" docs::docs_page;
    WebPage get "/docs/page.js" docs::docs_script;
    WebPage get "/docs/page.css" docs::docs_style;
    WebPage get "/t/{thread}" ui::page;
    WebPage get "/documents" ui::page;
    WebPage get "/app.js" ui::script;
    WebPage get "/app.css" ui::style;
    WebPage get "/highlight.js" ui::highlight_script;
    WebPage get "/temml.js" ui::temml_script;
    WebPage get "/icon.svg" ui::icon;
    KeyRequired get "/api/agents" agents::list_agents;
    KeyRequired get "/api/agents/{agent}/graph" agents::agent_graph;
    KeyRequired get "/api/models" agents::list_models;
    KeyRequired get "/api/threads" threads::list_threads;
    KeyRequired post "/api/threads" threads::make_thread;
    KeyRequired get "/api/threads/{thread}" threads::get_thread;
    KeyRequired patch "/api/threads/{thread}" threads::rename_thread;
    KeyRequired delete "/api/threads/{thread}" threads::delete_thread;
    KeyRequired get "/api/threads/{thread}/messages" threads::list_messages;
    KeyRequired get "/api/threads/{thread}/history" threads::list_history;
    KeyRequired get "/api/threads/{thread}/state" threads::get_state;
    KeyRequired post "/api/threads/{thread}/fork" fork::fork_thread;
    KeyRequired get "/api/threads/{thread}/runs" runs::list_runs;
    KeyRequired post "/api/threads/{thread}/runs" runs::start_run;
    KeyRequired get "/api/threads/{thread}/runs/{run}" runs::get_run;
    KeyRequired get "/api/threads/{thread}/runs/{run}/events" runs::run_events;
    KeyRequired post "/api/threads/{thread}/runs/{run}/resume" runs::resume_run;
    KeyRequired post "/api/threads/{thread}/runs/{run}/cancel" runs::cancel_run;
    KeyRequired post "/api/threads/{thread}/runs/{run}/retry" runs::retry_run;
    KeyRequired get "/api/approvals" approvals::list_approvals;
    KeyRequired get "/api/documents" documents::list_documents;
    KeyRequired post "/api/documents" documents::add_document;
    KeyRequired get "/api/documents/{document}" documents::get_document;
    KeyRequired delete "/api/documents/{document}" documents::delete_document;
    KeyRequired get "/api/documents/{document}/text" documents::document_text;
    KeyRequired post "/api/documents/{document}/{change}" documents::change_document;
    KeyRequired get "/api/search" documents::search;
    KeyRequired get "/api/usage" usage::get_usage;
    KeyRequired get "/api/memory" memory::list_memory;
    KeyRequired delete "/api/memory/{fact}" memory::forget_fact;
    KeyRequired post "/api/chat" chat::chat;
    KeyRequired post "/api/contract/chat" contract::contract_chat;
    OpenAi get "/v1/models" openai::openai_models;
    OpenAi get "/v1/models/{model}" openai::openai_model;
    OpenAi post "/v1/chat/completions" openai::openai_chat;
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

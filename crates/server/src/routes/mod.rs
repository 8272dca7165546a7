//! One file a resource. A route translates and hands over.

mod agents;
mod approvals;
mod asked;
mod chat;
mod contract;
mod docs;
mod documents;
mod fork;
mod home;
mod memory;
mod openai;
mod runs;
mod threads;
mod usage;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde::Serialize;

use crate::App;
use crate::error::{ApiError, Code};
use crate::guard::guard;
use crate::identity::identify;
use crate::metrics::measure;
use crate::trace::trace;
use crate::ui;

/// Who a route is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Everybody: whether the server is well.
    Open,
    /// Everybody with a browser: files that hold nothing of anybody.
    Page,
    /// Who has a key.
    Keyed,
    /// Who has a key and speaks the dialect of OpenAI.
    OpenAi,
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Who it is for.
    pub door: Door,
    /// Its method, in small letters.
    pub method: &'static str,
    /// Its path, with the names of its parts in braces.
    pub path: &'static str,
}

macro_rules! table {
    ($($door:ident $method:ident $path:literal $handler:path;)*) => {
        /// Every route there is.
        pub const ROUTES: &[Route] =
            &[$(Route { door: Door::$door, method: stringify!($method), path: $path }),*];

        fn behind(door: Door) -> Router<App> {
            let mut router = Router::new();
            $(if door == Door::$door {
                router = router.route($path, axum::routing::$method($handler));
            })*
            router
        }
    };
}

table! {
    Open get "/healthz" home::health;
    Open get "/readyz" home::ready;
    Open get "/metrics" home::metrics;
    Page get "/" home::home;
    Page get "/openapi.json" docs::document;
    Page get "/docs" docs::page;
    Page get "/docs/page.js" docs::script;
    Page get "/docs/page.css" docs::style;
    Page get "/t/{thread}" ui::page;
    Page get "/documents" ui::page;
    Page get "/app.js" ui::script;
    Page get "/app.css" ui::style;
    Page get "/icon.svg" ui::icon;
    Keyed get "/api/agents" agents::list;
    Keyed get "/api/agents/{agent}/graph" agents::graph;
    Keyed get "/api/models" agents::models;
    Keyed get "/api/threads" threads::list;
    Keyed post "/api/threads" threads::make;
    Keyed get "/api/threads/{thread}" threads::one;
    Keyed patch "/api/threads/{thread}" threads::rename;
    Keyed delete "/api/threads/{thread}" threads::remove;
    Keyed get "/api/threads/{thread}/messages" threads::messages;
    Keyed get "/api/threads/{thread}/history" threads::history;
    Keyed get "/api/threads/{thread}/state" threads::state;
    Keyed post "/api/threads/{thread}/fork" fork::fork;
    Keyed get "/api/threads/{thread}/runs" runs::list;
    Keyed post "/api/threads/{thread}/runs" runs::start;
    Keyed get "/api/threads/{thread}/runs/{run}" runs::one;
    Keyed get "/api/threads/{thread}/runs/{run}/events" runs::events;
    Keyed post "/api/threads/{thread}/runs/{run}/resume" runs::resume;
    Keyed post "/api/threads/{thread}/runs/{run}/cancel" runs::cancel;
    Keyed post "/api/threads/{thread}/runs/{run}/retry" runs::retry;
    Keyed get "/api/approvals" approvals::list;
    Keyed get "/api/documents" documents::list;
    Keyed post "/api/documents" documents::add;
    Keyed get "/api/documents/{document}" documents::one;
    Keyed delete "/api/documents/{document}" documents::remove;
    Keyed get "/api/documents/{document}/text" documents::text;
    Keyed post "/api/documents/{document}/{change}" documents::change;
    Keyed get "/api/search" documents::search;
    Keyed get "/api/usage" usage::usage;
    Keyed get "/api/memory" memory::list;
    Keyed delete "/api/memory/{fact}" memory::forget;
    Keyed post "/api/chat" chat::chat;
    Keyed post "/api/contract/chat" contract::chat;
    OpenAi get "/v1/models" openai::models;
    OpenAi get "/v1/models/{model}" openai::model;
    OpenAi post "/v1/chat/completions" openai::completions;
}

/// All routes as a service.
pub fn router(app: &App) -> Router {
    let no_method = || async { ApiError::from(Code::MethodNotAllowed) };
    let identified = |door| {
        let routes = behind(door).method_not_allowed_fallback(no_method);
        routes.layer(from_fn_with_state(app.clone(), identify))
    };
    Router::new()
        .merge(behind(Door::Open))
        .merge(behind(Door::Page))
        .method_not_allowed_fallback(no_method)
        .merge(identified(Door::Keyed))
        .merge(identified(Door::OpenAi))
        .fallback(async || ApiError::from(Code::NotFound))
        .route_layer(from_fn_with_state(app.clone(), measure))
        .with_state(app.clone())
        .layer(from_fn_with_state(app.clone(), guard))
        .layer(from_fn(openai::in_their_words))
        .layer(from_fn_with_state(app.clone(), trace))
}

/// JSON that nobody keeps.
fn json(value: impl Serialize) -> Response {
    Json(value).into_response()
}

fn path<T>(path: Result<Path<T>, PathRejection>) -> Result<T, ApiError> {
    path.map(|Path(value)| value).map_err(|rejection| {
        let said = rejection.body_text();
        let ko = format!("경로를 읽을 수 없습니다 ({said})");
        ApiError::because(Code::BadPath, said, ko)
    })
}

fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    query.map(|Query(value)| value).map_err(|rejection| {
        let said = rejection.body_text();
        let ko = format!("경로 뒤 `?` 다음의 값이 맞지 않습니다 ({said})");
        ApiError::because(Code::BadInput, said, ko)
    })
}

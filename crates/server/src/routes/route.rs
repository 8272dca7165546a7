//! The definition of a route: method, path, access, handler and documentation.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use percent_encoding::percent_decode_str;

use super::langgraph::is_langgraph_path;
use super::unknown_parameter;
use crate::ServerApp;
use crate::error::ApiErrorCode;
use crate::openapi::Operation;

/// Who a route is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// Everybody: whether the server is well.
    Public,
    /// Everybody with a browser: files that hold nothing of anybody.
    WebPage,
    /// Who has a key, also when there is too much to do: how the server is doing.
    Monitoring,
    /// Who has a key.
    KeyRequired,
    /// Clients with a key that use the dialect of OpenAI.
    OpenAi,
}

/// A route. Only a part of the web page has no description.
#[derive(Clone)]
pub struct ApiRoute {
    /// Who it is for.
    pub access: RouteAccess,
    /// Its method, in small letters.
    pub method: &'static str,
    /// Its path, with the names of its parts in braces.
    pub path: &'static str,
    handler: MethodRouter<ServerApp>,
    operation: Option<Operation>,
}

impl ApiRoute {
    pub(super) fn get<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, ServerApp>,
        operation: Operation,
    ) -> Self {
        Self::new("get", path, on(MethodFilter::GET, handler), operation)
    }

    pub(super) fn post<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, ServerApp>,
        operation: Operation,
    ) -> Self {
        Self::new("post", path, on(MethodFilter::POST, handler), operation)
    }

    pub(super) fn patch<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, ServerApp>,
        operation: Operation,
    ) -> Self {
        Self::new("patch", path, on(MethodFilter::PATCH, handler), operation)
    }

    pub(super) fn put<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, ServerApp>,
        operation: Operation,
    ) -> Self {
        Self::new("put", path, on(MethodFilter::PUT, handler), operation)
    }

    pub(super) fn delete<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, ServerApp>,
        operation: Operation,
    ) -> Self {
        Self::new("delete", path, on(MethodFilter::DELETE, handler), operation)
    }

    /// A part of the web page.
    pub(super) fn web_page<T: 'static>(path: &'static str, handler: impl Handler<T, ServerApp>) -> Self {
        let handler = on(MethodFilter::GET, handler);
        Self { access: RouteAccess::WebPage, method: "get", path, handler, operation: None }
    }

    fn new(
        method: &'static str,
        path: &'static str,
        handler: MethodRouter<ServerApp>,
        operation: Operation,
    ) -> Self {
        Self { access: RouteAccess::KeyRequired, method, path, handler, operation: Some(operation) }
    }

    /// The same without a key.
    pub(super) fn public(self) -> Self {
        Self { access: RouteAccess::Public, ..self }
    }

    /// The same also when there is too much to do.
    pub(super) fn monitoring(self) -> Self {
        Self { access: RouteAccess::Monitoring, ..self }
    }

    /// The same in the dialect of OpenAI.
    pub(super) fn openai(self) -> Self {
        Self { access: RouteAccess::OpenAi, ..self }
    }

    pub(crate) fn operation(&self) -> Option<&Operation> {
        self.operation.as_ref()
    }

    pub(super) fn add_to(self, router: Router<ServerApp>) -> Router<ServerApp> {
        let is_own = self.path.starts_with("/api/") || self.path.starts_with("/v1/");
        let code = match is_own {
            true => Some(ApiErrorCode::BadInput),
            false => is_langgraph_path(self.path).then_some(ApiErrorCode::Invalid),
        };
        let handler = match (code, self.operation.map(|operation| operation.query_names())) {
            (Some(code), Some(names)) if is_own || names.is_empty() => {
                let names: Arc<[String]> = names.into();
                let check = move |request, next| check_query_names(names.clone(), code, request, next);
                self.handler.route_layer(from_fn(check))
            }
            _ => self.handler,
        };
        router.route(self.path, handler)
    }
}

/// Rejects parameters after the path that a route does not have, before it looks at anything else.
async fn check_query_names(
    known: Arc<[String]>,
    code: ApiErrorCode,
    request: Request,
    next: Next,
) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    let mut names = names.map(|name| percent_decode_str(name).decode_utf8_lossy());
    match names.find(|name| !name.is_empty() && known.iter().all(|known| known != name)) {
        Some(name) => unknown_parameter(&name).under_code(code).into_response(),
        None => next.run(request).await,
    }
}

impl fmt::Debug for ApiRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {}", self.access, self.method, self.path)
    }
}

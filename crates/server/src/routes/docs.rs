//! The OpenAPI document, and a page to try the API. The page loads nothing from other hosts.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::ApiRoute;
use crate::openapi::openapi_document;

/// The OpenAPI document, built once.
static OPENAPI_DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi_document(&super::routes()).to_string());

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::web_page("/openapi.json", openapi),
        ApiRoute::web_page("/docs", docs_page),
        ApiRoute::web_page("/docs/page.js", docs_script),
        ApiRoute::web_page("/docs/page.css", docs_style),
    ]
}

/// `GET /openapi.json`
async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI_DOCUMENT.as_str()).into_response()
}

/// `GET /docs`
async fn docs_page() -> Response {
    let kind = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    ([kind, (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)], include_str!("../docs/page.html"))
        .into_response()
}

/// `GET /docs/page.js`
async fn docs_script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../docs/page.js"))
        .into_response()
}

/// `GET /docs/page.css`
async fn docs_style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../docs/page.css")).into_response()
}

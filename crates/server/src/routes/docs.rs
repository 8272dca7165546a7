//! The interface as a document for programs, and as a page to try it on. The page needs nothing from anywhere else.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// OpenAPI 3.1.
pub(crate) const OPENAPI_DOCUMENT: &str = include_str!("../openapi.json");

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /openapi.json`
pub(super) async fn openapi_document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI_DOCUMENT).into_response()
}

/// `GET /docs`
pub(super) async fn docs_page() -> Response {
    let kind = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    ([kind, (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)], include_str!("../docs/page.html"))
        .into_response()
}

/// `GET /docs/page.js`
pub(super) async fn docs_script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../docs/page.js"))
        .into_response()
}

/// `GET /docs/page.css`
pub(super) async fn docs_style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../docs/page.css")).into_response()
}

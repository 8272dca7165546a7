//! Cross-origin requests (CORS): pages of the configured origins may call this server and read what it answers. Without
//! configured origins there is none of it.
//!
//! The guard in `host_guard` comes first and rejects every other origin. Pages send API keys in a header, never cookies, so
//! credentials are not allowed.

use std::fmt;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::ServerApp;

/// Response headers that a page of another origin can read.
const EXPOSED_HEADERS: &str = "content-location, location, retry-after, x-pagination-next, x-pagination-total, x-request-id, x-should-retry, x-thread-id";

/// Methods that a page of another origin can use.
const ALLOWED_METHODS: &str = "DELETE, GET, HEAD, PATCH, POST, PUT";

/// Seconds for which a browser may remember the answer to a preflight request.
const PREFLIGHT_MAX_AGE: &str = "600";

/// An origin whose pages may call this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin {
    scheme: String,
    /// Host and port; none for every origin of a scheme that is not HTTP.
    host: Option<String>,
}

/// A text that is no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an origin: write it as `https://app.example.com` or `http://localhost:3000`, without a path; `SCHEME://*` is possible for schemes other than http and https"
)]
pub struct InvalidOriginError;

impl AllowedOrigin {
    /// Reads `https://app.example.com`, `http://localhost:3000` or `vscode-webview://*`.
    pub fn parse(text: &str) -> Result<Self, InvalidOriginError> {
        let (scheme, host) = text.split_once("://").ok_or(InvalidOriginError)?;
        let in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if !scheme.starts_with(|first: char| first.is_ascii_alphabetic()) || !scheme.bytes().all(in_scheme) {
            return Err(InvalidOriginError);
        }
        let scheme = scheme.to_ascii_lowercase();
        if host == "*" {
            let is_http = matches!(scheme.as_str(), "http" | "https");
            return if is_http { Err(InvalidOriginError) } else { Ok(Self { scheme, host: None }) };
        }
        let in_host = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'[' | b']')
        };
        if host.is_empty() || !host.bytes().all(in_host) {
            return Err(InvalidOriginError);
        }
        // Browsers leave out the usual port.
        let usual_port = match scheme.as_str() {
            "http" => ":80",
            "https" => ":443",
            _ => "",
        };
        let host = host.to_ascii_lowercase();
        Ok(Self { scheme, host: Some(host.strip_suffix(usual_port).unwrap_or(&host).to_owned()) })
    }

    fn matches(&self, origin: &str) -> bool {
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        let host_matches = match &self.host {
            Some(name) => name.eq_ignore_ascii_case(host),
            None => !host.is_empty(),
        };
        self.scheme.eq_ignore_ascii_case(scheme) && host_matches
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host.as_deref().unwrap_or("*"))
    }
}

/// Whether the pages of this origin may call the server.
pub(crate) fn is_allowed_origin(origins: &[AllowedOrigin], origin: &HeaderValue) -> bool {
    origin.to_str().is_ok_and(|origin| origins.iter().any(|allowed| allowed.matches(origin)))
}

/// Answers preflight requests of the configured origins, and lets their pages read every other answer.
pub(crate) async fn allow_cross_origin(
    State(app): State<ServerApp>,
    request: Request,
    next: Next,
) -> Response {
    if app.allowed_origins.is_empty() {
        return next.run(request).await;
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let origin = origin.filter(|origin| is_allowed_origin(&app.allowed_origins, origin));
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (&origin, is_preflight) {
        (Some(_), true) => preflight_response(request.headers()),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    // A cache must not give the answer for one origin to another.
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    }
    response
}

/// Clients in browsers send headers of their own with every request, so the headers that the preflight names are allowed.
fn preflight_response(request: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOWED_METHODS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_MAX_AGE));
    if let Some(wanted) = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.append(header::VARY, HeaderValue::from_static("access-control-request-headers"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(entry: &str, origin: &str, expected: bool) {
        let allowed = AllowedOrigin::parse(entry).expect("an origin");
        assert_eq!(allowed.matches(origin), expected, "{entry} {origin}");
    }

    #[test]
    fn an_origin_is_matched_whole() {
        check("https://app.example", "https://app.example", true);
        check("https://App.example:443", "https://app.example", true);
        check("http://localhost:3000", "http://localhost:3000", true);
        check("http://[::1]:3000", "http://[::1]:3000", true);
        check("vscode-webview://*", "vscode-webview://0a1b", true);
        for other in [
            "http://app.example",
            "https://app.example:8443",
            "https://app.example.evil.example",
            "https://evil.app.example",
            "https://app.example@evil.example",
            "null",
            "",
        ] {
            check("https://app.example", other, false);
        }
        check("vscode-webview://*", "https://evil.example", false);
        check("vscode-webview://*", "vscode-webview://", false);
    }

    #[test]
    fn a_text_that_is_no_origin_is_refused() {
        for text in [
            "*",
            "null",
            "app.example",
            "https://",
            "https://*",
            "http://*",
            "https://a/b",
            "https://a,b",
            "://a",
            "1x://a",
        ] {
            assert_eq!(AllowedOrigin::parse(text), Err(InvalidOriginError), "{text}");
        }
        assert_eq!(
            AllowedOrigin::parse("HTTPS://A.example").map(|one| one.to_string()),
            Ok("https://a.example".into())
        );
    }
}

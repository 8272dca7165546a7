//! A tracing span and a request id for every request. Turns a panic into a response.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use doran_agents::llm::TRACEPARENT;
use futures_util::FutureExt;
use tracing::Instrument;

use crate::ServerApp;
use crate::error::{ApiError, ApiErrorCode};
use crate::telemetry::with_incoming_trace;

/// Names the request, and logs how it was answered.
pub(crate) async fn trace(State(app): State<ServerApp>, request: Request, next: Next) -> Response {
    let id = client_request_id(&request).unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let span = tracing::info_span!(
        "request",
        id = %id,
        method = %request.method(),
        path = %request.uri().path(),
    );
    let started = Instant::now();
    let parent = request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let answered = run_counted(&app, request, next).instrument(span.clone());
    let mut response = with_incoming_trace(parent.as_deref(), answered).await;
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    span.in_scope(|| tracing::info!(status = response.status().as_u16(), ms, "request answered"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

async fn run_counted(app: &ServerApp, request: Request, next: Next) -> Response {
    let _open = app.metrics.open_request();
    // A route owns what it works with: what a panic leaves half-done is dropped with it.
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!("a request handler panicked; this is a bug, the client got 500");
            ApiError::from(ApiErrorCode::Internal).into_response()
        }
    }
}

/// The id that the client or a proxy gave, if it can stand in a log.
fn client_request_id(request: &Request) -> Option<String> {
    let id = request.headers().get("x-request-id")?.to_str().ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    ((1..=64).contains(&id.len()) && id.bytes().all(plain)).then(|| id.to_owned())
}

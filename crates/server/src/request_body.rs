//! Reads the JSON of a request within its limits.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use crate::ServerLimits;
use crate::body_memory::BodyMemory;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;

/// The JSON of a request, with its bytes.
pub(crate) async fn read_json<T: DeserializeOwned>(
    request: Request,
    limits: &ServerLimits,
) -> Result<(T, Bytes), ApiError> {
    let bytes = read_json_bytes(request, limits).await?;
    // Fields without names would be taken in the order of a table that nobody sees.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(ApiError::with_message(
            ApiErrorCode::BadJson,
            "the body is a list, and this route takes an object",
            "본문이 목록입니다. 이 경로는 객체를 받습니다",
        ));
    }
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        ApiError::with_detail(ApiErrorCode::BadJson, ErrorDetail::from_json_error(&error))
            .about_parameter(wrong_field(&error))
    })?;
    Ok((value, bytes))
}

/// The field that should not be there, or is missing.
fn wrong_field(error: &serde_json::Error) -> Option<String> {
    let text = error.to_string();
    let name = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|start| text.strip_prefix(start))?;
    Some(name.split('`').next()?.chars().take(64).collect())
}

/// The bytes of a request that says that it is JSON.
pub(crate) async fn read_json_bytes(request: Request, limits: &ServerLimits) -> Result<Bytes, ApiError> {
    check_content_type(request.headers())?;
    read_bytes(request, limits).await
}

/// The bytes of a request, whatever they are.
pub(crate) async fn read_bytes(request: Request, limits: &ServerLimits) -> Result<Bytes, ApiError> {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared
        .and_then(|length| length.parse::<usize>().ok())
        .is_some_and(|length| length > limits.max_body_bytes)
    {
        return Err(ApiErrorCode::TooLarge.into());
    }
    read_counted(request, limits.max_body_bytes, limits.body_timeout).await
}

/// The body of a request, counted for who sends it.
pub(crate) async fn read_counted(
    request: Request,
    max_bytes: usize,
    time: Duration,
) -> Result<Bytes, ApiError> {
    // A route that does not count its bodies reads none.
    let memory = request.extensions().get::<BodyMemory>().cloned().ok_or(ApiErrorCode::Internal)?;
    memory.read(request.into_body(), max_bytes, time).await
}

/// A page of another site can send a form, and can send text; it cannot send JSON without asking first.
pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") || headers.contains_key(header::CONTENT_ENCODING) {
        return Err(ApiErrorCode::NotJson.into());
    }
    Ok(())
}

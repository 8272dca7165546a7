//! Errors in the format of OpenAI's API.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::api::{OpenAiError, OpenAiErrorBody};
use crate::error::{ApiError, ApiErrorCode};

/// No error response is longer.
const MAX_PROBLEM_BYTES: usize = 64 * 1024;

/// Says what went wrong as clients of this dialect read it, wherever below `/v1` it did.
pub(in crate::routes) async fn rewrite_errors_for_openai(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_theirs = path == "/v1" || path.starts_with("/v1/");
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_problem = kind.is_some_and(|kind| kind.as_bytes() == b"application/problem+json");
    if !is_theirs || !is_problem {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let problem = match axum::body::to_bytes(body, MAX_PROBLEM_BYTES).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(axum::Error::new),
        Err(error) => Err(error),
    };
    let problem: Value = match problem {
        Ok(problem) => problem,
        Err(error) => {
            tracing::error!(%error, "an error response could not be rewritten for OpenAI clients");
            ApiError::from(ApiErrorCode::Internal).to_json()
        }
    };
    let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    let detail = |key: &str| problem[key].as_str().map(|detail| format!(": {detail}")).unwrap_or_default();
    let kind = match parts.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    };
    let code = if text("code") == "unknown_agent" { "model_not_found".to_owned() } else { text("code") };
    let error = json!(OpenAiError {
        error: OpenAiErrorBody {
            message: format!("{}{}", text("title"), detail("detail")),
            message_ko: format!("{}{}", text("title_ko"), detail("detail_ko")),
            kind,
            param: problem["parameter"].as_str().map(str::to_owned),
            code,
        },
    });
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (parts, error.to_string()).into_response()
}

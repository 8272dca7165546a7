//! `PUT /api/threads/{thread}/runs/{run}/feedback`: what a person thinks of an answer. It is stored with the thread.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::runs::load_run;
use super::{ApiRoute, path_value};
use crate::ServerApp;
use crate::api::{FEEDBACK_METADATA_PREFIX, FeedbackRating};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::{Operation, OperationTag};
use crate::request_body;

/// The most characters of a note.
const MAX_NOTE_CHARS: usize = 2000;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::put(
        "/api/threads/{thread}/runs/{run}/feedback",
        put_feedback,
        Operation::new(OperationTag::Runs, "put_feedback", "Rates the answer of a run.")
            .body::<FeedbackBody>()
            .returns_nothing("The rating was stored.")
            .errors(&[ApiErrorCode::NotFound, ApiErrorCode::DiskFull]),
    )]
}

/// What a person thinks of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FeedbackBody {
    /// The rating; `null` takes it back.
    rating: Option<FeedbackRating>,
    /// Why.
    #[serde(default)]
    #[schemars(length(max = MAX_NOTE_CHARS))]
    note: String,
}

async fn put_feedback(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let (_, row) = load_run(&app, &caller, &path_value(names)?).await?;
    let (FeedbackBody { rating, note }, _) = request_body::read_json(request, &app.limits).await?;
    if note.chars().count() > MAX_NOTE_CHARS || note.contains('\0') {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            format!("`note` has at most {MAX_NOTE_CHARS} characters and no NUL"),
            format!("`note`는 NUL 없이 {MAX_NOTE_CHARS}자까지입니다"),
        ));
    }
    let value = rating.map_or(Value::Null, |rating| json!({ "rating": rating, "note": note.trim() }));
    let metadata = Map::from_iter([(format!("{FEEDBACK_METADATA_PREFIX}{}", row.run), value)]);
    app.runtime.put_thread(&row.thread, &metadata).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

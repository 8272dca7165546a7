//! `/mcp`: the Model Context Protocol over streamable HTTP.

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::ApiRoute;
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::mcp;
use crate::openapi::{Operation, OperationTag};
use crate::request_body;

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| {
        Operation::new(OperationTag::Mcp, id, summary)
            .header(
                "mcp-session-id",
                "The session, as the response to `initialize` named it.",
                || json!({ "type": "string" }),
            )
            .errors(&[ApiErrorCode::BadInput, ApiErrorCode::NotFound])
    };
    vec![
        ApiRoute::post(
            "/mcp",
            post_message,
            operation("mcp_message", "Sends a message of the Model Context Protocol.")
                .description(
                    "Tools: `ask`, `search_documents`, `read_document`. Resources: `doran://documents/{document}`. Send `Accept: application/json, text/event-stream`. The response to a request is a stream of server-sent events.",
                )
                .body::<Value>()
                .streams_events("The messages of the server, up to the response.")
                .accepted("The message was a notification or a response."),
        ),
        ApiRoute::get(
            "/mcp",
            open_stream,
            operation("mcp_stream", "Opens the stream of messages that belong to no request.")
                .streams_events("The messages of the server."),
        ),
        ApiRoute::delete(
            "/mcp",
            close_session,
            operation("mcp_close", "Ends a session. Its runs go on.")
                .returns_nothing("The session has ended."),
        ),
    ]
}

/// `POST /mcp`
async fn post_message(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    request_body::check_content_type(&parts.headers)?;
    let body = request_body::read_bytes(Request::from_parts(parts.clone(), body), &app.limits).await?;
    mcp::handle_request(&app, caller, Request::from_parts(parts, body)).await
}

/// `GET /mcp`
async fn open_stream(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    mcp::handle_request(&app, caller, request.map(|_| Bytes::new())).await
}

/// `DELETE /mcp`
async fn close_session(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    mcp::handle_request(&app, caller, request.map(|_| Bytes::new())).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

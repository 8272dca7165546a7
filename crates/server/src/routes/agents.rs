//! Agents: who may be asked, how each goes about it, and which models answer.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::{json, path, query};
use crate::App;
use crate::api;
use crate::ask;
use crate::error::ApiError;
use crate::identity::Caller;

/// `GET /api/agents`
pub(super) async fn list(State(app): State<App>, _: Caller) -> Response {
    let agents: Vec<api::Agent> = ask::agents(&app).iter().map(api::Agent::of).collect();
    json(json!({ "agents": agents }))
}

/// What may follow the path of a graph.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct As {
    #[serde(default)]
    format: Format,
}

/// How a graph is shown.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Svg,
    Mermaid,
}

/// `GET /api/agents/{agent}/graph`
pub(super) async fn graph(
    State(app): State<App>,
    _: Caller,
    name: Result<Path<String>, PathRejection>,
    format: Result<Query<As>, QueryRejection>,
) -> Result<Response, ApiError> {
    let drawing = ask::agent(&app, &path(name)?)?.drawing();
    Ok(match query(format)?.format {
        Format::Json => json(drawing.json()),
        Format::Svg => ([(header::CONTENT_TYPE, "image/svg+xml")], drawing.svg()).into_response(),
        Format::Mermaid => {
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], drawing.mermaid()).into_response()
        }
    })
}

/// `GET /api/models`: what answers now, agent by agent.
pub(super) async fn models(State(app): State<App>, _: Caller) -> Response {
    let agents: Vec<_> =
        app.agents.iter().map(|agent| json!({ "agent": agent.name, "model": agent.model })).collect();
    json(json!({ "active": agents }))
}

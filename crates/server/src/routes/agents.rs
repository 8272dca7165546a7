//! Agents: who may be asked, how each goes about it, and which models answer.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::{json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::ApiError;

/// `GET /api/agents`
pub(super) async fn list_agents(State(app): State<ServerApp>, _: ApiCaller) -> Response {
    let agents: Vec<api::AgentInfo> =
        agent_request::agents(&app).iter().map(api::AgentInfo::from_agent).collect();
    json_response(json!({ "agents": agents }))
}

/// What may follow the path of a graph.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentGraphQuery {
    #[serde(default)]
    format: AgentGraphFormat,
}

/// How a graph is shown.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AgentGraphFormat {
    #[default]
    Json,
    Svg,
    Mermaid,
}

/// `GET /api/agents/{agent}/graph`
pub(super) async fn agent_graph(
    State(app): State<ServerApp>,
    _: ApiCaller,
    name: Result<Path<String>, PathRejection>,
    format: Result<Query<AgentGraphQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let topology = agent_request::find_agent(&app, &path_value(name)?)?.topology();
    Ok(match query_value(format)?.format {
        AgentGraphFormat::Json => json_response(doran_draw::draw_json(&topology)),
        AgentGraphFormat::Svg => {
            ([(header::CONTENT_TYPE, "image/svg+xml")], doran_draw::draw_svg(&topology)).into_response()
        }
        AgentGraphFormat::Mermaid => {
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], doran_draw::draw_mermaid(&topology))
                .into_response()
        }
    })
}

/// `GET /api/models`: what answers now, agent by agent.
pub(super) async fn list_models(State(app): State<ServerApp>, _: ApiCaller) -> Response {
    let agents: Vec<_> =
        app.agents.iter().map(|agent| json!({ "agent": agent.name, "model": agent.model })).collect();
    json_response(json!({ "active": agents }))
}

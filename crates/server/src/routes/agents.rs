//! Agents: their names and their graphs.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiRoute, json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::{Operation, OperationTag};

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get(
            "/api/agents",
            list_agents,
            Operation::new(OperationTag::Agents, "list_agents", "Lists the agents.")
                .returns::<api::AgentList>(200, "The agents."),
        ),
        ApiRoute::get(
            "/api/agents/{agent}/graph",
            agent_graph,
            Operation::new(OperationTag::Agents, "agent_graph", "Returns the graph of an agent.")
                .query::<AgentGraphQuery>()
                .returns::<doran_draw::DrawnGraph>(200, "The graph.")
                .returns_text("image/svg+xml", "The graph.")
                .returns_text("text/plain", "The graph.")
                .errors(&[ApiErrorCode::UnknownAgent]),
        ),
    ]
}

/// `GET /api/agents`
async fn list_agents(State(app): State<ServerApp>, _: ApiCaller) -> Response {
    let agents = agent_request::agents(&app).iter().map(api::AgentInfo::from_agent).collect();
    json_response(api::AgentList { agents })
}

/// What may follow the path of a graph.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AgentGraphQuery {
    /// The format of the graph.
    #[serde(default)]
    format: AgentGraphFormat,
}

/// How a graph is shown.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum AgentGraphFormat {
    /// JSON, for programs.
    #[default]
    Json,
    /// A picture.
    Svg,
    /// Text in the language of Mermaid.
    Mermaid,
}

/// `GET /api/agents/{agent}/graph`
async fn agent_graph(
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

//! Assistants: every graph has one, with the settings that its graph was built with.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::HeaderValue;
use axum::response::Response;
use doran_agents::Agent;
use doran_engine::TenantId;
use doran_engine::graph::{END_NODE_ID, START_NODE_ID};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ids::graph_assistant_id;
use super::{has_pairs, read_body, server_start_text};
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::{json_response, path_value, query_value};

/// The most assistants that one request lists.
const MAX_ASSISTANTS: usize = 1000;

/// A graph with its settings.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Assistant {
    /// The id of the assistant.
    pub(super) assistant_id: String,
    /// The name of its graph.
    pub(super) graph_id: String,
    /// Settings of its runs.
    config: Map<String, Value>,
    /// Values that its nodes read.
    context: Map<String, Value>,
    /// Free pairs.
    metadata: Map<String, Value>,
    /// What people call it.
    name: String,
    /// When it was made.
    created_at: String,
    /// When it last changed.
    updated_at: String,
    /// The number of its version.
    version: u32,
    /// What it does.
    description: Option<String>,
}

impl Assistant {
    fn of_graph(agent: &Agent) -> Self {
        Self {
            assistant_id: graph_assistant_id(&agent.name),
            graph_id: agent.name.clone(),
            config: Map::new(),
            context: Map::new(),
            metadata: Map::from_iter([("created_by".to_owned(), "system".into())]),
            name: agent.name.clone(),
            created_at: server_start_text(),
            updated_at: server_start_text(),
            version: 1,
            description: Some(agent.en.clone()).filter(|text| !text.is_empty()),
        }
    }

    /// What its runs have in their metadata.
    pub(super) fn run_metadata(&self) -> Map<String, Value> {
        let mut metadata = self.metadata.clone();
        metadata.insert("graph_id".to_owned(), self.graph_id.as_str().into());
        metadata.insert("assistant_id".to_owned(), self.assistant_id.as_str().into());
        metadata
    }
}

/// The assistant with this id, or the one of the graph with this name.
pub(super) async fn find_assistant(
    app: &ServerApp,
    _: &TenantId,
    id: &str,
) -> Result<Option<Assistant>, ApiError> {
    let agents = app.agents.current();
    let found = agents.iter().find(|agent| agent.name == id || graph_assistant_id(&agent.name) == id);
    Ok(found.map(Assistant::of_graph))
}

async fn load_assistant(app: &ServerApp, caller: &ApiCaller, id: &str) -> Result<Assistant, ApiError> {
    find_assistant(app, &caller.tenant, id).await?.ok_or_else(|| ApiErrorCode::NotFound.into())
}

/// Which assistants are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchAssistantsBody {
    /// Only those of this graph.
    graph_id: Option<String>,
    /// Only those with this name.
    name: Option<String>,
    /// Only those with these pairs.
    metadata: Option<Map<String, Value>>,
    /// The maximum number, at most 1000. The default is 10.
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
    /// By what they are sorted. The default is `created_at`.
    sort_by: Option<AssistantOrder>,
    /// Which of them comes first. The default is `desc`.
    sort_order: Option<SortOrder>,
}

/// By what assistants are sorted.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AssistantOrder {
    /// Their ids.
    AssistantId,
    /// The names of their graphs.
    GraphId,
    /// Their names.
    Name,
    /// When they were made.
    CreatedAt,
    /// When they last changed.
    UpdatedAt,
}

/// Which comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SortOrder {
    /// The smallest.
    Asc,
    /// The largest.
    #[default]
    Desc,
}

fn matching(app: &ServerApp, body: &SearchAssistantsBody) -> Vec<Assistant> {
    let fits = |assistant: &Assistant| {
        body.graph_id.as_ref().is_none_or(|graph| *graph == assistant.graph_id)
            && body.name.as_ref().is_none_or(|name| *name == assistant.name)
            && body.metadata.as_ref().is_none_or(|wanted| has_pairs(&assistant.metadata, wanted))
    };
    let agents = app.agents.current();
    let mut found: Vec<Assistant> = agents.iter().map(Assistant::of_graph).filter(fits).collect();
    // Graphs are made in the order in which they are listed, and the last comes first.
    match body.sort_by {
        Some(AssistantOrder::AssistantId) => found.sort_by(|a, b| a.assistant_id.cmp(&b.assistant_id)),
        Some(AssistantOrder::GraphId) => found.sort_by(|a, b| a.graph_id.cmp(&b.graph_id)),
        Some(AssistantOrder::Name) => found.sort_by(|a, b| a.name.cmp(&b.name)),
        Some(AssistantOrder::UpdatedAt) => found.sort_by(|a, b| a.updated_at.cmp(&b.updated_at)),
        Some(AssistantOrder::CreatedAt) | None => {}
    }
    if body.sort_order.unwrap_or_default() == SortOrder::Desc {
        found.reverse();
    }
    found
}

/// `POST /assistants/search`
pub(super) async fn search_assistants(
    State(app): State<ServerApp>,
    _: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: SearchAssistantsBody = read_body(request, &app).await?;
    let found = matching(&app, &body);
    let (offset, limit) = (body.offset.unwrap_or(0), body.limit.unwrap_or(10).clamp(1, MAX_ASSISTANTS));
    let total = found.len();
    let page: Vec<Assistant> = found.into_iter().skip(offset).take(limit).collect();
    let shown = page.len();
    let mut response = json_response(page);
    let headers = response.headers_mut();
    headers.insert("x-pagination-total", HeaderValue::from(total));
    if offset.saturating_add(shown) < total {
        headers.insert("x-pagination-next", HeaderValue::from(offset.saturating_add(shown)));
    }
    Ok(response)
}

/// `POST /assistants/count`
pub(super) async fn count_assistants(
    State(app): State<ServerApp>,
    _: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: SearchAssistantsBody = read_body(request, &app).await?;
    Ok(json_response(matching(&app, &body).len()))
}

/// `GET /assistants/{assistant}`
pub(super) async fn get_assistant(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    Ok(json_response(load_assistant(&app, &caller, &path_value(id)?).await?))
}

/// What may follow the path of a graph.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AssistantGraphQuery {
    /// Whether graphs inside nodes are shown: `false`, `true`, or how deep.
    #[serde(default)]
    xray: Option<String>,
}

/// A graph as LangGraph's clients draw it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AssistantGraph {
    /// The nodes.
    nodes: Vec<Value>,
    /// The edges.
    edges: Vec<Value>,
}

/// `GET /assistants/{assistant}/graph`
pub(super) async fn assistant_graph(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<AssistantGraphQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let xray = query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?.xray;
    if xray.is_some_and(|xray| !matches!(xray.as_str(), "false" | "False" | "0")) {
        return Err(super::invalid(
            "`xray` is not supported: nodes are shown without the graphs inside them",
            "`xray`는 지원하지 않습니다. 노드 안의 그래프는 보여 주지 않습니다",
        ));
    }
    let assistant = load_assistant(&app, &caller, &path_value(id)?).await?;
    let topology = agent_request::find_agent(&app, &assistant.graph_id)?.topology();
    let node = |id: &str| json!({ "id": id, "type": "runnable", "data": { "name": id } });
    let mut nodes = vec![node(START_NODE_ID)];
    nodes.extend(topology.nodes.iter().map(|known| node(&known.id)));
    nodes.push(json!({ "id": END_NODE_ID }));
    let edges = topology.edges.iter().map(|edge| {
        let mut shown = json!({ "source": edge.source, "target": edge.target });
        if edge.conditional {
            shown["conditional"] = true.into();
        }
        shown
    });
    Ok(json_response(AssistantGraph { nodes, edges: edges.collect() }))
}

/// The schemas of a graph.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AssistantSchemas {
    /// The graph.
    graph_id: String,
    /// What a run takes.
    input_schema: Value,
    /// What a run gives.
    output_schema: Value,
    /// What a thread holds.
    state_schema: Value,
    /// Settings of runs.
    config_schema: Value,
    /// Values that nodes read.
    context_schema: Option<Value>,
}

/// `GET /assistants/{assistant}/schemas`
pub(super) async fn assistant_schemas(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let assistant = load_assistant(&app, &caller, &path_value(id)?).await?;
    let agent = agent_request::find_agent(&app, &assistant.graph_id)?;
    let schema = langchain_schema(&agent);
    Ok(json_response(AssistantSchemas {
        graph_id: agent.name.clone(),
        input_schema: schema.clone(),
        output_schema: schema.clone(),
        state_schema: schema,
        config_schema: json!({}),
        context_schema: None,
    }))
}

/// The schema of a state whose messages are as LangChain writes them. No field has to be given.
fn langchain_schema(agent: &Agent) -> Value {
    let mut schema = agent.state_schema();
    for field in agent.message_fields() {
        schema["properties"][field]["items"] = json!({ "type": "object", "title": "Message" });
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
        schema.remove("$schema");
    }
    schema
}

//! Assistants: every graph has one, and tenants store others beside them. Here they are found, listed and described.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use doran_agents::{Agent, MESSAGES_FIELD};
use doran_engine::TenantId;
use doran_engine::graph::{END_NODE_ID, GraphTopology, START_NODE_ID};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::cancel::read_flag;
use super::ids::graph_assistant_id;
use super::metadata::has_pairs;
use super::stored_assistants::{list_stored, load_stored};
use super::times::server_start_text;
use super::{FOUND, SortOrder, check_select, list_response, operation, page_size, read_body, select_fields};
use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::{ApiRoute, json_response, path_value, query_value};

/// The fields of an assistant that can be chosen.
const ASSISTANT_FIELDS: [&str; 10] = [
    "assistant_id",
    "graph_id",
    "name",
    "description",
    "config",
    "context",
    "created_at",
    "updated_at",
    "metadata",
    "version",
];

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post(
            "/assistants/search",
            search_assistants,
            operation("langgraph_search_assistants", "Lists assistants.")
                .body::<SearchAssistantsBody>()
                .returns::<Vec<Map<String, Value>>>(200, "The assistants."),
        ),
        ApiRoute::post(
            "/assistants/count",
            count_assistants,
            operation("langgraph_count_assistants", "Counts assistants.")
                .body::<CountAssistantsBody>()
                .returns::<usize>(200, "How many there are."),
        ),
        ApiRoute::get(
            "/assistants/{assistant}",
            get_assistant,
            operation("langgraph_get_assistant", "Returns an assistant.")
                .returns::<Assistant>(200, "The assistant.")
                .errors(&FOUND),
        ),
        ApiRoute::get(
            "/assistants/{assistant}/graph",
            assistant_graph,
            operation("langgraph_assistant_graph", "Returns the nodes and edges of an assistant.")
                .query::<AssistantGraphQuery>()
                .returns::<AssistantGraph>(200, "The graph.")
                .errors(&FOUND),
        ),
        ApiRoute::get(
            "/assistants/{assistant}/schemas",
            assistant_schemas,
            operation("langgraph_assistant_schemas", "Returns the JSON Schemas of an assistant.")
                .returns::<AssistantSchemas>(200, "The schemas.")
                .errors(&FOUND),
        ),
        ApiRoute::get(
            "/assistants/{assistant}/subgraphs",
            assistant_subgraphs,
            operation("langgraph_assistant_subgraphs", "Lists the graphs inside the nodes of an assistant.")
                .query::<SubgraphsQuery>()
                .returns::<Map<String, Value>>(
                    200,
                    "By the names of their nodes. Their schemas are not known.",
                )
                .errors(&FOUND),
        ),
        ApiRoute::get(
            "/assistants/{assistant}/subgraphs/{namespace}",
            assistant_subgraph,
            operation(
                "langgraph_assistant_subgraph",
                "Lists the graph inside one node, and those inside it.",
            )
            .query::<SubgraphsQuery>()
            .returns::<Map<String, Value>>(200, "By the names of their nodes. Their schemas are not known.")
            .errors(&FOUND),
        ),
    ]
}

/// A graph with its settings.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Assistant {
    /// The id of the assistant.
    pub(super) assistant_id: String,
    /// The name of its graph.
    pub(super) graph_id: String,
    /// Settings of its runs.
    pub(super) config: Map<String, Value>,
    /// Values that its nodes read.
    pub(super) context: Map<String, Value>,
    /// Free pairs.
    pub(super) metadata: Map<String, Value>,
    /// What people call it.
    pub(super) name: String,
    /// When it was made.
    pub(super) created_at: String,
    /// When it last changed.
    pub(super) updated_at: String,
    /// The number of its version.
    pub(super) version: u32,
    /// What it does.
    pub(super) description: Option<String>,
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

    /// Values that its nodes read.
    pub(super) fn context(&self) -> &Map<String, Value> {
        &self.context
    }

    /// The most steps of its runs.
    pub(super) fn recursion_limit(&self) -> Option<u32> {
        self.config.get("recursion_limit").and_then(Value::as_u64).and_then(|steps| steps.try_into().ok())
    }

    /// Whether it is the one that its graph has of itself.
    pub(super) fn is_of_graph(&self) -> bool {
        self.assistant_id == graph_assistant_id(&self.graph_id)
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
    tenant: &TenantId,
    id: &str,
) -> Result<Option<Assistant>, ApiError> {
    let agents = app.agents.current();
    let of_graph = agents.iter().find(|agent| agent.name == id || graph_assistant_id(&agent.name) == id);
    if let Some(agent) = of_graph {
        return Ok(Some(Assistant::of_graph(agent)));
    }
    // One whose graph is not served is not there.
    let stored = load_stored(app, tenant, id).await?;
    Ok(stored.filter(|assistant| app.find_agent(&assistant.graph_id).is_some()))
}

pub(super) async fn load_assistant(
    app: &ServerApp,
    caller: &ApiCaller,
    id: &str,
) -> Result<Assistant, ApiError> {
    find_assistant(app, &caller.tenant, id).await?.ok_or_else(|| ApiErrorCode::NotFound.into())
}

/// Which assistants are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SearchAssistantsBody {
    /// Only those of this graph.
    graph_id: Option<String>,
    /// Only those with this in their names. Upper and lower case are the same.
    name: Option<String>,
    /// Only those with these pairs.
    metadata: Option<Map<String, Value>>,
    /// The maximum number, from 1 to 1000. The default is 10.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
    /// By what they are sorted. The default is `created_at`.
    sort_by: Option<AssistantOrder>,
    /// Which of them comes first. The default is `desc`.
    sort_order: Option<SortOrder>,
    /// Fields to return. The default is all.
    select: Option<Vec<String>>,
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

async fn matching(
    app: &ServerApp,
    caller: &ApiCaller,
    body: &SearchAssistantsBody,
) -> Result<Vec<Assistant>, ApiError> {
    let fits = |assistant: &Assistant| {
        body.graph_id.as_ref().is_none_or(|graph| *graph == assistant.graph_id)
            && body
                .name
                .as_ref()
                .is_none_or(|name| assistant.name.to_lowercase().contains(&name.to_lowercase()))
            && body.metadata.as_ref().is_none_or(|wanted| has_pairs(&assistant.metadata, wanted))
    };
    let agents = app.agents.current();
    let stored = list_stored(app, &caller.tenant).await?;
    let stored = stored.into_iter().filter(|assistant| app.find_agent(&assistant.graph_id).is_some());
    // Graphs are made in the order in which they are listed.
    let mut found: Vec<Assistant> =
        agents.iter().map(Assistant::of_graph).chain(stored).filter(fits).collect();
    let key = |assistant: &Assistant| match body.sort_by.unwrap_or(AssistantOrder::CreatedAt) {
        AssistantOrder::AssistantId => assistant.assistant_id.clone(),
        AssistantOrder::GraphId => assistant.graph_id.clone(),
        AssistantOrder::Name => assistant.name.clone(),
        AssistantOrder::CreatedAt => assistant.created_at.clone(),
        AssistantOrder::UpdatedAt => assistant.updated_at.clone(),
    };
    found.sort_by_cached_key(key);
    if body.sort_order.unwrap_or_default() == SortOrder::Desc {
        found.reverse();
    }
    Ok(found)
}

/// `POST /assistants/search`
pub(super) async fn search_assistants(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let body: SearchAssistantsBody = read_body(request, &app).await?;
    check_select(body.select.as_deref(), &ASSISTANT_FIELDS)?;
    let (offset, limit) = (body.offset.unwrap_or(0), page_size(body.limit, 10)?);
    let found = matching(&app, &caller, &body).await?;
    let total = found.len();
    let page: Vec<Value> = found
        .iter()
        .skip(offset)
        .take(limit)
        .map(|assistant| select_fields(assistant, body.select.as_deref()))
        .collect();
    let next = offset.saturating_add(page.len());
    Ok(list_response(&page, Some(total), (next < total).then_some(next)))
}

/// Which assistants are counted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CountAssistantsBody {
    /// Only those of this graph.
    graph_id: Option<String>,
    /// Only those with this in their names. Upper and lower case are the same.
    name: Option<String>,
    /// Only those with these pairs.
    metadata: Option<Map<String, Value>>,
}

/// `POST /assistants/count`
pub(super) async fn count_assistants(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let CountAssistantsBody { graph_id, name, metadata } = read_body(request, &app).await?;
    let wanted = SearchAssistantsBody { graph_id, name, metadata, ..SearchAssistantsBody::default() };
    Ok(json_response(matching(&app, &caller, &wanted).await?.len()))
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
        input_schema: if agent.prepares_turns() { question_schema(&agent) } else { schema.clone() },
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

/// What a run of an agent takes that prepares its turns: messages, and what may come with them.
fn question_schema(agent: &Agent) -> Value {
    let message = json!({ "type": "object", "title": "Message" });
    let mut fields = json!({ MESSAGES_FIELD: { "type": "array", "items": message } });
    for name in agent.question_fields() {
        fields[name] = json!({ "type": ["string", "null"] });
    }
    json!({
        "type": "object", "title": format!("{}Input", agent.name), "properties": fields,
        "required": [MESSAGES_FIELD], "additionalProperties": false,
    })
}

/// What may follow the path of the graphs inside an assistant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubgraphsQuery {
    /// Whether graphs inside those graphs are listed too.
    #[serde(default)]
    recurse: Option<String>,
}

/// `GET /assistants/{assistant}/subgraphs`
pub(super) async fn assistant_subgraphs(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<SubgraphsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    subgraphs(&app, &caller, &path_value(id)?, None, query).await
}

/// `GET /assistants/{assistant}/subgraphs/{namespace}`
pub(super) async fn assistant_subgraph(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    ids: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<SubgraphsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (id, namespace) = path_value(ids)?;
    subgraphs(&app, &caller, &id, Some(&namespace), query).await
}

async fn subgraphs(
    app: &ServerApp,
    caller: &ApiCaller,
    id: &str,
    below: Option<&str>,
    query: Result<Query<SubgraphsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let recurse = query_value(query).map_err(|error| error.under_code(ApiErrorCode::Invalid))?.recurse;
    let recurse = read_flag("recurse", recurse.as_deref())?;
    let assistant = load_assistant(app, caller, id).await?;
    let topology = agent_request::find_agent(app, &assistant.graph_id)?.topology();
    let mut found = Vec::new();
    list_inner_graphs(&topology, "", recurse || below.is_some(), &mut found);
    found.retain(|name| match below {
        Some(below) if recurse => {
            name.strip_prefix(below).is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        }
        Some(below) => name == below,
        None => true,
    });
    let unknown = json!({
        "input_schema": null, "output_schema": null, "state_schema": null, "config_schema": null,
        "context_schema": null,
    });
    let found: Map<String, Value> = found.into_iter().map(|name| (name, unknown.clone())).collect();
    Ok(json_response(found))
}

/// The names of graphs inside nodes, each below that of the graph around it.
fn list_inner_graphs(topology: &GraphTopology, below: &str, recurse: bool, found: &mut Vec<String>) {
    for node in &topology.nodes {
        let Some(inner) = &node.inner else { continue };
        let name = if below.is_empty() { node.id.clone() } else { format!("{below}|{}", node.id) };
        found.push(name.clone());
        if recurse {
            list_inner_graphs(inner, &name, recurse, found);
        }
    }
}

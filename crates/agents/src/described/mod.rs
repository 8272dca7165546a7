//! Agents without code: a graph of ready nodes, described in a file.
//!
//! ```toml
//! name = "helpdesk"
//! ko = "문서에서 찾고, 불만은 사람에게 묻습니다"
//! en = "answers from documents and asks a person about complaints"
//! start = "sort"
//!
//! [[node]]
//! name = "sort"
//! use = "classify"
//! prompt = "Is it a question or a complaint?"
//! choices = ["question", "complaint"]
//! branch = { to = { question = "search" }, else = "person" }
//!
//! [[node]]
//! name = "search"
//! use = "retrieve"
//! then = "answer"
//!
//! [[node]]
//! name = "person"
//! use = "interrupt"
//! ask = { ko = "이 불만에 어떻게 답할까요?", en = "How should this complaint be answered?" }
//! then = "answer"
//!
//! [[node]]
//! name = "answer"
//! use = "respond"
//! prompt = "Answer briefly. {% if values.person %}A colleague says: {{ values.person }}{% endif %}"
//! then = "end"
//! ```
//!
//! The same may be written in YAML, with the same names. A prompt may use `question`, `summary` and `values`; words of people fill it as values and are never read as a
//! template. [`describe`] writes the graph of a ready-made agent in the same form.

mod description;
mod http;
mod http_nodes;
mod http_tool;
mod nodes;
mod state;
mod subgraphs;
mod template;
mod validation;
mod value_schemas;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use doran_engine::graph::{END_NODE_ID, GraphTopology, MAX_NESTED_GRAPHS, NamedGraphBuilder, START_NODE_ID};
use doran_engine::{Graph, NodeError, To, node, subgraph, try_subgraph};
use doran_llm::ChatRequest;
use doran_retrieval::{DocumentTenant, Language};

use crate::agents::{Agent, AgentParts, RequestExplainer};
use crate::settings::build_ready_made;

pub use description::{
    AgentDescription, AgentDescriptionError, BilingualText, BranchDescription, DescriptionFormat,
    HttpDescription, NodeDescription, SubgraphInputDescription, ToolDescription,
};
pub use http::HttpCallParts;
pub use state::{DescribedState, DescribedStateUpdate};
pub(crate) use value_schemas::value_schemas;

use http_tool::HttpTool;
use nodes::{ReadyNode, ReadyNodeContext};

/// The most nodes of an agent, those of its subgraphs counted as often as they are named.
const MAX_NODES: usize = 1000;

/// Makes an agent of a description. `others` are descriptions that its subgraphs may name.
pub fn build_described_agent(
    description: &AgentDescription,
    others: &[AgentDescription],
    parts: &AgentParts,
) -> Result<Agent, AgentDescriptionError> {
    validation::check_agent_name(&description.name)?;
    if let Some(ready) = &description.agent {
        return build_from_ready_made(ready, description, parts);
    }
    let mut node_context = ReadyNodeContext::new(parts, description.context_length).map_err(|error| {
        AgentDescriptionError::Agent { agent: description.name.clone(), reason: error.to_string() }
    })?;
    for described in with_subgraphs(description, others) {
        add_tools(&mut node_context, described, &parts.http)?;
    }
    let node_context = Arc::new(node_context);
    let mut nested = NestedBuild::default();
    let graph = build_graph(description, others, &node_context, &parts.http, &mut nested)?;
    let nodes = parse_nodes(description, &parts.http)?;
    let models = node_context.models.clone();
    let explainer = Arc::new(ReadyNodes { nodes, node_context });
    let mut agent = Agent::from_conversation(&description.name, &models, &graph, explainer);
    agent.ko.clone_from(&description.ko);
    agent.en.clone_from(&description.en);
    agent.is_hidden = description.hidden;
    agent.description = Some(Arc::new(description.clone()));
    Ok(agent)
}

/// The ready nodes of an agent by their names.
struct ReadyNodes {
    nodes: BTreeMap<String, ReadyNode>,
    node_context: Arc<ReadyNodeContext>,
}

#[async_trait]
impl RequestExplainer<DescribedState> for ReadyNodes {
    async fn explain(
        &self,
        node: &str,
        state: &DescribedState,
        tenant: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        match self.nodes.get(node) {
            Some(ready) => self.node_context.explain(ready, state, tenant).await,
            None => Ok(Vec::new()),
        }
    }
}

/// A commented file to begin an agent of this name with.
pub fn template(name: &str, language: Language) -> String {
    language
        .pick(include_str!("templates/agent.ko.toml"), include_str!("templates/agent.en.toml"))
        .replace("NAME", name)
}

/// The graph of an agent in the form of a description. For a ready-made agent, what its nodes do is theirs to know: the
/// form says what there is and where it leads. For a described one it is the description it was made of.
pub fn describe(agent: &Agent) -> AgentDescription {
    if let Some(description) = &agent.description {
        return AgentDescription::clone(description);
    }
    let topology = agent.topology();
    let start =
        topology.edges.iter().find(|edge| edge.source == START_NODE_ID).map(|edge| edge.target.clone());
    let nodes = topology.nodes.iter().map(|drawn| {
        let leads: Vec<(String, bool)> = outgoing_edges(&topology, &drawn.id);
        let form = NodeDescription {
            name: drawn.id.clone(),
            r#use: format!("{}.{}", agent.kind, drawn.id),
            ..NodeDescription::default()
        };
        match leads.as_slice() {
            [(target, false)] => NodeDescription { then: Some(target.clone()), ..form },
            _ => {
                let to = leads.iter().map(|(target, _)| (target.clone(), target.clone())).collect();
                NodeDescription { branch: Some(BranchDescription { on: None, to, otherwise: None }), ..form }
            }
        }
    });
    AgentDescription {
        name: agent.name.clone(),
        agent: Some(agent.kind.clone()),
        ko: agent.ko.clone(),
        en: agent.en.clone(),
        hidden: agent.is_hidden,
        context_length: None,
        start: start.unwrap_or_default(),
        tools: Vec::new(),
        settings: agent.settings.as_deref().cloned(),
        nodes: nodes.collect(),
    }
}

fn outgoing_edges(topology: &GraphTopology, node: &str) -> Vec<(String, bool)> {
    let target = |name: &str| if name == END_NODE_ID { "end".to_owned() } else { name.to_owned() };
    let from = topology.edges.iter().filter(|edge| edge.source == node);
    from.map(|edge| (target(&edge.target), edge.conditional)).collect()
}

/// A ready-made agent, whose description must say what it is.
fn build_from_ready_made(
    ready: &str,
    description: &AgentDescription,
    parts: &AgentParts,
) -> Result<Agent, AgentDescriptionError> {
    let wrong = |reason: String| AgentDescriptionError::Agent { agent: description.name.clone(), reason };
    if description.context_length.is_some() {
        return Err(wrong("`context_length` of a ready-made agent stands in its `settings`".into()));
    }
    let mut settings = description.settings.clone().unwrap_or_default();
    if settings.agent.is_some() {
        return Err(wrong(format!(
            "it says twice what it is made after; `agent = \"{ready}\"` above is enough"
        )));
    }
    for (word, set) in [(&description.ko, &mut settings.ko), (&description.en, &mut settings.en)] {
        if !word.is_empty() {
            *set = Some(word.clone());
        }
    }
    let mut agent = build_ready_made(ready, &description.name, &settings, parts)
        .map_err(|error| wrong(error.to_string()))?;
    agent.settings = description.settings.clone().map(Arc::new);
    agent.is_hidden = description.hidden;
    let own = describe(&agent);
    if description.start != own.start {
        return Err(wrong(format!("the ready-made agent `{ready}` starts at `{}`", own.start)));
    }
    for form in &own.nodes {
        let written = description.nodes.iter().find(|node| node.name == form.name);
        if written != Some(form) {
            return Err(AgentDescriptionError::Node {
                agent: description.name.clone(),
                node: form.name.clone(),
                reason: format!(
                    "a node of the ready-made agent `{ready}` is written down as it is or not at all; to change the graph, describe one of ready nodes"
                ),
            });
        }
    }
    if let Some(more) =
        description.nodes.iter().find(|node| own.nodes.iter().all(|known| known.name != node.name))
    {
        return Err(wrong(format!("the ready-made agent `{ready}` has no node `{}`", more.name)));
    }
    Ok(agent)
}

/// A description and those that it runs as subgraphs, each once.
fn with_subgraphs<'a>(
    description: &'a AgentDescription,
    others: &'a [AgentDescription],
) -> Vec<&'a AgentDescription> {
    let mut found = vec![description];
    let mut next = 0;
    while let Some(described) = found.get(next).copied() {
        next += 1;
        for name in described.nodes.iter().filter_map(|node| node.graph.as_ref()) {
            let inner = others.iter().find(|other| other.name == *name);
            found.extend(inner.filter(|inner| found.iter().all(|known| known.name != inner.name)));
        }
    }
    found
}

/// Adds the tools that a description brings along.
fn add_tools(
    node_context: &mut ReadyNodeContext,
    description: &AgentDescription,
    calls: &HttpCallParts,
) -> Result<(), AgentDescriptionError> {
    for tool in &description.tools {
        let wrong = |reason: String| AgentDescriptionError::Agent {
            agent: description.name.clone(),
            reason: format!("tool `{}`: {reason}", tool.name),
        };
        let made = HttpTool::new(tool, calls).map_err(wrong)?;
        node_context
            .tools
            .add(Arc::new(made), tool.policy.unwrap_or_default())
            .map_err(|error| wrong(error.to_string()))?;
    }
    Ok(())
}

fn parse_nodes(
    description: &AgentDescription,
    calls: &HttpCallParts,
) -> Result<BTreeMap<String, ReadyNode>, AgentDescriptionError> {
    description
        .nodes
        .iter()
        .map(|form| Ok((form.name.clone(), validation::parse_node(&description.name, form, calls)?)))
        .collect()
}

/// How far the build of an agent with its subgraphs has come.
#[derive(Default)]
struct NestedBuild {
    /// The agents that are being built inside each other, the outermost first.
    agents: Vec<String>,
    /// The nodes so far, of all subgraphs.
    node_count: usize,
}

fn build_graph(
    description: &AgentDescription,
    others: &[AgentDescription],
    node_context: &Arc<ReadyNodeContext>,
    calls: &HttpCallParts,
    nested: &mut NestedBuild,
) -> Result<Graph<DescribedState>, AgentDescriptionError> {
    validation::check_graph(description, node_context)?;
    let wrong = |reason| AgentDescriptionError::Agent { agent: description.name.clone(), reason };
    if nested.agents.contains(&description.name) {
        let ring = [nested.agents.as_slice(), std::slice::from_ref(&description.name)].concat().join(" → ");
        return Err(wrong(format!("it runs itself as a subgraph: {ring}")));
    }
    if nested.agents.len() >= MAX_NESTED_GRAPHS {
        return Err(wrong(format!(
            "more than {MAX_NESTED_GRAPHS} agents are inside each other: {} → {}",
            nested.agents.join(" → "),
            description.name
        )));
    }
    nested.node_count += description.nodes.len();
    if nested.node_count > MAX_NODES {
        return Err(wrong(format!("with all subgraphs there are more than {MAX_NODES} nodes")));
    }
    nested.agents.push(description.name.clone());
    let mut builder: NamedGraphBuilder<DescribedState> = Graph::named().start(description.start.clone());
    for form in &description.nodes {
        let ready = validation::parse_node(&description.name, form, calls)?;
        let node_builder = match &ready {
            ReadyNode::Subgraph { graph: name, question } => {
                let wrong = |reason: String| validation::node_error(&description.name, form, reason);
                let inner = others
                    .iter()
                    .find(|other| other.name == *name)
                    .ok_or_else(|| wrong(format!("there is no described agent `{name}` to run")))?;
                if let Some(ready) = &inner.agent {
                    return Err(wrong(format!(
                        "`{name}` is the ready-made agent `{ready}`; a subgraph is an agent of ready nodes"
                    )));
                }
                let inner = build_graph(inner, others, node_context, calls, nested)?;
                match question.clone() {
                    Some(question) => {
                        let answered = question.clone();
                        node(try_subgraph(
                            inner,
                            move |outer| question.input(outer),
                            move |outer, inner| answered.output(outer, inner),
                        ))
                    }
                    None => node(subgraph(inner, subgraphs::shared_input, subgraphs::shared_output)),
                }
            }
            _ => {
                let (node_context, name) = (node_context.clone(), form.name.clone());
                let retry = ready.retry_policy();
                let made = node(move |state, cx| {
                    nodes::run_ready_node(node_context.clone(), ready.clone(), name.clone(), state, cx)
                });
                match retry {
                    Some(retry) => made.retry(retry),
                    None => made,
                }
            }
        };
        builder = builder.node(form.name.clone(), connect_node(form, node_builder));
    }
    nested.agents.pop();
    builder.build().map_err(|error| AgentDescriptionError::Agent {
        agent: description.name.clone(),
        reason: error.to_string(),
    })
}

fn connect_node(
    form: &NodeDescription,
    begun: doran_engine::graph::NodeBuilder<DescribedState>,
) -> doran_engine::NodeDefinition<DescribedState, String> {
    if let Some(branch) = &form.branch {
        let targets: Vec<String> = branch.to.values().chain(&branch.otherwise).cloned().collect();
        let mut nodes: Vec<String> = targets.iter().filter(|target| *target != "end").cloned().collect();
        nodes.sort();
        nodes.dedup();
        let on = branch.on.clone().or_else(|| form.into.clone()).unwrap_or_else(|| form.name.clone());
        let branch = branch.clone();
        let choose = move |state: &DescribedState| {
            let target = branch.to.get(&state.value_text(&on)).or(branch.otherwise.as_ref());
            match target {
                Some(target) if target != "end" => To::Node(target.clone()),
                Some(_) | None => To::End,
            }
        };
        // Validation has made sure that every value has a target.
        return match targets.iter().any(|target| target == "end") {
            true => begun.branch_or_end(nodes, choose),
            false => begun.branch(nodes, choose),
        };
    }
    match form.then.as_deref() {
        Some("end") | None => begun.end(),
        Some(next) => begun.then(next.to_owned()),
    }
}

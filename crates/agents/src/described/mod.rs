//! Agents without code: a graph written in a file, made of ready nodes, checked, drawn and run like any other.
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
mod nodes;
mod state;
mod validation;

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::graph::{END_NODE_ID, GraphTopology, NamedGraphBuilder, START_NODE_ID};
use doran_engine::{Graph, To, node, subgraph};

use crate::agents::{Agent, AgentParts};
use crate::settings::build_ready_made;

pub use description::{
    AgentDescription, AgentDescriptionError, BilingualText, BranchDescription, DescriptionFormat,
    NodeDescription,
};
pub use state::{DescribedState, DescribedStateUpdate};

use nodes::{ReadyNode, ReadyNodeContext};

/// Makes an agent of a description. `others` are descriptions that its subgraphs may name.
pub fn build_described_agent(
    description: &AgentDescription,
    others: &[AgentDescription],
    parts: &AgentParts,
) -> Result<Agent, AgentDescriptionError> {
    if let Some(ready) = &description.agent {
        return build_from_ready_made(ready, description, parts);
    }
    let shop = ReadyNodeContext::new(parts, description.context_length).map_err(|error| {
        AgentDescriptionError::Agent { agent: description.name.clone(), reason: error.to_string() }
    })?;
    let shop = Arc::new(shop);
    let mut open = Vec::new();
    let graph = build_graph(description, others, &shop, &mut open)?;
    let explained = parse_nodes(description)?;
    let models = shop.models.clone();
    let explain = Arc::new(move |name: &str, state: &DescribedState| {
        explained.get(name).map(|ready| shop.explain(ready, state)).unwrap_or_default()
    });
    let mut agent = Agent::from_graph(&description.name, &models, graph, explain);
    agent.ko.clone_from(&description.ko);
    agent.en.clone_from(&description.en);
    agent.description = Some(Arc::new(description.clone()));
    Ok(agent)
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
        context_length: None,
        start: start.unwrap_or_default(),
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

fn parse_nodes(description: &AgentDescription) -> Result<BTreeMap<String, ReadyNode>, AgentDescriptionError> {
    description
        .nodes
        .iter()
        .map(|form| Ok((form.name.clone(), validation::parse_node(&description.name, form)?)))
        .collect()
}

fn build_graph(
    description: &AgentDescription,
    others: &[AgentDescription],
    shop: &Arc<ReadyNodeContext>,
    open: &mut Vec<String>,
) -> Result<Graph<DescribedState>, AgentDescriptionError> {
    validation::check_graph(description, shop)?;
    if open.contains(&description.name) {
        let ring = [open.as_slice(), std::slice::from_ref(&description.name)].concat().join(" → ");
        let reason = format!("it runs itself as a subgraph: {ring}");
        return Err(AgentDescriptionError::Agent { agent: description.name.clone(), reason });
    }
    open.push(description.name.clone());
    let mut builder: NamedGraphBuilder<DescribedState> = Graph::named().start(description.start.clone());
    for form in &description.nodes {
        let ready = validation::parse_node(&description.name, form)?;
        let begun = match &ready {
            ReadyNode::Subgraph { graph: name } => {
                let inner = others.iter().find(|other| other.name == *name).ok_or_else(|| {
                    validation::node_error(
                        &description.name,
                        form,
                        format!("there is no described agent `{name}` to run"),
                    )
                })?;
                let inner = build_graph(inner, others, shop, open)?;
                node(subgraph(inner, nodes::subgraph_input, nodes::subgraph_output))
            }
            _ => {
                let (shop, ready, name) = (shop.clone(), ready.clone(), form.name.clone());
                node(move |state, cx| {
                    nodes::run_ready_node(shop.clone(), ready.clone(), name.clone(), state, cx)
                })
            }
        };
        builder = builder.node(form.name.clone(), connect_node(form, begun));
    }
    open.pop();
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
        return begun.branch_or_end(nodes, choose);
    }
    match form.then.as_deref() {
        Some("end") | None => begun.end(),
        Some(next) => begun.then(next.to_owned()),
    }
}

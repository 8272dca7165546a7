//! Turns definitions into a checked graph. A wrong graph fails here and names the node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::BuildError;
use crate::graph::node::{BranchChooser, EdgeDefinition};
use crate::graph::{
    BuiltEdge, BuiltGraph, BuiltNode, CheckedBranch, DeclaredTargets, END_NODE_ID, Graph, GraphTopology,
    MAX_NESTED_GRAPHS, NodeDefinition, Nodes, START_NODE_ID, TopologyEdge, TopologyNode,
};
use crate::log;
use crate::plan::{NodeIndex, PlanTopology};
use crate::state::State;
use crate::state_shape::state_shape;

/// A graph in the making, over an enum of nodes.
pub struct GraphBuilder<S: State, N> {
    nodes: Vec<(N, NodeDefinition<S, N>)>,
    start: Vec<N>,
}

impl<S: State, N: Nodes> GraphBuilder<S, N> {
    pub(crate) fn new(nodes: Vec<(N, NodeDefinition<S, N>)>) -> Self {
        Self { nodes, start: Vec::new() }
    }

    /// Where runs begin. More than one call begins at several nodes side by side.
    pub fn start(mut self, node: N) -> Self {
        self.start.push(node);
        self
    }

    /// Checks the graph.
    pub fn build(self) -> Result<Graph<S>, BuildError> {
        let start: Vec<String> = self.start.iter().map(|node| node.name().to_owned()).collect();
        let nodes = self.nodes.into_iter().map(|(node, def)| (node.name().to_owned(), def)).collect();
        assemble_graph(nodes, &start, |node: &N| node.name())
    }
}

/// A graph in the making, by names.
pub struct NamedGraphBuilder<S: State> {
    nodes: Vec<(String, NodeDefinition<S, String>)>,
    start: Vec<String>,
}

impl<S: State> NamedGraphBuilder<S> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), start: Vec::new() }
    }

    /// Adds a node.
    pub fn node(mut self, name: impl Into<String>, def: NodeDefinition<S, String>) -> Self {
        self.nodes.push((name.into(), def));
        self
    }

    /// Where runs begin.
    pub fn start(mut self, name: impl Into<String>) -> Self {
        self.start.push(name.into());
        self
    }

    /// Checks the graph.
    pub fn build(self) -> Result<Graph<S>, BuildError> {
        assemble_graph(self.nodes, &self.start, String::as_str)
    }
}

fn assemble_graph<S: State, N: Send + Sync + 'static>(
    defs: Vec<(String, NodeDefinition<S, N>)>,
    start: &[String],
    name_of: impl Fn(&N) -> &str + Copy + Send + Sync + 'static,
) -> Result<Graph<S>, BuildError> {
    let names = number_nodes(&defs)?;
    let ordered_names: Vec<String> = defs.iter().map(|(name, _)| name.clone()).collect();
    let target = |from: &str, node: &N| {
        let to = name_of(node);
        let unknown = || BuildError::UnknownTarget { from: from.to_owned(), to: to.to_owned() };
        names.get(to).copied().ok_or_else(unknown)
    };
    let mut start_ix = Vec::new();
    for name in start {
        let ix = *names.get(name).ok_or_else(|| BuildError::UnknownStart(name.clone()))?;
        if start_ix.contains(&ix) {
            return Err(BuildError::StartTwice(name.clone()));
        }
        start_ix.push(ix);
    }
    if start_ix.is_empty() {
        return Err(BuildError::NoStart);
    }

    let mut plan_topology = PlanTopology::default();
    let mut leads: Vec<BTreeSet<NodeIndex>> = Vec::new();
    let mut topology = GraphTopology::default();
    let mut nodes = Vec::new();
    for (name, def) in defs {
        if !def.node.retry.is_valid() {
            let factor = def.node.retry.factor.to_string();
            return Err(BuildError::BadRetryFactor { node: name, factor });
        }
        let mut waits_for = BTreeSet::new();
        for node in &def.waits_for {
            let unknown =
                |_| BuildError::JoinWithoutEdge { join: name.clone(), missing: name_of(node).to_owned() };
            waits_for.insert(target(&name, node).map_err(unknown)?);
        }
        let targets = match &def.edge {
            EdgeDefinition::End => Vec::new(),
            EdgeDefinition::Then(targets)
            | EdgeDefinition::Branch { targets, .. }
            | EdgeDefinition::Goto { targets, .. } => targets
                .iter()
                .map(|node| target(&name, node))
                .collect::<Result<Vec<NodeIndex>, BuildError>>()?,
        };
        if matches!(def.edge, EdgeDefinition::Goto { .. }) && def.node.cache.is_some() {
            return Err(BuildError::CachedGoto(name));
        }
        let on_error = def.on_error.as_ref().map(|handler| target(&name, handler)).transpose()?;
        leads.push(targets.iter().copied().chain(on_error).collect());
        plan_topology.waits_for.push(waits_for);
        plan_topology.deferred.push(def.node.defer);
        add_to_topology(&mut topology, &name, &def, name_of);
        let edge = match def.edge {
            EdgeDefinition::End => BuiltEdge::End,
            EdgeDefinition::Then(_) => BuiltEdge::Then(targets),
            EdgeDefinition::Branch { may_end, choose, .. } => {
                let declared = declared_targets(&ordered_names, &targets, may_end);
                BuiltEdge::Branch(check_branch_targets(declared, choose, name_of))
            }
            EdgeDefinition::Goto { may_end, .. } => {
                BuiltEdge::Goto(declared_targets(&ordered_names, &targets, may_end))
            }
        };
        nodes.push(BuiltNode {
            name: Arc::from(name.as_str()),
            run: def.node.run,
            edge,
            on_error,
            retry: def.node.retry,
            timeout: def.node.timeout,
            cache: def.node.cache,
            pause_before: def.node.pause_before,
            pause_after: def.node.pause_after,
        });
    }
    topology.edges.splice(
        0..0,
        start.iter().map(|name| TopologyEdge {
            source: START_NODE_ID.into(),
            target: name.clone(),
            conditional: false,
        }),
    );
    check_nesting(&topology)?;
    check_reachable(&nodes, &start_ix, &leads)?;
    check_error_handlers(&nodes, &plan_topology)?;
    check_joins(&nodes, &plan_topology, &leads)?;
    let topology_fingerprint = topology_fingerprint(&topology, &nodes, &plan_topology);
    let fingerprint = graph_fingerprint(&topology_fingerprint, &nodes);
    let start = start_ix;
    let built = BuiltGraph { nodes, start, plan_topology, fingerprint, topology_fingerprint, topology };
    Ok(Graph { core: Arc::new(built) })
}

fn number_nodes<S: State, N>(
    defs: &[(String, NodeDefinition<S, N>)],
) -> Result<HashMap<String, NodeIndex>, BuildError> {
    if defs.is_empty() {
        return Err(BuildError::Empty);
    }
    let mut names = HashMap::new();
    for (ix, (name, _)) in defs.iter().enumerate() {
        let ix = NodeIndex::try_from(ix).map_err(|_| BuildError::TooMany)?;
        if name == START_NODE_ID || name == END_NODE_ID {
            return Err(BuildError::Reserved(name.clone()));
        }
        if names.insert(name.clone(), ix).is_some() {
            return Err(BuildError::Duplicate(name.clone()));
        }
    }
    Ok(names)
}

fn declared_targets(ordered_names: &[String], targets: &[NodeIndex], may_end: bool) -> DeclaredTargets {
    let nodes = targets.iter().map(|ix| (ordered_names[usize::from(*ix)].clone(), *ix)).collect();
    DeclaredTargets { nodes, may_end }
}

/// Wraps a branch so that it can lead only to the targets it declared.
fn check_branch_targets<S: State, N: 'static>(
    declared: DeclaredTargets,
    choose: BranchChooser<S, N>,
    name_of: impl Fn(&N) -> &str + Copy + Send + Sync + 'static,
) -> CheckedBranch<S> {
    Arc::new(move |state| declared.check(choose(state).into_due_tasks(name_of)?))
}

fn add_to_topology<S: State, N>(
    topology: &mut GraphTopology,
    name: &str,
    def: &NodeDefinition<S, N>,
    name_of: impl Fn(&N) -> &str,
) {
    topology.nodes.push(TopologyNode {
        id: name.to_owned(),
        deferred: def.node.defer,
        inner: def.node.run.inner().map(Box::new),
    });
    let mut edge = |target: String, conditional| {
        topology.edges.push(TopologyEdge { source: name.to_owned(), target, conditional });
    };
    match &def.edge {
        EdgeDefinition::End => edge(END_NODE_ID.into(), false),
        EdgeDefinition::Then(targets) => {
            targets.iter().for_each(|node| edge(name_of(node).to_owned(), false));
        }
        EdgeDefinition::Branch { targets, may_end, .. } | EdgeDefinition::Goto { targets, may_end } => {
            targets.iter().for_each(|node| edge(name_of(node).to_owned(), true));
            if *may_end {
                edge(END_NODE_ID.into(), true);
            }
        }
    }
    if let Some(handler) = &def.on_error {
        edge(name_of(handler).to_owned(), true);
    }
}

/// A handler is given one error, and a join waits for several nodes.
fn check_error_handlers<S: State>(
    nodes: &[BuiltNode<S>],
    plan_topology: &PlanTopology,
) -> Result<(), BuildError> {
    for node in nodes {
        if let Some(handler) = node.on_error
            && !plan_topology.waits_for[usize::from(handler)].is_empty()
        {
            let join = nodes[usize::from(handler)].name.to_string();
            return Err(BuildError::JoinHandlesErrors { node: node.name.to_string(), join });
        }
    }
    Ok(())
}

fn check_nesting(topology: &GraphTopology) -> Result<(), BuildError> {
    let too_deep =
        |node: &&TopologyNode| node.inner.as_ref().is_some_and(|inner| inner.levels() >= MAX_NESTED_GRAPHS);
    match topology.nodes.iter().find(too_deep) {
        Some(node) => Err(BuildError::TooManyNested(node.id.clone())),
        None => Ok(()),
    }
}

fn check_reachable<S: State>(
    nodes: &[BuiltNode<S>],
    start: &[NodeIndex],
    leads: &[BTreeSet<NodeIndex>],
) -> Result<(), BuildError> {
    let mut reached: BTreeSet<NodeIndex> = start.iter().copied().collect();
    let mut open: Vec<NodeIndex> = start.to_vec();
    while let Some(ix) = open.pop() {
        for target in &leads[usize::from(ix)] {
            if reached.insert(*target) {
                open.push(*target);
            }
        }
    }
    match nodes.iter().zip(0..=NodeIndex::MAX).find(|(_, ix)| !reached.contains(ix)) {
        Some((node, _)) => Err(BuildError::Unreachable(node.name.to_string())),
        None => Ok(()),
    }
}

fn check_joins<S: State>(
    nodes: &[BuiltNode<S>],
    plan_topology: &PlanTopology,
    leads: &[BTreeSet<NodeIndex>],
) -> Result<(), BuildError> {
    for (join, waits_for) in plan_topology.waits_for.iter().enumerate() {
        if waits_for.is_empty() {
            continue;
        }
        for (from, targets) in leads.iter().enumerate() {
            let points = targets.iter().any(|target| usize::from(*target) == join);
            let awaited = waits_for.iter().any(|awaited| usize::from(*awaited) == from);
            if awaited == points {
                continue;
            }
            let (from, join) = (nodes[from].name.to_string(), nodes[join].name.to_string());
            return Err(match awaited {
                true => BuildError::JoinWithoutEdge { join, missing: from },
                false => BuildError::JoinUnaware { from, join },
            });
        }
    }
    Ok(())
}

/// What the shape of a graph is known by.
fn graph_fingerprint<S: State>(topology_fingerprint: &str, nodes: &[BuiltNode<S>]) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    };
    add(topology_fingerprint);
    state_shape::<S>().iter().for_each(|part| add(part));
    for node in nodes {
        if let Some(inner) = node.run.inner_fingerprint() {
            add(&node.name);
            add(&inner);
        }
    }
    hex::encode(&hash.finalize()[..12])
}

/// What nodes, edges and joins of a graph are known by, those of graphs inside it without their joins.
fn topology_fingerprint<S: State>(
    topology: &GraphTopology,
    nodes: &[BuiltNode<S>],
    plan_topology: &PlanTopology,
) -> String {
    let mut hash = Sha256::new();
    hash.update(log::to_json_bytes(topology));
    for (node, waits_for) in nodes.iter().zip(&plan_topology.waits_for) {
        hash.update(node.name.as_bytes());
        waits_for.iter().for_each(|ix| hash.update(ix.to_be_bytes()));
        hash.update([0]);
    }
    hex::encode(&hash.finalize()[..12])
}

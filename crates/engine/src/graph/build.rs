//! Turns definitions into a checked graph. A wrong graph fails here and names the node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::BuildError;
use crate::graph::node::{Lead, Way};
use crate::graph::{Built, Choose, Core, Def, Drawing, DrawnEdge, DrawnNode, Edge, Graph, NoWay, Nodes, To};
use crate::plan::{Ix, Next, Topology};
use crate::state::State;

/// A graph in the making, over an enum of nodes.
pub struct Builder<S: State, N> {
    nodes: Vec<(N, Def<S, N>)>,
    start: Vec<N>,
}

impl<S: State, N: Nodes> Builder<S, N> {
    pub(crate) fn new(nodes: Vec<(N, Def<S, N>)>) -> Self {
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
        assemble(nodes, &start, |node: &N| node.name())
    }
}

/// A graph in the making, by names.
pub struct NamedBuilder<S: State> {
    nodes: Vec<(String, Def<S, String>)>,
    start: Vec<String>,
}

impl<S: State> NamedBuilder<S> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), start: Vec::new() }
    }

    /// Adds a node.
    pub fn node(mut self, name: impl Into<String>, def: Def<S, String>) -> Self {
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
        assemble(self.nodes, &self.start, String::as_str)
    }
}

fn assemble<S: State, N: Send + Sync + 'static>(
    defs: Vec<(String, Def<S, N>)>,
    start: &[String],
    name_of: impl Fn(&N) -> &str + Copy + Send + Sync + 'static,
) -> Result<Graph<S>, BuildError> {
    let names = number(&defs)?;
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

    let mut topology = Topology::default();
    let mut leads: Vec<BTreeSet<Ix>> = Vec::new();
    let mut drawing = Drawing::default();
    let mut nodes = Vec::new();
    for (name, def) in defs {
        let mut waits_for = BTreeSet::new();
        for node in &def.waits_for {
            let unknown =
                |_| BuildError::JoinWithoutEdge { join: name.clone(), missing: name_of(node).to_owned() };
            waits_for.insert(target(&name, node).map_err(unknown)?);
        }
        let targets = match &def.way {
            Way::End => Vec::new(),
            Way::Then(targets) | Way::Branch { targets, .. } => {
                targets.iter().map(|node| target(&name, node)).collect::<Result<Vec<Ix>, BuildError>>()?
            }
        };
        leads.push(targets.iter().copied().collect());
        topology.waits_for.push(waits_for);
        topology.deferred.push(def.open.defer);
        draw(&mut drawing, &name, &def, name_of);
        let edge = match def.way {
            Way::End => Edge::End,
            Way::Then(_) => Edge::Then(targets),
            Way::Branch { may_end, choose, .. } => {
                let named =
                    |ix: &Ix| names.iter().find(|(_, known)| *known == ix).map(|(name, _)| name.clone());
                let declared = targets.iter().filter_map(|ix| Some((named(ix)?, *ix))).collect();
                Edge::Branch(checked(declared, may_end, choose, name_of))
            }
        };
        nodes.push(Built {
            name: Arc::from(name.as_str()),
            run: def.open.run,
            edge,
            retry: def.open.retry,
            timeout: def.open.timeout,
            cache: def.open.cache,
            pause_before: def.open.pause_before,
            pause_after: def.open.pause_after,
        });
    }
    drawing.edges.splice(
        0..0,
        start.iter().map(|name| DrawnEdge {
            source: "__start__".into(),
            target: name.clone(),
            conditional: false,
        }),
    );
    check_reach(&nodes, &start_ix, &leads)?;
    check_joins(&nodes, &topology, &leads)?;
    let fingerprint = fingerprint(&drawing, &nodes, &topology);
    Ok(Graph { core: Arc::new(Core { nodes, start: start_ix, topology, fingerprint, drawing }) })
}

fn number<S: State, N>(defs: &[(String, Def<S, N>)]) -> Result<HashMap<String, Ix>, BuildError> {
    if defs.is_empty() {
        return Err(BuildError::Empty);
    }
    let mut names = HashMap::new();
    for (ix, (name, _)) in defs.iter().enumerate() {
        let ix = Ix::try_from(ix).map_err(|_| BuildError::TooMany)?;
        if name == "__start__" || name == "__end__" {
            return Err(BuildError::Reserved(name.clone()));
        }
        if names.insert(name.clone(), ix).is_some() {
            return Err(BuildError::Duplicate(name.clone()));
        }
    }
    Ok(names)
}

/// Wraps a branch so that it can lead only where it said it would.
fn checked<S: State, N: 'static>(
    declared: Vec<(String, Ix)>,
    may_end: bool,
    choose: Lead<S, N>,
    name_of: impl Fn(&N) -> &str + Send + Sync + 'static,
) -> Choose<S> {
    Arc::new(move |state| {
        let known = |node: &N| {
            let name = name_of(node);
            let found = declared.iter().find(|(declared, _)| declared == name);
            found.map(|(_, ix)| *ix).ok_or_else(|| NoWay::Undeclared(name.to_owned()))
        };
        let chosen = match choose(state) {
            // A list without anything in it leads nowhere, so it needs the same leave.
            To::All(nodes) if nodes.is_empty() => To::End,
            To::Each(_, items) if items.is_empty() => To::End,
            chosen => chosen,
        };
        match chosen {
            To::End if may_end => Ok(Next::End),
            To::End => Err(NoWay::Undeclared("__end__".into())),
            To::Node(node) => Ok(Next::Nodes(vec![known(&node)?])),
            To::All(nodes) => Ok(Next::Nodes(nodes.iter().map(known).collect::<Result<_, _>>()?)),
            To::Each(node, items) => Ok(Next::Each(known(&node)?, items)),
        }
    })
}

fn draw<S: State, N>(drawing: &mut Drawing, name: &str, def: &Def<S, N>, name_of: impl Fn(&N) -> &str) {
    drawing.nodes.push(DrawnNode {
        id: name.to_owned(),
        deferred: def.open.defer,
        inner: def.open.run.inner().map(Box::new),
    });
    let mut edge = |target: String, conditional| {
        drawing.edges.push(DrawnEdge { source: name.to_owned(), target, conditional });
    };
    match &def.way {
        Way::End => edge("__end__".into(), false),
        Way::Then(targets) => targets.iter().for_each(|node| edge(name_of(node).to_owned(), false)),
        Way::Branch { targets, may_end, .. } => {
            targets.iter().for_each(|node| edge(name_of(node).to_owned(), true));
            if *may_end {
                edge("__end__".into(), true);
            }
        }
    }
}

fn check_reach<S: State>(nodes: &[Built<S>], start: &[Ix], leads: &[BTreeSet<Ix>]) -> Result<(), BuildError> {
    let mut reached: BTreeSet<Ix> = start.iter().copied().collect();
    let mut open: Vec<Ix> = start.to_vec();
    while let Some(ix) = open.pop() {
        for target in &leads[usize::from(ix)] {
            if reached.insert(*target) {
                open.push(*target);
            }
        }
    }
    match (0..nodes.len()).find(|ix| !reached.iter().any(|seen| usize::from(*seen) == *ix)) {
        Some(ix) => Err(BuildError::Unreachable(nodes[ix].name.to_string())),
        None => Ok(()),
    }
}

fn check_joins<S: State>(
    nodes: &[Built<S>],
    topology: &Topology,
    leads: &[BTreeSet<Ix>],
) -> Result<(), BuildError> {
    for (join, waits_for) in topology.waits_for.iter().enumerate() {
        if waits_for.is_empty() {
            continue;
        }
        for (from, targets) in leads.iter().enumerate() {
            let points = targets.iter().any(|target| usize::from(*target) == join);
            let awaited = waits_for.iter().any(|awaited| usize::from(*awaited) == from);
            let (from, join) = (nodes[from].name.to_string(), nodes[join].name.to_string());
            if awaited && !points {
                return Err(BuildError::JoinWithoutEdge { join, missing: from });
            }
            if points && !awaited {
                return Err(BuildError::JoinUnaware { from, join });
            }
        }
    }
    Ok(())
}

fn fingerprint<S: State>(drawing: &Drawing, nodes: &[Built<S>], topology: &Topology) -> String {
    let mut hash = Sha256::new();
    hash.update(serde_json::to_vec(drawing).unwrap_or_default());
    for (node, waits_for) in nodes.iter().zip(&topology.waits_for) {
        hash.update(node.name.as_bytes());
        waits_for.iter().for_each(|ix| hash.update(ix.to_be_bytes()));
        hash.update([0]);
    }
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

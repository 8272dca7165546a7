//! Graphs: nodes, edges and branches over one state. A graph is checked when it is built and cannot change after.
//!
//! What runs when is in `plan`; how it runs, in `drive`.

mod build;
mod node;
mod node_policy;
mod subgraph;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::drive::{DriveOutcome, HaltReason, RunContext, RunLimits, drive_without_store};
use crate::error::{EngineError, RunError};
use crate::failure;
use crate::log::DueTask;
use crate::plan::{NextTasks, NodeIndex, PlanTopology, PlannedTask};
use crate::state::State;
use crate::store::StoreError;
use crate::stored_json;

pub use build::{GraphBuilder, NamedGraphBuilder};
pub use node::{IntoNode, Node, NodeBuilder, NodeDefinition, NodeFuture, node};
pub use node_policy::{NodeCachePolicy, NodeTimeout, RetryPolicy};
pub use subgraph::{subgraph, try_subgraph};

/// The nodes of a graph as an enum. Derive it; then a missing, misspelt or doubled node does not compile.
pub trait Nodes: Copy + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static {
    /// Every node, in order of definition.
    const ALL: &'static [Self];

    /// The node's name in logs, drawings and events. Stored: rename a node and its old runs cannot go on.
    fn name(self) -> &'static str;

    /// Its place in [`Nodes::ALL`].
    fn index(self) -> usize;
}

/// Where a branch leads.
#[derive(Clone, Debug, PartialEq)]
pub enum To<N> {
    /// To this node.
    Node(N),
    /// To all of these, side by side. None at all is [`To::End`].
    All(Vec<N>),
    /// To one task of this node for each item, side by side. A task reads its item with [`Cx::input`](crate::Cx::input).
    /// The node must not be a join, which runs once.
    /// No items at all is [`To::End`]; [`To::each`] says where to go then.
    Each(N, Vec<Value>),
    /// To one task for each of these, side by side, each with an item of its own. None at all is [`To::End`].
    Tasks(Vec<(N, Value)>),
    /// Nowhere.
    End,
    /// Nowhere, since the branch could not choose. The run fails with [`NOT_STORABLE`](crate::failure::NOT_STORABLE)
    /// and this reason.
    Invalid(String),
}

impl<N> To<N> {
    /// One task of `node` for each item; without items, on to `otherwise`.
    ///
    /// An item that is not JSON (a map with keys that are not text, say) gives [`To::Invalid`].
    pub fn each<T: Serialize>(node: N, items: impl IntoIterator<Item = T>, otherwise: Self) -> Self {
        let items: Result<Vec<Value>, _> = items.into_iter().map(serde_json::to_value).collect();
        match items {
            Ok(items) if items.is_empty() => otherwise,
            Ok(items) => Self::Each(node, items),
            Err(error) => Self::Invalid(format!("an item is not JSON: {error}")),
        }
    }
}

/// What names a node: a variant of an enum of nodes, or a text.
pub trait NodeName {
    /// The name.
    fn node_name(&self) -> &str;
}

impl<N: Nodes> NodeName for N {
    fn node_name(&self) -> &str {
        self.name()
    }
}

impl NodeName for String {
    fn node_name(&self) -> &str {
        self
    }
}

impl NodeName for &str {
    fn node_name(&self) -> &str {
        self
    }
}

impl<N> To<N> {
    /// The tasks by name, if their items can be stored.
    pub(crate) fn into_due_tasks(self, name_of: impl Fn(&N) -> &str) -> Result<Vec<DueTask>, BranchError> {
        let name = |node: &N| name_of(node).to_owned();
        let tasks = match self {
            Self::Node(node) => vec![DueTask::Node(name(&node))],
            Self::All(nodes) => nodes.iter().map(|node| DueTask::Node(name(node))).collect(),
            Self::Each(node, items) => {
                items.into_iter().map(|input| DueTask::Item { node: name(&node), input }).collect()
            }
            Self::Tasks(tasks) => {
                tasks.into_iter().map(|(node, input)| DueTask::Item { node: name(&node), input }).collect()
            }
            Self::End => Vec::new(),
            Self::Invalid(why) => return Err(BranchError::Invalid(why)),
        };
        let storable = tasks.iter().try_for_each(|task| match task {
            DueTask::Item { input, .. } => stored_json::check_depth(input),
            DueTask::Node(_) => Ok(()),
        });
        storable.map_err(|error| BranchError::Invalid(format!("an item cannot be stored: {error}")))?;
        Ok(tasks)
    }
}

/// A graph that is ready to run.
pub struct Graph<S: State> {
    pub(crate) core: Arc<BuiltGraph<S>>,
}

impl<S: State> Clone for Graph<S> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<S: State> std::fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.core.nodes.iter().map(|node| &node.name)).finish()
    }
}

impl<S: State> Graph<S> {
    /// Defines a graph by an exhaustive `match` over its nodes.
    pub fn define<N: Nodes>(define: impl Fn(N) -> NodeDefinition<S, N>) -> GraphBuilder<S, N> {
        GraphBuilder::new(N::ALL.iter().map(|node| (*node, define(*node))).collect())
    }

    /// Defines a graph by names, for graphs that are read from a file. Names are checked by `build`.
    pub fn named() -> NamedGraphBuilder<S> {
        NamedGraphBuilder::new()
    }

    /// Runs the graph without a store, to its end. Nothing is kept: for durable runs see
    /// [`Runtime`](crate::Runtime). A question ends it with [`RunError::AskedWithoutStore`], since nobody could answer.
    pub async fn run(&self, input: S::Update) -> Result<S, EngineError> {
        self.run_with_limits(input, RunLimits::default()).await
    }

    /// As [`Graph::run`], with limits of its own.
    pub async fn run_with_limits(&self, input: S::Update, limits: RunLimits) -> Result<S, EngineError> {
        let run = Arc::new(RunContext::new(limits, *uuid::Uuid::new_v4().as_bytes()));
        match drive_without_store(&self.core, run, input).await {
            Ok((DriveOutcome::Finished, state)) => Ok(Arc::unwrap_or_clone(state)),
            Ok((DriveOutcome::Paused(asks), _)) => {
                let node = asks.first().map_or_else(String::new, |ask| ask.node.clone());
                Err(RunError::AskedWithoutStore { node }.into())
            }
            Err(HaltReason::Failed { failure, .. }) => Err(RunError::Failed(failure).into()),
            Err(HaltReason::Cancelled | HaltReason::Released) => Err(RunError::Cancelled.into()),
            Err(HaltReason::Lost(error)) => Err(error.into()),
            Err(HaltReason::Rejected(message)) => Err(StoreError::Rejected(message.into()).into()),
        }
    }

    /// Its nodes and edges.
    pub fn topology(&self) -> GraphTopology {
        self.core.topology.clone()
    }

    /// Changes when nodes, edges or joins change, or a field of the state or its rule, also in a graph inside: a run that
    /// was accepted by another shape is not silently run or resumed.
    pub fn fingerprint(&self) -> &str {
        &self.core.fingerprint
    }
}

/// The name by which edges call the beginning of every graph.
pub const START_NODE_ID: &str = "__start__";

/// The name by which edges call the end of every graph.
pub const END_NODE_ID: &str = "__end__";

/// The most graphs inside each other, the outermost included. A drawing of so many has less than the 128 levels of JSON
/// that common readers accept.
pub const MAX_NESTED_GRAPHS: usize = 32;

/// Nodes and edges of a graph, to be drawn or listed. The crate `doran-draw` makes pictures of it.
///
/// Branches declare where they may lead, so a topology shows every way a run can take and no other. The ends of a graph
/// are called [`START_NODE_ID`] and [`END_NODE_ID`]; only edges name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphTopology {
    /// The nodes.
    pub nodes: Vec<TopologyNode>,
    /// The edges.
    pub edges: Vec<TopologyEdge>,
}

impl GraphTopology {
    /// How many graphs are inside each other, this one included.
    pub(crate) fn levels(&self) -> usize {
        let inner = self.nodes.iter().filter_map(|node| node.inner.as_ref());
        1 + inner.map(|inner| inner.levels()).max().unwrap_or(0)
    }

    /// Whether the graph, or one inside it, has a node of this name.
    pub fn has_node(&self, node: &str) -> bool {
        self.nodes
            .iter()
            .any(|known| known.id == node || known.inner.as_ref().is_some_and(|inner| inner.has_node(node)))
    }
}

/// A node of a [`GraphTopology`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopologyNode {
    /// Its name.
    pub id: String,
    /// Runs only when nothing else is due.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
    /// The graph inside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<GraphTopology>>,
}

/// An edge of a [`GraphTopology`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct TopologyEdge {
    /// Where it starts.
    pub source: String,
    /// Where it ends.
    pub target: String,
    /// Taken only when the branch says so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub conditional: bool,
}

/// A built graph. Everything below works with node numbers.
pub(crate) struct BuiltGraph<S: State> {
    pub nodes: Vec<BuiltNode<S>>,
    pub start: Vec<NodeIndex>,
    pub plan_topology: PlanTopology,
    pub fingerprint: String,
    /// The fingerprint of programs that looked at nodes and edges only. Runs that they accepted have it.
    pub topology_fingerprint: String,
    pub topology: GraphTopology,
}

/// One node of a built graph.
pub(crate) struct BuiltNode<S: State> {
    pub name: Arc<str>,
    pub run: Arc<dyn Node<S>>,
    pub edge: BuiltEdge<S>,
    /// The node that handles its errors.
    pub on_error: Option<NodeIndex>,
    pub retry: RetryPolicy,
    pub timeout: NodeTimeout,
    pub cache: Option<NodeCachePolicy<S>>,
    pub pause_before: bool,
    pub pause_after: bool,
}

pub(crate) enum BuiltEdge<S> {
    End,
    Then(Vec<NodeIndex>),
    Branch(CheckedBranch<S>),
    /// Its tasks choose themselves.
    Goto(DeclaredTargets),
}

/// Chooses by the state. `Err` names a target that was not declared.
pub(crate) type CheckedBranch<S> = Arc<dyn Fn(&S) -> Result<NextTasks, BranchError> + Send + Sync>;

/// Where a node may lead.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredTargets {
    pub nodes: Vec<(String, NodeIndex)>,
    pub may_end: bool,
}

impl DeclaredTargets {
    /// The tasks that were chosen. A choice without anything in it leads nowhere, so it needs the same leave.
    pub(crate) fn check(&self, chosen: Vec<DueTask>) -> Result<NextTasks, BranchError> {
        if chosen.is_empty() && !self.may_end {
            return Err(BranchError::Undeclared(END_NODE_ID.into()));
        }
        let known = |name: String| {
            let found = self.nodes.iter().find(|(declared, _)| *declared == name);
            found.map(|(_, ix)| *ix).ok_or(BranchError::Undeclared(name))
        };
        let task = |due| {
            Ok(match due {
                DueTask::Node(name) => PlannedTask::without_input(known(name)?),
                DueTask::Item { node, input } => PlannedTask { node: known(node)?, input: Some(input) },
            })
        };
        chosen.into_iter().map(task).collect()
    }
}

/// A branch led somewhere it cannot lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BranchError {
    Undeclared(String),
    /// It handed items to a join, which runs once, when all it waits for have come.
    ItemsToJoin(String),
    /// It could not choose.
    Invalid(String),
}

impl BranchError {
    /// The code of a run that fails by it.
    pub(crate) fn failure_code(&self) -> &'static str {
        match self {
            Self::Undeclared(_) | Self::ItemsToJoin(_) => failure::UNDECLARED_TARGET,
            Self::Invalid(_) => failure::NOT_STORABLE,
        }
    }

    /// What to say of the branch of `node`.
    pub(crate) fn error_message(&self, node: &str) -> String {
        match self {
            Self::Undeclared(to) => {
                format!("node `{node}` led to `{to}`, which it had not declared")
            }
            Self::ItemsToJoin(join) => format!(
                "node `{node}` handed items to join `{join}`, which runs once: put a node between them"
            ),
            Self::Invalid(why) => format!("node `{node}` could not choose where to go: {why}"),
        }
    }
}

impl<S: State> BuiltGraph<S> {
    pub(crate) fn node(&self, ix: NodeIndex) -> &BuiltNode<S> {
        &self.nodes[usize::from(ix)]
    }

    pub(crate) fn node_index(&self, name: &str) -> Option<NodeIndex> {
        self.nodes.iter().position(|node| &*node.name == name).and_then(|ix| NodeIndex::try_from(ix).ok())
    }

    /// Whether a run with this fingerprint was accepted by a graph of the same shape.
    pub(crate) fn has_fingerprint(&self, fingerprint: &str) -> bool {
        fingerprint == self.fingerprint || fingerprint == self.topology_fingerprint
    }

    /// Where this node leads once its tasks finished, by the state after the step and by what its tasks chose.
    pub(crate) fn next_tasks(
        &self,
        ix: NodeIndex,
        state: &S,
        chosen: Option<Vec<DueTask>>,
    ) -> Result<NextTasks, BranchError> {
        let next = match (&self.node(ix).edge, chosen) {
            (BuiltEdge::Goto(targets), chosen) => targets.check(chosen.unwrap_or_default())?,
            // A node that declares no targets to choose from has nothing to choose.
            (_, Some(chosen)) => DeclaredTargets::default().check(chosen)?,
            (BuiltEdge::End, None) => Vec::new(),
            (BuiltEdge::Then(targets), None) => {
                targets.iter().copied().map(PlannedTask::without_input).collect()
            }
            (BuiltEdge::Branch(choose), None) => choose(state)?,
        };
        let is_join = |ix: NodeIndex| !self.plan_topology.waits_for[usize::from(ix)].is_empty();
        match next.iter().find(|task| task.input.is_some() && is_join(task.node)) {
            Some(task) => Err(BranchError::ItemsToJoin(self.node(task.node).name.to_string())),
            None => Ok(next),
        }
    }
}

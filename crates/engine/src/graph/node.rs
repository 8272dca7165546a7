//! What a node is: an async function, or a struct with its parts as fields.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::error::NodeError;
use crate::graph::{GraphTopology, NodeCachePolicy, NodeTimeout, RetryPolicy, To};
use crate::node_context::Cx;
use crate::state::{Snap, State};

/// What running a node gives, in time.
pub type NodeFuture<S> = Pin<Box<dyn Future<Output = Result<<S as State>::Update, NodeError>> + Send>>;

/// One thing a graph does. Implement it for a struct, or use an async function.
///
/// A node may run again after a crash. What it did to the world through [`Cx`] is replayed then, not repeated; what
/// it did past it must be safe to repeat.
pub trait Node<S: State>: Send + Sync + 'static {
    /// Looks at the state and proposes a change.
    fn run(&self, state: Snap<S>, cx: Cx) -> NodeFuture<S>;

    /// The graph inside this node, for drawings.
    fn inner(&self) -> Option<GraphTopology> {
        None
    }

    /// The fingerprint of the graph inside this node.
    fn inner_fingerprint(&self) -> Option<String> {
        None
    }
}

/// Anything that can be a node: `async fn(Snap<S>)`, `async fn(Snap<S>, Cx)`, or a struct that is a [`Node`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node of a graph over `{S}`",
    note = "a node is `async fn(Snap<S>) -> Result<S::Update, E>` or `async fn(Snap<S>, Cx) -> Result<S::Update, E>` \
            whose future is `Send`, or a struct that implements `Node<S>`"
)]
pub trait IntoNode<S: State, Marker> {
    /// The node.
    fn into_node(self) -> Arc<dyn Node<S>>;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct PlainFnMarker;
#[doc(hidden)]
#[derive(Debug)]
pub struct FnWithCxMarker;
#[doc(hidden)]
#[derive(Debug)]
pub struct StructNodeMarker;

impl<S, F, Fut, E> IntoNode<S, (PlainFnMarker, E)> for F
where
    S: State,
    F: Fn(Snap<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S::Update, E>> + Send + 'static,
    E: Into<NodeError>,
{
    fn into_node(self) -> Arc<dyn Node<S>> {
        Arc::new(FnNode(move |state, _cx| {
            let running = self(state);
            Box::pin(async move { running.await.map_err(Into::into) }) as NodeFuture<S>
        }))
    }
}

impl<S, F, Fut, E> IntoNode<S, (FnWithCxMarker, E)> for F
where
    S: State,
    F: Fn(Snap<S>, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S::Update, E>> + Send + 'static,
    E: Into<NodeError>,
{
    fn into_node(self) -> Arc<dyn Node<S>> {
        Arc::new(FnNode(move |state, cx| {
            let running = self(state, cx);
            Box::pin(async move { running.await.map_err(Into::into) }) as NodeFuture<S>
        }))
    }
}

impl<S: State, T: Node<S>> IntoNode<S, StructNodeMarker> for T {
    fn into_node(self) -> Arc<dyn Node<S>> {
        Arc::new(self)
    }
}

struct FnNode<F>(F);

impl<S: State, F> Node<S> for FnNode<F>
where
    F: Fn(Snap<S>, Cx) -> NodeFuture<S> + Send + Sync + 'static,
{
    fn run(&self, state: Snap<S>, cx: Cx) -> NodeFuture<S> {
        (self.0)(state, cx)
    }
}

/// Begins the definition of a node; `then`, `then_all`, `when`, `branch`, `branch_or_end` or `end` finishes it.
pub fn node<S: State, M>(run: impl IntoNode<S, M>) -> NodeBuilder<S> {
    NodeBuilder {
        run: run.into_node(),
        retry: RetryPolicy::default(),
        timeout: NodeTimeout::default(),
        cache: None,
        defer: false,
        pause_before: false,
        pause_after: false,
    }
}

/// A node whose edges are still to be added.
pub struct NodeBuilder<S: State> {
    pub(crate) run: Arc<dyn Node<S>>,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeout: NodeTimeout,
    pub(crate) cache: Option<NodeCachePolicy<S>>,
    pub(crate) defer: bool,
    pub(crate) pause_before: bool,
    pub(crate) pause_after: bool,
}

/// A node with its way on.
pub struct NodeDefinition<S: State, N> {
    pub(crate) node: NodeBuilder<S>,
    pub(crate) edge: EdgeDefinition<S, N>,
    pub(crate) waits_for: Vec<N>,
    pub(crate) on_error: Option<N>,
}

/// What a branch was given to choose with.
pub(crate) type BranchChooser<S, N> = Arc<dyn Fn(&S) -> To<N> + Send + Sync>;

pub(crate) enum EdgeDefinition<S, N> {
    End,
    Then(Vec<N>),
    Branch { targets: Vec<N>, may_end: bool, choose: BranchChooser<S, N> },
    Goto { targets: Vec<N>, may_end: bool },
}

impl<S: State> NodeBuilder<S> {
    /// How often, and how patiently, a transient error is tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// How long it may take.
    pub fn timeout(mut self, timeout: NodeTimeout) -> Self {
        self.timeout = timeout;
        self
    }

    /// Uses an earlier result for the same key instead of running.
    pub fn cache(mut self, cache: NodeCachePolicy<S>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Runs only when nothing else is due.
    pub fn defer(mut self) -> Self {
        self.defer = true;
        self
    }

    /// Pauses the run before this node, for a person to look.
    pub fn pause_before(mut self) -> Self {
        self.pause_before = true;
        self
    }

    /// Pauses the run after this node, also when nothing comes after it.
    pub fn pause_after(mut self) -> Self {
        self.pause_after = true;
        self
    }

    /// Leads to one node.
    pub fn then<N>(self, next: impl Into<N>) -> NodeDefinition<S, N> {
        self.with_edge(EdgeDefinition::Then(vec![next.into()]))
    }

    /// Leads to several nodes, side by side.
    pub fn then_all<N>(self, next: impl IntoIterator<Item = impl Into<N>>) -> NodeDefinition<S, N> {
        self.with_edge(EdgeDefinition::Then(next.into_iter().map(Into::into).collect()))
    }

    /// Leads to `yes` when this holds of the state after the step, else to `no`: a branch with two ways, or a loop when
    /// one of them leads back.
    pub fn when<N: Clone + Send + Sync + 'static>(
        self,
        holds: impl Fn(&S) -> bool + Send + Sync + 'static,
        yes: impl Into<N>,
        no: impl Into<N>,
    ) -> NodeDefinition<S, N> {
        let (yes, no): (N, N) = (yes.into(), no.into());
        let targets = [yes.clone(), no.clone()];
        self.branch(targets, move |state| To::Node(if holds(state) { yes.clone() } else { no.clone() }))
    }

    /// Leads to one of `targets`, chosen by the state after the step. It is chosen once a step, however many tasks of
    /// the node ran side by side in it.
    ///
    /// The targets are declared so that the drawing is true; leading anywhere else fails the run and says so.
    pub fn branch<N>(
        self,
        targets: impl IntoIterator<Item = impl Into<N>>,
        choose: impl Fn(&S) -> To<N> + Send + Sync + 'static,
    ) -> NodeDefinition<S, N> {
        let targets = targets.into_iter().map(Into::into).collect();
        self.with_edge(EdgeDefinition::Branch { targets, may_end: false, choose: Arc::new(choose) })
    }

    /// As [`NodeBuilder::branch`], and [`To::End`] is allowed too.
    pub fn branch_or_end<N>(
        self,
        targets: impl IntoIterator<Item = impl Into<N>>,
        choose: impl Fn(&S) -> To<N> + Send + Sync + 'static,
    ) -> NodeDefinition<S, N> {
        let targets = targets.into_iter().map(Into::into).collect();
        self.with_edge(EdgeDefinition::Branch { targets, may_end: true, choose: Arc::new(choose) })
    }

    /// Leads to those of `targets` that the node itself chooses with [`Cx::goto`]. A node that ends without a choice fails
    /// the run.
    ///
    /// The targets are declared so that the drawing is true; going anywhere else fails the run and says so.
    pub fn goto<N>(self, targets: impl IntoIterator<Item = impl Into<N>>) -> NodeDefinition<S, N> {
        let targets = targets.into_iter().map(Into::into).collect();
        self.with_edge(EdgeDefinition::Goto { targets, may_end: false })
    }

    /// As [`NodeBuilder::goto`], and the run may also end here: by [`To::End`], or without a choice.
    pub fn goto_or_end<N>(self, targets: impl IntoIterator<Item = impl Into<N>>) -> NodeDefinition<S, N> {
        let targets = targets.into_iter().map(Into::into).collect();
        self.with_edge(EdgeDefinition::Goto { targets, may_end: true })
    }

    /// Leads nowhere.
    pub fn end<N>(self) -> NodeDefinition<S, N> {
        self.with_edge(EdgeDefinition::End)
    }

    fn with_edge<N>(self, way: EdgeDefinition<S, N>) -> NodeDefinition<S, N> {
        NodeDefinition { node: self, edge: way, waits_for: Vec::new(), on_error: None }
    }
}

impl<S: State, N> NodeDefinition<S, N> {
    /// Where the run goes on when this node fails for good, after its retries. The node that handles the error reads a
    /// [`NodeFailure`](crate::NodeFailure) with [`Cx::input`]; it must not be a join. The failed node changes nothing. A
    /// limit of the run, a cancel, or trouble with the store ends the run as without a handler.
    pub fn on_error(mut self, handler: impl Into<N>) -> Self {
        self.on_error = Some(handler.into());
        self
    }

    /// Makes this node a join: it runs when **all** of these have finished and led to it, however many steps apart.
    /// (Without it a node runs in the step after anyone led to it.)
    pub fn after_all(mut self, nodes: impl IntoIterator<Item = impl Into<N>>) -> Self {
        self.waits_for = nodes.into_iter().map(Into::into).collect();
        self
    }
}

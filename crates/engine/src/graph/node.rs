//! What a node is: an async function, or a struct with its parts as fields.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::cx::Cx;
use crate::error::NodeError;
use crate::graph::{Cache, Drawing, Retry, Timeout, To};
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
    fn inner(&self) -> Option<Drawing> {
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
pub struct Plain;
#[doc(hidden)]
#[derive(Debug)]
pub struct WithCx;
#[doc(hidden)]
#[derive(Debug)]
pub struct Struct;

impl<S, F, Fut, E> IntoNode<S, (Plain, E)> for F
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

impl<S, F, Fut, E> IntoNode<S, (WithCx, E)> for F
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

impl<S: State, T: Node<S>> IntoNode<S, Struct> for T {
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
pub fn node<S: State, M>(run: impl IntoNode<S, M>) -> Open<S> {
    Open {
        run: run.into_node(),
        retry: Retry::default(),
        timeout: Timeout::default(),
        cache: None,
        defer: false,
        pause_before: false,
        pause_after: false,
    }
}

/// A node whose way on is still to be said.
pub struct Open<S: State> {
    pub(crate) run: Arc<dyn Node<S>>,
    pub(crate) retry: Retry,
    pub(crate) timeout: Timeout,
    pub(crate) cache: Option<Cache<S>>,
    pub(crate) defer: bool,
    pub(crate) pause_before: bool,
    pub(crate) pause_after: bool,
}

/// A node with its way on.
pub struct Def<S: State, N> {
    pub(crate) open: Open<S>,
    pub(crate) way: Way<S, N>,
    pub(crate) waits_for: Vec<N>,
}

/// What a branch was given to choose with.
pub(crate) type Lead<S, N> = Arc<dyn Fn(&S) -> To<N> + Send + Sync>;

pub(crate) enum Way<S, N> {
    End,
    Then(Vec<N>),
    Branch { targets: Vec<N>, may_end: bool, choose: Lead<S, N> },
}

impl<S: State> Open<S> {
    /// How often, and how patiently, a transient error is tried again.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How long it may take.
    pub fn timeout(mut self, timeout: Timeout) -> Self {
        self.timeout = timeout;
        self
    }

    /// Uses an earlier result for the same key instead of running.
    pub fn cache(mut self, cache: Cache<S>) -> Self {
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
    pub fn then<N>(self, next: impl Into<N>) -> Def<S, N> {
        self.way(Way::Then(vec![next.into()]))
    }

    /// Leads to several nodes, side by side.
    pub fn then_all<N>(self, next: impl IntoIterator<Item = impl Into<N>>) -> Def<S, N> {
        self.way(Way::Then(next.into_iter().map(Into::into).collect()))
    }

    /// Leads to `yes` when this holds of the state after the step, else to `no`: a branch with two ways, or a loop when
    /// one of them leads back.
    pub fn when<N: Clone + Send + Sync + 'static>(
        self,
        holds: impl Fn(&S) -> bool + Send + Sync + 'static,
        yes: impl Into<N>,
        no: impl Into<N>,
    ) -> Def<S, N> {
        let (yes, no): (N, N) = (yes.into(), no.into());
        let targets = [yes.clone(), no.clone()];
        self.branch(targets, move |state| To::Node(if holds(state) { yes.clone() } else { no.clone() }))
    }

    /// Leads to one of `targets`, chosen by the state after the step. That is asked once a step, however many tasks of
    /// the node ran side by side in it.
    ///
    /// The targets are declared so that the drawing is true; leading anywhere else fails the run and says so.
    pub fn branch<N>(
        self,
        targets: impl IntoIterator<Item = impl Into<N>>,
        choose: impl Fn(&S) -> To<N> + Send + Sync + 'static,
    ) -> Def<S, N> {
        let targets = targets.into_iter().map(Into::into).collect();
        self.way(Way::Branch { targets, may_end: false, choose: Arc::new(choose) })
    }

    /// As [`Open::branch`], and [`To::End`] is allowed too.
    pub fn branch_or_end<N>(
        self,
        targets: impl IntoIterator<Item = impl Into<N>>,
        choose: impl Fn(&S) -> To<N> + Send + Sync + 'static,
    ) -> Def<S, N> {
        let targets = targets.into_iter().map(Into::into).collect();
        self.way(Way::Branch { targets, may_end: true, choose: Arc::new(choose) })
    }

    /// Leads nowhere.
    pub fn end<N>(self) -> Def<S, N> {
        self.way(Way::End)
    }

    fn way<N>(self, way: Way<S, N>) -> Def<S, N> {
        Def { open: self, way, waits_for: Vec::new() }
    }
}

impl<S: State, N> Def<S, N> {
    /// Makes this node a join: it runs when **all** of these have finished and led to it, however many steps apart.
    /// (Without it a node runs in the step after anyone led to it.)
    pub fn after_all(mut self, nodes: impl IntoIterator<Item = impl Into<N>>) -> Self {
        self.waits_for = nodes.into_iter().map(Into::into).collect();
        self
    }
}

//! A graph inside a node of another: as the node itself, or called by one. It has a state of its own, and its steps are
//! as durable as any other.

use std::sync::Arc;

use crate::drive::{DriveOutcome, HaltReason, ThreadState, drive_subgraph, run_nested};
use crate::error::{NodeError, NodeErrorKind};
use crate::failure::{LIMIT_EXCEEDED, PANIC};
use crate::graph::{BuiltGraph, Graph, GraphTopology, MAX_NESTED_GRAPHS, Node, NodeFuture};
use crate::node_context::Cx;
use crate::state::{Snap, State};
use crate::store::{Commit, Durability, StoreError};
use crate::task_path::TaskPath;

/// Runs `graph` as a node: `into` makes its input of the outer state, `from` makes the outer update of its result.
///
/// A crash inside goes on at the inner step it had come to; a question inside pauses the whole run. A node inside may end it
/// and choose where the outer graph goes on, with [`Cx::goto_parent`]; the outer node declares these targets with
/// [`goto`](crate::graph::NodeBuilder::goto). At most [`MAX_NESTED_GRAPHS`] may be inside each other.
pub fn subgraph<S: State, C: State>(
    graph: Graph<C>,
    into: impl Fn(&S) -> C::Update + Send + Sync + 'static,
    from: impl Fn(&C) -> S::Update + Send + Sync + 'static,
) -> impl Node<S> {
    try_subgraph(graph, move |outer| Ok(into(outer)), move |_, inner| Ok(from(inner)))
}

/// As [`subgraph`], with an input and a result that cannot always be made. `from` is also given the outer state as it was when
/// the node began.
pub fn try_subgraph<S: State, C: State>(
    graph: Graph<C>,
    into: impl Fn(&S) -> Result<C::Update, NodeError> + Send + Sync + 'static,
    from: impl Fn(&S, &C) -> Result<S::Update, NodeError> + Send + Sync + 'static,
) -> impl Node<S> {
    SubgraphNode { graph: graph.core, into, from: Arc::new(from) }
}

struct SubgraphNode<C: State, I, O> {
    graph: Arc<BuiltGraph<C>>,
    into: I,
    from: Arc<O>,
}

impl<S, C, I, O> Node<S> for SubgraphNode<C, I, O>
where
    S: State,
    C: State,
    I: Fn(&S) -> Result<C::Update, NodeError> + Send + Sync + 'static,
    O: Fn(&S, &C) -> Result<S::Update, NodeError> + Send + Sync + 'static,
{
    fn run(&self, state: Snap<S>, cx: Cx) -> NodeFuture<S> {
        let (graph, from, input) = (self.graph.clone(), self.from.clone(), (self.into)(&state));
        Box::pin(async move {
            let name = format!("{}/{}", cx.0.graph_name, cx.0.node).into();
            let path = cx.0.path.clone();
            let inner = run_inner_graph(&cx, graph, path, name, input?).await?;
            from(&state, &inner)
        })
    }

    fn inner(&self) -> Option<GraphTopology> {
        Some(self.graph.topology.clone())
    }

    fn inner_fingerprint(&self) -> Option<String> {
        Some(self.graph.fingerprint.clone())
    }
}

impl Cx {
    /// Runs a graph to its end and gives its state. Its steps are recorded: after a crash it goes on at the step it had
    /// come to, and a graph that ended is not run again. A question inside pauses the whole run. A node may run several,
    /// also side by side. At most [`MAX_NESTED_GRAPHS`] may be inside each other; one more ends the run as a limit does.
    ///
    /// Unlike a [`subgraph`] it is not part of the drawing, since which graphs a node runs is known only when it runs.
    pub fn run_graph<C: State>(
        &self,
        graph: &Graph<C>,
        input: C::Update,
    ) -> impl Future<Output = Result<C, NodeError>> + use<C> {
        let (cx, core, nth) = (self.clone(), graph.core.clone(), self.next_graph_number());
        async move {
            let path = cx.0.path.inside(0, nth);
            let name = format!("{}/{}#{nth}", cx.0.graph_name, cx.0.node).into();
            let inner = run_inner_graph(&cx, core, path, name, input).await?;
            Ok(Arc::unwrap_or_clone(inner))
        }
    }
}

/// Runs a graph in a task, as the graph at `path`.
async fn run_inner_graph<C: State>(
    cx: &Cx,
    graph: Arc<BuiltGraph<C>>,
    path: TaskPath,
    name: Arc<str>,
    input: C::Update,
) -> Result<Arc<C>, NodeError> {
    let (run, depth) = (cx.0.run.clone(), cx.0.depth + 1);
    if depth >= MAX_NESTED_GRAPHS {
        let reason = format!("at most {MAX_NESTED_GRAPHS} graphs may be inside each other");
        return Err(NodeError::with_kind(NodeErrorKind::Limit, reason));
    }
    let driving = drive_subgraph(graph, run.clone(), path, name, depth, input);
    let ended = run_nested(&run, driving)
        .await
        .map_err(|message| NodeError::permanent(format!("panicked: {message}")).with_code(PANIC))?;
    match ended {
        Ok((DriveOutcome::Finished, ThreadState { state, goto_parent, .. })) => {
            if let Some(goto) = goto_parent {
                cx.scratch().goto = Some(goto);
            }
            Ok(state)
        }
        Ok((DriveOutcome::Paused(asks), _)) => {
            cx.scratch().questions.extend(asks);
            Err(NodeError::with_kind(NodeErrorKind::Paused, "waits for an answer"))
        }
        Err(HaltReason::Failed { failure, records, usage, .. }) => {
            let durability = Durability::Later;
            let commit = Commit { records, usage, durability, ..Commit::default() };
            run.commit(commit).await.map_err(|error| NodeError::with_kind(NodeErrorKind::Store, error))?;
            let kind =
                if failure.code == LIMIT_EXCEEDED { NodeErrorKind::Limit } else { NodeErrorKind::Permanent };
            Err(NodeError::with_kind(kind, failure.message).with_code(failure.code))
        }
        Err(HaltReason::Cancelled) => Err(NodeError::with_kind(NodeErrorKind::Cancelled, "cancelled")),
        Err(HaltReason::Lost(error)) => Err(NodeError::with_kind(NodeErrorKind::Store, error)),
        Err(HaltReason::Rejected(message)) => {
            Err(NodeError::with_kind(NodeErrorKind::Store, StoreError::Rejected(message.into())))
        }
        Err(HaltReason::Released) => Err(NodeError::with_kind(NodeErrorKind::Cancelled, "let go")),
    }
}

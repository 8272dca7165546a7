//! A graph as a node of another. It has a state of its own, and its steps are as durable as any other.

use std::sync::Arc;

use crate::drive::{DriveOutcome, HaltReason, drive_subgraph};
use crate::error::{NodeError, NodeErrorKind};
use crate::failure::LIMIT_EXCEEDED;
use crate::graph::{BuiltGraph, Graph, GraphTopology, Node, NodeFuture};
use crate::node_context::Cx;
use crate::state::{Snap, State};
use crate::store::{Commit, StoreError};

/// Runs `graph` as a node: `into` makes its input of the outer state, `from` makes the outer update of its result.
///
/// A crash inside goes on at the inner step it had come to; a question inside pauses the whole run.
pub fn subgraph<S: State, C: State>(
    graph: Graph<C>,
    into: impl Fn(&S) -> C::Update + Send + Sync + 'static,
    from: impl Fn(&C) -> S::Update + Send + Sync + 'static,
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
    I: Fn(&S) -> C::Update + Send + Sync + 'static,
    O: Fn(&C) -> S::Update + Send + Sync + 'static,
{
    fn run(&self, state: Snap<S>, cx: Cx) -> NodeFuture<S> {
        let (graph, from, input) = (self.graph.clone(), self.from.clone(), (self.into)(&state));
        Box::pin(async move {
            let run = cx.0.run.clone();
            let name = format!("{}/{}", cx.0.graph_name, cx.0.node).into();
            match drive_subgraph(&graph, &run, &cx.0.path, name, input).await {
                Ok((DriveOutcome::Finished, inner)) => Ok(from(&inner)),
                Ok((DriveOutcome::Paused(asks), _)) => {
                    cx.scratch().questions.extend(asks);
                    Err(NodeError::with_kind(NodeErrorKind::Paused, "waits for an answer"))
                }
                Err(HaltReason::Failed { failure, records, usage, .. }) => {
                    let commit = Commit { records, usage, ..Commit::default() };
                    run.commit(commit)
                        .await
                        .map_err(|error| NodeError::with_kind(NodeErrorKind::Store, error))?;
                    let kind = if failure.code == LIMIT_EXCEEDED {
                        NodeErrorKind::Limit
                    } else {
                        NodeErrorKind::Permanent
                    };
                    Err(NodeError::with_kind(kind, failure.message).with_code(failure.code))
                }
                Err(HaltReason::Cancelled) => {
                    Err(NodeError::with_kind(NodeErrorKind::Cancelled, "cancelled"))
                }
                Err(HaltReason::Lost(error)) => Err(NodeError::with_kind(NodeErrorKind::Store, error)),
                Err(HaltReason::Rejected(message)) => {
                    Err(NodeError::with_kind(NodeErrorKind::Store, StoreError::Rejected(message.into())))
                }
                Err(HaltReason::Released) => Err(NodeError::with_kind(NodeErrorKind::Cancelled, "let go")),
            }
        })
    }

    fn inner(&self) -> Option<GraphTopology> {
        Some(self.graph.topology.clone())
    }

    fn inner_fingerprint(&self) -> Option<String> {
        Some(self.graph.fingerprint.clone())
    }
}

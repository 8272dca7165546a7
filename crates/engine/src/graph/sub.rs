//! A graph as a node of another. It has a state of its own, and its steps are as durable as any other.

use std::sync::Arc;

use crate::cx::Cx;
use crate::drive::{Ended, Halt, drive_inner};
use crate::error::{Kind, NodeError};
use crate::failure::LIMIT_EXCEEDED;
use crate::graph::{Core, Drawing, Graph, Node, NodeFuture};
use crate::state::{Snap, State};
use crate::store::Commit;

/// Runs `graph` as a node: `into` makes its input of the outer state, `from` makes the outer update of its result.
///
/// A crash inside goes on at the inner step it had come to; a question inside pauses the whole run.
pub fn subgraph<S: State, C: State>(
    graph: Graph<C>,
    into: impl Fn(&S) -> C::Update + Send + Sync + 'static,
    from: impl Fn(&C) -> S::Update + Send + Sync + 'static,
) -> impl Node<S> {
    Sub { graph: graph.core, into, from: Arc::new(from) }
}

struct Sub<C: State, I, O> {
    graph: Arc<Core<C>>,
    into: I,
    from: Arc<O>,
}

impl<S, C, I, O> Node<S> for Sub<C, I, O>
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
            match drive_inner(&graph, &run, &cx.0.path, input).await {
                Ok((Ended::Finished, inner)) => Ok(from(&inner)),
                Ok((Ended::Paused(asks), _)) => {
                    cx.scratch().asks.extend(asks);
                    Err(NodeError::of(Kind::Paused, "waits for an answer"))
                }
                Err(Halt::Failed { failure, records, usage, .. }) => {
                    let commit = Commit { records, usage, ..Commit::default() };
                    run.commit(commit).await.map_err(|error| NodeError::of(Kind::Store, error))?;
                    let kind = if failure.code == LIMIT_EXCEEDED { Kind::Limit } else { Kind::Permanent };
                    Err(NodeError::of(kind, failure.message).with_code(failure.code))
                }
                Err(Halt::Cancelled) => Err(NodeError::of(Kind::Cancelled, "cancelled")),
                Err(Halt::Lost(error)) => Err(NodeError::of(Kind::Store, error)),
                Err(Halt::Released) => Err(NodeError::of(Kind::Cancelled, "let go")),
            }
        })
    }

    fn inner(&self) -> Option<Drawing> {
        Some(self.graph.drawing.clone())
    }
}

//! What nodes of all agents do: ask a model, read a structured reply, run tools, find passages, sum up. The nodes
//! themselves belong to their agents; these are the verbs they are made of.

mod ask;
mod call_tools;
mod read_reply;
mod retrieve;
mod reword;
mod summarize;
mod work;

use std::sync::Arc;

use doran_engine::{Cx, NodeError, Snap, State};

pub use ask::Models;
pub(crate) use ask::{ReplyCache, TRIES, Words};
pub(crate) use call_tools::{Caller, call_tools};
pub(crate) use read_reply::ask_for;
pub(crate) use retrieve::{Finder, MOST_NEIGHBOURS, NEIGHBOURS, material, sorted, tenant, verified};
pub use reword::Rewriting;
pub(crate) use summarize::transcript;
pub(crate) use work::{Step, Work};

/// An async function with its agent's parts in front, as a node.
pub(crate) fn with<P, S, F, Fut>(
    parts: &Arc<P>,
    run: F,
) -> impl Fn(Snap<S>, Cx) -> Fut + Send + Sync + 'static
where
    P: Send + Sync + 'static,
    S: State,
    F: Fn(Arc<P>, Snap<S>, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S::Update, NodeError>> + Send + 'static,
{
    let parts = parts.clone();
    move |state, cx| run(parts.clone(), state, cx)
}

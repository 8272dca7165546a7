//! Answers from retrieved passages and from what was said before in the thread.
//!
//! ```text
//! start ─▶ retrieve ─▶ call_model ─▶ end
//! ```

use doran_engine::{BuildError, Graph, Nodes, node};

use super::Parts;
use crate::nodes::{CallModel, Retrieve};
use crate::state::ChatState;

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Retrieve,
    CallModel,
}

pub(super) fn graph(parts: &Parts) -> Result<Graph<ChatState>, BuildError> {
    Graph::define(|step| match step {
        Step::Retrieve => node(Retrieve { retriever: parts.retriever.clone() }).then(Step::CallModel),
        Step::CallModel => node(CallModel { model: parts.model.clone() }).timeout(CallModel::TIMEOUT).end(),
    })
    .start(Step::Retrieve)
    .build()
}

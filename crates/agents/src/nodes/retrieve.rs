//! Finds passages for the newest question.

use std::sync::Arc;

use doran_engine::{Cx, Node, NodeError, NodeFuture, Snap};
use doran_retrieval::{Hit, Question, RetrieveError, Retriever, Tenant};

use crate::state::{ChatState, ChatStateUpdate, Citation};

/// Passages given to the model. More of them rarely hold the answer and always cost tokens.
const LIMIT: usize = 4;

/// Finds passages for the newest question.
pub(crate) struct Retrieve {
    pub(crate) retriever: Arc<dyn Retriever>,
}

impl Node<ChatState> for Retrieve {
    fn run(&self, state: Snap<ChatState>, cx: Cx) -> NodeFuture<ChatState> {
        Box::pin(retrieve(self.retriever.clone(), state, cx))
    }
}

async fn retrieve(
    retriever: Arc<dyn Retriever>,
    state: Snap<ChatState>,
    cx: Cx,
) -> Result<ChatStateUpdate, NodeError> {
    let question = state.question().ok_or_else(|| NodeError::permanent("nothing was asked"))?.text();
    let question =
        Question::new(Tenant::new(cx.tenant().map_or("local", |tenant| tenant.as_str())), question, LIMIT);
    let search = async { retriever.retrieve(&question).await.map_err(sorted) };
    let hits: Vec<Hit> = cx.effect("retrieve", search).await?;
    Ok(ChatState::update().passages(Citation::numbered(hits)))
}

fn sorted(error: RetrieveError) -> NodeError {
    match error {
        RetrieveError::Unavailable { .. } => NodeError::transient(error),
        RetrieveError::Stale { .. } => NodeError::permanent(error),
    }
}

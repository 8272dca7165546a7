//! The ready-made agents. One file each; [`all`] is the list.

mod assistant;

use std::sync::Arc;

use doran_engine::{BuildError, Graph};
use doran_llm::ChatModel;
use doran_retrieval::Retriever;

use crate::state::ChatState;

/// What agents are made of.
#[derive(Clone)]
pub struct Parts {
    /// Who answers.
    pub model: Arc<dyn ChatModel>,
    /// Who finds passages.
    pub retriever: Arc<dyn Retriever>,
}

/// A named graph.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name in calls, and in what is stored of its runs.
    pub name: &'static str,
    /// What it does.
    pub en: &'static str,
    /// The same in Korean.
    pub ko: &'static str,
    /// What is run.
    pub graph: Graph<ChatState>,
}

/// Every agent.
pub fn all(parts: &Parts) -> Result<Vec<Agent>, BuildError> {
    Ok(vec![Agent {
        name: "assistant",
        en: "answers questions from documents and remembers the conversation",
        ko: "문서에서 답을 찾아 인용하고, 나눈 대화를 기억합니다",
        graph: assistant::graph(parts)?,
    }])
}

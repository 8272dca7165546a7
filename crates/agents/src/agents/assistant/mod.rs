//! Talks, uses tools, and answers from documents; remembers a long conversation by a window of summaries.
//!
//! ```text
//! start ─▶ router ─▶ rag ─▶ memory ─▶ agent ─▶ end
//!             └──────────────▲         ▲  │ asks for tools
//!                                      └─ tools
//! ```

mod nodes;
mod state;

use std::sync::Arc;

use doran_engine::{BuildError, Graph, Nodes, To, node};
use doran_retrieval::Index;

use super::{Agent, AgentError, Parts};
use crate::language::Language;
use crate::nodes::{CONTEXT_LENGTH, Finder, Models, NEIGHBOURS, with};
use crate::prompt::Prompts;
use crate::settings::AgentSettings;
use crate::tools::Toolbox;

pub use state::{AssistantState, AssistantStateUpdate, NextAction};

/// What the nodes of the assistant work with.
pub(crate) struct Assistant {
    models: Models,
    index: Arc<dyn Index>,
    finder: Finder,
    tools: Toolbox,
    prompts: Prompts,
    limits: Limits,
    language: Option<Language>,
    collection: Option<String>,
}

/// How far the assistant goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    /// More messages than this, the question included, are summed up.
    max_messages: usize,
    /// So many of the newest stay as they are.
    keep_recent: usize,
    /// Summaries kept.
    max_summaries: usize,
    /// Rounds of tools before an answer has to do without.
    max_tool_rounds: u32,
    /// Tokens of a summary.
    summary_tokens: u64,
    /// Tokens the model can take.
    context_length: usize,
    /// Passages given to the model. More of them rarely hold the answer and always cost tokens.
    passages: usize,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Router,
    Rag,
    Memory,
    Agent,
    Tools,
}

pub(crate) fn agent(name: &str, settings: &AgentSettings, parts: &Parts) -> Result<Agent, AgentError> {
    let prompts = settings.prompts(name)?;
    let limits = Limits {
        max_messages: settings.max_messages.unwrap_or(10),
        keep_recent: settings.keep_recent.unwrap_or(5),
        max_summaries: settings.max_summaries.unwrap_or(3),
        max_tool_rounds: settings.max_tool_rounds.unwrap_or(8),
        summary_tokens: settings.summary_tokens.unwrap_or(800),
        context_length: settings.context_length.unwrap_or(CONTEXT_LENGTH),
        passages: settings.passages.unwrap_or(4),
    };
    let own = Arc::new(Assistant {
        models: parts.models(),
        index: parts.index.clone(),
        finder: Finder::new(parts, settings.prompts(name)?, settings.neighbours.unwrap_or(NEIGHBOURS)),
        tools: parts.tools.clone(),
        prompts,
        limits,
        language: settings.language,
        collection: settings.collection.clone(),
    });
    let graph = graph(&own).map_err(|source| AgentError::Graph { agent: name.to_owned(), source })?;
    let models = own.models.clone();
    let explain = Arc::new(move |node: &str, state: &AssistantState| own.explain(node, state));
    Ok(Agent::of(name, &models, graph, explain).described(
        "이야기하고, 도구를 쓰고, 문서에서 찾아 인용하며, 긴 대화도 요약으로 기억합니다",
        "talks, uses tools, answers from documents with citations, and remembers long conversations",
        (
            &["안녕하세요", "123 * 456 계산해줘", "육아휴직은 얼마나 쓸 수 있나요?"],
            &["Hello", "What is 123 * 456?", "How many days of annual leave do I have?"],
        ),
    ))
}

fn graph(own: &Arc<Assistant>) -> Result<Graph<AssistantState>, BuildError> {
    Graph::define(|step| match step {
        Step::Router => node(with(own, nodes::router)).branch([Step::Rag, Step::Memory], after_router),
        Step::Rag => node(with(own, nodes::rag)).then(Step::Memory),
        Step::Memory => node(with(own, nodes::memory)).then(Step::Agent),
        Step::Agent => node(with(own, nodes::agent)).branch_or_end([Step::Tools], after_agent),
        Step::Tools => node(with(own, nodes::tools)).then(Step::Agent),
    })
    .start(Step::Router)
    .build()
}

fn after_router(state: &AssistantState) -> To<Step> {
    match state.next_action {
        Some(NextAction::Rag) => To::Node(Step::Rag),
        Some(NextAction::Agent | NextAction::Tools | NextAction::End) | None => To::Node(Step::Memory),
    }
}

fn after_agent(state: &AssistantState) -> To<Step> {
    match state.next_action {
        Some(NextAction::Tools) => To::Node(Step::Tools),
        Some(NextAction::Rag | NextAction::Agent | NextAction::End) | None => To::End,
    }
}

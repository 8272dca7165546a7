//! Talks, uses tools, and answers from documents; remembers a long conversation by a window of summaries.
//!
//! ```text
//! start ─▶ router ─▶ rag ─▶ memory ─▶ agent ─▶ end
//!             └──────────────▲         ▲  │ asks for tools
//!                                      └─ tools
//! ```

mod nodes;
mod prompts;
mod state;

use std::sync::Arc;

use doran_engine::{BuildError, Graph, Nodes, To, node};
use doran_retrieval::DocumentIndex;

use self::prompts::PROMPTS;
use super::definition::{AgentDefinition, DefaultTools, InBothLanguages};
use super::{Agent, AgentError, AgentParts};
use crate::nodes::{DEFAULT_CONTEXT_TOKENS, DEFAULT_NEIGHBOURS, DocumentFinder, Models, bind_parts};
use crate::prompt::Prompts;
use crate::settings::AgentSettings;
use crate::state::AnswerLanguage;
use crate::tools::Toolbox;

pub use nodes::AssistantRoute;
pub use state::{AssistantState, AssistantStateUpdate, NextAction};

/// What the nodes of the assistant work with.
pub(crate) struct AssistantAgent {
    models: Models,
    index: Arc<dyn DocumentIndex>,
    finder: DocumentFinder,
    tools: Toolbox,
    prompts: Prompts,
    limits: AssistantLimits,
    language: AnswerLanguage,
    collection: Option<String>,
}

/// How far the assistant goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AssistantLimits {
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
    passages: Option<usize>,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AssistantNode {
    Router,
    Rag,
    Memory,
    Agent,
    Tools,
}

/// The agent.
pub(super) const DEFINITION: AgentDefinition = AgentDefinition {
    name: "assistant",
    description: InBothLanguages {
        ko: "이야기하고, 도구를 쓰고, 문서에서 찾아 인용하며, 긴 대화도 요약으로 기억합니다",
        en: "talks, uses tools, answers from documents with citations, and remembers long conversations",
    },
    starters: InBothLanguages {
        ko: &["육아휴직은 얼마나 쓸 수 있나요?", "123 * 456 계산해줘", "지금 몇 시인가요?"],
        en: &["How many days of annual leave do I have?", "What is 123 * 456?", "What time is it now?"],
    },
    accepted_settings: &[
        "tools",
        "policies",
        "collection",
        "passages",
        "neighbours",
        "max_messages",
        "keep_recent",
        "max_summaries",
        "summary_tokens",
        "max_tool_rounds",
        "context_length",
    ],
    default_tools: DefaultTools::All,
    prompts: PROMPTS,
    build: build_agent,
};

fn build_agent(name: &str, settings: &AgentSettings, parts: &AgentParts) -> Result<Agent, AgentError> {
    let prompts = settings.prompts(name, DEFINITION.prompts)?;
    let limits = AssistantLimits {
        max_messages: settings.max_messages.unwrap_or(10),
        keep_recent: settings.keep_recent.unwrap_or(5),
        max_summaries: settings.max_summaries.unwrap_or(3),
        max_tool_rounds: settings.max_tool_rounds.unwrap_or(8),
        summary_tokens: settings.summary_tokens.unwrap_or(800),
        context_length: settings.context_length.unwrap_or(DEFAULT_CONTEXT_TOKENS),
        passages: settings.passages,
    };
    let own = Arc::new(AssistantAgent {
        models: parts.models(),
        index: parts.searched_index(),
        finder: DocumentFinder::new(
            parts,
            settings.prompts(name, DEFINITION.prompts)?,
            settings.neighbours.unwrap_or(DEFAULT_NEIGHBOURS),
        ),
        tools: parts.tools.clone(),
        prompts,
        limits,
        language: parts.answer_language(settings.language),
        collection: settings.collection.clone(),
    });
    let graph = build_graph(&own).map_err(|source| AgentError::Graph { agent: name.to_owned(), source })?;
    let models = own.models.clone();
    Ok(Agent::from_conversation(name, &models, &graph, own).with_turn_requests())
}

fn build_graph(own: &Arc<AssistantAgent>) -> Result<Graph<AssistantState>, BuildError> {
    Graph::define(|step| match step {
        AssistantNode::Router => node(bind_parts(own, nodes::router))
            .branch([AssistantNode::Rag, AssistantNode::Memory], after_router),
        AssistantNode::Rag => node(bind_parts(own, nodes::rag)).then(AssistantNode::Memory),
        AssistantNode::Memory => node(bind_parts(own, nodes::memory)).then(AssistantNode::Agent),
        AssistantNode::Agent => {
            node(bind_parts(own, nodes::agent)).branch_or_end([AssistantNode::Tools], after_agent)
        }
        AssistantNode::Tools => node(bind_parts(own, nodes::tools)).then(AssistantNode::Agent),
    })
    .start(AssistantNode::Router)
    .build()
}

fn after_router(state: &AssistantState) -> To<AssistantNode> {
    match state.next_action {
        Some(NextAction::Rag) => To::Node(AssistantNode::Rag),
        Some(NextAction::Agent | NextAction::Tools | NextAction::End) | None => {
            To::Node(AssistantNode::Memory)
        }
    }
}

fn after_agent(state: &AssistantState) -> To<AssistantNode> {
    match state.next_action {
        Some(NextAction::Tools) => To::Node(AssistantNode::Tools),
        Some(NextAction::Rag | NextAction::Agent | NextAction::End) | None => To::End,
    }
}

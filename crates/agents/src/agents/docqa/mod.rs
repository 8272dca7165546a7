//! Answers questions about documents and keeps a conversation of any length within the model's reach.
//!
//! ```text
//! start ─▶ classifyQuery ─▶ retrieveDocs ─▶ generateAnswer ─▶ end
//!               └──────────────────────────▲      │ too long
//!                                                 └─▶ summarizeHistory ─▶ end
//! ```

mod compression;
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

pub use compression::estimate_conversation_tokens;
pub use state::{CompressionResult, DocqaState, DocqaStateUpdate, QueryType};

/// What the nodes of the document chatbot work with.
pub(crate) struct DocqaAgent {
    models: Models,
    index: Arc<dyn DocumentIndex>,
    finder: DocumentFinder,
    /// Tools that settings give it; none by itself.
    tools: Toolbox,
    prompts: Prompts,
    limits: DocqaLimits,
    language: AnswerLanguage,
    collection: Option<String>,
}

/// How much there may be of anything.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DocqaLimits {
    /// Tokens the model can take.
    context_length: usize,
    /// The share of them from which the conversation is summed up.
    threshold: f64,
    /// The share that is left then, at most.
    target: f64,
    /// Messages that stay then.
    keep_recent: usize,
    /// Passages given to the model.
    passages: Option<usize>,
    /// Rounds of tools before an answer has to do without.
    max_tool_rounds: u32,
}

impl DocqaLimits {
    fn max_tokens_after_compression(&self) -> usize {
        fraction_of(self.context_length, self.target)
    }

    /// Whether a conversation is to be summed up.
    fn is_compression_due(&self, state: &DocqaState) -> bool {
        estimate_conversation_tokens(state.summary_text(), &state.messages)
            > fraction_of(self.context_length, self.threshold)
    }
}

/// A share of a whole, rounded down.
fn fraction_of(whole: usize, share: f64) -> usize {
    (whole as f64 * share).floor() as usize
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DocqaNode {
    #[node(name = "classifyQuery")]
    ClassifyQuery,
    #[node(name = "retrieveDocs")]
    RetrieveDocs,
    #[node(name = "generateAnswer")]
    GenerateAnswer,
    #[node(name = "summarizeHistory")]
    SummarizeHistory,
}

/// The agent.
pub(super) const DEFINITION: AgentDefinition = AgentDefinition {
    name: "docqa",
    description: InBothLanguages {
        ko: "문서에서 찾아 답하고, 대화가 길어지면 스스로 줄여 이어 갑니다",
        en: "answers from documents and condenses a long conversation by itself",
    },
    starters: InBothLanguages {
        ko: &["연차휴가는 며칠인가요?", "영수증은 언제까지 올려야 하나요?", "재택근무는 며칠까지 되나요?"],
        en: &[
            "How many days of annual leave do I have?",
            "When must receipts be uploaded?",
            "How many days a week may I work from home?",
        ],
    },
    accepted_settings: &[
        "collection",
        "passages",
        "neighbours",
        "keep_recent",
        "context_length",
        "compression_threshold",
        "compression_target",
        "tools",
        "policies",
        "max_tool_rounds",
    ],
    default_tools: DefaultTools::Own(&[]),
    prompts: PROMPTS,
    build: build_agent,
};

fn build_agent(name: &str, settings: &AgentSettings, parts: &AgentParts) -> Result<Agent, AgentError> {
    let limits = DocqaLimits {
        context_length: settings.context_length.unwrap_or(DEFAULT_CONTEXT_TOKENS),
        threshold: settings.compression_threshold.unwrap_or(0.7),
        target: settings.compression_target.unwrap_or(0.1),
        keep_recent: settings.keep_recent.unwrap_or(2),
        passages: settings.passages,
        max_tool_rounds: settings.max_tool_rounds.unwrap_or(8),
    };
    let own = Arc::new(DocqaAgent {
        models: parts.models(),
        index: parts.searched_index(),
        finder: DocumentFinder::new(
            parts,
            settings.prompts(name, DEFINITION.prompts)?,
            settings.neighbours.unwrap_or(DEFAULT_NEIGHBOURS),
        ),
        tools: parts.tools.clone(),
        prompts: settings.prompts(name, DEFINITION.prompts)?,
        limits,
        language: parts.answer_language(settings.language),
        collection: settings.collection.clone(),
    });
    let graph = build_graph(&own).map_err(|source| AgentError::Graph { agent: name.to_owned(), source })?;
    let models = own.models.clone();
    Ok(Agent::from_conversation(name, &models, &graph, own))
}

fn build_graph(own: &Arc<DocqaAgent>) -> Result<Graph<DocqaState>, BuildError> {
    let limits = own.limits;
    Graph::define(|step| match step {
        DocqaNode::ClassifyQuery => node(bind_parts(own, nodes::classify_query))
            .branch([DocqaNode::RetrieveDocs, DocqaNode::GenerateAnswer], route_by_query_type),
        DocqaNode::RetrieveDocs => {
            node(bind_parts(own, nodes::retrieve_docs)).then(DocqaNode::GenerateAnswer)
        }
        DocqaNode::GenerateAnswer => node(bind_parts(own, nodes::generate_answer))
            .branch_or_end([DocqaNode::SummarizeHistory], move |state| check_context_size(state, &limits)),
        DocqaNode::SummarizeHistory => node(bind_parts(own, nodes::summarize_history)).end(),
    })
    .start(DocqaNode::ClassifyQuery)
    .build()
}

fn route_by_query_type(state: &DocqaState) -> To<DocqaNode> {
    To::Node(match state.query_type {
        Some(QueryType::Question) => DocqaNode::RetrieveDocs,
        Some(QueryType::Summary | QueryType::Chitchat) | None => DocqaNode::GenerateAnswer,
    })
}

fn check_context_size(state: &DocqaState, limits: &DocqaLimits) -> To<DocqaNode> {
    if limits.is_compression_due(state) { To::Node(DocqaNode::SummarizeHistory) } else { To::End }
}

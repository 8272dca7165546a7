//! Answers questions about documents and keeps a conversation of any length within the model's reach.
//!
//! ```text
//! start ─▶ classifyQuery ─▶ retrieveDocs ─▶ generateAnswer ─▶ end
//!               └──────────────────────────▲      │ too long
//!                                                 └─▶ summarizeHistory ─▶ end
//! ```

mod fit;
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

pub use fit::{estimate, estimate_tokens};
pub use state::{Compressed, DocqaState, DocqaStateUpdate, QueryType};

/// What the nodes of the document chatbot work with.
pub(crate) struct Docqa {
    models: Models,
    index: Arc<dyn Index>,
    finder: Finder,
    /// Tools that settings give it; none by itself.
    tools: Toolbox,
    prompts: Prompts,
    limits: Limits,
    language: Option<Language>,
    collection: Option<String>,
}

/// How much there may be of anything.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limits {
    /// Tokens the model can take.
    context_length: usize,
    /// The share of them from which the conversation is summed up.
    threshold: f64,
    /// The share that is left then, at most.
    target: f64,
    /// Messages that stay then.
    keep_recent: usize,
    /// Passages given to the model.
    passages: usize,
    /// Rounds of tools before an answer has to do without.
    max_tool_rounds: u32,
}

impl Limits {
    fn most_tokens_after(&self) -> usize {
        share(self.context_length, self.target)
    }

    /// Whether a conversation is to be summed up.
    fn are_passed(&self, state: &DocqaState) -> bool {
        estimate(state.summed_up(), &state.messages) > share(self.context_length, self.threshold)
    }
}

/// A share of a whole, rounded down.
fn share(whole: usize, share: f64) -> usize {
    (whole as f64 * share).floor() as usize
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    #[node(name = "classifyQuery")]
    ClassifyQuery,
    #[node(name = "retrieveDocs")]
    RetrieveDocs,
    #[node(name = "generateAnswer")]
    GenerateAnswer,
    #[node(name = "summarizeHistory")]
    SummarizeHistory,
}

pub(crate) fn agent(name: &str, settings: &AgentSettings, parts: &Parts) -> Result<Agent, AgentError> {
    let limits = Limits {
        context_length: settings.context_length.unwrap_or(CONTEXT_LENGTH),
        threshold: settings.compression_threshold.unwrap_or(0.7),
        target: settings.compression_target.unwrap_or(0.1),
        keep_recent: settings.keep_recent.unwrap_or(2),
        passages: settings.passages.unwrap_or(4),
        max_tool_rounds: settings.max_tool_rounds.unwrap_or(8),
    };
    let own = Arc::new(Docqa {
        models: parts.models(),
        index: parts.index.clone(),
        finder: Finder::new(parts, settings.prompts(name)?, settings.neighbours.unwrap_or(NEIGHBOURS)),
        tools: parts.tools.clone(),
        prompts: settings.prompts(name)?,
        limits,
        language: settings.language,
        collection: settings.collection.clone(),
    });
    let graph = graph(&own).map_err(|source| AgentError::Graph { agent: name.to_owned(), source })?;
    let models = own.models.clone();
    let explain = Arc::new(move |node: &str, state: &DocqaState| own.explain(node, state));
    Ok(Agent::of(name, &models, graph, explain).described(
        "문서에서 찾아 답하고, 대화가 길어지면 스스로 줄여 이어 갑니다",
        "answers from documents and condenses a long conversation by itself",
        (
            &["연차휴가는 며칠인가요?", "영수증은 언제까지 올려야 하나요?", "재택근무는 며칠까지 되나요?"],
            &[
                "How many days of annual leave do I have?",
                "When must receipts be uploaded?",
                "How many days a week may I work from home?",
            ],
        ),
    ))
}

fn graph(own: &Arc<Docqa>) -> Result<Graph<DocqaState>, BuildError> {
    let limits = own.limits;
    Graph::define(|step| match step {
        Step::ClassifyQuery => node(with(own, nodes::classify_query))
            .branch([Step::RetrieveDocs, Step::GenerateAnswer], route_by_query_type),
        Step::RetrieveDocs => node(with(own, nodes::retrieve_docs)).then(Step::GenerateAnswer),
        Step::GenerateAnswer => node(with(own, nodes::generate_answer))
            .branch_or_end([Step::SummarizeHistory], move |state| check_context_size(state, &limits)),
        Step::SummarizeHistory => node(with(own, nodes::summarize_history)).end(),
    })
    .start(Step::ClassifyQuery)
    .build()
}

fn route_by_query_type(state: &DocqaState) -> To<Step> {
    To::Node(match state.query_type {
        Some(QueryType::Question) => Step::RetrieveDocs,
        Some(QueryType::Summary | QueryType::Chitchat) | None => Step::GenerateAnswer,
    })
}

fn check_context_size(state: &DocqaState, limits: &Limits) -> To<Step> {
    if limits.are_passed(state) { To::Node(Step::SummarizeHistory) } else { To::End }
}

//! Answers questions about contracts: plans what to look up, looks it up, judges whether that is enough, and answers
//! with the words of the contract.
//!
//! ```text
//! start ─▶ scope_validator ─▶ check_previous_context ─▶ planner ─▶ respond ─▶ end
//!               │ out of scope                           ▲ │ │        ▲
//!               ▼                                        │ │ └─▶ executor · parallel_executor
//!              end                                       │ ▼               │
//!                                                       evaluator ◀────────┘
//! ```

mod appendix;
mod call_planning;
mod compared_subject;
mod comparison_remark;
mod contract_documents;
mod findings;
mod nodes;
mod prompts;
mod quote;
mod requests;
mod scope;
mod standard_comparison;
mod standard_matching;
mod state;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use doran_engine::{BuildError, Graph, Nodes, To, node};
use doran_llm::ToolCall;
use doran_retrieval::DocumentIndex;

use self::prompts::PROMPTS;
use super::definition::{AgentDefinition, DefaultTools, InBothLanguages};
use super::{Agent, AgentError, AgentParts};
use crate::nodes::{DEFAULT_CONTEXT_TOKENS, Models, ReplyCache, bind_parts};
use crate::prompt::Prompts;
use crate::settings::AgentSettings;
use crate::state::AnswerLanguage;
use crate::tools::{ToolPolicy, ToolSideEffect, Toolbox, names};

pub use appendix::{ENGLISH_APPENDIX_WORDS, KOREAN_APPENDIX_WORDS};
pub use call_planning::is_of_standard;
pub use comparison_remark::ComparisonRemark;
pub use standard_comparison::StandardComparison;
pub use state::{ContractState, ContractStateUpdate, SufficiencyAction, SufficiencyDecision, ToolRun};

/// What the nodes of the contract agent work with.
pub(crate) struct ContractAgent {
    models: Models,
    index: Arc<dyn DocumentIndex>,
    /// Which of its own tools it uses, and the policies of those that are not simply allowed.
    own_tools: Vec<(&'static str, ToolPolicy)>,
    /// Tools of others that settings give it.
    extra_tools: Toolbox,
    prompts: Prompts,
    cache: Option<ReplyCache>,
    max_iterations: u32,
    /// Tokens the model can take.
    context_length: usize,
    language: AnswerLanguage,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ContractNode {
    ScopeValidator,
    CheckPreviousContext,
    Planner,
    Executor,
    ParallelExecutor,
    Evaluator,
    Respond,
}

/// The agent.
pub(super) const DEFINITION: AgentDefinition = AgentDefinition {
    name: "contract",
    description: InBothLanguages {
        ko: "계약서의 조항을 찾아 읽고, 표준계약서와 비교해 근거와 함께 답합니다",
        en: "finds and reads the articles of contracts, beside the standard contract, and answers with their words",
    },
    starters: InBothLanguages {
        ko: &[
            "계약을 해지하려면 며칠 전에 알려야 하나요?",
            "지체상금은 얼마인가요?",
            "손해배상은 어떻게 하나요?",
        ],
        en: &["When are invoices due?", "What is the notice period for termination?"],
    },
    accepted_settings: &[
        "tools",
        "policies",
        "max_iterations",
        "enable_cache",
        "cache_seconds",
        "context_length",
    ],
    default_tools: DefaultTools::Own(&names::CONTRACT_TOOLS),
    prompts: PROMPTS,
    build: build_agent,
};

fn build_agent(name: &str, settings: &AgentSettings, parts: &AgentParts) -> Result<Agent, AgentError> {
    let lifetime = Duration::from_secs(settings.cache_seconds.unwrap_or(3600));
    let own = Arc::new(ContractAgent {
        models: parts.models(),
        index: parts.searched_index(),
        own_tools: own_tool_policies(settings),
        extra_tools: parts.tools.clone(),
        prompts: settings.prompts(name, DEFINITION.prompts)?,
        cache: settings.enable_cache.unwrap_or(true).then(|| ReplyCache::new(lifetime)),
        max_iterations: settings.max_iterations.unwrap_or(4),
        context_length: settings.context_length.unwrap_or(DEFAULT_CONTEXT_TOKENS),
        language: parts.answer_language(settings.language),
    });
    let graph = build_graph(&own).map_err(|source| AgentError::Graph { agent: name.to_owned(), source })?;
    let models = own.models.clone();
    Ok(Agent::from_conversation(name, &models, &graph, own))
}

/// Its own tools, as settings leave them.
fn own_tool_policies(settings: &AgentSettings) -> Vec<(&'static str, ToolPolicy)> {
    let used = |name: &&str| settings.tools.as_ref().is_none_or(|tools| tools.iter().any(|one| one == name));
    let policy = |name: &str| settings.policies.get(name).copied().unwrap_or(ToolPolicy::Allow);
    names::CONTRACT_TOOLS.into_iter().filter(used).map(|name| (name, policy(name))).collect()
}

fn build_graph(own: &Arc<ContractAgent>) -> Result<Graph<ContractState>, BuildError> {
    Graph::define(|step| match step {
        ContractNode::ScopeValidator => node(bind_parts(own, nodes::scope_validator)).branch_or_end(
            [ContractNode::CheckPreviousContext],
            |state: &ContractState| match state.final_response {
                Some(_) => To::End,
                None => To::Node(ContractNode::CheckPreviousContext),
            },
        ),
        ContractNode::CheckPreviousContext => {
            node(bind_parts(own, nodes::check_previous_context)).then(ContractNode::Planner)
        }
        ContractNode::Planner => node(bind_parts(own, nodes::planner)).branch(
            [
                ContractNode::Respond,
                ContractNode::Evaluator,
                ContractNode::ParallelExecutor,
                ContractNode::Executor,
            ],
            {
                let own = own.clone();
                move |state: &ContractState| should_execute_tools(state, &own.extra_tools)
            },
        ),
        ContractNode::Executor => node(bind_parts(own, nodes::executor)).then(ContractNode::Evaluator),
        ContractNode::ParallelExecutor => {
            node(bind_parts(own, nodes::parallel_executor)).then(ContractNode::Evaluator)
        }
        ContractNode::Evaluator => node(bind_parts(own, nodes::evaluator))
            .branch([ContractNode::Planner, ContractNode::Respond], should_continue),
        ContractNode::Respond => node(bind_parts(own, nodes::respond)).end(),
    })
    .start(ContractNode::ScopeValidator)
    .build()
}

/// `no_tools`, `skip_to_evaluator`, `execute_parallel` or `execute_sequential`: two or more calls run side by side where
/// none of them changes anything, as its own never do.
fn should_execute_tools(state: &ContractState, extra_tools: &Toolbox) -> To<ContractNode> {
    let changes_something = |call: &ToolCall| {
        extra_tools.get(&call.name).is_some_and(|tool| tool.info().side_effect != ToolSideEffect::ReadOnly)
    };
    To::Node(match state.next_tools.len() {
        0 if state.all_tools_skipped => ContractNode::Evaluator,
        0 => ContractNode::Respond,
        1 => ContractNode::Executor,
        _ if state.next_tools.iter().any(changes_something) => ContractNode::Executor,
        _ => ContractNode::ParallelExecutor,
    })
}

fn should_continue(state: &ContractState) -> To<ContractNode> {
    To::Node(match state.decision_log.last().map(|decision| decision.action) {
        Some(SufficiencyAction::Continue) => ContractNode::Planner,
        Some(SufficiencyAction::Finish) | None => ContractNode::Respond,
    })
}

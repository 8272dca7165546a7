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

mod alike;
mod appendix;
mod beside;
mod desk;
mod findings;
mod nodes;
mod plan;
mod quote;
mod requests;
mod scope;
mod state;
mod tools;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use doran_engine::{BuildError, Graph, Nodes, To, node};
use doran_retrieval::Index;

use super::{Agent, AgentError, Parts};
use crate::language::Language;
use crate::nodes::{CONTEXT_LENGTH, Models, ReplyCache, with};
use crate::prompt::Prompts;
use crate::settings::AgentSettings;
use crate::tools::{Class, Policy, Toolbox};

pub(crate) use tools::TOOLS;

pub use state::{Action, ContractState, ContractStateUpdate, Decision, ToolRun};

/// What the nodes of the contract agent work with.
pub(crate) struct Contracts {
    models: Models,
    index: Arc<dyn Index>,
    /// Which of its own tools it uses, and the policies of those that are not simply allowed.
    own: Vec<(&'static str, Policy)>,
    /// Tools of others that settings give it.
    more: Toolbox,
    prompts: Prompts,
    cache: Option<ReplyCache>,
    max_iterations: u32,
    /// Tokens the model can take.
    context_length: usize,
    language: Option<Language>,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    ScopeValidator,
    CheckPreviousContext,
    Planner,
    Executor,
    ParallelExecutor,
    Evaluator,
    Respond,
}

pub(crate) fn agent(name: &str, settings: &AgentSettings, parts: &Parts) -> Result<Agent, AgentError> {
    let lifetime = Duration::from_secs(settings.cache_seconds.unwrap_or(3600));
    let own = Arc::new(Contracts {
        models: parts.models(),
        index: parts.index.clone(),
        own: own_tools(settings),
        more: parts.tools.clone(),
        prompts: settings.prompts(name)?,
        cache: settings.enable_cache.unwrap_or(true).then(|| ReplyCache::new(lifetime)),
        max_iterations: settings.max_iterations.unwrap_or(4),
        context_length: settings.context_length.unwrap_or(CONTEXT_LENGTH),
        language: settings.language,
    });
    let graph = graph(&own).map_err(|source| AgentError::Graph { agent: name.to_owned(), source })?;
    let models = own.models.clone();
    let explain = Arc::new(move |node: &str, state: &ContractState| own.explain(node, state));
    Ok(Agent::of(name, &models, graph, explain).described(
        "계약서의 조항을 찾아 읽고, 표준계약서와 견주어 근거와 함께 답합니다",
        "finds and reads the articles of contracts, beside the standard contract, and answers with their words",
        (
            &["계약을 해지하려면 며칠 전에 알려야 하나요?", "지체상금은 얼마인가요?", "손해배상은 어떻게 하나요?"],
            &["When are invoices due?", "What is the notice period for termination?"],
        ),
    ))
}

/// Its own tools, as settings leave them.
fn own_tools(settings: &AgentSettings) -> Vec<(&'static str, Policy)> {
    let used = |name: &&str| settings.tools.as_ref().is_none_or(|tools| tools.iter().any(|one| one == name));
    let policy = |name: &str| settings.policies.get(name).copied().unwrap_or(Policy::Allow);
    TOOLS.into_iter().filter(used).map(|name| (name, policy(name))).collect()
}

fn graph(own: &Arc<Contracts>) -> Result<Graph<ContractState>, BuildError> {
    let changing = own.more.list().filter(|(about, _)| about.class != Class::ReadOnly);
    let changing: Arc<BTreeSet<String>> =
        Arc::new(changing.map(|(about, _)| about.spec.name.clone()).collect());
    Graph::define(|step| match step {
        Step::ScopeValidator => node(with(own, nodes::scope_validator)).branch_or_end(
            [Step::CheckPreviousContext],
            |state: &ContractState| match state.in_scope {
                Some(false) => To::End,
                Some(true) | None => To::Node(Step::CheckPreviousContext),
            },
        ),
        Step::CheckPreviousContext => node(with(own, nodes::check_previous_context)).then(Step::Planner),
        Step::Planner => node(with(own, nodes::planner)).branch(
            [Step::Respond, Step::Evaluator, Step::ParallelExecutor, Step::Executor],
            {
                let changing = changing.clone();
                move |state: &ContractState| should_execute_tools(state, &changing)
            },
        ),
        Step::Executor => node(with(own, nodes::executor)).then(Step::Evaluator),
        Step::ParallelExecutor => node(with(own, nodes::parallel_executor)).then(Step::Evaluator),
        Step::Evaluator => {
            node(with(own, nodes::evaluator)).branch([Step::Planner, Step::Respond], should_continue)
        }
        Step::Respond => node(with(own, nodes::respond)).end(),
    })
    .start(Step::ScopeValidator)
    .build()
}

/// `no_tools`, `skip_to_evaluator`, `execute_parallel` or `execute_sequential`: two or more calls run side by side where
/// none of them changes anything, as its own never do.
fn should_execute_tools(state: &ContractState, changing: &BTreeSet<String>) -> To<Step> {
    To::Node(match state.next_tools.len() {
        0 if state.all_tools_skipped => Step::Evaluator,
        0 => Step::Respond,
        1 => Step::Executor,
        _ if state.next_tools.iter().any(|call| changing.contains(&call.name)) => Step::Executor,
        _ => Step::ParallelExecutor,
    })
}

fn should_continue(state: &ContractState) -> To<Step> {
    To::Node(match state.decision_log.last().map(|decision| decision.action) {
        Some(Action::Continue) => Step::Planner,
        Some(Action::Finish) | None => Step::Respond,
    })
}

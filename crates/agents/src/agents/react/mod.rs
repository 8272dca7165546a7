//! Thinks and acts in turns: asks a model, runs the tools it wants, and asks again, until there is an answer.
//!
//! ```text
//! start ─▶ input ─▶ llm ─▶ conditional ─▶ response ─▶ end
//!            │       ▲        │      │
//!            │       └─ tool ◀┘      ▼
//!            └───────────────────▶ error ─▶ end
//! ```

mod nodes;
mod state;
mod words;

use std::sync::Arc;

use doran_engine::{BuildError, Graph, Nodes, To, node};

use super::{Agent, AgentError, Parts};
use crate::language::Language;
use crate::nodes::{CONTEXT_LENGTH, Models, with};
use crate::prompt::Prompts;
use crate::settings::AgentSettings;
use crate::tools::Toolbox;

pub use state::{ErrorCode, ReactState, ReactStateUpdate};

/// What the nodes of the react agent work with.
pub(crate) struct React {
    models: Models,
    tools: Toolbox,
    prompts: Prompts,
    max_iterations: u32,
    /// Tokens the model can take.
    context_length: usize,
    language: Option<Language>,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Input,
    Llm,
    Conditional,
    Tool,
    Response,
    Error,
}

pub(crate) fn agent(name: &str, settings: &AgentSettings, parts: &Parts) -> Result<Agent, AgentError> {
    let own = Arc::new(React {
        models: parts.models(),
        tools: parts.tools.clone(),
        prompts: settings.prompts(name)?,
        max_iterations: settings.max_iterations.unwrap_or(5),
        context_length: settings.context_length.unwrap_or(CONTEXT_LENGTH),
        language: settings.language,
    });
    let graph = graph(&own).map_err(|source| AgentError::Graph { agent: name.to_owned(), source })?;
    let models = own.models.clone();
    let explain = Arc::new(move |node: &str, state: &ReactState| own.explain(node, state));
    Ok(Agent::of(name, &models, graph, explain).described(
        "생각하고 도구를 쓰기를 되풀이해 답합니다",
        "thinks and uses tools in turns until it has an answer",
        (&["123 * 456 계산해줘", "지금 몇 시야?"], &["What is 123 * 456?", "What time is it in Seoul?"]),
    ))
}

fn graph(own: &Arc<React>) -> Result<Graph<ReactState>, BuildError> {
    let most = own.max_iterations;
    Graph::define(|step| match step {
        Step::Input => node(with(own, nodes::input))
            .branch([Step::Llm, Step::Error], |state: &ReactState| {
                To::Node(if state.error_code.is_some() { Step::Error } else { Step::Llm })
            }),
        Step::Llm => node(with(own, nodes::llm)).then(Step::Conditional),
        Step::Conditional => node(with(own, nodes::conditional))
            .branch([Step::Tool, Step::Response, Step::Error], move |state: &ReactState| {
                To::Node(decide(state, most))
            }),
        Step::Tool => node(with(own, nodes::tool)).then(Step::Llm),
        Step::Response => node(with(own, nodes::response)).end(),
        Step::Error => node(with(own, nodes::error)).end(),
    })
    .start(Step::Input)
    .build()
}

/// Where a turn goes after the model: an error and too many rounds beat everything, tools beat an answer.
fn decide(state: &ReactState, max_iterations: u32) -> Step {
    if state.error_code.is_some() || state.iteration_count > max_iterations {
        return Step::Error;
    }
    if state.tool_execution_requests.is_empty() { Step::Response } else { Step::Tool }
}

//! Thinks and acts in turns: asks a model, runs the tools it wants, and asks again, until there is an answer.
//!
//! ```text
//! start ─▶ input ─▶ llm ─▶ conditional ─▶ response ─▶ end
//!            │       ▲        │      │
//!            │       └─ tool ◀┘      ▼
//!            └───────────────────▶ error ─▶ end
//! ```

mod error_messages;
mod nodes;
mod prompts;
mod state;

use std::sync::Arc;

use doran_engine::{BuildError, Graph, Nodes, To, node};

use self::prompts::PROMPTS;
use super::definition::{AgentDefinition, DefaultTools, InBothLanguages};
use super::{Agent, AgentError, AgentParts};
use crate::nodes::{DEFAULT_CONTEXT_TOKENS, Models, bind_parts};
use crate::prompt::Prompts;
use crate::settings::AgentSettings;
use crate::state::AnswerLanguage;
use crate::tools::Toolbox;

pub use state::{ReactErrorCode, ReactState, ReactStateUpdate};

/// What the nodes of the react agent work with.
pub(crate) struct ReactAgent {
    models: Models,
    tools: Toolbox,
    prompts: Prompts,
    max_iterations: u32,
    /// Tokens the model can take.
    context_length: usize,
    language: AnswerLanguage,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ReactNode {
    Input,
    Llm,
    Conditional,
    Tool,
    Response,
    Error,
}

/// The agent.
pub(super) const DEFINITION: AgentDefinition = AgentDefinition {
    name: "react",
    description: InBothLanguages {
        ko: "필요한 도구를 반복해서 사용하며 답합니다",
        en: "thinks and uses tools in turns until it has an answer",
    },
    starters: InBothLanguages {
        ko: &["123 * 456 계산해줘", "지금 몇 시야?"],
        en: &["What is 123 * 456?", "What time is it in Seoul?"],
    },
    accepted_settings: &["tools", "policies", "max_iterations", "context_length"],
    default_tools: DefaultTools::All,
    prompts: PROMPTS,
    build: build_agent,
};

fn build_agent(name: &str, settings: &AgentSettings, parts: &AgentParts) -> Result<Agent, AgentError> {
    let own = Arc::new(ReactAgent {
        models: parts.models(),
        tools: parts.tools.clone(),
        prompts: settings.prompts(name, DEFINITION.prompts)?,
        max_iterations: settings.max_iterations.unwrap_or(5),
        context_length: settings.context_length.unwrap_or(DEFAULT_CONTEXT_TOKENS),
        language: parts.answer_language(settings.language),
    });
    let graph = build_graph(&own).map_err(|source| AgentError::Graph { agent: name.to_owned(), source })?;
    let models = own.models.clone();
    Ok(Agent::from_conversation(name, &models, &graph, own).with_turn_requests())
}

fn build_graph(own: &Arc<ReactAgent>) -> Result<Graph<ReactState>, BuildError> {
    let max_iterations = own.max_iterations;
    Graph::define(|step| match step {
        ReactNode::Input => node(bind_parts(own, nodes::input)).branch(
            [ReactNode::Llm, ReactNode::Error],
            |state: &ReactState| {
                To::Node(if state.error_code.is_some() { ReactNode::Error } else { ReactNode::Llm })
            },
        ),
        ReactNode::Llm => node(bind_parts(own, nodes::llm)).then(ReactNode::Conditional),
        ReactNode::Conditional => node(bind_parts(own, nodes::conditional))
            .branch([ReactNode::Tool, ReactNode::Response, ReactNode::Error], move |state: &ReactState| {
                To::Node(next_node(state, max_iterations))
            }),
        ReactNode::Tool => node(bind_parts(own, nodes::tool)).then(ReactNode::Llm),
        ReactNode::Response => node(bind_parts(own, nodes::response)).end(),
        ReactNode::Error => node(bind_parts(own, nodes::error)).end(),
    })
    .start(ReactNode::Input)
    .build()
}

/// Where a turn goes after the model: an error and too many rounds beat everything, tools beat an answer.
fn next_node(state: &ReactState, max_iterations: u32) -> ReactNode {
    if state.error_code.is_some() || state.iteration_count > max_iterations {
        return ReactNode::Error;
    }
    if state.tool_execution_requests.is_empty() { ReactNode::Response } else { ReactNode::Tool }
}

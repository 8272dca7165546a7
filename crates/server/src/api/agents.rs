//! Agents and the models behind them.

use doran_agents::{ModelInfo, StarterQuestions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentInfo {
    /// The name of the agent in requests.
    pub id: String,
    /// What the agent does, in English.
    pub en: String,
    /// What the agent does, in Korean.
    pub ko: String,
    /// Questions to start with.
    pub starters: StarterQuestions,
    /// The model that answers; none for a graph of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelInfo>,
    /// Whether it is talked to with messages. Any other graph takes `input` and is shown as state and steps.
    pub chat: bool,
    /// Whether menus leave it out: an agent that others run as a subgraph. It can be asked by its name all the same.
    pub hidden: bool,
    /// The most tokens that the agent sends to a model in one request.
    pub context_tokens: usize,
}

impl AgentInfo {
    /// An agent of this process.
    pub fn from_agent(agent: &doran_agents::Agent) -> Self {
        Self {
            id: agent.name.clone(),
            en: agent.en.clone(),
            ko: agent.ko.clone(),
            starters: agent.starters.clone(),
            model: agent.model(),
            chat: agent.is_chat(),
            hidden: agent.is_hidden,
            context_tokens: agent.context_tokens(),
        }
    }
}

/// The agents of a server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The agents.
    pub agents: Vec<AgentInfo>,
}

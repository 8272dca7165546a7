//! Agents and the models behind them.

use doran_agents::{ModelInfo, StarterQuestions};
use schemars::JsonSchema;
use serde::Serialize;

/// An agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AgentInfo {
    /// The name of the agent in requests.
    pub id: String,
    /// What the agent does, in English.
    pub en: String,
    /// What the agent does, in Korean.
    pub ko: String,
    /// Questions to start with.
    pub starters: StarterQuestions,
    /// The model that answers.
    pub model: ModelInfo,
}

impl AgentInfo {
    pub(crate) fn from_agent(agent: &doran_agents::Agent) -> Self {
        Self {
            id: agent.name.clone(),
            en: agent.en.clone(),
            ko: agent.ko.clone(),
            starters: agent.starters.clone(),
            model: agent.model.clone(),
        }
    }
}

/// The agents of a server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AgentList {
    /// The agents.
    pub agents: Vec<AgentInfo>,
}

/// The models in use.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModelList {
    /// The model of each agent.
    pub active: Vec<AgentModel>,
}

/// The model of one agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AgentModel {
    /// The name of the agent.
    pub agent: String,
    /// The model that answers.
    pub model: ModelInfo,
}

//! Models: those that answer, those that chats can choose, and what can be added.

use doran_agents::ModelInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The models of a server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ModelList {
    /// The model of each agent.
    pub active: Vec<AgentModel>,
    /// The models that a chat can choose. The default comes first.
    pub options: Vec<ModelOption>,
    /// Whether the caller may add models, store keys and choose the default.
    pub may_change: bool,
}

/// The model of one agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentModel {
    /// The name of the agent.
    pub agent: String,
    /// The model that answers.
    pub model: ModelInfo,
}

/// A model that a chat can choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelOption {
    /// The name of the model in requests.
    pub id: String,
    /// The model.
    pub model: ModelInfo,
    /// Whether agents use it when a chat chooses none.
    pub is_default: bool,
    /// Whether it was added on this server and can be removed.
    pub added: bool,
}

/// Where models can be had.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModelOffers {
    /// Model servers that were found on this machine.
    pub servers: Vec<OfferedModelServer>,
    /// Providers that need a key.
    pub providers: Vec<OfferedModelProvider>,
}

/// A model server on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OfferedModelServer {
    /// The name of the server program.
    pub name: String,
    /// The address.
    pub base_url: String,
    /// The ids of its models, to be used in requests.
    pub models: Vec<String>,
    /// Whether it is still loading its model.
    pub loading: bool,
}

/// A provider of models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OfferedModelProvider {
    /// The id of the provider: the part of a model id before the colon.
    pub id: String,
    /// The name of the provider.
    pub name: String,
    /// The environment variable for its key.
    pub variable: String,
    /// Where its key comes from.
    pub key: ModelKeyOrigin,
}

/// Where the key of a provider comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelKeyOrigin {
    /// There is none.
    None,
    /// From the environment of the server.
    Environment,
    /// It was stored on this server, encrypted.
    Stored,
}

/// The models of a provider.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProviderModelList {
    /// The ids of the models, to be used in requests.
    pub models: Vec<String>,
}

/// What a model answered to a short message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelTest {
    /// Whether it answered.
    pub ok: bool,
    /// The time it took, in milliseconds.
    pub ms: u64,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ModelTestError>,
}

/// Why a model did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelTestError {
    /// The code, for programs.
    pub code: String,
    /// What the provider said.
    pub message: String,
    /// What to do, in English.
    pub en: String,
    /// What to do, in Korean.
    pub ko: String,
}

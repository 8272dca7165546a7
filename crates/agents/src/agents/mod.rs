//! The ready-made agents. One folder each; [`crate::build_agents`] makes them from settings and parts.

pub mod assistant;
pub mod contract;
pub mod docqa;
#[cfg(test)]
mod other_field_names_tests;
pub mod react;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::graph::GraphTopology;
use doran_engine::{BuildError, EngineError, Graph, Runtime, State};
use doran_llm::{ChatModel, ChatRequest, ModelInfo, ModelRetryPolicy};
use doran_retrieval::DocumentIndex;
use serde_json::Value;

use crate::described::{AgentDescription, AgentDescriptionError};
use crate::nodes::{Models, QueryRewriting};
use crate::prompt::PromptError;
use crate::settings::{AgentSettings, PersistenceMode};
use crate::tools::Toolbox;

pub use turn::{AgentTurn, AskOptions, EarlierMessage, TurnUpdate};

/// What agents are made of.
#[derive(Clone)]
pub struct AgentParts {
    /// Who answers.
    pub model: Arc<dyn ChatModel>,
    /// Who decides quickly; the same where there is only one.
    pub small: Arc<dyn ChatModel>,
    /// Where documents are.
    pub index: Arc<dyn DocumentIndex>,
    /// What models may have done for them.
    pub tools: Toolbox,
    /// Further models, by the names that settings call them.
    pub named: BTreeMap<String, Arc<dyn ChatModel>>,
    /// Whether questions are put in other words before they are looked for.
    pub rewriting: QueryRewriting,
    /// How often a request to a model that failed is sent again.
    pub retries: ModelRetryPolicy,
}

impl AgentParts {
    /// Parts with one model and no tools.
    pub fn new(model: Arc<dyn ChatModel>, index: Arc<dyn DocumentIndex>) -> Self {
        Self {
            small: model.clone(),
            model,
            index,
            tools: Toolbox::new(),
            named: BTreeMap::new(),
            rewriting: QueryRewriting::Off,
            retries: ModelRetryPolicy::default(),
        }
    }

    pub(crate) fn models(&self) -> Models {
        Models { main: self.model.clone(), small: self.small.clone(), retries: self.retries }
    }
}

/// Why an agent cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its graph is wrong.
    #[error("agent `{agent}`: {source}")]
    Graph {
        /// The agent.
        agent: String,
        /// Why.
        source: BuildError,
    },
    /// There is no such agent to change, or to make another one after.
    #[error("there is no agent `{name}`; there are: {known}")]
    Unknown {
        /// What was named.
        name: String,
        /// What there is.
        known: String,
    },
    /// A setting of it is wrong.
    #[error("agent `{agent}`, setting `{setting}`: {reason}")]
    Setting {
        /// The agent.
        agent: String,
        /// The setting.
        setting: String,
        /// Why.
        reason: String,
    },
    /// Its description is wrong.
    #[error(transparent)]
    Described(#[from] AgentDescriptionError),
    /// A prompt of it is wrong.
    #[error("agent `{agent}`: {source}")]
    Prompt {
        /// The agent.
        agent: String,
        /// Why.
        source: PromptError,
    },
}

/// A named graph with its prompts and tools, whatever its state is. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    /// Its name in calls, and in what is stored of its runs.
    pub name: String,
    /// The ready-made agent it is, or is made after; `described` for one that a file describes.
    pub kind: String,
    /// What it does.
    pub en: String,
    /// The same in Korean.
    pub ko: String,
    /// Questions to begin with.
    pub starters: StarterQuestions,
    /// Who answers.
    pub model: ModelInfo,
    /// Where its threads are to be kept.
    pub persistence: PersistenceMode,
    /// The file, when they are to be kept in one of their own.
    pub checkpoint_db_path: Option<String>,
    /// What settings say about it, for a ready-made one.
    pub(crate) settings: Option<Arc<AgentSettings>>,
    /// What it was made of, for one that a file describes.
    pub(crate) description: Option<Arc<AgentDescription>>,
    graph: Arc<dyn ErasedAgentGraph>,
}

/// Questions to begin with, in both languages.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct StarterQuestions {
    /// In Korean.
    pub ko: Vec<String>,
    /// In English.
    pub en: Vec<String>,
}

/// The state of a conversation with one kind of agent.
pub(crate) trait ConversationState: State {
    /// What a person typed, as the input of a run. It starts a new turn.
    fn new_turn_update(message: &str, options: &AskOptions) -> Self::Update;

    /// What a person sees of the newest turn.
    fn turn(&self) -> AgentTurn;

    /// What an update says about the turn. Whoever shows a run goes by this, never by names of fields; only `messages`
    /// has to have that name, because the history of a thread is read without its agent.
    fn turn_update(update: Self::Update) -> TurnUpdate;
}

/// What a node would ask a model, for people who look into a step.
pub(crate) type ExplainNodeFn<S> = Arc<dyn Fn(&str, &S) -> Vec<ChatRequest> + Send + Sync>;

trait ErasedAgentGraph: Send + Sync {
    fn register(&self, name: &str, runtime: &Runtime) -> Result<(), EngineError>;
    fn topology(&self) -> GraphTopology;
    fn input(&self, message: &str, options: &AskOptions) -> Value;
    fn read_turn(&self, state: &Value) -> Result<AgentTurn, serde_json::Error>;
    fn read_update(&self, update: &str) -> Result<TurnUpdate, serde_json::Error>;
    fn explain(&self, node: &str, state: &Value) -> Result<Vec<ChatRequest>, serde_json::Error>;
}

struct TypedAgentGraph<S: State> {
    graph: Graph<S>,
    explain: ExplainNodeFn<S>,
}

impl<S: ConversationState> ErasedAgentGraph for TypedAgentGraph<S> {
    fn register(&self, name: &str, runtime: &Runtime) -> Result<(), EngineError> {
        runtime.register_graph(name, &self.graph).map(drop)
    }

    fn topology(&self) -> GraphTopology {
        self.graph.topology()
    }

    #[allow(clippy::expect_used, reason = "updates have text keys only, so writing one cannot fail")]
    fn input(&self, message: &str, options: &AskOptions) -> Value {
        serde_json::to_value(S::new_turn_update(message, options)).expect("an update is JSON")
    }

    fn read_turn(&self, state: &Value) -> Result<AgentTurn, serde_json::Error> {
        Ok(serde_json::from_value::<S>(state.clone())?.turn())
    }

    fn read_update(&self, update: &str) -> Result<TurnUpdate, serde_json::Error> {
        Ok(S::turn_update(doran_engine::stored_json::from_str(update)?))
    }

    fn explain(&self, node: &str, state: &Value) -> Result<Vec<ChatRequest>, serde_json::Error> {
        Ok((self.explain)(node, &serde_json::from_value::<S>(state.clone())?))
    }
}

impl Agent {
    pub(crate) fn from_graph<S: ConversationState>(
        name: &str,
        model: &Models,
        graph: Graph<S>,
        explain: ExplainNodeFn<S>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            kind: "described".to_owned(),
            en: String::new(),
            ko: String::new(),
            starters: StarterQuestions::default(),
            model: model.main.info(),
            persistence: PersistenceMode::default(),
            checkpoint_db_path: None,
            settings: None,
            description: None,
            graph: Arc::new(TypedAgentGraph { graph, explain }),
        }
    }

    fn with_descriptions(mut self, ko: &str, en: &str, starters: (&[&str], &[&str])) -> Self {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        self.ko = ko.to_owned();
        self.en = en.to_owned();
        self.starters = StarterQuestions { ko: owned(starters.0), en: owned(starters.1) };
        self
    }

    /// Makes a runtime know it, by its name.
    pub fn register(&self, runtime: &Runtime) -> Result<(), EngineError> {
        self.graph.register(&self.name, runtime)
    }

    /// Its nodes and edges.
    pub fn topology(&self) -> GraphTopology {
        self.graph.topology()
    }

    /// What a person typed, as the input of a run.
    pub fn input(&self, message: &str, options: &AskOptions) -> Value {
        self.graph.input(message, options)
    }

    /// What a person sees of the newest turn, by the state after it.
    pub fn read_turn(&self, state: &Value) -> Result<AgentTurn, serde_json::Error> {
        self.graph.read_turn(state)
    }

    /// What an update of one of its nodes, as it stands in the log, says about the turn.
    pub fn read_update(&self, update: &str) -> Result<TurnUpdate, serde_json::Error> {
        self.graph.read_update(update)
    }

    /// What `node` would ask models in this state, for people who look into a step. Nothing is asked.
    pub fn explain(&self, node: &str, state: &Value) -> Result<Vec<ChatRequest>, serde_json::Error> {
        self.graph.explain(node, state)
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Agent({})", self.name)
    }
}

/// Every agent, as it is without settings.
pub fn build_default_agents(parts: &AgentParts) -> Result<Vec<Agent>, AgentError> {
    crate::settings::build_agents(&crate::settings::Settings::default(), parts)
}

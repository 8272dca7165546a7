//! The ready-made agents, one folder each. To add one, write its folder with a `DEFINITION` and list it in
//! `DEFINITIONS` here. [`crate::build_agents`] makes agents from settings and parts.

pub mod assistant;
pub mod contract;
mod definition;
pub mod docqa;
mod message_list;
#[cfg(test)]
mod other_field_names_tests;
pub mod react;
mod turn;
mod turn_request;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use doran_engine::graph::GraphTopology;
use doran_engine::{BuildError, EngineError, Graph, NodeError, Runtime, State, ThreadKey};
use doran_llm::{ChatModel, ChatRequest, ModelInfo, ModelRetryPolicy};
use doran_retrieval::{DocumentIndex, DocumentTenant, Language};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::attachments::{AttachmentIndex, attachment_tenant};
use crate::described::{AgentDescription, AgentDescriptionError, HttpCallParts, value_schemas};
use crate::nodes::{DEFAULT_CONTEXT_TOKENS, ModelCatalog, Models, PassageReranking, QueryRewriting};
use crate::prompt::PromptError;
use crate::settings::AgentSettings;
use crate::state::AnswerLanguage;
use crate::tools::Toolbox;

pub(crate) use definition::{AgentDefinition, DefaultTools};
pub use message_list::MESSAGES_FIELD;
use message_list::MessageListConversation;
pub use turn::{AgentTurn, AskOptions, EarlierMessage, QuestionLabel, TurnUpdate};
pub use turn_request::{ClientTool, TurnRequest};

/// Every ready-made agent, in the order in which they are listed.
pub(crate) const DEFINITIONS: &[AgentDefinition] =
    &[assistant::DEFINITION, contract::DEFINITION, react::DEFINITION, docqa::DEFINITION];

/// What agents are made of.
#[derive(Clone)]
pub struct AgentParts {
    /// Who answers.
    pub model: Arc<dyn ChatModel>,
    /// Who decides quickly; the same where there is only one.
    pub small: Arc<dyn ChatModel>,
    /// Where documents are.
    pub index: Arc<dyn DocumentIndex>,
    /// The tools that models may call.
    pub tools: Toolbox,
    /// Further models, by the names that settings call them.
    pub named: BTreeMap<String, Arc<dyn ChatModel>>,
    /// Whether questions are put in other words before they are looked for.
    pub rewriting: QueryRewriting,
    /// Whether the best passages of a search are put in a new order.
    pub reranking: PassageReranking,
    /// How often a request to a model that failed is sent again.
    pub retries: ModelRetryPolicy,
    /// Models that a turn may choose instead.
    pub catalog: Option<Arc<dyn ModelCatalog>>,
    /// What HTTP calls of described agents need.
    pub http: HttpCallParts,
    /// The language of the program, in which words of no language are answered.
    pub language: Language,
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
            reranking: PassageReranking::Off,
            retries: ModelRetryPolicy::default(),
            catalog: None,
            http: HttpCallParts::default(),
            language: Language::default(),
        }
    }

    /// Where a conversation looks documents up: in the library, and in what is attached to it.
    pub(crate) fn searched_index(&self) -> Arc<dyn DocumentIndex> {
        Arc::new(AttachmentIndex::new(self.index.clone()))
    }

    /// How an agent with this setting finds out in which language it answers.
    pub(crate) fn answer_language(&self, set: Option<Language>) -> AnswerLanguage {
        AnswerLanguage { set, of_program: self.language }
    }

    pub(crate) fn models(&self) -> Models {
        Models {
            main: self.model.clone(),
            small: self.small.clone(),
            retries: self.retries,
            catalog: self.catalog.clone(),
        }
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

/// A named graph, whatever its state is, with what it takes to serve it. Cheap to clone.
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
    /// Whether menus leave it out. It can be asked by its name all the same.
    pub is_hidden: bool,
    /// Whether a question may come with a [`TurnRequest`], with pictures, and with earlier tool calls.
    pub accepts_turn_requests: bool,
    /// What settings say about it, for a ready-made one.
    pub(crate) settings: Option<Arc<AgentSettings>>,
    /// What it was made of, for one that a file describes.
    pub(crate) description: Option<Arc<AgentDescription>>,
    /// Who answers; none for a graph of somebody's own.
    model: Option<Arc<dyn ChatModel>>,
    graph: Arc<dyn ServedGraph>,
    /// How it is talked to; none for a graph that is no chat.
    conversation: Option<Arc<dyn Conversation>>,
    /// Fields of its state that are lists of messages.
    message_fields: Arc<[String]>,
    /// Fields of its state whose changes are changes to items.
    item_fields: Arc<[String]>,
    /// What may come with a question.
    question_fields: Arc<[String]>,
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
pub(crate) trait ConversationState: State + JsonSchema {
    /// What a person typed, as the input of a run. It starts a new turn.
    fn new_turn_update(message: &str, options: &AskOptions) -> Self::Update;

    /// What a person sees of the newest turn.
    fn turn(&self) -> AgentTurn;

    /// What an update says about the turn. A client shows a run by this, never by names of fields; only `messages`
    /// has to have that name, because the history of a thread is read without its agent.
    fn turn_update(update: Self::Update) -> TurnUpdate;
}

/// Builds what nodes ask models again, for people who look into a step.
#[async_trait]
pub(crate) trait RequestExplainer<S>: Send + Sync {
    /// What a node would ask in this state, with the documents of this tenant as they are now.
    async fn explain(
        &self,
        node: &str,
        state: &S,
        tenant: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError>;
}

/// A graph whose state type is forgotten.
trait ServedGraph: Send + Sync {
    fn register(&self, name: &str, runtime: &Runtime) -> Result<(), EngineError>;
    fn replace(&self, name: &str, runtime: &Runtime);
    fn topology(&self) -> GraphTopology;
    fn state_schema(&self) -> Value;
    fn reducers(&self) -> &'static [(&'static str, &'static str)];
    fn check_state(&self, state: &Value) -> Result<(), serde_json::Error>;
}

/// How a graph is talked to.
#[async_trait]
pub(crate) trait Conversation: Send + Sync {
    /// What a person typed, as the input of a run.
    fn input(&self, message: &str, options: &AskOptions) -> Value;
    /// What a person sees of the newest turn.
    fn read_turn(&self, state: &Value) -> Result<AgentTurn, serde_json::Error>;
    /// What an update says about the turn.
    fn read_update(&self, update: &str) -> Result<TurnUpdate, serde_json::Error>;
    /// What a node would ask models.
    async fn explain(
        &self,
        node: &str,
        state: &Value,
        tenant: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError>;
}

impl<S: State + JsonSchema> ServedGraph for Graph<S> {
    fn register(&self, name: &str, runtime: &Runtime) -> Result<(), EngineError> {
        runtime.register_graph(name, self).map(drop)
    }

    fn replace(&self, name: &str, runtime: &Runtime) {
        drop(runtime.replace_graph(name, self));
    }

    fn topology(&self) -> GraphTopology {
        Graph::topology(self)
    }

    fn state_schema(&self) -> Value {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        settings.into_generator().into_root_schema_for::<S>().to_value()
    }

    fn reducers(&self) -> &'static [(&'static str, &'static str)] {
        S::reducers()
    }

    fn check_state(&self, state: &Value) -> Result<(), serde_json::Error> {
        S::deserialize(state).map(drop)
    }
}

/// A conversation that a state knows how to have.
struct StateConversation<S: State> {
    explainer: Arc<dyn RequestExplainer<S>>,
}

#[async_trait]
impl<S: ConversationState> Conversation for StateConversation<S> {
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

    async fn explain(
        &self,
        node: &str,
        state: &Value,
        tenant: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        let state = serde_json::from_value::<S>(state.clone()).map_err(NodeError::permanent)?;
        self.explainer.explain(node, &state, tenant).await
    }
}

impl Agent {
    /// Any graph, served under this name. A graph whose state has `messages`, a list of [`Message`](doran_llm::Message)
    /// by their ids ([`ByMessageId`](crate::ByMessageId)), is a chat; any other is shown as state and steps.
    pub fn from_graph<S: State + JsonSchema>(name: &str, graph: &Graph<S>) -> Self {
        let graph = Arc::new(graph.clone());
        let schema = graph.state_schema();
        let message_fields = message_list::message_fields(&schema);
        let item_fields = message_list::item_fields(&schema, graph.reducers());
        let question_fields = message_list::question_fields(&schema);
        let is_chat = message_fields.iter().any(|field| field == MESSAGES_FIELD);
        let chat = || -> Arc<dyn Conversation> { Arc::new(MessageListConversation) };
        Self {
            name: name.to_owned(),
            kind: "graph".to_owned(),
            en: String::new(),
            ko: String::new(),
            starters: StarterQuestions::default(),
            is_hidden: false,
            accepts_turn_requests: false,
            settings: None,
            description: None,
            model: None,
            graph,
            conversation: is_chat.then(chat),
            message_fields: message_fields.into(),
            item_fields: item_fields.into(),
            question_fields: question_fields.into(),
        }
    }

    /// A graph whose state knows how to have a conversation.
    pub(crate) fn from_conversation<S: ConversationState>(
        name: &str,
        model: &Models,
        graph: &Graph<S>,
        explainer: Arc<dyn RequestExplainer<S>>,
    ) -> Self {
        Self {
            kind: "described".to_owned(),
            model: Some(model.main.clone()),
            conversation: Some(Arc::new(StateConversation { explainer })),
            ..Self::from_graph(name, graph)
        }
    }

    /// With descriptions of what it does, in Korean and in English.
    #[must_use]
    pub fn with_description(self, ko: &str, en: &str) -> Self {
        Self { ko: ko.to_owned(), en: en.to_owned(), ..self }
    }

    /// An agent whose questions may come with a [`TurnRequest`].
    pub(crate) fn with_turn_requests(self) -> Self {
        Self { accepts_turn_requests: true, ..self }
    }

    /// With the kind, the descriptions and the first questions of a ready-made agent.
    pub(crate) fn with_definition(mut self, definition: &AgentDefinition) -> Self {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        self.kind = definition.name.to_owned();
        self.ko = definition.description.ko.to_owned();
        self.en = definition.description.en.to_owned();
        self.starters =
            StarterQuestions { ko: owned(definition.starters.ko), en: owned(definition.starters.en) };
        self
    }

    /// Who answers; none for a graph of somebody's own. It changes where another model is chosen while the program runs.
    pub fn model(&self) -> Option<ModelInfo> {
        self.model.as_ref().map(|model| model.info())
    }

    /// The most tokens that it sends to a model in one request.
    pub fn context_tokens(&self) -> usize {
        self.settings.as_ref().and_then(|settings| settings.context_length).unwrap_or(DEFAULT_CONTEXT_TOKENS)
    }

    /// Makes a runtime know it, by its name.
    pub fn register(&self, runtime: &Runtime) -> Result<(), EngineError> {
        self.graph.register(&self.name, runtime)
    }

    /// Makes a runtime know it, in place of an agent that has its name.
    pub fn replace_in(&self, runtime: &Runtime) {
        self.graph.replace(&self.name, runtime);
    }

    /// Its nodes and edges.
    pub fn topology(&self) -> GraphTopology {
        self.graph.topology()
    }

    /// The JSON Schema of its state. That of a described agent names the values that its nodes store.
    pub fn state_schema(&self) -> Value {
        let mut schema = self.graph.state_schema();
        if let Some(description) = self.description.as_ref().filter(|it| it.agent.is_none()) {
            schema["properties"]["values"]["properties"] = value_schemas(description);
        }
        schema
    }

    /// The names of the texts that may come with a question, beside its messages: those that its state has a place for.
    pub fn question_fields(&self) -> &[String] {
        &self.question_fields
    }

    /// The fields of its state that are lists of messages.
    pub fn message_fields(&self) -> &[String] {
        &self.message_fields
    }

    /// The fields of its state that take changes to items by their ids: an update has `put` and `remove` there.
    pub fn item_fields(&self) -> &[String] {
        &self.item_fields
    }

    /// Whether this JSON is a state of it.
    pub(crate) fn check_state(&self, state: &Value) -> Result<(), serde_json::Error> {
        self.graph.check_state(state)
    }

    /// Whether it is talked to with messages.
    pub fn is_chat(&self) -> bool {
        self.conversation.is_some()
    }

    /// Whether a run of it begins a turn that its state has to prepare, so that messages alone are no input of it.
    pub fn prepares_turns(&self) -> bool {
        self.kind != "graph"
    }

    /// What a person typed, as the input of a run. A graph that is no chat takes no message: nothing of it is changed.
    pub fn input(&self, message: &str, options: &AskOptions) -> Value {
        self.conversation.as_ref().map_or_else(|| Value::Object(Map::new()), |it| it.input(message, options))
    }

    /// What a person sees of the newest turn, by the state after it.
    pub fn read_turn(&self, state: &Value) -> Result<AgentTurn, serde_json::Error> {
        match &self.conversation {
            Some(conversation) => conversation.read_turn(state),
            None => self.check_state(state).map(|()| AgentTurn::default()),
        }
    }

    /// What an update of one of its nodes, as it stands in the log, says about the turn.
    pub fn read_update(&self, update: &str) -> Result<TurnUpdate, serde_json::Error> {
        self.conversation.as_ref().map_or_else(|| Ok(TurnUpdate::default()), |it| it.read_update(update))
    }

    /// What `node` would ask models in this state of a thread, for people who look into a step. Nothing is asked. What is
    /// told of the documents is what there is now. An error is why the node cannot make its requests.
    pub async fn explain(
        &self,
        node: &str,
        state: &Value,
        thread: &ThreadKey,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        let Some(conversation) = &self.conversation else { return Ok(Vec::new()) };
        let tenant = attachment_tenant(thread.tenant.as_str(), thread.thread.as_str());
        conversation.explain(node, state, &tenant).await
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Agent({})", self.name)
    }
}

/// Whether an agent that comes with the program has this name.
pub fn is_built_in_agent(name: &str) -> bool {
    DEFINITIONS.iter().any(|definition| definition.name == name)
}

/// Every agent, as it is without settings.
pub fn build_default_agents(parts: &AgentParts) -> Result<Vec<Agent>, AgentError> {
    crate::settings::build_agents(&crate::settings::Settings::default(), parts)
}

//! Settings of agents, and how agents are built from them.
//!
//! `[agents.NAME]` changes a ready-made agent; `[assistants.NAME]` adds another one made after it, under its own name;
//! `[[graphs]]` adds one whose graph is written there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use doran_llm::ChatModel;
use doran_retrieval::Language;
use serde::{Deserialize, Serialize};

use crate::agent_name::{AGENT_NAME_RULE, is_agent_name, shown_agent_name};
use crate::agents::{Agent, AgentDefinition, AgentError, AgentParts, DEFINITIONS, DefaultTools};
use crate::described::{self, AgentDescription};
use crate::nodes::MAX_NEIGHBOURS;
use crate::prompt::{PromptTemplate, Prompts};
use crate::tools::names::REMEMBER;
use crate::tools::{ToolPolicy, Toolbox};

/// All settings of agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Changes to the ready-made agents, by name.
    pub agents: BTreeMap<String, AgentSettings>,
    /// Further agents, by name.
    pub assistants: BTreeMap<String, AgentSettings>,
    /// Agents without code, each a graph of ready nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<AgentDescription>,
}

/// Settings of one agent. What is not set stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSettings {
    /// For a further agent: the one it is made after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it does, in Korean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ko: Option<String>,
    /// What it does, in English.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub en: Option<String>,
    /// The language it always answers in. Without it, that of the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Prompts written anew: `assistant` in both languages or `ko/assistant` in one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, String>,
    /// The model that writes what a person reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that decides quickly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_model: Option<String>,
    /// The tools it may use. Without it, all there are; for `contract` its own four, for `docqa` none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Policies of tools, by name: `allow`, `ask` or `deny`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, ToolPolicy>,
    /// The collection of documents it looks in. Without it, in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Passages given to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passages: Option<usize>,
    /// Passages before and after a good hit that come along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<usize>,
    /// Messages beyond which older ones are summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<usize>,
    /// Messages that stay as they are then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_recent: Option<usize>,
    /// Summaries kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_summaries: Option<usize>,
    /// Tokens of a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_tokens: Option<u64>,
    /// Rounds of tools in one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_rounds: Option<u32>,
    /// Rounds of thinking in one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// Tokens the model can take.
    #[serde(alias = "contextLength", skip_serializing_if = "Option::is_none")]
    pub context_length: Option<usize>,
    /// The share of them from which the conversation is summed up.
    #[serde(alias = "compressionThreshold", skip_serializing_if = "Option::is_none")]
    pub compression_threshold: Option<f64>,
    /// The share that is left then.
    #[serde(alias = "compressionTarget", skip_serializing_if = "Option::is_none")]
    pub compression_target: Option<f64>,
    /// Whether replies at temperature 0 are used again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_cache: Option<bool>,
    /// For how many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_seconds: Option<u64>,
    /// Where its threads are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence_mode: Option<PersistenceMode>,
    /// The SQLite file of its threads. It means `persistence_mode = "file"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_db_path: Option<String>,
}

/// Where threads of an agent are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PersistenceMode {
    /// With those of all agents.
    #[default]
    Store,
    /// In the process, until it ends.
    Memory,
    /// In a file of their own, at `checkpoint_db_path`.
    #[serde(alias = "sqlite")]
    File,
}

/// Where threads of an agent are stored, with the file if it has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadStorage<'a> {
    /// In the store of all agents.
    Shared,
    /// In memory, until the process ends.
    Memory,
    /// In a SQLite file at this path.
    File(&'a str),
}

/// What every agent takes.
const COMMON_SETTINGS: &[&str] =
    &["ko", "en", "language", "prompts", "model", "small_model", "persistence_mode", "checkpoint_db_path"];

impl Settings {
    /// Names of all models that the settings use.
    pub fn model_names(&self) -> BTreeSet<&str> {
        let all = self.agents.values().chain(self.assistants.values());
        all.flat_map(|one| [&one.model, &one.small_model]).flatten().map(String::as_str).collect()
    }

    /// The settings of every agent that has some, by its name.
    pub fn by_agent(&self) -> impl Iterator<Item = (&str, &AgentSettings)> {
        let named = self.agents.iter().chain(&self.assistants).map(|(name, one)| (name, Some(one)));
        let described = self.graphs.iter().map(|graph| (&graph.name, graph.settings.as_ref()));
        named.chain(described).filter_map(|(name, one)| Some((name.as_str(), one?)))
    }

    /// Names of all tools that are named, each after the agent that names it.
    pub fn tool_names(&self) -> BTreeSet<(&str, &str)> {
        let further = self.agents.iter().chain(&self.assistants).map(|(agent, one)| (agent, Some(one)));
        let described = self.graphs.iter().map(|graph| (&graph.name, graph.settings.as_ref()));
        let of_settings = further.chain(described).flat_map(|(agent, one)| {
            let named = one.into_iter().flat_map(|one| one.tools.iter().flatten().chain(one.policies.keys()));
            named.map(move |tool| (agent, tool))
        });
        let of_nodes = self.graphs.iter().flat_map(|graph| {
            let named = graph.nodes.iter().flat_map(|node| node.tools.iter().flatten());
            named.map(move |tool| (&graph.name, tool))
        });
        of_settings.chain(of_nodes).map(|(agent, tool)| (agent.as_str(), tool.as_str())).collect()
    }
}

/// Makes every agent: the ready-made ones as changed, then the further ones.
pub fn build_agents(settings: &Settings, parts: &AgentParts) -> Result<Vec<Agent>, AgentError> {
    for name in settings.agents.keys() {
        find_definition(name)?;
    }
    let plain = AgentSettings::default();
    let mut agents = Vec::new();
    for made in DEFINITIONS {
        let changed = settings.agents.get(made.name).unwrap_or(&plain);
        if changed.agent.is_some() {
            return Err(setting_error(
                made.name,
                "agent",
                "only a further assistant is made after another agent",
            ));
        }
        agents.push(build_one_agent(made.name, made, changed, parts)?);
    }
    for (name, further) in &settings.assistants {
        let after = further.agent.as_deref().unwrap_or("assistant");
        let made = find_definition(after)?;
        if find_definition(name).is_ok() {
            return Err(setting_error(
                name,
                "assistants",
                "a ready-made agent has this name; choose another",
            ));
        }
        if !is_agent_name(name) {
            return Err(setting_error(&shown_agent_name(name), "assistants", AGENT_NAME_RULE));
        }
        agents.push(build_one_agent(name, made, further, parts)?);
    }
    for description in &settings.graphs {
        if agents.iter().any(|agent| agent.name == description.name) {
            return Err(setting_error(
                &description.name,
                "graphs",
                "another agent has this name; choose another",
            ));
        }
        agents.push(described::build_described_agent(description, &settings.graphs, parts)?);
    }
    Ok(agents)
}

/// Makes one agent after a ready-made one.
pub(crate) fn build_ready_made(
    after: &str,
    name: &str,
    settings: &AgentSettings,
    parts: &AgentParts,
) -> Result<Agent, AgentError> {
    build_one_agent(name, find_definition(after)?, settings, parts)
}

fn find_definition(name: &str) -> Result<&'static AgentDefinition, AgentError> {
    DEFINITIONS.iter().find(|made| made.name == name).ok_or_else(|| {
        let known = DEFINITIONS.iter().map(|made| made.name).collect::<Vec<_>>().join(", ");
        AgentError::Unknown { name: name.to_owned(), known }
    })
}

fn setting_error(agent: &str, setting: &str, reason: impl Into<String>) -> AgentError {
    AgentError::Setting { agent: agent.to_owned(), setting: setting.to_owned(), reason: reason.into() }
}

fn build_one_agent(
    name: &str,
    made: &AgentDefinition,
    settings: &AgentSettings,
    parts: &AgentParts,
) -> Result<Agent, AgentError> {
    check_settings(name, made, settings)?;
    let parts = settings.resolve_parts(name, made.default_tools, parts)?;
    let mut agent = (made.build)(name, settings, &parts)?.with_definition(made);
    if let Some(ko) = &settings.ko {
        agent.ko.clone_from(ko);
    }
    if let Some(en) = &settings.en {
        agent.en.clone_from(en);
    }
    // A description has these three beside the settings.
    let own = AgentSettings { agent: None, ko: None, en: None, ..settings.clone() };
    agent.settings = (own != AgentSettings::default()).then(|| Arc::new(own));
    Ok(agent)
}

/// Refuses what the agent does not know, and numbers that cannot work.
fn check_settings(name: &str, made: &AgentDefinition, settings: &AgentSettings) -> Result<(), AgentError> {
    let given = serde_json::to_value(settings)
        .map_err(|error| setting_error(name, "agents", format!("it cannot be written as JSON: {error}")))?;
    for key in given.as_object().into_iter().flat_map(|given| given.keys()).filter(|key| *key != "agent") {
        if !COMMON_SETTINGS.contains(&key.as_str()) && !made.accepted_settings.contains(&key.as_str()) {
            let mut takes = [COMMON_SETTINGS, made.accepted_settings].concat();
            takes.sort_unstable();
            let reason = format!("`{}` has no such setting; it has: {}", made.name, takes.join(", "));
            return Err(setting_error(name, key, reason));
        }
    }
    let at_least_one = [
        ("max_messages", settings.max_messages.map(|n| n as u64)),
        ("keep_recent", settings.keep_recent.map(|n| n as u64)),
        ("max_summaries", settings.max_summaries.map(|n| n as u64)),
        ("summary_tokens", settings.summary_tokens),
        ("max_iterations", settings.max_iterations.map(u64::from)),
        ("passages", settings.passages.map(|n| n as u64)),
        ("context_length", settings.context_length.map(|n| n as u64)),
    ];
    if let Some((key, _)) = at_least_one.iter().find(|(_, value)| *value == Some(0)) {
        return Err(setting_error(name, key, "it must be at least 1"));
    }
    if settings.neighbours.is_some_and(|reach| reach > MAX_NEIGHBOURS) {
        return Err(setting_error(name, "neighbours", format!("it must be at most {MAX_NEIGHBOURS}")));
    }
    let (keep, max_messages) = (settings.keep_recent.unwrap_or(5), settings.max_messages.unwrap_or(10));
    if made.accepted_settings.contains(&"max_messages") && keep > max_messages {
        return Err(setting_error(
            name,
            "keep_recent",
            format!("it is {keep}, more than `max_messages` ({max_messages})"),
        ));
    }
    let (target, threshold) =
        (settings.compression_target.unwrap_or(0.1), settings.compression_threshold.unwrap_or(0.7));
    for (key, share) in [("compression_target", target), ("compression_threshold", threshold)] {
        if !(share > 0.0 && share <= 1.0) {
            return Err(setting_error(name, key, "it must be above 0 and at most 1"));
        }
    }
    if target > threshold {
        return Err(setting_error(
            name,
            "compression_target",
            "it must not be above `compression_threshold`",
        ));
    }
    settings.thread_storage(name).map(drop)
}

impl AgentSettings {
    /// Where the threads of the agent with this name are stored. Settings that contradict each other are an error.
    pub fn thread_storage(&self, agent: &str) -> Result<ThreadStorage<'_>, AgentError> {
        match (self.persistence_mode, self.checkpoint_db_path.as_deref()) {
            (Some(PersistenceMode::Store) | None, None) => Ok(ThreadStorage::Shared),
            (Some(PersistenceMode::Memory), None) => Ok(ThreadStorage::Memory),
            (Some(PersistenceMode::File) | None, Some(path)) => Ok(ThreadStorage::File(path)),
            (Some(PersistenceMode::File), None) => {
                Err(setting_error(agent, "persistence_mode", "`file` needs `checkpoint_db_path`"))
            }
            (Some(PersistenceMode::Store | PersistenceMode::Memory), Some(_)) => {
                Err(setting_error(agent, "checkpoint_db_path", "it needs `persistence_mode = \"file\"`"))
            }
        }
    }

    /// Its prompts.
    pub(crate) fn prompts(&self, agent: &str, known: &[PromptTemplate]) -> Result<Prompts, AgentError> {
        Prompts::with_overrides(known, &self.prompts)
            .map_err(|source| AgentError::Prompt { agent: agent.to_owned(), source })
    }

    /// The parts with its own models and tools.
    fn resolve_parts(
        &self,
        agent: &str,
        offered: DefaultTools,
        parts: &AgentParts,
    ) -> Result<AgentParts, AgentError> {
        let mut own = parts.clone();
        let named = |key: &str, name: &String| -> Result<Arc<dyn ChatModel>, AgentError> {
            let known = || parts.named.keys().cloned().collect::<Vec<_>>().join(", ");
            let missing = || {
                let way = match known() {
                    none if none.is_empty() => format!("describe it under `[models.{name}]`"),
                    known => format!("there are: {known}"),
                };
                setting_error(agent, key, format!("there is no model `{name}`; {way}"))
            };
            parts.named.get(name).cloned().ok_or_else(missing)
        };
        if let Some(model) = &self.model {
            own.model = named("model", model)?;
        }
        if let Some(small) = &self.small_model {
            own.small = named("small_model", small)?;
        }
        let owned: &[&str] = match offered {
            DefaultTools::All => &[],
            DefaultTools::Own(owned) => owned,
        };
        let known = || {
            let shared = parts.tools.list().map(|(about, _)| about.spec.name);
            owned.iter().map(|name| (*name).to_owned()).chain(shared).collect::<Vec<_>>().join(", ")
        };
        // An agent goes without what is away, so that a server that is down does not keep everything from starting.
        let is_known = |name: &str| {
            owned.contains(&name) || parts.tools.get(name).is_some() || parts.tools.is_of_absent_server(name)
        };
        for (key, name) in self
            .tools
            .iter()
            .flatten()
            .map(|name| ("tools", name))
            .chain(self.policies.keys().map(|name| ("policies", name)))
        {
            if !is_known(name) {
                return Err(setting_error(
                    agent,
                    key,
                    format!("there is no tool `{name}`; there are: {}", known()),
                ));
            }
        }
        own.tools = match (&self.tools, offered) {
            (Some(tools), _) => {
                parts.tools.restricted_to(&tools.iter().map(String::as_str).collect::<Vec<_>>())
            }
            // What is remembered would outlive the threads.
            (None, DefaultTools::All) if self.persistence_mode == Some(PersistenceMode::Memory) => {
                let mut tools = parts.tools.clone();
                tools.set_policy(REMEMBER, ToolPolicy::Deny);
                tools
            }
            (None, DefaultTools::All) => parts.tools.clone(),
            (None, DefaultTools::Own(_)) => Toolbox::new(),
        };
        for (tool, policy) in &self.policies {
            let its_own = owned.contains(&tool.as_str())
                && self.tools.as_ref().is_none_or(|tools| tools.contains(tool));
            if !own.tools.set_policy(tool, *policy) && !its_own && !parts.tools.is_of_absent_server(tool) {
                let reason = format!("`{tool}` is not among its `tools`; list it there first");
                return Err(setting_error(agent, "policies", reason));
            }
        }
        Ok(own)
    }
}

//! Settings of agents, as they stand in a file, and the agents they describe.
//!
//! `[agents.NAME]` changes a ready-made agent; `[assistants.NAME]` adds another one made after it, under its own name;
//! `[[graphs]]` adds one whose graph is written there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use doran_llm::ChatModel;
use serde::{Deserialize, Serialize};

use crate::agents::{Agent, AgentError, AgentParts, assistant, contract, docqa, react};
use crate::described::{self, AgentDescription};
use crate::language::UserLanguage;
use crate::nodes::MAX_NEIGHBOURS;
use crate::prompt::Prompts;
use crate::tools::{ToolPolicy, Toolbox, names};

/// All that can be said about agents.
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

/// What can be said about one agent. What is not said stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub language: Option<UserLanguage>,
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
    /// Where its threads are to be kept. The program takes `store` only; who uses the library may do otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence_mode: Option<PersistenceMode>,
    /// The file of a store of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_db_path: Option<String>,
}

/// Where threads of an agent are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// A kind of ready-made agent: its name, what its settings may say, and how it is made.
struct ReadyMadeAgent {
    name: &'static str,
    accepted_settings: &'static [&'static str],
    default_tools: DefaultTools,
    build: fn(&str, &AgentSettings, &AgentParts) -> Result<Agent, AgentError>,
}

/// The tools of an agent whose settings name none.
#[derive(Clone, Copy)]
enum DefaultTools {
    /// All there are.
    All,
    /// Those that are its own.
    Own(&'static [&'static str]),
}

/// What every agent takes.
const COMMON_SETTINGS: &[&str] =
    &["ko", "en", "language", "prompts", "model", "small_model", "persistence_mode", "checkpoint_db_path"];

const READY_MADE_AGENTS: &[ReadyMadeAgent] = &[
    ReadyMadeAgent {
        name: "assistant",
        accepted_settings: &[
            "tools",
            "policies",
            "collection",
            "passages",
            "neighbours",
            "max_messages",
            "keep_recent",
            "max_summaries",
            "summary_tokens",
            "max_tool_rounds",
            "context_length",
        ],
        default_tools: DefaultTools::All,
        build: assistant::build_agent,
    },
    ReadyMadeAgent {
        name: "contract",
        accepted_settings: &[
            "tools",
            "policies",
            "max_iterations",
            "enable_cache",
            "cache_seconds",
            "context_length",
        ],
        default_tools: DefaultTools::Own(&names::CONTRACT_TOOLS),
        build: contract::build_agent,
    },
    ReadyMadeAgent {
        name: "react",
        accepted_settings: &["tools", "policies", "max_iterations", "context_length"],
        default_tools: DefaultTools::All,
        build: react::build_agent,
    },
    ReadyMadeAgent {
        name: "docqa",
        accepted_settings: &[
            "collection",
            "passages",
            "neighbours",
            "keep_recent",
            "context_length",
            "compression_threshold",
            "compression_target",
            "tools",
            "policies",
            "max_tool_rounds",
        ],
        default_tools: DefaultTools::Own(&[]),
        build: docqa::build_agent,
    },
];

impl Settings {
    /// Names of all models that are asked for.
    pub fn model_names(&self) -> BTreeSet<&str> {
        let all = self.agents.values().chain(self.assistants.values());
        all.flat_map(|one| [&one.model, &one.small_model]).flatten().map(String::as_str).collect()
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
    let known = || READY_MADE_AGENTS.iter().map(|made| made.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = settings.agents.keys().find(|name| find_ready_made(name).is_none()) {
        return Err(AgentError::Unknown { name: name.clone(), known: known() });
    }
    let plain = AgentSettings::default();
    let mut agents = Vec::new();
    for made in READY_MADE_AGENTS {
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
        let made = find_ready_made(after)
            .ok_or_else(|| AgentError::Unknown { name: after.to_owned(), known: known() })?;
        if find_ready_made(name).is_some() {
            return Err(setting_error(
                name,
                "assistants",
                "a ready-made agent has this name; choose another",
            ));
        }
        if name.is_empty() || !name.chars().all(|char| char.is_alphanumeric() || "-_.".contains(char)) {
            return Err(setting_error(
                name,
                "assistants",
                "a name has letters, digits, `-`, `_` and `.` only",
            ));
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
    let known = || READY_MADE_AGENTS.iter().map(|made| made.name).collect::<Vec<_>>().join(", ");
    let made = find_ready_made(after)
        .ok_or_else(|| AgentError::Unknown { name: after.to_owned(), known: known() })?;
    build_one_agent(name, made, settings, parts)
}

fn find_ready_made(name: &str) -> Option<&'static ReadyMadeAgent> {
    READY_MADE_AGENTS.iter().find(|made| made.name == name)
}

fn setting_error(agent: &str, setting: &str, reason: impl Into<String>) -> AgentError {
    AgentError::Setting { agent: agent.to_owned(), setting: setting.to_owned(), reason: reason.into() }
}

fn build_one_agent(
    name: &str,
    made: &ReadyMadeAgent,
    settings: &AgentSettings,
    parts: &AgentParts,
) -> Result<Agent, AgentError> {
    check_settings(name, made, settings)?;
    let parts = settings.resolve_parts(name, made.default_tools, parts)?;
    let mut agent = (made.build)(name, settings, &parts)?;
    agent.kind = made.name.to_owned();
    if let Some(ko) = &settings.ko {
        agent.ko.clone_from(ko);
    }
    if let Some(en) = &settings.en {
        agent.en.clone_from(en);
    }
    // What names and describes it stands beside its settings in a description.
    let told = AgentSettings { agent: None, ko: None, en: None, ..settings.clone() };
    agent.settings = (told != AgentSettings::default()).then(|| Arc::new(told));
    agent.persistence = settings.persistence_mode.unwrap_or_default();
    agent.checkpoint_db_path.clone_from(&settings.checkpoint_db_path);
    Ok(agent)
}

/// Refuses what the agent does not know, and numbers that cannot work.
fn check_settings(name: &str, made: &ReadyMadeAgent, settings: &AgentSettings) -> Result<(), AgentError> {
    let said = serde_json::to_value(settings).unwrap_or_default();
    for key in said.as_object().into_iter().flat_map(|said| said.keys()).filter(|key| *key != "agent") {
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
    let (keep, most) = (settings.keep_recent.unwrap_or(5), settings.max_messages.unwrap_or(10));
    if made.accepted_settings.contains(&"max_messages") && keep > most {
        return Err(setting_error(
            name,
            "keep_recent",
            format!("it is {keep}, more than `max_messages` ({most})"),
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
    match (settings.persistence_mode, &settings.checkpoint_db_path) {
        (Some(PersistenceMode::File), None) => {
            Err(setting_error(name, "persistence_mode", "`file` needs `checkpoint_db_path`"))
        }
        (None | Some(PersistenceMode::Store | PersistenceMode::Memory), Some(_)) => {
            Err(setting_error(name, "checkpoint_db_path", "it needs `persistence_mode = \"file\"`"))
        }
        _ => Ok(()),
    }
}

impl AgentSettings {
    /// Its prompts.
    pub(crate) fn prompts(&self, agent: &str) -> Result<Prompts, AgentError> {
        Prompts::with_overrides(&self.prompts)
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
            let shared = parts.tools.list().map(|(about, _)| about.spec.name.as_str());
            owned.iter().copied().chain(shared).collect::<Vec<_>>().join(", ")
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

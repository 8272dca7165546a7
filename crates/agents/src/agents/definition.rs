//! The definition of a ready-made agent.

use super::{Agent, AgentError, AgentParts};
use crate::prompt::PromptTemplate;
use crate::settings::AgentSettings;

/// A ready-made agent. Each is the `DEFINITION` of a folder beside this file and stands in
/// [`DEFINITIONS`](super::DEFINITIONS).
pub(crate) struct AgentDefinition {
    /// Its name in settings and calls.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) description: InBothLanguages<&'static str>,
    /// Questions to begin with.
    pub(crate) starters: InBothLanguages<&'static [&'static str]>,
    /// The settings it takes, beside those that every agent takes.
    pub(crate) accepted_settings: &'static [&'static str],
    /// Its tools if settings name none.
    pub(crate) default_tools: DefaultTools,
    /// Its prompts. Settings can replace them by name.
    pub(crate) prompts: &'static [PromptTemplate],
    /// Builds its graph under a name, which is not its own for a further agent that settings add.
    pub(crate) build: fn(&str, &AgentSettings, &AgentParts) -> Result<Agent, AgentError>,
}

/// A value for each language.
#[derive(Clone, Copy)]
pub(crate) struct InBothLanguages<T> {
    pub(crate) ko: T,
    pub(crate) en: T,
}

/// The tools of an agent whose settings name none.
#[derive(Clone, Copy)]
pub(crate) enum DefaultTools {
    /// All there are.
    All,
    /// Only these, which no other agent has.
    Own(&'static [&'static str]),
}

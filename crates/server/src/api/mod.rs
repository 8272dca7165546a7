//! The JSON that leaves and enters the server. These types are the interface; inner types are free to change.

mod event;

use doran_agents::About;
use serde::{Deserialize, Serialize};

pub use event::{Body, Event, Question, Task};

/// `POST /api/threads/{thread}/runs`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// Who is asked.
    pub agent: String,
    /// What is asked.
    pub message: String,
}

impl From<&doran_agents::Agent> for Agent {
    fn from(agent: &doran_agents::Agent) -> Self {
        Self { name: agent.name.clone(), en: agent.en.clone(), ko: agent.ko.clone() }
    }
}

/// `GET /`
#[derive(Debug, Serialize)]
pub(crate) struct Home<'a> {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) agents: Vec<Agent>,
    pub(crate) model: &'a About,
    pub(crate) routes: &'static [&'static str],
}

/// An agent, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its name in calls.
    pub name: String,
    /// What it does.
    pub en: String,
    /// The same in Korean.
    pub ko: String,
}

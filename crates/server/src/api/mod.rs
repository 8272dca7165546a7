//! The JSON that leaves and enters the server. These types are the interface; inner types are free to change.

mod resources;
mod run_event;

use doran_agents::AskOptions;
pub use doran_agents::failure::{ModelErrorAdvice, advice};
use doran_engine::store::IfBusy;
use serde::{Deserialize, Serialize};

pub use resources::{AgentInfo, MessageInfo, RunInfo, ThreadInfo};
pub use run_event::{QuestionInfo, RunEvent, RunEventBody, StepTask};

/// `POST /api/threads/{thread}/runs`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// Who is asked.
    pub agent: String,
    /// What is asked.
    pub message: String,
    /// What to do when the thread has a run under way: `reject` (the default), `enqueue`, `interrupt` or `rollback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<IfBusy>,
    /// The contract that is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_id: Option<String>,
    /// The collection of documents to look in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// A text that comes with the question and that the person did not type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
}

impl StartRun {
    /// Asks an agent.
    pub fn new(agent: impl Into<String>, message: impl Into<String>) -> Self {
        let (agent, message) = (agent.into(), message.into());
        Self { agent, message, if_busy: None, contract_id: None, collection: None, document: None }
    }

    /// What comes with the question.
    pub fn options(&self) -> AskOptions {
        AskOptions {
            contract_id: self.contract_id.clone(),
            collection: self.collection.clone(),
            document: self.document.clone(),
            ..AskOptions::default()
        }
    }
}

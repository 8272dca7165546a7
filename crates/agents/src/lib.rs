//! Where engine, models and retrieval meet: nodes, tools, prompts and ready-made agents.
//!
//! [`build_default_agents`] builds every agent from its [`AgentParts`], [`build_agents`] does so with [`Settings`]. An
//! [`Agent`] is used without knowing its state: its input is made by [`Agent::input`], what came of it is read by
//! [`Agent::read_turn`], and the whole conversation by [`history`]. What it shows and asks meanwhile is [`protocol`]. This crate does not know HTTP, SQL or where settings are kept: who asks, and where
//! threads are kept, is decided elsewhere.

pub mod admission;
mod agent_name;
pub mod agents;
mod anaphora;
pub mod asked_questions;
pub mod attachments;
mod citation_numbering;
mod compute_permits;
pub mod described;
mod engine_failure_advice;
pub mod eval;
pub mod failure;
pub mod history;
pub mod memory;
mod nodes;
mod prompt;
pub mod protocol;
pub mod request_format;
mod request_purpose;
pub mod samples;
pub mod settings;
mod source;
mod state;
mod summaries;
pub mod tools;
pub mod transcript;

pub use agent_name::{MAX_AGENT_NAME_CHARS, is_agent_name};
pub use agents::{
    Agent, AgentError, AgentParts, AgentTurn, AskOptions, ClientTool, EarlierMessage, MESSAGES_FIELD,
    QuestionLabel, StarterQuestions, TurnRequest, TurnUpdate, build_default_agents, is_built_in_agent,
};
pub use citation_numbering::CitationNumbering;
pub use compute_permits::{FairIndex, FairModel};
pub use doran_llm as llm;
pub use doran_llm::{MessagePart, ModelInfo, ModelKind, Role};
pub use doran_retrieval as retrieval;
pub use doran_retrieval::Language;
pub use nodes::{ModelCatalog, Models, PassageReranking, QueryRewriting, rerank_hits};
pub use prompt::PromptError;
pub use request_purpose::RequestPurpose;
pub use settings::{AgentSettings, PersistenceMode, Settings, ThreadStorage, build_agents};
pub use source::{AnswerSource, AnswerSourceKind};
pub use state::{ByMessageId, ModelChoice, STANDING_MESSAGE_ID_PREFIX, TurnProgress};
pub use summaries::Summaries;

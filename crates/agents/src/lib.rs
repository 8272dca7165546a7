//! Where engine, models and retrieval meet: nodes, tools, prompts and ready-made agents.
//!
//! [`all`] builds every agent from its [`Parts`]. This crate does not know HTTP, SQL or settings: who asks, and where
//! threads are kept, is decided elsewhere.

mod agents;
pub mod memory;
mod nodes;
pub mod samples;
mod state;
pub mod tools;

pub use agents::{Agent, Parts, all};
pub use doran_llm::{About, Kind as ModelKind};
pub use state::{ByMessageId, ChatState, ChatStateUpdate, Citation};

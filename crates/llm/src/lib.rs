//! Messages, and models that answer them.
//!
//! A [`ChatModel`] takes a [`ChatRequest`] and gives a stream of [`Delta`]s that ends with [`Delta::Done`].
//! [`OfflineModel`] is built in and needs no key: it quotes, recalls and says what it is. This crate does not know
//! graphs, documents or HTTP routes; who calls a model, and with which passages, is decided elsewhere.

pub mod conformance;
mod embed;
mod message;
mod model;
mod offline;

pub use embed::{Embedder, EmbedderAbout, Side};
pub use message::{Image, Message, MessageId, Origin, Part, Passage, Role, ToolCall, ToolResult};
pub use model::{
    About, ChatModel, ChatRequest, Collector, Counted, Delta, DeltaStream, Finish, Kind, ModelError,
    ModelRole, Purpose, Reply, ResponseSchema, ToolChoice, ToolSpec, Usage, collect,
};
pub use offline::{OFFLINE_MODEL, OfflineModel};

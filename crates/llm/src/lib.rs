//! Messages, and models that answer them.
//!
//! A [`ChatModel`] takes a [`ChatRequest`] and gives a stream of [`Delta`]s that ends with [`Delta::Done`].
//! [`OfflineModel`] is built in and needs no key: it quotes, recalls and says what it is. This crate does not know
//! graphs, documents or HTTP routes; who calls a model, and with which passages, is decided elsewhere.

pub mod conformance;
mod cost;
mod count;
pub mod embed;
mod error;
mod http;
mod marks;
mod message;
mod model;
mod offline;
mod priced;
mod provider;
mod replay;
mod retry;
mod scripted;
mod structured;

pub use cost::{LongPrice, Price, Prices, PricesError};
pub use count::{estimate_messages, estimate_request, estimate_tokens};
pub use embed::{Embedder, EmbedderAbout, Side};
pub use error::{Advice, Cause, Fault, ModelError};
pub use http::{Limits, Secret, Timeouts};
pub use marks::{Mark, marks, without_marks};
pub use message::{Image, Message, MessageId, Origin, Part, Passage, Role, ToolCall, ToolResult};
pub use model::{
    About, ChatModel, ChatRequest, Collector, Counted, Delta, DeltaStream, Finish, Kind, ModelRole, Purpose,
    Reply, ResponseSchema, ToolChoice, ToolSpec, Usage, collect,
};
pub use offline::{OFFLINE_MODEL, OfflineModel};
pub use priced::Priced;
pub use provider::{
    ByRole, DialectKind, Found, HttpEmbedder, KeyNeed, ModelConfig, ModelId, ModelIdError, OpenError, Place,
    Streaming, VENDORS, Vendor, discover, discover_at, list_models, mark_with, open, vendor,
};
pub use replay::{Cache, Cached, Recording, Replaying};
pub use retry::{Retries, Retrying};
#[cfg(feature = "scripted")]
pub use scripted::{Heard, Piece, Said, ScriptedServer, Turn, Wire};
pub use scripted::{Script, ScriptedModel};
pub use structured::{
    AskError, BadCall, CheckedCall, MOST_ARGUMENT_BYTES, MOST_PARALLEL_CALLS, Misfit, ask, check_arguments,
    check_calls, read, read_value, repair, repeats, schema_of,
};

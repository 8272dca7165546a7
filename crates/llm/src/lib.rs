//! Messages, and models that answer them.
//!
//! A [`ChatModel`] takes a [`ChatRequest`] and gives a stream of [`Delta`]s that ends with [`Delta::Done`].
//! This crate does not know graphs, agents, documents or HTTP routes; who calls a model, and with which passages, is
//! decided elsewhere.

mod citation_marks;
pub mod conformance;
pub mod embed;
mod error;
mod http;
mod json_depth;
mod json_schema;
mod message;
mod model;
mod priced_model;
mod pricing;
mod provider;
mod replay;
mod request_label;
mod retry;
mod scripted;
mod structured_output;
mod token_estimate;
mod trace_context;

pub use citation_marks::{CitationMark, CitationScanner, TextEnd, find_citation_marks, strip_citation_marks};
pub use embed::{Embedder, EmbedderInfo, EmbeddingSide};
pub use error::{ModelError, ModelErrorAdvice, ModelErrorKind, ModelErrorSource};
pub use http::{ModelApiKey, ModelResponseLimits, ModelTimeouts, install_tls_provider};
pub use json_depth::{MAX_JSON_DEPTH, is_too_deep};
pub use json_schema::{InvalidSchema, SchemaValidator, SchemaViolation};
pub use message::{
    ImageReference, Message, MessageId, MessagePart, NumberedPassage, PassageKind, Role, TextOrigin,
    ToolCall, ToolResult,
};
pub use model::{
    ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, ModelKind, ModelReply, ModelRole,
    ReplyCollector, ResponseSchema, SamplingSetting, TokenCountSource, ToolChoice, ToolSpec, Usage,
    collect_reply,
};
pub use priced_model::PricedModel;
pub use pricing::{LongPromptPrice, ModelPrice, PriceList, PriceListError};
pub use provider::{
    DialectKind, DiscoveredServer, HttpEmbedder, KeyRequirement, ModelConfig, ModelId, ModelIdError,
    ModelLocation, OpenModelError, RERANK_ONLY_VENDORS, StreamingMode, VENDORS, Vendor,
    discover_local_servers, discover_server_at, find_rerank_vendor, find_vendor, list_models, open_model,
    open_reranker, set_mark_key, small_model_for,
};
pub use replay::{RecordingModel, ReplayingModel};
pub use request_label::RequestLabel;
pub use retry::ModelRetryPolicy;
#[cfg(feature = "scripted")]
pub use scripted::{
    RandomTexts, ReceivedHttpRequest, ScriptedBodyPiece, ScriptedDialect, ScriptedHttpResponse,
    ScriptedServer, ScriptedVendorAnswer,
};
pub use scripted::{ScriptedModel, ScriptedReply};
pub use structured_output::{
    ReplyFormatError, StructuredRequestError, parse_reply, parse_reply_json, repair_request,
    request_structured, response_schema_of,
};
pub use token_estimate::{AnswerTokenCounter, BYTES_PER_TOKEN, estimate_tokens};
pub use trace_context::{InvalidTraceContext, TRACEPARENT, TraceContext};

//! Tools that a model can call, one file each. [`Toolbox`] holds those that an agent may use.
//!
//! A tool says what it is ([`ToolInfo`]) and does one thing ([`Tool::call`]). Who may call it, whether a person is asked
//! first, how long it may take and how its output is cut is decided around it, the same way for every tool.

mod builtin;
mod calculator;
mod call_decision;
mod datetime;
mod egress;
pub mod names;
mod read_file;
mod secret;
mod text_cleaning;
mod tool_permit;
mod toolbox;
mod weather;
mod web_search;
mod wikipedia;

pub use builtin::{BuiltinToolsConfig, BuiltinToolsError, builtin_tools};
pub use calculator::{Calculator, CalculatorAnswer, CalculatorError, CalculatorFailure, calculate};
pub(crate) use call_decision::tool_key;
pub use call_decision::{RunExposure, Taint, ToolApproval, ToolCallDecision, ToolCallReason, ToolPolicy};
pub use datetime::{GetCurrentDatetime, HOLIDAY_NAMES};
pub use egress::{
    Egress, EgressError, EgressOptions, EgressRequest, EgressResponse, HostLookup, SystemHostLookup,
};
pub(crate) use egress::{fixed_origin_client, is_public};
pub use read_file::{DocumentTextReader, ReadFile, ReadableRoot, ReadableRootError};
pub use secret::ToolSecret;
pub(crate) use text_cleaning::{strip_invisible, truncate_with_note};
pub use tool_permit::{ApprovalRequest, CompletedToolCall, ToolPermit};
pub(crate) use toolbox::MAX_CALLS_PER_REPLY;
pub use toolbox::{ToolAdmission, Toolbox, ToolboxError, is_refused_by_person};
pub use weather::GetWeather;
pub use web_search::WebSearch;
pub use wikipedia::SearchWikipedia;
pub mod mcp;
pub mod python;

use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{ImageReference, TextOrigin, ToolSpec};
use doran_retrieval::Language;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something a model may do.
///
/// `call` is given arguments that fit the schema of its [`ToolInfo`]. It ends by itself within the time limit or is
/// dropped; a dropped call must leave nothing running. It keeps nothing between calls except what it hands back in
/// [`ToolOutput::session`].
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What it is.
    fn info(&self) -> &ToolInfo;

    /// Does it.
    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError>;
}

/// What a tool is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolInfo {
    /// Its name, what it does in English (for models), and the schema of its arguments.
    pub spec: ToolSpec,
    /// What it does, for people, in Korean.
    pub ko: String,
    /// The same in English.
    pub en: String,
    /// What a repeated call does.
    #[serde(rename = "class")]
    pub side_effect: ToolSideEffect,
    /// Whether it sends data out of Doran: others may see its arguments.
    pub outward: bool,
    /// Where its words come from.
    pub origin: TextOrigin,
    /// The longest a call may take.
    #[serde(rename = "time")]
    pub timeout: Duration,
    /// The most bytes of its output that go on to the model.
    #[serde(rename = "most_output")]
    pub max_output_bytes: usize,
}

/// What a repeated call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSideEffect {
    /// Nothing in the world changes.
    ReadOnly,
    /// The same as one call, with the same key.
    Idempotent,
    /// Something again: it must not be repeated.
    Once,
}

/// Who calls, and with what.
#[derive(Clone, Copy, Debug)]
pub struct ToolCallContext<'a> {
    /// Whose call it is.
    pub tenant: &'a str,
    /// The thread it belongs to.
    pub thread: &'a str,
    /// The same for every attempt of this call, different for every other.
    pub key: &'a str,
    /// The language of the person, for words that are shown.
    pub language: Language,
    /// What the same tool handed back the last time in this thread.
    pub session: Option<&'a str>,
    /// The time of the call, in milliseconds since 1970.
    pub now_ms: i64,
    /// What the thread has read that makes the call.
    pub taint: Taint,
}

/// What a call gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// For the model to read.
    pub text: String,
    /// For programs: hits, articles, numbers. Not sent to the model.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Images for the model to see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageReference>,
    /// What the tool wants to see at its next call in this thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Where these words come from, if not from where the tool usually has them ([`ToolInfo::origin`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<TextOrigin>,
}

impl ToolOutput {
    /// Just words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Why a call gave nothing, by remedy. The words go to the model and to people, and never hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolError {
    /// Call it with other arguments.
    #[error("{0}")]
    BadArguments(String),
    /// Set what is missing: a key, a root, a server.
    #[error("{0}")]
    NotConfigured(String),
    /// It is not allowed.
    #[error("{0}")]
    Denied(String),
    /// Call it again later.
    #[error("{0}")]
    Unavailable(String),
    /// It was tried and did not work.
    #[error("{0}")]
    Failed(String),
    /// It took too long or broke off, or its answer cannot be used. Whether it did its work is open.
    #[error("{0}")]
    OutcomeUnknown(String),
}

//! The objects of OpenAI's Responses API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::openai::UrlCitation;

/// A response: the answer of a run, or of the part of a run up to the tools that its client runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiResponse {
    /// The id of the response.
    pub id: String,
    /// Always `response`.
    pub object: &'static str,
    /// When the run was accepted, or its tools were answered, in seconds since 1970.
    pub created_at: i64,
    /// How far it is.
    pub status: OpenAiResponseStatus,
    /// Why there is no answer.
    pub error: Option<OpenAiResponseError>,
    /// Why the answer is not whole.
    pub incomplete_details: Option<OpenAiIncompleteDetails>,
    /// The name of the agent.
    pub model: String,
    /// The answer, and the tools that the client is to run.
    pub output: Vec<OpenAiOutputItem>,
    /// The tokens that it used; `null` until it is over.
    pub usage: Option<OpenAiResponseUsage>,
    /// What the request said.
    #[serde(flatten)]
    pub request: OpenAiResponseRequest,
}

/// What the request for a response said about it. Stored with the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OpenAiResponseRequest {
    /// Whether the request did not wait for the answer.
    pub background: bool,
    /// The instructions.
    pub instructions: Option<String>,
    /// Maximum number of tokens of a reply of the model.
    pub max_output_tokens: Option<u64>,
    /// Texts by name.
    pub metadata: Map<String, Value>,
    /// Whether a reply of the model can have several tool calls.
    pub parallel_tool_calls: bool,
    /// The response that this one follows.
    pub previous_response_id: Option<String>,
    /// How freely words are chosen.
    pub temperature: Option<f32>,
    /// The format of the answer.
    pub text: Map<String, Value>,
    /// Whether the model may, must or must not call tools.
    pub tool_choice: Value,
    /// The tools of the client.
    pub tools: Vec<Map<String, Value>>,
    /// The probability of the words that are chosen from.
    pub top_p: Option<f32>,
    /// Always `auto`: a long conversation is shortened.
    pub truncation: String,
    /// Who the request is from.
    pub user: Option<String>,
    /// The same, under its newer name.
    pub safety_identifier: Option<String>,
    /// Always `true`.
    pub store: bool,
}

/// How far a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenAiResponseStatus {
    /// The run waits for its turn.
    Queued,
    /// The run is under way.
    InProgress,
    /// The answer is there, or the client is to run tools.
    Completed,
    /// The answer is there and not whole.
    Incomplete,
    /// There is no answer.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

/// Why an answer is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpenAiIncompleteDetails {
    /// Always `max_output_tokens`.
    pub reason: &'static str,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpenAiResponseError {
    /// Stable, for programs.
    pub code: String,
    /// The error in English.
    pub message: String,
    /// The error in Korean.
    pub message_ko: String,
}

/// A part of an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OpenAiOutputItem {
    /// The text of the answer.
    Message {
        /// The id of the item.
        id: String,
        /// Always `assistant`.
        role: &'static str,
        /// `in_progress` or `completed`.
        status: &'static str,
        /// The text, in one part.
        content: Vec<OpenAiOutputText>,
    },
    /// A tool that the client is to run. The run waits for the result.
    FunctionCall {
        /// The id of the item.
        id: String,
        /// The id of the call. The result names it.
        call_id: String,
        /// The name of the tool.
        name: String,
        /// The arguments, as JSON in a text.
        arguments: String,
        /// `in_progress` or `completed`.
        status: &'static str,
    },
}

/// The text of an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiOutputText {
    /// Always `output_text`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The text.
    pub text: String,
    /// One annotation for each source.
    pub annotations: Vec<OpenAiTextAnnotation>,
    /// Always empty.
    pub logprobs: Vec<()>,
}

/// A source of an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiTextAnnotation {
    /// Always `url_citation`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The source.
    #[serde(flatten)]
    pub citation: UrlCitation,
}

/// The tokens that a response used.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OpenAiResponseUsage {
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Always without cached tokens.
    pub input_tokens_details: OpenAiCachedTokens,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// Always without reasoning tokens.
    pub output_tokens_details: OpenAiReasoningTokens,
    /// The sum of both.
    pub total_tokens: u64,
}

/// Tokens that a vendor had cached.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct OpenAiCachedTokens {
    /// Not counted: always 0.
    pub cached_tokens: u64,
}

/// Tokens of thoughts.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct OpenAiReasoningTokens {
    /// Not counted: always 0.
    pub reasoning_tokens: u64,
}

/// A response that was deleted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiDeletedResponse {
    /// The id of the response.
    pub id: String,
    /// Always `response`.
    pub object: &'static str,
    /// Always `true`.
    pub deleted: bool,
}

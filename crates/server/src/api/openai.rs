//! Responses in the format of OpenAI's API.

use doran_agents::AnswerSource;
use doran_engine::store::RunUsage;
use schemars::JsonSchema;
use serde::Serialize;

/// An agent as a model of OpenAI's API.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiModel {
    /// The name of the agent.
    pub id: String,
    /// Always `model`.
    pub object: &'static str,
    /// A time in seconds since 1970; the same for all agents.
    pub created: u64,
    /// Always `doran`.
    pub owned_by: &'static str,
}

/// All agents as models.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiModelList {
    /// Always `list`.
    pub object: &'static str,
    /// The models.
    pub data: Vec<OpenAiModel>,
}

/// An answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiCompletion {
    /// The id of the answer.
    pub id: String,
    /// Always `chat.completion`.
    pub object: &'static str,
    /// When the answer was started, in seconds since 1970.
    pub created: u64,
    /// The name of the agent.
    pub model: String,
    /// The answer. There is always one.
    pub choices: Vec<OpenAiChoice>,
    /// The tokens that the run used.
    pub usage: OpenAiUsage,
    /// The sources of the answer.
    pub sources: Vec<AnswerSource>,
}

/// The text of an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiChoice {
    /// Always 0.
    pub index: u32,
    /// The message.
    pub message: OpenAiAnswerMessage,
    /// Always `null`.
    pub logprobs: Option<()>,
    /// `stop`, `length` if a limit on tokens cut the answer, or `tool_calls` if the client is to run tools.
    pub finish_reason: &'static str,
}

/// The message of an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiAnswerMessage {
    /// Always `assistant`.
    pub role: &'static str,
    /// The text; `null` if there are only tool calls.
    pub content: Option<String>,
    /// Always `null`.
    pub refusal: Option<()>,
    /// One annotation for each source.
    pub annotations: Vec<OpenAiAnnotation>,
    /// Tools that the client is to run. The run waits for the results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<OpenAiToolCall>,
    /// What the agent did before it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The same, under the name that other clients read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

/// A tool that the client is to run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiToolCall {
    /// The id of the call. The result names it.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The function.
    pub function: OpenAiFunctionCall,
}

/// The function of a tool call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiFunctionCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments, as JSON in a text.
    pub arguments: String,
}

/// A source of an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiAnnotation {
    /// Always `url_citation`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The source.
    pub url_citation: UrlCitation,
}

/// Where an answer cites a source, and where the source is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UrlCitation {
    /// Where the citation starts in the text, in characters.
    pub start_index: usize,
    /// Where the citation ends in the text, in characters.
    pub end_index: usize,
    /// The title of the source.
    pub title: String,
    /// The address of the document's text on this server.
    pub url: String,
    /// The number by which the answer cites the source.
    pub number: u32,
    /// The id of the document.
    pub document: String,
    /// The page, from 1.
    pub page: Option<u32>,
    /// The quoted words.
    pub quote: String,
}

/// The tokens that an answer used.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OpenAiUsage {
    /// Tokens that models read.
    pub prompt_tokens: u64,
    /// Tokens that models wrote.
    pub completion_tokens: u64,
    /// The sum of both.
    pub total_tokens: u64,
}

impl OpenAiUsage {
    pub(crate) fn from_run(usage: &RunUsage) -> Self {
        let RunUsage { input_tokens, output_tokens, .. } = *usage;
        Self {
            prompt_tokens: input_tokens,
            completion_tokens: output_tokens,
            total_tokens: input_tokens.saturating_add(output_tokens),
        }
    }
}

/// An error response.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiError {
    /// The error.
    pub error: OpenAiErrorBody,
}

/// An error.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiErrorBody {
    /// The error in English.
    pub message: String,
    /// The error in Korean.
    pub message_ko: String,
    /// The kind of error, as OpenAI's API names it.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The parameter of the request that is wrong.
    pub param: Option<String>,
    /// The code of the error, for programs.
    pub code: String,
}

/// Texts as vectors.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiEmbeddingList {
    /// Always `list`.
    pub object: &'static str,
    /// One for each text, in order.
    pub data: Vec<OpenAiEmbedding>,
    /// The encoder, with the version of its weights.
    pub model: String,
    /// The tokens of the texts, estimated.
    pub usage: OpenAiEmbeddingUsage,
}

/// A text as a vector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenAiEmbedding {
    /// Always `embedding`.
    pub object: &'static str,
    /// The place of the text in the request, from 0.
    pub index: usize,
    /// The vector, of length 1.
    pub embedding: OpenAiEmbeddingVector,
}

/// A vector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OpenAiEmbeddingVector {
    /// As numbers.
    Numbers(Vec<f32>),
    /// As 32-bit numbers, the lowest byte first, in base64.
    Base64(String),
}

/// The tokens of texts.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct OpenAiEmbeddingUsage {
    /// Estimated by the length of the texts.
    pub prompt_tokens: u64,
    /// The same.
    pub total_tokens: u64,
}

//! OpenAI's chat completions, and everybody who speaks like it.
//!
//! `request` writes, `stream` reads; where vendors differ, a row of the vendor table says so.

mod chat_completion_types;
mod embeddings;
mod request;
mod stream;

pub use self::embeddings::HttpEmbedder;
pub(super) use self::request::{answer_tool, arguments_as_object, prompt_cache_key, shortest_json_number};
use self::stream::ChatCompletionsDecoder;
pub(super) use self::stream::parse_call_arguments;
use super::dialect::{AnswerDecoder, Dialect};
use super::vendors::VendorQuirks;
use crate::error::ModelError;
use crate::http::{ModelApiKey, ModelHttpRequest};
use crate::model::ChatRequest;

/// How one model of one vendor is asked.
pub(crate) struct ChatCompletionsDialect {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) quirks: VendorQuirks,
    /// Whether the answer is to come piece by piece.
    pub(crate) streamed: bool,
    /// Fields of the request that the settings add.
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    /// Only to take it out of what is shown.
    pub(crate) secret: ModelApiKey,
}

impl Dialect for ChatCompletionsDialect {
    fn build_request(&self, request: &ChatRequest) -> Result<ModelHttpRequest, ModelError> {
        let body = self.request_body(request)?.to_string().into_bytes();
        Ok(ModelHttpRequest { url: format!("{}/chat/completions", self.url), body })
    }

    fn decoder(&self, request: &ChatRequest) -> Box<dyn AnswerDecoder> {
        Box::new(ChatCompletionsDecoder::new(request, &self.quirks, self.secret.clone()))
    }
}

/// Whether a model of OpenAI thinks before it answers; such a model takes no temperature and needs patience.
pub(crate) fn is_reasoning_model(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or(model);
    let numbered = model.starts_with("gpt-") && !model.starts_with("gpt-3") && !model.starts_with("gpt-4");
    let series =
        model.strip_prefix('o').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    (numbered && !model.contains("-chat") && !model.starts_with("gpt-oss")) || series
}

#[cfg(test)]
mod tests {
    use super::is_reasoning_model;

    #[test]
    fn models_that_think_are_known_by_name() {
        for model in ["o1", "o3-mini", "gpt-5", "gpt-5.4-mini", "openai/gpt-6.1-sol"] {
            assert!(is_reasoning_model(model), "{model}");
        }
        for model in
            ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-5-chat-latest", "gpt-oss:20b", "qwen3", "olmo-2"]
        {
            assert!(!is_reasoning_model(model), "{model}");
        }
    }
}

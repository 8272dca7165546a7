//! The OpenAI Chat Completions API, and all vendors that are compatible with it.
//!
//! `request` builds requests, `stream` decodes answers. Differences between vendors are in the vendor table.

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
use crate::json_schema::with_ordered_properties;
use crate::model::{ChatRequest, SamplingSetting};

/// The dialect for one model of one vendor.
pub(crate) struct ChatCompletionsDialect {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) quirks: VendorQuirks,
    /// Whether the answer is to be streamed.
    pub(crate) streamed: bool,
    /// Fields that the settings add to the request.
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    /// The key, only to remove it from error messages.
    pub(crate) secret: ModelApiKey,
}

impl Dialect for ChatCompletionsDialect {
    fn build_request(&self, request: &ChatRequest) -> Result<ModelHttpRequest, ModelError> {
        let body = with_ordered_properties(&self.request_body(request)?).into_bytes();
        Ok(ModelHttpRequest { url: format!("{}/chat/completions", self.url), body })
    }

    fn unsupported_settings(&self) -> Vec<SamplingSetting> {
        use SamplingSetting::{Seed, Stop, Temperature, TopP};
        if is_reasoning_model(&self.model) {
            return vec![Temperature, TopP, Seed, Stop];
        }
        if self.quirks.seed_field.is_empty() { vec![Seed] } else { Vec::new() }
    }

    fn decoder(&self, request: &ChatRequest) -> Box<dyn AnswerDecoder> {
        Box::new(ChatCompletionsDecoder::new(request, &self.quirks, self.secret.clone()))
    }
}

/// Returns whether an OpenAI model is a reasoning model, which accepts no temperature and needs longer timeouts.
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

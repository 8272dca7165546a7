//! The Anthropic Messages API.

mod request;
mod stream;

use self::stream::AnthropicDecoder;
use super::dialect::{AnswerDecoder, Dialect};
use crate::error::ModelError;
use crate::http::{ModelApiKey, ModelHttpRequest};
use crate::json_schema::with_ordered_properties;
use crate::model::{ChatRequest, SamplingSetting};

/// The dialect for one model.
pub(crate) struct AnthropicDialect {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) streamed: bool,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) secret: ModelApiKey,
}

impl Dialect for AnthropicDialect {
    fn build_request(&self, request: &ChatRequest) -> Result<ModelHttpRequest, ModelError> {
        let body = with_ordered_properties(&self.request_body(request)).into_bytes();
        Ok(ModelHttpRequest { url: format!("{}/messages", self.url), body })
    }

    fn unsupported_settings(&self) -> Vec<SamplingSetting> {
        use SamplingSetting::{Seed, Temperature, TopP};
        match AnthropicModelGeneration::of_model(&self.model) {
            AnthropicModelGeneration::Third => vec![Temperature, TopP, Seed],
            AnthropicModelGeneration::First | AnthropicModelGeneration::Second => vec![Seed],
        }
    }

    fn decoder(&self, request: &ChatRequest) -> Box<dyn AnswerDecoder> {
        let by_tool = request
            .schema
            .as_ref()
            .filter(|_| AnthropicModelGeneration::of_model(&self.model) == AnthropicModelGeneration::First);
        let answer_tool = by_tool.map(|schema| schema.name.clone());
        Box::new(AnthropicDecoder::new(self.model.clone(), answer_tool, self.secret.clone()))
    }
}

/// The features of an Anthropic model, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnthropicModelGeneration {
    /// Supports a temperature and forced tool calls, but no response schema.
    First,
    /// Supports a temperature and a response schema.
    Second,
    /// Supports a response schema, rejects a temperature, and may reject forced tool calls.
    Third,
}

impl AnthropicModelGeneration {
    fn of_model(model: &str) -> Self {
        let second = ["-4-5", "-4-6"];
        let first = ["claude-2", "claude-3", "claude-opus-4-0", "claude-opus-4-1", "claude-sonnet-4-0"];
        let dated = ["claude-opus-4-2025", "claude-sonnet-4-2025"];
        if first.iter().chain(&dated).any(|old| model.starts_with(old)) {
            Self::First
        } else if second.iter().any(|version| model.contains(version)) {
            Self::Second
        } else {
            Self::Third
        }
    }
}

/// Tags a signature with its vendor and model, because another model rejects it.
pub(super) fn tag_signature(model: &str, kind: &str, signature: &str) -> String {
    format!("anthropic {model} {kind} {signature}")
}

#[cfg(test)]
mod tests {
    use super::AnthropicModelGeneration;

    #[test]
    fn what_a_model_takes_is_known_by_its_name() {
        let check = |model: &str, age| assert_eq!(AnthropicModelGeneration::of_model(model), age, "{model}");
        check("claude-3-5-haiku-latest", AnthropicModelGeneration::First);
        check("claude-sonnet-4-20250514", AnthropicModelGeneration::First);
        check("claude-opus-4-1-20250805", AnthropicModelGeneration::First);
        check("claude-sonnet-4-5-20250929", AnthropicModelGeneration::Second);
        check("claude-haiku-4-5", AnthropicModelGeneration::Second);
        check("claude-opus-4-6", AnthropicModelGeneration::Second);
        check("claude-opus-4-7", AnthropicModelGeneration::Third);
        check("claude-opus-5-5", AnthropicModelGeneration::Third);
        check("claude-sonnet-5", AnthropicModelGeneration::Third);
    }
}

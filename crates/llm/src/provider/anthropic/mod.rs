//! Anthropic's messages.

mod request;
mod stream;

use self::stream::MessagesDecoder;
use super::dialect::{Decoder, Dialect};
use crate::error::ModelError;
use crate::http::{Call, Secret};
use crate::model::ChatRequest;

/// How one model is asked.
pub(crate) struct Messages {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) streamed: bool,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) secret: Secret,
}

impl Dialect for Messages {
    fn call(&self, request: &ChatRequest) -> Result<Call, ModelError> {
        let body = self.body(request).to_string().into_bytes();
        Ok(Call { url: format!("{}/messages", self.url), body })
    }

    fn decoder(&self, request: &ChatRequest) -> Box<dyn Decoder> {
        let by_tool = request.schema.as_ref().filter(|_| Age::of(&self.model) == Age::First);
        let answer_tool = by_tool.map(|schema| schema.name.clone());
        Box::new(MessagesDecoder::new(self.model.clone(), answer_tool, self.secret.clone()))
    }
}

/// What a model of Anthropic takes, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Takes a temperature and a tool that must be called; knows no schema of answers.
    First,
    /// Takes a temperature and a schema.
    Second,
    /// Takes a schema, refuses a temperature, and may refuse a tool that must be called.
    Third,
}

impl Age {
    fn of(model: &str) -> Self {
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

/// Signatures belong to the vendor and the model that made them; with another they are an error.
pub(super) fn signed(model: &str, kind: &str, signature: &str) -> String {
    format!("anthropic {model} {kind} {signature}")
}

#[cfg(test)]
mod tests {
    use super::Age;

    #[test]
    fn what_a_model_takes_is_known_by_its_name() {
        let check = |model: &str, age| assert_eq!(Age::of(model), age, "{model}");
        check("claude-3-5-haiku-latest", Age::First);
        check("claude-sonnet-4-20250514", Age::First);
        check("claude-opus-4-1-20250805", Age::First);
        check("claude-sonnet-4-5-20250929", Age::Second);
        check("claude-haiku-4-5", Age::Second);
        check("claude-opus-4-6", Age::Second);
        check("claude-opus-4-7", Age::Third);
        check("claude-opus-5-5", Age::Third);
        check("claude-sonnet-5", Age::Third);
    }
}

//! The Gemini `generateContent` API.

mod request;
mod stream;

use self::stream::GeminiDecoder;
use super::dialect::{AnswerDecoder, Dialect};
use crate::error::ModelError;
use crate::http::{ModelApiKey, ModelHttpRequest};
use crate::json_schema::with_ordered_properties;
use crate::model::{ChatRequest, SamplingSetting};

/// The dialect for one model.
pub(crate) struct GeminiDialect {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) streamed: bool,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) secret: ModelApiKey,
}

impl Dialect for GeminiDialect {
    fn build_request(&self, request: &ChatRequest) -> Result<ModelHttpRequest, ModelError> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
        if !self.model.chars().all(plain) || self.model.contains("..") {
            return Err(ModelError::Rejected { reason: format!("`{}` is no name of a model", self.model) });
        }
        let verb = if self.streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let body = with_ordered_properties(&self.request_body(request)).into_bytes();
        Ok(ModelHttpRequest { url: format!("{}/models/{}:{verb}", self.url, self.model), body })
    }

    fn unsupported_settings(&self) -> Vec<SamplingSetting> {
        Vec::new()
    }

    fn decoder(&self, _: &ChatRequest) -> Box<dyn AnswerDecoder> {
        Box::new(GeminiDecoder::new(self.secret.clone()))
    }
}

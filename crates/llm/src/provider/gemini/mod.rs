//! Google's generateContent.

mod request;
mod stream;

use self::stream::GeminiDecoder;
use super::dialect::{Decoder, Dialect};
use crate::error::ModelError;
use crate::http::{Call, Secret};
use crate::model::ChatRequest;

/// How one model is asked.
pub(crate) struct Gemini {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) streamed: bool,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) secret: Secret,
}

impl Dialect for Gemini {
    fn call(&self, request: &ChatRequest) -> Result<Call, ModelError> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
        if !self.model.chars().all(plain) || self.model.contains("..") {
            return Err(ModelError::Rejected { reason: format!("`{}` is no name of a model", self.model) });
        }
        let verb = if self.streamed { "streamGenerateContent?alt=sse" } else { "generateContent" };
        let body = self.body(request).to_string().into_bytes();
        Ok(Call { url: format!("{}/models/{}:{verb}", self.url, self.model), body })
    }

    fn decoder(&self, _: &ChatRequest) -> Box<dyn Decoder> {
        Box::new(GeminiDecoder::new(self.secret.clone()))
    }
}

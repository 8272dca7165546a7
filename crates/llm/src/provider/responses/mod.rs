//! OpenAI's responses, asked so that the vendor keeps nothing.

mod request;
mod stream;

use self::stream::ResponsesDecoder;
use super::dialect::{AnswerDecoder, Dialect};
use crate::error::ModelError;
use crate::http::{ModelApiKey, ModelHttpRequest};
use crate::model::ChatRequest;

/// How one model is asked.
pub(crate) struct ResponsesDialect {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) streamed: bool,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) secret: ModelApiKey,
}

impl Dialect for ResponsesDialect {
    fn build_request(&self, request: &ChatRequest) -> Result<ModelHttpRequest, ModelError> {
        let body = self.request_body(request).to_string().into_bytes();
        Ok(ModelHttpRequest { url: format!("{}/responses", self.url), body })
    }

    fn decoder(&self, _: &ChatRequest) -> Box<dyn AnswerDecoder> {
        Box::new(ResponsesDecoder::new(self.model.clone(), self.secret.clone()))
    }
}

/// A thought as the vendor wants it back: for the model that had it, with its id and its sealed words.
pub(super) fn tag_signature(model: &str, id: &str, sealed: &str) -> String {
    format!("responses {model} {id} {sealed}")
}

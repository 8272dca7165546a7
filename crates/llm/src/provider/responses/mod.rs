//! OpenAI's responses, asked so that the vendor keeps nothing.

mod request;
mod stream;

use self::stream::ResponsesDecoder;
use super::dialect::{Decoder, Dialect};
use crate::error::ModelError;
use crate::http::{Call, Secret};
use crate::model::ChatRequest;

/// How one model is asked.
pub(crate) struct Responses {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) streamed: bool,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) secret: Secret,
}

impl Dialect for Responses {
    fn call(&self, request: &ChatRequest) -> Result<Call, ModelError> {
        let body = self.body(request).to_string().into_bytes();
        Ok(Call { url: format!("{}/responses", self.url), body })
    }

    fn decoder(&self, _: &ChatRequest) -> Box<dyn Decoder> {
        Box::new(ResponsesDecoder::new(self.model.clone(), self.secret.clone()))
    }
}

/// A thought as the vendor wants it back: for the model that had it, with its id and its sealed words.
pub(super) fn signed(model: &str, id: &str, sealed: &str) -> String {
    format!("responses {model} {id} {sealed}")
}

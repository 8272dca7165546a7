//! The OpenAI Responses API, used so that the vendor stores nothing.

mod request;
mod stream;

use self::stream::ResponsesDecoder;
use super::dialect::{AnswerDecoder, Dialect};
use super::openai::is_reasoning_model;
use crate::error::ModelError;
use crate::http::{ModelApiKey, ModelHttpRequest};
use crate::json_schema::with_ordered_properties;
use crate::model::{ChatRequest, SamplingSetting};

/// The dialect for one model.
pub(crate) struct ResponsesDialect {
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) streamed: bool,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) secret: ModelApiKey,
}

impl Dialect for ResponsesDialect {
    fn build_request(&self, request: &ChatRequest) -> Result<ModelHttpRequest, ModelError> {
        let body = with_ordered_properties(&self.request_body(request)).into_bytes();
        Ok(ModelHttpRequest { url: format!("{}/responses", self.url), body })
    }

    fn unsupported_settings(&self) -> Vec<SamplingSetting> {
        use SamplingSetting::{Seed, Stop, Temperature, TopP};
        match is_reasoning_model(&self.model) {
            true => vec![Temperature, TopP, Seed, Stop],
            false => vec![Seed, Stop],
        }
    }

    fn decoder(&self, _: &ChatRequest) -> Box<dyn AnswerDecoder> {
        Box::new(ResponsesDecoder::new(self.model.clone(), self.secret.clone()))
    }
}

/// Tags encrypted reasoning with its model and id, as the vendor wants it back.
pub(super) fn tag_signature(model: &str, id: &str, sealed: &str) -> String {
    format!("responses {model} {id} {sealed}")
}

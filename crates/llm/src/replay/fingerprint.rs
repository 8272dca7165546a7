//! The fingerprint of a request, by which equal requests are found.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::model::{ChatRequest, ModelError};

/// Returns a hash of everything in a request that can change its answer. Message ids are left out, because they differ
/// on every run.
pub(super) fn request_fingerprint(request: &ChatRequest) -> Result<String, ModelError> {
    let mut value = serde_json::to_value(request).map_err(|error| ModelError::Rejected {
        reason: format!("the request cannot be written as JSON: {error}"),
    })?;
    for message in value.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(message) = message {
            message.remove("id");
        }
    }
    let digest = Sha256::digest(value.to_string().as_bytes());
    Ok(hex::encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestLabel;
    use crate::message::Message;
    use crate::model::ModelRole;

    #[test]
    fn only_what_can_change_the_answer_counts() {
        let request = |id: &str, text: &str| ChatRequest::new(vec![Message::user(id, text)]);
        let key = |request: &ChatRequest| request_fingerprint(request).expect("JSON");
        let base = key(&request("a", "질문"));
        assert_eq!(key(&request("b", "질문")), base);
        assert_ne!(key(&request("a", "다른 질문")), base);
        for changed in [
            ChatRequest { temperature: Some(0.5), ..request("a", "질문") },
            ChatRequest { purpose: RequestLabel::new("plan"), ..request("a", "질문") },
            ChatRequest { role: ModelRole::Small, ..request("a", "질문") },
            ChatRequest { max_output_tokens: Some(5), ..request("a", "질문") },
        ] {
            assert_ne!(key(&changed), base, "{changed:?}");
        }
    }
}

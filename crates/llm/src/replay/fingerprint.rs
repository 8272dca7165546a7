//! The fingerprint of a request, by which equal requests are found.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::model::ChatRequest;

/// Returns a hash of everything in a request that can change its answer. Message ids are left out, because they differ
/// on every run.
pub(super) fn request_fingerprint(scope: &[&str], request: &ChatRequest) -> String {
    let mut value = serde_json::to_value(request).unwrap_or(Value::Null);
    for message in value.get_mut("messages").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(message) = message {
            message.remove("id");
        }
    }
    let mut digest = Sha256::new();
    for part in scope {
        // The length distinguishes `a`, `bc` from `ab`, `c`.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.update(value.to_string().as_bytes());
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
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
        let base = request_fingerprint(&["t", "m"], &request("a", "질문"));
        assert_eq!(request_fingerprint(&["t", "m"], &request("b", "질문")), base);
        assert_ne!(request_fingerprint(&["t", "m"], &request("a", "다른 질문")), base);
        assert_ne!(request_fingerprint(&["u", "m"], &request("a", "질문")), base);
        assert_ne!(request_fingerprint(&["tm", ""], &request("a", "질문")), base);
        for changed in [
            ChatRequest { temperature: Some(0.5), ..request("a", "질문") },
            ChatRequest { purpose: RequestLabel::new("plan"), ..request("a", "질문") },
            ChatRequest { role: ModelRole::Small, ..request("a", "질문") },
            ChatRequest { max_output_tokens: Some(5), ..request("a", "질문") },
        ] {
            assert_ne!(request_fingerprint(&["t", "m"], &changed), base, "{changed:?}");
        }
    }
}

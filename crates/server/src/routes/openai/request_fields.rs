//! Every documented field of the requests below `/v1`, and what becomes of it. A field is used, or the request is
//! rejected with its name: none is accepted and ignored.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::routes::unknown_parameter;

/// A field of a request.
#[derive(Clone, Copy, Debug)]
pub struct OpenAiRequestField {
    /// Its name.
    pub name: &'static str,
    /// What becomes of it.
    pub support: OpenAiFieldSupport,
    /// A value as the documentation of OpenAI's API has it, as JSON.
    pub example: &'static str,
}

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenAiFieldSupport {
    /// It is used.
    Used,
    /// Only these values are accepted, as JSON: they ask for what Doran does anyway. So is `null`.
    Only(&'static [&'static str]),
    /// It is rejected, unless it is `null`.
    Rejected,
}

use OpenAiFieldSupport::{Only, Rejected, Used};

const fn field(name: &'static str, support: OpenAiFieldSupport, example: &'static str) -> OpenAiRequestField {
    OpenAiRequestField { name, support, example }
}

/// Fields of `POST /v1/chat/completions`.
pub const CHAT_COMPLETION_FIELDS: &[OpenAiRequestField] = &[
    field("audio", Rejected, r#"{"voice":"alloy","format":"mp3"}"#),
    field("frequency_penalty", Only(&["0", "0.0"]), "0.5"),
    field("function_call", Rejected, r#""auto""#),
    field("functions", Rejected, r#"[{"name":"f"}]"#),
    field("logit_bias", Only(&["{}"]), r#"{"50256":-100}"#),
    field("logprobs", Only(&["false"]), "true"),
    field("max_completion_tokens", Used, "77"),
    field("max_tokens", Used, "77"),
    field("messages", Used, r#"[{"role":"user","content":"hi"}]"#),
    field("metadata", Used, r#"{"team":"sales"}"#),
    field("modalities", Only(&[r#"["text"]"#]), r#"["text","audio"]"#),
    field("model", Used, r#""react""#),
    field("moderation", Rejected, r#"{"enabled":true}"#),
    field("n", Only(&["1"]), "2"),
    field("parallel_tool_calls", Used, "false"),
    field("prediction", Rejected, r#"{"type":"content","content":"x"}"#),
    field("presence_penalty", Only(&["0", "0.0"]), "0.5"),
    field("prompt_cache_key", Rejected, r#""k""#),
    field("prompt_cache_options", Rejected, r#"{"ttl":"1h"}"#),
    field("prompt_cache_retention", Rejected, r#""24h""#),
    field("reasoning_effort", Rejected, r#""high""#),
    field("response_format", Used, r#"{"type":"json_object"}"#),
    field("safety_identifier", Used, r#""u1""#),
    field("seed", Used, "7"),
    field("service_tier", Only(&[r#""auto""#, r#""default""#]), r#""flex""#),
    field("stop", Used, r#""\n""#),
    field("store", Only(&["false"]), "true"),
    field("stream", Used, "true"),
    field("stream_options", Used, r#"{"include_usage":true}"#),
    field("temperature", Used, "0.5"),
    field("tool_choice", Used, r#""required""#),
    field("tools", Used, r#"[{"type":"function","function":{"name":"f"}}]"#),
    field("top_logprobs", Only(&["0"]), "2"),
    field("top_p", Used, "0.5"),
    field("user", Used, r#""u1""#),
    field("verbosity", Only(&[r#""medium""#]), r#""low""#),
    field("web_search_options", Rejected, "{}"),
];

/// Fields of `POST /v1/responses`.
pub const RESPONSE_FIELDS: &[OpenAiRequestField] = &[
    field("access_programs", Rejected, "[]"),
    field("background", Used, "true"),
    field("context_management", Rejected, r#"[{"type":"compaction"}]"#),
    field("conversation", Used, r#""mine""#),
    field("image", Rejected, "{}"),
    field("include", Only(&["[]"]), r#"["reasoning.encrypted_content"]"#),
    field("input", Used, r#""hi""#),
    field("instructions", Used, r#""be brief""#),
    field("max_output_tokens", Used, "77"),
    field("max_tool_calls", Rejected, "3"),
    field("metadata", Used, r#"{"team":"sales"}"#),
    field("model", Used, r#""react""#),
    field("moderation", Rejected, r#"{"enabled":true}"#),
    field("parallel_tool_calls", Used, "false"),
    field("previous_response_id", Used, r#""resp_1""#),
    field("prompt", Rejected, r#"{"id":"pmpt_1"}"#),
    field("prompt_cache_key", Rejected, r#""k""#),
    field("prompt_cache_options", Rejected, r#"{"ttl":"1h"}"#),
    field("prompt_cache_retention", Rejected, r#""24h""#),
    field("reasoning", Only(&["{}"]), r#"{"effort":"high"}"#),
    field("safety_identifier", Used, r#""u1""#),
    field("service_tier", Only(&[r#""auto""#, r#""default""#]), r#""flex""#),
    field("store", Only(&["true"]), "false"),
    field("stream", Used, "true"),
    field(
        "stream_options",
        Only(&["{}", r#"{"include_obfuscation":false}"#]),
        r#"{"include_obfuscation":true}"#,
    ),
    field("temperature", Used, "0.5"),
    field("text", Used, r#"{"format":{"type":"json_object"}}"#),
    field("tool_choice", Used, r#""required""#),
    field("tools", Used, r#"[{"type":"function","name":"f"}]"#),
    field("top_logprobs", Only(&["0"]), "2"),
    field("top_p", Used, "0.5"),
    field("truncation", Only(&[r#""auto""#]), r#""disabled""#),
    field("user", Used, r#""u1""#),
];

/// Fields of `POST /v1/embeddings`.
pub const EMBEDDING_FIELDS: &[OpenAiRequestField] = &[
    field("dimensions", Used, "3"),
    field("encoding_format", Used, r#""base64""#),
    field("input", Used, r#""hi""#),
    field("model", Used, r#""built-in""#),
    field("user", Rejected, r#""u1""#),
];

/// A body whose fields are all known and supported.
pub(super) struct RequestFields(Map<String, Value>);

impl RequestFields {
    /// Checks a body by the table of its route.
    pub(super) fn check(body: Map<String, Value>, table: &[OpenAiRequestField]) -> Result<Self, ApiError> {
        for (name, value) in &body {
            let Some(known) = table.iter().find(|field| field.name == name) else {
                return Err(unknown_parameter(name));
            };
            match known.support {
                _ if value.is_null() => {}
                Used => {}
                Only(values) => {
                    if !values.contains(&value.to_string().as_str()) {
                        let values = values.join(", ");
                        return Err(ApiError::for_parameter(
                            name,
                            format!("it can only be {values} here"),
                            format!("여기서는 {values}만 쓸 수 있습니다"),
                        ));
                    }
                }
                Rejected => return Err(unsupported_parameter(name)),
            }
        }
        Ok(Self(body))
    }

    /// The value of a field; none if it is missing or `null`.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|error| wrong_value(name, &error)),
        }
    }

    /// The value of a field that must be there.
    pub(super) fn require<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ApiError> {
        self.take(name)?.ok_or_else(|| ApiError::for_parameter(name, "it is missing", "값이 없습니다"))
    }
}

/// An object inside of a request, with the place where it stands.
pub(super) struct FieldObject {
    place: String,
    fields: Map<String, Value>,
}

impl FieldObject {
    /// Reads an object.
    pub(super) fn new(place: impl Into<String>, value: Value) -> Result<Self, ApiError> {
        let place = place.into();
        match value {
            Value::Object(fields) => Ok(Self { place, fields }),
            _ => Err(ApiError::for_parameter(&place, "it is not an object", "객체가 아닙니다")),
        }
    }

    /// Where a field of it stands.
    pub(super) fn place_of(&self, name: &str) -> String {
        format!("{}.{name}", self.place)
    }

    /// Takes a field out; none if it is missing or `null`.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        match self.fields.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| wrong_value(&self.place_of(name), &error)),
        }
    }

    /// Takes a field out that must be there.
    pub(super) fn require<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ApiError> {
        let place = self.place_of(name);
        self.take(name)?.ok_or_else(|| ApiError::for_parameter(&place, "it is missing", "값이 없습니다"))
    }

    /// Leaves out fields that Doran itself adds to answers, and that clients send back with them.
    pub(super) fn skip_own(mut self, names: &[&str]) -> Self {
        self.fields.retain(|name, _| !names.contains(&name.as_str()));
        self
    }

    /// Rejects what was not taken out.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        match self.fields.iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => Err(unsupported_parameter(&self.place_of(name))),
            None => Ok(()),
        }
    }
}

/// A value that does not fit, in the words of JSON.
fn wrong_value(place: &str, error: &serde_json::Error) -> ApiError {
    let text = error.to_string();
    let reason = match text.rsplit_once(", expected ") {
        Some((given, "f32" | "f64")) => format!("{given}, expected a number"),
        Some((given, "u32" | "u64" | "usize")) => format!("{given}, expected a whole number from 0"),
        Some((given, "i64")) => format!("{given}, expected a whole number"),
        _ => text.clone(),
    };
    let ko = format!("값이 맞지 않습니다 ({reason})");
    ApiError::for_parameter(place, reason, ko)
}

/// A parameter of OpenAI's API that Doran does not have.
pub(super) fn unsupported_parameter(name: &str) -> ApiError {
    ApiError::for_parameter(
        name,
        "Doran does not support this parameter; leave it out",
        "도란이 지원하지 않는 매개변수입니다. 빼고 보내세요",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_example_is_json_and_every_field_has_one_row() {
        for table in [CHAT_COMPLETION_FIELDS, EMBEDDING_FIELDS, RESPONSE_FIELDS] {
            for (place, field) in table.iter().enumerate() {
                assert!(serde_json::from_str::<Value>(field.example).is_ok(), "{}", field.name);
                assert!(table[..place].iter().all(|before| before.name < field.name), "{}", field.name);
                if let Only(values) = field.support {
                    assert!(!values.contains(&field.example), "{}", field.name);
                }
            }
        }
    }

    #[test]
    fn a_null_asks_for_nothing() {
        let body = json!({ "audio": null, "n": null, "model": null });
        let Value::Object(body) = body else { panic!("an object") };
        let mut fields = RequestFields::check(body, CHAT_COMPLETION_FIELDS).expect("nothing is asked for");
        assert!(fields.take::<String>("model").is_ok_and(|model| model.is_none()));
        assert!(fields.require::<String>("model").is_err());
    }
}

//! The parameters of a route: in its path, its query and its headers.

use serde_json::{Value, json};

use super::operation::{IdempotencyEffect, thread_name_schema};
use super::schemas::remove_null;

/// The names of the parts of a path that vary.
pub(super) fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

pub(super) fn path_parameter(name: &str) -> Value {
    let text = || json!({ "type": "string" });
    let (description, schema) = match name {
        "thread" => ("The name of a thread: 1 to 200 characters.", thread_name_schema()),
        "run" => ("The id of a run.", json!({ "type": "string", "format": "uuid" })),
        "document" => ("The id of a document.", text()),
        "change" => {
            ("What to do.", json!({ "type": "string", "enum": ["pause", "resume", "cancel", "retry"] }))
        }
        "fact" => ("The id of a fact.", text()),
        "assistant" => ("The id of an assistant, or the name of its graph.", text()),
        "checkpoint" => ("The id of a checkpoint.", json!({ "type": "string", "format": "uuid" })),
        "response" => ("The id of a response.", text()),
        "provider" => ("The name of a provider of models, as `GET /api/models/offers` lists it.", text()),
        "cron" => ("The id of a cron.", text()),
        "namespace" => ("The name of a node with a subgraph, or a path of such names with `|`.", text()),
        "set" => ("The name of a set of evaluations.", text()),
        "case" => ("The name of a case of the set.", text()),
        "agent" | "model" => ("The name of an agent.", text()),
        _ => ("", text()),
    };
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
}

/// One parameter for each field. A field may be left out, but not be null.
pub(super) fn query_parameters(schema: &Value) -> Vec<Value> {
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
    let fields = schema["properties"].as_object().into_iter().flatten();
    let parameters = fields.map(|(name, field)| {
        let mut field = field.clone();
        remove_null(&mut field);
        let description = field.as_object_mut().and_then(|field| field.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": is_required(name),
            "description": description,
            "schema": field,
        })
    });
    parameters.collect()
}

pub(super) fn idempotency_parameter(repeated: IdempotencyEffect) -> Value {
    let description = match repeated {
        IdempotencyEffect::SameResponse => {
            "A repeated request with the same key changes nothing. It gets the first response again, with `Idempotent-Replayed: true`. A different request with the same key is rejected with `422`."
        }
        IdempotencyEffect::SameRun => {
            "A repeated request with the same key starts nothing new. It returns to the same run. A different request with the same key is rejected with `422`."
        }
    };
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": false,
        "description": description,
        "schema": { "type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$" },
    })
}

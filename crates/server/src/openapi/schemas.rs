//! The schemas of a document.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Makes the schemas of a document and collects what they refer to.
pub(super) struct DocumentSchemas {
    pub(super) requests: SchemaGenerator,
    pub(super) responses: SchemaGenerator,
}

impl DocumentSchemas {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            responses: settings().for_serialize().into_generator(),
        }
    }

    /// Types of responses and of requests. A type of both is described as responses have it.
    pub(super) fn into_definitions(mut self) -> Map<String, Value> {
        let mut all = self.requests.take_definitions(true);
        all.extend(self.response_definitions());
        all
    }

    pub(super) fn response_definitions(&mut self) -> Map<String, Value> {
        let mut all = self.responses.take_definitions(true);
        all.values_mut().for_each(omit_instead_of_null);
        all
    }
}

/// The server leaves an optional field out and never writes `null` for it.
pub(crate) fn omit_instead_of_null(schema: &mut Value) {
    match schema {
        Value::Object(parts) => {
            let required = parts.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            if let Some(Value::Object(fields)) = parts.get_mut("properties") {
                for (_, field) in
                    fields.iter_mut().filter(|(name, _)| !required.iter().any(|one| one == *name))
                {
                    remove_null(field);
                }
            }
            parts.values_mut().for_each(omit_instead_of_null);
        }
        Value::Array(items) => items.iter_mut().for_each(omit_instead_of_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Takes `null` out of what a value may be.
pub(super) fn remove_null(schema: &mut Value) {
    let Some(parts) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = parts.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            parts.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = parts.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            parts.remove("anyOf");
            // The field says more about itself than its type does.
            for (key, value) in only {
                parts.entry(key).or_insert(value);
            }
        }
    }
}

/// Takes the brackets of links between Rust items out of descriptions.
pub(super) fn unlink_rust_names(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == "description" => {
                        *text = text.replace("[`", "`").replace("`]", "`").replace('\n', " ");
                    }
                    other => unlink_rust_names(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unlink_rust_names),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

//! Response schemas: derived from a Rust type, adapted to vendors, and checked against answers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::json_schema::{SchemaValidator, SchemaViolation};
use crate::model::ResponseSchema;

/// Returns the schema of a type, in the subset that vendors support: no references where they can be avoided, no
/// titles, no number formats, no additional properties.
pub fn response_schema_of<T: JsonSchema>() -> ResponseSchema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    remove_unsupported_keywords(&mut schema);
    ResponseSchema { name: vendor_safe_schema_name(&T::schema_name()), schema }
}

/// Returns up to five violations of a schema, each with its location. A schema that cannot be parsed is a violation.
pub(crate) fn schema_violations(schema: &Value, value: &Value) -> Vec<String> {
    let validator = match cached_validator(schema) {
        Ok(validator) => validator,
        Err(error) => return vec![error],
    };
    let found = validator.violations(value, MAX_REPORTED_VIOLATIONS);
    found.iter().map(|violation| describe_violation(violation, value)).collect()
}

/// A finding with the value it is about, where that is short.
fn describe_violation(violation: &SchemaViolation, value: &Value) -> String {
    let SchemaViolation { place, what } = violation;
    let quoted = value.pointer(place).map(Value::to_string).filter(|text| text.len() <= MAX_QUOTED_BYTES);
    let place = if place.is_empty() { "/" } else { place };
    match (quoted, what.strip_prefix("it ")) {
        (Some(quoted), Some(rest)) => format!("at `{place}`: {quoted} {rest}"),
        _ => format!("at `{place}`: {what}"),
    }
}

/// Compiling a schema costs more than validating a value, and the same few schemas are used again and again.
fn cached_validator(schema: &Value) -> Result<Arc<SchemaValidator>, String> {
    static VALIDATOR_CACHE: Mutex<VecDeque<(Value, Arc<SchemaValidator>)>> = Mutex::new(VecDeque::new());
    let ready = || VALIDATOR_CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, validator)) = ready().iter().find(|(known, _)| known == schema) {
        return Ok(validator.clone());
    }
    let validator =
        SchemaValidator::new(schema).map_err(|error| format!("the schema itself cannot be read: {error}"))?;
    let validator = Arc::new(validator);
    let mut ready = ready();
    if ready.len() == MAX_CACHED_VALIDATORS {
        ready.pop_front();
    }
    ready.push_back((schema.clone(), validator.clone()));
    Ok(validator)
}

/// The maximum number of compiled schemas in the cache.
const MAX_CACHED_VALIDATORS: usize = 32;

const MAX_REPORTED_VIOLATIONS: usize = 5;

/// A longer value is not quoted.
const MAX_QUOTED_BYTES: usize = 200;

/// Returns the schema for strict modes: every property is required and no other is allowed. An optional property
/// becomes nullable instead.
pub(crate) fn strict_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    make_strict(&mut schema);
    schema
}

fn make_strict(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    let declared = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let exists = |name: &Value| name.as_str().is_some_and(|name| properties.contains_key(name));
        let mut required: Vec<Value> = declared.into_iter().filter(exists).collect();
        for (name, property) in properties.iter_mut() {
            if !required.iter().any(|required| required == name) {
                allow_null(property);
                required.push(name.as_str().into());
            }
        }
        schema.insert("required".into(), required.into());
        schema.insert("additionalProperties".into(), false.into());
    }
    schema.remove("default");
    each_subschema(schema, make_strict);
}

fn allow_null(property: &mut Value) {
    let Value::Object(schema) = property else { return };
    match schema.get_mut("type") {
        Some(Value::Array(types)) if !types.iter().any(|kind| kind == "null") => types.push("null".into()),
        Some(kind @ Value::String(_)) if kind != "null" => {
            *kind = Value::Array(vec![kind.clone(), "null".into()]);
            if let Some(Value::Array(choices)) = schema.get_mut("enum") {
                choices.push(Value::Null);
            }
        }
        _ => {}
    }
}

/// Removes keywords that vendors reject or ignore.
fn remove_unsupported_keywords(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema.remove("title");
    schema.remove("$schema");
    if let Some(Value::String(format)) = schema.get("format")
        && !KNOWN_FORMATS.contains(&format.as_str())
    {
        schema.remove("format");
    }
    if schema.contains_key("properties") && !schema.contains_key("additionalProperties") {
        schema.insert("additionalProperties".into(), false.into());
    }
    each_subschema(schema, remove_unsupported_keywords);
}

/// The formats that every strict mode supports.
const KNOWN_FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "uuid"];

fn each_subschema(schema: &mut Map<String, Value>, visit: fn(&mut Value)) {
    for (key, value) in schema.iter_mut() {
        match key.as_str() {
            "properties" | "$defs" | "definitions" | "patternProperties" => {
                if let Value::Object(named) = value {
                    named.values_mut().for_each(visit);
                }
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                if let Value::Array(several) = value {
                    several.iter_mut().for_each(visit);
                }
            }
            "items" | "additionalProperties" | "not" => visit(value),
            _ => {}
        }
    }
}

/// Returns a type name in the characters that vendors accept.
fn vendor_safe_schema_name(name: &str) -> String {
    let cleaned: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' })
        .take(64)
        .collect();
    if cleaned.is_empty() { "answer".into() } else { cleaned }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct RouteSchemaSample {
        /// Where to go.
        route: RouteSchemaChoice,
        reason: String,
        weight: Option<u32>,
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum RouteSchemaChoice {
        Rag,
        Agent,
    }

    #[test]
    fn a_type_becomes_a_plain_schema() {
        let schema = response_schema_of::<RouteSchemaSample>();
        assert_eq!(schema.name, "RouteSchemaSample");
        assert_eq!(
            schema.schema,
            json!({
                "type": "object",
                "properties": {
                    "route": {"description": "Where to go.", "type": "string", "enum": ["rag", "agent"]},
                    "reason": {"type": "string"},
                    "weight": {"type": ["integer", "null"], "minimum": 0}
                },
                "required": ["route", "reason"],
                "additionalProperties": false
            })
        );
    }

    #[test]
    fn a_strict_schema_requires_everything() {
        let strict = strict_schema(&response_schema_of::<RouteSchemaSample>().schema);
        assert_eq!(strict["required"], json!(["route", "reason", "weight"]), "the declared order stays");
    }

    #[test]
    fn findings_name_their_place() {
        let schema = response_schema_of::<RouteSchemaSample>().schema;
        assert_eq!(schema_violations(&schema, &json!({"route": "rag", "reason": ""})), Vec::<String>::new());
        let found = schema_violations(&schema, &json!({"route": "bus", "reason": "", "weight": -1}));
        assert!(found.iter().any(|what| what.starts_with("at `/route`")), "{found:?}");
        assert!(found.iter().any(|what| what.starts_with("at `/weight`")), "{found:?}");
        let unreadable = schema_violations(&json!({"type": 3}), &json!(1));
        assert!(unreadable[0].starts_with("the schema itself cannot be read"), "{unreadable:?}");
    }
}

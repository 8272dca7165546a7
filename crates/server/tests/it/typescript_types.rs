//! TypeScript types of the schemas in an OpenAPI document.

use serde_json::{Map, Value};

const HEADER: &str = "\
// Types of the HTTP API, generated from the Rust types by `cargo xtask openapi`. Do not edit.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
";

/// One exported type for each schema of the document.
pub(crate) fn typescript_types(document: &Value) -> String {
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let mut text = HEADER.to_owned();
    for (name, schema) in schemas {
        text.push('\n');
        text.push_str(&comment(schema, ""));
        text.push_str(&format!("export type {name} = {}\n", type_of(schema, "")));
    }
    text
}

/// The type of a schema, written at this indentation.
pub(crate) fn type_of(schema: &Value, indent: &str) -> String {
    let Some(schema) = schema.as_object() else { return "Json".to_owned() };
    let mut parts = Vec::new();
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        parts.push(reference.rsplit('/').next().expect("a name").to_owned());
    }
    if let Some(value) = schema.get("const") {
        parts.push(literal(value));
    } else if let Some(Value::Array(values)) = schema.get("enum") {
        parts.push(union(values.iter().map(literal)));
    } else if schema.contains_key("type") || schema.contains_key("properties") {
        parts.push(union(type_names(schema).into_iter().map(|kind| type_of_kind(kind, schema, indent))));
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(Value::Array(choices)) = schema.get(key) {
            parts.push(union(choices.iter().map(|choice| type_of(choice, indent))));
        }
    }
    if let Some(Value::Array(all)) = schema.get("allOf") {
        parts.extend(all.iter().map(|one| type_of(one, indent)));
    }
    match parts.as_slice() {
        [] => "Json".to_owned(),
        [only] => only.clone(),
        several => several.iter().map(|part| grouped(part)).collect::<Vec<_>>().join(" & "),
    }
}

fn type_names(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec!["object"],
    }
}

fn type_of_kind(kind: &str, schema: &Map<String, Value>, indent: &str) -> String {
    match kind {
        "null" | "boolean" | "string" => kind.to_owned(),
        "integer" | "number" => "number".to_owned(),
        "array" => match schema.get("items") {
            Some(items) => format!("{}[]", grouped(&type_of(items, indent))),
            None => "Json[]".to_owned(),
        },
        "object" => type_of_object(schema, indent),
        other => panic!("the type `{other}` is not known"),
    }
}

fn type_of_object(schema: &Map<String, Value>, indent: &str) -> String {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let inner = format!("{indent}  ");
    let mut fields = String::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let mark = if is_required(name) { "" } else { "?" };
        fields.push_str(&comment(field, &inner));
        fields.push_str(&format!("{inner}{name}{mark}: {}\n", type_of(field, &inner)));
    }
    match schema.get("additionalProperties") {
        Some(more @ Value::Object(_)) if fields.is_empty() => {
            format!("{{ [key: string]: {} }}", type_of(more, indent))
        }
        _ if fields.is_empty() => "{ [key: string]: Json }".to_owned(),
        _ => format!("{{\n{fields}{indent}}}"),
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
        other => other.to_string(),
    }
}

/// Each choice once.
fn union(choices: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for choice in choices {
        if !all.contains(&choice) {
            all.push(choice);
        }
    }
    all.join(" | ")
}

/// A type as a part of another.
fn grouped(part: &str) -> String {
    let is_object =
        part.starts_with('{') && part.ends_with('}') && !part.contains("} |") && !part.contains("} &");
    if part.contains(" | ") && !is_object || part.contains(" & ") {
        format!("({part})")
    } else {
        part.to_owned()
    }
}

fn comment(schema: &Value, indent: &str) -> String {
    match schema.get("description").and_then(Value::as_str) {
        Some(text) => format!("{indent}/** {} */\n", text.replace("*/", "* /")),
        None => String::new(),
    }
}

#[test]
fn a_schema_becomes_the_type_of_its_values() {
    let check = |schema: Value, expected: &str| assert_eq!(type_of(&schema, ""), expected);
    use serde_json::json;
    check(json!(true), "Json");
    check(json!({ "description": "anything" }), "Json");
    check(json!({ "type": ["string", "null"] }), "string | null");
    check(json!({ "type": "array", "items": { "type": ["integer", "null"] } }), "(number | null)[]");
    check(json!({ "$ref": "#/components/schemas/ThreadInfo" }), "ThreadInfo");
    check(json!({ "anyOf": [{ "$ref": "#/x/A" }, { "type": "null" }] }), "A | null");
    check(json!({ "oneOf": [{ "const": "a" }, { "enum": ["b", "it's"] }] }), "'a' | 'b' | 'it\\'s'");
    check(
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        "{ [key: string]: string }",
    );
    check(
        json!({ "type": "object", "required": ["a"], "properties": {
            "a": { "type": "number", "description": "First." }, "b": true } }),
        "{\n  /** First. */\n  a: number\n  b?: Json\n}",
    );
    check(
        json!({ "properties": { "n": { "type": "integer" } }, "oneOf": [{ "const": 1 }, { "const": 2 }] }),
        "{\n  n?: number\n} & (1 | 2)",
    );
}

//! Checks JSON values against JSON Schemas: the arguments of tools and the answers of models.
//!
//! Schemas come from our own types, from people's agents and from MCP servers, so they are hostile input. A schema is
//! read once into a list of rules, with every pattern compiled and every reference resolved inside the schema; nothing is
//! fetched. A check has a budget of steps and a limit on its depth, so no schema can hold a thread or fill the memory.
//!
//! All keywords of draft 2020-12 that assert something are known, and the older spellings of drafts 4 to 2019-09, but
//! for `unevaluatedItems`, `unevaluatedProperties`, `$dynamicRef` and `$recursiveRef`: a schema with one of these is
//! refused. `format` asserts nothing, as the current draft says. Patterns have no look-around and no back-references.

mod check;
mod keywords;
mod pattern;
mod property_order;
mod references;

use std::collections::{BTreeMap, HashSet};

use regex::Regex;
use serde_json::{Number, Value};

pub(crate) use self::property_order::with_ordered_properties;

/// A schema that is ready to check values.
#[derive(Debug)]
pub struct SchemaValidator {
    /// The schema itself is the first.
    nodes: Vec<SchemaNode>,
}

/// Why a schema cannot be used: where and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at `{place}`: {reason}")]
pub struct InvalidSchema {
    /// A JSON pointer into the schema.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

/// What is wrong with a value. It does not quote the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaViolation {
    /// A JSON pointer into the value; empty for the value itself.
    pub place: String,
    /// What is wrong there, of a value that is called `it`.
    pub what: String,
}

impl std::fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.place.is_empty() { "/" } else { &self.place };
        write!(f, "{place}: {}", self.what)
    }
}

impl SchemaValidator {
    /// Reads a schema.
    pub fn new(schema: &Value) -> Result<Self, InvalidSchema> {
        Ok(Self { nodes: references::schema_nodes(schema)? })
    }

    /// What is wrong with a value; the first `most` findings, none if it fits. A value that cannot be checked within
    /// the budget does not fit.
    pub fn violations(&self, value: &Value, limit: usize) -> Vec<SchemaViolation> {
        check::violations(&self.nodes, value, limit)
    }
}

/// A place in the list of nodes.
type SchemaNodeId = usize;

/// A schema or a part of one: all rules must hold.
type SchemaNode = Vec<SchemaRule>;

#[derive(Debug)]
enum SchemaRule {
    Never,
    Types(Vec<JsonType>),
    /// The canonical texts of the values, and how they are shown.
    OneOf(HashSet<String>, String),
    Least(Number, NumberBound),
    Most(Number, NumberBound),
    MultipleOf(Number),
    MinLength(u64),
    MaxLength(u64),
    Pattern(Regex, String),
    MinItems(u64),
    MaxItems(u64),
    UniqueItems,
    Items {
        first: Vec<SchemaNodeId>,
        rest: Option<SchemaNodeId>,
    },
    Contains {
        node: SchemaNodeId,
        min: u64,
        max: Option<u64>,
    },
    MinProperties(u64),
    MaxProperties(u64),
    Required(Vec<String>),
    Properties {
        named: BTreeMap<String, SchemaNodeId>,
        patterns: Vec<(Regex, SchemaNodeId)>,
        rest: Option<SchemaNodeId>,
    },
    PropertyNames(SchemaNodeId),
    /// Where this property is, those must be.
    Requires(String, Vec<String>),
    /// Where this property is, the node must hold.
    Implies(String, SchemaNodeId),
    Also(SchemaNodeId),
    AnyOf(Vec<SchemaNodeId>),
    ExactlyOne(Vec<SchemaNodeId>),
    Not(SchemaNodeId),
    If {
        condition: SchemaNodeId,
        then: Option<SchemaNodeId>,
        otherwise: Option<SchemaNodeId>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberBound {
    Inclusive,
    Exclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonType {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

/// Every type with its name.
const JSON_TYPES: [(JsonType, &str); 7] = [
    (JsonType::Null, "null"),
    (JsonType::Boolean, "boolean"),
    (JsonType::Integer, "integer"),
    (JsonType::Number, "number"),
    (JsonType::String, "string"),
    (JsonType::Array, "array"),
    (JsonType::Object, "object"),
];

/// The same text for values that JSON Schema calls equal: `1` and `1.0`, objects in any order.
fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float)
                if number.is_f64() && float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0 =>
            {
                format!("{}", float as i64)
            }
            _ => number.to_string(),
        },
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let mut fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            fields.sort();
            format!("{{{}}}", fields.join(","))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;

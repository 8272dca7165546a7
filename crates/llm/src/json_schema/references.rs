//! Finds all parts of a schema that matter, and what its references mean.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::keywords::SchemaKeywords;
use super::pattern::SchemaPatterns;
use super::{InvalidSchema, SchemaNode, SchemaNodeId, SchemaRule};

/// Keywords whose meaning would be lost if they were left out.
const UNSUPPORTED: [&str; 4] = ["$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"];

/// The rules of a schema and of all its parts that matter.
pub(super) fn schema_nodes(schema: &Value) -> Result<Vec<SchemaNode>, InvalidSchema> {
    let version = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let old = ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|draft| version.contains(draft));
    let mut reader = SchemaReader {
        root: schema,
        old,
        known: HashMap::new(),
        nodes: Vec::new(),
        due: Vec::new(),
        patterns: SchemaPatterns::default(),
    };
    reader.node_at(String::new(), schema);
    while let Some((id, place, value)) = reader.due.pop() {
        let rules = reader.rules(&place, value)?;
        reader.nodes[id] = rules;
    }
    if let Some(circular) = circular_node(&reader.nodes) {
        let place = reader.known.iter().find(|(_, id)| **id == circular).map_or("", |(place, _)| place);
        return Err(invalid(place, "it refers to itself for the same value, so that nothing can be checked"));
    }
    Ok(reader.nodes)
}

/// A node that leads back to itself without going deeper into the value. No check of such a schema would end.
fn circular_node(nodes: &[SchemaNode]) -> Option<SchemaNodeId> {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Visit {
        New,
        OnTheWay,
        Done,
    }
    let next: Vec<Vec<SchemaNodeId>> = nodes.iter().map(nodes_for_same_value).collect();
    let mut visits = vec![Visit::New; nodes.len()];
    for start in 0..nodes.len() {
        let mut way = if visits[start] == Visit::New { vec![(start, 0)] } else { Vec::new() };
        while let Some((id, place)) = way.last_mut() {
            visits[*id] = Visit::OnTheWay;
            let Some(other) = next[*id].get(*place) else {
                visits[*id] = Visit::Done;
                way.pop();
                continue;
            };
            *place += 1;
            match visits[*other] {
                Visit::New => way.push((*other, 0)),
                Visit::OnTheWay => return Some(*other),
                Visit::Done => {}
            }
        }
    }
    None
}

/// The nodes that the value itself is checked by, not its parts.
fn nodes_for_same_value(node: &SchemaNode) -> Vec<SchemaNodeId> {
    let mut nodes = Vec::new();
    for rule in node {
        match rule {
            SchemaRule::Also(id) | SchemaRule::Not(id) | SchemaRule::Implies(_, id) => nodes.push(*id),
            SchemaRule::AnyOf(several) | SchemaRule::ExactlyOne(several) => nodes.extend(several),
            SchemaRule::If { condition, then, otherwise } => {
                nodes.extend([Some(*condition), *then, *otherwise].into_iter().flatten());
            }
            _ => {}
        }
    }
    nodes
}

/// The parts that were found, and those that are still to be read.
pub(super) struct SchemaReader<'a> {
    root: &'a Value,
    /// Until draft 7 nothing beside a reference counts.
    pub(super) old: bool,
    /// By their place, so that a part which refers to itself is read once.
    known: HashMap<String, SchemaNodeId>,
    nodes: Vec<SchemaNode>,
    due: Vec<(SchemaNodeId, String, &'a Value)>,
    pub(super) patterns: SchemaPatterns,
}

impl<'a> SchemaReader<'a> {
    /// The node of the part at this place; the part is read later.
    pub(super) fn node_at(&mut self, place: String, value: &'a Value) -> SchemaNodeId {
        if let Some(id) = self.known.get(&place) {
            return *id;
        }
        let id = self.nodes.len();
        self.nodes.push(SchemaNode::new());
        self.known.insert(place.clone(), id);
        self.due.push((id, place, value));
        id
    }

    fn rules(&mut self, place: &str, value: &'a Value) -> Result<SchemaNode, InvalidSchema> {
        let schema = match value {
            Value::Bool(true) => return Ok(SchemaNode::new()),
            Value::Bool(false) => return Ok(vec![SchemaRule::Never]),
            Value::Object(schema) => schema,
            _ => return Err(invalid(place, "a schema is an object, `true` or `false`")),
        };
        let mut part = SchemaKeywords { place, schema, reader: self, rules: SchemaNode::new() };
        if schema.contains_key("$ref") {
            part.reference()?;
            if part.reader.old {
                return Ok(part.rules);
            }
        }
        if let Some(unsupported) = UNSUPPORTED.iter().find(|name| schema.contains_key(**name)) {
            return Err(invalid(place, format!("`{unsupported}` is not supported")));
        }
        part.values()?;
        part.numbers()?;
        part.sizes()?;
        part.arrays()?;
        part.objects()?;
        part.combinations()?;
        Ok(part.rules)
    }

    /// The part of the schema that a reference means.
    pub(super) fn target(&self, place: &str, reference: &str) -> Result<(String, &'a Value), InvalidSchema> {
        let own = ["$id", "id"].iter().find_map(|key| self.root.get(key)?.as_str()).unwrap_or_default();
        let own = own.trim_end_matches('#');
        let (before, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let lost = || invalid(place, format!("`{reference}` is not in the schema"));
        if !before.is_empty() && before != own {
            return Err(lost());
        }
        let fragment = percent_decode_str(fragment).decode_utf8().map_err(|_| lost())?.into_owned();
        if fragment.is_empty() || fragment.starts_with('/') {
            let target = self.root.pointer(&fragment).ok_or_else(lost)?;
            return Ok((fragment, target));
        }
        anchored(self.root, &fragment, String::new()).ok_or_else(lost)
    }
}

pub(super) fn invalid(place: &str, reason: impl Into<String>) -> InvalidSchema {
    InvalidSchema { place: if place.is_empty() { "/".into() } else { place.into() }, reason: reason.into() }
}

/// A name as it stands in a pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The part with this anchor, and where it is.
fn anchored<'a>(value: &'a Value, name: &str, place: String) -> Option<(String, &'a Value)> {
    match value {
        Value::Object(fields) => {
            let old = ["$id", "id"].iter().any(|key| {
                fields.get(*key).and_then(Value::as_str).and_then(|id| id.strip_prefix('#')) == Some(name)
            });
            if old || fields.get("$anchor").and_then(Value::as_str) == Some(name) {
                return Some((place, value));
            }
            let deeper =
                |(key, value): (&String, _)| anchored(value, name, format!("{place}/{}", escaped(key)));
            fields.iter().find_map(deeper)
        }
        Value::Array(values) => {
            let deeper = |(at, value)| anchored(value, name, format!("{place}/{at}"));
            values.iter().enumerate().find_map(deeper)
        }
        _ => None,
    }
}

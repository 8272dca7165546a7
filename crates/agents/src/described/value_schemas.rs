//! The JSON Schemas of the values that the nodes of a described agent store.

use serde_json::{Map, Value, json};

use super::description::{AgentDescription, NodeDescription};

/// The schemas of the values, by their names. A subgraph without an `input` stores the values of another agent, which are not
/// known here.
pub(crate) fn value_schemas(description: &AgentDescription) -> Value {
    Value::Object(description.nodes.iter().flat_map(node_value_schemas).collect())
}

fn node_value_schemas(node: &NodeDescription) -> Map<String, Value> {
    let name = node.into.as_ref().unwrap_or(&node.name).clone();
    let one_of = |values: &[&str]| json!({ "type": "string", "enum": values });
    let schema = match node.r#use.as_str() {
        "route" | "classify" => json!({ "type": "string", "enum": node.choices }),
        "call_model" => one_of(&["tools", "answer"]),
        "evaluate" => {
            let rounds = (format!("{name}_rounds"), json!({ "type": "integer" }));
            let missing = (format!("{name}_missing"), json!({ "type": ["string", "null"] }));
            return Map::from_iter([(name, one_of(&["sufficient", "insufficient"])), missing, rounds]);
        }
        "map" => json!({ "type": "array" }),
        "interrupt" | "http" => json!({}),
        "subgraph" if node.input.is_some() => json!({}),
        _ => return Map::new(),
    };
    Map::from_iter([(name, schema)])
}

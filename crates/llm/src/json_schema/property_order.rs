//! Writes JSON with the properties of its schemas in the order of `required`.
//!
//! A model writes the fields of an answer in the order of the schema, and a reason helps only if it comes before the
//! choice. An object of `serde_json` is sorted by its keys, but `required` is a list and keeps the declared order.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

/// Returns the text of JSON in which every schema lists its required properties first, in the order of `required`.
pub(crate) fn with_ordered_properties(json: &Value) -> String {
    // A value always has a text.
    serde_json::to_string(&OrderedJson(json)).unwrap_or_else(|_| json.to_string())
}

struct OrderedJson<'a>(&'a Value);

struct OrderedProperties<'a> {
    properties: &'a Map<String, Value>,
    required: &'a [Value],
}

impl Serialize for OrderedJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    match (name.as_str(), value, fields.get("required")) {
                        ("properties", Value::Object(properties), Some(Value::Array(required))) => {
                            map.serialize_entry(name, &OrderedProperties { properties, required })?;
                        }
                        _ => map.serialize_entry(name, &OrderedJson(value))?,
                    }
                }
                map.end()
            }
            Value::Array(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(&OrderedJson(value))?;
                }
                list.end()
            }
            plain => plain.serialize(serializer),
        }
    }
}

impl Serialize for OrderedProperties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let place = |name: &str| self.required.iter().position(|required| required == name);
        let mut ordered: Vec<(&String, &Value)> = self.properties.iter().collect();
        // The sort is stable: optional properties stay behind, in their order.
        ordered.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        serializer.collect_map(ordered.into_iter().map(|(name, schema)| (name, OrderedJson(schema))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn required_properties_come_first_and_in_their_order() {
        let inner = json!({"properties": {"a": {}, "b": {}}, "required": ["b", "a"]});
        let schema =
            json!({"properties": {"any": {}, "choice": inner, "why": {}}, "required": ["why", "choice"]});
        assert_eq!(
            with_ordered_properties(&json!([schema])),
            r#"[{"properties":{"why":{},"choice":{"properties":{"b":{},"a":{}},"required":["b","a"]},"any":{}},"required":["why","choice"]}]"#
        );
        // Properties of these names are nothing special.
        let named = json!({"properties": {"required": {}, "properties": {"b": {}, "a": {}}}});
        assert_eq!(with_ordered_properties(&named), named.to_string());
    }
}

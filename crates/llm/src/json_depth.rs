//! Bounds how deep JSON from outside is nested. Values that are kept or sent on are wrapped in more levels, and most
//! parsers stop at 127.

use serde_json::Value;

/// How many levels of lists and objects are taken from a model or a tool.
pub const MAX_JSON_DEPTH: usize = 64;

/// Returns whether a value has more than [`MAX_JSON_DEPTH`] levels.
pub fn is_too_deep(value: &Value) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        match value {
            Value::Array(_) | Value::Object(_) if depth == MAX_JSON_DEPTH => return true,
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    false
}

/// Returns a value that is not too deep. One that is becomes its JSON text.
pub(crate) fn bounded_depth(value: Value) -> Value {
    if is_too_deep(&value) { Value::String(value.to_string()) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_too_many_levels_becomes_text() {
        let lists = |depth| (0..depth).fold(Value::from(1), |inner, _| Value::from(vec![inner]));
        assert_eq!(bounded_depth(lists(MAX_JSON_DEPTH)), lists(MAX_JSON_DEPTH));
        let deep = lists(MAX_JSON_DEPTH + 1);
        assert_eq!(bounded_depth(deep.clone()), Value::String(deep.to_string()));
    }
}

//! Stored JSON: what is written can be read again.
//!
//! Writing is unbounded in `serde_json`, reading is not: a value nested 128 levels deep can be written and never read.
//! Types can also write what they cannot read. So everything that is stored is read once before it counts, and is
//! nested at most [`MAX_DEPTH`] levels deep. Reading goes deeper, because older logs hold deeper values.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// How many levels of lists and objects a stored value may have. What is wrapped around a value in the log keeps below
/// the limit of `serde_json`, which is 127.
pub const MAX_DEPTH: usize = 100;

/// How many levels can be read.
const MAX_READ_DEPTH: usize = 256;

/// How many levels `serde_json` reads by itself.
const PARSER_DEPTH: usize = 127;

/// A value has too many levels to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is nested {depth} levels deep, and at most {MAX_DEPTH} can be stored")]
pub struct TooDeep {
    depth: usize,
}

/// Reads stored JSON.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let error = match serde_json::from_slice(bytes) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    match text_depth(bytes) {
        0..=PARSER_DEPTH => Err(error),
        depth @ ..=MAX_READ_DEPTH => {
            serde_json::from_value(read_deep(serde_json::from_slice(bytes)?, depth)?)
        }
        depth => Err(serde_json::Error::custom(format_args!(
            "it is nested {depth} levels deep, and at most {MAX_READ_DEPTH} can be read"
        ))),
    }
}

/// Reads stored JSON.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    from_slice(text.as_bytes())
}

/// Whether a value may be stored.
pub(crate) fn check_depth(value: &Value) -> Result<(), TooDeep> {
    check_depth_up_to(value, MAX_DEPTH)
}

/// As [`check_depth`], with another limit.
pub(crate) fn check_depth_up_to(value: &Value, max_depth: usize) -> Result<(), TooDeep> {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        let depth = depth + usize::from(value.is_array() || value.is_object());
        if depth > max_depth {
            return Err(TooDeep { depth });
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth))),
            _ => {}
        }
    }
    Ok(())
}

/// The stored form of a value, after it was read back as a `T`.
pub(crate) fn to_readable_json<T: Serialize + DeserializeOwned>(
    value: &T,
) -> Result<Box<RawValue>, serde_json::Error> {
    let json = to_raw_value(value)?;
    check_text_depth(&json)?;
    match serde_json::from_str::<T>(json.get()) {
        Ok(_) => Ok(json),
        Err(error) => Err(serde_json::Error::custom(format_args!(
            "it does not read back: {error} (NaN and infinite numbers are written as null)"
        ))),
    }
}

/// Whether this JSON may be stored and reads as a `T`.
pub(crate) fn check_readable<T: DeserializeOwned>(json: &RawValue) -> Result<(), serde_json::Error> {
    check_text_depth(json)?;
    serde_json::from_str::<T>(json.get()).map(drop)
}

/// Whether this JSON may be stored.
pub(crate) fn check_text_depth(json: &RawValue) -> Result<(), serde_json::Error> {
    match text_depth(json.get().as_bytes()) {
        ..=MAX_DEPTH => Ok(()),
        depth => Err(serde::ser::Error::custom(TooDeep { depth })),
    }
}

/// Levels of lists and objects in a JSON text.
fn text_depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Reads a value of so many levels: the outer ones one by one, until the parser can read the rest.
fn read_deep(json: &RawValue, depth: usize) -> Result<Value, serde_json::Error> {
    if depth <= PARSER_DEPTH {
        return serde_json::from_str(json.get());
    }
    let inner = |json: &RawValue| read_deep(json, text_depth(json.get().as_bytes()));
    if json.get().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json.get())?;
        return items.into_iter().map(inner).collect();
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(json.get())?;
    let fields = fields.into_iter().map(|(name, json)| Ok((name, inner(json)?)));
    Ok(Value::Object(fields.collect::<Result<Map<String, Value>, serde_json::Error>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn brackets_in_strings_are_no_levels() {
        assert_eq!(text_depth(br#"{"a":"[[[\\\"[[","b":[1,{}]}"#), 3);
        assert_eq!((text_depth(b"1"), text_depth(b"[[],[[]]]")), (0, 3));
    }

    #[test]
    fn more_is_read_than_is_written() {
        for depth in [2, MAX_DEPTH, PARSER_DEPTH, PARSER_DEPTH + 1, MAX_READ_DEPTH] {
            let deep: Value = from_str(&lists(depth)).expect("readable");
            assert_eq!(deep.to_string(), lists(depth));
            assert_eq!(check_depth(&deep).is_ok(), depth <= MAX_DEPTH);
            assert_eq!(to_readable_json(&deep).is_ok(), depth <= MAX_DEPTH);
            let field = format!(r#"{{"a":{},"b":[1]}}"#, lists(depth - 1));
            assert_eq!(from_str::<Value>(&field).expect("readable").to_string(), field);
        }
        let error = from_str::<Value>(&lists(MAX_READ_DEPTH + 1)).expect_err("too deep");
        assert!(error.to_string().contains("257 levels"), "{error}");
    }

    #[test]
    fn what_a_type_cannot_read_is_not_written() {
        assert!(to_readable_json(&f64::NAN).is_err());
        assert!(to_readable_json(&Some(1.5)).is_ok());
    }
}

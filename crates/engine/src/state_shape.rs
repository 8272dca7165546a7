//! The shape of a state: the names of its fields and how each takes a change. A state that lost a field would drop what
//! was stored in it without a word, so a stored field that the state does not have is an error.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::de::value::Error as ProbeError;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

use crate::state::State;

/// What of a state goes into the fingerprint of its graph.
pub(crate) fn state_shape<S: State>() -> BTreeSet<String> {
    let fields = struct_fields::<S::Update>().unwrap_or_default().iter().map(|field| (*field).to_owned());
    fields.chain(S::reducers().iter().map(|(field, rule)| format!("{field}: {rule}"))).collect()
}

/// The first field of a stored update that the state does not have.
pub(crate) fn unknown_update_field<S: State>(json: &str) -> Option<String> {
    unknown_field(json, struct_fields::<S::Update>()?, &BTreeSet::new())
}

/// The first field of a stored state that the state does not have. It may write fields that it does not read.
pub(crate) fn unknown_state_field<S: State>(json: &str) -> Option<String> {
    let written = match serde_json::to_value(S::default()) {
        Ok(serde_json::Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
        _ => BTreeSet::new(),
    };
    unknown_field(json, struct_fields::<S>()?, &written)
}

fn unknown_field(json: &str, read: &[&str], written: &BTreeSet<String>) -> Option<String> {
    let known = |name: &str| read.contains(&name) || written.contains(name);
    // What is not an object is reported when the state is read.
    UnknownField(known).deserialize(&mut serde_json::Deserializer::from_str(json)).ok()?
}

/// Finds the first field of an object that is not known.
struct UnknownField<F>(F);

impl<'de, F: Fn(&str) -> bool> DeserializeSeed<'de> for UnknownField<F> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for UnknownField<F> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Option<String>, A::Error> {
        let mut unknown = None;
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            fields.next_value::<IgnoredAny>()?;
            if unknown.is_none() && !(self.0)(&name) {
                unknown = Some(name.into_owned());
            }
        }
        Ok(unknown)
    }
}

/// The fields that a struct reads, aliases included; none when it is not read as a struct.
fn struct_fields<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let mut fields = None;
    // The probe gives no value, so reading always fails.
    drop(T::deserialize(FieldProbe(&mut fields)));
    fields
}

struct FieldProbe<'a>(&'a mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for FieldProbe<'_> {
    type Error = ProbeError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeError> {
        Err(ProbeError::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, ProbeError> {
        *self.0 = Some(fields);
        Err(ProbeError::custom("only its fields are read"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only its fields are looked at")]
    struct ProbedStruct {
        first_name: String,
        #[serde(alias = "old")]
        renamed: u32,
    }

    #[test]
    fn a_struct_tells_its_fields_as_they_are_stored() {
        assert_eq!(struct_fields::<ProbedStruct>(), Some(&["firstName", "old", "renamed"][..]));
        assert_eq!(struct_fields::<Vec<u8>>(), None);
        let unknown = |json| unknown_field(json, &["a"], &BTreeSet::from(["b".to_owned()]));
        assert_eq!(unknown(r#"{"a":1,"b":2}"#), None);
        assert_eq!(unknown(r#"{"a":1,"c":{"x":2}}"#), Some("c".to_owned()));
        assert_eq!(unknown("[1]"), None);
    }
}

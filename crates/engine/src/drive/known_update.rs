//! Reads the updates of stored entries in one pass, and notices a field that the state does not have on the way.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

use crate::state::State;

/// What replaying needs of the start of a run.
#[derive(Deserialize)]
#[serde(bound(deserialize = ""))]
pub(super) struct ReplayedStart<'a, S: State> {
    pub v: u32,
    #[serde(borrow)]
    pub graph: Cow<'a, str>,
    #[serde(default)]
    pub update: Option<KnownUpdate<S>>,
    #[serde(default)]
    pub at: Option<IgnoredAny>,
}

/// What replaying needs of a step that another one follows: what it changed.
#[derive(Deserialize)]
#[serde(bound(deserialize = ""))]
pub(super) struct ReplayedStep<S: State> {
    pub tasks: Vec<ReplayedTask<S>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = ""))]
pub(super) struct ReplayedTask<S: State> {
    pub update: KnownUpdate<S>,
}

/// An update all of whose fields the state has. Anything else is an error, and the entry is read more slowly to say which.
pub(super) struct KnownUpdate<S: State>(pub S::Update);

impl<'de, S: State> Deserialize<'de> for KnownUpdate<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        S::Update::deserialize(KnownFields(deserializer)).map(Self)
    }
}

/// Reads a struct whose fields are all known. What is not read as a struct has no fields to know.
struct KnownFields<D>(D);

macro_rules! forward_to_inner {
    ($($method:ident($($name:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for KnownFields<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, KnownFieldsVisitor { visitor, fields })
    }

    forward_to_inner! {
        deserialize_any() deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_i128() deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string()
        deserialize_bytes() deserialize_byte_buf() deserialize_option() deserialize_unit() deserialize_seq()
        deserialize_map() deserialize_identifier() deserialize_ignored_any()
        deserialize_unit_struct(name: &'static str) deserialize_newtype_struct(name: &'static str)
        deserialize_tuple(len: usize) deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }
}

struct KnownFieldsVisitor<V> {
    visitor: V,
    fields: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for KnownFieldsVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(KnownFieldsMap { map, fields: self.fields })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_seq(items)
    }
}

struct KnownFieldsMap<A> {
    map: A,
    fields: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for KnownFieldsMap<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.map.next_key_seed(KnownName { inner: seed, fields: self.fields })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Reads the name of a field, which has to be one of these: as a seed, then as what is read from, then as a visitor.
struct KnownName<T> {
    inner: T,
    fields: &'static [&'static str],
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KnownName<K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Value, D::Error> {
        self.inner.deserialize(KnownName { inner: deserializer, fields: self.fields })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for KnownName<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_identifier(KnownName { inner: visitor, fields: self.fields })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for KnownName<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        match self.fields.contains(&name) {
            true => self.inner.visit_str(name),
            false => Err(E::unknown_field(name, self.fields)),
        }
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<V::Value, E> {
        match self.fields.contains(&name) {
            true => self.inner.visit_borrowed_str(name),
            false => Err(E::unknown_field(name, self.fields)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct KnownUpdateTestState {
        #[serde(default, alias = "old")]
        new: Vec<u32>,
        #[serde(default)]
        nested: Option<Box<KnownUpdateTestState>>,
    }

    impl State for KnownUpdateTestState {
        type Update = Self;

        fn apply(&mut self, update: Self) {
            *self = update;
        }
    }

    fn read(json: &str) -> Option<KnownUpdateTestState> {
        serde_json::from_str::<KnownUpdate<KnownUpdateTestState>>(json).ok().map(|update| update.0)
    }

    #[test]
    fn a_field_that_the_state_does_not_have_is_noticed_at_the_top_only() {
        let state = |new: &[u32], nested| KnownUpdateTestState { new: new.to_vec(), nested };
        assert_eq!(read(r#"{"new":[1,2]}"#), Some(state(&[1, 2], None)));
        assert_eq!(read(r#"{"old":[1]}"#), Some(state(&[1], None)));
        assert_eq!(read("{}"), Some(state(&[], None)));
        let nested = Some(Box::new(state(&[3], None)));
        assert_eq!(read(r#"{"nested":{"new":[3],"more":{}}}"#), Some(state(&[], nested)));
        assert_eq!(read(r#"{"new":[1],"gone":2}"#), None);
        assert_eq!(read(r#"{"\u0067one":2}"#), None);
        assert_eq!(read(r#"{"n\u0065w":[7]}"#), Some(state(&[7], None)));
    }
}

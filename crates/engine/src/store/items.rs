//! Items: JSON objects under a namespace and a key, shared by all threads of a tenant.
//!
//! A namespace is a list of names, such as `["users", "kim", "memories"]`. Items are found by their key, or by the
//! beginning of their namespace and what their fields hold. They are listed in the order of their namespaces, and of
//! their keys within one.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Millis, StoreError};
use crate::id::TenantId;
use crate::stored_json;

/// The most names in a namespace.
pub const MAX_NAMESPACE_NAMES: usize = 16;

/// The most bytes of all names of a namespace together.
pub const MAX_NAMESPACE_BYTES: usize = 512;

/// The most bytes of the key of an item.
pub const MAX_ITEM_KEY_BYTES: usize = 512;

/// The most bytes of an item as JSON.
pub const MAX_ITEM_BYTES: usize = 1024 * 1024;

/// The most items of a tenant.
pub const MAX_ITEMS_PER_TENANT: u64 = 1_000_000;

/// The most items or namespaces that one search gives.
pub const MAX_ITEMS_PER_SEARCH: usize = 1000;

/// Stands behind every name of a stored namespace. No name can hold it, and every character of a name is greater, so
/// stored namespaces sort like lists of names, and those with a common beginning lie side by side.
const NAME_END: char = '\u{1f}';

/// The character after [`NAME_END`].
const AFTER_NAME_END: char = '\u{20}';

/// A namespace, a key or an item that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidItem(String);

/// Where an item lies: 1 to 16 names, each without control characters, 512 bytes in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemNamespace(Vec<String>);

impl ItemNamespace {
    /// Checks the names.
    pub fn new<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Result<Self, InvalidItem> {
        let names = checked_names(names)?;
        if names.is_empty() {
            return Err(InvalidItem("a namespace needs at least one name".into()));
        }
        Ok(Self(names))
    }

    /// Its names.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The form in which a store keeps it.
    pub fn to_stored(&self) -> String {
        stored_names(&self.0)
    }

    /// Reads the form in which a store keeps it.
    pub fn from_stored(stored: &str) -> Result<Self, StoreError> {
        let names = stored.strip_suffix(NAME_END).map(|names| names.split(NAME_END).map(str::to_owned));
        names
            .and_then(|names| Self::new(names).ok())
            .ok_or_else(|| StoreError::Damaged(format!("`{}` is not a namespace", stored.escape_debug())))
    }

    /// Its first `depth` names.
    pub fn shortened(&self, depth: usize) -> Self {
        Self(self.0[..depth.clamp(1, self.0.len())].to_vec())
    }
}

impl fmt::Display for ItemNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

impl Serialize for ItemNamespace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ItemNamespace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Vec::<String>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The beginning of a namespace. Without names it is the beginning of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespacePrefix(Vec<String>);

impl NamespacePrefix {
    /// Checks the names.
    pub fn new<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Result<Self, InvalidItem> {
        checked_names(names).map(Self)
    }

    /// The stored namespaces that begin so are from the first of these, included, to the second, excluded.
    pub fn stored_range(&self) -> (String, String) {
        let first = stored_names(&self.0);
        let mut end = first.clone();
        match end.pop() {
            Some(_) => end.push(AFTER_NAME_END),
            // No name holds a character as great as this one.
            None => end.push(char::MAX),
        }
        (first, end)
    }
}

impl From<&ItemNamespace> for NamespacePrefix {
    fn from(namespace: &ItemNamespace) -> Self {
        Self(namespace.0.clone())
    }
}

fn checked_names<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Result<Vec<String>, InvalidItem> {
    let mut checked = Vec::new();
    let mut bytes = 0;
    for name in names {
        let name: String = name.into();
        bytes += name.len();
        if name.is_empty() || name.chars().any(|c| c.is_control() || c == char::MAX) {
            return Err(InvalidItem(
                "a name of a namespace is not empty and holds no control characters".into(),
            ));
        }
        if bytes > MAX_NAMESPACE_BYTES || checked.len() == MAX_NAMESPACE_NAMES {
            return Err(InvalidItem(format!(
                "a namespace has at most {MAX_NAMESPACE_NAMES} names and {MAX_NAMESPACE_BYTES} bytes"
            )));
        }
        checked.push(name);
    }
    Ok(checked)
}

fn stored_names(names: &[String]) -> String {
    let mut stored = String::with_capacity(names.iter().map(|name| name.len() + 1).sum());
    for name in names {
        stored.push_str(name);
        stored.push(NAME_END);
    }
    stored
}

/// What an item is called in its namespace: 1 to 512 bytes without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey(String);

impl ItemKey {
    /// Checks the key.
    pub fn new(key: impl Into<String>) -> Result<Self, InvalidItem> {
        let key: String = key.into();
        if key.is_empty() || key.len() > MAX_ITEM_KEY_BYTES || key.chars().any(char::is_control) {
            return Err(InvalidItem(format!(
                "the key of an item has 1 to {MAX_ITEM_KEY_BYTES} bytes and no control characters"
            )));
        }
        Ok(Self(key))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ItemKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ItemKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// An item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedItem {
    /// Where it lies.
    pub namespace: ItemNamespace,
    /// What it is called there.
    pub key: ItemKey,
    /// What it holds.
    pub value: Map<String, Value>,
    /// When it was first put, by the store's clock.
    pub created_at: Millis,
    /// When it was last put.
    pub updated_at: Millis,
}

/// Which items are looked for. Everything given must fit.
#[derive(Clone, Debug)]
pub struct ItemSearch {
    /// How their namespace begins.
    pub prefix: NamespacePrefix,
    /// What their fields hold.
    pub conditions: Vec<ItemCondition>,
    /// Skip so many.
    pub offset: usize,
    /// At most this many, and never more than [`MAX_ITEMS_PER_SEARCH`].
    pub limit: usize,
}

impl Default for ItemSearch {
    fn default() -> Self {
        Self { prefix: NamespacePrefix::default(), conditions: Vec::new(), offset: 0, limit: 50 }
    }
}

impl ItemSearch {
    /// Whether an item with this value fits.
    pub fn fits(&self, value: &Map<String, Value>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(value))
    }

    /// How many items it gives at most.
    pub fn bounded_limit(&self) -> usize {
        self.limit.min(MAX_ITEMS_PER_SEARCH)
    }
}

/// What a field of an item must hold. A field that is not there holds `null`.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemCondition {
    /// The field, of the item itself.
    pub field: String,
    /// How it is compared.
    pub comparison: ItemComparison,
    /// With what.
    pub with: Value,
}

/// How a field is compared. Numbers are ordered by size and texts by their characters; nothing else has an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemComparison {
    /// Is the same.
    Equal,
    /// Is not the same.
    NotEqual,
    /// Is greater.
    Greater,
    /// Is greater or the same.
    GreaterOrEqual,
    /// Is less.
    Less,
    /// Is less or the same.
    LessOrEqual,
}

impl ItemCondition {
    /// Whether an item with this value fits.
    pub fn holds(&self, value: &Map<String, Value>) -> bool {
        let found = value.get(&self.field).unwrap_or(&Value::Null);
        let order = compare_values(found, &self.with);
        let same = order.map_or_else(|| found == &self.with, Ordering::is_eq);
        match self.comparison {
            ItemComparison::Equal => same,
            ItemComparison::NotEqual => !same,
            ItemComparison::Greater => order == Some(Ordering::Greater),
            ItemComparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            ItemComparison::Less => order == Some(Ordering::Less),
            ItemComparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        }
    }
}

fn compare_values(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i128(), right.as_i128()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
        },
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// Which namespaces are listed.
#[derive(Clone, Debug)]
pub struct NamespaceSearch {
    /// How they begin.
    pub prefix: NamespacePrefix,
    /// How they end.
    pub suffix: NamespacePrefix,
    /// Longer ones are shortened to so many names, and listed once.
    pub max_depth: Option<usize>,
    /// Skip so many.
    pub offset: usize,
    /// At most this many, and never more than [`MAX_ITEMS_PER_SEARCH`].
    pub limit: usize,
}

impl Default for NamespaceSearch {
    fn default() -> Self {
        Self {
            prefix: NamespacePrefix::default(),
            suffix: NamespacePrefix::default(),
            max_depth: None,
            offset: 0,
            limit: 50,
        }
    }
}

impl NamespaceSearch {
    /// The part of `namespaces` that it gives. They come in order, each once.
    pub fn select(
        &self,
        namespaces: impl IntoIterator<Item = Result<ItemNamespace, StoreError>>,
    ) -> Result<Vec<ItemNamespace>, StoreError> {
        let mut found: Vec<ItemNamespace> = Vec::new();
        let (mut last, mut skipped) = (None, 0);
        for namespace in namespaces {
            if found.len() >= self.limit.min(MAX_ITEMS_PER_SEARCH) {
                break;
            }
            let namespace = namespace?;
            if !namespace.0.ends_with(&self.suffix.0) {
                continue;
            }
            let namespace = self.max_depth.map_or(namespace.clone(), |depth| namespace.shortened(depth));
            if last.as_ref() == Some(&namespace) {
                continue;
            }
            last = Some(namespace.clone());
            if skipped < self.offset {
                skipped += 1;
            } else {
                found.push(namespace);
            }
        }
        Ok(found)
    }
}

/// The stored form of an item's value, if it can be stored.
pub fn item_to_stored(value: &Map<String, Value>) -> Result<Vec<u8>, InvalidItem> {
    for field in value.values() {
        stored_json::check_depth(field).map_err(|error| InvalidItem(format!("the item: {error}")))?;
    }
    let stored = crate::log::to_json_bytes(value);
    if stored.len() > MAX_ITEM_BYTES {
        let bytes = stored.len();
        return Err(InvalidItem(format!(
            "the item has {bytes} bytes, and at most {MAX_ITEM_BYTES} can be stored"
        )));
    }
    Ok(stored)
}

/// Reads the stored form of an item's value.
pub fn item_from_stored(stored: &[u8]) -> Result<Map<String, Value>, StoreError> {
    stored_json::from_slice(stored).map_err(|error| StoreError::Damaged(format!("an item: {error}")))
}

/// The error when a tenant has all the items it may have.
pub fn too_many_items() -> StoreError {
    StoreError::Rejected(
        format!("there are {MAX_ITEMS_PER_TENANT} items already: delete some, or let them expire").into(),
    )
}

impl From<InvalidItem> for StoreError {
    fn from(error: InvalidItem) -> Self {
        Self::Rejected(error.into())
    }
}

/// Items that all threads of a tenant share.
#[async_trait]
pub trait ItemStore: Send + Sync + 'static {
    /// Puts an item, replacing an older one of this name. It is kept for `lifetime` (for ever when `None`). Gives the item
    /// as it is stored. One that cannot be stored is [`StoreError::Rejected`], and so is a new one when the tenant has
    /// [`MAX_ITEMS_PER_TENANT`] already.
    async fn put_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
        value: &Map<String, Value>,
        lifetime: Option<Duration>,
    ) -> Result<SharedItem, StoreError>;

    /// An item, unless its lifetime is over.
    async fn item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<Option<SharedItem>, StoreError>;

    /// Removes an item. `false` when there was none.
    async fn delete_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<bool, StoreError>;

    /// Items by their namespaces and keys, in this order.
    async fn search_items(
        &self,
        tenant: &TenantId,
        search: &ItemSearch,
    ) -> Result<Vec<SharedItem>, StoreError>;

    /// Namespaces that have items, in order.
    async fn item_namespaces(
        &self,
        tenant: &TenantId,
        search: &NamespaceSearch,
    ) -> Result<Vec<ItemNamespace>, StoreError>;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    fn condition(comparison: ItemComparison, with: Value) -> ItemCondition {
        ItemCondition { field: "f".into(), comparison, with }
    }

    #[test]
    fn numbers_and_texts_have_an_order_and_nothing_else() {
        use ItemComparison::*;
        let holds = |found: Value, comparison, with: Value| {
            let value = json!({ "f": found });
            condition(comparison, with).holds(value.as_object().expect("object"))
        };
        assert!(holds(json!(1), Equal, json!(1.0)) && holds(json!(2), Greater, json!(1.5)));
        assert!(holds(json!(u64::MAX), Greater, json!(u64::MAX - 1)), "not by way of a float");
        assert!(holds(json!("b"), GreaterOrEqual, json!("a")) && !holds(json!("a"), Greater, json!("a")));
        assert!(!holds(json!("2"), Greater, json!(1)) && !holds(json!([2]), Greater, json!([1])));
        assert!(holds(json!({"a": [1]}), Equal, json!({"a": [1]})) && holds(json!(null), NotEqual, json!(0)));
        assert!(condition(Equal, Value::Null).holds(&Map::new()), "a field that is not there is null");
    }

    #[test]
    fn a_prefix_is_made_of_whole_names() {
        let stored = |names: &[&str]| ItemNamespace::new(names.iter().copied()).expect("names").to_stored();
        let within = |names: &[&str], prefix: &[&str]| {
            let (first, end) = NamespacePrefix::new(prefix.iter().copied()).expect("prefix").stored_range();
            (first..end).contains(&stored(names))
        };
        assert!(within(&["a"], &["a"]) && within(&["a", "b"], &["a"]) && within(&["\u{10fffe}"], &[]));
        assert!(!within(&["ab"], &["a"]) && !within(&["a!"], &["a"]) && !within(&["a"], &["a", "b"]));
        assert!(stored(&["a", "z"]) < stored(&["a b"]), "lists sort by their first name");
        assert_eq!(ItemNamespace::from_stored(&stored(&["a", "b"])).expect("stored").names(), ["a", "b"]);
        assert!(ItemNamespace::from_stored("a").is_err());
    }

    #[test]
    fn names_and_keys_have_limits() {
        let names = |name: &str, count| ItemNamespace::new(vec![name; count]);
        assert!(names("a", 16).is_ok() && names(&"a".repeat(512), 1).is_ok());
        for bad in
            [names("a", 17), names(&"a".repeat(513), 1), names("", 1), names("a\u{1f}", 1), names("a", 0)]
        {
            bad.expect_err("refused");
        }
        assert!(NamespacePrefix::new(Vec::<String>::new()).is_ok());
        assert!(ItemKey::new("k".repeat(512)).is_ok() && ItemKey::new("k".repeat(513)).is_err());
        assert!(ItemKey::new("").is_err() && ItemKey::new("a\0").is_err());
        let long = json!({ "text": "x".repeat(MAX_ITEM_BYTES) });
        item_to_stored(long.as_object().expect("object")).expect_err("too long");
    }
}

//! State and its updates. A node proposes an update; the engine folds it in, the log keeps it, watchers see it.
//! Nothing is ever diffed and nothing whole is written twice.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use crate::item_index::{ItemIndex, ListIndex};

/// What a graph carries. Derive it: `#[derive(State)]` writes the update type and the fold.
///
/// Threads outlive programs. A field may be added: it has its default where older entries lack it. A field that is renamed
/// keeps its old name with `#[serde(alias = "…")]`. One that is not used any more stays until no thread holds it; reading an
/// entry with a field that the state does not have is [`EngineError::StateMismatch`](crate::EngineError::StateMismatch).
pub trait State: Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// A change that one node proposes: every field optional.
    type Update: Clone + Default + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Folds a change in. Deterministic: the log is replayed through it.
    fn apply(&mut self, update: Self::Update);

    /// Folds a change in, with an index of its lists that earlier changes went through too. The derive does so with lists
    /// by id; without it the index is not used.
    fn apply_indexed(&mut self, update: Self::Update, _index: &mut ItemIndex) {
        self.apply(update);
    }

    /// The rule of each field, for the fingerprint of a graph: a log that is replayed by another rule gives another
    /// state.
    fn reducers() -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// A cheap read-only view of the state, owned so that a node's future can live as long as it likes.
pub struct Snap<S>(pub(crate) Arc<S>);

impl<S> Deref for Snap<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> Clone for Snap<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> From<S> for Snap<S> {
    fn from(state: S) -> Self {
        Self(Arc::new(state))
    }
}

impl<S: Debug> Debug for Snap<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

/// How one field takes a change. `T` is the field's type.
///
/// `join` makes of two changes one: folding `join(a, b)` gives what folding `a`, then `b` gives.
#[diagnostic::on_unimplemented(
    message = "the rule `{Self}` does not fit a field of type `{T}`",
    label = "no change to a `{T}` by `{Self}`"
)]
pub trait Reduce<T> {
    /// What an update carries for this field.
    type Change: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Folds a change into the field.
    fn fold(field: &mut T, change: Self::Change);

    /// Folds a change into the field, with an index that earlier changes went through too.
    fn fold_indexed(field: &mut T, change: Self::Change, _index: &mut ListIndex) {
        Self::fold(field, change);
    }

    /// Puts `later` behind `earlier`.
    fn join(earlier: &mut Self::Change, later: Self::Change);
}

/// The rules that `#[reduce(…)]` names.
pub mod reduce {
    use super::*;

    /// The last write wins. The rule of a field without an attribute.
    #[derive(Debug)]
    pub struct LastWriteWins;

    /// New items go to the end of a list. `#[reduce(append)]`
    #[derive(Debug)]
    pub struct Append;

    /// Items are known by an id: a new id is appended, a known one replaced in place, and any can be removed.
    /// `#[reduce(by_id)]`
    #[derive(Debug)]
    pub struct ById;

    /// Entries of a map are inserted or replaced, key by key. `#[reduce(merge)]`
    #[derive(Debug)]
    pub struct Merge;

    /// Numbers are summed. `#[reduce(add)]`
    #[derive(Debug)]
    pub struct Add;

    impl<T> Reduce<T> for LastWriteWins
    where
        T: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        type Change = T;

        fn fold(field: &mut T, change: T) {
            *field = change;
        }

        fn join(earlier: &mut T, later: T) {
            *earlier = later;
        }
    }

    impl<T> Reduce<Vec<T>> for Append
    where
        T: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        type Change = Vec<T>;

        fn fold(field: &mut Vec<T>, change: Vec<T>) {
            field.extend(change);
        }

        fn join(earlier: &mut Vec<T>, later: Vec<T>) {
            earlier.extend(later);
        }
    }

    impl<M, K, V> Reduce<M> for Merge
    where
        M: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
        M: IntoIterator<Item = (K, V)> + Extend<(K, V)>,
    {
        type Change = M;

        fn fold(field: &mut M, change: M) {
            field.extend(change);
        }

        fn join(earlier: &mut M, later: M) {
            earlier.extend(later);
        }
    }

    impl<T> Reduce<T> for Add
    where
        T: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static + std::ops::AddAssign,
    {
        type Change = T;

        fn fold(field: &mut T, change: T) {
            *field += change;
        }

        fn join(earlier: &mut T, later: T) {
            *earlier += later;
        }
    }

    impl<T> Reduce<Vec<T>> for ById
    where
        T: Keyed + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        type Change = ItemChanges<T>;

        fn fold(field: &mut Vec<T>, change: ItemChanges<T>) {
            for one in change.0 {
                match one {
                    ItemChange::Put(item) => match field.iter_mut().rev().find(|old| old.key() == item.key())
                    {
                        Some(old) => *old = item,
                        None => field.push(item),
                    },
                    ItemChange::Remove(key) => field.retain(|old| old.key() != key),
                    ItemChange::Clear => field.clear(),
                }
            }
        }

        fn fold_indexed(field: &mut Vec<T>, change: ItemChanges<T>, index: &mut ListIndex) {
            index.apply(field, change);
        }

        fn join(earlier: &mut ItemChanges<T>, later: ItemChanges<T>) {
            earlier.0.extend(later.0);
        }
    }
}

/// Something with an id of its own, for [`reduce::ById`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no id of its own, which `#[reduce(by_id)]` needs",
    label = "implement `Keyed` for `{Self}`, or append with `#[reduce(append)]`"
)]
pub trait Keyed {
    /// The id. Two items with the same id are the same item.
    fn key(&self) -> &str;
}

/// One change to a list of items with ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemChange<T> {
    /// Append, or replace the item with the same id.
    Put(T),
    /// Remove the item with this id, if it is there.
    Remove(String),
    /// Remove all items.
    Clear,
}

/// Changes to a list of items with ids, in order. A plain list of items is a list of `Put`s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemChanges<T>(pub Vec<ItemChange<T>>);

impl<T> ItemChanges<T> {
    /// Removes the items with these ids.
    pub fn remove<I: Into<String>>(ids: impl IntoIterator<Item = I>) -> Self {
        Self(ids.into_iter().map(|id| ItemChange::Remove(id.into())).collect())
    }

    /// Puts these items in after what is already here.
    pub fn put(mut self, items: impl IntoIterator<Item = T>) -> Self {
        self.0.extend(items.into_iter().map(ItemChange::Put));
        self
    }
}

impl<T> From<Vec<T>> for ItemChanges<T> {
    fn from(items: Vec<T>) -> Self {
        Self(items.into_iter().map(ItemChange::Put).collect())
    }
}

impl<T> From<T> for ItemChanges<T> {
    fn from(item: T) -> Self {
        Self(vec![ItemChange::Put(item)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct KeyedTestItem(String, u32);

    impl Keyed for KeyedTestItem {
        fn key(&self) -> &str {
            &self.0
        }
    }

    fn item(id: &str, value: u32) -> KeyedTestItem {
        KeyedTestItem(id.into(), value)
    }

    #[test]
    fn by_id_appends_replaces_in_place_and_removes() {
        let mut list = vec![item("a", 1), item("b", 2)];
        reduce::ById::fold(&mut list, vec![item("a", 9), item("c", 3)].into());
        assert_eq!(list, [item("a", 9), item("b", 2), item("c", 3)]);
        reduce::ById::fold(&mut list, ItemChanges::remove(["b", "absent"]).put([item("b", 7)]));
        assert_eq!(list, [item("a", 9), item("c", 3), item("b", 7)]);
    }

    #[test]
    fn joined_changes_fold_like_the_two_of_them() {
        let mut joined = ItemChanges::from(vec![item("a", 1)]);
        reduce::ById::join(&mut joined, ItemChanges::remove(["a"]));
        reduce::ById::join(&mut joined, ItemChanges::from(item("a", 2)));
        let mut list = Vec::new();
        reduce::ById::fold(&mut list, joined);
        assert_eq!(list, [item("a", 2)]);
    }
}

//! Where the items of a list are, by their ids: a change to a long list does not look through it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use crate::state::{ItemChange, ItemChanges, Keyed};

/// Lists up to this length are looked through.
const MAX_SCANNED_ITEMS: usize = 16;

/// The indexes of the lists in one state, by the position of the field. It goes with that state alone.
#[derive(Clone, Debug, Default)]
pub struct ItemIndex(Vec<ListIndex>);

impl ItemIndex {
    /// The index of the list in this field.
    pub fn list(&mut self, field: usize) -> &mut ListIndex {
        if field >= self.0.len() {
            self.0.resize_with(field + 1, ListIndex::default);
        }
        &mut self.0[field]
    }
}

/// Where the items of one list are.
///
/// Ids are not copied: the index has their hashes, and the list itself says whether an item is the one that is looked for.
#[derive(Clone, Debug, Default)]
pub struct ListIndex {
    /// By the hash of its id, where the last such item is.
    places: HashMap<u64, usize, BuildHasherDefault<KeyHashHasher>>,
    /// How many items of the list are in it.
    len: usize,
}

impl ListIndex {
    /// Makes changes to a list whose earlier changes all went through this index.
    pub(crate) fn apply<T: Keyed>(&mut self, list: &mut Vec<T>, changes: ItemChanges<T>) {
        for change in changes.0 {
            match change {
                ItemChange::Put(item) => self.put(list, item),
                ItemChange::Remove(key) => {
                    if self.find(list, &key).is_some() {
                        list.retain(|old| old.key() != key);
                        *self = Self::default();
                    }
                }
                ItemChange::Clear => {
                    list.clear();
                    *self = Self::default();
                }
            }
        }
    }

    fn put<T: Keyed>(&mut self, list: &mut Vec<T>, item: T) {
        match self.find(list, item.key()) {
            Some(place) => list[place] = item,
            None => list.push(item),
        }
    }

    /// The place of the last item with this id.
    fn find<T: Keyed>(&mut self, list: &[T], key: &str) -> Option<usize> {
        let scan = || list.iter().rposition(|item| item.key() == key);
        if list.len() <= MAX_SCANNED_ITEMS {
            *self = Self::default();
            return scan();
        }
        for (place, item) in list.iter().enumerate().skip(self.len) {
            self.places.insert(key_hash(item.key()), place);
        }
        self.len = list.len();
        match self.places.get(&key_hash(key)) {
            None => None,
            Some(place) if list[*place].key() == key => Some(*place),
            // Two ids with one hash.
            Some(_) => scan(),
        }
    }
}

/// Takes a hash as it is.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHashHasher(u64);

impl Hasher for KeyHashHasher {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn key_hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Reduce, reduce};

    #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct IndexedTestItem(String, u32);

    impl Keyed for IndexedTestItem {
        fn key(&self) -> &str {
            &self.0
        }
    }

    /// A few thousand changes to few ids and to many, with and without the index.
    #[test]
    fn an_index_changes_nothing_but_the_cost() {
        for ids in [5, 40, 4000] {
            let mut random = 1_u32;
            let mut next = |below: u32| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 8) % below
            };
            let (mut plain, mut indexed, mut index) = (Vec::new(), Vec::new(), ListIndex::default());
            for n in 0..3000 {
                let key = next(ids).to_string();
                let change = match next(100) {
                    0 => ItemChange::Clear,
                    1..10 => ItemChange::Remove(key),
                    _ => ItemChange::Put(IndexedTestItem(key, n)),
                };
                let change = ItemChanges(vec![change]);
                reduce::ById::fold(&mut plain, change.clone());
                reduce::ById::fold_indexed(&mut indexed, change, &mut index);
                assert_eq!(plain, indexed, "after change {n} of {ids} ids");
            }
        }
    }

    #[test]
    fn two_ids_with_one_hash_are_two_items() {
        let mut list: Vec<_> = (0..20).map(|n| IndexedTestItem(n.to_string(), n)).collect();
        let mut index = ListIndex::default();
        assert_eq!(index.find(&list, "3"), Some(3));
        index.places.insert(key_hash("3"), 7);
        assert_eq!(index.find(&list, "3"), Some(3));
        index.put(&mut list, IndexedTestItem("3".into(), 99));
        assert_eq!((list.len(), list[3].1), (20, 99));
    }
}

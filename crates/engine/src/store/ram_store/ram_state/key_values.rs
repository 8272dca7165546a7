//! Values that replicas share.

use std::collections::BTreeMap;

use super::{RamState, add_duration};
use crate::store::{KeyValue, KeyValueChange, KeyValueChanges, KeyValueWrite, Millis};

/// A bucket.
#[derive(Default)]
pub(super) struct RamBucket {
    revision: u64,
    values: BTreeMap<String, RamKeyValue>,
}

/// A value, or that it was removed.
struct RamKeyValue {
    value: Option<Vec<u8>>,
    revision: u64,
    expires: Option<Millis>,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl RamKeyValue {
    fn live_value(&self, now: Millis) -> Option<&Vec<u8>> {
        self.value.as_ref().filter(|_| self.expires.is_none_or(|expires| now < expires))
    }
}

impl RamState {
    pub(in super::super) fn key_value(&self, bucket: &str, key: &str, now: Millis) -> Option<KeyValue> {
        let stored = self.buckets.get(bucket)?.values.get(key)?;
        let value = stored.live_value(now)?.clone();
        Some(KeyValue { key: key.to_owned(), value, revision: stored.revision })
    }

    pub(in super::super) fn key_values(&self, bucket: &str, prefix: &str, now: Millis) -> Vec<KeyValue> {
        let Some(bucket) = self.buckets.get(bucket) else { return Vec::new() };
        let found = bucket.values.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        found
            .filter_map(|(key, stored)| {
                let value = stored.live_value(now)?.clone();
                Some(KeyValue { key: key.clone(), value, revision: stored.revision })
            })
            .collect()
    }

    pub(in super::super) fn key_value_changes(
        &self,
        bucket: &str,
        after: u64,
        limit: usize,
        now: Millis,
    ) -> KeyValueChanges {
        let Some(bucket) = self.buckets.get(bucket) else { return KeyValueChanges::default() };
        let changed = bucket.values.iter().filter(|(_, stored)| stored.revision > after);
        let mut changes: Vec<KeyValueChange> = changed
            .map(|(key, stored)| KeyValueChange {
                key: key.clone(),
                value: stored.live_value(now).cloned(),
                revision: stored.revision,
            })
            .collect();
        changes.sort_by_key(|change| change.revision);
        changes.truncate(limit);
        KeyValueChanges { from_start: after == 0, changes }
    }

    pub(in super::super) fn write_key_value(
        &mut self,
        write: &KeyValueWrite<'_>,
        now: Millis,
    ) -> Option<u64> {
        let bucket = self.buckets.entry(write.bucket.to_owned()).or_default();
        let known = bucket.values.get(write.key).filter(|stored| stored.live_value(now).is_some());
        if known.map(|stored| stored.revision) != write.expected {
            return None;
        }
        bucket.revision += 1;
        let mut blobs = match write.expected {
            Some(_) => bucket.values.remove(write.key).map(|stored| stored.blobs).unwrap_or_default(),
            None => BTreeMap::new(),
        };
        if write.value.is_none() {
            blobs.clear();
        }
        for name in write.delete_blobs {
            blobs.remove(*name);
        }
        for (name, bytes) in write.put_blobs {
            blobs.insert((*name).to_owned(), bytes.to_vec());
        }
        let stored = RamKeyValue {
            value: write.value.map(<[u8]>::to_vec),
            revision: bucket.revision,
            expires: write.lifetime.map(|lifetime| add_duration(now, lifetime)),
            blobs,
        };
        bucket.values.insert(write.key.to_owned(), stored);
        Some(bucket.revision)
    }

    pub(in super::super) fn key_value_blob(&self, bucket: &str, key: &str, name: &str) -> Option<Vec<u8>> {
        self.buckets.get(bucket)?.values.get(key)?.blobs.get(name).cloned()
    }

    pub(in super::super) fn bucket_revisions(&self) -> BTreeMap<String, u64> {
        self.buckets.iter().map(|(name, bucket)| (name.clone(), bucket.revision)).collect()
    }
}

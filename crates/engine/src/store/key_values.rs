//! Values that all replicas of a program share: what is no thread and belongs to no run.
//!
//! A bucket has values under keys. Every write of a bucket gets the next revision of that bucket, and revisions appear in
//! their order: who has read up to a revision misses nothing that comes later. A write names the revision that it
//! replaces, so of two replicas that change the same value the later one is refused. A value may have blobs, which
//! are written and deleted with it, and a lifetime by the store's clock, which makes it a lease.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;

/// The most bytes of the name of a bucket, of a key or of a blob.
pub const MAX_VALUE_KEY_BYTES: usize = 512;

/// The most bytes of a value.
pub const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// How long the removal of a value stays in the changes of its bucket. Who comes later reads the whole bucket.
pub const MAX_REMOVAL_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// What it is called in its bucket.
    pub key: String,
    /// What it is.
    pub value: Vec<u8>,
    /// The revision that wrote it.
    pub revision: u64,
}

/// The last change of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValueChange {
    /// What it is called in its bucket.
    pub key: String,
    /// The value, or none if it was removed.
    pub value: Option<Vec<u8>>,
    /// The revision of the change.
    pub revision: u64,
}

/// Changes of a bucket, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValueChanges {
    /// Whether the changes begin with the first one, because removals since the requested revision are not known any more:
    /// what is not among them and the following ones is gone.
    pub from_start: bool,
    /// The last change of each value that was changed.
    pub changes: Vec<KeyValueChange>,
}

/// A write of one value, with its blobs.
#[derive(Clone, Copy, Debug)]
pub struct KeyValueWrite<'a> {
    /// The bucket.
    pub bucket: &'a str,
    /// The key in it.
    pub key: &'a str,
    /// The revision of the value that is replaced; none if there is to be none.
    pub expected: Option<u64>,
    /// The new value, or none to remove it with its blobs.
    pub value: Option<&'a [u8]>,
    /// How long it is kept, by the store's clock; none is for ever. A value with a lifetime has no blobs, and leaves
    /// without a change.
    pub lifetime: Option<Duration>,
    /// Blobs to put, by name.
    pub put_blobs: &'a [(&'a str, &'a [u8])],
    /// Names of blobs to delete.
    pub delete_blobs: &'a [&'a str],
}

impl<'a> KeyValueWrite<'a> {
    /// Puts a value in place of that with the revision `expected`.
    pub fn put(bucket: &'a str, key: &'a str, expected: Option<u64>, value: &'a [u8]) -> Self {
        let (put_blobs, delete_blobs): (&[(&str, &[u8])], &[&str]) = (&[], &[]);
        Self { bucket, key, expected, value: Some(value), lifetime: None, put_blobs, delete_blobs }
    }

    /// Removes the value with the revision `expected`.
    pub fn remove(bucket: &'a str, key: &'a str, expected: u64) -> Self {
        Self { value: None, ..Self::put(bucket, key, Some(expected), &[]) }
    }

    /// Whether it can be stored.
    pub fn check(&self) -> Result<(), StoreError> {
        let blobs = self.put_blobs.iter().map(|(name, _)| *name).chain(self.delete_blobs.iter().copied());
        for name in [self.bucket, self.key].into_iter().chain(blobs) {
            if name.is_empty() || name.len() > MAX_VALUE_KEY_BYTES || name.chars().any(char::is_control) {
                return Err(StoreError::Rejected(
                    format!(
                        "a bucket, a key and a blob have 1 to {MAX_VALUE_KEY_BYTES} bytes without control characters"
                    )
                    .into(),
                ));
            }
        }
        if self.value.is_some_and(|value| value.len() > MAX_VALUE_BYTES) {
            return Err(StoreError::Rejected(format!("a value has at most {MAX_VALUE_BYTES} bytes").into()));
        }
        if self.lifetime.is_some() && !self.put_blobs.is_empty() {
            return Err(StoreError::Rejected("a value with a lifetime has no blobs".into()));
        }
        if self.value.is_none() && (self.expected.is_none() || !self.put_blobs.is_empty()) {
            return Err(StoreError::Rejected("a removal names its value, and puts nothing".into()));
        }
        Ok(())
    }
}

/// Values that replicas share. A store of one process needs none.
#[async_trait]
pub trait KeyValueStore: Send + Sync + 'static {
    /// A value, unless its lifetime is over.
    async fn key_value(&self, bucket: &str, key: &str) -> Result<Option<KeyValue>, StoreError>;

    /// All values whose keys begin so, in the order of their keys, without those whose lifetime is over.
    async fn key_values(&self, bucket: &str, prefix: &str) -> Result<Vec<KeyValue>, StoreError>;

    /// What was changed after a revision, at most `limit` of it, oldest first. 0 is before the first.
    async fn key_value_changes(
        &self,
        bucket: &str,
        after: u64,
        limit: usize,
    ) -> Result<KeyValueChanges, StoreError>;

    /// Writes a value with its blobs, all or nothing, and gives its revision. `None`, and nothing is changed, if the value
    /// is not the expected one. What cannot be stored is [`StoreError::Rejected`].
    async fn write_key_value(&self, write: KeyValueWrite<'_>) -> Result<Option<u64>, StoreError>;

    /// A blob of a value.
    async fn key_value_blob(
        &self,
        bucket: &str,
        key: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError>;

    /// The newest revision of each bucket. One that is the same as before means that nothing was written there.
    async fn bucket_revisions(&self) -> Result<BTreeMap<String, u64>, StoreError>;
}

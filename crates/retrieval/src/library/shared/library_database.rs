//! The database of a library that several replicas share: records by key with their files, and who is reading.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;

use super::super::LibraryError;

/// Changes of records, oldest first.
#[derive(Clone, Debug, Default)]
pub struct RecordChanges {
    /// Whether they begin with the first one, because not all removals since the requested revision are known any more.
    pub from_start: bool,
    /// The last change of each record that was changed.
    pub changes: Vec<RecordChange>,
}

/// The last change of a record.
#[derive(Clone, Debug)]
pub struct RecordChange {
    /// The key of the record.
    pub key: String,
    /// The record, or none if it was removed.
    pub record: Option<Vec<u8>>,
    /// The revision of the change.
    pub revision: u64,
}

/// A write of a record with its files.
#[derive(Clone, Copy, Debug)]
pub struct RecordWrite<'a> {
    /// The key of the record.
    pub key: &'a str,
    /// The revision of the record that is replaced; none if there is to be none.
    pub expected: Option<u64>,
    /// The new record, or none to remove it with its files.
    pub record: Option<&'a [u8]>,
    /// Files to put, by name.
    pub put_files: &'a [(&'a str, &'a [u8])],
    /// Names of files to delete.
    pub delete_files: &'a [&'a str],
}

/// A database of records that several processes write.
///
/// A write is made whole or not at all, and only in place of the revision it names. Revisions grow, and nobody sees one
/// before all lower ones. What a write has acknowledged survives the process.
#[async_trait]
pub trait LibraryDatabase: Send + Sync + 'static {
    /// Changes after a revision, or some of the oldest of them. None are left if it gives none. 0 is before the first.
    async fn changes(&self, after: u64) -> Result<RecordChanges, LibraryError>;

    /// Writes a record and gives its revision. `None`, and nothing is changed, if the record is not the expected one.
    async fn write(&self, write: RecordWrite<'_>) -> Result<Option<u64>, LibraryError>;

    /// A file of a record.
    async fn file(&self, key: &str, name: &str) -> Result<Option<Vec<u8>>, LibraryError>;

    /// Says that a worker is alive for so long.
    async fn renew_worker(&self, worker: &str, lease: Duration) -> Result<(), LibraryError>;

    /// Says that a worker has ended.
    async fn end_worker(&self, worker: &str) -> Result<(), LibraryError>;

    /// The workers that are alive.
    async fn live_workers(&self) -> Result<BTreeSet<String>, LibraryError>;
}

//! The documents of the library in the database that replicas share.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::store::{KeyValueWrite, StoreError};
use doran_retrieval::{LibraryDatabase, LibraryError, RecordChange, RecordChanges, RecordWrite};

use super::SharedValues;

/// Where the records of documents are, with their files.
const DOCUMENT_BUCKET: &str = "documents";

/// Where the processes are that read documents.
const WORKER_BUCKET: &str = "document_workers";

/// Changes that are read in one go.
const CHANGES_PER_PAGE: usize = 500;

/// The documents in this database.
pub(crate) struct SharedLibraryDatabase(pub(crate) SharedValues);

fn database_error(error: StoreError) -> LibraryError {
    LibraryError::Database(error.into())
}

#[async_trait]
impl LibraryDatabase for SharedLibraryDatabase {
    async fn changes(&self, after: u64) -> Result<RecordChanges, LibraryError> {
        let found = self.0.key_value_changes(DOCUMENT_BUCKET, after, CHANGES_PER_PAGE).await;
        let found = found.map_err(database_error)?;
        let changes = found.changes.into_iter();
        let changes = changes.map(|change| RecordChange {
            key: change.key,
            record: change.value,
            revision: change.revision,
        });
        Ok(RecordChanges { from_start: found.from_start, changes: changes.collect() })
    }

    async fn write(&self, write: RecordWrite<'_>) -> Result<Option<u64>, LibraryError> {
        let RecordWrite { key, expected, record, put_files, delete_files } = write;
        let written = self.0.write_key_value(KeyValueWrite {
            value: record,
            put_blobs: put_files,
            delete_blobs: delete_files,
            ..KeyValueWrite::put(DOCUMENT_BUCKET, key, expected, &[])
        });
        match written.await {
            // Whether it was written is seen. If not, the caller decides anew.
            Err(StoreError::Unknown(_)) => {
                let found = self.0.key_value(DOCUMENT_BUCKET, key).await.map_err(database_error)?;
                Ok(found.filter(|found| Some(found.value.as_slice()) == record).map(|found| found.revision))
            }
            written => written.map_err(database_error),
        }
    }

    async fn file(&self, key: &str, name: &str) -> Result<Option<Vec<u8>>, LibraryError> {
        self.0.key_value_blob(DOCUMENT_BUCKET, key, name).await.map_err(database_error)
    }

    async fn renew_worker(&self, worker: &str, lease: Duration) -> Result<(), LibraryError> {
        loop {
            let known = self.0.key_value(WORKER_BUCKET, worker).await.map_err(database_error)?;
            let expected = known.map(|known| known.revision);
            let write = KeyValueWrite {
                lifetime: Some(lease),
                ..KeyValueWrite::put(WORKER_BUCKET, worker, expected, &[])
            };
            // The lease may run out between both.
            if self.0.write_key_value(write).await.map_err(database_error)?.is_some() {
                return Ok(());
            }
        }
    }

    async fn end_worker(&self, worker: &str) -> Result<(), LibraryError> {
        let known = self.0.key_value(WORKER_BUCKET, worker).await.map_err(database_error)?;
        if let Some(known) = known {
            let write = KeyValueWrite::remove(WORKER_BUCKET, worker, known.revision);
            self.0.write_key_value(write).await.map_err(database_error)?;
        }
        Ok(())
    }

    async fn live_workers(&self) -> Result<BTreeSet<String>, LibraryError> {
        let live = self.0.key_values(WORKER_BUCKET, "").await.map_err(database_error)?;
        Ok(live.into_iter().map(|worker| worker.key).collect())
    }
}

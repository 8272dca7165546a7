//! A pool of read-only connections, so that readers never wait for the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use doran_engine::store::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::database_file;
use super::error::{SqliteResultExt, message_error};

/// The most read connections. More would only compete for the disk.
const MAX_READ_CONNECTIONS: usize = 4;

/// A pool of read-only connections, opened on demand.
pub(super) struct ReaderPool {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl ReaderPool {
    pub(super) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            path,
            free: Mutex::default(),
            permits: Arc::new(Semaphore::new(MAX_READ_CONNECTIONS)),
        })
    }

    /// Runs `work` in a read transaction, so that it sees one snapshot of the file.
    pub(super) async fn run_in_snapshot<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_without_transaction(|conn| {
            let instant = conn.unchecked_transaction().or_store_error()?;
            work(&instant)
        })
        .await
    }

    /// Runs `work` without a transaction.
    pub(super) async fn run_without_transaction<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = |_| StoreError::Unavailable(message_error("the store is closed"));
        let permit = self.permits.clone().acquire_owned().await.map_err(closed)?;
        let readers = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let conn = readers.take_connection()?;
            let result = work(&conn);
            readers.put_back_connection(conn);
            drop(permit);
            result
        });
        done.await.map_err(|error| StoreError::Other(error.into()))?
    }

    fn take_connection(&self) -> Result<Connection, StoreError> {
        self.pop_idle_connection().map_or_else(|| database_file::open_reader(&self.path), Ok)
    }

    fn pop_idle_connection(&self) -> Option<Connection> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put_back_connection(&self, conn: Connection) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
    }
}

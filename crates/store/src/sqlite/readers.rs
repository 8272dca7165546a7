//! Connections that only read, so that no reader waits for a writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use doran_engine::store::StoreError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::error::{Sorted, text};
use super::file;
use super::writer::has_other_workers;

/// More than this only wait for each other on the disk.
const MOST: usize = 4;

/// A few connections, opened when they are first needed.
pub(super) struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self { path, free: Mutex::default(), permits: Arc::new(Semaphore::new(MOST)) })
    }

    /// Does `work` on the file as it was at one instant.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.raw(|conn| {
            let instant = conn.unchecked_transaction().sorted()?;
            work(&instant)
        })
        .await
    }

    /// As [`Readers::run`], for a read of a row or two. It is done on the spot when a connection is free: to wake a
    /// thread and be woken by it costs more than such a read.
    pub(super) async fn quick<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if has_other_workers()
            && let Ok(_permit) = self.permits.try_acquire()
            && let Some(conn) = self.idle()
        {
            let result = conn.unchecked_transaction().sorted().and_then(|instant| work(&instant));
            self.put(conn);
            return result;
        }
        self.run(work).await
    }

    /// Does `work` without a transaction around it.
    pub(super) async fn raw<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = |_| StoreError::Unavailable(text("the store is closed"));
        let permit = self.permits.clone().acquire_owned().await.map_err(closed)?;
        let readers = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let conn = readers.take()?;
            let result = work(&conn);
            readers.put(conn);
            drop(permit);
            result
        });
        done.await.map_err(|error| StoreError::Other(error.into()))?
    }

    fn take(&self) -> Result<Connection, StoreError> {
        self.idle().map_or_else(|| file::reader(&self.path), Ok)
    }

    fn idle(&self) -> Option<Connection> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put(&self, conn: Connection) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
    }
}

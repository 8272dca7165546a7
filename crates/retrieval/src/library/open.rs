//! Opens a library: its directory is taken first, then what the disk knows is read, then the work goes on.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};

use super::catalog::Catalog;
use super::record::IngestState;
use super::{Library, LibraryError, LibraryInner, LibraryOptions, LibraryWorkers, disk, ingest_worker};
use crate::passage::DocumentId;
use crate::retriever::DocumentIndex;

/// The directory of a library, taken for this process before anything is done to it or to its index.
#[derive(Debug)]
pub struct LockedLibrary {
    root: PathBuf,
    lock: File,
}

impl Library {
    /// Takes the directory of a library, and makes it if need be. One process at a time may have it.
    pub async fn lock_directory(root: &Path) -> Result<LockedLibrary, LibraryError> {
        let path = root.to_owned();
        let lock = disk::run_blocking(root, move || disk::lock_library_directory(&path)).await?;
        Ok(LockedLibrary { root: root.to_owned(), lock })
    }

    /// Opens the library in a directory, makes it if need be, and goes on with what was left undone. One process at a
    /// time may have it open.
    pub async fn open(
        root: &Path,
        index: Arc<dyn DocumentIndex>,
        options: LibraryOptions,
    ) -> Result<Self, LibraryError> {
        let library = Self::open_without_workers(Self::lock_directory(root).await?, index, options).await?;
        library.start_workers();
        Ok(library)
    }

    /// The same with an index that is brought in step first ([`Library::sync`]), while nobody reads and puts into it.
    pub async fn open_synced(
        taken: LockedLibrary,
        index: Arc<dyn DocumentIndex>,
        options: LibraryOptions,
        aside: impl Fn(&DocumentId) -> bool + Send + Sync,
    ) -> Result<Self, LibraryError> {
        let library = Self::open_without_workers(taken, index.clone(), options).await?;
        library.sync_index(&*index, aside).await?;
        library.start_workers();
        Ok(library)
    }

    /// The library without anybody who works.
    async fn open_without_workers(
        taken: LockedLibrary,
        index: Arc<dyn DocumentIndex>,
        options: LibraryOptions,
    ) -> Result<Self, LibraryError> {
        let LockedLibrary { root, lock } = taken;
        let path = root.clone();
        let records = disk::run_blocking(&root, move || disk::load_records(&path)).await?;
        let mut shelf = Catalog::default();
        let mut removing = Vec::new();
        for record in records {
            match record.state {
                IngestState::Removing => removing.push(record.key()),
                _ => shelf.insert_loaded(record.after_interruption()),
            }
        }
        if options.workers > 0 {
            // A process that was killed may have left some.
            shelf.mark_cleanup_needed();
        }
        for key in removing {
            index.remove(&key.tenant, &key.id).await?;
            let path = disk::document_directory(&root, &key);
            disk::run_blocking(&root, move || disk::remove_document_directory(&path)).await?;
        }
        let (changed, _) = watch::channel(0);
        let inner = Arc::new(LibraryInner {
            root,
            index,
            options,
            catalog: Mutex::new(shelf),
            wake_worker: Notify::new(),
            change_count: changed,
            _lock: lock,
        });
        Ok(Self { inner, workers: Arc::new(LibraryWorkers(Mutex::new(Vec::new()))) })
    }

    fn start_workers(&self) {
        for _ in 0..self.inner.options.workers {
            self.workers.push(tokio::spawn(ingest_worker::run_ingest_worker(self.inner.clone())));
        }
    }
}

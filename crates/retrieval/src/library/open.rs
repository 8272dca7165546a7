//! Opens a library: locks its directory, loads the records, then starts the workers.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};

use super::catalog::Catalog;
use super::record::IngestState;
use super::shared::SharedDocuments;
use super::{Library, LibraryError, LibraryInner, LibraryOptions, LibraryWorkers, disk, ingest_worker};
use crate::passage::DocumentId;
use crate::retriever::DocumentIndex;

/// The directory of a library, locked for this process before anything in it or in its index is changed.
#[derive(Debug)]
pub struct LockedLibrary {
    root: PathBuf,
    lock: File,
}

impl LockedLibrary {
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

impl Library {
    /// Locks the directory of a library and creates it if it does not exist. Only one process at a time can hold it.
    pub async fn lock_directory(root: &Path) -> Result<LockedLibrary, LibraryError> {
        let path = root.to_owned();
        let lock = disk::run_blocking(root, move || disk::lock_library_directory(&path)).await?;
        Ok(LockedLibrary { root: root.to_owned(), lock })
    }

    /// Opens the library in a directory and continues unfinished work. Creates the directory if it does not exist. Only
    /// one process at a time can have it open.
    pub async fn open(
        root: &Path,
        index: Arc<dyn DocumentIndex>,
        options: LibraryOptions,
    ) -> Result<Self, LibraryError> {
        let library = Self::open_without_workers(Self::lock_directory(root).await?, index, options).await?;
        library.start_workers();
        Ok(library)
    }

    /// Like [`Library::open`], but synchronises the index first ([`Library::sync_index`]), before any worker writes to
    /// it.
    pub async fn open_synced(
        taken: LockedLibrary,
        index: Arc<dyn DocumentIndex>,
        options: LibraryOptions,
        aside: impl Fn(&DocumentId) -> bool + Send + Sync,
    ) -> Result<Self, LibraryError> {
        let library = Self::open_without_workers(taken, index.clone(), options).await?;
        let filled = index.ensure_exists().await?;
        library.sync_index(&*index, aside).await?;
        library.start_workers();
        if library.inner.options.workers > 0 {
            library.watch_index(filled);
        }
        Ok(library)
    }

    /// Opens the library without starting workers.
    async fn open_without_workers(
        taken: LockedLibrary,
        index: Arc<dyn DocumentIndex>,
        options: LibraryOptions,
    ) -> Result<Self, LibraryError> {
        let LockedLibrary { root, lock } = taken;
        let path = root.clone();
        let records = disk::run_blocking(&root, move || disk::load_records(&path)).await?;
        let mut catalog = Catalog::default();
        let mut removing = Vec::new();
        for record in records {
            match record.state {
                IngestState::Removing => removing.push(record.key()),
                _ => catalog.insert_loaded(record.after_interruption()),
            }
        }
        if options.workers > 0 {
            // A process that was killed may have left replaced versions in the index.
            catalog.mark_cleanup_needed();
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
            catalog: Mutex::new(catalog),
            wake_worker: Notify::new(),
            change_count: changed,
            shared: None,
            _lock: lock,
        });
        Ok(Self { inner, workers: Arc::new(LibraryWorkers(Mutex::new(Vec::new()))) })
    }

    /// A library over a database, without its tasks.
    pub(super) fn over_database(
        taken: LockedLibrary,
        shared: SharedDocuments,
        index: Arc<dyn DocumentIndex>,
        options: LibraryOptions,
    ) -> Self {
        let inner = Arc::new(LibraryInner {
            root: taken.root,
            index,
            options,
            catalog: Mutex::new(Catalog::default()),
            wake_worker: Notify::new(),
            change_count: watch::channel(0).0,
            shared: Some(shared),
            _lock: taken.lock,
        });
        Self { inner, workers: Arc::new(LibraryWorkers(Mutex::new(Vec::new()))) }
    }

    fn start_workers(&self) {
        for _ in 0..self.inner.options.workers {
            self.workers.push(tokio::spawn(ingest_worker::run_ingest_worker(self.inner.clone())));
        }
    }
}

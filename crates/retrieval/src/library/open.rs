//! Opens a library: its directory is taken first, then what the disk knows is read, then the work goes on.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};

use super::record::State;
use super::shelf::Shelf;
use super::{Inner, Library, LibraryError, LibraryOptions, Workers, disk, work};
use crate::passage::DocumentId;
use crate::retriever::Index;

/// The directory of a library, taken for this process before anything is done to it or to its index.
#[derive(Debug)]
pub struct TakenLibrary {
    root: PathBuf,
    lock: File,
}

impl Library {
    /// Takes the directory of a library, and makes it if need be. One process at a time may have it.
    pub async fn take(root: &Path) -> Result<TakenLibrary, LibraryError> {
        let path = root.to_owned();
        let lock = disk::blocking(root, move || disk::lock(&path)).await?;
        Ok(TakenLibrary { root: root.to_owned(), lock })
    }

    /// Opens the library in a directory, makes it if need be, and goes on with what was left undone. One process at a
    /// time may have it open.
    pub async fn open(
        root: &Path,
        index: Arc<dyn Index>,
        options: LibraryOptions,
    ) -> Result<Self, LibraryError> {
        let library = Self::at_rest(Self::take(root).await?, index, options).await?;
        library.begin();
        Ok(library)
    }

    /// The same with an index that is brought in step first ([`Library::sync`]), while nobody reads and puts into it.
    pub async fn open_in_step(
        taken: TakenLibrary,
        index: Arc<dyn Index>,
        options: LibraryOptions,
        aside: impl Fn(&DocumentId) -> bool + Send + Sync,
    ) -> Result<Self, LibraryError> {
        let library = Self::at_rest(taken, index.clone(), options).await?;
        library.sync(&*index, aside).await?;
        library.begin();
        Ok(library)
    }

    /// The library without anybody who works.
    async fn at_rest(
        taken: TakenLibrary,
        index: Arc<dyn Index>,
        options: LibraryOptions,
    ) -> Result<Self, LibraryError> {
        let TakenLibrary { root, lock } = taken;
        let path = root.clone();
        let records = disk::blocking(&root, move || disk::load(&path)).await?;
        let mut shelf = Shelf::default();
        let mut removing = Vec::new();
        for record in records {
            match record.state {
                State::Removing => removing.push(record.key()),
                _ => shelf.take(record.interrupted()),
            }
        }
        if options.workers > 0 {
            // A process that was killed may have left some.
            shelf.leave_words();
        }
        for key in removing {
            index.remove(&key.tenant, &key.id).await?;
            let path = disk::directory(&root, &key);
            disk::blocking(&root, move || disk::erase(&path)).await?;
        }
        let (changed, _) = watch::channel(0);
        let inner = Arc::new(Inner {
            root,
            index,
            options,
            shelf: Mutex::new(shelf),
            wake: Notify::new(),
            changed,
            _lock: lock,
        });
        Ok(Self { inner, workers: Arc::new(Workers(Mutex::new(Vec::new()))) })
    }

    fn begin(&self) {
        for _ in 0..self.inner.options.workers {
            self.workers.push(tokio::spawn(work::work(self.inner.clone())));
        }
    }
}

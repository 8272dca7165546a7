//! The library: documents that were handed in, on their way to the index and afterwards.
//!
//! Each document has a directory of its own with the original, the text that was read from it and a small record of
//! where it stands. What [`Library::add`] acknowledged is on disk: a killed process goes on where it was at the next
//! [`Library::open`]. The same file again changes nothing; a changed file of the same name takes the place of the old
//! one in the index at once, and only when it has been read. An index can be built again from the texts
//! ([`Library::rebuild`]) without reading a single original.
//!
//! ```text
//! queued ─▶ reading ─▶ indexing ─▶ ready        pause, cancel: from queued and reading
//!   ▲          │           │                    resume, retry: from paused, cancelled, failed
//!   └──────────┴───────────┴─▶ failed
//! ```

pub(crate) mod disk;
mod error;
mod open;
mod record;
mod shelf;
mod sync;
mod work;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedMutexGuard, oneshot, watch};
use tokio::task::JoinHandle;

use crate::ingest::{ReadLimits, Reader};
use crate::passage::{Document, DocumentId, DocumentKind, Tenant, is_collection_name};
use crate::retriever::Index;
pub use error::LibraryError;
pub use open::TakenLibrary;
pub use record::{State, Status};

use record::{Incoming, Key, Record};
use shelf::{Leaving, Shelf};

/// The most bytes of the name of a tenant.
const NAME: usize = 256;

/// So long a new document waits for an older one of its name to go away.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of the name of a file.
const FILE_NAME: usize = 16 << 10;

/// How the library works.
#[derive(Clone, Debug)]
pub struct LibraryOptions {
    /// Who reads the files.
    pub reader: Reader,
    /// How many documents are worked on at once. With 0 nothing is read: what waits goes on waiting, and no attempt at it
    /// is counted.
    pub workers: usize,
    /// The most documents of a tenant that wait or are worked on.
    pub waiting: usize,
    /// The most bytes of all originals of a tenant.
    pub bytes: u64,
}

impl Default for LibraryOptions {
    /// One worker less than there are processors, at least one; 10,000 documents waiting and 10 GiB for each tenant.
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, |cores| cores.get() - 1).max(1);
        let reader = Reader::new(ReadLimits::default(), workers);
        Self { reader, workers, waiting: 10_000, bytes: 10 << 30 }
    }
}

/// What is handed in.
#[derive(Clone, Debug)]
pub struct NewDocument {
    /// Whose it is.
    pub tenant: Tenant,
    /// The name of the file. It is kept as it is and never used as a path.
    pub name: String,
    /// The group it belongs to; empty is the common one.
    pub collection: String,
    /// What it is.
    pub kind: DocumentKind,
    /// All of it.
    pub bytes: Vec<u8>,
}

/// The library. Clones are the same library; the last one to go stops the work.
#[derive(Clone, Debug)]
pub struct Library {
    inner: Arc<Inner>,
    workers: Arc<Workers>,
}

#[derive(Debug)]
struct Workers(Mutex<Vec<JoinHandle<()>>>);

impl Drop for Workers {
    fn drop(&mut self) {
        self.take().iter().for_each(JoinHandle::abort);
    }
}

impl Workers {
    fn push(&self, task: JoinHandle<()>) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    fn take(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Inner {
    root: PathBuf,
    index: Arc<dyn Index>,
    options: LibraryOptions,
    shelf: Mutex<Shelf>,
    wake: Notify,
    changed: watch::Sender<u64>,
    _lock: std::fs::File,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Library {
    /// Where the files of a library were taken from, by document. The library stays with the process that has it.
    pub fn origins(root: &Path) -> std::io::Result<HashMap<DocumentId, String>> {
        let records = disk::peek(root)?;
        Ok(records.into_iter().filter_map(|record| Some((record.id, record.origin?))).collect())
    }

    /// Stops the work and lets go of the directory, so that it can be opened again at once. Other clones of this library
    /// keep it open.
    pub async fn close(self) {
        if Arc::strong_count(&self.workers) == 1 {
            self.rest().await;
        }
    }

    /// Stops the work for good, in all clones. What was being read waits for the next start, and having been stopped does
    /// not count against it.
    pub async fn rest(&self) {
        for worker in self.workers.take() {
            worker.abort();
            // What was aborted has nothing to say.
            worker.await.ok();
        }
        let begun = self.inner.shelf().let_go();
        for key in begun {
            if let Err(error) = self.inner.keep(&key).await {
                tracing::warn!(id = %key.id, %error, "where a document stands could not be written down");
            }
        }
        self.inner.tell();
    }

    /// The most bytes a file may have.
    pub fn most_bytes(&self) -> usize {
        self.inner.options.reader.limits().input
    }

    /// How many documents of a tenant wait or are worked on.
    pub fn pending(&self, tenant: &Tenant) -> usize {
        self.inner.shelf().pending(tenant)
    }

    /// Ends when there is room for one more document of a tenant to wait.
    pub async fn room(&self, tenant: &Tenant) {
        let mut changes = self.watch();
        while self.pending(tenant) >= self.inner.options.waiting {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes a document in. When this returns it is on disk and will be read, now or after a restart. The same bytes
    /// under the same name change nothing.
    pub async fn add(&self, new: NewDocument) -> Result<Status, LibraryError> {
        self.add_from(new, None).await
    }

    /// The same for a file of this machine, whose place is remembered.
    pub async fn add_from(&self, new: NewDocument, origin: Option<&str>) -> Result<Status, LibraryError> {
        let inner = &self.inner;
        let NewDocument { tenant, name, collection, kind, bytes } = new;
        let most = inner.options.reader.limits().input;
        if bytes.is_empty() {
            return Err(LibraryError::Empty);
        }
        if bytes.len() > most {
            return Err(LibraryError::TooLarge { bytes: bytes.len(), most });
        }
        let short = |name: &str| !name.is_empty() && name.len() <= NAME;
        if !short(tenant.as_str()) || name.trim().is_empty() || name.len() > FILE_NAME {
            return Err(LibraryError::BadName);
        }
        if !is_collection_name(&collection) {
            return Err(LibraryError::BadCollection);
        }
        let key = Key::of(&tenant, &collection, &name);
        let incoming = Incoming { hash: disk::hash(&bytes), bytes: bytes.len() as u64 };
        let _writing = inner.stays(&key).await?;
        let same = inner.shelf().same(&key, &incoming, &kind);
        if let Some(status) = same {
            let moved = origin.and_then(|origin| inner.shelf().moved(&key, origin));
            let Some(moved) = moved else { return Ok(status) };
            inner.write_record(&key).await?;
            return Ok(moved);
        }
        inner.shelf().admits(&key, &incoming, &inner.options)?;
        let directory = disk::directory(&inner.root, &key);
        let file = disk::original(&directory, &incoming.hash);
        disk::blocking(&inner.root, move || disk::write(&file, &bytes)).await?;
        let origin = origin.map(ToOwned::to_owned);
        let (status, overtaken) =
            inner.shelf().put(Record { origin, ..Record::new(&key, name, kind, incoming) });
        inner.write_record(&key).await?;
        if let Some(overtaken) = overtaken {
            inner.drop_version(&key, &overtaken).await;
        }
        inner.wake.notify_one();
        inner.tell();
        Ok(status)
    }

    /// Whether another file was handed in under this name before, whose place this one takes.
    pub fn would_replace(&self, new: &NewDocument) -> bool {
        let key = Key::of(&new.tenant, &new.collection, &new.name);
        let Some(record) = self.inner.shelf().record(&key) else { return false };
        let known = record.incoming.map(|known| known.hash).or(record.ready.map(|ready| ready.hash));
        known.is_some_and(|known| known != disk::hash(&new.bytes))
    }

    /// The documents of a tenant, newest change first.
    pub fn list(&self, tenant: &Tenant) -> Vec<Status> {
        self.inner.shelf().list(tenant)
    }

    /// Whose documents are here.
    pub fn tenants(&self) -> Vec<Tenant> {
        let mut tenants: Vec<Tenant> =
            self.inner.shelf().ready().into_iter().map(|record| record.tenant).collect();
        tenants.sort();
        tenants.dedup();
        tenants
    }

    /// Where a document stands.
    pub fn status(&self, tenant: &Tenant, id: &DocumentId) -> Option<Status> {
        self.inner.shelf().status(&Key::named(tenant, id))
    }

    /// Counts every change. Whoever watches looks at the list again when the number has risen.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Ends when nothing of any tenant waits or is worked on.
    pub async fn settled(&self) {
        let mut changes = self.watch();
        while !self.inner.shelf().is_settled() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Keeps a document from being read until it is resumed. One that is ready stays ready.
    pub async fn pause(&self, tenant: &Tenant, id: &DocumentId) -> Result<Status, LibraryError> {
        self.change(tenant, id, |shelf, key| shelf.hold(key, State::Paused)).await
    }

    /// Gives up on a document that was not read yet. An older version of it stays.
    pub async fn cancel(&self, tenant: &Tenant, id: &DocumentId) -> Result<Status, LibraryError> {
        self.change(tenant, id, |shelf, key| shelf.hold(key, State::Cancelled)).await
    }

    /// Lets a paused document go on.
    pub async fn resume(&self, tenant: &Tenant, id: &DocumentId) -> Result<Status, LibraryError> {
        self.change(tenant, id, |shelf, key| shelf.again(key, &[State::Paused])).await
    }

    /// Reads a document again that failed or was cancelled.
    pub async fn retry(&self, tenant: &Tenant, id: &DocumentId) -> Result<Status, LibraryError> {
        self.change(tenant, id, |shelf, key| {
            shelf.again(key, &[State::Failed, State::Cancelled, State::Paused])
        })
        .await
    }

    /// Removes a document whole: from the index, its text and its original. Where that fails it is tried again in the
    /// background, the document is shown meanwhile, and whoever asks again learns how it stands.
    pub async fn remove(&self, tenant: &Tenant, id: &DocumentId) -> Result<(), LibraryError> {
        let inner = &self.inner;
        let marked = inner.shelf().removing(&Key::named(tenant, id));
        let Some((key, again)) = marked else { return Err(LibraryError::Unknown(id.clone())) };
        if again {
            return inner.take_away(&key).await;
        }
        // In a task of its own, so that a caller who leaves does not leave the document half removed.
        let (tell, told) = oneshot::channel();
        self.workers.push(tokio::spawn(work::take_away(inner.clone(), key, tell)));
        told.await.unwrap_or(Err(LibraryError::Leaving))
    }

    /// A document that is ready, with its text.
    pub async fn document(&self, tenant: &Tenant, id: &DocumentId) -> Result<Option<Document>, LibraryError> {
        let Some(record) = self.inner.shelf().record(&Key::named(tenant, id)) else { return Ok(None) };
        self.inner.document(&record).await
    }

    /// The bytes that were handed in: of the version that is ready, else of the one on its way.
    pub async fn original(&self, tenant: &Tenant, id: &DocumentId) -> Result<Option<Vec<u8>>, LibraryError> {
        let Some(record) = self.inner.shelf().record(&Key::named(tenant, id)) else { return Ok(None) };
        let hash =
            record.ready.as_ref().map(|ready| &ready.hash).or(record.incoming.as_ref().map(|new| &new.hash));
        let Some(hash) = hash else { return Ok(None) };
        let path = disk::original(&disk::directory(&self.inner.root, &record.key()), hash);
        disk::blocking(&self.inner.root, move || std::fs::read(&path)).await.map(Some)
    }

    async fn change(
        &self,
        tenant: &Tenant,
        id: &DocumentId,
        change: impl FnOnce(&mut Shelf, &Key) -> Option<Status>,
    ) -> Result<Status, LibraryError> {
        let key = Key::named(tenant, id);
        let status =
            change(&mut self.inner.shelf(), &key).ok_or_else(|| LibraryError::Unknown(id.clone()))?;
        self.inner.keep(&key).await?;
        self.inner.wake.notify_one();
        self.inner.tell();
        Ok(status)
    }
}

impl Inner {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Writes the record of a document as it stands now. Two writers of one document take turns, and the later one
    /// writes what holds then.
    async fn keep(&self, key: &Key) -> Result<(), LibraryError> {
        let writing = self.shelf().writing(key);
        let _writing = writing.lock().await;
        self.write_record(key).await
    }

    /// The same for one who has the lock.
    async fn write_record(&self, key: &Key) -> Result<(), LibraryError> {
        let Some(record) = self.shelf().record(key) else { return Ok(()) };
        let path = disk::record(&disk::directory(&self.root, &record.key()));
        disk::blocking(&self.root, move || disk::write(&path, &record.to_bytes()?)).await
    }

    /// Waits until a document of this name that is going away is gone, and takes the lock on its files.
    async fn stays(&self, key: &Key) -> Result<OwnedMutexGuard<()>, LibraryError> {
        let mut changes = self.changed.subscribe();
        let patience = tokio::time::Instant::now() + PATIENCE;
        loop {
            let writing = self.shelf().writing(key);
            let Ok(guard) = tokio::time::timeout_at(patience, writing.lock_owned()).await else {
                return Err(LibraryError::Leaving);
            };
            match self.shelf().leaving(key) {
                None => return Ok(guard),
                Some(Leaving::Stuck) => return Err(LibraryError::Leaving),
                Some(Leaving::Soon) => {}
            }
            drop(guard);
            match tokio::time::timeout_at(patience, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(LibraryError::Leaving),
            }
        }
    }

    /// Takes a document that is marked as going away out of everything.
    async fn take_away(&self, key: &Key) -> Result<(), LibraryError> {
        let unknown = || LibraryError::Unknown(key.id.clone());
        let turn = self.shelf().turn(key).ok_or_else(unknown)?;
        // A worker that has this document lets go of it first, so that it cannot put it back.
        let _turn = turn.lock().await;
        let writing = self.shelf().writing(key);
        let _writing = writing.lock().await;
        if self.shelf().leaving(key).is_none() {
            return Err(unknown());
        }
        // From here on a crash finishes the removal at the next start.
        self.write_record(key).await?;
        self.index.remove(&key.tenant, &key.id).await?;
        let path = disk::directory(&self.root, key);
        disk::blocking(&self.root, move || disk::erase(&path)).await?;
        self.shelf().forget(key);
        self.tell();
        Ok(())
    }

    /// Removes the files of a version, if no record names it. The caller has the lock on the document's files.
    async fn drop_version(&self, key: &Key, hash: &str) {
        if !self.shelf().is_forgotten(key, hash) {
            return;
        }
        let (directory, hash) = (disk::directory(&self.root, key), hash.to_owned());
        let dropped = disk::blocking(&self.root, move || disk::drop_version(&directory, &hash)).await;
        if let Err(error) = dropped {
            // The next start removes what no record names.
            tracing::warn!(id = %key.id, %error, "an old version could not be removed");
        }
    }

    async fn document(&self, record: &Record) -> Result<Option<Document>, LibraryError> {
        let Some(ready) = &record.ready else { return Ok(None) };
        let path = disk::text(&disk::directory(&self.root, &record.key()), &ready.hash);
        let record = record.clone();
        disk::blocking(&self.root, move || disk::document(&path, &record)).await.map(Some)
    }
}

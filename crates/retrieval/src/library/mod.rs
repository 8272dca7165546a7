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

mod catalog;
pub(crate) mod disk;
mod error;
mod index_sync;
mod ingest_worker;
mod open;
mod record;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedMutexGuard, oneshot, watch};
use tokio::task::JoinHandle;

use crate::ingest::{JailedFileReader, ReadLimits};
use crate::passage::{Document, DocumentId, DocumentKind, DocumentTenant, is_collection_name};
use crate::retriever::DocumentIndex;
pub use error::LibraryError;
pub use open::LockedLibrary;
pub use record::{DocumentStatus, IngestState};

use catalog::{Catalog, RemovalProgress};
use record::{DocumentKey, DocumentRecord, IncomingVersion};

/// The most bytes of the name of a tenant.
const MAX_TENANT_NAME_BYTES: usize = 256;

/// So long a new document waits for an older one of its name to go away.
const REMOVAL_WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of the name of a file.
const MAX_FILE_NAME_BYTES: usize = 16 << 10;

/// How the library works.
#[derive(Clone, Debug)]
pub struct LibraryOptions {
    /// Who reads the files.
    pub reader: JailedFileReader,
    /// How many documents are worked on at once. With 0 nothing is read: what waits goes on waiting, and no attempt at it
    /// is counted.
    pub workers: usize,
    /// The most documents of a tenant that wait or are worked on.
    pub max_pending_documents: usize,
    /// The most bytes of all originals of a tenant.
    pub max_stored_bytes: u64,
}

impl Default for LibraryOptions {
    /// One worker less than there are processors, at least one; 10,000 documents waiting and 10 GiB for each tenant.
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, |cores| cores.get() - 1).max(1);
        let reader = JailedFileReader::new(ReadLimits::default(), workers);
        Self { reader, workers, max_pending_documents: 10_000, max_stored_bytes: 10 << 30 }
    }
}

/// What is handed in.
#[derive(Clone, Debug)]
pub struct NewDocument {
    /// Whose it is.
    pub tenant: DocumentTenant,
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
    inner: Arc<LibraryInner>,
    workers: Arc<LibraryWorkers>,
}

#[derive(Debug)]
struct LibraryWorkers(Mutex<Vec<JoinHandle<()>>>);

impl Drop for LibraryWorkers {
    fn drop(&mut self) {
        self.take().iter().for_each(JoinHandle::abort);
    }
}

impl LibraryWorkers {
    fn push(&self, task: JoinHandle<()>) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    fn take(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct LibraryInner {
    root: PathBuf,
    index: Arc<dyn DocumentIndex>,
    options: LibraryOptions,
    catalog: Mutex<Catalog>,
    wake_worker: Notify,
    change_count: watch::Sender<u64>,
    _lock: std::fs::File,
}

impl std::fmt::Debug for LibraryInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Library {
    /// Where the files of a library were taken from, by document. The library stays with the process that has it.
    pub fn origins(root: &Path) -> std::io::Result<HashMap<DocumentId, String>> {
        let records = disk::read_records_without_lock(root)?;
        Ok(records.into_iter().filter_map(|record| Some((record.id, record.origin?))).collect())
    }

    /// Stops the work and lets go of the directory, so that it can be opened again at once. Other clones of this library
    /// keep it open.
    pub async fn close(self) {
        if Arc::strong_count(&self.workers) == 1 {
            self.stop_workers().await;
        }
    }

    /// Stops the work for good, in all clones. What was being read waits for the next start, and having been stopped does
    /// not count against it.
    pub async fn stop_workers(&self) {
        for worker in self.workers.take() {
            worker.abort();
            // What was aborted has nothing to say.
            worker.await.ok();
        }
        let begun = self.inner.catalog().requeue_active();
        for key in begun {
            if let Err(error) = self.inner.save_record(&key).await {
                tracing::warn!(id = %key.id, %error, "where a document stands could not be written down");
            }
        }
        self.inner.notify_changed();
    }

    /// The most bytes a file may have.
    pub fn max_file_bytes(&self) -> usize {
        self.inner.options.reader.limits().input
    }

    /// How many documents of a tenant wait or are worked on.
    pub fn pending_count(&self, tenant: &DocumentTenant) -> usize {
        self.inner.catalog().pending_count(tenant)
    }

    /// Ends when there is room for one more document of a tenant to wait.
    pub async fn wait_for_room(&self, tenant: &DocumentTenant) {
        let mut changes = self.watch();
        while self.pending_count(tenant) >= self.inner.options.max_pending_documents {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes a document in. When this returns it is on disk and will be read, now or after a restart. The same bytes
    /// under the same name change nothing.
    pub async fn add(&self, new: NewDocument) -> Result<DocumentStatus, LibraryError> {
        self.add_from(new, None).await
    }

    /// The same for a file of this machine, whose place is remembered.
    pub async fn add_from(
        &self,
        new: NewDocument,
        origin: Option<&str>,
    ) -> Result<DocumentStatus, LibraryError> {
        let inner = &self.inner;
        let NewDocument { tenant, name, collection, kind, bytes } = new;
        let most = inner.options.reader.limits().input;
        if bytes.is_empty() {
            return Err(LibraryError::Empty);
        }
        if bytes.len() > most {
            return Err(LibraryError::TooLarge { bytes: bytes.len(), most });
        }
        let short = |name: &str| !name.is_empty() && name.len() <= MAX_TENANT_NAME_BYTES;
        if !short(tenant.as_str()) || name.trim().is_empty() || name.len() > MAX_FILE_NAME_BYTES {
            return Err(LibraryError::BadName);
        }
        if !is_collection_name(&collection) {
            return Err(LibraryError::BadCollection);
        }
        let key = DocumentKey::for_file(&tenant, &collection, &name);
        let incoming = IncomingVersion { hash: disk::sha256_hex(&bytes), bytes: bytes.len() as u64 };
        let _writing = inner.lock_for_write(&key).await?;
        let same = inner.catalog().status_if_unchanged(&key, &incoming, &kind);
        if let Some(status) = same {
            let moved = origin.and_then(|origin| inner.catalog().update_origin(&key, origin));
            let Some(moved) = moved else { return Ok(status) };
            inner.write_record_locked(&key).await?;
            return Ok(moved);
        }
        inner.catalog().check_quota(&key, &incoming, &inner.options)?;
        let directory = disk::document_directory(&inner.root, &key);
        let file = disk::original_path(&directory, &incoming.hash);
        disk::run_blocking(&inner.root, move || disk::write_file_atomically(&file, &bytes)).await?;
        let origin = origin.map(ToOwned::to_owned);
        let (status, overtaken) = inner
            .catalog()
            .insert_version(DocumentRecord { origin, ..DocumentRecord::new(&key, name, kind, incoming) });
        inner.write_record_locked(&key).await?;
        if let Some(overtaken) = overtaken {
            inner.remove_version(&key, &overtaken).await;
        }
        inner.wake_worker.notify_one();
        inner.notify_changed();
        Ok(status)
    }

    /// Whether another file was handed in under this name before, whose place this one takes.
    pub fn would_replace(&self, new: &NewDocument) -> bool {
        let key = DocumentKey::for_file(&new.tenant, &new.collection, &new.name);
        let Some(record) = self.inner.catalog().record(&key) else { return false };
        let known = record.incoming.map(|known| known.hash).or(record.ready.map(|ready| ready.hash));
        known.is_some_and(|known| known != disk::sha256_hex(&new.bytes))
    }

    /// The documents of a tenant, newest change first.
    pub fn list(&self, tenant: &DocumentTenant) -> Vec<DocumentStatus> {
        self.inner.catalog().list(tenant)
    }

    /// Whose documents are here.
    pub fn tenants(&self) -> Vec<DocumentTenant> {
        let mut tenants: Vec<DocumentTenant> =
            self.inner.catalog().ready_records().into_iter().map(|record| record.tenant).collect();
        tenants.sort();
        tenants.dedup();
        tenants
    }

    /// Where a document stands.
    pub fn status(&self, tenant: &DocumentTenant, id: &DocumentId) -> Option<DocumentStatus> {
        self.inner.catalog().status(&DocumentKey::for_id(tenant, id))
    }

    /// Counts every change. Whoever watches looks at the list again when the number has risen.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.change_count.subscribe()
    }

    /// Ends when nothing of any tenant waits or is worked on.
    pub async fn wait_until_idle(&self) {
        let mut changes = self.watch();
        while !self.inner.catalog().is_idle() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Keeps a document from being read until it is resumed. One that is ready stays ready.
    pub async fn pause(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |shelf, key| shelf.pause_or_cancel(key, IngestState::Paused)).await
    }

    /// Gives up on a document that was not read yet. An older version of it stays.
    pub async fn cancel(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |shelf, key| shelf.pause_or_cancel(key, IngestState::Cancelled)).await
    }

    /// Lets a paused document go on.
    pub async fn resume(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |shelf, key| shelf.requeue(key, &[IngestState::Paused])).await
    }

    /// Reads a document again that failed or was cancelled.
    pub async fn retry(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |shelf, key| {
            shelf.requeue(key, &[IngestState::Failed, IngestState::Cancelled, IngestState::Paused])
        })
        .await
    }

    /// Removes a document whole: from the index, its text and its original. Where that fails it is tried again in the
    /// background, the document is shown meanwhile, and whoever asks again learns how it stands.
    pub async fn remove(&self, tenant: &DocumentTenant, id: &DocumentId) -> Result<(), LibraryError> {
        let inner = &self.inner;
        let marked = inner.catalog().mark_removing(&DocumentKey::for_id(tenant, id));
        let Some((key, again)) = marked else { return Err(LibraryError::Unknown(id.clone())) };
        if again {
            return inner.remove_document(&key).await;
        }
        // In a task of its own, so that a caller who leaves does not leave the document half removed.
        let (tell, told) = oneshot::channel();
        self.workers.push(tokio::spawn(ingest_worker::remove_with_retries(inner.clone(), key, tell)));
        told.await.unwrap_or(Err(LibraryError::BeingRemoved))
    }

    /// A document that is ready, with its text.
    pub async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, LibraryError> {
        let Some(record) = self.inner.catalog().record(&DocumentKey::for_id(tenant, id)) else {
            return Ok(None);
        };
        self.inner.load_document(&record).await
    }

    /// The bytes that were handed in: of the version that is ready, else of the one on its way.
    pub async fn original(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Vec<u8>>, LibraryError> {
        let Some(record) = self.inner.catalog().record(&DocumentKey::for_id(tenant, id)) else {
            return Ok(None);
        };
        let hash =
            record.ready.as_ref().map(|ready| &ready.hash).or(record.incoming.as_ref().map(|new| &new.hash));
        let Some(hash) = hash else { return Ok(None) };
        let path = disk::original_path(&disk::document_directory(&self.inner.root, &record.key()), hash);
        disk::run_blocking(&self.inner.root, move || std::fs::read(&path)).await.map(Some)
    }

    async fn change_state(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
        change: impl FnOnce(&mut Catalog, &DocumentKey) -> Option<DocumentStatus>,
    ) -> Result<DocumentStatus, LibraryError> {
        let key = DocumentKey::for_id(tenant, id);
        let status =
            change(&mut self.inner.catalog(), &key).ok_or_else(|| LibraryError::Unknown(id.clone()))?;
        self.inner.save_record(&key).await?;
        self.inner.wake_worker.notify_one();
        self.inner.notify_changed();
        Ok(status)
    }
}

impl LibraryInner {
    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_changed(&self) {
        self.change_count.send_modify(|count| *count += 1);
    }

    /// Writes the record of a document as it stands now. Two writers of one document take turns, and the later one
    /// writes what holds then.
    async fn save_record(&self, key: &DocumentKey) -> Result<(), LibraryError> {
        let writing = self.catalog().write_lock(key);
        let _writing = writing.lock().await;
        self.write_record_locked(key).await
    }

    /// The same for one who has the lock.
    async fn write_record_locked(&self, key: &DocumentKey) -> Result<(), LibraryError> {
        let Some(record) = self.catalog().record(key) else { return Ok(()) };
        let path = disk::record_path(&disk::document_directory(&self.root, &record.key()));
        disk::run_blocking(&self.root, move || disk::write_file_atomically(&path, &record.to_bytes()?)).await
    }

    /// Waits until a document of this name that is going away is gone, and takes the lock on its files.
    async fn lock_for_write(&self, key: &DocumentKey) -> Result<OwnedMutexGuard<()>, LibraryError> {
        let mut changes = self.change_count.subscribe();
        let patience = tokio::time::Instant::now() + REMOVAL_WAIT_TIMEOUT;
        loop {
            let writing = self.catalog().write_lock(key);
            let Ok(guard) = tokio::time::timeout_at(patience, writing.lock_owned()).await else {
                return Err(LibraryError::BeingRemoved);
            };
            match self.catalog().removal_progress(key) {
                None => return Ok(guard),
                Some(RemovalProgress::Failed) => return Err(LibraryError::BeingRemoved),
                Some(RemovalProgress::InProgress) => {}
            }
            drop(guard);
            match tokio::time::timeout_at(patience, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(LibraryError::BeingRemoved),
            }
        }
    }

    /// Takes a document that is marked as going away out of everything.
    async fn remove_document(&self, key: &DocumentKey) -> Result<(), LibraryError> {
        let unknown = || LibraryError::Unknown(key.id.clone());
        let turn = self.catalog().work_lock(key).ok_or_else(unknown)?;
        // A worker that has this document lets go of it first, so that it cannot put it back.
        let _turn = turn.lock().await;
        let writing = self.catalog().write_lock(key);
        let _writing = writing.lock().await;
        if self.catalog().removal_progress(key).is_none() {
            return Err(unknown());
        }
        // From here on a crash finishes the removal at the next start.
        self.write_record_locked(key).await?;
        self.index.remove(&key.tenant, &key.id).await?;
        let path = disk::document_directory(&self.root, key);
        disk::run_blocking(&self.root, move || disk::remove_document_directory(&path)).await?;
        self.catalog().remove_entry(key);
        self.notify_changed();
        Ok(())
    }

    /// Removes the files of a version, if no record names it. The caller has the lock on the document's files.
    async fn remove_version(&self, key: &DocumentKey, hash: &str) {
        if !self.catalog().is_unreferenced_version(key, hash) {
            return;
        }
        let (directory, hash) = (disk::document_directory(&self.root, key), hash.to_owned());
        let dropped =
            disk::run_blocking(&self.root, move || disk::remove_version_files(&directory, &hash)).await;
        if let Err(error) = dropped {
            // The next start removes what no record names.
            tracing::warn!(id = %key.id, %error, "an old version could not be removed");
        }
    }

    async fn load_document(&self, record: &DocumentRecord) -> Result<Option<Document>, LibraryError> {
        let Some(ready) = &record.ready else { return Ok(None) };
        let path = disk::text_path(&disk::document_directory(&self.root, &record.key()), &ready.hash);
        let record = record.clone();
        disk::run_blocking(&self.root, move || disk::read_document(&path, &record)).await.map(Some)
    }
}

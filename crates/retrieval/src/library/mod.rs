//! The library stores uploaded documents, ingests them and keeps an index up to date.
//!
//! Each document has its own directory with the original, the extracted text and a small record of its state. What
//! [`Library::add`] has acknowledged is on disk: after a crash, the next [`Library::open`] continues where the process
//! stopped. Adding the same file again changes nothing. A changed file of the same name replaces the old version in the
//! index atomically, once it has been read. [`Library::rebuild_index`] fills an index from the extracted texts without
//! reading an original again.
//!
//! ```text
//! queued ─▶ reading ─▶ indexing ─▶ ready        pause, cancel: from queued and reading; cancel also from paused
//!   ▲          │           │                    resume, retry: from paused, cancelled, failed
//!   └──────────┴───────────┴─▶ failed
//! ```

mod catalog;
pub(crate) mod disk;
mod error;
mod index_sync;
mod index_watch;
mod ingest_worker;
mod open;
mod record;
mod shared;

use std::collections::{BTreeSet, HashMap};
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
pub use shared::{LibraryDatabase, RecordChange, RecordChanges, RecordWrite};

use catalog::{Catalog, RemovalProgress};
use record::{DocumentKey, DocumentRecord, IncomingVersion};
use shared::{SharedDocuments, SharedVersion};

/// The maximum length of a tenant name in bytes.
const MAX_TENANT_NAME_BYTES: usize = 256;

/// How long a new document waits for an older one of the same name to be removed.
const REMOVAL_WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum length of a file name in bytes.
const MAX_FILE_NAME_BYTES: usize = 16 << 10;

/// The options of a library.
#[derive(Clone, Debug)]
pub struct LibraryOptions {
    /// The reader that extracts text from files.
    pub reader: JailedFileReader,
    /// The number of documents that are processed at once. With 0 nothing is read: documents stay queued, and no read
    /// attempt is counted.
    pub workers: usize,
    /// The maximum number of documents of a tenant that are queued or being processed.
    pub max_pending_documents: usize,
    /// The maximum size of all originals of a tenant in bytes.
    pub max_stored_bytes: u64,
    /// Documents that are in the index and not in the library, such as samples. A library that several processes share
    /// removes all others that it does not have from the index.
    pub index_only: BTreeSet<DocumentId>,
}

impl Default for LibraryOptions {
    /// One worker less than there are processors, at least one; 10,000 queued documents and 10 GiB for each tenant.
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, |cores| cores.get() - 1).max(1);
        let reader = JailedFileReader::new(ReadLimits::default(), workers);
        Self {
            reader,
            workers,
            max_pending_documents: 10_000,
            max_stored_bytes: 10 << 30,
            index_only: BTreeSet::new(),
        }
    }
}

/// A document to add.
#[derive(Clone, Debug)]
pub struct NewDocument {
    /// The tenant it belongs to.
    pub tenant: DocumentTenant,
    /// The name of the file. It is stored unchanged and never used as a path.
    pub name: String,
    /// The collection it belongs to. The empty name is the default collection.
    pub collection: String,
    /// The kind of document. `None` keeps the kind of an earlier version of the file; a contract is recognised by its
    /// structure, and everything else is general.
    pub kind: Option<DocumentKind>,
    /// The content of the file.
    pub bytes: Vec<u8>,
}

/// The library. Clones share one library; dropping the last one stops the workers.
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
    /// Set if the documents are in a database that several processes share, and not in the directory.
    shared: Option<SharedDocuments>,
    _lock: std::fs::File,
}

impl std::fmt::Debug for LibraryInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Library {
    /// Returns the path each document was added from. This takes no lock, so another process may have the library open.
    pub fn origins(root: &Path) -> std::io::Result<HashMap<DocumentId, String>> {
        let records = disk::read_records_without_lock(root)?;
        Ok(records.into_iter().filter_map(|record| Some((record.id, record.origin?))).collect())
    }

    /// Returns the identifier that a file gets when it is added. The same name in the same collection of the same tenant
    /// is the same document.
    pub fn document_id(tenant: &DocumentTenant, collection: &str, name: &str) -> DocumentId {
        DocumentKey::for_file(tenant, collection, name).id
    }

    /// Stops the workers and unlocks the directory, so that it can be opened again at once. Other clones of this
    /// library keep it open.
    pub async fn close(self) {
        if Arc::strong_count(&self.workers) == 1 {
            self.stop_workers().await;
        }
    }

    /// Stops the workers permanently, for all clones. Documents that were being read stay queued until the next start,
    /// and the interruption is not counted as a failed attempt.
    pub async fn stop_workers(&self) {
        for worker in self.workers.take() {
            worker.abort();
            // An aborted task has no result.
            worker.await.ok();
        }
        if self.inner.shared.is_some() {
            self.end_shared_workers().await;
            return;
        }
        let requeued = self.inner.catalog().requeue_active();
        for key in requeued {
            if let Err(error) = self.inner.save_record(&key).await {
                tracing::warn!(id = %key.id, %error, "where a document stands could not be written down");
            }
        }
        self.inner.notify_changed();
    }

    /// Returns the maximum size of a file in bytes.
    pub fn max_file_bytes(&self) -> usize {
        self.inner.options.reader.limits().input
    }

    /// Returns how many documents of a tenant are queued or being processed.
    pub fn pending_count(&self, tenant: &DocumentTenant) -> usize {
        self.inner.catalog().pending_count(tenant)
    }

    /// Waits until the queue of a tenant has room for one more document.
    pub async fn wait_for_room(&self, tenant: &DocumentTenant) {
        let mut changes = self.watch();
        while self.pending_count(tenant) >= self.inner.options.max_pending_documents {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Adds a document. When this returns, it is on disk and will be ingested, now or after a restart. Adding the same
    /// bytes under the same name changes nothing.
    pub async fn add(&self, new: NewDocument) -> Result<DocumentStatus, LibraryError> {
        self.add_from(new, None).await
    }

    /// Like [`add`](Self::add) for a file of this machine. Its path is stored too.
    pub async fn add_from(
        &self,
        new: NewDocument,
        origin: Option<&str>,
    ) -> Result<DocumentStatus, LibraryError> {
        self.check(&new)?;
        let inner = &self.inner;
        let NewDocument { tenant, name, collection, kind, bytes } = new;
        let key = DocumentKey::for_file(&tenant, &collection, &name);
        let incoming = IncomingVersion { hash: disk::sha256_hex(&bytes), bytes: bytes.len() as u64 };
        if let Some(shared) = &inner.shared {
            let origin = origin.map(ToOwned::to_owned);
            let version = SharedVersion { name, kind, incoming, bytes, origin };
            return shared.add(inner, &key, version).await;
        }
        let _writing = inner.lock_for_write(&key).await?;
        let same = inner.catalog().status_if_unchanged(&key, &incoming, kind.as_ref());
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
        let hash = incoming.hash.clone();
        let kind = kind.or_else(|| inner.catalog().chosen_kind(&key));
        let record = DocumentRecord { origin, ..DocumentRecord::new(&key, name, kind, incoming) };
        let record = inner.catalog().with_ready_version(record);
        // Workers see the document once its record is on disk: an error means that nothing was added.
        if let Err(error) = inner.write_record_file(record.clone()).await {
            inner.remove_version(&key, &hash).await;
            return Err(error);
        }
        let (status, overtaken) = inner.catalog().insert_version(record);
        if let Some(overtaken) = overtaken {
            inner.remove_version(&key, &overtaken).await;
        }
        inner.wake_worker.notify_one();
        inner.notify_changed();
        Ok(status)
    }

    /// Returns why [`add`](Self::add) refuses a file as it is, whatever the library contains.
    pub fn check(&self, new: &NewDocument) -> Result<(), LibraryError> {
        let NewDocument { tenant, name, collection, bytes, .. } = new;
        let max = self.max_file_bytes();
        if bytes.is_empty() {
            return Err(LibraryError::Empty);
        }
        if bytes.len() > max {
            return Err(LibraryError::TooLarge { bytes: bytes.len(), max });
        }
        let short = |name: &str| !name.is_empty() && name.len() <= MAX_TENANT_NAME_BYTES;
        if !short(tenant.as_str()) || name.trim().is_empty() || name.len() > MAX_FILE_NAME_BYTES {
            return Err(LibraryError::BadName);
        }
        if !is_collection_name(collection) {
            return Err(LibraryError::BadCollection);
        }
        Ok(())
    }

    /// Returns whether a different file was added under this name before, which this one would replace.
    pub fn would_replace(&self, new: &NewDocument) -> bool {
        let key = DocumentKey::for_file(&new.tenant, &new.collection, &new.name);
        let Some(record) = self.inner.catalog().record(&key) else { return false };
        let known = record.incoming.map(|known| known.hash).or(record.ready.map(|ready| ready.hash));
        known.is_some_and(|known| known != disk::sha256_hex(&new.bytes))
    }

    /// Lists the documents of a tenant, the most recently changed first.
    pub fn list(&self, tenant: &DocumentTenant) -> Vec<DocumentStatus> {
        self.inner.catalog().list(tenant)
    }

    /// Lists the tenants that have documents.
    pub fn tenants(&self) -> Vec<DocumentTenant> {
        let mut tenants: Vec<DocumentTenant> =
            self.inner.catalog().ready_records().into_iter().map(|record| record.tenant).collect();
        tenants.sort();
        tenants.dedup();
        tenants
    }

    /// Returns the status of a document.
    pub fn status(&self, tenant: &DocumentTenant, id: &DocumentId) -> Option<DocumentStatus> {
        self.inner.catalog().status(&DocumentKey::for_id(tenant, id))
    }

    /// Returns a counter that increases with every change. A caller reads the list again when it has changed.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.inner.change_count.subscribe()
    }

    /// Waits until no document of any tenant is queued or being processed.
    pub async fn wait_until_idle(&self) {
        let mut changes = self.watch();
        while !self.inner.catalog().is_idle() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Pauses the ingestion of a document until it is resumed. A ready document stays ready.
    pub async fn pause(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |catalog, key| catalog.pause_or_cancel(key, IngestState::Paused)).await
    }

    /// Cancels the ingestion of a document. An older version stays searchable.
    pub async fn cancel(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |catalog, key| catalog.pause_or_cancel(key, IngestState::Cancelled))
            .await
    }

    /// Resumes a paused document.
    pub async fn resume(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |catalog, key| catalog.requeue(key, &[IngestState::Paused])).await
    }

    /// Queues a document again that failed or was cancelled.
    pub async fn retry(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |catalog, key| {
            catalog.requeue(key, &[IngestState::Failed, IngestState::Cancelled, IngestState::Paused])
        })
        .await
    }

    /// Changes the kind of a document. It is indexed again with its new kind and stays searchable meanwhile.
    pub async fn change_kind(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
        kind: DocumentKind,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change_state(tenant, id, |catalog, key| catalog.change_kind(key, kind.clone())).await
    }

    /// Removes a document completely: from the index, its text and its original. If that fails, it is retried in the
    /// background. The document is listed meanwhile, and calling this again returns the current result.
    pub async fn remove(&self, tenant: &DocumentTenant, id: &DocumentId) -> Result<(), LibraryError> {
        let inner = &self.inner;
        if let Some(shared) = &inner.shared {
            return shared.remove(inner, &DocumentKey::for_id(tenant, id)).await;
        }
        let marked = inner.catalog().mark_removing(&DocumentKey::for_id(tenant, id));
        let Some((key, again)) = marked else { return Err(LibraryError::Unknown(id.clone())) };
        if again {
            return inner.remove_document(&key).await;
        }
        // In a separate task, so that a caller that is dropped does not leave the document half removed.
        let (tell, answer) = oneshot::channel();
        self.workers.push(tokio::spawn(ingest_worker::remove_with_retries(inner.clone(), key, tell)));
        answer.await.unwrap_or(Err(LibraryError::BeingRemoved))
    }

    /// Returns a ready document with its text.
    pub async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, LibraryError> {
        if let Some(shared) = &self.inner.shared {
            return shared.document(&self.inner, &DocumentKey::for_id(tenant, id)).await;
        }
        let Some(record) = self.inner.catalog().record(&DocumentKey::for_id(tenant, id)) else {
            return Ok(None);
        };
        self.inner.load_document(&record).await
    }

    /// Returns the original bytes: those of the ready version, or else of the one being processed.
    pub async fn original(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Vec<u8>>, LibraryError> {
        if let Some(shared) = &self.inner.shared {
            return shared.original(&self.inner, &DocumentKey::for_id(tenant, id)).await;
        }
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
        change: impl Fn(&mut Catalog, &DocumentKey) -> Option<DocumentStatus> + Send + Sync,
    ) -> Result<DocumentStatus, LibraryError> {
        let key = DocumentKey::for_id(tenant, id);
        if let Some(shared) = &self.inner.shared {
            return shared.change_state(&self.inner, &key, change).await;
        }
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

    /// Writes the current record of a document. Writers of one document take turns, and each writes the state at that
    /// moment.
    async fn save_record(&self, key: &DocumentKey) -> Result<(), LibraryError> {
        let writing = self.catalog().write_lock(key);
        let _writing = writing.lock().await;
        self.write_record_locked(key).await
    }

    /// Like [`save_record`](Self::save_record), for a caller that holds the write lock.
    async fn write_record_locked(&self, key: &DocumentKey) -> Result<(), LibraryError> {
        let Some(record) = self.catalog().record(key) else { return Ok(()) };
        self.write_record_file(record).await
    }

    async fn write_record_file(&self, record: DocumentRecord) -> Result<(), LibraryError> {
        let path = disk::record_path(&disk::document_directory(&self.root, &record.key()));
        disk::run_blocking(&self.root, move || disk::write_file_atomically(&path, &record.to_bytes()?)).await
    }

    /// Waits until a document of this name is no longer being removed, and locks its files.
    async fn lock_for_write(&self, key: &DocumentKey) -> Result<OwnedMutexGuard<()>, LibraryError> {
        let mut changes = self.change_count.subscribe();
        let deadline = tokio::time::Instant::now() + REMOVAL_WAIT_TIMEOUT;
        loop {
            let writing = self.catalog().write_lock(key);
            let Ok(guard) = tokio::time::timeout_at(deadline, writing.lock_owned()).await else {
                return Err(LibraryError::BeingRemoved);
            };
            match self.catalog().removal_progress(key) {
                None => return Ok(guard),
                Some(RemovalProgress::Failed) => return Err(LibraryError::BeingRemoved),
                Some(RemovalProgress::InProgress) => {}
            }
            drop(guard);
            match tokio::time::timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(LibraryError::BeingRemoved),
            }
        }
    }

    /// Removes a document that is marked as being removed from the index and the disk.
    async fn remove_document(&self, key: &DocumentKey) -> Result<(), LibraryError> {
        let unknown = || LibraryError::Unknown(key.id.clone());
        let turn = self.catalog().work_lock(key).ok_or_else(unknown)?;
        // A worker that processes this document finishes first, so that it cannot store it again.
        let _turn = turn.lock().await;
        let writing = self.catalog().write_lock(key);
        let _writing = writing.lock().await;
        if self.catalog().removal_progress(key).is_none() {
            return Err(unknown());
        }
        // After a crash from here on, the next start finishes the removal.
        self.write_record_locked(key).await?;
        self.index.remove(&key.tenant, &key.id).await?;
        let path = disk::document_directory(&self.root, key);
        disk::run_blocking(&self.root, move || disk::remove_document_directory(&path)).await?;
        self.catalog().remove_entry(key);
        self.notify_changed();
        Ok(())
    }

    /// Removes the files of a version if no record refers to it. The caller holds the lock on the document's files.
    async fn remove_version(&self, key: &DocumentKey, hash: &str) {
        if !self.catalog().is_unreferenced_version(key, hash) {
            return;
        }
        let (directory, hash) = (disk::document_directory(&self.root, key), hash.to_owned());
        let dropped =
            disk::run_blocking(&self.root, move || disk::remove_version_files(&directory, &hash)).await;
        if let Err(error) = dropped {
            // The next start removes files that no record refers to.
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

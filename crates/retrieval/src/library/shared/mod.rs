//! A library whose records and files are in a database that several replicas share.
//!
//! Each replica mirrors the records and asks for the changes since its last look. Whatever changes a record is decided on
//! the newest one and written in its place; who comes too late looks again and decides anew. The field `worker` of a
//! record names the job that may be writing the document to the index. Nobody else writes it there until that job has let
//! go of it, or its process is dead.

mod import;
mod index_sync;
mod ingest_job;
mod library_database;
mod worker;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::catalog::Catalog;
use super::record::{
    DocumentKey, DocumentRecord, DocumentStatus, IncomingVersion, IngestState, unix_seconds_now,
};
use super::{Library, LibraryError, LibraryInner, LibraryOptions, LockedLibrary, REMOVAL_WAIT_TIMEOUT, disk};
use crate::ingest::ExtractedText;
use crate::passage::{Document, DocumentId, DocumentKind};
use crate::retriever::DocumentIndex;

pub use library_database::{LibraryDatabase, RecordChange, RecordChanges, RecordWrite};

/// How often a replica asks what others have changed.
const REFRESH_INTERVAL: Duration = Duration::from_millis(250);

/// How long a process counts as alive after its last report, and how often it reports.
const WORKER_LEASE: Duration = Duration::from_secs(15);
const WORKER_RENEWAL_INTERVAL: Duration = Duration::from_secs(4);

/// The documents of a shared library, as this process knows them. Their records are in the catalog of the library.
pub(super) struct SharedDocuments {
    database: Arc<dyn LibraryDatabase>,
    /// This process, among those that read documents.
    process: String,
    next_job: AtomicU64,
    mirror: Mutex<RecordMirror>,
    refreshing: tokio::sync::Mutex<()>,
}

/// How far the catalog has followed the database.
#[derive(Default)]
struct RecordMirror {
    seen: u64,
    revisions: HashMap<String, (DocumentKey, u64)>,
    /// Keys of records that are damaged or of a newer version.
    unreadable: HashSet<String>,
}

/// What becomes of a record.
enum RecordChoice<T> {
    /// Nothing; this is the answer.
    Keep(T),
    /// It is written, and this is the answer then.
    Write(Box<DocumentRecord>, T),
    /// It is removed with its files, and this is the answer then.
    Remove(T),
}

/// Files that are written with a record.
#[derive(Clone, Copy, Default)]
struct RecordFiles<'a> {
    put: &'a [(&'a str, &'a [u8])],
}

pub(super) fn original_name(hash: &str) -> String {
    format!("original-{hash}")
}

pub(super) fn text_name(hash: &str) -> String {
    format!("text-{hash}")
}

/// The key of a record. It holds no name that a person chose.
fn record_key(key: &DocumentKey) -> String {
    let hash = disk::sha256_hex(key.tenant.as_str().as_bytes());
    format!("{}/{}", &hash[..32], disk::sha256_hex(key.id.as_str().as_bytes()))
}

/// A catalog of one document, to decide with.
fn catalog_of(record: Option<&DocumentRecord>) -> Catalog {
    let mut catalog = Catalog::default();
    if let Some(record) = record {
        catalog.insert_loaded(record.clone());
    }
    catalog
}

impl SharedDocuments {
    fn new(database: Arc<dyn LibraryDatabase>, process: String) -> Self {
        Self {
            database,
            process,
            next_job: AtomicU64::new(0),
            mirror: Mutex::default(),
            refreshing: tokio::sync::Mutex::new(()),
        }
    }

    fn mirror(&self) -> MutexGuard<'_, RecordMirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for a new job of this process.
    fn job_name(&self) -> String {
        format!("{}/{}", self.process, self.next_job.fetch_add(1, Ordering::Relaxed))
    }

    /// Follows the database up to now.
    pub(super) async fn refresh(&self, inner: &LibraryInner) -> Result<(), LibraryError> {
        let _turn = self.refreshing.lock().await;
        let mut is_changed = false;
        loop {
            let after = self.mirror().seen;
            let RecordChanges { from_start, changes } = self.database.changes(after).await?;
            if from_start && after > 0 {
                tracing::info!("the list of documents is read anew");
                *self.mirror() = RecordMirror::default();
                *inner.catalog() = Catalog::default();
                continue;
            }
            if changes.is_empty() {
                break;
            }
            is_changed = true;
            let mut mirror = self.mirror();
            for change in changes {
                mirror.seen = mirror.seen.max(change.revision);
                Self::mirror_change(inner, &mut mirror, change);
            }
        }
        if is_changed {
            inner.wake_worker.notify_one();
            inner.notify_changed();
        }
        Ok(())
    }

    fn mirror_change(inner: &LibraryInner, mirror: &mut RecordMirror, change: RecordChange) {
        let RecordChange { key, record, revision } = change;
        if mirror.revisions.get(&key).is_some_and(|(_, known)| *known > revision) {
            return;
        }
        mirror.unreadable.remove(&key);
        let record = record.and_then(|bytes| {
            let record = read_record(&key, &bytes);
            if record.is_none() {
                mirror.unreadable.insert(key.clone());
            }
            record
        });
        match record {
            Some(record) => {
                mirror.revisions.insert(key, (record.key(), revision));
                inner.catalog().insert_mirrored(record, revision);
            }
            None => {
                if let Some((key, _)) = mirror.revisions.remove(&key) {
                    inner.catalog().remove_entry(&key);
                }
            }
        }
    }

    /// The record of a document with its revision, as far as this process has followed.
    fn known(&self, inner: &LibraryInner, key: &DocumentKey) -> Option<(DocumentRecord, u64)> {
        let revision = self.mirror().revisions.get(&record_key(key)).map(|(_, revision)| *revision)?;
        Some((inner.catalog().record(key)?, revision))
    }

    /// Changes a record as `decide` says. If another process was faster, it is decided anew on what that one wrote.
    async fn change<T: Send>(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
        files: RecordFiles<'_>,
        mut decide: impl FnMut(Option<DocumentRecord>) -> Result<RecordChoice<T>, LibraryError> + Send,
    ) -> Result<T, LibraryError> {
        let stored_key = record_key(key);
        loop {
            self.refresh(inner).await?;
            let (before, expected) = self.known(inner, key).unzip();
            let (record, result) = match decide(before.clone())? {
                RecordChoice::Keep(result) => return Ok(result),
                RecordChoice::Write(record, result) => (Some(*record), result),
                RecordChoice::Remove(result) if before.is_none() => return Ok(result),
                RecordChoice::Remove(result) => (None, result),
            };
            let bytes = record.as_ref().map(DocumentRecord::to_bytes).transpose();
            let bytes = bytes.map_err(|error| LibraryError::Database(error.into()))?;
            let unused = unused_files(before.as_ref(), record.as_ref());
            let unused: Vec<&str> = unused.iter().map(String::as_str).collect();
            let write = RecordWrite {
                key: &stored_key,
                expected,
                record: bytes.as_deref(),
                put_files: files.put,
                delete_files: &unused,
            };
            if let Some(revision) = self.database.write(write).await? {
                self.mirror_own_write(inner, stored_key, bytes, revision);
                return Ok(result);
            }
        }
    }

    /// Unless a refresh has seen it meanwhile. The next refresh sees it again, with what others wrote before it.
    fn mirror_own_write(&self, inner: &LibraryInner, key: String, record: Option<Vec<u8>>, revision: u64) {
        let mut mirror = self.mirror();
        if mirror.seen < revision {
            Self::mirror_change(inner, &mut mirror, RecordChange { key, record, revision });
        }
        drop(mirror);
        inner.wake_worker.notify_one();
        inner.notify_changed();
    }

    /// Adds a version of a document.
    pub(super) async fn add(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
        new: SharedVersion,
    ) -> Result<DocumentStatus, LibraryError> {
        let SharedVersion { name, kind, incoming, bytes, origin } = new;
        let deadline = Instant::now() + REMOVAL_WAIT_TIMEOUT;
        let file_name = original_name(&incoming.hash);
        loop {
            self.refresh(inner).await?;
            let known = self.known(inner, key).map(|(record, _)| record);
            if known.is_some_and(|record| record.state == IngestState::Removing) {
                self.wait_for_removal(inner, key, deadline).await?;
                continue;
            }
            let files: &[(&str, &[u8])] = &[(&file_name, &bytes)];
            let added = self.change(inner, key, RecordFiles { put: files }, |before| {
                if before.as_ref().is_some_and(|record| record.state == IngestState::Removing) {
                    return Ok(RecordChoice::Keep(None));
                }
                let mut catalog = catalog_of(before.as_ref());
                if let Some(status) = catalog.status_if_unchanged(key, &incoming, kind.as_ref()) {
                    let moved = origin.as_deref().and_then(|origin| catalog.update_origin(key, origin));
                    let record = catalog.record(key).filter(|_| moved.is_some());
                    return Ok(match record {
                        Some(record) => RecordChoice::Write(Box::new(record), Some(status)),
                        None => RecordChoice::Keep(Some(status)),
                    });
                }
                inner.catalog().check_quota(key, &incoming, &inner.options)?;
                let kind = kind.clone().or_else(|| catalog.chosen_kind(key));
                let record = DocumentRecord::new(key, name.clone(), kind, incoming.clone());
                let record = DocumentRecord { origin: origin.clone(), ..record };
                let (status, _) = catalog.insert_version(catalog.with_ready_version(record));
                let record = catalog.record(key).map(|record| released(before.as_ref(), record));
                let record = record.ok_or_else(|| LibraryError::Unknown(key.id.clone()))?;
                Ok(RecordChoice::Write(Box::new(record), Some(status)))
            });
            if let Some(status) = added.await? {
                return Ok(status);
            }
        }
    }

    /// Changes the state of a document as the catalog decides.
    pub(super) async fn change_state(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
        change: impl Fn(&mut Catalog, &DocumentKey) -> Option<DocumentStatus> + Send + Sync,
    ) -> Result<DocumentStatus, LibraryError> {
        self.change(inner, key, RecordFiles::default(), |before| {
            let mut catalog = catalog_of(before.as_ref());
            let unknown = || LibraryError::Unknown(key.id.clone());
            let status = change(&mut catalog, key).ok_or_else(unknown)?;
            let record = catalog.record(key).ok_or_else(unknown)?;
            Ok(match before {
                Some(before) if before == record => RecordChoice::Keep(status),
                before => RecordChoice::Write(Box::new(released(before.as_ref(), record)), status),
            })
        })
        .await
    }

    /// Removes a document from the index and the database. A job that is writing it to the index removes it itself.
    pub(super) async fn remove(&self, inner: &LibraryInner, key: &DocumentKey) -> Result<(), LibraryError> {
        let job = self.job_name();
        let is_own = self
            .change(inner, key, RecordFiles::default(), |before| {
                let before = before.ok_or_else(|| LibraryError::Unknown(key.id.clone()))?;
                if before.state == IngestState::Removing && before.worker.is_some() {
                    return Ok(RecordChoice::Keep(false));
                }
                let indexes = before.worker.is_some() && before.state != IngestState::Reading;
                let worker = if indexes { before.worker.clone() } else { Some(job.clone()) };
                let changed_at = unix_seconds_now();
                let record = DocumentRecord { state: IngestState::Removing, worker, changed_at, ..before };
                Ok(RecordChoice::Write(Box::new(record), !indexes))
            })
            .await?;
        if is_own {
            return self.finish_removal(inner, key, &job).await;
        }
        self.wait_for_removal(inner, key, Instant::now() + REMOVAL_WAIT_TIMEOUT).await
    }

    /// Removes a document from the index that `job` has, and from the database if it is marked as being removed. If the index
    /// fails, a worker tries the removal again later.
    async fn finish_removal(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
        job: &str,
    ) -> Result<(), LibraryError> {
        let removed = inner.index.remove(&key.tenant, &key.id).await;
        let is_removed = removed.is_ok();
        self.change(inner, key, RecordFiles::default(), |before| {
            let Some(before) = before.filter(|record| record.worker.as_deref() == Some(job)) else {
                return Ok(RecordChoice::Keep(()));
            };
            if before.state != IngestState::Removing {
                return Ok(RecordChoice::Write(Box::new(DocumentRecord { worker: None, ..before }), ()));
            }
            if is_removed {
                return Ok(RecordChoice::Remove(()));
            }
            let record = DocumentRecord { worker: None, changed_at: unix_seconds_now(), ..before };
            Ok(RecordChoice::Write(Box::new(record), ()))
        })
        .await?;
        removed.map(drop).map_err(LibraryError::Index)
    }

    async fn wait_for_removal(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
        deadline: Instant,
    ) -> Result<(), LibraryError> {
        loop {
            self.refresh(inner).await?;
            let Some((record, _)) = self.known(inner, key) else { return Ok(()) };
            if record.state != IngestState::Removing {
                return Ok(());
            }
            if record.worker.is_none() || Instant::now() >= deadline {
                return Err(LibraryError::BeingRemoved);
            }
            tokio::time::sleep(REFRESH_INTERVAL).await;
        }
    }

    /// The original of a document: that of the ready version, or else of the one being processed.
    pub(super) async fn original(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
    ) -> Result<Option<Vec<u8>>, LibraryError> {
        self.file_of(inner, key, |record| {
            let ready = record.ready.as_ref().map(|ready| &ready.hash);
            ready.or(record.incoming.as_ref().map(|new| &new.hash)).map(|hash| original_name(hash))
        })
        .await
        .map(|found| found.map(|(_, bytes)| bytes))
    }

    /// A ready document with its text.
    pub(super) async fn document(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
    ) -> Result<Option<Document>, LibraryError> {
        let text = |record: &DocumentRecord| record.ready.as_ref().map(|ready| text_name(&ready.hash));
        let Some((record, bytes)) = self.file_of(inner, key, text).await? else { return Ok(None) };
        let extracted = read_text(&bytes)?;
        let kind = record.ready.as_ref().map_or(&record.kind, |ready| &ready.kind);
        Ok(Some(disk::document_from_extracted(&record, kind, extracted)))
    }

    /// A file of the newest record. One that was replaced while it was looked for is looked for again.
    async fn file_of(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
        name: impl Fn(&DocumentRecord) -> Option<String> + Send,
    ) -> Result<Option<(DocumentRecord, Vec<u8>)>, LibraryError> {
        let mut missing = None;
        loop {
            self.refresh(inner).await?;
            let Some((record, revision)) = self.known(inner, key) else { return Ok(None) };
            let Some(name) = name(&record) else { return Ok(None) };
            if let Some(bytes) = self.database.file(&record_key(key), &name).await? {
                return Ok(Some((record, bytes)));
            }
            if missing.replace(revision) == Some(revision) {
                return Err(LibraryError::Database(format!("the file `{name}` is missing").into()));
            }
        }
    }
}

/// A version of a document that is added.
pub(super) struct SharedVersion {
    pub(super) name: String,
    pub(super) kind: Option<DocumentKind>,
    pub(super) incoming: IncomingVersion,
    pub(super) bytes: Vec<u8>,
    pub(super) origin: Option<String>,
}

/// A record that replaces `before`, with its worker: a job that was reading stops, and one that may be writing to the index
/// keeps the document, and the version it writes, until it has let go of it.
fn released(before: Option<&DocumentRecord>, mut record: DocumentRecord) -> DocumentRecord {
    let writing = before.filter(|before| before.state != IngestState::Reading);
    record.worker = writing.and_then(|before| before.worker.clone());
    record.overtaken.clear();
    if let Some(before) = writing.filter(|_| record.worker.is_some()) {
        let replaced = before.incoming.iter().map(|new| &new.hash).chain(&before.overtaken);
        record.overtaken = replaced.filter(|hash| !record.has_version(hash)).cloned().collect();
    }
    record
}

/// The files of versions that a record had and has no more. The files of a record that is removed go with it.
fn unused_files(before: Option<&DocumentRecord>, after: Option<&DocumentRecord>) -> Vec<String> {
    let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
    let hashes = before.incoming.iter().map(|new| &new.hash);
    let hashes = hashes.chain(before.ready.iter().map(|ready| &ready.hash)).chain(&before.overtaken);
    let unused = hashes.filter(|hash| !after.has_version(hash) && !after.overtaken.contains(*hash));
    unused.flat_map(|hash| [original_name(hash), text_name(hash)]).collect()
}

/// The record of a document. One that is damaged, or of a newer version, is left alone.
fn read_record(key: &str, bytes: &[u8]) -> Option<DocumentRecord> {
    match DocumentRecord::from_bytes(bytes) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(key, %error, "a record of a document cannot be read and is left alone");
            None
        }
    }
}

fn read_text(bytes: &[u8]) -> Result<ExtractedText, LibraryError> {
    let text: ExtractedText =
        serde_json::from_slice(bytes).map_err(|error| LibraryError::Database(error.into()))?;
    Ok(text.with_short_title())
}

impl Library {
    /// Returns the path each document of a shared library was added from.
    pub async fn shared_origins(
        database: &dyn LibraryDatabase,
    ) -> Result<HashMap<DocumentId, String>, LibraryError> {
        let (mut origins, mut after) = (HashMap::new(), 0);
        loop {
            let RecordChanges { changes, .. } = database.changes(after).await?;
            let Some(last) = changes.last() else { return Ok(origins) };
            after = last.revision;
            let records =
                changes.iter().filter_map(|change| read_record(&change.key, change.record.as_deref()?));
            origins.extend(records.filter_map(|record| Some((record.id, record.origin?))));
        }
    }

    /// Opens the library in a database that other processes have open too. Documents in the directory are moved into the
    /// database first. `process` is a name that no other process has, also none that ended.
    pub async fn open_shared(
        taken: LockedLibrary,
        database: Arc<dyn LibraryDatabase>,
        index: Arc<dyn DocumentIndex>,
        options: LibraryOptions,
        process: String,
    ) -> Result<Self, LibraryError> {
        import::import_directory(taken.root(), database.as_ref()).await?;
        let shared = SharedDocuments::new(database, process);
        let library = Self::over_database(taken, shared, index, options);
        let inner = library.inner.clone();
        if let Some(shared) = &inner.shared {
            shared.refresh(&inner).await?;
        }
        library.start_shared_workers().await?;
        Ok(library)
    }

    /// Sees what other processes have changed up to now. A library of one process has seen everything.
    pub async fn refresh(&self) -> Result<(), LibraryError> {
        match &self.inner.shared {
            Some(shared) => shared.refresh(&self.inner).await,
            None => Ok(()),
        }
    }
}

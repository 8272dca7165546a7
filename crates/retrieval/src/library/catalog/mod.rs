//! The state of every document in memory, and the queue of those to ingest. The catalog only decides; it does not touch
//! the disk or the index.

mod mirrored;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::{Mutex, Notify};

use super::record::{
    DocumentKey, DocumentRecord, DocumentStatus, IncomingVersion, IngestState, ReadyVersion, unix_seconds_now,
};
use super::{LibraryError, LibraryOptions};
use crate::ingest::IngestFailure;
use crate::passage::{DocumentId, DocumentKind, DocumentTenant};
use crate::split::SPLIT_RULES_VERSION;

/// The documents of all tenants and their queues.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    entries: BTreeMap<(DocumentTenant, DocumentId), CatalogEntry>,
    queues: BTreeMap<DocumentTenant, BTreeSet<(u64, DocumentId)>>,
    active_jobs: HashMap<DocumentTenant, usize>,
    write_locks: HashMap<(DocumentTenant, DocumentId), Arc<Mutex<()>>>,
    next_queue_position: u64,
    cleanup: IndexCleanup,
}

/// Whether the index may still contain text of replaced versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum IndexCleanup {
    #[default]
    NotNeeded,
    Needed,
    /// A worker is removing it.
    Running,
}

#[derive(Debug)]
struct CatalogEntry {
    record: DocumentRecord,
    queue_position: u64,
    /// Incremented whenever the wanted state changes. A worker with an older number is out of date.
    generation: u64,
    /// Held by the worker that processes the document.
    work_lock: Arc<Mutex<()>>,
    cancel: Arc<Notify>,
    /// Whether its removal failed and will be retried.
    removal_failed: bool,
}

/// The progress of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalProgress {
    /// The document is being removed.
    InProgress,
    /// The removal failed and will be retried.
    Failed,
}

impl CatalogEntry {
    /// Returns whether it is being removed and the removal has not failed.
    fn is_being_removed(&self) -> bool {
        self.record.state == IngestState::Removing && !self.removal_failed
    }
}

/// A document for a worker to ingest.
#[derive(Debug)]
pub(super) struct IngestJob {
    pub(super) record: DocumentRecord,
    pub(super) incoming: IncomingVersion,
    pub(super) generation: u64,
    pub(super) work_lock: Arc<Mutex<()>>,
    pub(super) cancel: Arc<Notify>,
}

fn catalog_key(key: &DocumentKey) -> (DocumentTenant, DocumentId) {
    (key.tenant.clone(), key.id.clone())
}

impl Catalog {
    /// Adds a record that was loaded from disk.
    pub(super) fn insert_loaded(&mut self, record: DocumentRecord) {
        let key = record.key();
        let queued = record.state == IngestState::Queued;
        let held = CatalogEntry {
            record,
            queue_position: self.next_queue_position,
            generation: 0,
            work_lock: Arc::new(Mutex::new(())),
            cancel: Arc::new(Notify::new()),
            removal_failed: false,
        };
        self.next_queue_position += 1;
        self.entries.insert(catalog_key(&key), held);
        if queued {
            self.enqueue(&key);
        }
    }

    /// Returns a new version of a document with what stays of the one before: the version that can be searched.
    pub(super) fn with_ready_version(&self, record: DocumentRecord) -> DocumentRecord {
        match self.entries.get(&catalog_key(&record.key())) {
            Some(CatalogEntry { record: known, .. }) => {
                DocumentRecord { ready: known.ready.clone(), added_at: known.added_at, ..record }
            }
            None => record,
        }
    }

    /// Adds a document or a new version of one. Returns the hash of a version that it replaced before that was ready.
    pub(super) fn insert_version(&mut self, record: DocumentRecord) -> (DocumentStatus, Option<String>) {
        let key = record.key();
        let mut overtaken = None;
        match self.entries.get_mut(&catalog_key(&key)) {
            Some(held) => {
                // A version that is being indexed will become the ready one.
                let goes_in = held.record.state == IngestState::Indexing;
                overtaken = held.record.incoming.take().map(|old| old.hash).filter(|_| !goes_in);
                held.record = DocumentRecord {
                    ready: held.record.ready.take(),
                    added_at: held.record.added_at,
                    ..record
                };
                self.bump_generation(&key);
                self.enqueue(&key);
            }
            None => self.insert_loaded(record),
        }
        let record = &self.entries[&catalog_key(&key)].record;
        (record.status(), overtaken.filter(|hash| !record.has_version(hash)))
    }

    /// Returns the status of a document if these bytes are already known.
    pub(super) fn status_if_unchanged(
        &self,
        key: &DocumentKey,
        incoming: &IncomingVersion,
        kind: Option<&DocumentKind>,
    ) -> Option<DocumentStatus> {
        let record = &self.entries.get(&catalog_key(key))?.record;
        let coming = record.incoming.as_ref().is_some_and(|known| known.hash == incoming.hash);
        let there = record.ready.as_ref().is_some_and(|ready| ready.hash == incoming.hash);
        let same = match record.state {
            IngestState::Ready => there,
            IngestState::Queued | IngestState::Reading | IngestState::Indexing | IngestState::Paused => {
                coming
            }
            IngestState::Failed | IngestState::Cancelled | IngestState::Removing => false,
        };
        (same && kind.is_none_or(|kind| record.kind == *kind)).then(|| record.status())
    }

    /// Returns the kind that an earlier version of a document has, unless it is the one of every document without a kind.
    pub(super) fn chosen_kind(&self, key: &DocumentKey) -> Option<DocumentKind> {
        let record = &self.entries.get(&catalog_key(key))?.record;
        (record.kind != DocumentKind::General).then(|| record.kind.clone())
    }

    /// Changes the kind of a document. One that is ready or being indexed is indexed again.
    pub(super) fn change_kind(&mut self, key: &DocumentKey, kind: DocumentKind) -> Option<DocumentStatus> {
        self.status(key)?;
        let held = self.entries.get_mut(&catalog_key(key))?;
        let record = &mut held.record;
        let is_changed = record.kind != kind;
        (record.kind, record.recognises_kind) = (kind, false);
        if is_changed && matches!(record.state, IngestState::Ready | IngestState::Indexing) {
            if let Some(ready) = &record.ready {
                let ready = IncomingVersion { hash: ready.hash.clone(), bytes: ready.bytes };
                record.incoming.get_or_insert(ready);
            }
            record.state = IngestState::Queued;
            self.bump_generation(key);
            self.enqueue(key);
        } else if is_changed && record.state == IngestState::Reading {
            // The worker has the record as it was.
            record.state = IngestState::Queued;
            self.bump_generation(key);
            self.enqueue(key);
        }
        self.status(key)
    }

    /// Records the current path of the source file. Returns the status if the path changed.
    pub(super) fn update_origin(&mut self, key: &DocumentKey, origin: &str) -> Option<DocumentStatus> {
        let held = self.entries.get_mut(&catalog_key(key))?;
        let news = held.record.origin.as_deref() != Some(origin);
        held.record.origin = Some(origin.to_owned());
        news.then(|| held.record.status())
    }

    /// Returns how many documents of a tenant are queued or being processed.
    pub(super) fn pending_count(&self, tenant: &DocumentTenant) -> usize {
        let own = self.entries.iter().filter(|((whose, _), _)| whose == tenant);
        own.filter(|(_, held)| held.record.state.is_pending()).count()
    }

    /// Puts documents that are being processed back into the queue as if nobody had started: their worker had to
    /// stop, so the file is not to blame. Returns their keys.
    pub(super) fn requeue_active(&mut self) -> Vec<DocumentKey> {
        let is_active =
            |record: &DocumentRecord| matches!(record.state, IngestState::Reading | IngestState::Indexing);
        let mut keys = Vec::new();
        for held in self.entries.values_mut().filter(|held| is_active(&held.record)) {
            held.record.state = IngestState::Queued;
            held.record.attempts = held.record.attempts.saturating_sub(1);
            keys.push(held.record.key());
        }
        self.active_jobs.clear();
        // No worker is left to clean up before the next start.
        self.cleanup = IndexCleanup::NotNeeded;
        keys.iter().for_each(|key| self.enqueue(key));
        keys
    }

    /// Checks that the quotas leave room for a document.
    pub(super) fn check_quota(
        &self,
        key: &DocumentKey,
        incoming: &IncomingVersion,
        options: &LibraryOptions,
    ) -> Result<(), LibraryError> {
        let own = self
            .entries
            .range((key.tenant.clone(), DocumentId::default())..)
            .take_while(|((tenant, _), _)| *tenant == key.tenant);
        let (mut waiting, mut bytes) = (0, 0u64);
        for ((_, id), held) in own {
            let record = &held.record;
            if *id != key.id {
                waiting += usize::from(record.state.is_pending());
                bytes += record.incoming.as_ref().map_or(0, |new| new.bytes);
            }
            bytes += record.ready.as_ref().map_or(0, |ready| ready.bytes);
        }
        if waiting >= options.max_pending_documents {
            return Err(LibraryError::QueueFull(waiting));
        }
        if bytes.saturating_add(incoming.bytes) > options.max_stored_bytes {
            return Err(LibraryError::StorageFull(options.max_stored_bytes));
        }
        Ok(())
    }

    pub(super) fn list(&self, tenant: &DocumentTenant) -> Vec<DocumentStatus> {
        let own =
            self.entries.iter().filter(|((whose, _), held)| whose == tenant && !held.is_being_removed());
        let mut own: Vec<&CatalogEntry> = own.map(|(_, held)| held).collect();
        own.sort_by_key(|held| std::cmp::Reverse((held.record.changed_at, held.queue_position)));
        own.into_iter().map(|held| held.record.status()).collect()
    }

    pub(super) fn status(&self, key: &DocumentKey) -> Option<DocumentStatus> {
        let held = self.entries.get(&catalog_key(key)).filter(|held| !held.is_being_removed())?;
        Some(held.record.status())
    }

    pub(super) fn record(&self, key: &DocumentKey) -> Option<DocumentRecord> {
        self.entries.get(&catalog_key(key)).map(|held| held.record.clone())
    }

    /// Returns the progress of a removal, or `None` if the document is not being removed.
    pub(super) fn removal_progress(&self, key: &DocumentKey) -> Option<RemovalProgress> {
        let held =
            self.entries.get(&catalog_key(key)).filter(|held| held.record.state == IngestState::Removing)?;
        Some(if held.removal_failed { RemovalProgress::Failed } else { RemovalProgress::InProgress })
    }

    /// Records that the removal of a document failed. The document is listed again.
    pub(super) fn mark_removal_failed(&mut self, key: &DocumentKey) {
        if let Some(held) = self.entries.get_mut(&catalog_key(key)) {
            held.removal_failed = true;
        }
    }

    /// Returns whether no record refers to this version any more.
    pub(super) fn is_unreferenced_version(&self, key: &DocumentKey, hash: &str) -> bool {
        self.entries.get(&catalog_key(key)).is_none_or(|held| !held.record.has_version(hash))
    }

    /// Records that the index may contain text of replaced versions.
    pub(super) fn mark_cleanup_needed(&mut self) {
        self.cleanup = IndexCleanup::Needed;
    }

    /// Starts a cleanup of the index and returns true, if one is needed and no other work is left.
    pub(super) fn begin_cleanup(&mut self) -> bool {
        let due = self.cleanup == IndexCleanup::Needed
            && self.active_jobs.is_empty()
            && self.queues.values().all(BTreeSet::is_empty);
        if due {
            self.cleanup = IndexCleanup::Running;
        }
        due
    }

    /// Ends the cleanup. If it failed, the next start repeats it.
    pub(super) fn finish_cleanup(&mut self) {
        if self.cleanup == IndexCleanup::Running {
            self.cleanup = IndexCleanup::NotNeeded;
        }
    }

    /// Returns the records of documents that are ready.
    pub(super) fn ready_records(&self) -> Vec<DocumentRecord> {
        let ready = self
            .entries
            .values()
            .filter(|held| held.record.ready.is_some() && held.record.state != IngestState::Removing);
        ready.map(|held| held.record.clone()).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.cleanup == IndexCleanup::NotNeeded
            && self.active_jobs.values().all(|count| *count == 0)
            && self.entries.values().all(|held| !held.record.is_pending())
    }

    /// Pauses or cancels a document. A version that is already being indexed cannot be stopped.
    pub(super) fn pause_or_cancel(
        &mut self,
        key: &DocumentKey,
        state: IngestState,
    ) -> Option<DocumentStatus> {
        self.status(key)?;
        let held = self.entries.get_mut(&catalog_key(key))?;
        let from = [IngestState::Queued, IngestState::Reading, IngestState::Paused];
        if from.contains(&held.record.state) && held.record.state != state {
            held.record.state = state;
            self.bump_generation(key);
            self.unqueue(key);
        }
        self.status(key)
    }

    /// Puts a document back into the queue if it is in one of these states.
    pub(super) fn requeue(&mut self, key: &DocumentKey, from: &[IngestState]) -> Option<DocumentStatus> {
        self.status(key)?;
        let held = self.entries.get_mut(&catalog_key(key))?;
        if from.contains(&held.record.state) && held.record.incoming.is_some() {
            held.record.state = IngestState::Queued;
            held.record.failure = None;
            held.record.attempts = 0;
            self.bump_generation(key);
            self.enqueue(key);
        }
        self.status(key)
    }

    /// Marks a document as being removed. Returns its key, and whether it was being removed already.
    pub(super) fn mark_removing(&mut self, key: &DocumentKey) -> Option<(DocumentKey, bool)> {
        let held = self.entries.get_mut(&catalog_key(key))?;
        let again = held.record.state == IngestState::Removing;
        held.record.state = IngestState::Removing;
        let key = held.record.key();
        if !again {
            self.bump_generation(&key);
            self.unqueue(&key);
        }
        Some((key, again))
    }

    /// Returns the lock that the worker of a document holds.
    pub(super) fn work_lock(&self, key: &DocumentKey) -> Option<Arc<Mutex<()>>> {
        self.entries.get(&catalog_key(key)).map(|held| held.work_lock.clone())
    }

    pub(super) fn remove_entry(&mut self, key: &DocumentKey) {
        self.entries.remove(&catalog_key(key));
        self.write_locks.remove(&catalog_key(key));
    }

    /// Returns the lock for writing a document's files.
    pub(super) fn write_lock(&mut self, key: &DocumentKey) -> Arc<Mutex<()>> {
        self.write_locks.entry(catalog_key(key)).or_default().clone()
    }

    /// Returns the next document: the oldest in the queue of the tenant with the fewest active jobs.
    pub(super) fn next_job(&mut self) -> Option<IngestJob> {
        let waiting = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
        let least = waiting.min_by_key(|(tenant, queue)| {
            let first = queue.first().map_or(u64::MAX, |(place, _)| *place);
            (self.active_jobs.get(*tenant).copied().unwrap_or(0), first)
        });
        let tenant = least.map(|(tenant, _)| tenant.clone())?;
        let (_, id) = self.queues.get_mut(&tenant)?.pop_first()?;
        let held = self.entries.get_mut(&(tenant.clone(), id))?;
        let incoming = held.record.incoming.clone()?;
        held.record.state = IngestState::Reading;
        held.record.attempts += 1;
        held.cancel = Arc::new(Notify::new());
        *self.active_jobs.entry(tenant).or_default() += 1;
        Some(IngestJob {
            record: held.record.clone(),
            incoming,
            generation: held.generation,
            work_lock: held.work_lock.clone(),
            cancel: held.cancel.clone(),
        })
    }

    /// Records that a worker has finished with a document.
    pub(super) fn finish_job(&mut self, tenant: &DocumentTenant) {
        if let Some(count) = self.active_jobs.get_mut(tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.active_jobs.remove(tenant);
            }
        }
    }

    /// Returns whether the work of a worker is still wanted.
    pub(super) fn is_current_generation(&self, key: &DocumentKey, wanted: u64) -> bool {
        self.entries.get(&catalog_key(key)).is_some_and(|held| held.generation == wanted)
    }

    /// Moves a document from reading to indexing, if that is still wanted.
    pub(super) fn mark_indexing(&mut self, key: &DocumentKey, wanted: u64) -> bool {
        let held = self.entries.get_mut(&catalog_key(key)).filter(|held| held.generation == wanted);
        held.is_some_and(|held| {
            held.record.state = IngestState::Indexing;
            true
        })
    }

    /// Records that a version is searchable. Returns the hash of the version it replaced.
    pub(super) fn mark_ready(
        &mut self,
        key: &DocumentKey,
        wanted: u64,
        ready: ReadyVersion,
    ) -> Option<String> {
        let held = self.entries.get_mut(&catalog_key(key))?;
        let (hash, kind) = (ready.hash.clone(), ready.kind.clone());
        let old = held.record.ready.replace(ready);
        held.record.changed_at = unix_seconds_now();
        if held.generation == wanted {
            held.record.kind = kind;
            held.record.state = IngestState::Ready;
            held.record.incoming = None;
            held.record.failure = None;
            held.record.attempts = 0;
        }
        let coming = held.record.incoming.as_ref().map(|new| new.hash.clone());
        if old.is_some() {
            self.cleanup = IndexCleanup::Needed;
        }
        old.map(|old| old.hash).filter(|old| *old != hash && Some(old) != coming.as_ref())
    }

    /// Records that a version was split by the current rules. Returns the key of its record if that changed it.
    pub(super) fn mark_split(
        &mut self,
        key: &DocumentKey,
        version: &str,
        passages: usize,
    ) -> Option<DocumentKey> {
        let record = &mut self.entries.get_mut(&catalog_key(key))?.record;
        let ready = record.ready.as_mut().filter(|ready| ready.version == version)?;
        let news = (ready.cut, ready.passages) != (SPLIT_RULES_VERSION, passages);
        (ready.cut, ready.passages) = (SPLIT_RULES_VERSION, passages);
        news.then(|| record.key())
    }

    /// Records that a ready document is no longer searchable. Its original is kept and can be retried.
    pub(super) fn mark_not_ready(&mut self, key: &DocumentKey, failure: IngestFailure) {
        let Some(record) = self.entries.get_mut(&catalog_key(key)).map(|held| &mut held.record) else {
            return;
        };
        let Some(ReadyVersion { hash, bytes, .. }) = record.ready.take() else { return };
        record.changed_at = unix_seconds_now();
        if record.state == IngestState::Ready {
            record.state = IngestState::Failed;
            record.failure = Some(failure);
        }
        record.incoming.get_or_insert(IncomingVersion { hash, bytes });
    }

    pub(super) fn mark_failed(&mut self, key: &DocumentKey, wanted: u64, failure: IngestFailure) {
        if let Some(held) = self.entries.get_mut(&catalog_key(key)).filter(|held| held.generation == wanted) {
            held.record.state = IngestState::Failed;
            held.record.failure = Some(failure);
            held.record.changed_at = unix_seconds_now();
        }
    }

    fn bump_generation(&mut self, key: &DocumentKey) {
        if let Some(held) = self.entries.get_mut(&catalog_key(key)) {
            held.generation += 1;
            held.record.changed_at = unix_seconds_now();
            held.cancel.notify_one();
        }
    }

    fn enqueue(&mut self, key: &DocumentKey) {
        self.unqueue(key);
        let place = self.next_queue_position;
        self.next_queue_position += 1;
        if let Some(held) = self.entries.get_mut(&catalog_key(key)) {
            held.queue_position = place;
            self.queues.entry(key.tenant.clone()).or_default().insert((place, key.id.clone()));
        }
    }

    fn unqueue(&mut self, key: &DocumentKey) {
        let place = self.entries.get(&catalog_key(key)).map(|held| held.queue_position);
        if let (Some(place), Some(queue)) = (place, self.queues.get_mut(&key.tenant)) {
            queue.remove(&(place, key.id.clone()));
            if queue.is_empty() {
                self.queues.remove(&key.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests;

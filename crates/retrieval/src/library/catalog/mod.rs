//! What the process knows of every document, and who is next. Decides; the disk and the index are touched elsewhere.

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

/// All documents of the library.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    entries: BTreeMap<(DocumentTenant, DocumentId), CatalogEntry>,
    queues: BTreeMap<DocumentTenant, BTreeSet<(u64, DocumentId)>>,
    active_jobs: HashMap<DocumentTenant, usize>,
    write_locks: HashMap<(DocumentTenant, DocumentId), Arc<Mutex<()>>>,
    next_queue_position: u64,
    cleanup: IndexCleanup,
}

/// Whether the index may hold words of versions that were replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum IndexCleanup {
    #[default]
    NotNeeded,
    Needed,
    /// Somebody sees to them.
    Running,
}

#[derive(Debug)]
struct CatalogEntry {
    record: DocumentRecord,
    queue_position: u64,
    /// Rises with every change of what is wanted: a worker whose number is older has been overtaken.
    generation: u64,
    /// Held by the worker that has the document in hand.
    work_lock: Arc<Mutex<()>>,
    cancel: Arc<Notify>,
    /// Its removal failed and is tried again.
    removal_failed: bool,
}

/// How far a document is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalProgress {
    /// It goes now.
    InProgress,
    /// It could not be removed; that is tried again.
    Failed,
}

impl CatalogEntry {
    /// Whether it is on its way out, and nothing speaks against it.
    fn is_being_removed(&self) -> bool {
        self.record.state == IngestState::Removing && !self.removal_failed
    }
}

/// A document to be worked on.
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
    /// Takes a record that was on disk.
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

    /// Takes a new document, or a new version of one. Gives the hash of a version that it overtook before that was ready.
    pub(super) fn insert_version(&mut self, record: DocumentRecord) -> (DocumentStatus, Option<String>) {
        let key = record.key();
        let mut overtaken = None;
        match self.entries.get_mut(&catalog_key(&key)) {
            Some(held) => {
                // What is on its way into the index will be named as ready.
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

    /// The status of a document for which these bytes are nothing new.
    pub(super) fn status_if_unchanged(
        &self,
        key: &DocumentKey,
        incoming: &IncomingVersion,
        kind: &DocumentKind,
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
        (same && record.kind == *kind).then(|| record.status())
    }

    /// Notes where a known document lies now. Gives its status, if that was news.
    pub(super) fn update_origin(&mut self, key: &DocumentKey, origin: &str) -> Option<DocumentStatus> {
        let held = self.entries.get_mut(&catalog_key(key))?;
        let news = held.record.origin.as_deref() != Some(origin);
        held.record.origin = Some(origin.to_owned());
        news.then(|| held.record.status())
    }

    /// How many documents of a tenant wait or are worked on.
    pub(super) fn pending_count(&self, tenant: &DocumentTenant) -> usize {
        let own = self.entries.iter().filter(|((whose, _), _)| whose == tenant);
        own.filter(|(_, held)| held.record.state.is_pending()).count()
    }

    /// Puts what is worked on back into the queue as if nobody had begun: its worker was told to stop, so the file is not
    /// to blame. Gives what that concerned.
    pub(super) fn requeue_active(&mut self) -> Vec<DocumentKey> {
        let begun =
            |record: &DocumentRecord| matches!(record.state, IngestState::Reading | IngestState::Indexing);
        let mut keys = Vec::new();
        for held in self.entries.values_mut().filter(|held| begun(&held.record)) {
            held.record.state = IngestState::Queued;
            held.record.attempts = held.record.attempts.saturating_sub(1);
            keys.push(held.record.key());
        }
        self.active_jobs.clear();
        // Nobody is left to see to them before the next start.
        self.cleanup = IndexCleanup::NotNeeded;
        keys.iter().for_each(|key| self.enqueue(key));
        keys
    }

    /// Whether there is room for a document.
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

    /// How far a document is on its way out; none when it stays.
    pub(super) fn removal_progress(&self, key: &DocumentKey) -> Option<RemovalProgress> {
        let held =
            self.entries.get(&catalog_key(key)).filter(|held| held.record.state == IngestState::Removing)?;
        Some(if held.removal_failed { RemovalProgress::Failed } else { RemovalProgress::InProgress })
    }

    /// The removal of a document did not succeed for now: it is shown again.
    pub(super) fn mark_removal_failed(&mut self, key: &DocumentKey) {
        if let Some(held) = self.entries.get_mut(&catalog_key(key)) {
            held.removal_failed = true;
        }
    }

    /// Whether files of a version are of no use any more.
    pub(super) fn is_unreferenced_version(&self, key: &DocumentKey, hash: &str) -> bool {
        self.entries.get(&catalog_key(key)).is_none_or(|held| !held.record.has_version(hash))
    }

    /// The index may hold words of versions that were replaced.
    pub(super) fn mark_cleanup_needed(&mut self) {
        self.cleanup = IndexCleanup::Needed;
    }

    /// Whether somebody should see to such words now: there are some, and nothing else is to be done.
    pub(super) fn begin_cleanup(&mut self) -> bool {
        let due = self.cleanup == IndexCleanup::Needed
            && self.active_jobs.is_empty()
            && self.queues.values().all(BTreeSet::is_empty);
        if due {
            self.cleanup = IndexCleanup::Running;
        }
        due
    }

    /// That was done, or is left to the next start.
    pub(super) fn finish_cleanup(&mut self) {
        if self.cleanup == IndexCleanup::Running {
            self.cleanup = IndexCleanup::NotNeeded;
        }
    }

    /// The records of what can be found.
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
            && self.entries.values().all(|held| !held.record.state.is_pending())
    }

    /// Keeps a document from being read. What is on its way into the index cannot be called back.
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

    /// Lets a document be read that stands in one of these states.
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

    /// Marks a document as going away. Gives its key, and whether it was going already.
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

    /// What the worker of a document holds.
    pub(super) fn work_lock(&self, key: &DocumentKey) -> Option<Arc<Mutex<()>>> {
        self.entries.get(&catalog_key(key)).map(|held| held.work_lock.clone())
    }

    pub(super) fn remove_entry(&mut self, key: &DocumentKey) {
        self.entries.remove(&catalog_key(key));
        self.write_locks.remove(&catalog_key(key));
    }

    /// The lock that writers of a document's files share.
    pub(super) fn write_lock(&mut self, key: &DocumentKey) -> Arc<Mutex<()>> {
        self.write_locks.entry(catalog_key(key)).or_default().clone()
    }

    /// The next document: of the tenant with the fewest in work, the one that waits longest.
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

    /// A worker has let go of a document.
    pub(super) fn finish_job(&mut self, tenant: &DocumentTenant) {
        if let Some(count) = self.active_jobs.get_mut(tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.active_jobs.remove(tenant);
            }
        }
    }

    /// Whether a worker still does what is wanted.
    pub(super) fn is_current_generation(&self, key: &DocumentKey, wanted: u64) -> bool {
        self.entries.get(&catalog_key(key)).is_some_and(|held| held.generation == wanted)
    }

    /// Goes from reading to indexing, if that is still wanted.
    pub(super) fn mark_indexing(&mut self, key: &DocumentKey, wanted: u64) -> bool {
        let held = self.entries.get_mut(&catalog_key(key)).filter(|held| held.generation == wanted);
        held.is_some_and(|held| {
            held.record.state = IngestState::Indexing;
            true
        })
    }

    /// A version can be found. Gives the hash of the one it took the place of.
    pub(super) fn mark_ready(
        &mut self,
        key: &DocumentKey,
        wanted: u64,
        ready: ReadyVersion,
    ) -> Option<String> {
        let held = self.entries.get_mut(&catalog_key(key))?;
        let hash = ready.hash.clone();
        let old = held.record.ready.replace(ready);
        held.record.changed_at = unix_seconds_now();
        if held.generation == wanted {
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

    /// A version was cut into passages by the rules that hold now. Gives the key of its record, if that is news.
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

    /// What was ready cannot be found any more. It is kept, and can be tried again.
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

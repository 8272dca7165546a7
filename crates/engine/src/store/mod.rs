//! What a store provides: the small traits that the engine calls, together [`Store`], with their records and the
//! rules they keep; and [`IdempotencyStore`] and [`KeyValueStore`], which servers call.
//!
//! A thread is a **log of entries**, numbered from 1 without a gap. The log is the truth: state, position, history
//! and the events people watch are all read from it, and nothing in it is ever rewritten. An entry names its parent,
//! so a rewind appends a new branch and leaves the old one as it was.
//!
//! Rules every store keeps (checked by the conformance suite):
//!
//! 1. Each call is **one transaction**. Any error but [`StoreError::Unknown`] means that nothing of it was written. Long
//!    logs are copied and deleted in several, so that nobody waits for them: a copy appears when it is complete, a removed
//!    thread is gone before its log is deleted.
//! 2. Every write of a running run carries a [`Fence`]. A run that was claimed again has a higher epoch, and writes
//!    with the old one get [`StoreError::Fenced`] and change nothing.
//! 3. A thread has at most one active run (running or paused). Its entries therefore lie side by side in the log, and
//!    the number of an event within its run is `seq - first_seq + 1`.
//! 4. Bodies are opaque bytes. A store never reads them.
//! 5. A tenant's key finds only that tenant's things; what belongs to somebody else is [`StoreError::NotFound`].
//! 6. Lease times are the store's own clock, never the caller's.
//!
//! 7. Metadata holds no NUL character, neither in a key nor in a text, because PostgreSQL cannot keep it, and is nested
//!    at most [`MAX_DEPTH`](crate::stored_json::MAX_DEPTH) levels deep: other metadata is refused with
//!    [`StoreError::Conflict`], by every store alike. [`check_metadata`] looks at it.
//! 8. **What leaves the store is on disk.** A read waits for everything it saw, and every write but a commit with
//!    [`Durability::Later`] returns when it and everything before it is on disk. So only the worker that commits
//!    `Later` knows of something that a power failure may take.
//! 9. **A power failure takes an end.** If a commit survives it, so does every commit before it.
//! 10. What was committed is on disk after [`MAX_UNDURABLE_TIME`], whether somebody waits or not.
//!
//! A thread is *free* when it has no active run.
//!
//! What the bodies mean is the engine's business, in its `log` module.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod delegated_store;
mod error;
mod idempotency;
mod items;
mod key_values;
mod ram_store;
mod rows;
mod timers;
mod write_requests;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

pub use self::error::{BoxError, StoreError, check_metadata};
pub use self::idempotency::{IdempotencyStore, IdempotentResponse, ResponseRetention};
pub use self::items::{
    InvalidItem, ItemComparison, ItemCondition, ItemKey, ItemNamespace, ItemSearch, ItemStore,
    MAX_ITEM_BYTES, MAX_ITEM_KEY_BYTES, MAX_ITEMS_PER_SEARCH, MAX_ITEMS_PER_TENANT, MAX_NAMESPACE_BYTES,
    MAX_NAMESPACE_NAMES, NamespacePrefix, NamespaceSearch, SharedItem, item_from_stored, item_to_stored,
    too_many_items,
};
pub use self::key_values::{
    KeyValue, KeyValueChange, KeyValueChanges, KeyValueStore, KeyValueWrite, MAX_REMOVAL_AGE,
    MAX_VALUE_BYTES, MAX_VALUE_KEY_BYTES,
};
pub use self::ram_store::RamStore;
pub use self::rows::{
    DeletedUsage, EntryKind, GcReport, LoadedLog, LogEntry, Retention, RunFilter, RunPosition, RunRow,
    RunStatus, RunUsage, ThreadFilter, ThreadListPosition, ThreadRow, entries_leading_to,
};
pub use self::timers::{
    MAX_SCHEDULES_PER_TENANT, MAX_TIMER_ID_BYTES, NewTimer, TimerKind, TimerRow, TimerStore, TimerTime,
    too_many_schedules,
};
pub use self::write_requests::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, Durability, Fence, IfBusy, InputDurability,
    LeaseRenewal, NewEntry, NewRun, NewRunEntry, NewStatus, Record, RecordStage, RunFailure,
    RunIdempotencyKey, RunSignal, SignalOutcome, SubmitOutcome, WorkerLease,
};
use crate::id::{RunKey, TenantId, ThreadId, ThreadKey};

/// Number of an entry in its thread's log, from 1. 0 stands for the empty thread.
pub type Seq = u64;

/// Milliseconds since 1970 by the store's clock.
pub type Millis = i64;

/// How long a commit may be not yet on disk.
pub const MAX_UNDURABLE_TIME: Duration = Duration::from_millis(20);

/// Everything the engine needs of a store.
pub trait Store:
    RunStore + HistoryStore + ThreadMaintenance + NodeCacheStore + ItemStore + TimerStore
{
}
impl<T: RunStore + HistoryStore + ThreadMaintenance + NodeCacheStore + ItemStore + TimerStore> Store for T {}

/// Runs: accepted, claimed, written to, ended.
#[async_trait]
pub trait RunStore: Send + Sync + 'static {
    /// Accepts a run. When the thread is free, nobody waits before this run and `claim` is given, the run starts at
    /// once in the same transaction; with `claim` as `None` it waits as [`RunStatus::Queued`] for [`RunStore::claim`].
    /// A thread that does not exist yet is made. A `parent` that does not exist, or cannot be rebuilt any more, is
    /// `NotFound`; 0 does, it is the empty state. A run id that was used before is [`StoreError::Conflict`].
    async fn submit(&self, run: NewRun) -> Result<SubmitOutcome, StoreError>;

    /// Takes up to `limit` runs that nobody works on: the oldest queued run of a free thread, a running run whose
    /// lease ran out, a run released by [`RunSignal::Answer`] or [`RunSignal::Retry`]. Each gets the next epoch and this
    /// worker's lease. `only` narrows it to one thread. Runs of graphs that the worker does not know stay as they are.
    async fn claim(
        &self,
        claim: &WorkerLease,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<ClaimedRun>, StoreError>;

    /// Prolongs leases. Returns one answer for each fence, in order.
    async fn renew(&self, claim: &WorkerLease, fences: &[Fence]) -> Result<Vec<LeaseRenewal>, StoreError>;

    /// Writes what one step changed, all of it or nothing. A claim that no longer holds is [`StoreError::Fenced`];
    /// a `head` that is not the newest entry is [`StoreError::Conflict`]. Without entries to write an older head is
    /// fine, so that records can be written side by side; a newer one tells that entries were lost. A run that somebody
    /// asked to cancel does not wait for answers: a commit that pauses it leaves it running and lets it be claimed, for a
    /// worker to end it.
    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError>;

    /// Returns when everything up to this position is on disk. All who wait share one sync. [`StoreError::Unknown`] says
    /// that nobody knows whether it is: read it again.
    async fn wait_until_durable(&self, position: CommitPosition) -> Result<(), StoreError>;

    /// Whether the store takes writes of this program. [`StoreError::Newer`] says that a newer one has migrated it while
    /// this one runs: no write succeeds any more, and the process should end.
    async fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether this process alone can open the store as long as it has it. Then nobody takes a run when its lease runs
    /// out, and after a write of unknown outcome only a new process can go on.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Tells a run something from outside. Durable when it returns.
    async fn signal(&self, run: &RunKey, signal: RunSignal) -> Result<RunRow, StoreError> {
        Ok(self.signal_and_claim(run, signal, None).await?.run)
    }

    /// As [`RunStore::signal`]. In the same transaction `claim` takes the run of the thread that waits for a worker then, as
    /// [`RunStore::claim`] would: the one that was answered or is tried again, or the next in the queue of a thread that
    /// became free.
    async fn signal_and_claim(
        &self,
        run: &RunKey,
        signal: RunSignal,
        claim: Option<&WorkerLease>,
    ) -> Result<SignalOutcome, StoreError>;
}

/// Reading back. Never blocks a writer.
#[async_trait]
pub trait HistoryStore: Send + Sync + 'static {
    /// What is needed to rebuild the state after entry `at` (the newest when `None`).
    /// An empty thread that exists gives an empty [`LoadedLog`], and so does entry 0 of any; an unknown thread or entry
    /// is `NotFound`, and so is an entry that cannot be rebuilt because `gc` cleared what leads to it.
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<LoadedLog, StoreError>;

    /// Entries after `after`, oldest first, at most `limit`. An unknown thread is `NotFound`.
    async fn entries(
        &self,
        thread: &ThreadKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError>;

    /// One run.
    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError>;

    /// How far these runs are, in order; `None` for one that does not exist. Many are read often, by watchers that wait
    /// for runs that others drive.
    async fn run_positions(&self, runs: &[RunKey]) -> Result<Vec<Option<RunPosition>>, StoreError> {
        let mut positions = Vec::with_capacity(runs.len());
        for run in runs {
            positions.push(match self.run(run).await {
                Ok(RunRow { status, epoch, first_seq, last_seq, thread, .. }) => {
                    let head = match (first_seq, last_seq) {
                        (None, _) => 0,
                        (Some(_), Some(last)) => last,
                        (Some(_), None) => self.thread(&thread).await?.head,
                    };
                    Some(RunPosition { status, epoch, head })
                }
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error),
            });
        }
        Ok(positions)
    }

    /// Runs of a tenant, newest first, in the order of their ids.
    async fn runs(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError>;

    /// What deleted runs used that were accepted in quarters of an hour from `since` on, the oldest first.
    async fn deleted_usage(&self, tenant: &TenantId, since: Millis) -> Result<Vec<DeletedUsage>, StoreError>;

    /// One thread.
    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError>;

    /// As [`HistoryStore::thread`], for a caller who writes to the store next and tells nobody what it found before that is on
    /// disk. It does not wait until what it found is: a power failure that takes it takes the write as well.
    async fn thread_before_write(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        self.thread(thread).await
    }

    /// Threads of a tenant, the last changed first.
    async fn threads(&self, tenant: &TenantId, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError>;
}

/// Making, changing and clearing threads outside a run.
#[async_trait]
pub trait ThreadMaintenance: Send + Sync + 'static {
    /// Makes the thread or merges `metadata` into it, key by key; a key whose value is `null` is removed.
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError>;

    /// Appends an entry outside any run (an edit of the state). The thread must be free and its newest entry
    /// `expect`, else [`StoreError::Busy`] or [`StoreError::Conflict`]. An unknown thread is `NotFound`, and so is a parent
    /// that cannot be rebuilt.
    async fn append_entry(&self, thread: &ThreadKey, expect: Seq, entry: NewEntry)
    -> Result<Seq, StoreError>;

    /// Copies a thread's whole log, snapshots and metadata to a new thread, which is free; entries keep the name of
    /// the run that wrote them. Runs stay with the source. A target that exists is [`StoreError::Conflict`]. The copy
    /// gets `stands` as one more entry, unless the parent of that is its newest already; a parent that cannot be rebuilt is
    /// `NotFound`.
    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError>;

    /// Removes a thread with all it holds, its runs included: the next write of a live run is fenced off. What its runs had
    /// used is added to [`HistoryStore::deleted_usage`]. Their idempotency keys stay for their time, so that a request
    /// that is repeated does not begin the thread anew.
    /// `false` when there was none.
    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError>;

    /// Clears old things of all tenants. See [`Retention`].
    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError>;
}

/// Results of nodes that may be used again.
#[async_trait]
pub trait NodeCacheStore: Send + Sync + 'static {
    /// The value kept under `key`, unless its lifetime is over.
    async fn cached_value(&self, tenant: &TenantId, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps `value` for `lifetime` (for ever when `None`), replacing an older one.
    async fn cache_value(
        &self,
        tenant: &TenantId,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError>;
}

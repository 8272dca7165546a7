//! A store that lives in the process and ends with it: for tests, for trying things, for graphs whose runs need not
//! outlive the program.
//!
//! One lock around plain maps. A commit touches its own thread and run only; which runs may be claimed is kept in
//! two ordered sets, so nobody ever walks over all runs. The rules themselves are in [`shelf`].

mod ram_state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::{Map, Value};

use self::ram_state::RamState;
use super::{
    ClaimedRun, Commit, CommitOutcome, Fence, GcReport, HistoryStore, LeaseRenewal, LoadedLog, LogEntry,
    Millis, NewEntry, NewRun, NodeCacheStore, Retention, RunFilter, RunRow, RunSignal, RunStore, Seq,
    StoreError, SubmitOutcome, ThreadFilter, ThreadMaintenance, ThreadRow, WorkerLease,
};
use crate::id::{RunKey, TenantId, ThreadId, ThreadKey};

/// Keeps everything in memory. Clones share one content.
#[derive(Clone)]
pub struct RamStore {
    inner: Arc<RamStoreInner>,
}

struct RamStoreInner {
    clock: Arc<dyn Fn() -> Millis + Send + Sync>,
    state: Mutex<RamState>,
}

impl RamStore {
    /// An empty store that goes by the time of the machine.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(system_time_millis))
    }

    /// An empty store that goes by `clock`.
    pub fn with_clock(clock: Arc<dyn Fn() -> Millis + Send + Sync>) -> Self {
        Self { inner: Arc::new(RamStoreInner { clock, state: Mutex::default() }) }
    }

    /// The content and the time. The time is read under the lock, so that it never runs back between two calls.
    fn lock_state(&self) -> (MutexGuard<'_, RamState>, Millis) {
        // No code under the lock leaves a half-done change when it panics, so a poisoned lock is as good as any.
        let shelf = self.inner.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.inner.clock)();
        (shelf, now)
    }
}

impl Default for RamStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for RamStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RamStore")
    }
}

fn system_time_millis() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

#[async_trait]
impl RunStore for RamStore {
    async fn submit(&self, run: NewRun) -> Result<SubmitOutcome, StoreError> {
        let (mut shelf, now) = self.lock_state();
        shelf.submit(run, now)
    }

    async fn claim(
        &self,
        claim: &WorkerLease,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        let (mut shelf, now) = self.lock_state();
        shelf.claim(claim, only, limit, now)
    }

    async fn renew(&self, claim: &WorkerLease, fences: &[Fence]) -> Result<Vec<LeaseRenewal>, StoreError> {
        let (mut shelf, now) = self.lock_state();
        Ok(fences.iter().map(|fence| shelf.renew(claim, fence, now)).collect())
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let (mut shelf, now) = self.lock_state();
        shelf.commit(fence, commit, now)
    }

    async fn signal(&self, run: &RunKey, signal: RunSignal) -> Result<RunRow, StoreError> {
        let (mut shelf, now) = self.lock_state();
        shelf.signal(run, signal, now)
    }
}

#[async_trait]
impl HistoryStore for RamStore {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<LoadedLog, StoreError> {
        self.lock_state().0.load(thread, at)
    }

    async fn entries(
        &self,
        thread: &ThreadKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.lock_state().0.entries(thread, after, limit)
    }

    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError> {
        self.lock_state().0.run(run)
    }

    async fn runs(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        Ok(self.lock_state().0.runs(tenant, filter))
    }

    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        self.lock_state().0.thread(thread)
    }

    async fn threads(&self, tenant: &TenantId, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError> {
        self.lock_state().0.threads(tenant, filter)
    }
}

#[async_trait]
impl ThreadMaintenance for RamStore {
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError> {
        let (mut shelf, now) = self.lock_state();
        shelf.put_thread(thread, metadata, now)
    }

    async fn append_entry(
        &self,
        thread: &ThreadKey,
        expect: Seq,
        entry: NewEntry,
    ) -> Result<Seq, StoreError> {
        let (mut shelf, now) = self.lock_state();
        shelf.append_entry(thread, expect, entry, now)
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        let (mut shelf, now) = self.lock_state();
        shelf.copy_thread(from, to, stands, now)
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        Ok(self.lock_state().0.delete_thread(thread))
    }

    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError> {
        let (mut shelf, now) = self.lock_state();
        Ok(shelf.gc(retention, now))
    }
}

#[async_trait]
impl NodeCacheStore for RamStore {
    async fn cached_value(&self, tenant: &TenantId, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (shelf, now) = self.lock_state();
        Ok(shelf.cached_value(tenant, key, now))
    }

    async fn cache_value(
        &self,
        tenant: &TenantId,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError> {
        let (mut shelf, now) = self.lock_state();
        shelf.cache_value(tenant, key, value, lifetime, now);
        Ok(())
    }
}

//! A store that lives in the process and ends with it: for tests, for trying things, for graphs whose runs need not
//! outlive the program.
//!
//! One lock around plain maps. A commit touches its own thread and run only; which runs may be claimed is kept in
//! two ordered sets, so nobody ever walks over all runs. The rules themselves are in [`shelf`].

mod shelf;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::{Map, Value};

use self::shelf::Shelf;
use super::{
    Claim, Claimed, Cleared, Commit, Committed, Entry, Fence, History, Loaded, Millis, NewEntry, NewRun,
    NodeCache, Renewed, Retention, RunFilter, RunRow, Runs, Seq, Signal, StoreError, Submitted, ThreadFilter,
    ThreadRow, Upkeep,
};
use crate::id::{RunKey, Tenant, ThreadId, ThreadKey};

/// Keeps everything in memory. Clones share one content.
#[derive(Clone)]
pub struct RamStore {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Fn() -> Millis + Send + Sync>,
    shelf: Mutex<Shelf>,
}

impl RamStore {
    /// An empty store that goes by the time of the machine.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(machine_time))
    }

    /// An empty store that goes by `clock`.
    pub fn with_clock(clock: Arc<dyn Fn() -> Millis + Send + Sync>) -> Self {
        Self { inner: Arc::new(Inner { clock, shelf: Mutex::default() }) }
    }

    /// The content and the time. The time is read under the lock, so that it never runs back between two calls.
    fn open(&self) -> (MutexGuard<'_, Shelf>, Millis) {
        // No code under the lock leaves a half-done change when it panics, so a poisoned lock is as good as any.
        let shelf = self.inner.shelf.lock().unwrap_or_else(PoisonError::into_inner);
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

fn machine_time() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

#[async_trait]
impl Runs for RamStore {
    async fn submit(&self, run: NewRun) -> Result<Submitted, StoreError> {
        let (mut shelf, now) = self.open();
        shelf.submit(run, now)
    }

    async fn claim(
        &self,
        claim: &Claim,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        let (mut shelf, now) = self.open();
        shelf.claim(claim, only, limit, now)
    }

    async fn renew(&self, claim: &Claim, fences: &[Fence]) -> Result<Vec<Renewed>, StoreError> {
        let (mut shelf, now) = self.open();
        Ok(fences.iter().map(|fence| shelf.renew(claim, fence, now)).collect())
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<Committed, StoreError> {
        let (mut shelf, now) = self.open();
        shelf.commit(fence, commit, now)
    }

    async fn signal(&self, run: &RunKey, signal: Signal) -> Result<RunRow, StoreError> {
        let (mut shelf, now) = self.open();
        shelf.signal(run, signal, now)
    }
}

#[async_trait]
impl History for RamStore {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<Loaded, StoreError> {
        self.open().0.load(thread, at)
    }

    async fn entries(&self, thread: &ThreadKey, after: Seq, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.open().0.entries(thread, after, limit)
    }

    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError> {
        self.open().0.run(run)
    }

    async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        Ok(self.open().0.runs(tenant, filter))
    }

    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        self.open().0.thread(thread)
    }

    async fn threads(&self, tenant: &Tenant, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError> {
        self.open().0.threads(tenant, filter)
    }
}

#[async_trait]
impl Upkeep for RamStore {
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError> {
        let (mut shelf, now) = self.open();
        shelf.put_thread(thread, metadata, now)
    }

    async fn append(&self, thread: &ThreadKey, expect: Seq, entry: NewEntry) -> Result<Seq, StoreError> {
        let (mut shelf, now) = self.open();
        shelf.append(thread, expect, entry, now)
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        let (mut shelf, now) = self.open();
        shelf.copy_thread(from, to, stands, now)
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        Ok(self.open().0.delete_thread(thread))
    }

    async fn gc(&self, retention: &Retention) -> Result<Cleared, StoreError> {
        let (mut shelf, now) = self.open();
        Ok(shelf.gc(retention, now))
    }
}

#[async_trait]
impl NodeCache for RamStore {
    async fn cached(&self, tenant: &Tenant, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (shelf, now) = self.open();
        Ok(shelf.cached(tenant, key, now))
    }

    async fn keep(
        &self,
        tenant: &Tenant,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError> {
        let (mut shelf, now) = self.open();
        shelf.keep(tenant, key, value, lifetime, now);
        Ok(())
    }
}

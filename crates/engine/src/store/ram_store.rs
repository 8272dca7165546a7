//! A store that lives in the process and ends with it: for tests, for trying things, for graphs whose runs need not
//! outlive the program.
//!
//! One lock around plain maps. A commit touches its own thread and run only; which runs may be claimed is kept in
//! two ordered sets, so nobody ever walks over all runs. The rules themselves are in `ram_state`.

mod ram_state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::{Map, Value};

use self::ram_state::RamState;
use super::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, DeletedUsage, Fence, GcReport, HistoryStore,
    IdempotencyStore, IdempotentResponse, ItemKey, ItemNamespace, ItemSearch, ItemStore, KeyValue,
    KeyValueChanges, KeyValueStore, KeyValueWrite, LeaseRenewal, LoadedLog, LogEntry, Millis,
    NamespaceSearch, NewEntry, NewRun, NewTimer, NodeCacheStore, ResponseRetention, Retention, RunFilter,
    RunRow, RunSignal, RunStore, Seq, SharedItem, SignalOutcome, StoreError, SubmitOutcome, ThreadFilter,
    ThreadMaintenance, ThreadRow, TimerKind, TimerRow, TimerStore, TimerTime, WorkerLease,
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
        let state = self.inner.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.inner.clock)();
        (state, now)
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
        let (mut state, now) = self.lock_state();
        state.submit(run, now)
    }

    async fn claim(
        &self,
        claim: &WorkerLease,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        let (mut state, now) = self.lock_state();
        state.claim(claim, only, limit, now)
    }

    async fn renew(&self, claim: &WorkerLease, fences: &[Fence]) -> Result<Vec<LeaseRenewal>, StoreError> {
        let (mut state, now) = self.lock_state();
        Ok(fences.iter().map(|fence| state.renew(claim, fence, now)).collect())
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let (mut state, now) = self.lock_state();
        state.commit(fence, commit, now)
    }

    /// There is no disk, so everything is as durable as it gets.
    async fn wait_until_durable(&self, _position: CommitPosition) -> Result<(), StoreError> {
        Ok(())
    }

    async fn signal_and_claim(
        &self,
        run: &RunKey,
        signal: RunSignal,
        claim: Option<&WorkerLease>,
    ) -> Result<SignalOutcome, StoreError> {
        let (mut state, now) = self.lock_state();
        let run = state.signal(run, signal, now)?;
        let claimed = claim.and_then(|claim| state.claim_waiting(claim, &run.thread, now));
        Ok(SignalOutcome { run, claimed })
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

    async fn deleted_usage(&self, tenant: &TenantId, since: Millis) -> Result<Vec<DeletedUsage>, StoreError> {
        Ok(self.lock_state().0.deleted_usage(tenant, since))
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
        let (mut state, now) = self.lock_state();
        state.put_thread(thread, metadata, now)
    }

    async fn append_entry(
        &self,
        thread: &ThreadKey,
        expect: Seq,
        entry: NewEntry,
    ) -> Result<Seq, StoreError> {
        let (mut state, now) = self.lock_state();
        state.append_entry(thread, expect, entry, now)
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        let (mut state, now) = self.lock_state();
        state.copy_thread(from, to, stands, now)
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        Ok(self.lock_state().0.delete_thread(thread))
    }

    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError> {
        let (mut state, now) = self.lock_state();
        Ok(state.gc(retention, now))
    }
}

#[async_trait]
impl NodeCacheStore for RamStore {
    async fn cached_value(&self, tenant: &TenantId, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (state, now) = self.lock_state();
        Ok(state.cached_value(tenant, key, now))
    }

    async fn cache_value(
        &self,
        tenant: &TenantId,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError> {
        let (mut state, now) = self.lock_state();
        state.cache_value(tenant, key, value, lifetime, now);
        Ok(())
    }
}

#[async_trait]
impl ItemStore for RamStore {
    async fn put_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
        value: &Map<String, Value>,
        lifetime: Option<Duration>,
    ) -> Result<SharedItem, StoreError> {
        let (mut state, now) = self.lock_state();
        state.put_item(tenant, (namespace, key), value, lifetime, now)
    }

    async fn item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<Option<SharedItem>, StoreError> {
        let (state, now) = self.lock_state();
        Ok(state.item(tenant, (namespace, key), now))
    }

    async fn delete_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<bool, StoreError> {
        let (mut state, now) = self.lock_state();
        Ok(state.delete_item(tenant, (namespace, key), now))
    }

    async fn search_items(
        &self,
        tenant: &TenantId,
        search: &ItemSearch,
    ) -> Result<Vec<SharedItem>, StoreError> {
        let (state, now) = self.lock_state();
        Ok(state.search_items(tenant, search, now))
    }

    async fn item_namespaces(
        &self,
        tenant: &TenantId,
        search: &NamespaceSearch,
    ) -> Result<Vec<ItemNamespace>, StoreError> {
        let (state, now) = self.lock_state();
        state.item_namespaces(tenant, search, now)
    }
}

#[async_trait]
impl TimerStore for RamStore {
    async fn store_time(&self) -> Result<Millis, StoreError> {
        Ok(self.lock_state().1)
    }

    async fn put_timer(&self, tenant: &TenantId, timer: &NewTimer) -> Result<TimerRow, StoreError> {
        let (mut state, now) = self.lock_state();
        state.put_timer(tenant, timer, now)
    }

    async fn timer(&self, tenant: &TenantId, id: &str) -> Result<Option<TimerRow>, StoreError> {
        Ok(self.lock_state().0.timer(tenant, id))
    }

    async fn timers(
        &self,
        tenant: &TenantId,
        kind: TimerKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TimerRow>, StoreError> {
        Ok(self.lock_state().0.timers(tenant, kind, after, limit))
    }

    async fn delete_timer(&self, tenant: &TenantId, id: &str) -> Result<bool, StoreError> {
        Ok(self.lock_state().0.delete_timer(tenant, id))
    }

    async fn due_timers(&self, limit: usize) -> Result<Vec<TimerRow>, StoreError> {
        let (state, now) = self.lock_state();
        Ok(state.due_timers(limit, now))
    }

    async fn move_timer(
        &self,
        tenant: &TenantId,
        id: &str,
        from: Millis,
        to: TimerTime,
        body: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let (mut state, now) = self.lock_state();
        Ok(state.move_timer(tenant, id, from, (to, body), now))
    }
}

#[async_trait]
impl IdempotencyStore for RamStore {
    async fn stored_response(
        &self,
        tenant: &TenantId,
        key: &str,
    ) -> Result<Option<IdempotentResponse>, StoreError> {
        let (state, now) = self.lock_state();
        Ok(state.stored_response(tenant, key, now))
    }

    async fn store_response(
        &self,
        tenant: &TenantId,
        key: &str,
        response: &IdempotentResponse,
        retention: ResponseRetention,
    ) -> Result<(), StoreError> {
        let (mut state, now) = self.lock_state();
        state.store_response(tenant, key, response, retention, now);
        Ok(())
    }
}

#[async_trait]
impl KeyValueStore for RamStore {
    async fn key_value(&self, bucket: &str, key: &str) -> Result<Option<KeyValue>, StoreError> {
        let (state, now) = self.lock_state();
        Ok(state.key_value(bucket, key, now))
    }

    async fn key_values(&self, bucket: &str, prefix: &str) -> Result<Vec<KeyValue>, StoreError> {
        let (state, now) = self.lock_state();
        Ok(state.key_values(bucket, prefix, now))
    }

    async fn key_value_changes(
        &self,
        bucket: &str,
        after: u64,
        limit: usize,
    ) -> Result<KeyValueChanges, StoreError> {
        let (state, now) = self.lock_state();
        Ok(state.key_value_changes(bucket, after, limit, now))
    }

    async fn write_key_value(&self, write: KeyValueWrite<'_>) -> Result<Option<u64>, StoreError> {
        write.check()?;
        let (mut state, now) = self.lock_state();
        Ok(state.write_key_value(&write, now))
    }

    async fn key_value_blob(
        &self,
        bucket: &str,
        key: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock_state().0.key_value_blob(bucket, key, name))
    }

    async fn bucket_revisions(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(self.lock_state().0.bucket_revisions())
    }
}

//! A store that dies with its process: from the k-th commit on nothing is answered any more. What is beneath it lives on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::store::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, Fence, GcReport, HistoryStore, ItemKey, ItemNamespace,
    ItemSearch, ItemStore, LeaseRenewal, LoadedLog, LogEntry, Millis, NamespaceSearch, NewEntry, NewRun,
    NewTimer, NodeCacheStore, Retention, RunFilter, RunRow, RunSignal, RunStore, Seq, SharedItem, Store,
    StoreError, SubmitOutcome, ThreadFilter, ThreadMaintenance, ThreadRow, TimerKind, TimerRow, TimerStore,
    TimerTime, WorkerLease,
};
use doran_engine::{RunKey, TenantId, ThreadId, ThreadKey};
use serde_json::{Map, Value};

/// When the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Not at all.
    Never,
    /// Before this commit is written.
    Before(u32),
    /// After this commit is written and before anybody hears of it.
    After(u32),
}

/// The store as a process sees it that will die.
pub struct DyingStore {
    inner: Arc<dyn Store>,
    crash_point: CrashPoint,
    commits: Arc<AtomicU32>,
}

type DyingStoreResult<T> = Result<T, StoreError>;

impl DyingStore {
    pub fn new(inner: Arc<dyn Store>, dies: CrashPoint) -> Self {
        Self { inner, crash_point: dies, commits: Arc::default() }
    }

    /// How many commits there were.
    pub fn commits(&self) -> u32 {
        self.commits.load(Ordering::SeqCst)
    }

    fn check_alive(&self) -> DyingStoreResult<()> {
        let last = match self.crash_point {
            CrashPoint::Never => u32::MAX,
            CrashPoint::Before(last) | CrashPoint::After(last) => last,
        };
        if self.commits.load(Ordering::SeqCst) < last { Ok(()) } else { Err(dead_process_error()) }
    }
}

fn dead_process_error() -> StoreError {
    StoreError::Unknown("the process is dead".into())
}

#[async_trait]
impl RunStore for DyingStore {
    async fn submit(&self, run: NewRun) -> DyingStoreResult<SubmitOutcome> {
        self.check_alive()?;
        self.inner.submit(run).await
    }

    async fn claim(
        &self,
        claim: &WorkerLease,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> DyingStoreResult<Vec<ClaimedRun>> {
        self.check_alive()?;
        self.inner.claim(claim, only, limit).await
    }

    async fn renew(&self, claim: &WorkerLease, fences: &[Fence]) -> DyingStoreResult<Vec<LeaseRenewal>> {
        self.check_alive()?;
        self.inner.renew(claim, fences).await
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> DyingStoreResult<CommitOutcome> {
        self.check_alive()?;
        let nth = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if self.crash_point == CrashPoint::Before(nth) {
            return Err(dead_process_error());
        }
        let committed = self.inner.commit(fence, commit).await?;
        if self.crash_point == CrashPoint::After(nth) { Err(dead_process_error()) } else { Ok(committed) }
    }

    async fn durable(&self, position: CommitPosition) -> DyingStoreResult<()> {
        self.check_alive()?;
        self.inner.durable(position).await
    }

    async fn signal(&self, run: &RunKey, signal: RunSignal) -> DyingStoreResult<RunRow> {
        self.check_alive()?;
        self.inner.signal(run, signal).await
    }
}

#[async_trait]
impl HistoryStore for DyingStore {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> DyingStoreResult<LoadedLog> {
        self.check_alive()?;
        self.inner.load(thread, at).await
    }

    async fn entries(&self, thread: &ThreadKey, after: Seq, limit: usize) -> DyingStoreResult<Vec<LogEntry>> {
        self.check_alive()?;
        self.inner.entries(thread, after, limit).await
    }

    async fn run(&self, run: &RunKey) -> DyingStoreResult<RunRow> {
        self.check_alive()?;
        self.inner.run(run).await
    }

    async fn runs(&self, tenant: &TenantId, filter: &RunFilter) -> DyingStoreResult<Vec<RunRow>> {
        self.check_alive()?;
        self.inner.runs(tenant, filter).await
    }

    async fn thread(&self, thread: &ThreadKey) -> DyingStoreResult<ThreadRow> {
        self.check_alive()?;
        self.inner.thread(thread).await
    }

    async fn threads(&self, tenant: &TenantId, filter: &ThreadFilter) -> DyingStoreResult<Vec<ThreadRow>> {
        self.check_alive()?;
        self.inner.threads(tenant, filter).await
    }
}

#[async_trait]
impl ThreadMaintenance for DyingStore {
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> DyingStoreResult<ThreadRow> {
        self.check_alive()?;
        self.inner.put_thread(thread, metadata).await
    }

    async fn append_entry(&self, thread: &ThreadKey, expect: Seq, entry: NewEntry) -> DyingStoreResult<Seq> {
        self.check_alive()?;
        self.inner.append_entry(thread, expect, entry).await
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> DyingStoreResult<ThreadRow> {
        self.check_alive()?;
        self.inner.copy_thread(from, to, stands).await
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> DyingStoreResult<bool> {
        self.check_alive()?;
        self.inner.delete_thread(thread).await
    }

    async fn gc(&self, retention: &Retention) -> DyingStoreResult<GcReport> {
        self.check_alive()?;
        self.inner.gc(retention).await
    }
}

#[async_trait]
impl NodeCacheStore for DyingStore {
    async fn cached_value(&self, tenant: &TenantId, key: &str) -> DyingStoreResult<Option<Vec<u8>>> {
        self.check_alive()?;
        self.inner.cached_value(tenant, key).await
    }

    async fn cache_value(
        &self,
        tenant: &TenantId,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> DyingStoreResult<()> {
        self.check_alive()?;
        self.inner.cache_value(tenant, key, value, lifetime).await
    }
}

#[async_trait]
impl ItemStore for DyingStore {
    async fn put_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
        value: &Map<String, Value>,
        lifetime: Option<Duration>,
    ) -> Result<SharedItem, StoreError> {
        self.check_alive()?;
        self.inner.put_item(tenant, namespace, key, value, lifetime).await
    }

    async fn item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<Option<SharedItem>, StoreError> {
        self.check_alive()?;
        self.inner.item(tenant, namespace, key).await
    }

    async fn delete_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<bool, StoreError> {
        self.check_alive()?;
        self.inner.delete_item(tenant, namespace, key).await
    }

    async fn search_items(
        &self,
        tenant: &TenantId,
        search: &ItemSearch,
    ) -> Result<Vec<SharedItem>, StoreError> {
        self.check_alive()?;
        self.inner.search_items(tenant, search).await
    }

    async fn item_namespaces(
        &self,
        tenant: &TenantId,
        search: &NamespaceSearch,
    ) -> Result<Vec<ItemNamespace>, StoreError> {
        self.check_alive()?;
        self.inner.item_namespaces(tenant, search).await
    }
}

#[async_trait]
impl TimerStore for DyingStore {
    async fn store_time(&self) -> Result<Millis, StoreError> {
        self.check_alive()?;
        self.inner.store_time().await
    }

    async fn put_timer(&self, tenant: &TenantId, timer: &NewTimer) -> Result<TimerRow, StoreError> {
        self.check_alive()?;
        self.inner.put_timer(tenant, timer).await
    }

    async fn timer(&self, tenant: &TenantId, id: &str) -> Result<Option<TimerRow>, StoreError> {
        self.check_alive()?;
        self.inner.timer(tenant, id).await
    }

    async fn timers(
        &self,
        tenant: &TenantId,
        kind: TimerKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TimerRow>, StoreError> {
        self.check_alive()?;
        self.inner.timers(tenant, kind, after, limit).await
    }

    async fn delete_timer(&self, tenant: &TenantId, id: &str) -> Result<bool, StoreError> {
        self.check_alive()?;
        self.inner.delete_timer(tenant, id).await
    }

    async fn due_timers(&self, limit: usize) -> Result<Vec<TimerRow>, StoreError> {
        self.check_alive()?;
        self.inner.due_timers(limit).await
    }

    async fn move_timer(
        &self,
        tenant: &TenantId,
        id: &str,
        from: Millis,
        to: TimerTime,
        body: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        self.check_alive()?;
        self.inner.move_timer(tenant, id, from, to, body).await
    }
}

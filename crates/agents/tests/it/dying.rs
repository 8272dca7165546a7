//! A store that dies with its process: from the k-th commit on nothing is answered any more. What is beneath it lives on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::store::{
    Claim, Claimed, Cleared, Commit, Committed, Entry, Fence, History, Loaded, NewEntry, NewRun, NodeCache,
    Renewed, Retention, RunFilter, RunRow, Runs, Seq, Signal, Store, StoreError, Submitted, ThreadFilter,
    ThreadRow, Upkeep,
};
use doran_engine::{RunKey, Tenant, ThreadId, ThreadKey};
use serde_json::{Map, Value};

/// When the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dies {
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
    dies: Dies,
    commits: Arc<AtomicU32>,
}

type Answer<T> = Result<T, StoreError>;

impl DyingStore {
    pub fn new(inner: Arc<dyn Store>, dies: Dies) -> Self {
        Self { inner, dies, commits: Arc::default() }
    }

    /// How many commits there were.
    pub fn commits(&self) -> u32 {
        self.commits.load(Ordering::SeqCst)
    }

    fn alive(&self) -> Answer<()> {
        let last = match self.dies {
            Dies::Never => u32::MAX,
            Dies::Before(last) | Dies::After(last) => last,
        };
        if self.commits.load(Ordering::SeqCst) < last { Ok(()) } else { Err(dead()) }
    }
}

fn dead() -> StoreError {
    StoreError::Unavailable("the process is dead".into())
}

#[async_trait]
impl Runs for DyingStore {
    async fn submit(&self, run: NewRun) -> Answer<Submitted> {
        self.alive()?;
        self.inner.submit(run).await
    }

    async fn claim(&self, claim: &Claim, only: Option<&ThreadKey>, limit: usize) -> Answer<Vec<Claimed>> {
        self.alive()?;
        self.inner.claim(claim, only, limit).await
    }

    async fn renew(&self, claim: &Claim, fences: &[Fence]) -> Answer<Vec<Renewed>> {
        self.alive()?;
        self.inner.renew(claim, fences).await
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Answer<Committed> {
        self.alive()?;
        let nth = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if self.dies == Dies::Before(nth) {
            return Err(dead());
        }
        let committed = self.inner.commit(fence, commit).await?;
        if self.dies == Dies::After(nth) { Err(dead()) } else { Ok(committed) }
    }

    async fn signal(&self, run: &RunKey, signal: Signal) -> Answer<RunRow> {
        self.alive()?;
        self.inner.signal(run, signal).await
    }
}

#[async_trait]
impl History for DyingStore {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Answer<Loaded> {
        self.alive()?;
        self.inner.load(thread, at).await
    }

    async fn entries(&self, thread: &ThreadKey, after: Seq, limit: usize) -> Answer<Vec<Entry>> {
        self.alive()?;
        self.inner.entries(thread, after, limit).await
    }

    async fn run(&self, run: &RunKey) -> Answer<RunRow> {
        self.alive()?;
        self.inner.run(run).await
    }

    async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Answer<Vec<RunRow>> {
        self.alive()?;
        self.inner.runs(tenant, filter).await
    }

    async fn thread(&self, thread: &ThreadKey) -> Answer<ThreadRow> {
        self.alive()?;
        self.inner.thread(thread).await
    }

    async fn threads(&self, tenant: &Tenant, filter: &ThreadFilter) -> Answer<Vec<ThreadRow>> {
        self.alive()?;
        self.inner.threads(tenant, filter).await
    }
}

#[async_trait]
impl Upkeep for DyingStore {
    async fn put_thread(&self, thread: &ThreadKey, metadata: &Map<String, Value>) -> Answer<ThreadRow> {
        self.alive()?;
        self.inner.put_thread(thread, metadata).await
    }

    async fn append(&self, thread: &ThreadKey, expect: Seq, entry: NewEntry) -> Answer<Seq> {
        self.alive()?;
        self.inner.append(thread, expect, entry).await
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Answer<ThreadRow> {
        self.alive()?;
        self.inner.copy_thread(from, to, stands).await
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Answer<bool> {
        self.alive()?;
        self.inner.delete_thread(thread).await
    }

    async fn gc(&self, retention: &Retention) -> Answer<Cleared> {
        self.alive()?;
        self.inner.gc(retention).await
    }
}

#[async_trait]
impl NodeCache for DyingStore {
    async fn cached(&self, tenant: &Tenant, key: &str) -> Answer<Option<Vec<u8>>> {
        self.alive()?;
        self.inner.cached(tenant, key).await
    }

    async fn keep(&self, tenant: &Tenant, key: &str, value: &[u8], lifetime: Option<Duration>) -> Answer<()> {
        self.alive()?;
        self.inner.keep(tenant, key, value, lifetime).await
    }
}

//! A store that dies with its process: from the k-th commit on nothing is answered any more. What is beneath it lives on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use doran_engine::store::{Commit, CommitOutcome, Fence, Store, StoreError};

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

    async fn call_alive<T>(
        &self,
        _name: &'static str,
        made: impl Future<Output = DyingStoreResult<T>>,
    ) -> DyingStoreResult<T> {
        self.check_alive()?;
        made.await
    }

    async fn commit_alive(&self, fence: &Fence, commit: Commit) -> DyingStoreResult<CommitOutcome> {
        self.check_alive()?;
        let nth = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if self.crash_point == CrashPoint::Before(nth) {
            return Err(dead_process_error());
        }
        let committed = self.inner.commit(fence, commit).await?;
        if self.crash_point == CrashPoint::After(nth) { Err(dead_process_error()) } else { Ok(committed) }
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

doran_engine::delegated_store!(DyingStore, call: call_alive, commit: commit_alive, exclusive: true);

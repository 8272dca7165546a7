//! Where a durable run is written: its store, its claim, and how a write is carried through trouble that passes.
//!
//! A write that failed is not work that is lost. As long as the lease lasts nobody else can have the run, so the same
//! write is tried again. When nobody knows whether a write happened, the log is asked.

use std::sync::Arc;
use std::time::Duration;

use crate::runtime::ClaimLease;
use crate::store::{Commit, CommitOutcome, Fence, RunUsage, Seq, Store, StoreError};

/// How long to wait before a write is tried again: at first, and at most.
const MIN_RETRY_WAIT: Duration = Duration::from_millis(10);
const MAX_RETRY_WAIT: Duration = Duration::from_secs(1);

/// Where a durable run is written.
pub(crate) struct RunJournal {
    pub store: Arc<dyn Store>,
    pub fence: Fence,
    pub lease: Arc<ClaimLease>,
    /// The newest entry of the thread. Held while entries are written, so that subgraphs side by side take turns.
    pub tip: tokio::sync::Mutex<LogTip>,
}

/// Where the next entry goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogTip {
    pub head: Seq,
    /// The newest entry with a snapshot on this branch.
    pub base: Seq,
}

impl RunJournal {
    /// Writes, and tries again as long as the store is away or full and the lease lasts. `booked` is what the row of
    /// the run counted before.
    pub(super) async fn commit(&self, commit: Commit, booked: RunUsage) -> Result<CommitOutcome, StoreError> {
        let mut in_doubt = None;
        let mut wait = RetryWait::default();
        loop {
            let refused = match self.store.commit(&self.fence, commit.clone()).await {
                Ok(committed) => return Ok(committed),
                Err(error) if is_passing(&*self.store, &error) => error,
                // An earlier try may have been written after all, and may have ended the claim with it.
                Err(error @ (StoreError::Fenced | StoreError::Conflict(_))) if in_doubt.is_some() => {
                    return self.read_back(&commit, booked).await?.ok_or(error);
                }
                Err(error) => return Err(error),
            };
            if let StoreError::Unknown(_) = &refused {
                in_doubt = Some(refused);
            } else if in_doubt.is_none() {
                if !wait.wait_within(&self.lease).await {
                    return Err(refused);
                }
                continue;
            }
            match self.read_back(&commit, booked).await {
                Ok(Some(committed)) => return Ok(committed),
                Ok(None) => {}
                // It stays unknown.
                Err(error) if is_passing(&*self.store, &error) => return Err(in_doubt.unwrap_or(error)),
                Err(error) => return Err(error),
            }
            if !wait.wait_within(&self.lease).await {
                return Err(in_doubt.unwrap_or(StoreError::Fenced));
            }
        }
    }

    async fn read_back(
        &self,
        commit: &Commit,
        booked: RunUsage,
    ) -> Result<Option<CommitOutcome>, StoreError> {
        self.retry(|| self.find_committed(commit, booked)).await
    }

    /// Whether a write happened, by what the store holds. Only the holder of the claim writes, so what stands where the
    /// write would have put it is that write.
    async fn find_committed(
        &self,
        commit: &Commit,
        booked: RunUsage,
    ) -> Result<Option<CommitOutcome>, StoreError> {
        let row = self.store.run(&self.fence.thread.run(self.fence.run)).await?;
        if row.epoch != self.fence.epoch {
            return Err(StoreError::Fenced);
        }
        let head = commit.head + commit.entries.len() as Seq;
        let (cancel_asked, next_waits) = (row.cancel_asked, commit.status.is_some());
        if commit.entries.is_empty() {
            // Records replace each other and can be written again. What was spent must be counted once.
            let counted = !commit.usage.is_zero() && row.usage != booked;
            let at = row.started_at.unwrap_or(row.created_at);
            return Ok(counted.then_some(CommitOutcome { head, at, cancel_asked, next_waits }));
        }
        let found = self.store.entries(&self.fence.thread, commit.head, commit.entries.len()).await?;
        let same = found.len() == commit.entries.len()
            && found.iter().zip(&commit.entries).all(|(found, new)| {
                found.run == Some(self.fence.run) && found.kind == new.kind && found.body == new.body
            });
        let at = found.last().map(|entry| entry.at);
        Ok(at.filter(|_| same).map(|at| CommitOutcome { head, at, cancel_asked, next_waits }))
    }

    /// Makes a call that may be made twice, again as long as the store is away and the lease lasts.
    pub(crate) async fn retry<T, F>(&self, call: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        retry_while_held(&*self.store, &self.lease, call).await
    }
}

/// Makes a call that may be made twice, again as long as the store is away and the lease lasts.
pub(crate) async fn retry_while_held<T, F>(
    store: &dyn Store,
    lease: &ClaimLease,
    call: impl Fn() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut wait = RetryWait::default();
    loop {
        match call().await {
            Err(error) if is_passing(store, &error) => {
                if !wait.wait_within(lease).await {
                    return Err(error);
                }
            }
            answer => return answer,
        }
    }
}

/// Whether the same call may succeed a little later. A store that one process has for itself can say no more after a
/// write of unknown outcome: the process has to end.
fn is_passing(store: &dyn Store, error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable(_) | StoreError::Full(_) => true,
        StoreError::Unknown(_) => !store.is_exclusive(),
        _ => false,
    }
}

/// How long to wait before the next try.
struct RetryWait(Duration);

impl Default for RetryWait {
    fn default() -> Self {
        Self(MIN_RETRY_WAIT)
    }
}

impl RetryWait {
    /// Waits, longer each time. `false` when the lease does not last that long.
    async fn wait_within(&mut self, lease: &ClaimLease) -> bool {
        if !lease.holds() {
            return false;
        }
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(MAX_RETRY_WAIT);
        lease.holds()
    }
}

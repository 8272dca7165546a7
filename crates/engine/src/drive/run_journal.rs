//! Where a durable run is written: its store, its claim, and how a write is tried again after a transient error.
//!
//! A write that failed is not work that is lost. As long as the lease lasts nobody else can have the run, so the same
//! write is tried again. When nobody knows whether a write happened, the log is read.
//!
//! A step need not be on disk before the next one begins: if the power fails, repeating it is as good as finding it. What
//! somebody outside could notice waits until everything before it is on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::failpoint;
use crate::runtime::ClaimLease;
use crate::store::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, Durability, Fence, RunUsage, Seq, Store, StoreError,
};

/// How long to wait before a write is tried again: at first, and at most.
const MIN_RETRY_WAIT: Duration = Duration::from_millis(10);
const MAX_RETRY_WAIT: Duration = Duration::from_secs(1);

/// Steps in a row that need not be on disk before the next one begins. A power failure repeats at most so many.
const MAX_UNDURABLE_STEPS: u32 = 8;

/// Where a durable run is written.
pub(crate) struct RunJournal {
    pub store: Arc<dyn Store>,
    pub fence: Fence,
    pub lease: Arc<ClaimLease>,
    /// The newest entry of the thread. Held while entries are written, so that subgraphs side by side take turns.
    pub tip: tokio::sync::Mutex<LogTip>,
    /// The newest entry that was certainly written.
    written_head: AtomicU64,
    /// The newest position of this claim.
    position: AtomicU64,
    /// Steps committed since something was last waited for.
    undurable_steps: AtomicU32,
}

/// Where the next entry goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogTip {
    pub head: Seq,
    /// The newest entry with a snapshot on this branch.
    pub base: Seq,
}

impl RunJournal {
    /// The journal of a claim.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        claimed: &ClaimedRun,
        lease: Arc<ClaimLease>,
        tip: LogTip,
    ) -> Self {
        Self {
            store,
            fence: claimed.fence(),
            lease,
            written_head: AtomicU64::new(tip.head),
            tip: tokio::sync::Mutex::new(tip),
            position: AtomicU64::new(claimed.position.0),
            undurable_steps: AtomicU32::new(0),
        }
    }

    /// Writes. After [`MAX_UNDURABLE_STEPS`] steps in a row that need not be on disk, the next one waits for the disk.
    pub(super) async fn commit(
        &self,
        mut commit: Commit,
        usage_in_row_before: RunUsage,
    ) -> Result<CommitOutcome, StoreError> {
        if commit.entries.is_empty() {
            commit.head = self.written_head.load(Ordering::Relaxed);
        } else if self.undurable_steps.fetch_add(1, Ordering::Relaxed) >= MAX_UNDURABLE_STEPS {
            commit.durability = Durability::Now;
        }
        let durability = commit.durability;
        let committed = self.commit_with_retries(commit, usage_in_row_before).await?;
        self.written_head.fetch_max(committed.head, Ordering::Relaxed);
        self.position.fetch_max(committed.position.0, Ordering::Relaxed);
        if durability == Durability::Now {
            self.undurable_steps.store(0, Ordering::Relaxed);
        }
        Ok(committed)
    }

    /// Waits until everything this claim has written is on disk.
    pub(super) async fn wait_until_durable(&self) -> Result<(), StoreError> {
        let position = CommitPosition(self.position.load(Ordering::Relaxed));
        let head = self.written_head.load(Ordering::Relaxed);
        let waited = retry_while(
            &self.lease,
            |error| matches!(error, StoreError::Unavailable(_)),
            || self.store.wait_until_durable(position),
        );
        match waited.await {
            // A database that was started anew may have lost the end of the log. What is read is on disk.
            Err(StoreError::Unknown(_)) if !self.store.is_exclusive() => {
                self.retry(|| self.find_head(head)).await?;
            }
            waited => waited?,
        }
        self.undurable_steps.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Makes sure that the log reaches up to `head`. Nobody else adds to it while the claim holds.
    async fn find_head(&self, head: Seq) -> Result<(), StoreError> {
        let found = self.store.thread(&self.fence.thread).await?.head;
        let epoch = self.store.run(&self.fence.thread.run(self.fence.run)).await?.epoch;
        if found >= head && epoch == self.fence.epoch { Ok(()) } else { Err(StoreError::Fenced) }
    }

    /// Writes, and tries again as long as the store is away or full and the lease lasts. `usage_in_row_before` is
    /// the usage in the row of the run before this write.
    async fn commit_with_retries(
        &self,
        commit: Commit,
        usage_in_row_before: RunUsage,
    ) -> Result<CommitOutcome, StoreError> {
        let mut in_doubt = None;
        let mut wait = RetryWait::default();
        loop {
            let refused = match self.store.commit(&self.fence, commit.clone()).await {
                Ok(committed) => return Ok(committed),
                Err(error) if is_transient(&*self.store, &error) => error,
                // An earlier try may have been written after all, and may have ended the claim with it.
                Err(error @ (StoreError::Fenced | StoreError::Conflict(_))) if in_doubt.is_some() => {
                    return self.read_back(&commit, usage_in_row_before).await?.ok_or(error);
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
            match self.read_back(&commit, usage_in_row_before).await {
                Ok(Some(committed)) => return Ok(committed),
                Ok(None) => {}
                // It stays unknown.
                Err(error) if is_transient(&*self.store, &error) => return Err(in_doubt.unwrap_or(error)),
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
        usage_in_row_before: RunUsage,
    ) -> Result<Option<CommitOutcome>, StoreError> {
        self.retry(|| self.find_committed(commit, usage_in_row_before)).await
    }

    /// Whether a write happened, by what the store holds. Only the holder of the claim writes, so what stands where the
    /// write would have put it is that write.
    async fn find_committed(
        &self,
        commit: &Commit,
        usage_in_row_before: RunUsage,
    ) -> Result<Option<CommitOutcome>, StoreError> {
        let row = self.store.run(&self.fence.thread.run(self.fence.run)).await?;
        if row.epoch != self.fence.epoch {
            return Err(StoreError::Fenced);
        }
        let head = commit.head + commit.entries.len() as Seq;
        let (cancel_asked, next_waits) = (row.cancel_asked, commit.status.is_some());
        // What was read is on disk.
        let position = CommitPosition::default();
        if commit.entries.is_empty() {
            // Records replace each other and can be written again. What was spent must be counted once.
            let counted = !commit.usage.is_zero() && row.usage != usage_in_row_before;
            let at = row.started_at.unwrap_or(row.created_at);
            return Ok(counted.then_some(CommitOutcome {
                head,
                at,
                cancel_asked,
                next_waits,
                next: None,
                position,
            }));
        }
        let found = self.store.entries(&self.fence.thread, commit.head, commit.entries.len()).await?;
        let same = found.len() == commit.entries.len()
            && found.iter().zip(&commit.entries).all(|(found, new)| {
                found.run == Some(self.fence.run) && found.kind == new.kind && found.body == new.body
            });
        let at = found.last().map(|entry| entry.at);
        let next = None;
        Ok(at.filter(|_| same).map(|at| CommitOutcome { head, at, cancel_asked, next_waits, next, position }))
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
    retry_while(lease, |error| is_transient(store, error), call).await
}

/// Makes a call again as long as its error is transient and the lease lasts.
async fn retry_while<T, F>(
    lease: &ClaimLease,
    is_transient: impl Fn(&StoreError) -> bool,
    call: impl Fn() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut wait = RetryWait::default();
    loop {
        match call().await {
            Err(error) if is_transient(&error) => {
                if !wait.wait_within(lease).await {
                    return Err(error);
                }
            }
            answer => return answer,
        }
    }
}

/// Whether the same call may succeed a little later. A store that one process has for itself gives no more answers after a
/// write of unknown outcome: the process has to end.
fn is_transient(store: &dyn Store, error: &StoreError) -> bool {
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
        if !lease.holds() || failpoint::mutant("give_up_in_outage") {
            return false;
        }
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(MAX_RETRY_WAIT);
        lease.holds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{RunId, ThreadKey};
    use crate::runtime::LeaseTime;
    use crate::store::{
        EntryKind, IfBusy, NewEntry, NewRun, NewRunEntry, RamStore, RunStore, SubmitOutcome, WorkerLease,
    };

    fn worker(name: &str, lease: Duration) -> WorkerLease {
        WorkerLease { worker: name.into(), lease, graphs: None }
    }

    fn entry(body: &str) -> NewEntry {
        let kind = EntryKind::Step;
        NewEntry { kind, body: body.into(), parent: None, base: 0, snapshot: None }
    }

    /// A run that has one entry, with its journal.
    async fn started_run() -> (RamStore, RunJournal) {
        let (store, claim) = (RamStore::new(), worker("first", Duration::from_secs(3600)));
        let new = NewRun {
            thread: ThreadKey::local("t").expect("a name"),
            run: RunId::random(),
            graph: "g".into(),
            fingerprint: "f".into(),
            first: NewRunEntry { kind: EntryKind::Started, body: b"in".to_vec(), parent: None },
            if_busy: IfBusy::Reject,
            idempotency: None,
            metadata: serde_json::Map::new(),
            thread_metadata: serde_json::Map::new(),
            options: Vec::new(),
            stop_body: Vec::new(),
            claim: Some(claim.clone()),
            durability: crate::store::InputDurability::Now,
        };
        let Ok(SubmitOutcome::Started(claimed)) = store.submit(new).await else { panic!("not started") };
        let lease = Arc::new(ClaimLease::new(claim, LeaseTime::now()));
        let tip = LogTip { head: claimed.head, base: 0 };
        let journal = RunJournal::new(Arc::new(store.clone()), &claimed, lease, tip);
        (store, journal)
    }

    async fn take_over(store: &RamStore, fence: &Fence) {
        let over = worker("first", Duration::ZERO);
        store.renew(&over, std::slice::from_ref(fence)).await.expect("a lease that is over");
        let other = worker("second", Duration::from_secs(3600));
        assert_eq!(store.claim(&other, Some(&fence.thread), 1).await.expect("claim").len(), 1);
    }

    #[tokio::test]
    async fn nobody_goes_on_after_steps_that_were_lost_or_with_a_run_of_somebody_else() {
        let (store, journal) = started_run().await;
        journal.find_head(1).await.expect("it is there");
        let lost = journal.find_head(2).await;
        assert!(matches!(lost, Err(StoreError::Fenced)), "the step is not in the log: {lost:?}");
        take_over(&store, &journal.fence).await;
        let taken = journal.find_head(1).await;
        assert!(matches!(taken, Err(StoreError::Fenced)), "{taken:?}");
    }

    #[tokio::test]
    async fn a_commit_of_unknown_outcome_is_found_only_if_it_is_this_one() {
        let (store, journal) = started_run().await;
        let step = |body| Commit { head: 1, entries: vec![entry(body)], ..Commit::default() };
        let find = async |commit: &Commit| journal.find_committed(commit, RunUsage::default()).await;
        assert!(find(&step("a")).await.expect("found out").is_none());
        store.commit(&journal.fence, step("a")).await.expect("commit");
        assert_eq!(find(&step("a")).await.expect("found out").map(|found| found.head), Some(2));
        assert!(find(&step("b")).await.expect("found out").is_none(), "another body");
        let mut other = step("a");
        other.entries[0].kind = EntryKind::Inner;
        assert!(find(&other).await.expect("found out").is_none(), "another kind");
        other.entries = vec![entry("a"), entry("b")];
        assert!(find(&other).await.expect("found out").is_none(), "half of it");
        take_over(&store, &journal.fence).await;
        let taken = find(&step("a")).await;
        assert!(matches!(taken, Err(StoreError::Fenced)), "{taken:?}");
    }

    #[tokio::test]
    async fn what_was_spent_is_found_by_the_sum_of_the_run() {
        let (store, journal) = started_run().await;
        let usage = RunUsage { input_tokens: 5, ..RunUsage::default() };
        let spent = Commit { head: 1, usage, ..Commit::default() };
        let before = RunUsage::default();
        assert!(journal.find_committed(&spent, before).await.expect("found out").is_none());
        store.commit(&journal.fence, spent.clone()).await.expect("commit");
        assert!(journal.find_committed(&spent, before).await.expect("found out").is_some());
        let records = Commit { head: 1, ..Commit::default() };
        assert!(
            journal.find_committed(&records, before).await.expect("found out").is_none(),
            "written again"
        );
    }
}

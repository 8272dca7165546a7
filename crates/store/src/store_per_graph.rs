//! One store in front of several: the runs of some graphs are stored elsewhere than all others.
//!
//! A thread is in one store, with everything that belongs to it. The graph of its first run decides which, or the graph that
//! its metadata names ([`GRAPH_METADATA_KEY`]) when it is made without a run. A run of a graph that belongs to another store is
//! rejected, because it would store what the thread holds in both.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use doran_engine::store::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, DeletedUsage, Fence, GcReport, HistoryStore,
    LeaseRenewal, LoadedLog, LogEntry, Millis, NewEntry, NewRun, Retention, RunFilter, RunPosition, RunRow,
    RunSignal, RunStatus, RunStore, Seq, SignalOutcome, Store, StoreError, SubmitOutcome, ThreadFilter,
    ThreadMaintenance, ThreadRow, WorkerLease, check_metadata,
};
use doran_engine::{RunId, RunKey, TenantId, ThreadId, ThreadKey};
use serde_json::{Map, Value};

/// The bits of a position that are the store's own. The bits above are the number of the store.
const POSITION_BITS: u32 = 56;
/// How many threads can be created at the same time. The same thread never is.
const LOCK_STRIPES: usize = 16;

/// A claim: the tenant and the run, and the epoch of the claim.
type ClaimKey = (TenantId, RunId, u64);

fn claim_key(fence: &Fence) -> ClaimKey {
    (fence.thread.tenant.clone(), fence.run, fence.epoch)
}

/// The key in the metadata of a thread that names the graph it is for.
pub(crate) const GRAPH_METADATA_KEY: &str = "agent";

/// A store that delegates to others by graph.
///
/// What belongs to no thread is in the default store: cached results of nodes, shared items and timers.
pub struct StorePerGraph {
    /// The default store, then the others.
    stores: Vec<Arc<dyn Store>>,
    /// The number of the store by graph. Graphs that are not here use the default store.
    store_of_graph: BTreeMap<String, usize>,
    /// The number of the store of each run that this process works on and that is not in the default store.
    claimed: Mutex<HashMap<ClaimKey, usize>>,
    /// Held while it is decided where a thread is.
    thread_locks: [tokio::sync::Mutex<()>; LOCK_STRIPES],
}

impl StorePerGraph {
    /// A store for all graphs. Others are added for single graphs.
    pub fn new(default: Arc<dyn Store>) -> Self {
        Self {
            stores: vec![default],
            store_of_graph: BTreeMap::new(),
            claimed: Mutex::default(),
            thread_locks: std::array::from_fn(|_| tokio::sync::Mutex::default()),
        }
    }

    /// Stores the threads of these graphs in another store.
    #[must_use]
    pub fn with_store(mut self, store: Arc<dyn Store>, graphs: impl IntoIterator<Item = String>) -> Self {
        let number = self.stores.len();
        self.stores.push(store);
        self.store_of_graph.extend(graphs.into_iter().map(|graph| (graph, number)));
        self
    }

    fn claimed(&self) -> MutexGuard<'_, HashMap<ClaimKey, usize>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store_of_claim(&self, fence: &Fence) -> usize {
        self.claimed().get(&claim_key(fence)).copied().unwrap_or(0)
    }

    /// Remembers a claim, and makes its position one of this store.
    fn note_claim(&self, mut claimed: ClaimedRun, number: usize) -> ClaimedRun {
        if number > 0 {
            self.claimed().insert(claim_key(&claimed.fence()), number);
        }
        claimed.position = tag_position(claimed.position, number);
        claimed
    }

    fn thread_lock(&self, thread: &ThreadId) -> &tokio::sync::Mutex<()> {
        let sum =
            thread.as_str().bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        &self.thread_locks[sum % LOCK_STRIPES]
    }

    /// The store that has this thread. The default store is not asked: it has what no other store has.
    async fn store_of_thread(&self, thread: &ThreadKey) -> Result<usize, StoreError> {
        for (number, store) in self.stores.iter().enumerate().skip(1) {
            match store.thread(thread).await {
                Ok(_) => return Ok(number),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    async fn store_of_run(&self, run: &RunKey) -> Result<usize, StoreError> {
        for (number, store) in self.stores.iter().enumerate().skip(1) {
            match store.run(run).await {
                Ok(_) => return Ok(number),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    /// Makes sure that a thread is in the store `wanted` or nowhere. A thread without entries and runs moves there.
    async fn settle_thread(&self, thread: &ThreadKey, graph: &str, wanted: usize) -> Result<(), StoreError> {
        let number = self.store_of_thread(thread).await?;
        if number == wanted {
            return Ok(());
        }
        let row = match self.stores[number].thread(thread).await {
            Ok(row) => row,
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let of_thread = RunFilter { thread: Some(thread.thread.clone()), limit: 1, ..RunFilter::default() };
        let is_unused =
            row.head == 0 && self.stores[number].runs(&thread.tenant, &of_thread).await?.is_empty();
        if !is_unused {
            return Err(StoreError::Conflict(format!(
                "thread `{}` is stored elsewhere than the threads of `{graph}`; start a new thread",
                thread.thread
            )));
        }
        self.stores[wanted].put_thread(thread, &row.metadata).await?;
        self.stores[number].delete_thread(thread).await?;
        Ok(())
    }
}

/// The position of a store as a position of all of them.
fn tag_position(position: CommitPosition, number: usize) -> CommitPosition {
    CommitPosition(position.0 | (number as u64) << POSITION_BITS)
}

/// The newest of lists that are each sorted, newest first.
fn merge_newest<T, K: Ord>(
    lists: Vec<Vec<T>>,
    newest_first: impl Fn(&T) -> K,
    offset: usize,
    limit: usize,
) -> Vec<T> {
    let mut all: Vec<T> = lists.into_iter().flatten().collect();
    all.sort_by_key(newest_first);
    all.into_iter().skip(offset).take(limit).collect()
}

#[async_trait]
impl RunStore for StorePerGraph {
    async fn submit(&self, run: NewRun) -> Result<SubmitOutcome, StoreError> {
        // What is refused moves no thread.
        check_metadata(&run.metadata)?;
        check_metadata(&run.thread_metadata)?;
        let number = self.store_of_graph.get(&run.graph).copied().unwrap_or(0);
        let _settled = self.thread_lock(&run.thread.thread).lock().await;
        self.settle_thread(&run.thread, &run.graph, number).await?;
        Ok(match self.stores[number].submit(run).await? {
            SubmitOutcome::Started(claimed) => SubmitOutcome::Started(self.note_claim(claimed, number)),
            other @ (SubmitOutcome::Queued { .. } | SubmitOutcome::Repeated(_)) => other,
        })
    }

    async fn claim(
        &self,
        claim: &WorkerLease,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        let mut claimed = Vec::new();
        for (number, store) in self.stores.iter().enumerate() {
            if claimed.len() == limit {
                break;
            }
            let more = store.claim(claim, only, limit - claimed.len()).await?;
            claimed.extend(more.into_iter().map(|run| self.note_claim(run, number)));
        }
        Ok(claimed)
    }

    async fn renew(&self, claim: &WorkerLease, fences: &[Fence]) -> Result<Vec<LeaseRenewal>, StoreError> {
        let mut renewals = vec![LeaseRenewal::Lost; fences.len()];
        let numbers: Vec<usize> = fences.iter().map(|fence| self.store_of_claim(fence)).collect();
        for (number, store) in self.stores.iter().enumerate() {
            let of_store: Vec<usize> = (0..fences.len()).filter(|at| numbers[*at] == number).collect();
            if of_store.is_empty() {
                continue;
            }
            let own: Vec<Fence> = of_store.iter().map(|at| fences[*at].clone()).collect();
            for (at, renewal) in of_store.into_iter().zip(store.renew(claim, &own).await?) {
                renewals[at] = renewal;
            }
        }
        Ok(renewals)
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let number = self.store_of_claim(fence);
        let ends_claim = commit.status.as_ref().is_some_and(|new| new.status != RunStatus::Running);
        let mut outcome = self.stores[number].commit(fence, commit).await?;
        if number > 0 && ends_claim {
            self.claimed().remove(&claim_key(fence));
        }
        outcome.position = tag_position(outcome.position, number);
        outcome.next = outcome.next.map(|next| Box::new(self.note_claim(*next, number)));
        Ok(outcome)
    }

    async fn wait_until_durable(&self, position: CommitPosition) -> Result<(), StoreError> {
        let number = (position.0 >> POSITION_BITS) as usize;
        let own = CommitPosition(position.0 & ((1 << POSITION_BITS) - 1));
        match self.stores.get(number) {
            Some(store) => store.wait_until_durable(own).await,
            None => Err(StoreError::Other(format!("there is no store {number}").into())),
        }
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        for store in &self.stores {
            store.check_writable().await?;
        }
        Ok(())
    }

    fn is_exclusive(&self) -> bool {
        self.stores[0].is_exclusive()
    }

    async fn signal_and_claim(
        &self,
        run: &RunKey,
        signal: RunSignal,
        claim: Option<&WorkerLease>,
    ) -> Result<SignalOutcome, StoreError> {
        let number = self.store_of_run(run).await?;
        let SignalOutcome { run, claimed } = self.stores[number].signal_and_claim(run, signal, claim).await?;
        Ok(SignalOutcome { run, claimed: claimed.map(|claimed| self.note_claim(claimed, number)) })
    }
}

#[async_trait]
impl HistoryStore for StorePerGraph {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<LoadedLog, StoreError> {
        let number = self.store_of_thread(thread).await?;
        self.stores[number].load(thread, at).await
    }

    async fn entries(
        &self,
        thread: &ThreadKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let number = self.store_of_thread(thread).await?;
        self.stores[number].entries(thread, after, limit).await
    }

    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError> {
        let number = self.store_of_run(run).await?;
        self.stores[number].run(run).await
    }

    async fn run_positions(&self, runs: &[RunKey]) -> Result<Vec<Option<RunPosition>>, StoreError> {
        let mut positions = vec![None; runs.len()];
        for store in &self.stores {
            let missing: Vec<usize> = (0..runs.len()).filter(|at| positions[*at].is_none()).collect();
            let asked: Vec<RunKey> = missing.iter().map(|at| runs[*at].clone()).collect();
            for (at, found) in missing.into_iter().zip(store.run_positions(&asked).await?) {
                positions[at] = found;
            }
        }
        Ok(positions)
    }

    async fn runs(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let mut lists = Vec::new();
        for store in &self.stores {
            lists.push(store.runs(tenant, filter).await?);
        }
        Ok(merge_newest(lists, |row| std::cmp::Reverse(row.run), 0, filter.limit))
    }

    async fn deleted_usage(&self, tenant: &TenantId, since: Millis) -> Result<Vec<DeletedUsage>, StoreError> {
        let mut all = Vec::new();
        for store in &self.stores {
            all.extend(store.deleted_usage(tenant, since).await?);
        }
        all.sort_by_key(|row| row.at);
        Ok(all)
    }

    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        let number = self.store_of_thread(thread).await?;
        self.stores[number].thread(thread).await
    }

    async fn thread_before_write(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        for store in self.stores.iter().skip(1) {
            match store.thread_before_write(thread).await {
                Err(StoreError::NotFound { .. }) => {}
                found => return found,
            }
        }
        self.stores[0].thread_before_write(thread).await
    }

    async fn threads(&self, tenant: &TenantId, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError> {
        let mut lists = Vec::new();
        // An offset counts in the merged list.
        let from_start =
            ThreadFilter { offset: 0, limit: filter.limit.saturating_add(filter.offset), ..filter.clone() };
        for store in &self.stores {
            lists.push(store.threads(tenant, &from_start).await?);
        }
        let key = |row: &ThreadRow| (std::cmp::Reverse(row.updated_at), row.key.thread.clone());
        Ok(merge_newest(lists, key, filter.offset, filter.limit))
    }
}

#[async_trait]
impl ThreadMaintenance for StorePerGraph {
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError> {
        let _settled = self.thread_lock(&thread.thread).lock().await;
        let mut number = self.store_of_thread(thread).await?;
        let graph = metadata.get(GRAPH_METADATA_KEY).and_then(Value::as_str);
        if let (0, Some(wanted)) = (number, graph.and_then(|graph| self.store_of_graph.get(graph)))
            && matches!(self.stores[0].thread(thread).await, Err(StoreError::NotFound { .. }))
        {
            number = *wanted;
        }
        self.stores[number].put_thread(thread, metadata).await
    }

    async fn append_entry(
        &self,
        thread: &ThreadKey,
        expect: Seq,
        entry: NewEntry,
    ) -> Result<Seq, StoreError> {
        let number = self.store_of_thread(thread).await?;
        self.stores[number].append_entry(thread, expect, entry).await
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        let _settled = self.thread_lock(to).lock().await;
        let target = ThreadKey { tenant: from.tenant.clone(), thread: to.clone() };
        let number = self.store_of_thread(from).await?;
        let other = self.store_of_thread(&target).await?;
        if other != number && self.stores[other].thread(&target).await.is_ok() {
            return Err(StoreError::Conflict(format!("thread `{to}` exists already")));
        }
        self.stores[number].copy_thread(from, to, stands).await
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        let _settled = self.thread_lock(&thread.thread).lock().await;
        let number = self.store_of_thread(thread).await?;
        self.stores[number].delete_thread(thread).await
    }

    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError> {
        let mut sum = GcReport::default();
        for store in &self.stores {
            let GcReport { threads, entries, keys, cached, items } = store.gc(retention).await?;
            sum.threads += threads;
            sum.entries += entries;
            sum.keys += keys;
            sum.cached += cached;
            sum.items += items;
        }
        Ok(sum)
    }
}

doran_engine::delegated_store!(StorePerGraph, shared: stores[0]);

//! What the lock of a [`RamStore`](super::RamStore) guards, and the rules of a store as plain functions of it.
//!
//! Every function checks all it has to before it changes anything, so an error leaves the content as it was.

mod history;
mod idempotency;
mod items;
mod key_values;
mod maintenance;
mod runs;
mod timers;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::id::{RunId, TenantId, ThreadId, ThreadKey};
use crate::store::{
    ClaimedRun, CommitPosition, DeletedUsage, EntryKind, Fence, IdempotentResponse, LogEntry, Millis,
    NewEntry, NewRunEntry, Record, RunRow, RunStatus, Seq, TimerRow, WorkerLease,
};

/// Everything, by tenant.
#[derive(Default)]
pub(super) struct RamState {
    tenants: HashMap<TenantId, RamTenant>,
    /// Threads with a run that waits for a worker, in the order in which these began to wait.
    ready: BTreeSet<(u64, ThreadKey)>,
    /// Threads with a run that a worker has, by the end of its lease.
    leases: BTreeSet<(Millis, ThreadKey)>,
    /// Timers by their time.
    due: BTreeSet<(Millis, TenantId, String)>,
    /// The last number given out to a run that waits.
    ticket: u64,
    /// The number of commits.
    commits: u64,
    /// What replicas share, by bucket.
    buckets: BTreeMap<String, key_values::RamBucket>,
}

/// What one tenant has.
#[derive(Default)]
struct RamTenant {
    threads: HashMap<ThreadId, RamThread>,
    runs: HashMap<RunId, RamRun>,
    /// The runs in the order of their ids.
    ids: BTreeSet<RunId>,
    idempotency_keys: HashMap<String, RamIdempotencyKey>,
    cache: HashMap<String, RamCachedValue>,
    responses: HashMap<String, RamStoredResponse>,
    /// By stored namespace and key.
    items: BTreeMap<(String, String), items::RamItem>,
    timers: BTreeMap<String, TimerRow>,
    /// The number of the newest stored response.
    last_response: u64,
    /// What deleted runs used, by quarter of an hour and graph.
    deleted_usage: BTreeMap<(Millis, String), DeletedUsage>,
}

struct RamThread {
    /// The log without the entries that `gc` removed from its start.
    log: VecDeque<LogEntry>,
    head: Seq,
    snapshots: BTreeMap<Seq, Vec<u8>>,
    active: Option<RunId>,
    waiting: BTreeMap<QueuePosition, RunId>,
    runs: Vec<RunId>,
    created_at: Millis,
    updated_at: Millis,
    metadata: Map<String, Value>,
    /// Its line in [`RamState::ready`].
    ready: Option<u64>,
    /// Its line in [`RamState::leases`].
    lease: Option<Millis>,
}

/// Where a queued run stands: those that interrupt go first, each kind in the order it came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    enqueued: bool,
    ticket: u64,
}

struct RamRun {
    row: RunRow,
    /// The entry it will begin with, while it is queued.
    first_entry: Option<NewRunEntry>,
    /// Its place in the queue, or the time since which it waits to be claimed again.
    queue_position: QueuePosition,
    /// A worker has it.
    has_worker: bool,
    /// By path and key. A step has few of them, and a vector keeps its room from one step to the next.
    records: Vec<Record>,
}

struct RamIdempotencyKey {
    hash: String,
    run: RunId,
    at: Millis,
}

struct RamStoredResponse {
    response: IdempotentResponse,
    /// Counts up, so that the oldest can be deleted.
    number: u64,
    expires: Millis,
}

struct RamCachedValue {
    value: Vec<u8>,
    until: Option<Millis>,
}

impl RamState {
    /// Gives the run of a thread that waits for a worker to this one. The caller saw that there is one.
    fn claim_thread(&mut self, claim: &WorkerLease, key: &ThreadKey, now: Millis) -> Option<ClaimedRun> {
        let home = self.tenants.get_mut(&key.tenant)?;
        let thread = home.threads.get_mut(&key.thread)?;
        let id = thread.active.or_else(|| thread.next_waiting())?;
        let run = home.runs.get_mut(&id)?;
        if let Some(first) = run.first_entry.take() {
            thread.waiting.remove(&run.queue_position);
            thread.active = Some(id);
            let parent = first.parent.unwrap_or(thread.head);
            let base = thread.base_after(parent);
            let entry =
                NewEntry { kind: first.kind, body: first.body, parent: Some(parent), base, snapshot: None };
            run.row.first_seq = Some(thread.push_entry(Some(id), entry, now));
            run.row.parent_seq = Some(parent);
            run.row.started_at = Some(now);
            run.row.status = RunStatus::Running;
            thread.updated_at = now;
        }
        run.row.epoch += 1;
        run.has_worker = true;
        let parent_writer = run.row.parent_seq.and_then(|parent| thread.entry(parent)?.run);
        let (head, records) = (thread.head, run.records.clone());
        let position = CommitPosition::default();
        let claimed = ClaimedRun { run: run.row.clone(), head, records, parent_writer, position };
        let until = add_duration(now, claim.lease);
        if let Some(old) = thread.lease.replace(until) {
            self.leases.remove(&(old, key.clone()));
        }
        self.leases.insert((until, key.clone()));
        if let Some(ticket) = thread.ready.take() {
            self.ready.remove(&(ticket, key.clone()));
        }
        Some(claimed)
    }

    /// Whether this worker takes the next run of a thread.
    fn takes(&self, claim: &WorkerLease, key: &ThreadKey) -> bool {
        let Some(home) = self.tenants.get(&key.tenant) else { return false };
        let next =
            home.threads.get(&key.thread).and_then(|thread| thread.active.or_else(|| thread.next_waiting()));
        let run = next.and_then(|id| home.runs.get(&id));
        run.is_some_and(|run| claim.takes(&run.row.graph, run.row.cancel_asked))
    }

    /// Brings the two sets in line with a thread whose runs changed.
    fn update_claim_queues(&mut self, key: &ThreadKey) {
        let Some(home) = self.tenants.get_mut(&key.tenant) else { return };
        let Some(thread) = home.threads.get_mut(&key.thread) else { return };
        let run = thread.active.or_else(|| thread.next_waiting()).and_then(|id| home.runs.get(&id));
        let ready = run
            .filter(|run| !run.has_worker && run.row.status != RunStatus::Paused)
            .map(|run| run.queue_position.ticket);
        if thread.ready != ready {
            if let Some(old) = thread.ready {
                self.ready.remove(&(old, key.clone()));
            }
            if let Some(new) = ready {
                self.ready.insert((new, key.clone()));
            }
            thread.ready = ready;
        }
        if !run.is_some_and(|run| run.has_worker)
            && let Some(old) = thread.lease.take()
        {
            self.leases.remove(&(old, key.clone()));
        }
    }

    /// How many threads have a run to claim, and how many one that a worker has.
    #[cfg(test)]
    pub(super) fn claim_queue_lengths(&self) -> (usize, usize) {
        (self.ready.len(), self.leases.len())
    }

    fn find_thread(&self, key: &ThreadKey) -> Option<&RamThread> {
        self.tenants.get(&key.tenant)?.threads.get(&key.thread)
    }
}

impl RamTenant {
    /// The thread and run of a fence that still holds.
    fn find_claimed(&mut self, fence: &Fence) -> Option<(&mut RamThread, &mut RamRun)> {
        let run = self.runs.get_mut(&fence.run)?;
        if !run.has_worker || run.row.epoch != fence.epoch || run.row.thread.thread != fence.thread.thread {
            return None;
        }
        Some((self.threads.get_mut(&fence.thread.thread)?, run))
    }
}

impl RamThread {
    fn new(now: Millis, metadata: Map<String, Value>) -> Self {
        Self {
            log: VecDeque::new(),
            head: 0,
            snapshots: BTreeMap::new(),
            active: None,
            waiting: BTreeMap::new(),
            runs: Vec::new(),
            created_at: now,
            updated_at: now,
            metadata,
            ready: None,
            lease: None,
        }
    }

    fn next_waiting(&self) -> Option<RunId> {
        self.waiting.values().next().copied()
    }

    fn entry(&self, seq: Seq) -> Option<&LogEntry> {
        let first = self.log.front()?.seq;
        self.log.get(usize::try_from(seq.checked_sub(first)?).ok()?)
    }

    /// What an entry that follows `parent` has as its base.
    fn base_after(&self, parent: Seq) -> Seq {
        if self.snapshots.contains_key(&parent) {
            parent
        } else {
            self.entry(parent).map_or(0, |entry| entry.base)
        }
    }

    fn push_entry(&mut self, run: Option<RunId>, new: NewEntry, now: Millis) -> Seq {
        let NewEntry { kind, body, parent, base, snapshot } = new;
        let parent = parent.unwrap_or(self.head);
        self.head += 1;
        if let Some(snapshot) = snapshot {
            self.snapshots.insert(self.head, snapshot);
        }
        self.log.push_back(LogEntry { seq: self.head, parent, base, run, at: now, kind, body });
        self.head
    }

    /// Appends an entry of the store's own making to what a run wrote.
    fn append_store_entry(&mut self, run: &RamRun, kind: EntryKind, body: Vec<u8>, now: Millis) {
        let base = self.base_after(self.head);
        self.push_entry(Some(run.row.run), NewEntry { kind, body, parent: None, base, snapshot: None }, now);
        self.updated_at = now;
    }

    /// Ends the active run and frees the thread. Records stay with a failed run, which may be tried again.
    fn end_active_run(&mut self, run: &mut RamRun, status: RunStatus, now: Millis) {
        run.row.status = status;
        run.row.ended_at = Some(now);
        run.row.last_seq = Some(self.head);
        run.has_worker = false;
        if status != RunStatus::Failed {
            run.records = Vec::new();
        }
        self.active = None;
        self.updated_at = now;
    }
}

impl RamRun {
    /// Where the record of this name is, or would be.
    fn record_index(&self, path: &str, key: &str) -> Result<usize, usize> {
        self.records.binary_search_by(|record| (record.path.as_str(), record.key.as_str()).cmp(&(path, key)))
    }
}

fn add_duration(now: Millis, length: Duration) -> Millis {
    now.saturating_add(Millis::try_from(length.as_millis()).unwrap_or(Millis::MAX))
}

/// The last instant that is at least `age` ago.
fn subtract_duration(now: Millis, age: Duration) -> Millis {
    now.saturating_sub(Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX))
}

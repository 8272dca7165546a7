//! What the lock of a [`RamStore`](super::RamStore) guards, and the rules of a store as plain functions of it.
//!
//! Every function checks all it has to before it changes anything, so an error leaves the content as it was.

mod read;
mod runs;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::id::{RunId, Tenant, ThreadId, ThreadKey};
use crate::store::{
    Claim, Claimed, Entry, EntryKind, Fence, Millis, NewEntry, NewRunEntry, Record, RunRow, Seq, Status,
};

/// Everything, by tenant.
#[derive(Default)]
pub(super) struct Shelf {
    tenants: HashMap<Tenant, Home>,
    /// Threads with a run that waits for a worker, in the order in which these began to wait.
    ready: BTreeSet<(u64, ThreadKey)>,
    /// Threads with a run that a worker has, by the end of its lease.
    leases: BTreeSet<(Millis, ThreadKey)>,
    /// The last number given out to a run that waits.
    ticket: u64,
}

/// What one tenant has.
#[derive(Default)]
struct Home {
    threads: HashMap<ThreadId, Thread>,
    runs: HashMap<RunId, Run>,
    /// The runs in the order of their ids.
    ids: BTreeSet<RunId>,
    keys: HashMap<String, Key>,
    cache: HashMap<String, Kept>,
}

struct Thread {
    /// The log without the entries that `gc` removed from its start.
    log: VecDeque<Entry>,
    head: Seq,
    snapshots: BTreeMap<Seq, Vec<u8>>,
    active: Option<RunId>,
    waiting: BTreeMap<Place, RunId>,
    runs: Vec<RunId>,
    created_at: Millis,
    updated_at: Millis,
    metadata: Map<String, Value>,
    /// Its line in [`Shelf::ready`].
    ready: Option<u64>,
    /// Its line in [`Shelf::leases`].
    lease: Option<Millis>,
}

/// Where a queued run stands: those that interrupt go first, each kind in the order it came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    enqueued: bool,
    ticket: u64,
}

struct Run {
    row: RunRow,
    /// The entry it will begin with, while it is queued.
    first: Option<NewRunEntry>,
    /// Its place in the queue, or the time since which it waits to be claimed again.
    place: Place,
    /// A worker has it.
    held: bool,
    /// By path and key. A step has few of them, and a vector keeps its room from one step to the next.
    records: Vec<Record>,
    key: Option<String>,
}

struct Key {
    hash: String,
    run: RunId,
    at: Millis,
}

struct Kept {
    value: Vec<u8>,
    until: Option<Millis>,
}

impl Shelf {
    /// Gives the run of a thread that waits for a worker to this one. The caller saw that there is one.
    fn take(&mut self, claim: &Claim, key: &ThreadKey, now: Millis) -> Option<Claimed> {
        let home = self.tenants.get_mut(&key.tenant)?;
        let thread = home.threads.get_mut(&key.thread)?;
        let id = thread.active.or_else(|| thread.next())?;
        let run = home.runs.get_mut(&id)?;
        if let Some(first) = run.first.take() {
            thread.waiting.remove(&run.place);
            thread.active = Some(id);
            let parent = first.parent.unwrap_or(thread.head);
            let base = thread.base_after(parent);
            let entry =
                NewEntry { kind: first.kind, body: first.body, parent: Some(parent), base, snapshot: None };
            run.row.first_seq = Some(thread.push(Some(id), entry, now));
            run.row.parent_seq = Some(parent);
            run.row.started_at = Some(now);
            run.row.status = Status::Running;
            thread.updated_at = now;
        }
        run.row.epoch += 1;
        run.held = true;
        let claimed = Claimed { run: run.row.clone(), head: thread.head, records: run.records.clone() };
        let until = after(now, claim.lease);
        if let Some(old) = thread.lease.replace(until) {
            self.leases.remove(&(old, key.clone()));
        }
        self.leases.insert((until, key.clone()));
        if let Some(ticket) = thread.ready.take() {
            self.ready.remove(&(ticket, key.clone()));
        }
        Some(claimed)
    }

    /// Brings the two sets in line with a thread whose runs changed.
    fn settle(&mut self, key: &ThreadKey) {
        let Some(home) = self.tenants.get_mut(&key.tenant) else { return };
        let Some(thread) = home.threads.get_mut(&key.thread) else { return };
        let run = thread.active.or_else(|| thread.next()).and_then(|id| home.runs.get(&id));
        let ready =
            run.filter(|run| !run.held && run.row.status != Status::Paused).map(|run| run.place.ticket);
        if thread.ready != ready {
            if let Some(old) = thread.ready {
                self.ready.remove(&(old, key.clone()));
            }
            if let Some(new) = ready {
                self.ready.insert((new, key.clone()));
            }
            thread.ready = ready;
        }
        if !run.is_some_and(|run| run.held)
            && let Some(old) = thread.lease.take()
        {
            self.leases.remove(&(old, key.clone()));
        }
    }

    /// How many threads have a run to claim, and how many one that a worker has.
    #[cfg(test)]
    pub(super) fn lines(&self) -> (usize, usize) {
        (self.ready.len(), self.leases.len())
    }

    fn find(&self, key: &ThreadKey) -> Option<&Thread> {
        self.tenants.get(&key.tenant)?.threads.get(&key.thread)
    }
}

impl Home {
    /// The thread and run of a fence that still holds.
    fn held(&mut self, fence: &Fence) -> Option<(&mut Thread, &mut Run)> {
        let run = self.runs.get_mut(&fence.run)?;
        if !run.held || run.row.epoch != fence.epoch || run.row.thread.thread != fence.thread.thread {
            return None;
        }
        Some((self.threads.get_mut(&fence.thread.thread)?, run))
    }
}

impl Thread {
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

    fn next(&self) -> Option<RunId> {
        self.waiting.values().next().copied()
    }

    fn entry(&self, seq: Seq) -> Option<&Entry> {
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

    fn push(&mut self, run: Option<RunId>, new: NewEntry, now: Millis) -> Seq {
        let NewEntry { kind, body, parent, base, snapshot } = new;
        let parent = parent.unwrap_or(self.head);
        self.head += 1;
        if let Some(snapshot) = snapshot {
            self.snapshots.insert(self.head, snapshot);
        }
        self.log.push_back(Entry { seq: self.head, parent, base, run, at: now, kind, body });
        self.head
    }

    /// Appends an entry of the store's own making to what a run wrote.
    fn tell(&mut self, run: &Run, kind: EntryKind, body: Vec<u8>, now: Millis) {
        let base = self.base_after(self.head);
        self.push(Some(run.row.run), NewEntry { kind, body, parent: None, base, snapshot: None }, now);
        self.updated_at = now;
    }

    /// Ends the active run and frees the thread. Records stay with a failed run, which may be tried again.
    fn end(&mut self, run: &mut Run, status: Status, now: Millis) {
        run.row.status = status;
        run.row.ended_at = Some(now);
        run.row.last_seq = Some(self.head);
        run.held = false;
        if status != Status::Failed {
            run.records = Vec::new();
        }
        self.active = None;
        self.updated_at = now;
    }
}

impl Run {
    /// Where the record of this name is, or would be.
    fn place_of(&self, path: &str, key: &str) -> Result<usize, usize> {
        self.records.binary_search_by(|record| (record.path.as_str(), record.key.as_str()).cmp(&(path, key)))
    }
}

fn after(now: Millis, length: Duration) -> Millis {
    now.saturating_add(Millis::try_from(length.as_millis()).unwrap_or(Millis::MAX))
}

/// The last instant that is at least `age` ago.
fn ago(now: Millis, age: Duration) -> Millis {
    now.saturating_sub(Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX))
}

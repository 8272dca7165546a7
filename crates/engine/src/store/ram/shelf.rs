//! What the lock of a [`RamStore`](super::RamStore) guards, and the rules of a store as plain functions of it.
//!
//! Every function checks all it has to before it changes anything, so an error leaves the content as it was.

mod read;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value};

use super::super::{
    Claim, Claimed, Commit, Committed, Entry, EntryKind, Fence, Idempotency, IfBusy, Millis, NewEntry,
    NewRun, NewRunEntry, Record, Renewed, RunRow, Seq, Signal, Stage, Status, StoreError, Submitted, Usage,
    check_metadata,
};
use crate::id::{RunId, RunKey, Tenant, ThreadId, ThreadKey};

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
    records: BTreeMap<(String, String), (Stage, Vec<u8>)>,
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
    pub(super) fn submit(&mut self, new: NewRun, now: Millis) -> Result<Submitted, StoreError> {
        check_metadata(&new.metadata)?;
        let home = self.tenants.entry(new.thread.tenant.clone()).or_default();
        if let Some(Idempotency { key, hash }) = &new.idempotency
            && let Some(seen) = home.keys.get(key)
        {
            let Some(run) = home.runs.get(&seen.run).filter(|_| seen.hash == *hash) else {
                return Err(StoreError::KeyReused(key.clone()));
            };
            return Ok(Submitted::Repeated(run.row.clone()));
        }
        if home.runs.contains_key(&new.run) {
            return Err(StoreError::Conflict(format!("run `{}` exists already", new.run)));
        }

        let mut first = new.first;
        let mut stop = None;
        let mut end = None;
        let thread = home.threads.get(&new.thread.thread);
        if let Some(parent) = first.parent
            && parent > 0
            && thread.is_none_or(|thread| thread.entry(parent).is_none())
        {
            return Err(StoreError::no_entry(parent));
        }
        if let Some(busy) = thread.and_then(|thread| thread.active.or_else(|| thread.next())) {
            match new.if_busy {
                IfBusy::Reject => return Err(StoreError::Busy { thread: new.thread.thread, run: busy }),
                IfBusy::Enqueue => {}
                IfBusy::Interrupt | IfBusy::Rollback => {
                    let active =
                        thread.and_then(|thread| thread.active).and_then(|id| home.runs.get_mut(&id));
                    if let Some(active) = active {
                        if new.if_busy == IfBusy::Rollback {
                            first.parent = active.row.parent_seq;
                        }
                        if active.row.status == Status::Paused {
                            end = Some(active.row.run);
                        } else {
                            active.row.cancel_asked = true;
                            stop = Some(active.row.run);
                        }
                    }
                }
            }
        }

        let thread =
            home.threads.entry(new.thread.thread.clone()).or_insert_with(|| Thread::new(now, Map::new()));
        if let Some(run) = end.and_then(|id| home.runs.get_mut(&id)) {
            thread.tell(run, EntryKind::Cancelled, new.stop_body, now);
            thread.end(run, Status::Cancelled, now);
        }
        self.ticket += 1;
        let place =
            Place { enqueued: matches!(new.if_busy, IfBusy::Reject | IfBusy::Enqueue), ticket: self.ticket };
        thread.waiting.insert(place, new.run);
        thread.runs.push(new.run);
        thread.updated_at = now;
        if let Some(Idempotency { key, hash }) = &new.idempotency {
            home.keys.insert(key.clone(), Key { hash: hash.clone(), run: new.run, at: now });
        }
        let row = RunRow {
            thread: new.thread.clone(),
            run: new.run,
            graph: new.graph,
            fingerprint: new.fingerprint,
            status: Status::Queued,
            epoch: 0,
            cancel_asked: false,
            created_at: now,
            started_at: None,
            ended_at: None,
            first_seq: None,
            parent_seq: None,
            last_seq: None,
            steps: 0,
            usage: Usage::default(),
            error: None,
            metadata: new.metadata,
            options: new.options,
        };
        let starts = thread.active.is_none() && thread.next() == Some(new.run);
        let queued = Submitted::Queued { run: row.clone(), stop };
        let key = new.idempotency.map(|idempotency| idempotency.key);
        let run = Run { row, first: Some(first), place, held: false, records: BTreeMap::new(), key };
        home.ids.insert(new.run);
        home.runs.insert(new.run, run);
        self.settle(&new.thread);
        if let (true, Some(claim)) = (starts, &new.claim)
            && let Some(claimed) = self.take(claim, &new.thread, now)
        {
            return Ok(Submitted::Started(claimed));
        }
        Ok(queued)
    }

    pub(super) fn claim(
        &mut self,
        claim: &Claim,
        only: Option<&ThreadKey>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<Claimed>, StoreError> {
        if let Some(key) = only {
            let free =
                |thread: &Thread| thread.ready.is_some() || thread.lease.is_some_and(|until| until <= now);
            let found = limit > 0 && self.find(key).is_some_and(free);
            return Ok(found.then(|| self.take(claim, key, now)).flatten().into_iter().collect());
        }
        // Runs whose worker was lost go first: somebody has been waiting for them for longer.
        let lost = self.leases.iter().take_while(|(until, _)| *until <= now).map(|(_, key)| key);
        let keys: Vec<ThreadKey> =
            lost.chain(self.ready.iter().map(|(_, key)| key)).take(limit).cloned().collect();
        Ok(keys.iter().filter_map(|key| self.take(claim, key, now)).collect())
    }

    pub(super) fn renew(&mut self, claim: &Claim, fence: &Fence, now: Millis) -> Renewed {
        let Some(home) = self.tenants.get_mut(&fence.thread.tenant) else { return Renewed::Lost };
        let Some((thread, run)) = home.held(fence) else { return Renewed::Lost };
        let asked = run.row.cancel_asked;
        let until = after(now, claim.lease);
        if let Some(old) = thread.lease.replace(until) {
            self.leases.remove(&(old, fence.thread.clone()));
        }
        self.leases.insert((until, fence.thread.clone()));
        if asked { Renewed::CancelAsked } else { Renewed::Held }
    }

    pub(super) fn commit(
        &mut self,
        fence: &Fence,
        commit: Commit,
        now: Millis,
    ) -> Result<Committed, StoreError> {
        let home = self.tenants.get_mut(&fence.thread.tenant).ok_or(StoreError::Fenced)?;
        let (thread, run) = home.held(fence).ok_or(StoreError::Fenced)?;
        if commit.head != thread.head {
            let (known, head) = (commit.head, thread.head);
            return Err(StoreError::Conflict(format!("the newest entry is {head}, not {known}")));
        }
        if commit.status.as_ref().is_some_and(|new| new.status == Status::Queued) {
            return Err(StoreError::Conflict("a run that started cannot be queued again".into()));
        }

        for entry in commit.entries {
            thread.push(Some(fence.run), entry, now);
        }
        if commit.clear_records {
            run.records.clear();
        }
        for Record { path, key, stage, body } in commit.records {
            run.records.insert((path, key), (stage, body));
        }
        run.row.usage += commit.usage;
        run.row.steps = run.row.steps.saturating_add(commit.steps);
        thread.updated_at = now;
        let (head, cancel_asked) = (thread.head, run.row.cancel_asked);
        let mut next_waits = false;
        if let Some(new) = commit.status {
            if new.error.is_some() {
                run.row.error = new.error;
            }
            if new.status.is_end() {
                thread.end(run, new.status, now);
                next_waits = !thread.waiting.is_empty();
            } else if new.status == Status::Paused {
                run.row.status = Status::Paused;
                run.held = false;
            }
            self.settle(&fence.thread);
        }
        Ok(Committed { head, at: now, cancel_asked, next_waits })
    }

    pub(super) fn signal(&mut self, key: &RunKey, signal: Signal, now: Millis) -> Result<RunRow, StoreError> {
        let none = || StoreError::no_run(key);
        let home = self.tenants.get_mut(&key.tenant).ok_or_else(none)?;
        let run = home.runs.get_mut(&key.run).ok_or_else(none)?;
        let thread_key = run.row.thread.clone();
        let thread = home.threads.get_mut(&thread_key.thread).ok_or_else(none)?;
        match signal {
            Signal::Cancel { body } => match run.row.status {
                Status::Queued => {
                    thread.waiting.remove(&run.place);
                    run.row.status = Status::Cancelled;
                    run.row.ended_at = Some(now);
                    run.first = None;
                    thread.updated_at = now;
                }
                Status::Running => run.row.cancel_asked = true,
                Status::Paused => {
                    thread.tell(run, EntryKind::Cancelled, body, now);
                    thread.end(run, Status::Cancelled, now);
                }
                Status::Finished | Status::Failed | Status::Cancelled => {}
            },
            Signal::Answer { answers, body } => {
                run.answer(answers)?;
                run.row.status = Status::Running;
                self.ticket += 1;
                run.place.ticket = self.ticket;
                thread.tell(run, EntryKind::Resumed, body, now);
            }
            Signal::Retry { body, fingerprint } => {
                if run.row.status != Status::Failed {
                    return Err(StoreError::Conflict(format!("run `{}` did not fail", key.run)));
                }
                if thread.active.is_some() || run.row.last_seq != Some(thread.head) {
                    let thread = &thread_key.thread;
                    return Err(StoreError::Conflict(format!(
                        "thread `{thread}` went on after run `{}`",
                        key.run
                    )));
                }
                let row = &mut run.row;
                row.status = Status::Running;
                row.fingerprint = fingerprint;
                row.cancel_asked = false;
                (row.ended_at, row.last_seq, row.error) = (None, None, None);
                self.ticket += 1;
                run.place.ticket = self.ticket;
                thread.active = Some(key.run);
                thread.tell(run, EntryKind::Restarted, body, now);
            }
        }
        let row = run.row.clone();
        self.settle(&thread_key);
        Ok(row)
    }

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
        let records = run.records();
        let claimed = Claimed { run: run.row.clone(), head: thread.head, records };
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
            run.records = BTreeMap::new();
        }
        self.active = None;
        self.updated_at = now;
    }
}

impl Run {
    fn records(&self) -> Vec<Record> {
        let record = |((path, key), (stage, body)): (&(String, String), &(Stage, Vec<u8>))| Record {
            path: path.clone(),
            key: key.clone(),
            stage: *stage,
            body: body.clone(),
        };
        self.records.iter().map(record).collect()
    }

    /// Takes all answers or none.
    fn answer(&mut self, answers: Vec<(String, String, Vec<u8>)>) -> Result<(), StoreError> {
        if self.row.status != Status::Paused {
            return Err(StoreError::Conflict(format!("run `{}` is not paused", self.row.run)));
        }
        let mut taken = BTreeMap::new();
        for (path, key, answer) in answers {
            let question = (path, key);
            let open = self.records.get(&question).is_some_and(|(stage, _)| *stage == Stage::Open);
            if !open || taken.contains_key(&question) {
                let (path, key) = question;
                return Err(StoreError::Conflict(format!("question `{key}` of task `{path}` is not open")));
            }
            taken.insert(question, (Stage::Done, answer));
        }
        self.records.extend(taken);
        Ok(())
    }
}

fn after(now: Millis, length: Duration) -> Millis {
    now.saturating_add(Millis::try_from(length.as_millis()).unwrap_or(Millis::MAX))
}

/// The last instant that is at least `age` ago.
fn ago(now: Millis, age: Duration) -> Millis {
    now.saturating_sub(Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX))
}

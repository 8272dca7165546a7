//! Runs: accepted, claimed, written to, told something.

use std::collections::BTreeMap;

use serde_json::Map;

use super::{Key, Place, Run, Shelf, Thread, after};
use crate::id::{RunKey, ThreadKey};
use crate::store::{
    Claim, Claimed, Commit, Committed, EntryKind, Fence, Idempotency, IfBusy, Millis, NewRun, Renewed,
    RunRow, Signal, Stage, Status, StoreError, Submitted, check_metadata,
};

impl Shelf {
    pub(in super::super) fn submit(&mut self, new: NewRun, now: Millis) -> Result<Submitted, StoreError> {
        check_metadata(&new.metadata)?;
        check_metadata(&new.thread_metadata)?;
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

        let row = new.row(now);
        let mut first = new.first.clone();
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
            thread.tell(run, EntryKind::Cancelled, new.stop_body.clone(), now);
            thread.end(run, Status::Cancelled, now);
        }
        self.ticket += 1;
        let place =
            Place { enqueued: matches!(new.if_busy, IfBusy::Reject | IfBusy::Enqueue), ticket: self.ticket };
        thread.waiting.insert(place, new.run);
        thread.runs.push(new.run);
        thread.updated_at = now;
        for (name, value) in new.thread_pairs() {
            thread.metadata.entry(name).or_insert_with(|| value.clone());
        }
        if let Some(Idempotency { key, hash }) = &new.idempotency {
            home.keys.insert(key.clone(), Key { hash: hash.clone(), run: new.run, at: now });
        }
        let starts = thread.active.is_none() && thread.next() == Some(new.run);
        let queued = Submitted::Queued { run: row.clone(), stop };
        let key = new.idempotency.map(|idempotency| idempotency.key);
        let run = Run { row, first: Some(first), place, held: false, records: Vec::new(), key };
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

    pub(in super::super) fn claim(
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

    pub(in super::super) fn renew(&mut self, claim: &Claim, fence: &Fence, now: Millis) -> Renewed {
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

    pub(in super::super) fn commit(
        &mut self,
        fence: &Fence,
        commit: Commit,
        now: Millis,
    ) -> Result<Committed, StoreError> {
        let home = self.tenants.get_mut(&fence.thread.tenant).ok_or(StoreError::Fenced)?;
        let (thread, run) = home.held(fence).ok_or(StoreError::Fenced)?;
        if !commit.entries.is_empty() && commit.head != thread.head {
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
        for record in commit.records {
            match run.place_of(&record.path, &record.key) {
                Ok(place) => run.records[place] = record,
                Err(place) => run.records.insert(place, record),
            }
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
                run.held = false;
                if cancel_asked {
                    self.ticket += 1;
                    run.place.ticket = self.ticket;
                    next_waits = true;
                } else {
                    run.row.status = Status::Paused;
                }
            }
            self.settle(&fence.thread);
        }
        Ok(Committed { head, at: now, cancel_asked, next_waits })
    }

    pub(in super::super) fn signal(
        &mut self,
        key: &RunKey,
        signal: Signal,
        now: Millis,
    ) -> Result<RunRow, StoreError> {
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
}

impl Run {
    /// Takes all answers or none.
    fn answer(&mut self, answers: Vec<(String, String, Vec<u8>)>) -> Result<(), StoreError> {
        if self.row.status != Status::Paused {
            return Err(StoreError::Conflict(format!("run `{}` is not paused", self.row.run)));
        }
        let mut taken = BTreeMap::new();
        for (path, key, answer) in answers {
            let open =
                self.place_of(&path, &key).ok().filter(|place| self.records[*place].stage == Stage::Open);
            let Some(place) = open.filter(|place| !taken.contains_key(place)) else {
                return Err(StoreError::Conflict(format!("question `{key}` of task `{path}` is not open")));
            };
            taken.insert(place, answer);
        }
        for (place, answer) in taken {
            (self.records[place].stage, self.records[place].body) = (Stage::Done, answer);
        }
        Ok(())
    }
}

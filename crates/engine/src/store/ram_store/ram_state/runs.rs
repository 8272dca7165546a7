//! Runs: accepted, claimed, written to, signalled.

use std::collections::BTreeMap;

use serde_json::Map;

use super::{QueuePosition, RamIdempotencyKey, RamRun, RamState, RamThread, add_duration};
use crate::id::{RunKey, ThreadKey};
use crate::store::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, EntryKind, Fence, IfBusy, LeaseRenewal, Millis,
    NewRun, RecordStage, RunIdempotencyKey, RunRow, RunSignal, RunStatus, StoreError, SubmitOutcome,
    WorkerLease, check_metadata,
};

impl RamState {
    pub(in super::super) fn submit(&mut self, new: NewRun, now: Millis) -> Result<SubmitOutcome, StoreError> {
        check_metadata(&new.metadata)?;
        check_metadata(&new.thread_metadata)?;
        let home = self.tenants.entry(new.thread.tenant.clone()).or_default();
        if let Some(RunIdempotencyKey { key, hash }) = &new.idempotency
            && let Some(seen) = home.idempotency_keys.get(key)
        {
            if seen.hash != *hash {
                return Err(StoreError::KeyReused(key.clone()));
            }
            let run = home.runs.get(&seen.run).ok_or_else(StoreError::run_of_key_deleted)?;
            return Ok(SubmitOutcome::Repeated(run.row.clone()));
        }
        if home.runs.contains_key(&new.run) {
            return Err(StoreError::Conflict(format!("run `{}` exists already", new.run)));
        }

        let row = new.queued_row(now);
        let mut first = new.first.clone();
        let mut stop = None;
        let mut end = None;
        let thread = home.threads.get(&new.thread.thread);
        match (first.parent, thread) {
            (None | Some(0), _) => {}
            (Some(parent), Some(thread)) => drop(thread.load(parent)?),
            (Some(parent), None) => return Err(StoreError::no_entry(parent)),
        }
        if let Some(busy) = thread.and_then(|thread| thread.active.or_else(|| thread.next_waiting())) {
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
                        if active.row.status == RunStatus::Paused {
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
            home.threads.entry(new.thread.thread.clone()).or_insert_with(|| RamThread::new(now, Map::new()));
        if let Some(run) = end.and_then(|id| home.runs.get_mut(&id)) {
            thread.append_store_entry(run, EntryKind::Cancelled, new.stop_body.clone(), now);
            thread.end_active_run(run, RunStatus::Cancelled, now);
        }
        self.ticket += 1;
        let place = QueuePosition {
            enqueued: matches!(new.if_busy, IfBusy::Reject | IfBusy::Enqueue),
            ticket: self.ticket,
        };
        thread.waiting.insert(place, new.run);
        thread.runs.push(new.run);
        thread.updated_at = now;
        for (name, value) in new.thread_pairs() {
            thread.metadata.entry(name).or_insert_with(|| value.clone());
        }
        if let Some(RunIdempotencyKey { key, hash }) = &new.idempotency {
            home.idempotency_keys
                .insert(key.clone(), RamIdempotencyKey { hash: hash.clone(), run: new.run, at: now });
        }
        let starts = thread.active.is_none() && thread.next_waiting() == Some(new.run);
        let claim = new.claim.as_ref().filter(|_| starts);
        // Most runs start at once, and their rows are not needed here.
        let queued = if claim.is_none() { Some(row.clone()) } else { None };
        let run = RamRun {
            row,
            first_entry: Some(first),
            queue_position: place,
            has_worker: false,
            records: Vec::new(),
        };
        home.ids.insert(new.run);
        home.runs.insert(new.run, run);
        self.update_claim_queues(&new.thread);
        if let Some(run) = queued {
            return Ok(SubmitOutcome::Queued { run, stop });
        }
        let claimed = claim.and_then(|claim| self.claim_thread(claim, &new.thread, now));
        claimed.map(SubmitOutcome::Started).ok_or_else(|| StoreError::no_run(&new.thread.run(new.run)))
    }

    pub(in super::super) fn claim(
        &mut self,
        claim: &WorkerLease,
        only: Option<&ThreadKey>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        if let Some(key) = only {
            let claimed = if limit > 0 { self.claim_waiting(claim, key, now) } else { None };
            return Ok(claimed.into_iter().collect());
        }
        // Runs whose worker was lost go first: somebody has been waiting for them for longer.
        let lost = self.leases.iter().take_while(|(until, _)| *until <= now).map(|(_, key)| key);
        let free = lost.chain(self.ready.iter().map(|(_, key)| key));
        let keys: Vec<ThreadKey> = free.filter(|key| self.takes(claim, key)).take(limit).cloned().collect();
        Ok(keys.iter().filter_map(|key| self.claim_thread(claim, key, now)).collect())
    }

    /// Claims the run of a thread that waits for a worker.
    pub(in super::super) fn claim_waiting(
        &mut self,
        claim: &WorkerLease,
        key: &ThreadKey,
        now: Millis,
    ) -> Option<ClaimedRun> {
        let free =
            |thread: &RamThread| thread.ready.is_some() || thread.lease.is_some_and(|until| until <= now);
        let found = self.find_thread(key).is_some_and(free) && self.takes(claim, key);
        found.then(|| self.claim_thread(claim, key, now)).flatten()
    }

    pub(in super::super) fn renew(
        &mut self,
        claim: &WorkerLease,
        fence: &Fence,
        now: Millis,
    ) -> LeaseRenewal {
        let Some(home) = self.tenants.get_mut(&fence.thread.tenant) else { return LeaseRenewal::Lost };
        let Some((thread, run)) = home.find_claimed(fence) else { return LeaseRenewal::Lost };
        let cancel_asked = run.row.cancel_asked;
        let until = add_duration(now, claim.lease);
        if let Some(old) = thread.lease.replace(until) {
            self.leases.remove(&(old, fence.thread.clone()));
        }
        self.leases.insert((until, fence.thread.clone()));
        if cancel_asked { LeaseRenewal::CancelAsked } else { LeaseRenewal::Held }
    }

    pub(in super::super) fn commit(
        &mut self,
        fence: &Fence,
        commit: Commit,
        now: Millis,
    ) -> Result<CommitOutcome, StoreError> {
        let home = self.tenants.get_mut(&fence.thread.tenant).ok_or(StoreError::Fenced)?;
        let (thread, run) = home.find_claimed(fence).ok_or(StoreError::Fenced)?;
        commit.check_head(thread.head)?;
        if commit.status.as_ref().is_some_and(|new| new.status == RunStatus::Queued) {
            return Err(StoreError::Conflict("a run that started cannot be queued again".into()));
        }

        for entry in commit.entries {
            thread.push_entry(Some(fence.run), entry, now);
        }
        if commit.clear_records {
            run.records.clear();
        }
        for record in commit.records {
            match run.record_index(&record.path, &record.key) {
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
                thread.end_active_run(run, new.status, now);
                next_waits = !thread.waiting.is_empty();
            } else if new.status == RunStatus::Paused {
                run.has_worker = false;
                if cancel_asked {
                    self.ticket += 1;
                    run.queue_position.ticket = self.ticket;
                    next_waits = true;
                } else {
                    run.row.status = RunStatus::Paused;
                }
            }
            self.update_claim_queues(&fence.thread);
        }
        self.commits += 1;
        let position = CommitPosition(self.commits);
        let claim = commit.claim_next.filter(|_| next_waits);
        let next = claim.and_then(|claim| self.claim_waiting(&claim, &fence.thread, now)).map(Box::new);
        Ok(CommitOutcome {
            head,
            at: now,
            cancel_asked,
            next_waits: next_waits && next.is_none(),
            next,
            position,
        })
    }

    pub(in super::super) fn signal(
        &mut self,
        key: &RunKey,
        signal: RunSignal,
        now: Millis,
    ) -> Result<RunRow, StoreError> {
        let none = || StoreError::no_run(key);
        let home = self.tenants.get_mut(&key.tenant).ok_or_else(none)?;
        let run = home.runs.get_mut(&key.run).ok_or_else(none)?;
        let thread_key = run.row.thread.clone();
        let thread = home.threads.get_mut(&thread_key.thread).ok_or_else(none)?;
        match signal {
            RunSignal::Cancel { body } => match run.row.status {
                RunStatus::Queued => {
                    thread.waiting.remove(&run.queue_position);
                    run.row.status = RunStatus::Cancelled;
                    run.row.ended_at = Some(now);
                    run.first_entry = None;
                    thread.updated_at = now;
                }
                RunStatus::Running => run.row.cancel_asked = true,
                RunStatus::Paused => {
                    thread.append_store_entry(run, EntryKind::Cancelled, body, now);
                    thread.end_active_run(run, RunStatus::Cancelled, now);
                }
                RunStatus::Finished | RunStatus::Failed | RunStatus::Cancelled => {}
            },
            RunSignal::Answer { answers, body } => {
                run.answer(answers)?;
                run.row.status = RunStatus::Running;
                self.ticket += 1;
                run.queue_position.ticket = self.ticket;
                thread.append_store_entry(run, EntryKind::Resumed, body, now);
            }
            RunSignal::Edit { head, body } => {
                if run.row.status != RunStatus::Paused {
                    return Err(StoreError::Conflict(format!("run `{}` is not paused", key.run)));
                }
                if thread.head != head {
                    let newest = thread.head;
                    return Err(StoreError::Conflict(format!("the newest entry is {newest}, not {head}")));
                }
                thread.append_store_entry(run, EntryKind::Paused, body, now);
            }
            RunSignal::Retry { body, fingerprint } => {
                if run.row.status != RunStatus::Failed {
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
                row.status = RunStatus::Running;
                row.fingerprint = fingerprint;
                row.cancel_asked = false;
                (row.ended_at, row.last_seq, row.error) = (None, None, None);
                self.ticket += 1;
                run.queue_position.ticket = self.ticket;
                thread.active = Some(key.run);
                thread.append_store_entry(run, EntryKind::Restarted, body, now);
            }
        }
        let row = run.row.clone();
        self.update_claim_queues(&thread_key);
        Ok(row)
    }
}

impl RamRun {
    /// Takes all answers or none.
    fn answer(&mut self, answers: Vec<(String, String, Vec<u8>)>) -> Result<(), StoreError> {
        if self.row.status != RunStatus::Paused {
            return Err(StoreError::Conflict(format!("run `{}` is not paused", self.row.run)));
        }
        let mut taken = BTreeMap::new();
        for (path, key, answer) in answers {
            let open = self
                .record_index(&path, &key)
                .ok()
                .filter(|place| self.records[*place].stage == RecordStage::Open);
            let Some(place) = open.filter(|place| !taken.contains_key(place)) else {
                return Err(StoreError::Conflict(format!("question `{key}` of task `{path}` is not open")));
            };
            taken.insert(place, answer);
        }
        for (place, answer) in taken {
            (self.records[place].stage, self.records[place].body) = (RecordStage::Done, answer);
        }
        Ok(())
    }
}

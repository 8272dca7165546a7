//! What all tasks of one run share: its fence and store, its limits and what was spent, its watchers, its end.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::drive::HaltReason;
use crate::drive::call_records::{CallRecords, call_records};
use crate::drive::run_journal::{LogTip, RunJournal};
use crate::drive::run_limits::RunLimits;
use crate::drive::run_meter::RunMeter;
use crate::failpoint;
use crate::id::RunId;
use crate::log::{self, UnfinishedTask};
use crate::runtime::{
    EmittedDataRetention, LeaseTime, LiveFeed, NextRun, RunGateCheck, RunObserver, TimerAlarm,
};
use crate::store::{
    Commit, CommitOutcome, Durability, EntryKind, LogEntry, Millis, NewEntry, Record, RecordStage, RunUsage,
    Seq, StoreError,
};
use crate::task_path::{QuestionId, TaskPath};

/// Most tasks of a step at work at a time, unless set otherwise.
pub(crate) const DEFAULT_MAX_TASKS_PER_STEP: usize = 128;

/// The largest note of an unfinished task that is kept.
const MAX_UNFINISHED_NOTE_BYTES: usize = 64 * 1024;

pub(crate) struct RunContext {
    pub journal: Option<RunJournal>,
    pub live_feed: Option<Arc<LiveFeed>>,
    /// Ends the run for good.
    pub cancel: CancellationToken,
    /// Lets the run go at the next step boundary, for another process or a later start.
    pub release: CancellationToken,
    pub limits: RunLimits,
    /// What its graph is called; empty without a store.
    pub graph_name: Arc<str>,
    /// Most tasks of a step at work at a time.
    pub max_tasks_per_step: usize,
    /// Rings when a timer of a sleeping run is due.
    pub timer_alarm: Option<Arc<TimerAlarm>>,
    /// What runs take turns with that are resumed alone.
    pub suspect_permit: Option<Arc<tokio::sync::Mutex<()>>>,
    held_suspect_permit: Mutex<Option<tokio::sync::OwnedMutexGuard<()>>>,
    /// What random numbers and keys of this run grow from.
    pub seed: [u8; 16],
    /// What the caller of the run gave to all its nodes.
    pub context: Value,
    /// The text by which other systems know the run.
    pub correlation: Option<String>,
    /// What the worker goes on with when the run ends.
    pub next_run: Option<Arc<NextRun>>,
    /// Who decides whether the run may begin and spend more.
    pub gate: Option<RunGateCheck>,
    /// Gets the time that each write takes.
    pub observer: Option<Arc<dyn RunObserver>>,
    /// Nodes to pause before and after, as the caller of the run requested.
    pub pause_before: BTreeSet<String>,
    pub pause_after: BTreeSet<String>,
    /// What of that which nodes show is kept in the log.
    pub keep_emitted: EmittedDataRetention,
    records: Mutex<HashMap<String, Vec<Record>>>,
    /// Records of calls of the step in progress. Long results are left out.
    pub(super) call_records: Mutex<CallRecords>,
    /// Steps of subgraphs inside the step in progress, by the task they run in.
    subgraph_steps: Mutex<HashMap<TaskPath, Vec<Vec<u8>>>>,
    /// Held while a step of the subgraph in a task is written.
    subgraph_write_locks: Mutex<HashMap<TaskPath, Arc<tokio::sync::Mutex<()>>>>,
    /// When tasks inside a task last gave a sign of life, by the path of the outer one.
    inner_heartbeats: Mutex<HashMap<TaskPath, Instant>>,
    /// Bytes of inner steps since the last outer one.
    subgraph_bytes: AtomicU64,
    wrote_records: AtomicBool,
    /// Tasks that failed or were cancelled in the step in progress.
    unfinished_tasks: Mutex<Vec<UnfinishedTask>>,
    pub(super) shown_bytes: AtomicU64,
    /// More was shown than may be.
    pub(super) shown_too_much: CancellationToken,
    pub(super) meter: Mutex<RunMeter>,
}

impl RunContext {
    pub(crate) fn new(limits: RunLimits, seed: [u8; 16]) -> Self {
        Self {
            journal: None,
            live_feed: None,
            cancel: CancellationToken::new(),
            release: CancellationToken::new(),
            limits,
            graph_name: Arc::from(""),
            max_tasks_per_step: DEFAULT_MAX_TASKS_PER_STEP,
            timer_alarm: None,
            suspect_permit: None,
            held_suspect_permit: Mutex::default(),
            seed,
            context: Value::Null,
            correlation: None,
            next_run: None,
            gate: None,
            observer: None,
            pause_before: BTreeSet::new(),
            pause_after: BTreeSet::new(),
            keep_emitted: EmittedDataRetention::default(),
            records: Mutex::default(),
            call_records: Mutex::default(),
            subgraph_steps: Mutex::default(),
            subgraph_write_locks: Mutex::default(),
            inner_heartbeats: Mutex::default(),
            subgraph_bytes: AtomicU64::new(0),
            wrote_records: AtomicBool::new(false),
            unfinished_tasks: Mutex::default(),
            shown_bytes: AtomicU64::new(0),
            shown_too_much: CancellationToken::new(),
            meter: Mutex::new(RunMeter::new()),
        }
    }

    /// Goes on from what an earlier claim of the run did and recorded. `steps_in_row` steps are counted in the row of the run;
    /// `logged` are those in its log, which may be more.
    pub(crate) fn continue_from_claim(
        &mut self,
        steps_in_row: u32,
        logged: u32,
        usage: RunUsage,
        records: Vec<Record>,
    ) {
        let meter = self.meter.get_mut().unwrap_or_else(PoisonError::into_inner);
        meter.continue_from_claim(steps_in_row, logged, usage);
        self.wrote_records = AtomicBool::new(!records.is_empty());
        self.remember_calls(&records);
        let by_path = self.records.get_mut().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            by_path.entry(record.path.clone()).or_default().push(record);
        }
    }

    /// Records that an earlier try of this task left, or the task before a restart.
    pub(crate) fn task_records(&self, path: &TaskPath) -> Vec<Record> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.is_empty() { Vec::new() } else { records.get(path.as_str()).cloned().unwrap_or_default() }
    }

    /// Steps that a subgraph in this task finished before. One that is being written is waited for: a try that was given
    /// up may have left it.
    pub(crate) async fn subgraph_steps(&self, path: &TaskPath) -> Vec<Vec<u8>> {
        let _turn = self.subgraph_write_lock(path).lock_owned().await;
        let inner = self.subgraph_steps.lock().unwrap_or_else(PoisonError::into_inner);
        inner.get(path).cloned().unwrap_or_default()
    }

    pub(crate) fn subgraph_write_lock(&self, path: &TaskPath) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.subgraph_write_locks.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(path.clone()).or_default().clone()
    }

    pub(crate) fn add_subgraph_step(&self, path: &TaskPath, body: Vec<u8>) {
        self.subgraph_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        let mut inner = self.subgraph_steps.lock().unwrap_or_else(PoisonError::into_inner);
        inner.entry(path.clone()).or_default().push(body);
    }

    /// A sign of life of a task counts for every task it runs in.
    pub(crate) fn heartbeat_outer_tasks(&self, path: &TaskPath) {
        if !path.is_inner() {
            return;
        }
        let mut signs = self.inner_heartbeats.lock().unwrap_or_else(PoisonError::into_inner);
        signs.extend(path.outer_paths().map(|outer| (outer, Instant::now())));
    }

    pub(crate) fn last_inner_heartbeat(&self, path: &TaskPath) -> Option<Instant> {
        self.inner_heartbeats.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    /// What inner steps add to the cost of reading the log, since the last call of this.
    pub(crate) fn take_subgraph_bytes(&self) -> u64 {
        self.subgraph_bytes.swap(0, Ordering::Relaxed)
    }

    /// The step that held them is finished.
    pub(crate) fn clear_subgraph_steps(&self) {
        self.subgraph_steps.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.subgraph_write_locks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn is_answered(&self, question: &QuestionId) -> bool {
        let key = question.key.to_string();
        let records = self.task_records(&question.path);
        records.iter().any(|record| record.key == key && record.stage == RecordStage::Done)
    }

    /// Writes records of the step in progress.
    pub(crate) async fn write_records(&self, records: Vec<Record>) -> Result<(), StoreError> {
        if self.journal.is_none() || records.is_empty() {
            return Ok(());
        }
        let durability = Durability::Later;
        self.commit(Commit { records, durability, ..Commit::default() }).await.map(|_| ())
    }

    /// Waits until everything the run has written is on disk: what comes next can be noticed outside.
    pub(crate) async fn wait_until_durable(&self) -> Result<(), StoreError> {
        match &self.journal {
            Some(journal) => journal.wait_until_durable().await,
            None => Ok(()),
        }
    }

    /// Writes, and learns of a wish to cancel on the way.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<Option<CommitOutcome>, StoreError> {
        self.commit_within(None, commit).await
    }

    /// As [`RunContext::commit`], for a step of the graph inside the task `within`.
    pub(crate) async fn commit_within(
        &self,
        within: Option<&TaskPath>,
        mut commit: Commit,
    ) -> Result<Option<CommitOutcome>, StoreError> {
        let Some(journal) = &self.journal else { return Ok(None) };
        if !commit.records.is_empty() {
            self.wrote_records.store(true, Ordering::Relaxed);
        }
        if commit.clear_records {
            let any = self.wrote_records.swap(!commit.records.is_empty(), Ordering::Relaxed);
            commit.clear_records = any;
            if any {
                self.records.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        }
        if failpoint::mutant("records_cleared_in_own_transaction")
            && !commit.entries.is_empty()
            && commit.clear_records
        {
            commit.clear_records = false;
            let writes = Commit { clear_records: true, ..Commit::default() };
            journal.store.commit(&journal.fence, writes).await?;
        }
        self.count_commit_steps(&mut commit);
        let (clears, calls) = (commit.clear_records, call_records(&commit.records));
        let usage = commit.usage;
        // A task of the outer graph remembers its own calls. One of a subgraph is made anew when the node around it
        // is tried again, and finds its calls here.
        let inside: Vec<Record> =
            commit.records.iter().filter(|record| record.path.contains('/')).cloned().collect();
        let observed = self.observer.as_ref().map(|observer| (observer, std::time::Instant::now()));
        let next_run = self.next_run.as_ref().filter(|_| commit.status.is_some());
        let next_run = next_run.map(|next| (next, LeaseTime::now()));
        commit.claim_next = next_run.as_ref().and_then(|(next, _)| next.claim());
        let mut committed = if commit.entries.is_empty() && usage.is_zero() {
            journal.commit(commit, RunUsage::default()).await?
        } else {
            // What is counted or numbered is written one after the other, so that it can be found again when nobody
            // knows whether it was written.
            let mut tip = journal.tip.lock().await;
            let usage_in_row_before = self.lock_meter().usage_in_row();
            commit.head = tip.head;
            if let (Some(first), Some(live)) = (commit.entries.first_mut(), &self.live_feed) {
                let kept = live.take_kept();
                if !kept.is_empty() {
                    first.body = log::body_with_shown(&first.body, &kept);
                }
            }
            let mut base = tip.base;
            for (entry, seq) in commit.entries.iter_mut().zip(tip.head + 1..) {
                entry.base = base;
                if entry.snapshot.is_some() {
                    base = seq;
                }
            }
            if failpoint::mutant("event_before_commit") {
                failpoint::keep_unwritten_entries(&journal.fence, tip.head, &commit.entries);
                self.live_feed.iter().for_each(|live| live.wake_watchers());
                // Long enough for a kill between the event and the commit.
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            let watched = self.live_feed.as_ref().is_some_and(|live| live.is_watched());
            let shown = if watched { commit.entries.clone() } else { Vec::new() };
            let grows = !commit.entries.is_empty();
            let moves_on = commit.entries.iter().any(|entry| entry.kind != EntryKind::Restarted);
            let committed = journal.commit(commit, usage_in_row_before).await?;
            self.lock_meter().note_usage_in_row(usage);
            if moves_on {
                drop(self.held_suspect_permit.lock().unwrap_or_else(PoisonError::into_inner).take());
            }
            if let (true, Some(live)) = (grows, &self.live_feed) {
                let shown = shown.into_iter().zip(tip.head + 1..);
                let entries = shown.map(|(new, seq)| to_log_entry(new, seq, journal.fence.run, committed.at));
                live.note_log_written(committed.head, within, entries.collect(), committed.position);
            }
            if grows {
                *tip = LogTip { head: committed.head, base };
            }
            committed
        };
        if let Some((observer, began)) = observed {
            observer.run_written(began.elapsed());
        }
        self.remember_subgraph_records(inside);
        if clears {
            self.lock_call_records().clear();
        }
        self.lock_call_records().extend(calls);
        if let Some((next, requested_at)) = next_run {
            next.note(&mut committed, requested_at);
        }
        if committed.cancel_asked {
            self.cancel.cancel();
        }
        Ok(Some(committed))
    }

    fn remember_subgraph_records(&self, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        let mut by_path = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            let of_task = by_path.entry(record.path.clone()).or_default();
            match of_task.iter_mut().find(|old| old.key == record.key) {
                Some(old) => *old = record,
                None => of_task.push(record),
            }
        }
    }

    /// Waits until no other run of this process is resumed alone. From then on it is this one, until it has written
    /// anything but that it was restarted.
    pub(crate) async fn wait_for_suspect_permit(&self) -> Result<(), HaltReason> {
        let Some(permit) = self.suspect_permit.clone() else { return Ok(()) };
        let permit = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(HaltReason::Cancelled),
            () = self.release.cancelled() => return Err(HaltReason::Released),
            permit = permit.lock_owned() => permit,
        };
        *self.held_suspect_permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        Ok(())
    }

    /// Keeps what a task did that will not finish, for the entry that ends the run.
    pub(crate) fn add_unfinished_task(&self, mut task: UnfinishedTask) {
        // The end of a run must fit where a step was too large to be written.
        task.notes.retain(|_, note| note.to_string().len() <= MAX_UNFINISHED_NOTE_BYTES);
        self.unfinished_tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// The tasks that did not finish.
    pub(crate) fn take_unfinished_tasks(&self) -> Vec<UnfinishedTask> {
        std::mem::take(&mut *self.unfinished_tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An entry as the store has it after it was written.
fn to_log_entry(new: NewEntry, seq: Seq, run: RunId, at: Millis) -> LogEntry {
    let parent = new.parent.unwrap_or(seq - 1);
    LogEntry { seq, parent, base: new.base, run: Some(run), at, kind: new.kind, body: new.body }
}

//! What all tasks of one run share: its fence and store, its limits and what was spent, its watchers, its end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::drive::HaltReason;
use crate::drive::run_journal::{LogTip, RunJournal};
use crate::failpoint;
use crate::id::RunId;
use crate::log::UnfinishedTask;
use crate::runtime::{LeaseTime, LiveFeed, NextRun, RunObserver, TimerAlarm};
use crate::store::{
    Commit, CommitOutcome, Durability, EntryKind, LogEntry, Millis, NewEntry, Record, RecordStage, RunUsage,
    Seq, StoreError,
};
use crate::stored_json;
use crate::task_path::{CallKey, QuestionId, RecordKey, TaskPath};
use crate::unfinished_call::{CallState, UnfinishedCall};

/// Most tasks of a step at work at a time, unless said.
pub(crate) const DEFAULT_MAX_TASKS_PER_STEP: usize = 128;

/// The largest note of an unfinished task that is kept.
const MAX_UNFINISHED_NOTE_BYTES: usize = 64 * 1024;

/// How far a run may go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLimits {
    /// Supersteps.
    pub steps: u32,
    /// Time worked on, waiting for people not counted. A node that is still at work then is stopped.
    pub active: Option<Duration>,
    /// Tokens in and out together.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub cost_micros: Option<u64>,
    /// Bytes that nodes show watchers with [`Cx::emit`](crate::Cx::emit), about, each time the run is worked on.
    pub shown_bytes: u64,
}

/// What a run shows at most unless it is told otherwise.
const DEFAULT_SHOWN_BYTES: u64 = 64 << 20;

impl Default for RunLimits {
    fn default() -> Self {
        Self { steps: 1000, active: None, tokens: None, cost_micros: None, shown_bytes: DEFAULT_SHOWN_BYTES }
    }
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExceededLimit {
    #[error("the run may take at most {0} steps")]
    Steps(u32),
    #[error("the run may be worked on for at most {0:?}")]
    Active(Duration),
    #[error("the run may use at most {0} tokens")]
    Tokens(u64),
    #[error("the run may show watchers at most {0} bytes")]
    ShownBytes(u64),
    #[error("the run may cost at most {} US dollars", *.0 as f64 / 1e6)]
    Cost(u64),
}

/// The limit that these numbers break, if any. `steps` are those already finished.
pub(crate) fn exceeded_limit(
    limits: &RunLimits,
    steps: u32,
    active: Duration,
    usage: &RunUsage,
) -> Option<ExceededLimit> {
    if steps >= limits.steps {
        return Some(ExceededLimit::Steps(limits.steps));
    }
    if let Some(most) = limits.active
        && active >= most
    {
        return Some(ExceededLimit::Active(most));
    }
    if let Some(most) = limits.tokens
        && usage.input_tokens.saturating_add(usage.output_tokens) > most
    {
        return Some(ExceededLimit::Tokens(most));
    }
    if let Some(most) = limits.cost_micros
        && usage.cost_micros > most
    {
        return Some(ExceededLimit::Cost(most));
    }
    None
}

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
    pub suspect_turn: Option<Arc<tokio::sync::Mutex<()>>>,
    held_suspect_turn: Mutex<Option<tokio::sync::OwnedMutexGuard<()>>>,
    /// What random numbers and keys of this run grow from.
    pub seed: [u8; 16],
    /// What the caller of the run gave to all its nodes.
    pub context: Value,
    /// The text by which other systems know the run.
    pub correlation: Option<String>,
    /// What the worker goes on with when the run ends.
    pub next_run: Option<Arc<NextRun>>,
    /// Is told how long writes take.
    pub observer: Option<Arc<dyn RunObserver>>,
    /// Nodes to pause before and after, asked for by the caller of the run.
    pub pause_before: BTreeSet<String>,
    pub pause_after: BTreeSet<String>,
    records: Mutex<HashMap<String, Vec<Record>>>,
    /// Records of calls of the step in progress, by task and key. Long results are left out.
    call_records: Mutex<BTreeMap<(String, String), (RecordStage, Vec<u8>)>>,
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
    shown_bytes: AtomicU64,
    /// More was shown than may be.
    shown_too_much: CancellationToken,
    meter: Mutex<RunMeter>,
}

struct RunMeter {
    /// Steps finished, those of subgraphs in this claim included.
    steps: u32,
    /// Steps of the outer graph that the row of the run counts.
    steps_in_row: u32,
    /// Those that it does not count yet.
    steps_not_in_row: u32,
    usage: RunUsage,
    /// The part of it that the row of the run counts.
    usage_in_row: RunUsage,
    active_before: Duration,
    since: Instant,
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
            suspect_turn: None,
            held_suspect_turn: Mutex::default(),
            seed,
            context: Value::Null,
            correlation: None,
            next_run: None,
            observer: None,
            pause_before: BTreeSet::new(),
            pause_after: BTreeSet::new(),
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
            meter: Mutex::new(RunMeter {
                steps: 0,
                steps_in_row: 0,
                steps_not_in_row: 0,
                usage: RunUsage::default(),
                usage_in_row: RunUsage::default(),
                active_before: Duration::ZERO,
                since: Instant::now(),
            }),
        }
    }

    /// Goes on from what an earlier claim of the run did and recorded. `told` steps stand in the row of the run;
    /// `logged` are those in its log, which may be more.
    pub(crate) fn continue_from_claim(
        &mut self,
        told: u32,
        logged: u32,
        usage: RunUsage,
        records: Vec<Record>,
    ) {
        let meter = self.meter.get_mut().unwrap_or_else(PoisonError::into_inner);
        meter.steps = told.max(logged);
        meter.steps_in_row = told;
        meter.steps_not_in_row = meter.steps - told;
        (meter.usage, meter.usage_in_row) = (usage, usage);
        if failpoint::mutant("budget_reset_by_claim") {
            meter.usage = RunUsage::default();
        }
        self.wrote_records = AtomicBool::new(!records.is_empty());
        self.remember_calls(&records);
        let by_path = self.records.get_mut().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            by_path.entry(record.path.clone()).or_default().push(record);
        }
    }

    pub(crate) fn set_active_before(&self, active: Duration) {
        self.lock_meter().active_before = active;
    }

    /// Records that an earlier life or try of this task left.
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

    /// What inner steps add to the cost of reading the log, since it was last asked.
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
            Some(journal) => journal.durable().await,
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
        let began = std::time::Instant::now();
        let next_run = self.next_run.as_ref().filter(|_| commit.status.is_some());
        let next_run = next_run.map(|next| (next, LeaseTime::now()));
        commit.claim_next = next_run.as_ref().and_then(|(next, _)| next.claim());
        let mut committed = if commit.entries.is_empty() && usage.is_zero() {
            journal.commit(commit, RunUsage::default()).await?
        } else {
            // What is counted or numbered is written one after the other, so that it can be found again when nobody
            // knows whether it was written.
            let mut tip = journal.tip.lock().await;
            let booked = self.lock_meter().usage_in_row;
            commit.head = tip.head;
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
            }
            let watched = self.live_feed.as_ref().is_some_and(|live| live.is_watched());
            let shown = if watched { commit.entries.clone() } else { Vec::new() };
            let grows = !commit.entries.is_empty();
            let moves_on = commit.entries.iter().any(|entry| entry.kind != EntryKind::Restarted);
            let committed = journal.commit(commit, booked).await?;
            self.lock_meter().usage_in_row += usage;
            if moves_on {
                drop(self.held_suspect_turn.lock().unwrap_or_else(PoisonError::into_inner).take());
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
        if let Some(observer) = &self.observer {
            observer.run_written(began.elapsed());
        }
        self.remember_subgraph_records(inside);
        if clears {
            self.lock_call_records().clear();
        }
        self.lock_call_records().extend(calls);
        if let Some((next, asked)) = next_run {
            next.note(&mut committed, asked);
        }
        if committed.cancel_asked {
            self.cancel.cancel();
        }
        Ok(Some(committed))
    }

    /// Counts the steps of a commit, and tells the store of all it does not know when the row of the run is written
    /// anyway. In between the log alone knows them, so that a step writes its entry and nothing else. A commit that
    /// fails ends the claim, and the next one counts anew.
    fn count_commit_steps(&self, commit: &mut Commit) {
        let mut meter = self.lock_meter();
        let untold = meter.steps_not_in_row.saturating_add(commit.steps);
        let tells = commit.status.is_some() || !commit.usage.is_zero();
        (commit.steps, meter.steps_not_in_row) = if tells { (untold, 0) } else { (0, untold) };
        meter.steps_in_row = meter.steps_in_row.saturating_add(commit.steps);
    }

    fn lock_call_records(&self) -> MutexGuard<'_, BTreeMap<(String, String), (RecordStage, Vec<u8>)>> {
        self.call_records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls whose records are written, or go out with the write under way.
    pub(crate) fn remember_calls(&self, records: &[Record]) {
        self.lock_call_records().extend(call_records(records));
    }

    /// The recorded calls of the step in progress.
    pub(crate) fn unfinished_calls(&self) -> Vec<UnfinishedCall> {
        let calls = self.lock_call_records();
        let told = calls.iter().filter_map(|((path, key), (stage, body))| {
            let Ok(RecordKey::Call(call)) = key.parse() else { return None };
            let state = match stage {
                RecordStage::Open => return None,
                RecordStage::Begun => CallState::Begun,
                RecordStage::Done => CallState::Done,
                RecordStage::Failed => CallState::NotDone,
            };
            let key = hex::encode(&self.call_digest(path, &call)[..16]);
            let result = stored_json::from_slice(body).ok().filter(|_| state == CallState::Done);
            Some(UnfinishedCall { task: path.clone(), name: call.name, key, state, result })
        });
        told.collect()
    }

    /// What random numbers and keys of a call grow from.
    pub(crate) fn call_digest(&self, path: &str, key: &CallKey) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.seed);
        hash.update(path.as_bytes());
        hash.update([0]);
        hash.update(key.to_string().as_bytes());
        hash.finalize().into()
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
    pub(crate) async fn wait_for_suspect_turn(&self) -> Result<(), HaltReason> {
        let Some(turn) = self.suspect_turn.clone() else { return Ok(()) };
        let turn = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(HaltReason::Cancelled),
            () = self.release.cancelled() => return Err(HaltReason::Released),
            turn = turn.lock_owned() => turn,
        };
        *self.held_suspect_turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
        Ok(())
    }

    /// Counts what was spent. `Err` when that is too much.
    pub(crate) fn spend(&self, usage: RunUsage) -> Result<(), ExceededLimit> {
        let mut meter = self.lock_meter();
        meter.usage += usage;
        // Only tokens and money are looked at here: a step that is under way may finish.
        let money = RunLimits { steps: u32::MAX, active: None, ..self.limits.clone() };
        exceeded_limit(&money, 0, Duration::ZERO, &meter.usage).map_or(Ok(()), Err)
    }

    /// Counts what an earlier life of the step spent, when a finished task of it is not run again.
    pub(crate) fn add_earlier_usage(&self, usage: RunUsage) {
        self.lock_meter().usage += usage;
    }

    /// What was spent and no row counts: by the tasks of a step that will not be finished.
    pub(crate) fn unbooked_usage(&self) -> RunUsage {
        let RunMeter { usage, usage_in_row: booked, .. } = &*self.lock_meter();
        usage.saturating_sub(*booked)
    }

    /// Steps and usage as the row of the run has them after the last commit.
    pub(crate) fn booked_steps_and_usage(&self) -> (u32, RunUsage) {
        let RunMeter { steps_in_row: told, usage_in_row: booked, .. } = &*self.lock_meter();
        (*told, *booked)
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

    pub(crate) fn count_step(&self) {
        self.lock_meter().steps += 1;
    }

    /// Time worked on so far, earlier claims included.
    pub(crate) fn active_time(&self) -> Duration {
        let meter = self.lock_meter();
        meter.active_before + meter.since.elapsed()
    }

    /// Counts what is shown to watchers. `false` when that is too much; then the run is stopped.
    pub(crate) fn count_shown_bytes(&self, bytes: u64) -> bool {
        let fits = self.shown_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
            <= self.limits.shown_bytes;
        if !fits {
            self.shown_too_much.cancel();
        }
        fits
    }

    /// The limit on what is shown, when it is exceeded.
    pub(crate) fn exceeded_shown_bytes(&self) -> Option<ExceededLimit> {
        self.shown_too_much.is_cancelled().then_some(ExceededLimit::ShownBytes(self.limits.shown_bytes))
    }

    /// Ends when the run was worked on for as long as it may be, or showed as much as it may.
    pub(crate) async fn wait_for_limit(&self) -> ExceededLimit {
        tokio::select! {
            limit = self.wait_for_time_limit() => limit,
            () = self.shown_too_much.cancelled() => ExceededLimit::ShownBytes(self.limits.shown_bytes),
        }
    }

    async fn wait_for_time_limit(&self) -> ExceededLimit {
        let Some(most) = self.limits.active else { return std::future::pending().await };
        loop {
            let left = most.saturating_sub(self.active_time());
            if left.is_zero() {
                return ExceededLimit::Active(most);
            }
            tokio::time::sleep(left).await;
        }
    }

    pub(crate) fn check_limits(&self) -> Result<(), ExceededLimit> {
        let (steps, active, usage) = {
            let meter = self.lock_meter();
            let active = if self.limits.active.is_some() { meter.since.elapsed() } else { Duration::ZERO };
            (meter.steps, meter.active_before + active, meter.usage)
        };
        exceeded_limit(&self.limits, steps, active, &usage).map_or(Ok(()), Err)
    }

    fn lock_meter(&self) -> MutexGuard<'_, RunMeter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most bytes of the result of a call that the log keeps of a step that was not finished.
const MAX_CALL_RESULT_BYTES: usize = 4096;

/// The records of calls among these. What a person answered, and the time, are no calls.
fn call_records(
    records: &[Record],
) -> impl Iterator<Item = ((String, String), (RecordStage, Vec<u8>))> + use<> {
    let is_call = |record: &&Record| match record.key.parse() {
        Ok(RecordKey::Call(call)) => {
            !call.asks_outcome && call.name != CallKey::ASK && call.name != CallKey::NOW
        }
        _ => false,
    };
    let kept = |record: &Record| {
        let body = if record.body.len() <= MAX_CALL_RESULT_BYTES { record.body.clone() } else { Vec::new() };
        ((record.path.clone(), record.key.clone()), (record.stage, body))
    };
    records.iter().filter(is_call).map(kept).collect::<Vec<_>>().into_iter()
}

/// An entry as the store has it after it was written.
fn to_log_entry(new: NewEntry, seq: Seq, run: RunId, at: Millis) -> LogEntry {
    let parent = new.parent.unwrap_or(seq - 1);
    LogEntry { seq, parent, base: new.base, run: Some(run), at, kind: new.kind, body: new.body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_named_when_it_is_broken() {
        let limits = RunLimits {
            steps: 5,
            active: Some(Duration::from_secs(9)),
            tokens: Some(100),
            cost_micros: Some(7),
            ..RunLimits::default()
        };
        let used = |input, cost| RunUsage { input_tokens: input, output_tokens: 1, cost_micros: cost };
        let second = Duration::from_secs(1);
        assert_eq!(exceeded_limit(&limits, 4, second, &used(99, 7)), None);
        assert_eq!(exceeded_limit(&limits, 5, second, &used(0, 0)), Some(ExceededLimit::Steps(5)));
        assert_eq!(
            exceeded_limit(&limits, 0, second * 9, &used(0, 0)),
            Some(ExceededLimit::Active(second * 9))
        );
        assert_eq!(exceeded_limit(&limits, 0, second, &used(100, 0)), Some(ExceededLimit::Tokens(100)));
        assert_eq!(exceeded_limit(&limits, 0, second, &used(0, 8)), Some(ExceededLimit::Cost(7)));
    }
}

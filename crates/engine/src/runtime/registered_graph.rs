//! A graph as the runtime holds it: its state type is known inside and hidden outside.

use std::any::Any;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::Error as _;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::drive::{self, DriveOutcome, HaltReason, LogTip, RunContext, RunJournal, ThreadState};
use crate::entry::read_log_body;
use crate::error::{EngineError, MisuseError, StateMismatchReason};
use crate::failure;
use crate::graph::{BuiltGraph, END_NODE_ID, GraphTopology, START_NODE_ID};
use crate::large_work::work_on_bytes;
use crate::log::{self, StoredPosition};
use crate::plan;
use crate::question::PendingQuestion;
use crate::runtime::state_cache::StateCache;
use crate::runtime::{ClaimLease, GotoTarget, StoredRunOptions};
use crate::state::State;
use crate::state_shape::unknown_update_field;
use crate::store::{
    ClaimedRun, Commit, CommitOutcome, Durability, EntryKind, LoadedLog, LogEntry, RunRow, RunStatus, Seq,
    Store, StoreError,
};
use crate::stored_json;

/// How driving a run ended in this process.
pub(crate) enum ClaimedRunOutcome {
    /// With its state and, when it was written down, its row.
    Finished(Arc<dyn Any + Send + Sync>, Option<Arc<RunRow>>),
    Paused(Vec<PendingQuestion>),
}

/// The state of a thread at some entry, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct StateView {
    /// The entry.
    pub seq: Seq,
    /// The state after it.
    pub state: Value,
    /// Supersteps finished in the run that it stands in.
    pub step: u32,
    /// Names of the nodes that are due next.
    pub next: Vec<String>,
}

type DriveFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A graph whose state type is forgotten.
pub(crate) trait AnyGraph: Send + Sync {
    fn fingerprint(&self) -> &str;
    fn topology(&self) -> &GraphTopology;
    /// Whether this JSON is an update of the state.
    fn check_update(&self, update: &RawValue) -> Result<(), serde_json::Error>;
    /// Where a run begins.
    fn start_position(&self) -> StoredPosition;
    fn view(&self, seq: Seq, loaded: &LoadedLog) -> Result<StateView, EngineError>;
    /// The state that `loaded` describes, to fold more entries into.
    fn replay(self: Arc<Self>, loaded: &LoadedLog) -> Result<Box<dyn AnyStateReplay>, EngineError>;
    /// A state as JSON, if it is one of this graph.
    fn state_to_json(&self, state: &(dyn Any + Send + Sync)) -> Option<Value>;
    /// The place of a thread after `node` finished on the state in `loaded` with `edit` folded in.
    fn position_after_node(
        &self,
        node: &str,
        loaded: &LoadedLog,
        edit: &LogEntry,
    ) -> Result<StoredPosition, EngineError>;
    /// A place at which these tasks are due.
    fn position_at_targets(&self, targets: &[GotoTarget]) -> Result<StoredPosition, EngineError>;
    /// Drives a claimed run. `first` is its first entry when this process just wrote it.
    fn drive(
        self: Arc<Self>,
        run: RunContext,
        store: Arc<dyn Store>,
        claimed: ClaimedRun,
        lease: Arc<ClaimLease>,
        first: Option<Vec<u8>>,
    ) -> DriveFuture<(Result<ClaimedRunOutcome, HaltReason>, Option<CommitOutcome>)>;
}

/// A state that follows a log, entry by entry.
pub(crate) trait AnyStateReplay: Send {
    fn apply(&mut self, entry: &LogEntry) -> Result<(), EngineError>;
    /// What it is after entry `seq`.
    fn view(&self, seq: Seq) -> Result<StateView, EngineError>;
}

struct GraphStateReplay<S: State> {
    graph: Arc<RegisteredGraph<S>>,
    at: ThreadState<S>,
}

impl<S: State> AnyStateReplay for GraphStateReplay<S> {
    fn apply(&mut self, entry: &LogEntry) -> Result<(), EngineError> {
        self.at.apply_entry(&self.graph.core, entry)
    }

    fn view(&self, seq: Seq) -> Result<StateView, EngineError> {
        self.graph.state_view(seq, &self.at)
    }
}

/// A graph with its name and the threads it has at hand.
pub(crate) struct RegisteredGraph<S: State> {
    pub name: Arc<str>,
    pub core: Arc<BuiltGraph<S>>,
    state_cache: Mutex<StateCache<S>>,
}

impl<S: State> RegisteredGraph<S> {
    pub(crate) fn new(name: &str, core: Arc<BuiltGraph<S>>) -> Self {
        Self { name: Arc::from(name), core, state_cache: Mutex::default() }
    }

    fn state_view(&self, seq: Seq, at: &ThreadState<S>) -> Result<StateView, EngineError> {
        let state = serde_json::to_value(&*at.state).map_err(|error| EngineError::StateMismatch {
            seq,
            reason: StateMismatchReason::Unreadable(error.to_string()),
        })?;
        let next = at.position.due.iter().map(|task| self.core.node(task.node).name.to_string()).collect();
        Ok(StateView { seq, state, step: at.position.step, next })
    }

    fn lock_state_cache(&self) -> MutexGuard<'_, StateCache<S>> {
        self.state_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state at hand, when the entry the run starts from is still the one it was made from.
    fn take_cached_state(&self, claimed: &ClaimedRun, parent: Seq) -> Option<ThreadState<S>> {
        let (writer, at) = self.lock_state_cache().take(&claimed.run.thread, parent)?;
        (claimed.parent_writer == Some(writer)).then_some(at)
    }

    /// Where the run stands, from what is at hand or from the log.
    async fn load_thread_state(
        &self,
        store: &Arc<dyn Store>,
        claimed: &ClaimedRun,
        lease: &ClaimLease,
        first: Option<Vec<u8>>,
    ) -> Result<(ThreadState<S>, ClaimHistory), EngineError> {
        let run = &claimed.run;
        if let (Some(body), Some(parent)) = (first, run.parent_seq)
            && run.first_seq == Some(claimed.head)
        {
            let at = if parent == 0 && claimed.head == 1 {
                Some(ThreadState::empty(self.name.clone()))
            } else {
                self.take_cached_state(claimed, parent)
            };
            if let Some(mut at) = at {
                let entry = LogEntry {
                    seq: claimed.head,
                    parent,
                    base: at.replay_base,
                    run: Some(run.run),
                    at: run.created_at,
                    kind: EntryKind::Started,
                    body,
                };
                at.apply_entry(&self.core, &entry)?;
                return Ok((at, ClaimHistory::default()));
            }
        }
        let loaded = drive::retry_while_held(&**store, lease, || store.load(&run.thread, None)).await?;
        // Nobody but the holder of the claim adds entries. When there are more, the claim is lost, and what was read
        // may be the state of another run: its nodes must not run under the name of this one.
        if loaded.head != claimed.head {
            return Err(StoreError::Fenced.into());
        }
        let bytes = loaded.byte_len();
        let (core, name) = (self.core.clone(), self.name.clone());
        let rebuild = move || {
            let at = drive::rebuild_thread_state(&core, &name, &loaded)?;
            Ok((at, ClaimHistory::from_entries(&loaded.entries)?))
        };
        work_on_bytes(bytes, rebuild).await
    }

    async fn drive_claimed(
        &self,
        mut run: RunContext,
        store: Arc<dyn Store>,
        claimed: ClaimedRun,
        lease: Arc<ClaimLease>,
        first: Option<Vec<u8>>,
    ) -> (Result<ClaimedRunOutcome, HaltReason>, Option<CommitOutcome>) {
        let row = &claimed.run;
        run.graph_name = self.name.clone();
        let stood =
            match drive::catch_panic(pin!(self.load_thread_state(&store, &claimed, &lease, first))).await {
                Ok(Ok(stood)) => Ok(stood),
                Ok(Err(EngineError::Store(error))) if is_log_missing(&error) => {
                    Err((failure::LOG_MISSING, format!("the log of the thread cannot be read: {error}")))
                }
                Ok(Err(EngineError::Store(error))) => return (Err(HaltReason::Lost(error)), None),
                Ok(Err(error)) => Err((failure::STATE_MISMATCH, error.to_string())),
                Err(message) => {
                    Err((failure::PANIC, format!("a reducer panicked while the log was read: {message}")))
                }
            };
        // Without its options a run would go on past its limits and its pause points.
        let stood = stood.and_then(|stood| match StoredRunOptions::apply_to(&row.options, &mut run) {
            Ok(()) => Ok(stood),
            Err(error) => {
                Err((failure::STATE_MISMATCH, format!("the options of the run cannot be read: {error}")))
            }
        });
        // However the run goes on, what it writes must be found again from where the log is whole.
        let base = match &stood {
            Ok((at, _)) => Ok(at.replay_base),
            Err(_) => {
                drive::retry_while_held(&*store, &lease, || drive::replay_base_after(&store, &claimed)).await
            }
        };
        let base = match base {
            Ok(base) => base,
            Err(error) => return (Err(HaltReason::Lost(error)), None),
        };
        let tip = LogTip { head: claimed.head, base };
        run.journal = Some(RunJournal::new(store, &claimed, lease, tip));
        let logged = stood.as_ref().map_or(0, |(at, _)| at.position.step);
        run.continue_from_claim(row.steps, logged, row.usage, claimed.records.clone());
        // To end a run nobody has to know where it stands.
        if run.cancel.is_cancelled() {
            return (Err(drive::write_cancelled(&run).await), None);
        }
        let (mut at, last) = match stood {
            Ok(stood) => stood,
            Err((code, message)) => {
                let mut nowhere = ThreadState::<UnreadableState>::new(plan::PlanPosition::default());
                return fail_run(&Arc::new(run), &mut nowhere, code, message).await;
            }
        };
        run.set_active_before(Duration::from_millis(at.active_ms));
        for (path, body) in std::mem::take(&mut at.subgraph_steps) {
            run.add_subgraph_step(&path, body);
        }
        let run = Arc::new(run);
        if !self.core.has_fingerprint(&row.fingerprint) {
            let message = format!("graph `{}` or its state changed since this run was accepted", self.name);
            return fail_run(&run, &mut at, failure::GRAPH_CHANGED, message).await;
        }
        if let Some(unknown) = at.unknown_node.clone() {
            return fail_run(&run, &mut at, failure::GRAPH_CHANGED, unknown.to_string()).await;
        }
        if last.restarts > MAX_RESTARTS_IN_STEP {
            let message = format!("the process ended {} times in the same step", last.restarts);
            return fail_run(&run, &mut at, failure::CRASH_LOOP, message).await;
        }
        if last.restarts >= MIN_SUSPECT_RESTARTS
            && let Err(halt) = run.wait_for_suspect_permit().await
        {
            let halt =
                if matches!(halt, HaltReason::Cancelled) { drive::write_cancelled(&run).await } else { halt };
            return (Err(halt), None);
        }
        if row.epoch > 1
            && !last.explains_claim(row.epoch)
            && let Err(halt) = write_restart_entry(&run, &mut at, row.epoch).await
        {
            return (Err(halt), None);
        }
        let outcome = drive::drive_run(&self.core, &run, &mut at).await;
        match outcome {
            Ok((DriveOutcome::Finished, committed)) => {
                let state = at.state.clone();
                let row = committed.as_ref().map(|committed| {
                    self.lock_state_cache().insert(row.thread.clone(), committed.head, row.run, at);
                    Arc::new(finished_run_row(row, &run, committed))
                });
                (Ok(ClaimedRunOutcome::Finished(state, row)), committed)
            }
            Ok((DriveOutcome::Paused(asks), committed)) => (Ok(ClaimedRunOutcome::Paused(asks)), committed),
            Err(halt) => (Err(halt), None),
        }
    }
}

/// The row of a run as the commit that ended it left it.
fn finished_run_row(claimed: &RunRow, run: &RunContext, committed: &CommitOutcome) -> RunRow {
    let (steps, usage) = run.booked_steps_and_usage();
    RunRow {
        status: RunStatus::Finished,
        cancel_asked: committed.cancel_asked,
        ended_at: Some(committed.at),
        last_seq: Some(committed.head),
        steps,
        usage,
        ..claimed.clone()
    }
}

/// Restarts in one step after which a run is given up: a node that takes the process with it would go on for ever.
const MAX_RESTARTS_IN_STEP: usize = 50;

/// Restarts in one step after which a run is resumed alone. It was at work each time the process ended: either it ends
/// the process, or it was beside a run that does. Alone, the one gets on and the other harms nobody.
const MIN_SUSPECT_RESTARTS: usize = 1;

/// What the newest entries say of how the run came to be claimed.
#[derive(Default)]
struct ClaimHistory {
    /// Restarts since anything else happened.
    restarts: usize,
    /// The claim that the newest entry tells of.
    epoch: Option<u64>,
}

impl ClaimHistory {
    fn from_entries(entries: &[LogEntry]) -> Result<Self, StoreError> {
        let restarts = entries.iter().rev().take_while(|entry| entry.kind == EntryKind::Restarted).count();
        let epoch = match entries.last() {
            Some(entry) if entry.kind == EntryKind::Restarted => {
                Some(read_log_body::<log::RunRestartedEntry>(entry)?.epoch)
            }
            // The claim after the one that asked.
            Some(entry) if entry.kind == EntryKind::Resumed => {
                read_log_body::<log::RunResumedEntry>(entry)?.epoch.map(|epoch| epoch + 1)
            }
            _ => None,
        };
        Ok(Self { restarts, epoch })
    }

    /// Whether the log already tells why this claim was made.
    fn explains_claim(&self, epoch: u64) -> bool {
        self.epoch == Some(epoch)
    }
}

async fn write_restart_entry<S: State>(
    run: &RunContext,
    at: &mut ThreadState<S>,
    epoch: u64,
) -> Result<(), HaltReason> {
    let body = log::to_json_bytes(&log::RunRestartedEntry { epoch, why: "taken up again".into() });
    let entries = vec![at.new_entry(EntryKind::Restarted, body)];
    let commit = Commit { entries, durability: Durability::Later, ..Commit::default() };
    run.commit(commit).await?;
    Ok(())
}

/// Whether the log itself is gone or makes no sense. A thread that is gone was deleted, and the run with it.
fn is_log_missing(error: &StoreError) -> bool {
    match error {
        StoreError::NotFound { what, .. } => *what != "thread",
        StoreError::Damaged(_) => true,
        _ => false,
    }
}

async fn fail_run<S: State>(
    run: &Arc<RunContext>,
    at: &mut ThreadState<S>,
    code: &str,
    message: String,
) -> (Result<ClaimedRunOutcome, HaltReason>, Option<CommitOutcome>) {
    (Err(drive::write_failure(run, at, HaltReason::failed(code, message)).await), None)
}

/// The state of a run whose state cannot be read.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct UnreadableState {}

impl State for UnreadableState {
    type Update = ();

    fn apply(&mut self, (): ()) {}
}

impl<S: State> AnyGraph for RegisteredGraph<S> {
    fn fingerprint(&self) -> &str {
        &self.core.fingerprint
    }

    fn topology(&self) -> &GraphTopology {
        &self.core.topology
    }

    fn check_update(&self, update: &RawValue) -> Result<(), serde_json::Error> {
        if let Some(field) = unknown_update_field::<S>(update.get()) {
            return Err(serde_json::Error::custom(format_args!("the state has no field `{field}`")));
        }
        stored_json::check_readable::<S::Update>(update)
    }

    fn start_position(&self) -> StoredPosition {
        StoredPosition::from_position(
            &plan::start_position(&self.core.plan_topology, &self.core.start),
            &self.core,
        )
    }

    fn view(&self, seq: Seq, loaded: &LoadedLog) -> Result<StateView, EngineError> {
        let at = drive::rebuild_thread_state(&self.core, &self.name, loaded)?;
        self.state_view(seq, &at)
    }

    fn replay(self: Arc<Self>, loaded: &LoadedLog) -> Result<Box<dyn AnyStateReplay>, EngineError> {
        let at = drive::rebuild_thread_state(&self.core, &self.name, loaded)?;
        Ok(Box::new(GraphStateReplay { graph: self, at }))
    }

    fn state_to_json(&self, state: &(dyn Any + Send + Sync)) -> Option<Value> {
        serde_json::to_value(state.downcast_ref::<S>()?).ok()
    }

    fn position_after_node(
        &self,
        node: &str,
        loaded: &LoadedLog,
        edit: &LogEntry,
    ) -> Result<StoredPosition, EngineError> {
        let unknown = || MisuseError::UnknownNode { graph: self.name.to_string(), node: node.to_owned() };
        let mut at = drive::rebuild_thread_state(&self.core, &self.name, loaded)?;
        at.apply_entry(&self.core, edit)?;
        match node {
            START_NODE_ID => return Ok(self.start_position()),
            END_NODE_ID => return Ok(StoredPosition::default()),
            _ => {}
        }
        let ix = self.core.node_index(node).ok_or_else(unknown)?;
        let mismatch = |message| EngineError::StateMismatch {
            seq: edit.seq,
            reason: StateMismatchReason::Unreadable(message),
        };
        let route =
            self.core.next_tasks(ix, &at.state, None).map_err(|error| mismatch(error.error_message(node)))?;
        let next = plan::advance(&self.core.plan_topology, &plan::PlanPosition::default(), vec![(ix, route)])
            .map_err(|_| mismatch(format!("node `{node}` alone cannot fill the join it leads to")))?;
        Ok(StoredPosition::from_position(&next, &self.core))
    }

    fn position_at_targets(&self, targets: &[GotoTarget]) -> Result<StoredPosition, EngineError> {
        let topology = &self.core.plan_topology;
        let mut due: Vec<plan::PlannedTask> = Vec::new();
        // At the end nothing is due.
        for GotoTarget { node, input } in targets.iter().filter(|target| target.node != END_NODE_ID) {
            let index = self.core.node_index(node).ok_or_else(|| MisuseError::UnknownNode {
                graph: self.name.to_string(),
                node: node.clone(),
            })?;
            if let Some(input) = input {
                let bad = |source| MisuseError::BadInput { graph: self.name.to_string(), source };
                stored_json::check_text_depth(&to_raw_value(input).map_err(bad)?).map_err(bad)?;
                if !topology.waits_for[usize::from(index)].is_empty() {
                    return Err(MisuseError::InputForJoin { node: node.clone() }.into());
                }
            }
            let task = plan::PlannedTask { node: index, input: input.clone() };
            // A node that is named twice runs once, and as often as it is given an input.
            if task.input.is_some() || !due.contains(&task) {
                due.push(task);
            }
        }
        Ok(StoredPosition::from_position(&plan::position_at(topology, due), &self.core))
    }

    fn drive(
        self: Arc<Self>,
        run: RunContext,
        store: Arc<dyn Store>,
        claimed: ClaimedRun,
        lease: Arc<ClaimLease>,
        first: Option<Vec<u8>>,
    ) -> DriveFuture<(Result<ClaimedRunOutcome, HaltReason>, Option<CommitOutcome>)> {
        Box::pin(async move { self.drive_claimed(run, store, claimed, lease, first).await })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use std::collections::BTreeMap;

    use super::*;

    fn entry(kind: EntryKind, body: Vec<u8>) -> LogEntry {
        LogEntry { seq: 1, parent: 0, base: 0, run: None, at: 0, kind, body }
    }

    #[test]
    fn an_answer_announces_the_next_claim_and_no_later_one() {
        let resumed = log::RunResumedEntry { answers: BTreeMap::new(), epoch: Some(1) };
        let last = ClaimHistory::from_entries(&[entry(EntryKind::Resumed, log::to_json_bytes(&resumed))])
            .expect("readable");
        assert!(last.explains_claim(2) && !last.explains_claim(3));
        // Written before answers recorded the claim.
        let last = ClaimHistory::from_entries(&[entry(EntryKind::Resumed, b"{\"answers\":{}}".to_vec())])
            .expect("readable");
        assert!(!last.explains_claim(2));
    }

    #[test]
    fn a_newest_entry_that_cannot_be_read_is_damage_and_not_an_unknown_claim() {
        for kind in [EntryKind::Resumed, EntryKind::Restarted] {
            let history = ClaimHistory::from_entries(&[entry(kind, b"{}".to_vec())]);
            assert!(matches!(history, Err(StoreError::Damaged(_))));
        }
    }

    #[test]
    fn restarts_are_counted_since_anything_else_happened() {
        let restarted = |epoch| {
            entry(
                EntryKind::Restarted,
                log::to_json_bytes(&log::RunRestartedEntry { epoch, why: String::new() }),
            )
        };
        let step = entry(EntryKind::Step, Vec::new());
        let last =
            ClaimHistory::from_entries(&[restarted(2), step, restarted(3), restarted(4)]).expect("readable");
        assert_eq!((last.restarts, last.epoch), (2, Some(4)));
    }
}

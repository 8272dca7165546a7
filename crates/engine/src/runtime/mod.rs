//! The runtime: takes in runs, drives them, hands them on when it stops, and lets people watch, answer, stop, rewind.
//!
//! A run belongs to the store, not to whoever started it: closing a connection changes nothing, and another process
//! on the same store goes on with what this one leaves.

mod claim_lease;
mod finish_detached;
mod graph_handle;
mod live_feed;
mod next_run;
mod observer;
mod reads;
mod registered_graph;
mod remote_runs;
mod run_driving;
mod run_gate;
mod run_worker;
mod schedules;
mod state_cache;
mod state_watch;
mod thread_deletion;
mod threads;
mod timers;
mod watch;
mod worker_state;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::drive::{DEFAULT_MAX_TASKS_PER_STEP, RunContext, RunLimits};
use crate::error::{EngineError, MisuseError};
use crate::failpoint;
use crate::graph::{Graph, GraphTopology};
use crate::id::{RunId, RunKey, ThreadKey};
use crate::log;
use crate::state::State;
use crate::store::{
    CommitPosition, EntryKind, IfBusy, InputDurability, NewRun, NewRunEntry, RunIdempotencyKey, RunRow,
    RunSignal, Seq, SignalOutcome, Store, StoreError, SubmitOutcome, WorkerLease,
};
use crate::stored_json;
use crate::task_path::QuestionId;

pub(crate) use claim_lease::{ClaimLease, LeaseTime};
use finish_detached::finish_detached;
pub use graph_handle::{GraphHandle, Outcome, RunHandle};
pub(crate) use live_feed::{LiveFeed, approximate_value_bytes};
pub use live_feed::{NodeDelta, NodeDeltaContent};
pub(crate) use next_run::NextRun;
pub use observer::RunObserver;
pub use registered_graph::StateView;
use registered_graph::{AnyGraph, RegisteredGraph};
use remote_runs::RemoteRuns;
use run_driving::RunDriving;
pub(crate) use run_gate::{GateQuestion, RunGateCheck};
pub use run_gate::{RunAdmission, RunGate};
use run_worker::ActiveRun;
pub use schedules::{
    MAX_SCHEDULE_BYTES, MissedTimes, Schedule, ScheduleDefinition, ScheduleTiming, ScheduledRun,
};
pub use state_watch::StateWatch;
pub use threads::{GotoTarget, StateEdit};
pub(crate) use timers::{TimerAlarm, wake_timer};
pub use watch::{Event, RunWatch, WatchUntil};
use worker_state::WorkerState;

/// How a runtime works.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// A name no other process on the store uses. Random unless set.
    pub worker: Option<String>,
    /// How long a claim holds without renewal. Another process takes over after that.
    pub lease: Duration,
    /// How often it looks for runs that nobody works on.
    pub scan: Duration,
    /// Most runs driven at a time; more are accepted and wait.
    pub max_runs: usize,
    /// Most tasks of one step of a run at work at a time; the others wait.
    pub max_tasks_per_step: usize,
    /// Limits of runs that bring none of their own.
    pub limits: RunLimits,
    /// Is called when a run comes to rest.
    pub observer: Option<Arc<dyn RunObserver>>,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            worker: None,
            lease: Duration::from_secs(10),
            scan: Duration::from_secs(2),
            max_runs: 1024,
            max_tasks_per_step: DEFAULT_MAX_TASKS_PER_STEP,
            limits: RunLimits::default(),
            observer: None,
        }
    }
}

/// How a run is started.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// When the thread has a run already.
    pub if_busy: IfBusy,
    /// When the caller is told of the run.
    pub acknowledge: Acknowledgement,
    /// Makes the call repeatable.
    pub idempotency: Option<RunIdempotencyKey>,
    /// Start from this entry instead of the newest: a rewind. What came after it stays in the log as another branch.
    pub from: Option<Seq>,
    /// Free pairs shown in lists.
    pub metadata: Map<String, Value>,
    /// Pairs the thread gets where it has none of that name yet: what it is called, until somebody calls it otherwise.
    pub thread_metadata: Map<String, Value>,
    /// Limits of this run.
    pub limits: Option<RunLimits>,
    /// What all nodes of the run can read with [`Cx::context`](crate::Cx::context): who asks, which model to use. It is
    /// stored with the run and never changes. At most [`MAX_CONTEXT_BYTES`].
    pub context: Option<Value>,
    /// Pause before these nodes, of the graph or of one inside it.
    pub pause_before: BTreeSet<String>,
    /// Pause after these nodes.
    pub pause_after: BTreeSet<String>,
    /// Which data that nodes emit ([`Cx::emit`](crate::Cx::emit)) is kept in the log, for clients that connect later.
    pub keep_emitted: EmittedDataRetention,
}

/// When whoever starts a run is told of it. What it is told, a power failure does not take back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledgement {
    /// When its input is on disk: the start waits for that. For callers who watch the run or tell others its id.
    #[default]
    Input,
    /// When it rests. For callers who only wait for that: the commit with which a run ends or pauses covers its input, which
    /// needs no sync of its own then. The start returns at once, and the run must not be spoken of until
    /// [`RunHandle::wait`] or [`RunHandle::wait_until_accepted`] returns. A run that waits for its turn, or is driven
    /// elsewhere, is on disk when the start returns, as with `Input`.
    Rest,
}

/// Which data that nodes emit is kept with the next entry of the log, in
/// [`ThreadEntry::shown`](crate::ThreadEntry::shown). Pieces of an item ([`Cx::emit_text_of`](crate::Cx::emit_text_of)) are
/// not, as the item has them, and neither is what does not fit into 256 KiB between two entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmittedDataRetention {
    /// Nothing.
    #[default]
    Nothing,
    /// All but text.
    Data,
    /// Text too.
    DataAndText,
}

impl EmittedDataRetention {
    pub(crate) fn keeps(self, data: &Value) -> bool {
        match self {
            Self::Nothing => false,
            Self::Data => !data.is_string(),
            Self::DataAndText => true,
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// What is stored of [`StartOptions`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct StoredRunOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<RunLimits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pause_before: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pause_after: BTreeSet<String>,
    #[serde(default, rename = "keep_shown", skip_serializing_if = "EmittedDataRetention::is_nothing")]
    keep_emitted: EmittedDataRetention,
}

impl StoredRunOptions {
    /// Applies the stored options of a run to the context it is driven in.
    fn apply_to(stored: &[u8], run: &mut RunContext) -> Result<(), serde_json::Error> {
        let options: Self = stored_json::from_slice(stored)?;
        if let Some(limits) = options.limits {
            run.limits = limits;
        }
        run.context = options.context.unwrap_or_default();
        run.correlation = options.correlation;
        (run.pause_before, run.pause_after) = (options.pause_before, options.pause_after);
        run.keep_emitted = options.keep_emitted;
        Ok(())
    }
}

/// The id of a run that is to be, and when its input is on disk.
struct NewRunId {
    run: RunId,
    durability: InputDurability,
}

/// A run that was submitted. Dropping `driving` leaves its work to a task.
pub(crate) struct SubmittedRun {
    pub handle: RunHandle,
    pub driving: Option<RunDriving>,
}

impl From<RunHandle> for SubmittedRun {
    fn from(handle: RunHandle) -> Self {
        Self { handle, driving: None }
    }
}

/// Runs graphs on a store. Cheap to clone.
#[derive(Clone)]
pub struct Runtime(pub(crate) Arc<RuntimeInner>);

pub(crate) struct RuntimeInner {
    pub store: Arc<dyn Store>,
    graphs: RwLock<HashMap<String, Arc<dyn AnyGraph>>>,
    /// The names of the graphs, as a claim lists them.
    graph_names: RwLock<Arc<[String]>>,
    active_runs: Mutex<HashMap<RunId, Arc<ActiveRun>>>,
    remote_runs: RemoteRuns,
    claim: WorkerLease,
    options: RuntimeOptions,
    worker_state: Mutex<WorkerState>,
    stop: CancellationToken,
    unknown_write: tokio::sync::watch::Sender<Option<String>>,
    /// Held by the run that is resumed alone, because it was at work each time the process ended.
    suspect_permit: Arc<tokio::sync::Mutex<()>>,
    timer_alarm: Arc<TimerAlarm>,
    run_gate: RwLock<Option<Arc<dyn RunGate>>>,
}

impl Runtime {
    /// A runtime with the usual options.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with_options(store, RuntimeOptions::default())
    }

    /// A runtime.
    pub fn with_options(store: Arc<dyn Store>, options: RuntimeOptions) -> Self {
        let worker = options.worker.clone().unwrap_or_else(|| RunId::random().to_string());
        Self(Arc::new(RuntimeInner {
            store,
            graphs: RwLock::default(),
            graph_names: RwLock::new(Arc::default()),
            active_runs: Mutex::default(),
            remote_runs: RemoteRuns::default(),
            claim: WorkerLease { worker: Arc::from(worker), lease: options.lease, graphs: None },
            options,
            worker_state: Mutex::default(),
            stop: CancellationToken::new(),
            unknown_write: tokio::sync::watch::Sender::new(None),
            suspect_permit: Arc::default(),
            timer_alarm: Arc::default(),
            run_gate: RwLock::default(),
        }))
    }

    /// Registers a graph under a name and gives a typed handle to it. The name is stored with its runs.
    pub fn register_graph<S: State>(
        &self,
        name: &str,
        graph: &Graph<S>,
    ) -> Result<GraphHandle<S>, EngineError> {
        let registered = Arc::new(RegisteredGraph::new(name, graph.core.clone()));
        let mut graphs = self.0.graphs.write().unwrap_or_else(PoisonError::into_inner);
        if graphs.contains_key(name) {
            return Err(MisuseError::GraphExists(name.to_owned()).into());
        }
        graphs.insert(name.to_owned(), registered.clone());
        self.0.note_graph_names(&graphs);
        Ok(GraphHandle::new(self.clone(), registered))
    }

    /// Registers a graph under a name, in place of one that has the name. Runs that go on use the graph they were
    /// accepted by; a run that is claimed later is checked against this one by its fingerprint.
    pub fn replace_graph<S: State>(&self, name: &str, graph: &Graph<S>) -> GraphHandle<S> {
        let registered = Arc::new(RegisteredGraph::new(name, graph.core.clone()));
        let mut graphs = self.0.graphs.write().unwrap_or_else(PoisonError::into_inner);
        graphs.insert(name.to_owned(), registered.clone());
        self.0.note_graph_names(&graphs);
        GraphHandle::new(self.clone(), registered)
    }

    /// Names of the graphs, sorted.
    pub fn graphs(&self) -> Vec<String> {
        let graphs = self.0.graphs.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<String> = graphs.keys().cloned().collect();
        names.sort();
        names
    }

    /// Nodes and edges of a graph.
    pub fn topology(&self, graph: &str) -> Result<GraphTopology, EngineError> {
        Ok(self.0.find_graph(graph)?.topology().clone())
    }

    /// The limits of runs that bring none of their own.
    pub fn default_limits(&self) -> &RunLimits {
        &self.0.options.limits
    }

    /// The store, for tests that look behind the runtime.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Starts a run with a JSON update as input. `None` goes on from where the thread (or `options.from`) stands.
    pub async fn start(
        &self,
        graph: &str,
        thread: &ThreadKey,
        input: Option<&Value>,
        options: StartOptions,
    ) -> Result<RunHandle, EngineError> {
        let registered = self.0.find_graph(graph)?;
        let bad = |source| MisuseError::BadInput { graph: graph.to_owned(), source };
        let input = match input {
            Some(input) => {
                let raw = to_raw_value(input).map_err(bad)?;
                registered.check_update(&raw).map_err(bad)?;
                Some(raw)
            }
            None => None,
        };
        Ok(self.submit(graph, &registered, thread, input, options).await?.handle)
    }

    /// Hands a run in. Its caller may drive it if it starts here.
    pub(crate) async fn submit(
        &self,
        graph: &str,
        registered: &Arc<dyn AnyGraph>,
        thread: &ThreadKey,
        input: Option<Box<RawValue>>,
        options: StartOptions,
    ) -> Result<SubmittedRun, EngineError> {
        let durability = match options.acknowledge {
            Acknowledgement::Input => InputDurability::Awaited,
            Acknowledgement::Rest => InputDurability::Later,
        };
        let new = NewRunId { run: RunId::random(), durability };
        self.submit_as(new, graph, registered, thread, input, options).await
    }

    /// As [`Runtime::submit`], for a run whose id is known before.
    async fn submit_as(
        &self,
        NewRunId { run, durability }: NewRunId,
        graph: &str,
        registered: &Arc<dyn AnyGraph>,
        thread: &ThreadKey,
        input: Option<Box<RawValue>>,
        options: StartOptions,
    ) -> Result<SubmittedRun, EngineError> {
        if self.0.stop.is_cancelled() {
            return Err(EngineError::Stopped("it is shutting down".into()));
        }
        for node in options.pause_before.union(&options.pause_after) {
            if !registered.topology().has_node(node) {
                return Err(MisuseError::UnknownNode { graph: graph.to_owned(), node: node.clone() }.into());
            }
        }
        if let Some(context) = &options.context {
            check_context(context)?;
        }
        let admitted = self.admit_new_run(&thread.tenant).await?;
        let stored = StoredRunOptions {
            limits: options.limits,
            context: options.context,
            correlation: self
                .0
                .options
                .observer
                .as_ref()
                .and_then(|observer| observer.correlation_of_new_run()),
            pause_before: options.pause_before,
            pause_after: options.pause_after,
            keep_emitted: options.keep_emitted,
        };
        let at = input.is_some().then(|| registered.start_position());
        let body = log::to_json_bytes(&log::RunStartedEntry {
            v: log::LOG_FORMAT_VERSION,
            graph: graph.to_owned(),
            update: input,
            at,
        });
        let room = self.0.capacity() > 0;
        let new = NewRun {
            thread: thread.clone(),
            run,
            graph: graph.to_owned(),
            fingerprint: registered.fingerprint().to_owned(),
            first: NewRunEntry { kind: EntryKind::Started, body: body.clone(), parent: options.from },
            if_busy: options.if_busy,
            idempotency: options.idempotency,
            metadata: options.metadata,
            thread_metadata: options.thread_metadata,
            options: log::to_json_bytes(&stored),
            stop_body: log::to_json_bytes(&log::RunCancelledEntry::default()),
            claim: room.then(|| self.0.claim.clone()),
            durability,
        };
        let (runtime, registered) = (self.clone(), registered.clone());
        finish_detached(async move { runtime.accept(new, registered, body, admitted).await }).await
    }

    /// Hands a run in and begins to drive it, when it is to start here.
    async fn accept(
        &self,
        new: NewRun,
        registered: Arc<dyn AnyGraph>,
        body: Vec<u8>,
        admitted: Option<RunAdmission>,
    ) -> Result<SubmittedRun, EngineError> {
        let (had_room, durability) = (new.claim.is_some(), new.durability);
        let requested_at = LeaseTime::now();
        let submitted = self.0.report_unknown_write(self.0.store.submit(new).await);
        if let Err(StoreError::Unknown(_)) = &submitted {
            // It may have been accepted under a claim of this process, which nobody works on.
            self.0.worker_state().scan_for_lost_runs();
        }
        failpoint::hit("submit.before_reply");
        self.0.start_lease_keeper();
        match submitted? {
            // By now somebody else may have it; whoever looks for work finds it if not.
            SubmitOutcome::Started(claimed) if requested_at.elapsed() >= self.0.claim.lease => {
                self.0.worker_state().scan_for_lost_runs();
                self.wait_until_accepted(claimed.position).await?;
                Ok(RunHandle::driven_elsewhere(self.clone(), &claimed.run).into())
            }
            SubmitOutcome::Started(claimed) => {
                let (row, position) = (claimed.run.clone(), claimed.position);
                let (active, driving) =
                    self.0.begin_driving(registered, claimed, requested_at, Some((body, admitted)));
                let handle = RunHandle::driven_here(self.clone(), &row, &active).accepted_at(position);
                if durability == InputDurability::Later {
                    return Ok(SubmittedRun { handle, driving: driving.and_then(RunDriving::for_caller) });
                }
                // The run begins while its input is on its way to the disk.
                drop(driving);
                handle.wait_until_accepted().await?;
                Ok(handle.into())
            }
            SubmitOutcome::Queued { run, stop } => {
                if let Some(active) = stop.and_then(|stop| self.0.lock_active_runs().get(&stop).cloned()) {
                    active.cancel.cancel();
                }
                if !had_room {
                    // The run it waited for may have ended before this one could be found.
                    self.0.claim_waiting_run_or_log(&run.thread).await;
                }
                Ok(self.handle_for_row(&run).into())
            }
            SubmitOutcome::Repeated(run) => Ok(self.handle_for_row(&run).of_earlier_call().into()),
        }
    }

    /// Waits until the input of a run is on disk. Only then is the caller told that the run was accepted.
    pub(crate) async fn wait_until_accepted(&self, position: CommitPosition) -> Result<(), StoreError> {
        if failpoint::mutant("accept_before_sync") {
            return Ok(());
        }
        self.0.report_unknown_write(self.0.store.wait_until_durable(position).await)
    }

    /// The run of a thread that is running or paused, if there is one.
    pub async fn active_run(&self, thread: &ThreadKey) -> Result<Option<RunHandle>, EngineError> {
        match self.find_thread_row(thread).await?.and_then(|row| row.active) {
            Some(run) => Ok(Some(self.run_handle(&thread.run(run)).await?)),
            None => Ok(None),
        }
    }

    /// A handle to a run that was started before, here or elsewhere.
    pub async fn run_handle(&self, run: &RunKey) -> Result<RunHandle, EngineError> {
        let row = self.0.store.run(run).await?;
        Ok(self.handle_for_row(&row))
    }

    fn handle_for_row(&self, row: &RunRow) -> RunHandle {
        let active = self.0.lock_active_runs().get(&row.run).cloned();
        match active {
            Some(active) => RunHandle::driven_here(self.clone(), row, &active),
            None => RunHandle::driven_elsewhere(self.clone(), row),
        }
    }

    /// Answers questions of a paused run, by id, and goes on with it. Each question is answered once: a second
    /// answer is a [`StoreError::Conflict`]. Questions left open are asked again. If this process does not have the graph, another
    /// one goes on.
    pub async fn answer(
        &self,
        run: &RunKey,
        answers: &BTreeMap<String, Value>,
    ) -> Result<RunHandle, EngineError> {
        let mut records = Vec::new();
        for (id, answer) in answers {
            stored_json::check_depth_up_to(answer, MAX_ANSWER_DEPTH)
                .map_err(|source| MisuseError::BadAnswer { question: id.clone(), source })?;
            let QuestionId { path, key } =
                id.parse::<QuestionId>().map_err(|_| MisuseError::BadQuestionId(id.clone()))?;
            records.push((path.to_string(), key.to_string(), log::to_json_bytes(answer)));
        }
        let epoch = Some(self.0.store.run(run).await?.epoch);
        let body = log::to_json_bytes(&log::RunResumedEntry { answers: answers.clone(), epoch });
        let row = self.signal_and_continue(run, RunSignal::Answer { answers: records, body }).await?;
        Ok(self.handle_for_row(&row))
    }

    /// Tells a run something and goes on with its thread, also when the caller stops waiting in between.
    async fn signal_and_continue(&self, run: &RunKey, signal: RunSignal) -> Result<RunRow, EngineError> {
        let (inner, run) = (self.0.clone(), run.clone());
        finish_detached(async move {
            let requested_at = LeaseTime::now();
            let room = !inner.stop.is_cancelled() && inner.capacity() > 0;
            let claim = room.then(|| inner.claim_of_known_graphs());
            let signalled = inner.store.signal_and_claim(&run, signal, claim.as_ref()).await;
            if let Err(StoreError::Unknown(_)) = &signalled {
                // It may have been claimed for this process, where nobody works on it.
                inner.worker_state().scan_for_lost_runs();
            }
            let SignalOutcome { run: row, claimed } = inner.report_unknown_write(signalled)?;
            match claimed {
                Some(claimed) => {
                    inner.start_lease_keeper();
                    inner.drive_unless_late(claimed, requested_at);
                }
                // Another worker may have it, or there was no room, which a run that ended since may have made.
                None => inner.claim_waiting_run_or_log(&row.thread).await,
            }
            Ok(row)
        })
        .await
    }

    /// Ends a run. Durable when this returns: a run that is under way ends as soon as its worker hears of it, also
    /// when this process dies next. A run that ended before stays as it is.
    pub async fn cancel(&self, run: &RunKey) -> Result<RunRow, EngineError> {
        let body = log::to_json_bytes(&log::RunCancelledEntry::default());
        let (inner, run) = (self.0.clone(), run.clone());
        finish_detached(async move {
            let ended_before =
                inner.options.observer.is_some() && inner.store.run(&run).await?.status.is_end();
            let cancelled = inner.store.signal(&run, RunSignal::Cancel { body }).await;
            let row = inner.report_unknown_write(cancelled)?;
            let active = inner.lock_active_runs().get(&run.run).cloned();
            match active {
                Some(active) => active.cancel.cancel(),
                None => {
                    if row.status.is_end() && !ended_before {
                        inner.tell_observer(&run, row.last_seq.unwrap_or(0));
                    }
                    inner.claim_waiting_run_or_log(&row.thread).await;
                }
            }
            Ok(row)
        })
        .await
    }

    /// Goes on with a failed run where it stopped: what had finished is not run again. Accepts that the graph may
    /// have changed since.
    pub async fn retry(&self, run: &RunKey) -> Result<RunHandle, EngineError> {
        let row = self.0.store.run(run).await?;
        let registered = self.0.find_graph_of_run(&row)?;
        let body = log::to_json_bytes(&log::RunRestartedEntry {
            epoch: row.epoch + 1,
            why: log::TRIED_AGAIN.into(),
        });
        let signal = RunSignal::Retry { body, fingerprint: registered.fingerprint().to_owned() };
        let row = self.signal_and_continue(run, signal).await?;
        Ok(self.handle_for_row(&row))
    }

    /// Watches a run from its first event on, or after event number `after`.
    pub async fn watch(&self, run: &RunKey, after: u64, until: WatchUntil) -> Result<RunWatch, EngineError> {
        let row = self.0.store.run(run).await?;
        Ok(RunWatch::new(self, &row, after, until))
    }

    /// Takes up runs that nobody works on, now and from now on. Call it once all graphs are registered.
    pub async fn start_worker(&self) -> Result<(), EngineError> {
        self.0.worker_state().scan_for_waiting_runs();
        self.0.scan_for_timers();
        self.0.start_lease_keeper();
        self.0.claim_unclaimed_runs().await
    }

    /// How many runs this process works on now.
    pub fn active_runs(&self) -> usize {
        self.0.lock_active_runs().len()
    }

    /// Stops: takes no new runs, lets steps in flight finish for up to `patience`, hands the rest to whoever comes
    /// next. Nothing is lost either way.
    pub async fn shutdown(&self, patience: Duration) {
        self.0.drain(patience).await;
    }

    /// Whether the store takes writes of this program.
    pub async fn check_writable(&self) -> Result<(), EngineError> {
        Ok(self.0.store.check_writable().await?)
    }

    /// Becomes `Some(reason)` when a write had an unknown outcome. The run concerned was dropped here and is taken up
    /// again from what the store really holds; on a store that cannot go on after that (SQLite) the process should
    /// end and start anew.
    pub fn unknown_write_reason(&self) -> tokio::sync::watch::Receiver<Option<String>> {
        self.0.unknown_write.subscribe()
    }
}

impl RuntimeInner {
    fn find_graph(&self, name: &str) -> Result<Arc<dyn AnyGraph>, EngineError> {
        let graphs = self.graphs.read().unwrap_or_else(PoisonError::into_inner);
        graphs.get(name).cloned().ok_or_else(|| MisuseError::UnknownGraph(name.to_owned()).into())
    }

    fn find_graph_of_run(&self, run: &RunRow) -> Result<Arc<dyn AnyGraph>, EngineError> {
        self.find_graph(&run.graph).map_err(|_| MisuseError::GraphOfRunMissing(run.graph.clone()).into())
    }

    fn worker_state(&self) -> MutexGuard<'_, WorkerState> {
        self.worker_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_active_runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<ActiveRun>>> {
        self.active_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find_live_feed(&self, run: &RunKey) -> Option<Arc<LiveFeed>> {
        let active = self.lock_active_runs();
        let found = active.get(&run.run)?;
        (found.fence.thread.tenant == run.tenant).then(|| found.live.clone())
    }

    /// Raises the alarm when nobody knows whether a write happened, and passes the answer on.
    fn report_unknown_write<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ StoreError::Unknown(_)) = &answer {
            self.unknown_write.send_replace(Some(crate::error::error_chain(error)));
        }
        answer
    }

    /// How many more runs may be driven. If none, the next that ends looks for those that wait.
    fn capacity(&self) -> usize {
        let room = || self.options.max_runs.saturating_sub(self.lock_active_runs().len());
        match room() {
            0 => {
                self.worker_state().runs_wait_for_capacity = true;
                // A run that ended since either saw that, or is seen to have made room here.
                room()
            }
            some => some,
        }
    }
}

/// The most levels that an answer to a question is nested. The node puts it into its state, which adds some.
pub const MAX_ANSWER_DEPTH: usize = stored_json::MAX_DEPTH - 16;

/// The most bytes of the context of a run, as JSON.
pub const MAX_CONTEXT_BYTES: usize = 256 * 1024;

fn check_context(context: &Value) -> Result<(), MisuseError> {
    stored_json::check_depth(context).map_err(|error| MisuseError::BadContext(error.to_string()))?;
    match context.to_string().len() {
        ..=MAX_CONTEXT_BYTES => Ok(()),
        bytes => Err(MisuseError::BadContext(format!(
            "it has {bytes} bytes, and at most {MAX_CONTEXT_BYTES} are allowed"
        ))),
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("worker", &self.0.claim.worker)
            .field("graphs", &self.graphs())
            .finish()
    }
}

//! Runs a graph, superstep by superstep: calls the nodes that [`plan`] says are due, folds what they
//! propose, writes it down, goes on. One loop for every run, with or without a store, watched or not, outermost
//! graph or subgraph.
//!
//! One step is in `superstep`; retries, timeouts and the cache in `task`; panics in `panic`; side by side is in
//! `fan_out`, graphs inside graphs in `nested_poll`; what all tasks of a run share in `run_context`, its limits in
//! `run_limits`, what it spent in `run_meter`; writing through trouble in `run_journal`; rebuilding a state from the log
//! is in `log_replay`; how a run ends is in `run_end`.

mod call_records;
mod fan_out;
mod known_update;
mod log_replay;
mod nested_poll;
mod panic;
mod run_context;
mod run_end;
mod run_journal;
mod run_limits;
mod run_meter;
mod superstep;
mod task;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::failpoint;
use crate::failure;
use crate::failure::NodeFailure;
use crate::graph::{BranchError, BuiltGraph};
use crate::log::{self, StoredPosition};
use crate::plan;
use crate::question::{PendingQuestion, QuestionKind};
use crate::runtime::{GateQuestion, RunAdmission};
use crate::state::State;
use crate::store::{
    Commit, CommitOutcome, Durability, EntryKind, NewEntry, NewStatus, Record, RecordStage, RunFailure,
    RunStatus, RunUsage, StoreError,
};
use crate::task_path::{QuestionId, RecordKey, TaskPath};

pub(crate) use log_replay::{ThreadState, rebuild_thread_state};
pub(crate) use nested_poll::run_nested;
pub(crate) use panic::catch_panic;
pub(crate) use run_context::{DEFAULT_MAX_TASKS_PER_STEP, RunContext};
pub(crate) use run_end::{cancel_claimed, replay_base_after, write_cancelled, write_failure};
use run_end::{cancel_paused, finish_without_step};
pub(crate) use run_journal::{LogTip, RunJournal, retry_while_held};
pub use run_limits::RunLimits;
pub(crate) use task::UnfinishedTaskUsage;

/// How driving ended, when it ended well.
pub(crate) enum DriveOutcome {
    Finished,
    Paused(Vec<PendingQuestion>),
}

/// Why driving stopped before the end.
#[derive(Debug)]
pub(crate) enum HaltReason {
    Failed {
        failure: RunFailure,
        node: Option<String>,
        usage: RunUsage,
        records: Vec<Record>,
    },
    Cancelled,
    /// Let go at a step boundary; somebody goes on later.
    Released,
    /// The store refused: another worker has the run, or nobody knows.
    Lost(StoreError),
    /// The store will never take what was to be written. The run ends with the reason.
    Rejected(String),
}

impl HaltReason {
    pub(crate) fn failed(code: &str, message: String) -> Self {
        Self::Failed {
            failure: RunFailure { code: code.into(), message },
            node: None,
            usage: RunUsage::default(),
            records: Vec::new(),
        }
    }
}

impl HaltReason {
    /// The same, and these records are written and this is booked with it.
    fn with_records_and_usage(self, more: Vec<Record>, spent: RunUsage) -> Self {
        match self {
            Self::Failed { failure, node, mut usage, mut records } => {
                records.extend(more);
                usage += spent;
                Self::Failed { failure, node, usage, records }
            }
            other => other,
        }
    }
}

impl From<StoreError> for HaltReason {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Rejected(_) => Self::Rejected(crate::error::error_chain(&error)),
            error => Self::Lost(error),
        }
    }
}

/// Which graph of the run this is.
pub(crate) enum GraphScope {
    /// The run's own.
    Outer,
    /// One inside the task with this path, and inside so many graphs. Its name is that of the graph around it and the node
    /// it runs in.
    Inner { path: TaskPath, name: Arc<str>, depth: usize },
}

impl GraphScope {
    /// Path of the task at this place of a step.
    fn task_path(&self, step: u32, place: usize) -> TaskPath {
        match self {
            Self::Outer => TaskPath::outermost(step, place),
            Self::Inner { path, .. } => path.inside(step, place),
        }
    }

    /// What the graph is called.
    fn name(&self, run: &RunContext) -> Arc<str> {
        match self {
            Self::Outer => run.graph_name.clone(),
            Self::Inner { name, .. } => name.clone(),
        }
    }

    /// How many graphs are around this one.
    fn depth(&self) -> usize {
        match self {
            Self::Outer => 0,
            Self::Inner { depth, .. } => *depth,
        }
    }

    fn is_outer(&self) -> bool {
        matches!(self, Self::Outer)
    }
}

/// Drives a whole run to its end or its next pause and writes how it ended.
pub(crate) async fn drive_run<S: State>(
    graph: &Arc<BuiltGraph<S>>,
    run: &Arc<RunContext>,
    at: &mut ThreadState<S>,
) -> Result<(DriveOutcome, Option<CommitOutcome>), HaltReason> {
    if run.cancel.is_cancelled() {
        return Err(write_cancelled(run).await);
    }
    let ended = match drive(graph, run, &GraphScope::Outer, at).await {
        Ok((DriveOutcome::Paused(asks), _)) => write_paused(run, at, asks).await,
        ended => ended,
    };
    match ended {
        Err(HaltReason::Cancelled) => Err(write_cancelled(run).await),
        Err(halt @ HaltReason::Failed { .. }) => Err(write_failure(run, at, halt).await),
        Err(HaltReason::Rejected(message)) => {
            // The calls of the step were made, whatever becomes of it.
            let rejected = HaltReason::failed(failure::STORE_REJECTED, message);
            let rejected = rejected.with_records_and_usage(Vec::new(), run.unbooked_usage());
            Err(write_failure(run, at, rejected).await)
        }
        Ok((DriveOutcome::Paused(_), _)) if run.cancel.is_cancelled() => Err(cancel_paused(run).await),
        ended => ended,
    }
}

/// Writes that the run waits for answers.
async fn write_paused<S: State>(
    run: &Arc<RunContext>,
    at: &mut ThreadState<S>,
    asks: Vec<PendingQuestion>,
) -> Result<(DriveOutcome, Option<CommitOutcome>), HaltReason> {
    let mut records = asks.iter().map(open_question_record).collect::<Result<Vec<Record>, HaltReason>>()?;
    records.append(&mut at.unsaved_records);
    let calls = run.unfinished_calls();
    let active_ms = u64::try_from(run.active_time().as_millis()).unwrap_or(u64::MAX);
    let body = log::to_json_bytes(&log::RunPausedEntry { asks: asks.clone(), calls, edit: None, active_ms });
    let durability = if failpoint::mutant("ask_before_sync") { Durability::Later } else { Durability::Now };
    let commit = Commit {
        durability,
        entries: vec![at.new_entry(EntryKind::Paused, body)],
        records,
        usage: std::mem::take(&mut at.unbooked_usage),
        status: Some(NewStatus { status: RunStatus::Paused, error: None }),
        ..Commit::default()
    };
    let committed = run.commit(commit).await?;
    failpoint::hit("pause.after_commit");
    Ok((DriveOutcome::Paused(asks), committed))
}

/// Runs supersteps until nothing is due, the run pauses, or it is cancelled.
pub(crate) async fn drive<S: State>(
    graph: &Arc<BuiltGraph<S>>,
    run: &Arc<RunContext>,
    scope: &GraphScope,
    at: &mut ThreadState<S>,
) -> Result<(DriveOutcome, Option<CommitOutcome>), HaltReason> {
    let mut last = None;
    let mut ended = false;
    while !ended {
        let over = at.position.due.is_empty();
        if !over {
            if scope.is_outer() && run.release.is_cancelled() {
                return Err(HaltReason::Released);
            }
            run.check_limits()
                .map_err(|limit| HaltReason::failed(failure::LIMIT_EXCEEDED, limit.to_string()))?;
            if run.gate.is_some() {
                Box::pin(ask_gate(run)).await?;
            }
        }
        if let Some(question) = unanswered_breakpoint(graph, run, scope, at) {
            return Ok((DriveOutcome::Paused(vec![question]), None));
        }
        if over {
            // Nothing was due from the beginning, or a breakpoint stood after the last step.
            if scope.is_outer() {
                last = finish_without_step(run, at).await?;
            }
            break;
        }
        match superstep::run_superstep(graph, run, scope, at).await? {
            superstep::StepOutcome::Done(done) => {
                (last, ended) = fold_and_write(graph, run, scope, at, done).await?;
            }
            superstep::StepOutcome::Paused { asks, records, usage } => {
                if scope.is_outer() {
                    (at.unsaved_records, at.unbooked_usage) = (records, usage);
                } else {
                    let durability = Durability::Later;
                    run.commit(Commit { records, usage, durability, ..Commit::default() }).await?;
                }
                return Ok((DriveOutcome::Paused(asks), None));
            }
        }
        if run.cancel.is_cancelled() && !ended {
            return Err(HaltReason::Cancelled);
        }
    }
    Ok((DriveOutcome::Finished, last))
}

/// Asks the gate, if the run begins, goes on after it had stopped, or has cost more since the last time.
async fn ask_gate(run: &RunContext) -> Result<(), HaltReason> {
    let (Some(gate), Some(journal)) = (&run.gate, &run.journal) else { return Ok(()) };
    let cost = run.lock_meter().cost_micros();
    let Some(question) = gate.due_question(cost) else { return Ok(()) };
    match (question, journal.retry(|| gate.ask()).await.map_err(HaltReason::Lost)?) {
        (GateQuestion::Begin, RunAdmission::Refused(RunFailure { code, message })) => {
            return Err(HaltReason::failed(&code, message));
        }
        (_, admission) => run.lock_meter().note_admission(admission),
    }
    Ok(())
}

/// Folds the updates of a finished step, finds out what is due, and writes the step as one transaction. Tells whether
/// that was the end.
async fn fold_and_write<S: State>(
    graph: &Arc<BuiltGraph<S>>,
    run: &Arc<RunContext>,
    scope: &GraphScope,
    at: &mut ThreadState<S>,
    mut done: Vec<task::FinishedTask<S::Update>>,
) -> Result<(Option<CommitOutcome>, bool), HaltReason> {
    let mut usage = RunUsage::default();
    done.iter().for_each(|done| usage += done.unbooked_usage());
    let tasks: Vec<log::StoredTaskResult> = at
        .position
        .due
        .iter()
        .zip(&mut done)
        .filter_map(|(task, done)| {
            let update = done.json.take()?;
            Some(superstep::stored_task_result(graph, task, done, update))
        })
        .collect();
    // Reducers and branches are not the engine's code. What is half folded when one panics is not written.
    let folded =
        catch_unwind(AssertUnwindSafe(|| fold_updates(graph, scope, at, done))).unwrap_or_else(|panic| {
            let nodes: Vec<String> =
                at.position.due.iter().map(|task| format!("`{}`", graph.node(task.node).name)).collect();
            let panic_text = panic::panic_message(&*panic);
            let message = format!("a reducer or branch after {} panicked: {panic_text}", nodes.join(", "));
            Err(HaltReason::failed(failure::PANIC, message))
        });
    if let Err(halt) = folded {
        return Err(halt
            .with_records_and_usage(superstep::task_result_records(scope, at.position.step, &tasks), usage));
    }
    run.count_step();
    let ended = at.position.due.is_empty() && unanswered_breakpoint(graph, run, scope, at).is_none();
    if run.journal.is_none() {
        return Ok((None, ended));
    }
    Ok((write_step(graph, run, scope, at, tasks, usage, ended).await?, ended))
}

/// What the tasks of one node in a step led to.
struct NodeChoices {
    node: plan::NodeIndex,
    /// At least one of them did not fail.
    finished: bool,
    /// What they chose themselves.
    chosen: Option<Vec<log::DueTask>>,
    /// Failures that another node handles, with the items of the tasks.
    failures: Vec<(RunFailure, Option<serde_json::Value>)>,
}

impl NodeChoices {
    fn new(node: plan::NodeIndex) -> Self {
        Self { node, finished: false, chosen: None, failures: Vec::new() }
    }

    fn next_tasks<S: State>(self, graph: &BuiltGraph<S>, state: &S) -> Result<plan::NextTasks, BranchError> {
        let built = graph.node(self.node);
        let mut next =
            if self.finished { graph.next_tasks(self.node, state, self.chosen)? } else { Vec::new() };
        for (RunFailure { code, message }, input) in self.failures {
            let failure = NodeFailure { node: built.name.to_string(), code, message, input };
            let handler = built.on_error.zip(serde_json::to_value(failure).ok());
            next.extend(handler.map(|(node, input)| plan::PlannedTask { node, input: Some(input) }));
        }
        Ok(next)
    }
}

/// Folds the updates of a finished step and moves on to what is due after it.
fn fold_updates<S: State>(
    graph: &Arc<BuiltGraph<S>>,
    scope: &GraphScope,
    at: &mut ThreadState<S>,
    done: Vec<task::FinishedTask<S::Update>>,
) -> Result<(), HaltReason> {
    // Tasks of one node lie side by side, and lead on as one.
    let mut choices: Vec<NodeChoices> = Vec::new();
    for (place, done) in done.into_iter().enumerate() {
        let Some(task) = at.position.due.get(place) else { break };
        if choices.last().is_none_or(|last| last.node != task.node) {
            choices.push(NodeChoices::new(task.node));
        }
        let Some(node) = choices.last_mut() else { break };
        match done.failure {
            Some(failure) => node.failures.push((failure, task.input.clone())),
            None => node.finished = true,
        }
        if let Some(goto) = done.goto {
            node.chosen.get_or_insert_default().extend(goto);
        }
        if let Some(goto) = done.goto_parent {
            at.goto_parent.get_or_insert_default().extend(goto);
        }
        at.apply_update(done.update);
    }
    if at.goto_parent.is_some() && scope.is_outer() {
        let message = "a node chose where the graph around its own goes, and there is none".to_owned();
        return Err(HaltReason::failed(failure::UNDECLARED_TARGET, message));
    }
    let nodes: Vec<plan::NodeIndex> = choices.iter().map(|choices| choices.node).collect();
    if at.goto_parent.is_some() {
        // The graph around this one goes on, so this one is over.
        at.position = plan::PlanPosition { step: at.position.step + 1, ..plan::PlanPosition::default() };
        at.finished = nodes;
        return Ok(());
    }
    let mut routes = Vec::with_capacity(nodes.len());
    for choices in choices {
        let from = choices.node;
        let next = choices.next_tasks(graph, &at.state).map_err(|error| {
            HaltReason::failed(error.failure_code(), error.error_message(&graph.node(from).name))
        })?;
        routes.push((from, next));
    }
    let position = plan::advance(&graph.plan_topology, &at.position, routes).map_err(|stuck| {
        let name = |ix: &plan::NodeIndex| format!("`{}`", graph.node(*ix).name);
        let missing: Vec<String> = stuck.missing.iter().map(name).collect();
        let message = format!("join {} still waits for {}", name(&stuck.join), missing.join(", "));
        HaltReason::failed(failure::STUCK_JOIN, message)
    })?;
    at.finished = nodes;
    at.position = position;
    Ok(())
}

async fn write_step<S: State>(
    graph: &Arc<BuiltGraph<S>>,
    run: &Arc<RunContext>,
    scope: &GraphScope,
    at: &mut ThreadState<S>,
    tasks: Vec<log::StoredTaskResult>,
    usage: RunUsage,
    ended: bool,
) -> Result<Option<CommitOutcome>, HaltReason> {
    let active_ms = u64::try_from(run.active_time().as_millis()).unwrap_or(u64::MAX);
    let step = log::StepEntry {
        path: match scope {
            GraphScope::Outer => String::new(),
            GraphScope::Inner { path, .. } => path.to_string(),
        },
        tasks,
        at: StoredPosition::from_position(&at.position, graph),
        active_ms,
        goto_parent: at.goto_parent.clone(),
    };
    let body = log::to_json_bytes(&step);
    let commit = match scope {
        GraphScope::Inner { .. } => Commit {
            entries: vec![NewEntry { kind: EntryKind::Inner, body, parent: None, base: 0, snapshot: None }],
            usage,
            durability: Durability::Later,
            ..Commit::default()
        },
        GraphScope::Outer => {
            at.add_log_bytes(run.take_subgraph_bytes());
            let mut entries = vec![at.step_entry(graph, body, step.at, active_ms)];
            if ended {
                entries.push(at.new_entry(EntryKind::Finished, b"{}".to_vec()));
            }
            let status = ended.then_some(NewStatus { status: RunStatus::Finished, error: None });
            let durability = match ended && !failpoint::mutant("end_before_sync") {
                true => Durability::Now,
                false => Durability::Later,
            };
            Commit { entries, clear_records: true, usage, steps: 1, status, durability, ..Commit::default() }
        }
    };
    let committed = match scope {
        GraphScope::Outer => run.commit_within(None, commit).await?,
        GraphScope::Inner { path, .. } => {
            return write_subgraph_step(run.clone(), path.clone(), commit).await;
        }
    };
    failpoint::hit("commit.after_publish");
    run.clear_subgraph_steps();
    at.note_step_written(committed.as_ref().map(|committed| committed.head), ended);
    Ok(committed)
}

/// Writes a step of a subgraph. A cancel or a timeout may drop the node around it in the middle; the write and what is
/// known of it must stay together, so it goes on in a task of its own.
async fn write_subgraph_step(
    run: Arc<RunContext>,
    path: TaskPath,
    commit: Commit,
) -> Result<Option<CommitOutcome>, HaltReason> {
    // A new try of the node waits until this step is known to have been written or not.
    let permit = run.subgraph_write_lock(&path).lock_owned().await;
    let writing = tokio::spawn(async move {
        let _permit = permit;
        let body = commit.entries[0].body.clone();
        let committed = run.commit_within(Some(&path), commit).await?;
        failpoint::hit("commit.after_publish");
        run.add_subgraph_step(&path, body);
        Ok(committed)
    });
    match writing.await {
        Ok(written) => written,
        Err(error) => Err(HaltReason::Lost(StoreError::Other(error.into()))),
    }
}

/// The question of a breakpoint that stands here, before what is due or after what finished, and was not answered yet.
fn unanswered_breakpoint<S: State>(
    graph: &BuiltGraph<S>,
    run: &RunContext,
    scope: &GraphScope,
    at: &ThreadState<S>,
) -> Option<PendingQuestion> {
    let name = |ix: plan::NodeIndex| &graph.node(ix).name;
    let before = at.position.due.iter().map(|task| task.node).find(|ix| {
        graph.node(*ix).pause_before
            || (!run.pause_before.is_empty() && run.pause_before.contains(&**name(*ix)))
    });
    let after = at.finished.iter().copied().find(|ix| {
        graph.node(*ix).pause_after || (!run.pause_after.is_empty() && run.pause_after.contains(&**name(*ix)))
    });
    let (node, side) = before.map(|ix| (ix, "before")).or(after.map(|ix| (ix, "after")))?;
    let id = QuestionId { path: scope.task_path(at.position.step, 0), key: RecordKey::Breakpoint };
    if run.is_answered(&id) {
        return None;
    }
    let due: Vec<&str> = at.position.due.iter().map(|task| &**name(task.node)).collect();
    Some(PendingQuestion {
        id: id.to_string(),
        node: name(node).to_string(),
        kind: QuestionKind::Breakpoint,
        question: serde_json::json!({ "pause": side, "due": due }),
        problem: None,
    })
}

/// The record that makes a question answerable.
fn open_question_record(question: &PendingQuestion) -> Result<Record, HaltReason> {
    let QuestionId { path, key } = question
        .id
        .parse::<QuestionId>()
        .map_err(|error| HaltReason::failed(failure::STATE_MISMATCH, error.to_string()))?;
    let (path, key) = (path.to_string(), key.to_string());
    Ok(Record { path, key, stage: RecordStage::Open, body: Vec::new() })
}

/// Runs a graph without a store, to its end.
pub(crate) async fn drive_without_store<S: State>(
    graph: &Arc<BuiltGraph<S>>,
    run: Arc<RunContext>,
    input: S::Update,
) -> Result<(DriveOutcome, Arc<S>), HaltReason> {
    let mut at: ThreadState<S> = ThreadState::new(plan::start_position(&graph.plan_topology, &graph.start));
    at.apply_update(input);
    let (ended, _) = drive(graph, &run, &GraphScope::Outer, &mut at).await?;
    Ok((ended, at.state))
}

/// Runs a graph inside a task of another, from where the task was before a restart.
pub(crate) async fn drive_subgraph<S: State>(
    graph: Arc<BuiltGraph<S>>,
    run: Arc<RunContext>,
    path: TaskPath,
    name: Arc<str>,
    depth: usize,
    input: S::Update,
) -> Result<(DriveOutcome, ThreadState<S>), HaltReason> {
    let mut at: ThreadState<S> = ThreadState::new(plan::start_position(&graph.plan_topology, &graph.start));
    at.apply_update(input);
    for body in run.subgraph_steps(&path).await {
        log_replay::fold_subgraph_step(&graph, &mut at, &body)
            .map_err(|error| HaltReason::failed(failure::STATE_MISMATCH, error.to_string()))?;
    }
    if let Some(unknown) = &at.unknown_node {
        return Err(HaltReason::failed(failure::GRAPH_CHANGED, unknown.to_string()));
    }
    let (ended, _) = drive(&graph, &run, &GraphScope::Inner { path, name, depth }, &mut at).await?;
    Ok((ended, at))
}

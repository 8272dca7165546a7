//! Runs a graph, superstep by superstep: calls the nodes that [`plan`](crate::plan) says are due, folds what they
//! propose, writes it down, goes on. One loop for every run, with or without a store, watched or not, outermost
//! graph or subgraph.
//!
//! Retries and timeouts are in `task`; panics in `panic`; side by side is in `fan`; rebuilding a state from the log is
//! in `fold`; how a run ends is in `end`.

mod end;
mod fan;
mod fold;
mod panic;
mod run_cx;
mod step;
mod task;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::failpoint;
use crate::failure;
use crate::graph::Core;
use crate::log::{self, AskKind, Place, Question};
use crate::plan;
use crate::state::State;
use crate::store::{
    Commit, Committed, EntryKind, NewEntry, NewStatus, Record, RunFailure, Stage, Status, StoreError, Usage,
};

pub(crate) use end::{base_after, cancel_claimed, end_cancelled, write_failure};
use end::{cancel_paused, finish_at_once};
pub(crate) use fold::{At, readable, rebuild};
pub(crate) use panic::caught;
pub use run_cx::Limits;
pub(crate) use run_cx::{Journal, RunCx, Tip};
pub(crate) use task::Spent;

/// The key of a breakpoint's answer. Keys of calls hold a `#`, so no call has this one.
const BREAK: &str = "break";

/// How driving ended, when it ended well.
pub(crate) enum Ended {
    Finished,
    Paused(Vec<Question>),
}

/// Why driving stopped before the end.
#[derive(Debug)]
pub(crate) enum Halt {
    Failed {
        failure: RunFailure,
        node: Option<String>,
        usage: Usage,
        records: Vec<Record>,
    },
    Cancelled,
    /// Let go at a step boundary; somebody goes on later.
    Released,
    /// The store refused: another worker has the run, or nobody knows.
    Lost(StoreError),
}

impl Halt {
    pub(crate) fn failed(code: &str, message: String) -> Self {
        Self::Failed {
            failure: RunFailure { code: code.into(), message },
            node: None,
            usage: Usage::default(),
            records: Vec::new(),
        }
    }
}

impl Halt {
    /// The same, and these records are written and this is booked with it.
    fn keeping(self, more: Vec<Record>, spent: Usage) -> Self {
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

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Lost(error)
    }
}

/// Which graph of the run this is.
pub(crate) enum Scope {
    /// The run's own.
    Outer,
    /// One inside the task with this path.
    Inner(String),
}

impl Scope {
    /// Path of the task at this place of a step.
    fn path(&self, step: u32, place: usize) -> String {
        match self {
            Self::Outer => format!("{step}.{place}"),
            Self::Inner(outer) => format!("{outer}/{step}.{place}"),
        }
    }

    fn is_outer(&self) -> bool {
        matches!(self, Self::Outer)
    }
}

/// Drives a whole run to its end or its next pause and writes how it ended.
pub(crate) async fn drive_run<S: State>(
    graph: &Arc<Core<S>>,
    run: &Arc<RunCx>,
    at: &mut At<S>,
) -> Result<(Ended, Option<Committed>), Halt> {
    if run.cancel.is_cancelled() {
        return Err(end_cancelled(run).await);
    }
    match drive(graph, run, &Scope::Outer, at).await {
        Ok((Ended::Paused(asks), _)) => {
            let records =
                asks.iter().filter_map(open_record).chain(std::mem::take(&mut at.unsaved)).collect();
            let body = log::bytes(&log::Paused { asks: asks.clone() });
            let commit = Commit {
                entries: vec![at.entry(EntryKind::Paused, body)],
                records,
                usage: std::mem::take(&mut at.unbooked),
                status: Some(NewStatus { status: Status::Paused, error: None }),
                ..Commit::default()
            };
            let committed = run.commit(commit).await?;
            failpoint::hit("interrupt.after_commit");
            if run.cancel.is_cancelled() {
                return Err(cancel_paused(run).await);
            }
            Ok((Ended::Paused(asks), committed))
        }
        Ok(ended) => Ok(ended),
        Err(Halt::Cancelled) => Err(end_cancelled(run).await),
        Err(halt @ Halt::Failed { .. }) => Err(write_failure(run, at, halt).await),
        Err(halt) => Err(halt),
    }
}

/// The loop.
pub(crate) async fn drive<S: State>(
    graph: &Arc<Core<S>>,
    run: &Arc<RunCx>,
    scope: &Scope,
    at: &mut At<S>,
) -> Result<(Ended, Option<Committed>), Halt> {
    let mut last = None;
    let mut ended = false;
    while !ended {
        let over = at.position.due.is_empty();
        if !over {
            if scope.is_outer() && run.release.is_cancelled() {
                return Err(Halt::Released);
            }
            run.check_limits().map_err(|limit| Halt::failed(failure::LIMIT_EXCEEDED, limit.to_string()))?;
        }
        if let Some(question) = breakpoint(graph, run, scope, at) {
            return Ok((Ended::Paused(vec![question]), None));
        }
        if over {
            // Nothing was due from the beginning, or a breakpoint stood after the last step.
            if scope.is_outer() {
                last = finish_at_once(run, at).await?;
            }
            break;
        }
        match step::run(graph, run, scope, at).await? {
            step::StepEnd::Done(done) => {
                (last, ended) = fold_and_write(graph, run, scope, at, done).await?;
            }
            step::StepEnd::Paused { asks, records, usage } => {
                if scope.is_outer() {
                    (at.unsaved, at.unbooked) = (records, usage);
                } else {
                    run.commit(Commit { records, usage, ..Commit::default() }).await?;
                }
                return Ok((Ended::Paused(asks), None));
            }
        }
        if run.cancel.is_cancelled() && !ended {
            return Err(Halt::Cancelled);
        }
    }
    Ok((Ended::Finished, last))
}

/// Folds the updates of a finished step, finds out what is due, and writes the step as one transaction. Tells whether
/// that was the end.
async fn fold_and_write<S: State>(
    graph: &Arc<Core<S>>,
    run: &Arc<RunCx>,
    scope: &Scope,
    at: &mut At<S>,
    done: Vec<task::Done<S::Update>>,
) -> Result<(Option<Committed>, bool), Halt> {
    let mut usage = Usage::default();
    done.iter().for_each(|done| usage += done.unbooked());
    let tasks: Vec<log::TaskDone> = at
        .position
        .due
        .iter()
        .zip(&done)
        .filter_map(|(task, done)| step::stored(graph, task, done))
        .collect();
    // Reducers and branches are not the engine's code. What is half folded when one panics is not written.
    let folded = catch_unwind(AssertUnwindSafe(|| fold_updates(graph, at, done))).unwrap_or_else(|panic| {
        let nodes: Vec<String> =
            at.position.due.iter().map(|task| format!("`{}`", graph.node(task.node).name)).collect();
        let said = panic::said(&*panic);
        let message = format!("a reducer or branch after {} panicked: {said}", nodes.join(", "));
        Err(Halt::failed(failure::PANIC, message))
    });
    if let Err(halt) = folded {
        return Err(halt.keeping(step::results(scope, at.position.step, &tasks), usage));
    }
    run.stepped();
    let ended = at.position.due.is_empty() && breakpoint(graph, run, scope, at).is_none();
    if run.journal.is_none() {
        return Ok((None, ended));
    }
    Ok((write_step(graph, run, scope, at, tasks, usage, ended).await?, ended))
}

/// Folds the updates of a finished step and moves on to what is due after it.
fn fold_updates<S: State>(
    graph: &Arc<Core<S>>,
    at: &mut At<S>,
    done: Vec<task::Done<S::Update>>,
) -> Result<(), Halt> {
    // Tasks of one node lie side by side, and lead on as one.
    let mut nodes: Vec<plan::Ix> = at.position.due.iter().map(|task| task.node).collect();
    nodes.dedup();
    let state = Arc::make_mut(&mut at.state);
    for done in done {
        state.apply(done.update);
    }
    let mut routes = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let next = graph.route(*node, state).map_err(|astray| {
            Halt::failed(failure::UNDECLARED_TARGET, astray.told(&graph.node(*node).name))
        })?;
        routes.push((*node, next));
    }
    let position = plan::advance(&graph.topology, &at.position, routes).map_err(|stuck| {
        let name = |ix: &plan::Ix| format!("`{}`", graph.node(*ix).name);
        let missing: Vec<String> = stuck.missing.iter().map(name).collect();
        let message = format!("join {} still waits for {}", name(&stuck.join), missing.join(", "));
        Halt::failed(failure::STUCK_JOIN, message)
    })?;
    at.finished = nodes;
    at.position = position;
    Ok(())
}

async fn write_step<S: State>(
    graph: &Arc<Core<S>>,
    run: &Arc<RunCx>,
    scope: &Scope,
    at: &mut At<S>,
    tasks: Vec<log::TaskDone>,
    usage: Usage,
    ended: bool,
) -> Result<Option<Committed>, Halt> {
    let active_ms = u64::try_from(run.active().as_millis()).unwrap_or(u64::MAX);
    let step = log::Step {
        path: match scope {
            Scope::Outer => String::new(),
            Scope::Inner(path) => path.clone(),
        },
        tasks,
        at: Place::of(&at.position, graph),
        active_ms,
    };
    let body = log::bytes(&step);
    let commit = match scope {
        Scope::Inner(_) => Commit {
            entries: vec![NewEntry { kind: EntryKind::Inner, body, parent: None, base: 0, snapshot: None }],
            usage,
            ..Commit::default()
        },
        Scope::Outer => {
            at.add_weight(run.take_inner_bytes());
            let mut entries = vec![at.step_entry(graph, body, step.at, active_ms)];
            if ended {
                entries.push(at.entry(EntryKind::Finished, b"{}".to_vec()));
            }
            let status = ended.then_some(NewStatus { status: Status::Finished, error: None });
            Commit { entries, clear_records: true, usage, steps: 1, status, ..Commit::default() }
        }
    };
    let committed = match scope {
        Scope::Outer => run.commit_within(None, commit).await?,
        Scope::Inner(path) => return write_inner(run.clone(), path.clone(), commit).await,
    };
    failpoint::hit("event.before_publish");
    run.drop_inner();
    at.wrote(committed.map(|committed| committed.head), ended);
    Ok(committed)
}

/// Writes a step of a subgraph. A cancel or a timeout may drop the node around it in the middle; the write and what is
/// known of it must stay together, so it goes on in a task of its own.
async fn write_inner(run: Arc<RunCx>, path: String, commit: Commit) -> Result<Option<Committed>, Halt> {
    // Whoever begins the node again waits until this step is known to have been written or not.
    let turn = run.inner_turn(&path).lock_owned().await;
    let writing = tokio::spawn(async move {
        let _turn = turn;
        let body = commit.entries[0].body.clone();
        let committed = run.commit_within(Some(&path), commit).await?;
        failpoint::hit("event.before_publish");
        run.keep_inner(&path, body);
        Ok(committed)
    });
    match writing.await {
        Ok(written) => written,
        Err(error) => Err(Halt::Lost(StoreError::Other(error.into()))),
    }
}

/// The question of a breakpoint that stands here, before what is due or after what finished, and was not answered yet.
fn breakpoint<S: State>(graph: &Core<S>, run: &RunCx, scope: &Scope, at: &At<S>) -> Option<Question> {
    let name = |ix: plan::Ix| &graph.node(ix).name;
    let before = at.position.due.iter().map(|task| task.node).find(|ix| {
        graph.node(*ix).pause_before
            || (!run.pause_before.is_empty() && run.pause_before.contains(&**name(*ix)))
    });
    let after = at.finished.iter().copied().find(|ix| {
        graph.node(*ix).pause_after || (!run.pause_after.is_empty() && run.pause_after.contains(&**name(*ix)))
    });
    let (node, side) = before.map(|ix| (ix, "before")).or(after.map(|ix| (ix, "after")))?;
    let path = scope.path(at.position.step, 0);
    if run.answered(&path, BREAK) {
        return None;
    }
    let due: Vec<&str> = at.position.due.iter().map(|task| &**name(task.node)).collect();
    Some(Question {
        id: format!("{path}:{BREAK}"),
        node: name(node).to_string(),
        kind: AskKind::Breakpoint,
        question: serde_json::json!({ "pause": side, "due": due }),
        problem: None,
    })
}

/// The record that makes a question answerable.
fn open_record(question: &Question) -> Option<Record> {
    let (path, key) = question.id.split_once(':')?;
    Some(Record { path: path.into(), key: key.into(), stage: Stage::Open, body: Vec::new() })
}

/// Runs a graph without a store, to its end.
pub(crate) async fn drive_alone<S: State>(
    graph: &Arc<Core<S>>,
    run: Arc<RunCx>,
    input: S::Update,
) -> Result<(Ended, Arc<S>), Halt> {
    let mut at: At<S> = At::fresh(plan::begin(&graph.topology, &graph.start));
    Arc::make_mut(&mut at.state).apply(input);
    let (ended, _) = drive(graph, &run, &Scope::Outer, &mut at).await?;
    Ok((ended, at.state))
}

/// Runs a graph inside a task of another, going on where an earlier life of the task had come to.
pub(crate) async fn drive_inner<S: State>(
    graph: &Arc<Core<S>>,
    run: &Arc<RunCx>,
    path: &str,
    input: S::Update,
) -> Result<(Ended, Arc<S>), Halt> {
    let mut at: At<S> = At::fresh(plan::begin(&graph.topology, &graph.start));
    Arc::make_mut(&mut at.state).apply(input);
    for body in run.inner_steps(path).await {
        fold::fold_inner(graph, &mut at, &body)
            .map_err(|error| Halt::failed(failure::STATE_MISMATCH, error.to_string()))?;
    }
    if let Some(astray) = &at.astray {
        return Err(Halt::failed(failure::GRAPH_CHANGED, astray.to_string()));
    }
    let (ended, _) = drive(graph, run, &Scope::Inner(path.to_owned()), &mut at).await?;
    Ok((ended, at.state))
}

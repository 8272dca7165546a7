//! One superstep: runs what is due side by side and keeps the results of finished siblings when one does not finish.

use std::sync::Arc;

use crate::drive::fan::side_by_side;
use crate::drive::task::{self, BOOKED, Done, RESULT, SPENT, TaskEnd};
use crate::drive::{At, Halt, RunCx, Scope};
use crate::failure;
use crate::graph::Core;
use crate::log::{self, Question, TaskDone};
use crate::plan::Task;
use crate::state::{Snap, State};
use crate::store::{Record, Stage, Usage};

pub(crate) enum StepEnd<U> {
    /// All tasks finished; their results in order.
    Done(Vec<Done<U>>),
    /// Some wait. `records` hold what the others did, `usage` what all of them spent; neither is written yet.
    Paused { asks: Vec<Question>, records: Vec<Record>, usage: Usage },
}

/// Runs the tasks that are due.
pub(crate) async fn run<S: State>(
    graph: &Arc<Core<S>>,
    run: &Arc<RunCx>,
    scope: &Scope,
    at: &At<S>,
) -> Result<StepEnd<S::Update>, Halt> {
    let step = at.position.step;
    let start = |place: usize, task: &Task| {
        let path = scope.path(step, place);
        task::run(graph.clone(), run.clone(), task.clone(), path, Snap(at.state.clone()))
    };
    let ends = match at.position.due.as_slice() {
        [only] => vec![start(0, only).await],
        several => {
            let tasks = several.iter().enumerate().map(|(place, task)| Box::pin(start(place, task)) as _);
            gather(graph, run, scope, at, tasks.collect()).await?
        }
    };
    settle(graph, scope, at, ends)
}

type Running<U> = std::pin::Pin<Box<dyn Future<Output = TaskEnd<U>> + Send>>;

/// Waits for all tasks. What finished while others still run is recorded at once, so that it never runs again.
async fn gather<S: State>(
    graph: &Core<S>,
    run: &RunCx,
    scope: &Scope,
    at: &At<S>,
    tasks: Vec<Running<S::Update>>,
) -> Result<Vec<TaskEnd<S::Update>>, Halt> {
    let count = tasks.len();
    let mut ends: Vec<Option<TaskEnd<S::Update>>> = (0..count).map(|_| None).collect();
    let mut fan = side_by_side(tasks);
    let mut left = count;
    while left > 0 {
        let mut came = vec![fan.next().await.ok_or_else(|| {
            Halt::failed(failure::ABORTED, "a task was aborted from outside the engine".to_owned())
        })?];
        while let Some(more) = fan.try_next() {
            came.push(more);
        }
        left -= came.len();
        let mut records = Vec::new();
        for (place, end) in came {
            if left > 0 && run.journal.is_some() {
                records.extend(finished(graph, scope, at, place, &end));
            }
            ends[place] = Some(end);
        }
        run.record(records).await?;
    }
    Ok(ends.into_iter().flatten().collect())
}

/// What the ends of all tasks mean for the step. The worst wins; finished siblings are kept.
fn settle<S: State>(
    graph: &Core<S>,
    scope: &Scope,
    at: &At<S>,
    ends: Vec<TaskEnd<S::Update>>,
) -> Result<StepEnd<S::Update>, Halt> {
    if ends.iter().any(|end| matches!(end, TaskEnd::Cancelled)) {
        return Err(Halt::Cancelled);
    }
    if ends.iter().all(|end| matches!(end, TaskEnd::Done(_))) {
        let done = ends.into_iter().filter_map(|end| match end {
            TaskEnd::Done(done) => Some(done),
            _ => None,
        });
        return Ok(StepEnd::Done(done.collect()));
    }
    let mut records = Vec::new();
    let mut asks = Vec::new();
    let mut failed = None;
    let mut usage = Usage::default();
    for (place, (end, task)) in ends.into_iter().zip(&at.position.due).enumerate() {
        let path = scope.path(at.position.step, place);
        records.extend(finished(graph, scope, at, place, &end));
        let amounts = match end {
            TaskEnd::Lost(error) => return Err(Halt::Lost(error)),
            TaskEnd::Cancelled => continue,
            TaskEnd::Done(done) => {
                usage += done.unbooked();
                records.extend(booked(path, done.usage));
                continue;
            }
            TaskEnd::Paused { asks: mut more, spent } => {
                asks.append(&mut more);
                spent
            }
            TaskEnd::Failed { failure, spent } => {
                failed.get_or_insert((failure, graph.node(task.node).name.to_string()));
                spent
            }
        };
        usage += amounts.unbooked;
        // Booked with the end of this claim, so that the task does not count them again.
        if !amounts.all.is_empty() {
            let body = log::bytes(&amounts.all);
            records.push(Record { path, key: SPENT.into(), stage: Stage::Done, body });
        }
    }
    match failed {
        Some((failure, node)) => Err(Halt::Failed { failure, node: Some(node), usage, records }),
        None => Ok(StepEnd::Paused { asks, records, usage }),
    }
}

/// The record of a finished task of an unfinished step.
fn finished<S: State>(
    graph: &Core<S>,
    scope: &Scope,
    at: &At<S>,
    place: usize,
    end: &TaskEnd<S::Update>,
) -> Option<Record> {
    let TaskEnd::Done(done) = end else { return None };
    if done.replayed {
        return None;
    }
    let stored = stored(graph, &at.position.due[place], done)?;
    let path = scope.path(at.position.step, place);
    Some(Record { path, key: RESULT.into(), stage: Stage::Done, body: log::bytes(&stored) })
}

/// Says of a finished task of an unfinished step that the row of the run counts what it spent.
fn booked(path: String, usage: Usage) -> Option<Record> {
    (!usage.is_zero()).then(|| Record { path, key: BOOKED.into(), stage: Stage::Done, body: Vec::new() })
}

/// The records of a step whose tasks all finished, but which could not be folded.
pub(crate) fn results(scope: &Scope, step: u32, tasks: &[TaskDone]) -> Vec<Record> {
    let records = |(place, done): (usize, &TaskDone)| {
        let path = scope.path(step, place);
        let body = log::bytes(done);
        let result = Record { path: path.clone(), key: RESULT.into(), stage: Stage::Done, body };
        [Some(result), booked(path, done.usage)].into_iter().flatten()
    };
    tasks.iter().enumerate().flat_map(records).collect()
}

/// The stored form of what a task did. A run without a store has none.
pub(crate) fn stored<S: State>(graph: &Core<S>, task: &Task, done: &Done<S::Update>) -> Option<TaskDone> {
    Some(TaskDone {
        node: graph.node(task.node).name.to_string(),
        update: done.json.clone()?,
        ms: done.ms,
        attempts: done.attempts,
        cached: done.cached,
        usage: done.usage,
        notes: done.notes.clone(),
    })
}

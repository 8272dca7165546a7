//! One superstep: runs what is due side by side and keeps the results of finished siblings when one does not finish.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::drive::fan_out::run_concurrently;
use crate::drive::task::{self, FinishedTask, TaskOutcome};
use crate::drive::{GraphScope, HaltReason, RunContext, ThreadState};
use crate::failpoint::mutant;
use crate::failure;
use crate::graph::BuiltGraph;
use crate::log::{self, StoredTaskResult};
use crate::plan::PlannedTask;
use crate::question::PendingQuestion;
use crate::state::{Snap, State};
use crate::store::{Record, RecordStage, RunUsage};
use crate::task_path::{RecordKey, TaskPath};

pub(crate) enum StepOutcome<U> {
    /// All tasks finished; their results in order.
    Done(Vec<FinishedTask<U>>),
    /// Some wait. `records` hold what the others did, `usage` what all of them spent; neither is written yet.
    Paused { asks: Vec<PendingQuestion>, records: Vec<Record>, usage: RunUsage },
}

/// Runs the tasks that are due.
pub(crate) async fn run_superstep<S: State>(
    graph: &Arc<BuiltGraph<S>>,
    run: &Arc<RunContext>,
    scope: &GraphScope,
    at: &ThreadState<S>,
) -> Result<StepOutcome<S::Update>, HaltReason> {
    let step = at.position.step;
    let start = |place: usize, task: &PlannedTask| {
        let path = scope.task_path(step, place);
        let named = (scope.name(run), scope.depth());
        task::run_task(graph.clone(), run.clone(), named, task.clone(), path, Snap(at.state.clone()))
    };
    let ends = match at.position.due.as_slice() {
        [only] => vec![start(0, only).await],
        several => {
            let tasks = several.iter().enumerate().map(|(place, task)| Box::pin(start(place, task)) as _);
            wait_for_tasks(graph, run, scope, at, tasks.collect()).await?
        }
    };
    combine_task_outcomes(graph, scope, at, ends)
}

type TaskFuture<U> = std::pin::Pin<Box<dyn Future<Output = TaskOutcome<U>> + Send>>;

/// Waits for all tasks. What finished while others have to wait is recorded at once, so that it never runs again.
async fn wait_for_tasks<S: State>(
    graph: &BuiltGraph<S>,
    run: &RunContext,
    scope: &GraphScope,
    at: &ThreadState<S>,
    tasks: Vec<TaskFuture<S::Update>>,
) -> Result<Vec<TaskOutcome<S::Update>>, HaltReason> {
    let count = tasks.len();
    let mut ends: Vec<Option<TaskOutcome<S::Update>>> = (0..count).map(|_| None).collect();
    let mut fan = run_concurrently(tasks, run.max_tasks_per_step);
    let mut left = count;
    while left > 0 {
        let finished = fan.next_batch().await.ok_or_else(|| {
            HaltReason::failed(failure::ABORTED, "a task was aborted from outside the engine".to_owned())
        })?;
        left -= finished.len();
        let mut records = Vec::new();
        for (place, end) in finished {
            if left > 0 && run.journal.is_some() {
                records.extend(finished_task_record(graph, scope, at, place, &end));
            }
            ends[place] = Some(end);
        }
        run.write_records(records).await?;
    }
    Ok(ends.into_iter().flatten().collect())
}

/// What the ends of all tasks mean for the step. The worst wins; finished siblings are kept.
fn combine_task_outcomes<S: State>(
    graph: &BuiltGraph<S>,
    scope: &GraphScope,
    at: &ThreadState<S>,
    ends: Vec<TaskOutcome<S::Update>>,
) -> Result<StepOutcome<S::Update>, HaltReason> {
    if ends.iter().any(|end| matches!(end, TaskOutcome::Cancelled)) {
        return Err(HaltReason::Cancelled);
    }
    if ends.iter().all(|end| matches!(end, TaskOutcome::Done(_))) {
        let done = ends.into_iter().filter_map(|end| match end {
            TaskOutcome::Done(done) => Some(done),
            _ => None,
        });
        return Ok(StepOutcome::Done(done.collect()));
    }
    let mut records = Vec::new();
    let mut asks = Vec::new();
    let mut failed = None;
    let mut usage = RunUsage::default();
    for (place, (end, task)) in ends.into_iter().zip(&at.position.due).enumerate() {
        let path = scope.task_path(at.position.step, place);
        records.extend(finished_task_record(graph, scope, at, place, &end));
        let amounts = match end {
            TaskOutcome::Lost(error) => return Err(error.into()),
            TaskOutcome::Cancelled => continue,
            TaskOutcome::Done(done) => {
                usage += done.unbooked_usage();
                records.extend(booked_usage_record(&path, done.usage));
                continue;
            }
            TaskOutcome::Paused { asks: mut more, spent } => {
                asks.append(&mut more);
                spent
            }
            TaskOutcome::Failed { failure, spent } => {
                failed.get_or_insert((failure, graph.node(task.node).name.to_string()));
                spent
            }
        };
        usage += amounts.unbooked_usage;
        // Booked with the end of this claim, so that the task does not count them again.
        if !amounts.all_amounts.is_empty() {
            let body = log::to_json_bytes(&amounts.all_amounts);
            records.push(done_record(&path, &RecordKey::SpentUsage, body));
        }
    }
    match failed {
        Some((failure, node)) => Err(HaltReason::Failed { failure, node: Some(node), usage, records }),
        None => Ok(StepOutcome::Paused { asks, records, usage }),
    }
}

/// The record of a finished task of an unfinished step.
fn finished_task_record<S: State>(
    graph: &BuiltGraph<S>,
    scope: &GraphScope,
    at: &ThreadState<S>,
    place: usize,
    end: &TaskOutcome<S::Update>,
) -> Option<Record> {
    let TaskOutcome::Done(done) = end else { return None };
    if done.replayed || mutant("drop_finished_siblings") {
        return None;
    }
    let stored = stored_task_result(graph, &at.position.due[place], done, done.json.clone()?);
    let path = scope.task_path(at.position.step, place);
    Some(done_record(&path, &RecordKey::TaskResult, log::to_json_bytes(&stored)))
}

/// Says of a finished task of an unfinished step that the row of the run counts what it spent.
fn booked_usage_record(path: &TaskPath, usage: RunUsage) -> Option<Record> {
    (!usage.is_zero()).then(|| done_record(path, &RecordKey::BookedUsage, Vec::new()))
}

fn done_record(path: &TaskPath, key: &RecordKey, body: Vec<u8>) -> Record {
    Record { path: path.to_string(), key: key.to_string(), stage: RecordStage::Done, body }
}

/// The records of a step whose tasks all finished, but which could not be folded.
pub(crate) fn task_result_records(scope: &GraphScope, step: u32, tasks: &[StoredTaskResult]) -> Vec<Record> {
    let records = |(place, done): (usize, &StoredTaskResult)| {
        let path = scope.task_path(step, place);
        let result = done_record(&path, &RecordKey::TaskResult, log::to_json_bytes(done));
        [Some(result), booked_usage_record(&path, done.usage)].into_iter().flatten()
    };
    tasks.iter().enumerate().flat_map(records).collect()
}

/// The stored form of what a task did, with its update as it is written.
pub(crate) fn stored_task_result<S: State>(
    graph: &BuiltGraph<S>,
    task: &PlannedTask,
    done: &FinishedTask<S::Update>,
    update: Box<RawValue>,
) -> StoredTaskResult {
    StoredTaskResult {
        node: graph.node(task.node).name.to_string(),
        update,
        ms: done.ms,
        attempts: done.attempts,
        cached: done.cached,
        usage: done.usage,
        notes: done.notes.clone(),
        goto: done.goto.clone(),
        goto_parent: done.goto_parent.clone(),
        failure: done.failure.clone(),
    }
}

//! One task: a node, tried until it succeeds, pauses, or fails for good. Timeouts, retries, panics and the cache are
//! here; what the result means for the run is not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, sleep_until};

use crate::drive::RunContext;
use crate::drive::panic::{catch_panic, panic_message};
use crate::drive::run_end::shorten_failure;
use crate::error::{NodeError, NodeErrorKind};
use crate::failpoint;
use crate::failure::{LIMIT_EXCEEDED, NODE_FAILED, NOT_STORABLE, PANIC, STATE_MISMATCH, TIMEOUT};
use crate::graph::{BuiltGraph, BuiltNode, NodeCachePolicy, NodeFuture, RetryPolicy};
use crate::log::{DueTask, StoredTaskResult, UnfinishedTask};
use crate::node_context::{Cx, TaskContext, TaskScratch};
use crate::plan::PlannedTask;
use crate::question::PendingQuestion;
use crate::state::{Snap, State};
use crate::store::{BoxError, RecordStage, RunFailure, RunUsage, StoreError};
use crate::stored_json;
use crate::task_path::{RecordKey, TaskPath};

/// How a task ended.
pub(crate) enum TaskOutcome<U> {
    Done(FinishedTask<U>),
    Paused { asks: Vec<PendingQuestion>, spent: UnfinishedTaskUsage },
    Failed { failure: RunFailure, spent: UnfinishedTaskUsage },
    Cancelled,
    Lost(StoreError),
}

/// What a task spent that did not finish.
#[derive(Default)]
pub(crate) struct UnfinishedTaskUsage {
    /// All amounts it counted, in order, those before a restart included.
    pub all_amounts: Vec<RunUsage>,
    /// What the row of the run does not count yet.
    pub unbooked_usage: RunUsage,
}

/// A task that finished.
pub(crate) struct FinishedTask<U> {
    pub update: U,
    /// The update as it is written; none in a run without a store.
    pub json: Option<Box<RawValue>>,
    pub ms: u64,
    pub attempts: u32,
    pub cached: bool,
    pub usage: RunUsage,
    /// The part of it that the row of the run counts already.
    pub booked_usage: RunUsage,
    pub notes: BTreeMap<String, Value>,
    /// Where it chose to go, in its graph and in the one around it.
    pub goto: Option<Vec<DueTask>>,
    pub goto_parent: Option<Vec<DueTask>>,
    /// Why it failed, when another node handles that.
    pub failure: Option<RunFailure>,
    /// It finished before the step was started again.
    pub replayed: bool,
}

impl<U> FinishedTask<U> {
    /// What it spent and the row of the run does not count yet.
    pub(crate) fn unbooked_usage(&self) -> RunUsage {
        self.usage.saturating_sub(self.booked_usage)
    }
}

/// Runs a task of the graph with this name and so many graphs around it. Whatever panics in it, the key of its cache
/// included, is an error of its node.
pub(crate) async fn run_task<S: State>(
    graph: Arc<BuiltGraph<S>>,
    run: Arc<RunContext>,
    named: (Arc<str>, usize),
    task: PlannedTask,
    path: TaskPath,
    state: Snap<S>,
) -> TaskOutcome<S::Update> {
    let node = graph.node(task.node).name.clone();
    match catch_panic(pin!(run_recorded_task(graph, run, named, task, path, state))).await {
        Ok(end) => end,
        Err(message) => TaskOutcome::Failed {
            failure: RunFailure {
                code: PANIC.into(),
                message: format!("node `{node}`: panicked: {message}"),
            },
            spent: UnfinishedTaskUsage::default(),
        },
    }
}

async fn run_recorded_task<S: State>(
    graph: Arc<BuiltGraph<S>>,
    run: Arc<RunContext>,
    (graph_name, depth): (Arc<str>, usize),
    task: PlannedTask,
    path: TaskPath,
    state: Snap<S>,
) -> TaskOutcome<S::Update> {
    let node = graph.node(task.node);
    let mut scratch = TaskScratch::default();
    let records = run.task_records(&path);
    let mut keyed = Vec::with_capacity(records.len());
    for record in records {
        match record.key.parse::<RecordKey>() {
            Ok(key) => keyed.push((key, record)),
            Err(error) => return failed_on_record(format!("a record of node `{}`: {error}", node.name)),
        }
    }
    let booked = keyed.iter().any(|(key, _)| *key == RecordKey::BookedUsage);
    for (key, record) in keyed {
        match key {
            RecordKey::TaskResult => {
                let end = replay_recorded_result(&record.body, &node.name, booked);
                if let TaskOutcome::Done(done) = &end {
                    run.add_earlier_usage(done.unbooked_usage());
                }
                return end;
            }
            RecordKey::SpentUsage => match stored_json::from_slice(&record.body) {
                Ok(amounts) => scratch.set_earlier_usage(amounts),
                Err(error) => {
                    let what = format!("the recorded usage of node `{}` cannot be read: {error}", node.name);
                    return failed_on_record(what);
                }
            },
            RecordKey::Call(call) if record.stage != RecordStage::Open => {
                scratch.recorded.insert(call, (record.stage, record.body));
            }
            RecordKey::Call(_) | RecordKey::BookedUsage | RecordKey::Breakpoint => {}
        }
    }
    let cached = match &node.cache {
        Some(cache) => {
            let named = (&*graph_name, &*graph);
            match look_up_cached_update(&run, named, node, cache, &state, task.input.as_ref()).await {
                Ok(CacheLookup::Hit(update, json)) => {
                    return TaskOutcome::Done(finished_from_cache(update, json));
                }
                Ok(CacheLookup::Miss(key)) => Some((key, cache.lifetime)),
                Err(error) => return TaskOutcome::Lost(error),
            }
        }
        None => None,
    };
    let begun = Instant::now();
    let cx = Cx(Arc::new(TaskContext {
        run: run.clone(),
        graph_name,
        depth,
        path,
        node: node.name.clone(),
        input: task.input,
        scratch: Mutex::new(scratch),
        flush_lock: tokio::sync::Mutex::default(),
    }));
    failpoint::hit("node.before_start");
    let (end, attempts) = run_with_retries(node, &run, &state, &cx).await;
    let end = end.and_then(|update| {
        let json = match (cx.scratch().note_error.take(), &run.journal) {
            (Some(why), _) => Err(why),
            (None, None) => Ok(None),
            (None, Some(_)) => stored_json::to_readable_json(&update)
                .map(Some)
                .map_err(|error| format!("its update cannot be stored: {error}")),
        };
        json.map(|json| (update, json))
            .map_err(|message| TaskFailure::new(NodeErrorKind::Permanent, NOT_STORABLE, message))
    });
    let (asks, usage, spent, notes, unsaved, (goto, goto_parent)) = {
        let mut scratch = cx.scratch();
        let (asks, notes) = (std::mem::take(&mut scratch.questions), std::mem::take(&mut scratch.notes));
        let chosen = (scratch.goto.take(), scratch.goto_parent.take());
        (asks, scratch.usage, scratch.take_unfinished_usage(), notes, scratch.take_buffered_records(), chosen)
    };
    // A task that runs again, after an answer or a retry of the run, is to see the same time again.
    if (end.is_err() || !asks.is_empty())
        && let Err(error) = run.write_records(unsaved).await
    {
        return TaskOutcome::Lost(error);
    }
    let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let handled = end.as_ref().is_err_and(|failure| node.on_error.is_some() && failure.can_be_handled());
    let ends_run =
        end.as_ref().is_err_and(|failure| !matches!(failure.kind, NodeErrorKind::Store)) && !handled;
    if run.cancel.is_cancelled() || (ends_run && asks.is_empty()) {
        run.add_unfinished_task(UnfinishedTask {
            node: node.name.to_string(),
            ms,
            attempts,
            usage,
            notes: notes.clone(),
        });
    }
    match end {
        _ if run.cancel.is_cancelled() => TaskOutcome::Cancelled,
        Err(TaskFailure { kind: NodeErrorKind::Cancelled, .. }) => TaskOutcome::Cancelled,
        Err(TaskFailure { kind: NodeErrorKind::Store, source, .. }) => {
            TaskOutcome::Lost(match source.downcast::<StoreError>() {
                Ok(error) => *error,
                Err(other) => StoreError::Other(other),
            })
        }
        // A question is a question even when the node swallowed the error that says so, or made another of it.
        Ok(_) | Err(TaskFailure { from_node: true, .. }) if !asks.is_empty() => {
            TaskOutcome::Paused { asks, spent }
        }
        Ok((update, json)) => {
            if let (Some((key, lifetime)), Some(json)) = (cached, &json)
                && let Err(error) = cache_update(&run, &key, json, lifetime).await
            {
                return TaskOutcome::Lost(error);
            }
            let booked = usage.saturating_sub(spent.unbooked_usage);
            TaskOutcome::Done(FinishedTask {
                update,
                json,
                ms,
                attempts,
                cached: false,
                usage,
                booked_usage: booked,
                notes,
                goto,
                goto_parent,
                failure: None,
                replayed: false,
            })
        }
        Err(TaskFailure { code, message, .. }) => {
            let message = format!("node `{}`: {message}", node.name);
            let mut failure = RunFailure { code: code.into_owned(), message };
            if !handled {
                return TaskOutcome::Failed { failure, spent };
            }
            shorten_failure(&mut failure);
            let update = S::Update::default();
            let json = match &run.journal {
                None => None,
                Some(_) => match stored_json::to_readable_json(&update) {
                    Ok(json) => Some(json),
                    Err(_) => return TaskOutcome::Failed { failure, spent },
                },
            };
            TaskOutcome::Done(FinishedTask {
                update,
                json,
                ms,
                attempts,
                cached: false,
                usage,
                booked_usage: usage.saturating_sub(spent.unbooked_usage),
                notes,
                goto: None,
                goto_parent: None,
                failure: Some(failure),
                replayed: false,
            })
        }
    }
}

struct TaskFailure {
    kind: NodeErrorKind,
    code: Cow<'static, str>,
    message: String,
    source: BoxError,
    /// The node gave it, and not somebody who watched the node.
    from_node: bool,
    /// It may be tried again.
    retried: bool,
}

impl TaskFailure {
    fn from_node_error(error: NodeError, retry: &RetryPolicy) -> Self {
        let retried = retry.retries(&error);
        let message = error.to_string();
        let NodeError { kind, code, source } = error;
        let of_node = !matches!(kind, NodeErrorKind::Limit);
        let code = code.unwrap_or(if of_node { NODE_FAILED.into() } else { LIMIT_EXCEEDED.into() });
        Self { kind, code, message, source, from_node: of_node, retried }
    }

    /// Whether it is the node's own failure, and not the end of the whole run.
    fn can_be_handled(&self) -> bool {
        matches!(self.kind, NodeErrorKind::Transient | NodeErrorKind::Permanent | NodeErrorKind::NotDone)
    }

    fn new(kind: NodeErrorKind, code: &'static str, message: String) -> Self {
        let retried = matches!(kind, NodeErrorKind::Transient);
        Self { kind, code: code.into(), source: message.clone().into(), message, from_node: false, retried }
    }
}

async fn run_with_retries<S: State>(
    node: &BuiltNode<S>,
    run: &RunContext,
    state: &Snap<S>,
    cx: &Cx,
) -> (Result<S::Update, TaskFailure>, u32) {
    let mut tried = 0;
    loop {
        tried += 1;
        cx.begin_attempt(tried);
        let outcome = tokio::select! {
            biased;
            outcome = run_attempt(node, state, cx) => outcome,
            () = run.cancel.cancelled() => Err(TaskFailure::new(NodeErrorKind::Cancelled, "cancelled", "cancelled".into())),
            limit = run.wait_for_limit() => Err(TaskFailure::new(NodeErrorKind::Limit, LIMIT_EXCEEDED, limit.to_string())),
        };
        // What a node shows is cut off at the limit, also when it ends without a pause in which it could be stopped.
        let outcome = match run.exceeded_shown_bytes() {
            Some(limit) => Err(TaskFailure::new(NodeErrorKind::Limit, LIMIT_EXCEEDED, limit.to_string())),
            None => outcome,
        };
        let asks = !cx.scratch().questions.is_empty();
        let wait = match &outcome {
            Err(failure) if failure.retried && !(asks && failure.from_node) => {
                node.retry.wait_after(tried, retry_jitter())
            }
            _ => None,
        };
        let (Some(wait), Err(failure)) = (wait, &outcome) else { return (outcome, tried) };
        tracing::debug!(node = %node.name, tried, ?wait, error = failure.message, "trying again");
        if let Some(live) = &run.live_feed {
            live.push_restarted(&node.name, &cx.0.path, tried + 1, &failure.message);
        }
        tokio::select! {
            () = sleep(wait) => {}
            () = run.cancel.cancelled() => return (outcome, tried),
            limit = run.wait_for_limit() => {
                return (Err(TaskFailure::new(NodeErrorKind::Limit, LIMIT_EXCEEDED, limit.to_string())), tried);
            }
        }
    }
}

async fn run_attempt<S: State>(
    node: &BuiltNode<S>,
    state: &Snap<S>,
    cx: &Cx,
) -> Result<S::Update, TaskFailure> {
    let running = match catch_unwind(AssertUnwindSafe(|| node.run.run(state.clone(), cx.clone()))) {
        Ok(running) => running,
        Err(panic) => return Err(panic_failure(&panic_message(&*panic))),
    };
    if node.timeout.total.is_none() && node.timeout.idle.is_none() {
        return poll_node_catching_panic(node, running).await;
    }
    cx.heartbeat();
    tokio::select! {
        biased;
        outcome = poll_node_catching_panic(node, running) => outcome,
        limit = wait_for_timeout(node.timeout.total, node.timeout.idle, cx) => {
            Err(TaskFailure::new(NodeErrorKind::Transient, TIMEOUT, limit))
        }
    }
}

/// Ends when the time is over, with the reason.
async fn wait_for_timeout(total: Option<Duration>, idle: Option<Duration>, cx: &Cx) -> String {
    let begun = Instant::now();
    // A time that no clock can tell never comes.
    let in_all = async {
        match total.and_then(|limit| begun.checked_add(limit)) {
            Some(end) => sleep_until(end).await,
            None => pending().await,
        }
    };
    let silent = async {
        let Some(limit) = idle else { return pending().await };
        loop {
            let sign = cx.last_heartbeat().unwrap_or(begun);
            let Some(until) = sign.checked_add(limit) else { return pending().await };
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    };
    tokio::select! {
        () = in_all => format!("took longer than {:?}", total.unwrap_or_default()),
        () = silent => format!("gave no sign of life for {:?}", idle.unwrap_or_default()),
    }
}

/// Polls a node so that its panic is an error of the node.
async fn poll_node_catching_panic<S: State>(
    node: &BuiltNode<S>,
    running: NodeFuture<S>,
) -> Result<S::Update, TaskFailure> {
    // What decides about retries is not the engine's code either.
    let outcome = async { running.await.map_err(|error| TaskFailure::from_node_error(error, &node.retry)) };
    match catch_panic(pin!(outcome)).await {
        Ok(outcome) => outcome,
        Err(message) => Err(panic_failure(&message)),
    }
}

fn panic_failure(message: &str) -> TaskFailure {
    TaskFailure::new(NodeErrorKind::Permanent, PANIC, format!("panicked: {message}"))
}

/// In 0..1. Spreads waits; nothing stored depends on it.
fn retry_jitter() -> f64 {
    f64::from(u32::from_be_bytes(uuid::Uuid::new_v4().as_bytes()[..4].try_into().unwrap_or_default()))
        / f64::from(u32::MAX)
}

fn replay_recorded_result<U: DeserializeOwned>(body: &[u8], node: &str, booked: bool) -> TaskOutcome<U> {
    let done = stored_json::from_slice::<StoredTaskResult>(body)
        .and_then(|done| Ok((stored_json::from_str(done.update.get())?, done)));
    match done {
        Ok((update, done)) => TaskOutcome::Done(FinishedTask {
            update,
            json: Some(done.update),
            ms: done.ms,
            attempts: done.attempts,
            cached: done.cached,
            usage: done.usage,
            booked_usage: if booked { done.usage } else { RunUsage::default() },
            notes: done.notes,
            goto: done.goto,
            goto_parent: done.goto_parent,
            failure: done.failure,
            replayed: true,
        }),
        Err(error) => {
            failed_on_record(format!("the recorded result of node `{node}` does not fit its state: {error}"))
        }
    }
}

/// A task whose records make no sense.
fn failed_on_record<U>(message: String) -> TaskOutcome<U> {
    TaskOutcome::Failed {
        failure: RunFailure { code: STATE_MISMATCH.into(), message },
        spent: UnfinishedTaskUsage::default(),
    }
}

fn finished_from_cache<U>(update: U, json: Box<RawValue>) -> FinishedTask<U> {
    FinishedTask {
        update,
        json: Some(json),
        ms: 0,
        attempts: 1,
        cached: true,
        usage: RunUsage::default(),
        booked_usage: RunUsage::default(),
        notes: BTreeMap::new(),
        goto: None,
        goto_parent: None,
        failure: None,
        replayed: false,
    }
}

enum CacheLookup<U> {
    Hit(U, Box<RawValue>),
    Miss(String),
}

async fn look_up_cached_update<S: State>(
    run: &RunContext,
    (graph_name, graph): (&str, &BuiltGraph<S>),
    node: &BuiltNode<S>,
    cache: &NodeCachePolicy<S>,
    state: &S,
    input: Option<&Value>,
) -> Result<CacheLookup<S::Update>, StoreError> {
    let mut hash = Sha256::new();
    let input = input.map(Value::to_string).unwrap_or_default();
    // Two graphs of one shape may do different things.
    for part in [graph_name, graph.fingerprint.as_str(), &*node.name, &(cache.key)(state), &input] {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let key = hex::encode(hash.finalize());
    let Some(journal) = &run.journal else { return Ok(CacheLookup::Miss(key)) };
    let tenant = &journal.fence.thread.tenant;
    let found = journal.retry(|| journal.store.cached_value(tenant, &key)).await?;
    let Some(body) = found else { return Ok(CacheLookup::Miss(key)) };
    match serde_json::from_slice::<Box<RawValue>>(&body)
        .and_then(|json| Ok((stored_json::from_str(json.get())?, json)))
    {
        Ok((update, json)) => Ok(CacheLookup::Hit(update, json)),
        // It was written by an older form of the state. The node runs, and its result replaces the value.
        Err(error) => {
            tracing::warn!(node = %node.name, %error, "a cached result does not fit the state");
            Ok(CacheLookup::Miss(key))
        }
    }
}

async fn cache_update(
    run: &RunContext,
    key: &str,
    json: &RawValue,
    lifetime: Option<Duration>,
) -> Result<(), StoreError> {
    let Some(journal) = &run.journal else { return Ok(()) };
    let tenant = &journal.fence.thread.tenant;
    journal.retry(|| journal.store.cache_value(tenant, key, json.get().as_bytes(), lifetime)).await
}

//! One task: a node, tried until it succeeds, pauses, or fails for good. Timeouts, retries, panics and the cache are
//! here; what the result means for the run is not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, sleep_until};

use crate::cx::{Cx, Scratch, TaskCx};
use crate::drive::panic::{caught, said};
use crate::drive::{RunCx, readable};
use crate::error::{Kind, NodeError};
use crate::failpoint;
use crate::failure::{LIMIT_EXCEEDED, NODE_FAILED, NOT_STORABLE, PANIC, STATE_MISMATCH, TIMEOUT};
use crate::graph::{Built, Cache, Core, NodeFuture};
use crate::log::{Question, TaskDone};
use crate::plan::Task;
use crate::state::{Snap, State};
use crate::store::{BoxError, RunFailure, Stage, StoreError, Usage};

/// The key under which a finished task of an unfinished step is recorded.
pub(crate) const RESULT: &str = "=";

/// The key of the amounts that a task which did not finish counted, and the row of the run counts too.
pub(crate) const SPENT: &str = "spent";

/// The key that says of a recorded result that the row of the run counts what it spent.
pub(crate) const BOOKED: &str = "booked";

/// How a task ended.
pub(crate) enum TaskEnd<U> {
    Done(Done<U>),
    Paused { asks: Vec<Question>, spent: Spent },
    Failed { failure: RunFailure, spent: Spent },
    Cancelled,
    Lost(StoreError),
}

/// What a task spent that did not finish.
#[derive(Default)]
pub(crate) struct Spent {
    /// All amounts it counted, in order, those of earlier lives included.
    pub all: Vec<Usage>,
    /// What the row of the run does not count yet.
    pub unbooked: Usage,
}

/// A task that finished.
pub(crate) struct Done<U> {
    pub update: U,
    /// The update as it is written; none in a run without a store.
    pub json: Option<Box<RawValue>>,
    pub ms: u64,
    pub attempts: u32,
    pub cached: bool,
    pub usage: Usage,
    /// The part of it that the row of the run counts already.
    pub booked: Usage,
    pub notes: BTreeMap<String, Value>,
    /// It finished in an earlier life of the step.
    pub replayed: bool,
}

impl<U> Done<U> {
    /// What it spent and the row of the run does not count yet.
    pub(crate) fn unbooked(&self) -> Usage {
        self.usage.minus(self.booked)
    }
}

/// Runs a task. Whatever panics in it, the key of its cache included, is an error of its node.
pub(crate) async fn run<S: State>(
    graph: Arc<Core<S>>,
    run: Arc<RunCx>,
    task: Task,
    path: String,
    state: Snap<S>,
) -> TaskEnd<S::Update> {
    let node = graph.node(task.node).name.clone();
    match caught(run_once(graph, run, task, path, state)).await {
        Ok(end) => end,
        Err(said) => TaskEnd::Failed {
            failure: RunFailure { code: PANIC.into(), message: format!("node `{node}`: panicked: {said}") },
            spent: Spent::default(),
        },
    }
}

async fn run_once<S: State>(
    graph: Arc<Core<S>>,
    run: Arc<RunCx>,
    task: Task,
    path: String,
    state: Snap<S>,
) -> TaskEnd<S::Update> {
    let node = graph.node(task.node);
    let mut scratch = Scratch::default();
    let records = run.records_of(&path);
    let booked = records.iter().any(|record| record.key == BOOKED);
    for record in records {
        match record.key.as_str() {
            RESULT => {
                let end = replay(&record.body, &node.name, booked);
                if let TaskEnd::Done(done) = &end {
                    run.spent_before(done.unbooked());
                }
                return end;
            }
            SPENT => scratch.spent_before(serde_json::from_slice(&record.body).unwrap_or_default()),
            _ if record.stage != Stage::Open => {
                scratch.recorded.insert(record.key, (record.stage, record.body));
            }
            _ => {}
        }
    }
    let cached = match &node.cache {
        Some(cache) => match look_up(&run, &graph, node, cache, &state, task.input.as_ref()).await {
            Ok(Looked::Found(update, json)) => return TaskEnd::Done(from_cache(update, json)),
            Ok(Looked::Missing(key)) => Some((key, cache.lifetime)),
            Err(error) => return TaskEnd::Lost(error),
        },
        None => None,
    };
    let begun = Instant::now();
    let cx = Cx(Arc::new(TaskCx {
        run: run.clone(),
        path,
        node: node.name.clone(),
        input: task.input,
        scratch: Mutex::new(scratch),
    }));
    failpoint::hit("node.before_start");
    let (end, attempts) = attempts(node, &run, &state, &cx).await;
    let end = end.and_then(|update| match run.journal.is_some().then(|| written(&update)).transpose() {
        Ok(json) => Ok((update, json)),
        Err(error) => {
            let message = format!("its update cannot be stored: {error}");
            Err(Failure::new(Kind::Permanent, NOT_STORABLE, message))
        }
    });
    let (asks, usage, spent, notes, unsaved) = {
        let mut scratch = cx.scratch();
        let (asks, notes) = (std::mem::take(&mut scratch.asks), std::mem::take(&mut scratch.notes));
        (asks, scratch.usage, scratch.take_spent(), notes, scratch.take_buffered())
    };
    // A task that runs again, after an answer or a retry of the run, is to see the same time again.
    if (end.is_err() || !asks.is_empty())
        && let Err(error) = run.record(unsaved).await
    {
        return TaskEnd::Lost(error);
    }
    match end {
        _ if run.cancel.is_cancelled() => TaskEnd::Cancelled,
        Err(Failure { kind: Kind::Cancelled, .. }) => TaskEnd::Cancelled,
        Err(Failure { kind: Kind::Store, source, .. }) => {
            TaskEnd::Lost(match source.downcast::<StoreError>() {
                Ok(error) => *error,
                Err(other) => StoreError::Other(other),
            })
        }
        // A question is a question even when the node swallowed the error that says so, or made another of it.
        Ok(_) | Err(Failure { of_node: true, .. }) if !asks.is_empty() => TaskEnd::Paused { asks, spent },
        Ok((update, json)) => {
            if let (Some((key, lifetime)), Some(json)) = (cached, &json)
                && let Err(error) = keep(&run, &key, json, lifetime).await
            {
                return TaskEnd::Lost(error);
            }
            let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let booked = usage.minus(spent.unbooked);
            TaskEnd::Done(Done {
                update,
                json,
                ms,
                attempts,
                cached: false,
                usage,
                booked,
                notes,
                replayed: false,
            })
        }
        Err(Failure { code, message, .. }) => {
            let message = format!("node `{}`: {message}", node.name);
            TaskEnd::Failed { failure: RunFailure { code: code.into_owned(), message }, spent }
        }
    }
}

/// An update as it is written, if it reads back as one.
fn written<U: Serialize + DeserializeOwned>(update: &U) -> Result<Box<RawValue>, serde_json::Error> {
    let json = to_raw_value(update)?;
    if readable::<U>(json.get().as_bytes()) {
        return Ok(json);
    }
    Err(serde::ser::Error::custom("it does not read back: is there a number that is none (NaN)?"))
}

struct Failure {
    kind: Kind,
    code: Cow<'static, str>,
    message: String,
    source: BoxError,
    /// The node gave it, and not somebody who watched the node.
    of_node: bool,
}

impl Failure {
    fn of(error: NodeError) -> Self {
        let message = error.to_string();
        let NodeError { kind, code, source } = error;
        let of_node = !matches!(kind, Kind::Limit);
        let code = if of_node { code.unwrap_or(NODE_FAILED.into()) } else { LIMIT_EXCEEDED.into() };
        Self { kind, code, message, source, of_node }
    }

    fn new(kind: Kind, code: &'static str, message: String) -> Self {
        Self { kind, code: code.into(), source: message.clone().into(), message, of_node: false }
    }
}

async fn attempts<S: State>(
    node: &Built<S>,
    run: &RunCx,
    state: &Snap<S>,
    cx: &Cx,
) -> (Result<S::Update, Failure>, u32) {
    let mut tried = 0;
    loop {
        tried += 1;
        cx.begin_attempt(tried);
        let outcome = tokio::select! {
            biased;
            outcome = attempt(node, state, cx) => outcome,
            () = run.cancel.cancelled() => Err(Failure::new(Kind::Cancelled, "cancelled", "cancelled".into())),
            limit = run.out_of_time() => Err(Failure::new(Kind::Limit, LIMIT_EXCEEDED, limit.to_string())),
        };
        let asks = !cx.scratch().asks.is_empty();
        let wait = match &outcome {
            Err(failure) if matches!(failure.kind, Kind::Transient) && !(asks && failure.of_node) => {
                node.retry.wait(tried, jitter())
            }
            _ => None,
        };
        let (Some(wait), Err(failure)) = (wait, &outcome) else { return (outcome, tried) };
        tracing::debug!(node = %node.name, tried, ?wait, error = failure.message, "trying again");
        if let Some(live) = &run.live {
            live.restarted(&node.name, &cx.0.path, tried + 1, &failure.message);
        }
        tokio::select! {
            () = sleep(wait) => {}
            () = run.cancel.cancelled() => return (outcome, tried),
            limit = run.out_of_time() => {
                return (Err(Failure::new(Kind::Limit, LIMIT_EXCEEDED, limit.to_string())), tried);
            }
        }
    }
}

async fn attempt<S: State>(node: &Built<S>, state: &Snap<S>, cx: &Cx) -> Result<S::Update, Failure> {
    let running = match catch_unwind(AssertUnwindSafe(|| node.run.run(state.clone(), cx.clone()))) {
        Ok(running) => running,
        Err(panic) => return Err(panicked(&said(&*panic))),
    };
    if node.timeout.total.is_none() && node.timeout.idle.is_none() {
        return unwound::<S>(running).await;
    }
    cx.heartbeat();
    tokio::select! {
        biased;
        outcome = unwound::<S>(running) => outcome,
        limit = out_of_time(node.timeout.total, node.timeout.idle, cx) => {
            Err(Failure::new(Kind::Transient, TIMEOUT, limit))
        }
    }
}

/// Ends when the time is over, with the reason.
async fn out_of_time(total: Option<Duration>, idle: Option<Duration>, cx: &Cx) -> String {
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
            let sign = cx.last_sign().unwrap_or(begun);
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
async fn unwound<S: State>(running: NodeFuture<S>) -> Result<S::Update, Failure> {
    match caught(running).await {
        Ok(outcome) => outcome.map_err(Failure::of),
        Err(said) => Err(panicked(&said)),
    }
}

fn panicked(said: &str) -> Failure {
    Failure::new(Kind::Permanent, PANIC, format!("panicked: {said}"))
}

/// In 0..1. Spreads waits; nothing stored depends on it.
fn jitter() -> f64 {
    f64::from(u32::from_be_bytes(uuid::Uuid::new_v4().as_bytes()[..4].try_into().unwrap_or_default()))
        / f64::from(u32::MAX)
}

fn replay<U: DeserializeOwned>(body: &[u8], node: &str, booked: bool) -> TaskEnd<U> {
    let done = serde_json::from_slice::<TaskDone>(body)
        .and_then(|done| Ok((serde_json::from_str(done.update.get())?, done)));
    match done {
        Ok((update, done)) => TaskEnd::Done(Done {
            update,
            json: Some(done.update),
            ms: done.ms,
            attempts: done.attempts,
            cached: done.cached,
            usage: done.usage,
            booked: if booked { done.usage } else { Usage::default() },
            notes: done.notes,
            replayed: true,
        }),
        Err(error) => TaskEnd::Failed {
            failure: RunFailure {
                code: STATE_MISMATCH.into(),
                message: format!("the recorded result of node `{node}` does not fit its state: {error}"),
            },
            spent: Spent::default(),
        },
    }
}

fn from_cache<U>(update: U, json: Box<RawValue>) -> Done<U> {
    Done {
        update,
        json: Some(json),
        ms: 0,
        attempts: 1,
        cached: true,
        usage: Usage::default(),
        booked: Usage::default(),
        notes: BTreeMap::new(),
        replayed: false,
    }
}

enum Looked<U> {
    Found(U, Box<RawValue>),
    Missing(String),
}

async fn look_up<S: State>(
    run: &RunCx,
    graph: &Core<S>,
    node: &Built<S>,
    cache: &Cache<S>,
    state: &S,
    input: Option<&Value>,
) -> Result<Looked<S::Update>, StoreError> {
    let mut hash = Sha256::new();
    let input = input.map(Value::to_string).unwrap_or_default();
    for part in [graph.fingerprint.as_str(), &*node.name, &(cache.key)(state), &input] {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let key: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let Some(journal) = &run.journal else { return Ok(Looked::Missing(key)) };
    let found = journal.store.cached(&journal.fence.thread.tenant, &key).await?;
    // A value that does not fit the state any more is as good as none.
    let fits = |body: Vec<u8>| {
        let json: Box<RawValue> = serde_json::from_slice(&body).ok()?;
        Some((serde_json::from_str(json.get()).ok()?, json))
    };
    match found.and_then(fits) {
        Some((update, json)) => Ok(Looked::Found(update, json)),
        None => Ok(Looked::Missing(key)),
    }
}

async fn keep(run: &RunCx, key: &str, json: &RawValue, lifetime: Option<Duration>) -> Result<(), StoreError> {
    let Some(journal) = &run.journal else { return Ok(()) };
    journal.store.keep(&journal.fence.thread.tenant, key, json.get().as_bytes(), lifetime).await
}

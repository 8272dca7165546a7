//! A node's way to the world. What is done through it is recorded, so that a crash in the middle of a node repeats at
//! most the call in flight, and people can watch, be asked, and stop it.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::drive::{RunCx, Spent, readable};
use crate::error::{Kind, NodeError};
use crate::failpoint;
use crate::failure;
use crate::log::{self, AskKind, Question};
use crate::store::{Record, Stage, Usage};

/// What a node is given besides the state. Cheap to clone.
#[derive(Clone)]
pub struct Cx(pub(crate) Arc<TaskCx>);

pub(crate) struct TaskCx {
    pub run: Arc<RunCx>,
    /// `3.0`, or `3.0/1.2` inside a subgraph.
    pub path: String,
    pub node: Arc<str>,
    pub input: Option<Value>,
    pub scratch: Mutex<Scratch>,
}

/// What a task gathers while it runs.
#[derive(Default)]
pub(crate) struct Scratch {
    pub attempt: u32,
    /// How often each name was used in this attempt.
    used: HashMap<String, u32>,
    /// Recorded calls, by key: from an earlier life of this task, and from this one.
    pub recorded: HashMap<String, (Stage, Vec<u8>)>,
    /// Records that go out with the next write.
    buffered: Vec<Record>,
    /// One of them tells of a call, so no other call is made before they are out.
    owed: bool,
    /// Calls being made.
    under_way: u32,
    pub asks: Vec<Question>,
    /// All that this task spent, in earlier lives too, and the part that the row of the run counts.
    pub usage: Usage,
    booked: Usage,
    pub notes: BTreeMap<String, Value>,
    pub last_sign: Option<Instant>,
    deltas: u64,
    /// Amounts counted so far, and how many of them this attempt has passed.
    spent: Vec<Usage>,
    spent_now: usize,
}

impl Scratch {
    /// What an earlier life of this task counted, and the row of the run counts.
    pub(crate) fn spent_before(&mut self, amounts: Vec<Usage>) {
        amounts.iter().for_each(|amount| self.booked += *amount);
        self.usage = self.booked;
        self.spent = amounts;
    }

    /// What it spent, for whoever books it.
    pub(crate) fn take_spent(&mut self) -> Spent {
        Spent { all: std::mem::take(&mut self.spent), unbooked: self.usage.minus(self.booked) }
    }

    /// Records that no write has taken along yet.
    pub(crate) fn take_buffered(&mut self) -> Vec<Record> {
        self.owed = false;
        std::mem::take(&mut self.buffered)
    }
}

/// When the record of a call is written.
enum When {
    /// Before the node goes on.
    Now,
    /// With the step, when nothing else happens before it.
    WithStep,
}

/// A call that is being made.
struct UnderWay(Cx);

impl UnderWay {
    /// Whether its task makes no other.
    fn alone(&self) -> bool {
        self.0.scratch().under_way == 1
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.scratch().under_way -= 1;
    }
}

/// A call that must not be repeated has no known outcome; somebody said what happened.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settled {
    #[serde(default)]
    retry: bool,
    /// What the call gave, which may well be `null`.
    #[serde(default, deserialize_with = "given")]
    result: Option<Value>,
}

fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Cx {
    /// Makes a call that only reads, or may be repeated freely, and records its result. After a crash the recorded
    /// result is used and `call` is not made again.
    pub fn effect<T, E, F>(
        &self,
        name: &str,
        call: F,
    ) -> impl Future<Output = Result<T, NodeError>> + use<T, E, F>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        self.clone().made(self.key_of(name), When::Now, move |_| call)
    }

    /// As [`Cx::effect`], for the last call of a node that only computes afterwards: the record goes out with the step
    /// and costs no write of its own. Should the node make another call, fail or ask somebody, the record goes out
    /// first. A crash between this call and the end of the node repeats the call.
    pub fn closing_effect<T, E, F>(
        &self,
        name: &str,
        call: F,
    ) -> impl Future<Output = Result<T, NodeError>> + use<T, E, F>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        self.clone().made(self.key_of(name), When::WithStep, move |_| call)
    }

    /// As [`Cx::effect`], for a call to something that knows requests by a key: every attempt, also one after a
    /// crash, gets the same key.
    pub fn idempotent<T, E, F>(
        &self,
        name: &str,
        call: impl FnOnce(String) -> F,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        self.clone().made(self.key_of(name), When::Now, call)
    }

    /// Makes a call that may be made again, or gives what was recorded of it.
    async fn made<T, E, F>(
        self,
        key: String,
        when: When,
        call: impl FnOnce(String) -> F,
    ) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        if let Some(known) = self.replay(&key)? {
            return Ok(known);
        }
        let under_way = self.set_out().await?;
        let value = call(self.stable_key(&key)).await.map_err(Into::into)?;
        let body = storable(&value)?;
        match when {
            // Another call may go on for long, and this one is not to be made again then.
            When::WithStep if under_way.alone() => self.owe(key, body),
            _ => self.record(&key, Stage::Done, body).await?,
        }
        Ok(value)
    }

    /// Makes a call that must never happen twice. That it is about to be made is on disk before it is made; when a
    /// crash, a timeout or an error leaves open whether it happened, the run pauses and asks
    /// ([`AskKind::EffectUnknown`]) instead of repeating it. Only [`NodeError::not_done`] says that it did not happen:
    /// the node then fails with it, and a later try may make the call.
    ///
    /// A person may have to say what the call gave, so let `T` be something a person can write. What is said and is no
    /// `T` is asked for once more, with the reason.
    pub fn once<T, E, F>(
        &self,
        name: &str,
        call: impl FnOnce(String) -> F,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        self.once_about(name, Map::new(), call)
    }

    /// [`once`](Cx::once), with what a person has to know to say whether it happened: these fields stand in the question,
    /// beside `call` and `key`.
    pub fn once_about<T, E, F>(
        &self,
        name: &str,
        about: Map<String, Value>,
        call: impl FnOnce(String) -> F,
    ) -> impl Future<Output = Result<T, NodeError>>
    where
        T: Serialize + DeserializeOwned,
        E: Into<NodeError>,
        F: Future<Output = Result<T, E>>,
    {
        let (cx, mut key) = (self.clone(), self.key_of(name));
        async move {
            loop {
                if let Some(known) = cx.replay(&key)? {
                    return Ok(known);
                }
                if !cx.has(&key) || failpoint::mutant("M12") {
                    break;
                }
                if cx.was_not_done(&key) {
                    key.push('+');
                    continue;
                }
                match cx.settled(&key) {
                    Some(Settled { result: Some(result), .. }) => {
                        // What is recorded stays, so it is looked at before.
                        if let Err(error) = serde_json::from_value::<T>(result.clone()) {
                            return Err(cx.ask_outcome(&key, about, Some(&error)));
                        }
                        cx.record(&key, Stage::Done, log::bytes(&result)).await?;
                    }
                    Some(Settled { retry: true, .. }) => key.push('+'),
                    _ => return Err(cx.ask_outcome(&key, about, None)),
                }
            }
            failpoint::hit("tool.before_intent");
            cx.record(&key, Stage::Begun, Vec::new()).await?;
            failpoint::hit("tool.after_intent");
            let under_way = cx.set_out().await?;
            let outcome = call(cx.stable_key(&key)).await.map_err(Into::into);
            drop(under_way);
            failpoint::hit("tool.after_effect");
            match outcome {
                Ok(value) => {
                    failpoint::hit("tool.before_result");
                    cx.record(&key, Stage::Done, storable(&value)?).await?;
                    Ok(value)
                }
                Err(error) => match error.kind {
                    Kind::NotDone => {
                        cx.record(&key, Stage::Failed, log::bytes(&error.to_string())).await?;
                        Err(error)
                    }
                    Kind::Permanent | Kind::Transient => Err(cx.ask_outcome(&key, about, None)),
                    Kind::Paused | Kind::Cancelled | Kind::Limit | Kind::Store => Err(error),
                },
            }
        }
    }

    /// Asks a person. The run pauses, for days if need be, without a task or memory; when the answer came the node
    /// runs again and this gives the answer. Calls recorded before it are not made again.
    ///
    /// An answer that is not a `T` is asked for once more, with the reason.
    pub fn ask<T: DeserializeOwned, Q: Serialize>(
        &self,
        question: Q,
    ) -> impl Future<Output = Result<T, NodeError>> + use<T, Q> {
        let answer = self.ask_now(question);
        async move { answer }
    }

    fn ask_now<T: DeserializeOwned>(&self, question: impl Serialize) -> Result<T, NodeError> {
        let mut key = self.key_of("ask");
        let mut problem = None;
        loop {
            let known = self.scratch().recorded.get(&key).cloned();
            match known {
                Some((Stage::Done, body)) => match serde_json::from_slice(&body) {
                    Ok(answer) => return Ok(answer),
                    Err(error) => {
                        problem = Some(format!("the answer does not fit: {error}"));
                        key.push('+');
                    }
                },
                _ => {
                    let question = serde_json::to_value(question)?;
                    return Err(self.pause(&key, AskKind::Ask, question, problem));
                }
            }
        }
    }

    /// The time, the same again after a crash.
    pub fn now(&self) -> SystemTime {
        let key = self.key_of("now");
        let mut scratch = self.scratch();
        if let Some((Stage::Done, body)) = scratch.recorded.get(&key)
            && let Ok(millis) = serde_json::from_slice::<u64>(body)
        {
            return UNIX_EPOCH + Duration::from_millis(millis);
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let body = log::bytes(&millis);
        scratch.recorded.insert(key.clone(), (Stage::Done, body.clone()));
        scratch.buffered.push(Record { path: self.0.path.clone(), key, stage: Stage::Done, body });
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    /// A random number, the same again after a crash.
    pub fn random(&self) -> u64 {
        let key = self.key_of("random");
        u64::from_be_bytes(self.digest(&key)[..8].try_into().unwrap_or_default())
    }

    /// An id nobody else has, the same again after a crash.
    pub fn new_id(&self) -> String {
        let key = self.key_of("id");
        hex(&self.digest(&key)[..16])
    }

    /// The item this task was handed by [`To::Each`](crate::To::Each).
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, NodeError> {
        let input = self.0.input.clone().ok_or_else(|| {
            NodeError::permanent(format!("node `{}` was led to without an item", self.0.node))
        })?;
        Ok(serde_json::from_value(input)?)
    }

    /// Shows watchers a piece of text. It is not a record.
    pub fn token(&self, text: impl Into<String>) {
        self.emit(Value::String(text.into()));
    }

    /// Shows watchers something. It is not a record.
    pub fn emit(&self, data: Value) {
        let (attempt, index) = {
            let mut scratch = self.scratch();
            scratch.deltas += 1;
            scratch.last_sign = Some(Instant::now());
            (scratch.attempt, scratch.deltas - 1)
        };
        self.0.run.sign_outward(&self.0.path);
        if let Some(live) = &self.0.run.live {
            live.delta(&self.0.node, &self.0.path, attempt, index, data);
        }
    }

    /// A sign of life, for a node with an idle timeout.
    pub fn heartbeat(&self) {
        self.scratch().last_sign = Some(Instant::now());
        self.0.run.sign_outward(&self.0.path);
    }

    /// When this task, or one of a graph inside it, last gave a sign of life.
    pub(crate) fn last_sign(&self) -> Option<Instant> {
        self.scratch().last_sign.max(self.0.run.sign_within(&self.0.path))
    }

    /// Counts what a call spent. An error says that a limit of the run is reached: pass it on.
    ///
    /// A node that is tried again passes its recorded calls again: the n-th amount is counted once as long as it is
    /// the same.
    pub fn spend(&self, usage: Usage) -> Result<(), NodeError> {
        {
            let mut scratch = self.scratch();
            let nth = scratch.spent_now;
            scratch.spent_now += 1;
            if scratch.spent.get(nth) == Some(&usage) {
                return Ok(());
            }
            scratch.spent.truncate(nth);
            scratch.spent.push(usage);
            scratch.usage += usage;
        }
        self.0.run.spend(usage).map_err(|limit| NodeError::of(Kind::Limit, limit.to_string()))
    }

    /// Keeps something beside the step for people who look into it.
    pub fn note(&self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.scratch().notes.insert(name.to_owned(), value);
    }

    /// Which try of the node this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.scratch().attempt
    }

    /// Ends when the run is cancelled, for work that cannot be stopped by dropping it.
    pub fn cancelled(&self) -> CancellationToken {
        self.0.run.cancel.clone()
    }

    /// The run's tenant, when it has one.
    pub fn tenant(&self) -> Option<&crate::id::Tenant> {
        self.0.run.journal.as_ref().map(|journal| &journal.fence.thread.tenant)
    }

    /// The run's thread, when it has one.
    pub fn thread(&self) -> Option<&crate::id::ThreadId> {
        self.0.run.journal.as_ref().map(|journal| &journal.fence.thread.thread)
    }

    pub(crate) fn scratch(&self) -> MutexGuard<'_, Scratch> {
        // A panic while the lock is held leaves plain data behind, so the poison says nothing.
        self.0.scratch.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Readies the context for another try: names are counted anew, recorded calls stay.
    pub(crate) fn begin_attempt(&self, attempt: u32) {
        let mut scratch = self.scratch();
        scratch.attempt = attempt;
        scratch.used.clear();
        scratch.asks.clear();
        scratch.notes.clear();
        scratch.deltas = 0;
        scratch.spent_now = 0;
    }

    pub(crate) fn pause(
        &self,
        key: &str,
        kind: AskKind,
        question: Value,
        problem: Option<String>,
    ) -> NodeError {
        let id = format!("{}:{key}", self.0.path);
        self.scratch().asks.push(Question { id, node: self.0.node.to_string(), kind, question, problem });
        NodeError::of(Kind::Paused, "waits for an answer")
    }

    /// `name#n`: the n-th use of this name in this attempt. Taken when the call is written down, not when it is
    /// polled, so that calls made side by side keep their keys.
    fn key_of(&self, name: &str) -> String {
        let mut scratch = self.scratch();
        let nth = scratch.used.entry(name.to_owned()).or_default();
        let key = format!("{name}#{nth}");
        *nth += 1;
        key
    }

    fn has(&self, key: &str) -> bool {
        self.scratch().recorded.contains_key(key)
    }

    fn replay<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, NodeError> {
        match self.scratch().recorded.get(key) {
            Some((Stage::Done, body)) => Ok(Some(serde_json::from_slice(body)?)),
            _ => Ok(None),
        }
    }

    fn was_not_done(&self, key: &str) -> bool {
        matches!(self.scratch().recorded.get(key), Some((Stage::Failed, _)))
    }

    fn settled(&self, key: &str) -> Option<Settled> {
        match self.scratch().recorded.get(&outcome_key(key)) {
            Some((Stage::Done, body)) => serde_json::from_slice(body).ok(),
            _ => None,
        }
    }

    fn ask_outcome(
        &self,
        key: &str,
        mut question: Map<String, Value>,
        misfit: Option<&serde_json::Error>,
    ) -> NodeError {
        question.insert("call".into(), key.split('#').next().unwrap_or(key).into());
        question.insert("key".into(), self.stable_key(key).into());
        let problem = match misfit {
            Some(error) => Some(format!("the result does not fit: {error}")),
            None => self.has(&outcome_key(key)).then(|| {
                "answer {\"result\": …} when the call happened, {\"retry\": true} when it did not".to_owned()
            }),
        };
        self.scratch().recorded.remove(&outcome_key(key));
        self.pause(&outcome_key(key), AskKind::EffectUnknown, Value::Object(question), problem)
    }

    async fn record(&self, key: &str, stage: Stage, body: Vec<u8>) -> Result<(), NodeError> {
        let record = Record { path: self.0.path.clone(), key: key.to_owned(), stage, body: body.clone() };
        let mut records = {
            let mut scratch = self.scratch();
            scratch.recorded.insert(key.to_owned(), (stage, body));
            scratch.last_sign = Some(Instant::now());
            scratch.take_buffered()
        };
        self.0.run.sign_outward(&self.0.path);
        records.push(record);
        self.0.run.record(records).await.map_err(|error| NodeError::of(Kind::Store, error))
    }

    /// Keeps the record of a call for the write that ends the node.
    fn owe(&self, key: String, body: Vec<u8>) {
        let mut scratch = self.scratch();
        scratch.recorded.insert(key.clone(), (Stage::Done, body.clone()));
        scratch.last_sign = Some(Instant::now());
        scratch.owed = true;
        scratch.buffered.push(Record { path: self.0.path.clone(), key, stage: Stage::Done, body });
        drop(scratch);
        self.0.run.sign_outward(&self.0.path);
    }

    /// What comes before every call: the record of an earlier one goes out, so that a crash repeats this call alone.
    async fn set_out(&self) -> Result<UnderWay, NodeError> {
        let owed = {
            let mut scratch = self.scratch();
            scratch.under_way += 1;
            if scratch.owed { scratch.take_buffered() } else { Vec::new() }
        };
        let under_way = UnderWay(self.clone());
        self.0.run.record(owed).await.map_err(|error| NodeError::of(Kind::Store, error))?;
        Ok(under_way)
    }

    /// What the outside knows this call by, in every attempt.
    fn stable_key(&self, key: &str) -> String {
        hex(&self.digest(key)[..16])
    }

    fn digest(&self, key: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.0.run.seed);
        hash.update(self.0.path.as_bytes());
        hash.update([0]);
        hash.update(key.as_bytes());
        hash.finalize().into()
    }
}

impl std::fmt::Debug for Cx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cx({} {})", self.0.node, self.0.path)
    }
}

/// The stored form of a value that somebody's code made, if it reads back as one.
fn storable<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>, NodeError> {
    let refused = |why: String| {
        NodeError::permanent(format!("the result cannot be stored: {why}")).with_code(failure::NOT_STORABLE)
    };
    let body = serde_json::to_vec(value).map_err(|error| refused(error.to_string()))?;
    if readable::<T>(&body) {
        return Ok(body);
    }
    Err(refused("it does not read back: is there a number that is none (NaN)?".into()))
}

fn outcome_key(key: &str) -> String {
    format!("{key}?")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

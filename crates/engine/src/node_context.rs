//! A node's way to the world. What is done through it is recorded, so that a crash in the middle of a node repeats at
//! most the call in flight, and people can watch, be asked, and stop it.

mod effects;
mod items;
mod sleep;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::drive::{RunContext, UnfinishedTaskUsage};
use crate::error::{NodeError, NodeErrorKind};
use crate::failure;
use crate::graph::{NodeName, To};
use crate::log;
use crate::question::{PendingQuestion, QuestionKind};
use crate::runtime::{NodeDelta, NodeDeltaContent, approximate_value_bytes};
use crate::store::{Record, RecordStage, RunFailure, RunUsage};
use crate::stored_json;
use crate::task_path::{CallKey, QuestionId, RecordKey, TaskPath};

/// What a node is given besides the state. Cheap to clone.
#[derive(Clone)]
pub struct Cx(pub(crate) Arc<TaskContext>);

pub(crate) struct TaskContext {
    pub run: Arc<RunContext>,
    /// What the graph is called.
    pub graph_name: Arc<str>,
    /// How many graphs are around that one.
    pub depth: usize,
    pub path: TaskPath,
    pub node: Arc<str>,
    pub input: Option<Value>,
    pub scratch: Mutex<TaskScratch>,
    /// Held while buffered records are written. A call that may only be made after they are written waits for it.
    pub flush_lock: tokio::sync::Mutex<()>,
}

/// What a task gathers while it runs.
#[derive(Default)]
pub(crate) struct TaskScratch {
    pub attempt: u32,
    /// How often each name was used in this attempt.
    name_uses: HashMap<String, u32>,
    /// Recorded calls, by key: from an earlier execution of this task, before a crash or a takeover, and from this one.
    pub recorded: HashMap<CallKey, (RecordStage, Vec<u8>)>,
    /// Records that go out with the next write.
    buffered: Vec<Record>,
    /// One of them tells of a call, so no other call is made before they are out.
    call_record_buffered: bool,
    /// Calls being made.
    calls_in_flight: u32,
    pub questions: Vec<PendingQuestion>,
    /// All that this task spent, in earlier executions too, and the part that the row of the run counts.
    pub usage: RunUsage,
    booked_usage: RunUsage,
    pub notes: BTreeMap<String, Value>,
    /// Where this attempt chose to go, in its graph and in the one around it.
    pub goto: Option<Vec<log::DueTask>>,
    pub goto_parent: Option<Vec<log::DueTask>>,
    /// Why the first note that could not be kept was refused.
    pub note_error: Option<String>,
    pub last_heartbeat: Option<Instant>,
    deltas: u64,
    /// Amounts counted so far, and how many of them this attempt has passed.
    counted_amounts: Vec<RunUsage>,
    amounts_passed: usize,
}

impl TaskScratch {
    /// What an earlier execution of this task counted, and the row of the run counts.
    pub(crate) fn set_earlier_usage(&mut self, amounts: Vec<RunUsage>) {
        amounts.iter().for_each(|amount| self.booked_usage += *amount);
        self.usage = self.booked_usage;
        self.counted_amounts = amounts;
    }

    /// What it spent, to be added to the usage of the run.
    pub(crate) fn take_unfinished_usage(&mut self) -> UnfinishedTaskUsage {
        UnfinishedTaskUsage {
            all_amounts: std::mem::take(&mut self.counted_amounts),
            unbooked_usage: self.usage.saturating_sub(self.booked_usage),
        }
    }

    /// Records that no write has taken along yet.
    pub(crate) fn take_buffered_records(&mut self) -> Vec<Record> {
        self.call_record_buffered = false;
        std::mem::take(&mut self.buffered)
    }

    /// The first `count` of them are written.
    fn drop_written_records(&mut self, count: usize) {
        self.buffered.drain(..count.min(self.buffered.len()));
        self.call_record_buffered = !self.buffered.is_empty();
    }
}

impl Cx {
    /// Asks a person. The run pauses, for days if need be, without a task or memory; when the answer is there the node
    /// runs again and this gives the answer. Calls recorded before it are not made again.
    ///
    /// An answer that is not a `T` is asked for once more, with the reason.
    pub fn ask<T: DeserializeOwned, Q: Serialize>(
        &self,
        question: Q,
    ) -> impl Future<Output = Result<T, NodeError>> + use<T, Q> {
        let answer = self.ask_or_replay(question);
        async move { answer }
    }

    fn ask_or_replay<T: DeserializeOwned>(&self, question: impl Serialize) -> Result<T, NodeError> {
        let mut key = self.next_call_key(CallKey::ASK);
        let mut problem = None;
        loop {
            let known = self.scratch().recorded.get(&key).cloned();
            match known {
                Some((RecordStage::Done, body)) => match stored_json::from_slice(&body) {
                    Ok(answer) => return Ok(answer),
                    Err(error) => {
                        problem = Some(format!("the answer does not fit: {error}"));
                        key.repeats += 1;
                    }
                },
                _ => {
                    let question = serde_json::to_value(question)?;
                    stored_json::check_depth(&question)
                        .map_err(|error| not_storable("the question", &error))?;
                    return Err(self.pause_with_question(&key, QuestionKind::Ask, question, problem));
                }
            }
        }
    }

    /// The time, the same again after a crash. An error says that the recorded time cannot be read: pass it on.
    pub fn now(&self) -> Result<SystemTime, NodeError> {
        let key = self.next_call_key(CallKey::NOW);
        let mut scratch = self.scratch();
        if let Some((RecordStage::Done, body)) = scratch.recorded.get(&key) {
            let millis = serde_json::from_slice::<u64>(body).map_err(|error| {
                NodeError::permanent(format!("the recorded time `{key}` cannot be read: {error}"))
                    .with_code(failure::STATE_MISMATCH)
            })?;
            return Ok(UNIX_EPOCH + Duration::from_millis(millis));
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let body = log::to_json_bytes(&millis);
        scratch.recorded.insert(key.clone(), (RecordStage::Done, body.clone()));
        scratch.buffered.push(self.record(&key, RecordStage::Done, body));
        Ok(UNIX_EPOCH + Duration::from_millis(millis))
    }

    /// A random number, the same again after a crash.
    pub fn random(&self) -> u64 {
        let key = self.next_call_key("random");
        u64::from_be_bytes(self.call_digest(&key)[..8].try_into().unwrap_or_default())
    }

    /// An id nobody else has, the same again after a crash.
    pub fn new_id(&self) -> String {
        let key = self.next_call_key("id");
        hex_string(&self.call_digest(&key)[..16])
    }

    /// The item this task was handed by [`To::Each`].
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, NodeError> {
        let input = self.0.input.clone().ok_or_else(|| {
            NodeError::permanent(format!("node `{}` was led to without an item", self.0.node))
        })?;
        Ok(serde_json::from_value(input)?)
    }

    /// What the run was given at its start ([`StartOptions::context`](crate::StartOptions::context)); `null` if nothing. It
    /// is the same in every node of the run, in graphs inside it too.
    pub fn context<T: DeserializeOwned>(&self) -> Result<T, NodeError> {
        T::deserialize(&self.0.run.context)
            .map_err(|error| NodeError::permanent(format!("the context of the run does not fit: {error}")))
    }

    /// Chooses where this node leads, once it has finished. The targets are declared with
    /// [`goto`](crate::graph::NodeBuilder::goto); a later choice replaces an earlier one. Where several tasks of a node
    /// choose, the run goes to all that they chose.
    ///
    /// ```
    /// # use doran_engine::{Cx, NodeError, To};
    /// # fn node(cx: Cx, ready: bool) -> Result<(), NodeError> {
    /// cx.goto(To::Node(if ready { "answer" } else { "search" }))?;
    /// # Ok(()) }
    /// ```
    pub fn goto<N: NodeName>(&self, to: To<N>) -> Result<(), NodeError> {
        let chosen = self.chosen_tasks(to)?;
        self.scratch().goto = Some(chosen);
        Ok(())
    }

    /// Ends the graph this node is in, once the step has finished, and chooses where the graph around it goes on. What the
    /// node of the outer graph gives is folded in before.
    pub fn goto_parent<N: NodeName>(&self, to: To<N>) -> Result<(), NodeError> {
        let chosen = self.chosen_tasks(to)?;
        self.scratch().goto_parent = Some(chosen);
        Ok(())
    }

    fn chosen_tasks<N: NodeName>(&self, to: To<N>) -> Result<Vec<log::DueTask>, NodeError> {
        to.into_due_tasks(N::node_name).map_err(|error| {
            NodeError::permanent(error.error_message(&self.0.node)).with_code(error.failure_code())
        })
    }

    /// The number of the next graph that this attempt runs.
    pub(crate) fn next_graph_number(&self) -> usize {
        self.next_call_key("graph").nth as usize
    }

    /// Shows watchers a piece of text. It is not a record.
    pub fn emit_text(&self, text: impl Into<String>) {
        self.emit(Value::String(text.into()));
    }

    /// Shows watchers something. It is not a record. A run that shows more than [`RunLimits::shown_bytes`] is stopped.
    ///
    /// [`RunLimits::shown_bytes`]: crate::RunLimits::shown_bytes
    pub fn emit(&self, data: Value) {
        self.emit_piece(None, data);
    }

    /// Shows watchers the next piece of the text of an item, a message say, whose id the update of this node will have.
    /// As [`Cx::emit_text`], for watchers that put pieces together by that id.
    pub fn emit_text_of(&self, item: &str, text: impl Into<String>) {
        self.emit_piece(Some(Arc::from(item)), Value::String(text.into()));
    }

    fn emit_piece(&self, item: Option<Arc<str>>, data: Value) {
        if !self.0.run.count_shown_bytes(approximate_value_bytes(&data)) {
            return;
        }
        let (attempt, index) = {
            let mut scratch = self.scratch();
            scratch.deltas += 1;
            scratch.last_heartbeat = Some(Instant::now());
            (scratch.attempt, scratch.deltas - 1)
        };
        self.0.run.heartbeat_outer_tasks(&self.0.path);
        if let Some(live) = &self.0.run.live_feed {
            let is_kept = item.is_none() && self.0.run.keep_emitted.keeps(&data);
            let (node, path, piece) =
                (self.0.node.clone(), self.0.path.clone(), NodeDeltaContent::Data(data));
            let delta = NodeDelta { node, path, attempt, index, item, piece, kept: None };
            if is_kept { live.push_kept_delta(delta) } else { live.push_delta(delta) }
        }
    }

    /// A sign of life, for a node with an idle timeout.
    pub fn heartbeat(&self) {
        self.scratch().last_heartbeat = Some(Instant::now());
        self.0.run.heartbeat_outer_tasks(&self.0.path);
    }

    /// When this task, or one of a graph inside it, last gave a sign of life.
    pub(crate) fn last_heartbeat(&self) -> Option<Instant> {
        self.scratch().last_heartbeat.max(self.0.run.last_inner_heartbeat(&self.0.path))
    }

    /// Counts what a call spent. An error says that a limit of the run is reached: pass it on.
    ///
    /// A node that is tried again passes its recorded calls again: the n-th amount is counted once as long as it is
    /// the same.
    pub fn spend(&self, usage: RunUsage) -> Result<(), NodeError> {
        {
            let mut scratch = self.scratch();
            let nth = scratch.amounts_passed;
            scratch.amounts_passed += 1;
            if scratch.counted_amounts.get(nth) == Some(&usage) {
                return Ok(());
            }
            scratch.counted_amounts.truncate(nth);
            scratch.counted_amounts.push(usage);
            scratch.usage += usage;
        }
        self.0.run.spend(usage).map_err(|limit| NodeError::with_kind(NodeErrorKind::Limit, limit.to_string()))
    }

    /// An error if the run must spend no more, by the word of the [`RunGate`](crate::runtime::RunGate): ask before a call that
    /// costs something, and pass it on.
    pub fn check_may_spend(&self) -> Result<(), NodeError> {
        self.0.run.check_may_spend().map_err(|RunFailure { code, message }| {
            NodeError::with_kind(NodeErrorKind::Limit, message).with_code(code)
        })
    }

    /// Keeps something beside the step for people who look into it. A value that cannot be written as JSON fails the
    /// node with [`NOT_STORABLE`](failure::NOT_STORABLE) when it ends.
    pub fn note(&self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).map_err(|error| error.to_string()).and_then(|value| {
            stored_json::check_depth(&value).map_err(|error| error.to_string())?;
            Ok(value)
        });
        let mut scratch = self.scratch();
        match value {
            Ok(value) => {
                scratch.notes.insert(name.to_owned(), value);
            }
            Err(error) => {
                scratch.note_error.get_or_insert(format!("its note `{name}` cannot be stored: {error}"));
            }
        }
    }

    /// Which try of the node this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.scratch().attempt
    }

    /// The text by which other systems know the run, if [`RunObserver`](crate::runtime::RunObserver) gave it one.
    pub fn correlation(&self) -> Option<&str> {
        self.0.run.correlation.as_deref()
    }

    /// The run's tenant, when it has one.
    pub fn tenant(&self) -> Option<&crate::id::TenantId> {
        self.0.run.journal.as_ref().map(|journal| &journal.fence.thread.tenant)
    }

    /// The run's thread, when it has one.
    pub fn thread(&self) -> Option<&crate::id::ThreadId> {
        self.0.run.journal.as_ref().map(|journal| &journal.fence.thread.thread)
    }

    pub(crate) fn scratch(&self) -> MutexGuard<'_, TaskScratch> {
        // A panic while the lock is held leaves plain data behind, so the poison says nothing.
        self.0.scratch.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Readies the context for another try: names are counted anew, recorded calls stay.
    pub(crate) fn begin_attempt(&self, attempt: u32) {
        let mut scratch = self.scratch();
        scratch.attempt = attempt;
        scratch.name_uses.clear();
        scratch.questions.clear();
        scratch.notes.clear();
        (scratch.goto, scratch.goto_parent) = (None, None);
        scratch.note_error = None;
        scratch.deltas = 0;
        scratch.amounts_passed = 0;
    }

    pub(crate) fn pause_with_question(
        &self,
        key: &CallKey,
        kind: QuestionKind,
        question: Value,
        problem: Option<String>,
    ) -> NodeError {
        let id = QuestionId { path: self.0.path.clone(), key: RecordKey::Call(key.clone()) }.to_string();
        self.scratch().questions.push(PendingQuestion {
            id,
            node: self.0.node.to_string(),
            kind,
            question,
            problem,
        });
        NodeError::with_kind(NodeErrorKind::Paused, "waits for an answer")
    }

    /// The n-th use of this name in this attempt. Taken when the call is written down, not when it is polled, so that
    /// calls made side by side keep their keys.
    fn next_call_key(&self, name: &str) -> CallKey {
        let mut scratch = self.scratch();
        let nth = scratch.name_uses.entry(name.to_owned()).or_default();
        let key = CallKey::new(name, *nth);
        *nth += 1;
        key
    }

    /// The stored record of a call.
    fn record(&self, key: &CallKey, stage: RecordStage, body: Vec<u8>) -> Record {
        Record { path: self.0.path.to_string(), key: key.to_string(), stage, body }
    }
}

impl std::fmt::Debug for Cx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cx({} {})", self.0.node, self.0.path)
    }
}

/// The stored form of a value that somebody's code made, if it reads back as one.
fn serialize_result<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>, NodeError> {
    match stored_json::to_readable_json(value) {
        Ok(json) => Ok(String::from(Box::<str>::from(json)).into_bytes()),
        Err(error) => Err(not_storable("the result", &error)),
    }
}

/// The fields of a question, if they can be stored.
fn storable_object(what: &str, fields: Map<String, Value>) -> Result<Map<String, Value>, NodeError> {
    for field in fields.values() {
        stored_json::check_depth(field).map_err(|error| not_storable(what, &error))?;
    }
    Ok(fields)
}

fn not_storable(what: &str, error: &dyn std::fmt::Display) -> NodeError {
    NodeError::permanent(format!("{what} cannot be stored: {error}")).with_code(failure::NOT_STORABLE)
}

fn hex_string(bytes: &[u8]) -> String {
    hex::encode(bytes)
}

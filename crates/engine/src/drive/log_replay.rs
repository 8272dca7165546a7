//! From the log to a state and back: rebuilds where a thread stands, and decides when a snapshot is worth writing.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::known_update::{ReplayedStart, ReplayedStep};
use crate::error::{EngineError, StateMismatchReason};
use crate::graph::BuiltGraph;
use crate::log::{self, StateSnapshot, StoredPosition};
use crate::plan::{self, PlanPosition};
use crate::state::{ItemIndex, State};
use crate::state_shape::{unknown_state_field, unknown_update_field};
use crate::store::{EntryKind, LoadedLog, LogEntry, NewEntry, Record, RunUsage, Seq};
use crate::stored_json;
use crate::task_path::TaskPath;

/// Logs up to this size are replayed without a thought.
const MIN_SNAPSHOT_LOG_BYTES: u64 = 64 * 1024;

/// What an entry costs to read besides its body.
const ENTRY_OVERHEAD_BYTES: u64 = 64;

/// Where a thread stands: its state, what is due, and what replaying it would cost.
pub(crate) struct ThreadState<S> {
    pub state: Arc<S>,
    pub position: PlanPosition,
    /// Nodes of the step that just finished, for breakpoints after them.
    pub finished: Vec<plan::NodeIndex>,
    /// Milliseconds worked on in this run before it was claimed.
    pub active_ms: u64,
    /// Records that go out with the pause.
    pub unsaved_records: Vec<Record>,
    /// What the tasks of the paused step spent and the pause books.
    pub unbooked_usage: RunUsage,
    /// Steps of subgraphs inside the step in progress: path of the task, body.
    pub subgraph_steps: Vec<(TaskPath, Vec<u8>)>,
    /// For a subgraph that ended so: where the graph around it goes on.
    pub goto_parent: Option<Vec<log::DueTask>>,
    /// The entry with the snapshot replay starts from; 0 for the beginning.
    pub replay_base: Seq,
    /// The position names a node that the graph does not have any more. The state can be read and a run with an input
    /// begun; nothing can go on from here.
    pub unknown_node: Option<UnknownNodePosition>,
    /// The name that the graph is registered under; empty in a subgraph and without a store.
    graph_name: Arc<str>,
    /// The entries read now were written by a graph of that name. Others may have states with other fields.
    written_by_graph: bool,
    replay_cost: ReplayCost,
    /// Of the lists in the state. Every change goes through it.
    item_index: ItemIndex,
}

/// A place that a graph does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the thread stands at node `{node}` since entry {seq}, and the graph has no such node")]
pub(crate) struct UnknownNodePosition {
    pub seq: Seq,
    pub node: String,
}

/// What replaying costs, against what the state is worth.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayCost {
    /// Bytes of log since the base.
    log_bytes: u64,
    /// Bytes of the state when it was last looked at.
    state_bytes: u64,
    /// A snapshot goes out with the entry under way.
    snapshot_pending: bool,
}

impl<S: State> ThreadState<S> {
    pub(crate) fn new(position: PlanPosition) -> Self {
        Self {
            state: Arc::new(S::default()),
            position,
            finished: Vec::new(),
            active_ms: 0,
            unsaved_records: Vec::new(),
            unbooked_usage: RunUsage::default(),
            subgraph_steps: Vec::new(),
            goto_parent: None,
            replay_base: 0,
            unknown_node: None,
            graph_name: Arc::from(""),
            written_by_graph: false,
            replay_cost: ReplayCost::default(),
            item_index: ItemIndex::default(),
        }
    }

    /// Folds a change into the state.
    pub(crate) fn apply_update(&mut self, update: S::Update) {
        Arc::make_mut(&mut self.state).apply_indexed(update, &mut self.item_index);
    }

    /// Replaces the whole state.
    fn replace_state(&mut self, state: S) {
        self.state = Arc::new(state);
        self.item_index = ItemIndex::default();
    }

    /// The empty state of a thread, for the graph of this name.
    pub(crate) fn empty(graph_name: Arc<str>) -> Self {
        Self { graph_name, ..Self::new(PlanPosition::default()) }
    }

    /// An entry that changes no state. Its base is filled in when it is numbered.
    pub(crate) fn new_entry(&mut self, kind: EntryKind, body: Vec<u8>) -> NewEntry {
        self.replay_cost.log_bytes += body.len() as u64 + ENTRY_OVERHEAD_BYTES;
        NewEntry { kind, body, parent: None, base: 0, snapshot: None }
    }

    /// The entry of a step, with a snapshot when replay has come to cost more than twice the state.
    ///
    /// A state that only grows is its own log and never needs one; a state that is overwritten or trimmed gets one
    /// now and then, and all of them together stay below half of the log. The state is measured only when the log
    /// outgrew the last measure, so the cost per step stays flat.
    pub(crate) fn step_entry(
        &mut self,
        graph: &BuiltGraph<S>,
        body: Vec<u8>,
        at: StoredPosition,
        active_ms: u64,
    ) -> NewEntry {
        let mut entry = self.new_entry(EntryKind::Step, body);
        if self.replay_cost.log_bytes > 2 * self.replay_cost.state_bytes + MIN_SNAPSHOT_LOG_BYTES {
            let finished = self.finished.iter().map(|ix| graph.node(*ix).name.to_string()).collect();
            let graph = Some(self.graph_name.to_string());
            let snapshot = StateSnapshot { state: &*self.state, graph, at, active_ms, finished };
            match serialize_snapshot::<S>(&snapshot) {
                Ok(snapshot) => {
                    self.replay_cost.state_bytes = snapshot.len() as u64;
                    if self.replay_cost.log_bytes > 2 * self.replay_cost.state_bytes + MIN_SNAPSHOT_LOG_BYTES
                    {
                        entry.snapshot = Some(snapshot);
                        self.replay_cost.snapshot_pending = true;
                    }
                }
                // The log still has every update. It is tried again when the log is twice as long.
                Err(error) => {
                    tracing::warn!(error, "no snapshot: the state cannot be written and read back");
                    self.replay_cost.state_bytes = self.replay_cost.log_bytes;
                }
            }
        }
        entry
    }

    /// Adds to the cost of reading the log.
    pub(crate) fn add_log_bytes(&mut self, bytes: u64) {
        self.replay_cost.log_bytes += bytes;
    }

    /// A step was written; `head` is its last entry, and the end of the run when it ended with it.
    pub(crate) fn note_step_written(&mut self, head: Option<Seq>, ended: bool) {
        if let (true, Some(head)) = (self.replay_cost.snapshot_pending, head) {
            // The step that carries the snapshot is the last entry, or the one before `Finished`.
            self.replay_base = head - Seq::from(ended);
            self.replay_cost = ReplayCost {
                log_bytes: 0,
                state_bytes: self.replay_cost.state_bytes,
                snapshot_pending: false,
            };
        }
    }

    /// Stands at this place from entry `seq` on.
    fn set_position(&mut self, graph: &BuiltGraph<S>, seq: Seq, place: &StoredPosition) {
        (self.position, self.unknown_node) = match place.to_position(graph) {
            Ok(position) => (position, None),
            Err(node) => (
                PlanPosition { step: place.step, ..PlanPosition::default() },
                Some(UnknownNodePosition { seq, node }),
            ),
        };
    }

    /// Reads an update. A field that the state does not have would be lost.
    fn read_update(&self, seq: Seq, update: &RawValue) -> Result<S::Update, EngineError> {
        if self.written_by_graph
            && let Some(field) = unknown_update_field::<S>(update.get())
        {
            return Err(unknown_field(seq, field));
        }
        parse_entry_body(seq, update.get().as_bytes())
    }

    /// About how many bytes it takes.
    pub(crate) fn approximate_bytes(&self) -> u64 {
        self.replay_cost.log_bytes + self.replay_cost.state_bytes
    }

    /// Folds an entry in that a step follows. The step says where the thread stands, so of an earlier one only the changes are
    /// read.
    fn apply_followed_entry(&mut self, graph: &BuiltGraph<S>, entry: &LogEntry) -> Result<(), EngineError> {
        if entry.kind != EntryKind::Step || !self.written_by_graph {
            return self.apply_entry(graph, entry);
        }
        let Ok(step) = serde_json::from_slice::<ReplayedStep<S>>(&entry.body) else {
            return self.apply_entry(graph, entry);
        };
        self.replay_cost.log_bytes += entry.body.len() as u64 + ENTRY_OVERHEAD_BYTES;
        for task in step.tasks {
            self.apply_update(task.update.0);
        }
        Ok(())
    }

    /// Folds one more entry in that this process did not write itself.
    pub(crate) fn apply_entry(&mut self, graph: &BuiltGraph<S>, entry: &LogEntry) -> Result<(), EngineError> {
        self.replay_cost.log_bytes += entry.body.len() as u64 + ENTRY_OVERHEAD_BYTES;
        fold_entry(graph, self, entry)
    }
}

/// The stored form of a snapshot. One that cannot be read back would end the thread, since everything after starts
/// from it.
fn serialize_snapshot<S: State>(snapshot: &StateSnapshot<&S>) -> Result<Vec<u8>, String> {
    let bytes = serde_json::to_vec(snapshot).map_err(|error| error.to_string())?;
    read_snapshot(0, &bytes)
        .and_then(|snapshot| read_state::<S>(0, &snapshot.state, true))
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The state and place that `loaded` describes, for the graph of this name.
pub(crate) fn rebuild_thread_state<S: State>(
    graph: &BuiltGraph<S>,
    graph_name: &Arc<str>,
    loaded: &LoadedLog,
) -> Result<ThreadState<S>, EngineError> {
    let mut at = ThreadState::empty(graph_name.clone());
    if let Some((seq, body)) = &loaded.snapshot {
        let snapshot = read_snapshot(*seq, body)?;
        at.written_by_graph = snapshot.graph.as_deref() == Some(graph_name);
        at.replace_state(read_state(*seq, &snapshot.state, at.written_by_graph)?);
        at.set_position(graph, *seq, &snapshot.at);
        at.active_ms = snapshot.active_ms;
        at.finished = finished_nodes(graph, snapshot.finished.iter());
        at.replay_base = *seq;
        at.replay_cost = ReplayCost { log_bytes: 0, state_bytes: body.len() as u64, snapshot_pending: false };
    }
    let last_step = loaded.entries.iter().rposition(|entry| entry.kind == EntryKind::Step).unwrap_or(0);
    let (followed, rest) = loaded.entries.split_at(last_step);
    for entry in followed {
        at.apply_followed_entry(graph, entry)?;
    }
    for entry in rest {
        at.apply_entry(graph, entry)?;
    }
    Ok(at)
}

fn fold_entry<S: State>(
    graph: &BuiltGraph<S>,
    at: &mut ThreadState<S>,
    entry: &LogEntry,
) -> Result<(), EngineError> {
    let seq = entry.seq;
    match entry.kind {
        EntryKind::Started => {
            if let Ok(started) = serde_json::from_slice::<ReplayedStart<'_, S>>(&entry.body)
                && started.v <= log::LOG_FORMAT_VERSION
                && started.graph == *at.graph_name
            {
                at.written_by_graph = true;
                begin_run(graph, at, started.update.map(|update| update.0), started.at.is_some());
                return Ok(());
            }
            let started: log::RunStartedEntry = parse_entry_body(seq, &entry.body)?;
            if started.v > log::LOG_FORMAT_VERSION {
                let message = format!(
                    "it has format {}, this program knows up to {}",
                    started.v,
                    log::LOG_FORMAT_VERSION
                );
                return Err(state_mismatch(seq, message));
            }
            at.written_by_graph = started.graph == *at.graph_name;
            let update = started.update.map(|update| at.read_update(seq, &update)).transpose()?;
            begin_run(graph, at, update, started.at.is_some());
        }
        EntryKind::Step => {
            at.subgraph_steps.clear();
            fold_step(graph, at, seq, &entry.body)?;
        }
        EntryKind::Inner => {
            let step: log::StepEntry = parse_entry_body(seq, &entry.body)?;
            let path =
                step.path.parse::<TaskPath>().map_err(|error| state_mismatch(seq, error.to_string()))?;
            at.subgraph_steps.push((path, entry.body.clone()));
        }
        EntryKind::Edited => {
            fold_edit(graph, at, seq, parse_entry_body(seq, &entry.body)?)?;
        }
        EntryKind::Paused => {
            let paused: ReplayedPause = parse_entry_body(seq, &entry.body)?;
            // Older pauses do not tell it.
            at.active_ms = at.active_ms.max(paused.active_ms);
            if let Some(edit) = paused.edit {
                fold_edit(graph, at, seq, edit)?;
            }
        }
        EntryKind::Resumed
        | EntryKind::Restarted
        | EntryKind::Finished
        | EntryKind::Failed
        | EntryKind::Cancelled => {}
    }
    Ok(())
}

/// Begins a run with its input, at the start of its graph or where the thread stands.
fn begin_run<S: State>(
    graph: &BuiltGraph<S>,
    at: &mut ThreadState<S>,
    update: Option<S::Update>,
    from_start: bool,
) {
    if let Some(update) = update {
        at.apply_update(update);
    }
    if from_start {
        // Of the graph that runs it, whatever the start of the graph was that accepted it.
        at.position = plan::start_position(&graph.plan_topology, &graph.start);
        at.unknown_node = None;
    } else {
        at.position.step = 0;
    }
    at.finished.clear();
    at.subgraph_steps.clear();
    at.active_ms = 0;
}

/// What replaying needs of a pause: the questions are for people.
#[derive(serde::Deserialize)]
struct ReplayedPause {
    #[serde(default)]
    edit: Option<log::StateEditedEntry>,
    #[serde(default)]
    active_ms: u64,
}

/// Folds a change by hand.
fn fold_edit<S: State>(
    graph: &BuiltGraph<S>,
    at: &mut ThreadState<S>,
    seq: Seq,
    edit: log::StateEditedEntry,
) -> Result<(), EngineError> {
    let written_by_graph =
        edit.graph.as_deref().map_or(at.written_by_graph, |graph| *graph == *at.graph_name);
    let written_before = std::mem::replace(&mut at.written_by_graph, written_by_graph);
    if let Some(state) = edit.state {
        at.replace_state(read_state(seq, &state, written_by_graph)?);
    }
    if let Some(update) = edit.update {
        let update = at.read_update(seq, &update)?;
        at.apply_update(update);
    }
    at.written_by_graph = written_before;
    if let Some(begin) = edit.at {
        at.set_position(graph, seq, &begin);
    }
    Ok(())
}

/// Folds the body of a step of a graph inside another. One that was folded already is passed over.
pub(crate) fn fold_subgraph_step<S: State>(
    graph: &BuiltGraph<S>,
    at: &mut ThreadState<S>,
    body: &[u8],
) -> Result<(), EngineError> {
    let step: log::StepEntry = parse_entry_body(0, body)?;
    if step.at.step > at.position.step { fold_step(graph, at, 0, body) } else { Ok(()) }
}

/// Folds the body of a step, of the graph or of one inside it.
pub(crate) fn fold_step<S: State>(
    graph: &BuiltGraph<S>,
    at: &mut ThreadState<S>,
    seq: Seq,
    body: &[u8],
) -> Result<(), EngineError> {
    let step: log::StepEntry = parse_entry_body(seq, body)?;
    for task in &step.tasks {
        let update = at.read_update(seq, &task.update)?;
        at.apply_update(update);
    }
    at.finished = finished_nodes(graph, step.tasks.iter().map(|task| &task.node));
    at.set_position(graph, seq, &step.at);
    at.active_ms = step.active_ms;
    at.goto_parent = step.goto_parent;
    Ok(())
}

/// The nodes that finished, for breakpoints after them. A node that the graph does not have any more has none.
fn finished_nodes<'a, S: State>(
    graph: &BuiltGraph<S>,
    names: impl Iterator<Item = &'a String>,
) -> Vec<plan::NodeIndex> {
    names.filter_map(|node| graph.node_index(node)).collect()
}

fn parse_entry_body<T: DeserializeOwned>(seq: Seq, body: &[u8]) -> Result<T, EngineError> {
    stored_json::from_slice(body).map_err(|error| state_mismatch(seq, error.to_string()))
}

fn read_snapshot(seq: Seq, body: &[u8]) -> Result<StateSnapshot<Box<RawValue>>, EngineError> {
    parse_entry_body(seq, body)
}

fn read_state<S: State>(seq: Seq, json: &RawValue, written_by_graph: bool) -> Result<S, EngineError> {
    if written_by_graph && let Some(field) = unknown_state_field::<S>(json.get()) {
        return Err(unknown_field(seq, field));
    }
    match stored_json::from_str(json.get()) {
        Ok(state) => Ok(state),
        Err(_) => fill_missing_fields(seq, parse_entry_body(seq, json.get().as_bytes())?),
    }
}

fn unknown_field(seq: Seq, field: String) -> EngineError {
    EngineError::StateMismatch { seq, reason: StateMismatchReason::UnknownField(field) }
}

/// Reads a whole state that may lack fields added since: those get their default. Each is added when the reader misses
/// it, because a field that is there under an older name must not be there twice.
fn fill_missing_fields<S: State>(seq: Seq, stored: Value) -> Result<S, EngineError> {
    let mismatch = |error: serde_json::Error| state_mismatch(seq, error.to_string());
    let Value::Object(mut stored) = stored else {
        return serde_json::from_value(stored).map_err(mismatch);
    };
    let mut defaults = match serde_json::to_value(S::default()).map_err(mismatch)? {
        Value::Object(defaults) => defaults,
        _ => Map::new(),
    };
    loop {
        let error = match serde_json::from_value(Value::Object(stored.clone())) {
            Ok(state) => return Ok(state),
            Err(error) => error,
        };
        let message = error.to_string();
        let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        match missing.and_then(|name| defaults.remove_entry(name)) {
            Some((name, default)) if !stored.contains_key(&name) => drop(stored.insert(name, default)),
            _ => return Err(mismatch(error)),
        }
    }
}

fn state_mismatch(seq: Seq, message: String) -> EngineError {
    EngineError::StateMismatch { seq, reason: StateMismatchReason::Unreadable(message) }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::state::{ItemChanges, Keyed, Reduce, reduce};

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct ReplayedTestItem(String);

    impl Keyed for ReplayedTestItem {
        fn key(&self) -> &str {
            &self.0
        }
    }

    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    struct ReplayedListState(Vec<ReplayedTestItem>);

    impl State for ReplayedListState {
        type Update = Option<ItemChanges<ReplayedTestItem>>;

        fn apply(&mut self, update: Self::Update) {
            self.apply_indexed(update, &mut ItemIndex::default());
        }

        fn apply_indexed(&mut self, update: Self::Update, index: &mut ItemIndex) {
            if let Some(changes) = update {
                reduce::ById::fold_indexed(&mut self.0, changes, index.list(0));
            }
        }
    }

    #[test]
    fn a_state_that_is_replaced_leaves_no_index_behind() {
        let items =
            |name: &str, count: usize| (0..count).map(|n| ReplayedTestItem(format!("{name}{n}"))).collect();
        let mut at: ThreadState<ReplayedListState> = ThreadState::empty(Arc::from("g"));
        let many: Vec<ReplayedTestItem> = items("old", 30);
        at.apply_update(Some(many.into()));
        let other: Vec<ReplayedTestItem> = items("new", 20);
        at.replace_state(ReplayedListState(other.clone()));
        at.apply_update(Some(other.clone().into()));
        assert_eq!(at.state.0, other, "each item is there once");
    }
}

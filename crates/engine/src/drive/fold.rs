//! From the log to a state and back: rebuilds where a thread stands, and decides when a snapshot is worth writing.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::EngineError;
use crate::graph::Core;
use crate::log::{self, Place, Snapshot};
use crate::plan::{self, Position};
use crate::state::State;
use crate::store::{Entry, EntryKind, Loaded, NewEntry, Record, Seq, Usage};

/// Logs up to this size are replayed without a thought.
const SMALL_LOG: u64 = 64 * 1024;

/// What an entry costs to read besides its body.
const ENTRY_COST: u64 = 64;

/// Where a thread stands: its state, what is due, and what replaying it would cost.
pub(crate) struct At<S> {
    pub state: Arc<S>,
    pub position: Position,
    /// Nodes of the step that just finished, for breakpoints after them.
    pub finished: Vec<plan::Ix>,
    /// Milliseconds worked on in this run before it was claimed.
    pub active_ms: u64,
    /// Records that go out with the pause.
    pub unsaved: Vec<Record>,
    /// What the tasks of the paused step spent and the pause books.
    pub unbooked: Usage,
    /// Steps of subgraphs inside the step in progress: path of the task, body.
    pub inner: Vec<(String, Vec<u8>)>,
    /// The entry with the snapshot replay starts from; 0 for the beginning.
    pub base: Seq,
    /// The position names a node that the graph does not have any more. The state can be read and a run with an input
    /// begun; nothing can go on from here.
    pub astray: Option<Astray>,
    weight: Weight,
}

/// A place that a graph does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the thread stands at node `{node}` since entry {seq}, and the graph has no such node")]
pub(crate) struct Astray {
    pub seq: Seq,
    pub node: String,
}

/// What replaying costs, against what the state is worth.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    /// Bytes of log since the base.
    since: u64,
    /// Bytes of the state when it was last looked at.
    state: u64,
    /// A snapshot goes out with the entry under way.
    pending: bool,
}

impl<S: State> At<S> {
    pub(crate) fn fresh(position: Position) -> Self {
        Self {
            state: Arc::new(S::default()),
            position,
            finished: Vec::new(),
            active_ms: 0,
            unsaved: Vec::new(),
            unbooked: Usage::default(),
            inner: Vec::new(),
            base: 0,
            astray: None,
            weight: Weight::default(),
        }
    }

    /// An entry that changes no state. Its base is filled in when it is numbered.
    pub(crate) fn entry(&mut self, kind: EntryKind, body: Vec<u8>) -> NewEntry {
        self.weight.since += body.len() as u64 + ENTRY_COST;
        NewEntry { kind, body, parent: None, base: 0, snapshot: None }
    }

    /// The entry of a step, with a snapshot when replay has come to cost more than twice the state.
    ///
    /// A state that only grows is its own log and never needs one; a state that is overwritten or trimmed gets one
    /// now and then, and all of them together stay below half of the log. The state is measured only when the log
    /// outgrew the last measure, so the cost per step stays flat.
    pub(crate) fn step_entry(
        &mut self,
        graph: &Core<S>,
        body: Vec<u8>,
        at: Place,
        active_ms: u64,
    ) -> NewEntry {
        let mut entry = self.entry(EntryKind::Step, body);
        if self.weight.since > 2 * self.weight.state + SMALL_LOG {
            let finished = self.finished.iter().map(|ix| graph.node(*ix).name.to_string()).collect();
            let snapshot = written(&Snapshot { state: &*self.state, at, active_ms, finished });
            self.weight.state = snapshot.len() as u64;
            // One that cannot be read back would end the thread: everything after it starts from it.
            if self.weight.since > 2 * self.weight.state + SMALL_LOG
                && read_snapshot::<S>(0, &snapshot).is_ok()
            {
                entry.snapshot = Some(snapshot);
                self.weight.pending = true;
            }
        }
        entry
    }

    /// Adds to the cost of reading the log.
    pub(crate) fn add_weight(&mut self, bytes: u64) {
        self.weight.since += bytes;
    }

    /// A step was written; `head` is its last entry, and the end of the run when it ended with it.
    pub(crate) fn wrote(&mut self, head: Option<Seq>, ended: bool) {
        if let (true, Some(head)) = (self.weight.pending, head) {
            // The step that carries the snapshot is the last entry, or the one before `Finished`.
            self.base = head - Seq::from(ended);
            self.weight = Weight { since: 0, state: self.weight.state, pending: false };
        }
    }

    /// Stands at this place from entry `seq` on.
    fn stand(&mut self, graph: &Core<S>, seq: Seq, place: &Place) {
        (self.position, self.astray) = match place.position(graph) {
            Ok(position) => (position, None),
            Err(node) => (Position { step: place.step, ..Position::default() }, Some(Astray { seq, node })),
        };
    }

    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> u64 {
        self.weight.since + self.weight.state
    }

    /// Folds one more entry in that this process did not write itself.
    pub(crate) fn take(&mut self, graph: &Core<S>, entry: &Entry) -> Result<(), EngineError> {
        self.weight.since += entry.body.len() as u64 + ENTRY_COST;
        fold(graph, self, entry)
    }
}

/// A state that cannot be written has no snapshot; its log still has every update.
fn written(snapshot: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(snapshot).unwrap_or_default()
}

/// Whether bytes just written can be read back. JSON has no way to write a number that is none: it becomes `null`, so
/// only what holds one needs a look.
pub(crate) fn readable<T: DeserializeOwned>(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && (!bytes.windows(4).any(|four| four == b"null") || serde_json::from_slice::<T>(bytes).is_ok())
}

/// The state and place that `loaded` describes.
pub(crate) fn rebuild<S: State>(graph: &Core<S>, loaded: &Loaded) -> Result<At<S>, EngineError> {
    let mut at = At::fresh(Position::default());
    if let Some((seq, body)) = &loaded.snapshot {
        let snapshot: Snapshot<S> = read_snapshot(*seq, body)?;
        at.state = Arc::new(snapshot.state);
        at.stand(graph, *seq, &snapshot.at);
        at.active_ms = snapshot.active_ms;
        at.finished = snapshot.finished.iter().filter_map(|node| graph.find(node)).collect();
        at.base = *seq;
        at.weight = Weight { since: 0, state: body.len() as u64, pending: false };
    }
    for entry in &loaded.entries {
        at.take(graph, entry)?;
    }
    Ok(at)
}

fn fold<S: State>(graph: &Core<S>, at: &mut At<S>, entry: &Entry) -> Result<(), EngineError> {
    let seq = entry.seq;
    match entry.kind {
        EntryKind::Started => {
            let started: log::Started = read(seq, &entry.body)?;
            if started.v > log::FORMAT {
                let message =
                    format!("it has format {}, this program knows up to {}", started.v, log::FORMAT);
                return Err(mismatch(seq, message));
            }
            if let Some(update) = started.update {
                Arc::make_mut(&mut at.state).apply(read(seq, update.get().as_bytes())?);
            }
            match started.at {
                Some(begin) => at.stand(graph, seq, &begin),
                None => at.position.step = 0,
            }
            at.finished.clear();
            at.inner.clear();
            at.active_ms = 0;
        }
        EntryKind::Step => {
            at.inner.clear();
            fold_step(graph, at, seq, &entry.body)?;
        }
        EntryKind::Inner => {
            let step: log::Step = read(seq, &entry.body)?;
            at.inner.push((step.path, entry.body.clone()));
        }
        EntryKind::Edited => {
            let edited: log::Edited = read(seq, &entry.body)?;
            if let Some(state) = edited.state {
                at.state = Arc::new(read_state(seq, state.get().as_bytes())?);
            }
            if let Some(update) = edited.update {
                Arc::make_mut(&mut at.state).apply(read(seq, update.get().as_bytes())?);
            }
            if let Some(begin) = edited.at {
                at.stand(graph, seq, &begin);
            }
        }
        EntryKind::Paused
        | EntryKind::Resumed
        | EntryKind::Restarted
        | EntryKind::Finished
        | EntryKind::Failed
        | EntryKind::Cancelled => {}
    }
    Ok(())
}

/// Folds the body of a step of a graph inside another. One that was folded already is passed over.
pub(crate) fn fold_inner<S: State>(graph: &Core<S>, at: &mut At<S>, body: &[u8]) -> Result<(), EngineError> {
    let step: log::Step = read(0, body)?;
    if step.at.step > at.position.step { fold_step(graph, at, 0, body) } else { Ok(()) }
}

/// Folds the body of a step, of the graph or of one inside it.
pub(crate) fn fold_step<S: State>(
    graph: &Core<S>,
    at: &mut At<S>,
    seq: Seq,
    body: &[u8],
) -> Result<(), EngineError> {
    let step: log::Step = read(seq, body)?;
    let state = Arc::make_mut(&mut at.state);
    for task in &step.tasks {
        state.apply(read(seq, task.update.get().as_bytes())?);
    }
    at.finished = step.tasks.iter().filter_map(|task| graph.find(&task.node)).collect();
    at.stand(graph, seq, &step.at);
    at.active_ms = step.active_ms;
    Ok(())
}

fn read<T: DeserializeOwned>(seq: Seq, body: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(body).map_err(|error| mismatch(seq, error.to_string()))
}

fn read_snapshot<S: State>(seq: Seq, body: &[u8]) -> Result<Snapshot<S>, EngineError> {
    match serde_json::from_slice(body) {
        Ok(snapshot) => Ok(snapshot),
        Err(_) => {
            let loose: Snapshot<Value> = read(seq, body)?;
            let state = fill(seq, loose.state)?;
            Ok(Snapshot { state, at: loose.at, active_ms: loose.active_ms, finished: loose.finished })
        }
    }
}

fn read_state<S: State>(seq: Seq, body: &[u8]) -> Result<S, EngineError> {
    match serde_json::from_slice(body) {
        Ok(state) => Ok(state),
        Err(_) => fill(seq, read(seq, body)?),
    }
}

/// Reads a whole state that may lack fields added since: those get their default.
fn fill<S: State>(seq: Seq, stored: Value) -> Result<S, EngineError> {
    let mut whole = serde_json::to_value(S::default()).map_err(|error| mismatch(seq, error.to_string()))?;
    match (&mut whole, stored) {
        (Value::Object(fields), Value::Object(stored)) => fields.extend(stored),
        (whole, stored) => *whole = stored,
    }
    serde_json::from_value(whole).map_err(|error| mismatch(seq, error.to_string()))
}

fn mismatch(seq: Seq, message: String) -> EngineError {
    EngineError::StateMismatch { seq, message }
}

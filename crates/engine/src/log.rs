//! What stands in the entries of a thread's log: the stored form of starts, steps, pauses and ends, and of the
//! records of a step in progress. Field names here are the format; adding an optional field keeps it readable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::graph::BuiltGraph;
use crate::plan::{PlanPosition, PlannedTask};
use crate::question::PendingQuestion;
use crate::state::State;
use crate::store::{RunFailure, RunUsage};
use crate::unfinished_call::UnfinishedCall;

/// Version of this format, written with every start.
pub const LOG_FORMAT_VERSION: u32 = 1;

/// A run began.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunStartedEntry {
    /// Version of the format of this run's entries.
    pub v: u32,
    /// The graph.
    pub graph: String,
    /// The input, as an update of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Box<RawValue>>,
    /// Present when the run begins at the start of its graph: what that was when the run was accepted. Absent: the run
    /// begins where the parent entry stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<StoredPosition>,
}

/// A superstep, of the graph or of one inside it.
#[derive(Debug, Serialize, Deserialize)]
pub struct StepEntry {
    /// For a subgraph: the task it runs in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What each task did, in the order in which the updates were folded.
    pub tasks: Vec<StoredTaskResult>,
    /// Where the run stands now.
    #[serde(flatten)]
    pub at: StoredPosition,
    /// Milliseconds the run was worked on so far, waiting for people not counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub active_ms: u64,
    /// For a subgraph that ended with this step: where the graph around it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goto_parent: Option<Vec<DueTask>>,
}

/// What one task did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredTaskResult {
    /// The node.
    pub node: String,
    /// Its update.
    pub update: Box<RawValue>,
    /// How long it took, retries included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ms: u64,
    /// Tries, when more than one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub attempts: u32,
    /// The result is from the cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cached: bool,
    /// What it spent.
    #[serde(default, skip_serializing_if = "RunUsage::is_zero")]
    pub usage: RunUsage,
    /// What the node noted for the inspector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, Value>,
    /// Where it chose to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goto: Option<Vec<DueTask>>,
    /// Where it chose to go in the graph around its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goto_parent: Option<Vec<DueTask>>,
    /// Why it failed. Its update is empty then, and its node has an edge for errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<RunFailure>,
}

/// How an entry begins that has pieces which the run showed before it.
const SHOWN_START: &[u8] = br#"{"shown":"#;

/// Pieces that a run showed before an entry of any kind, where they are kept.
#[derive(Debug, Default, Deserialize)]
struct ShownBefore {
    #[serde(default)]
    shown: Vec<ShownPiece>,
}

/// Data that a node emitted, kept with the next entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownPiece {
    /// Its number. Numbers rise within a run.
    pub number: u64,
    /// What was shown.
    pub data: Value,
}

/// The body of an entry, with what was shown before it.
pub(crate) fn body_with_shown(body: &[u8], shown: &[ShownPiece]) -> Vec<u8> {
    let rest = body.strip_prefix(b"{").unwrap_or(b"}");
    let between: &[u8] = if rest == b"}" { b"" } else { b"," };
    [SHOWN_START, &to_json_bytes(&shown), between, rest].concat()
}

/// What was shown before an entry.
pub(crate) fn shown_in_body(body: &[u8]) -> Result<Vec<ShownPiece>, serde_json::Error> {
    match body.starts_with(SHOWN_START) {
        true => crate::stored_json::from_slice::<ShownBefore>(body).map(|before| before.shown),
        false => Ok(Vec::new()),
    }
}

/// A `PlanPosition` with names instead of numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredPosition {
    /// Supersteps finished in this run.
    #[serde(default)]
    pub step: u32,
    /// What is due next.
    #[serde(default)]
    pub due: Vec<DueTask>,
    /// Deferred nodes that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<DueTask>,
    /// Joins reached by some of their predecessors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arrived: BTreeMap<String, Vec<String>>,
}

/// A task that is due: a node, or a node and its item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DueTask {
    /// Just the node.
    Node(String),
    /// A node with an item of a dynamic fan-out.
    Item {
        /// The node.
        node: String,
        /// The item.
        input: Value,
    },
}

/// The run waits.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunPausedEntry {
    /// What it waits for.
    pub asks: Vec<PendingQuestion>,
    /// Calls of the step in progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<UnfinishedCall>,
    /// What somebody changed while the run waited. Such a pause follows another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<StateEditedEntry>,
    /// Milliseconds the run was worked on so far, the step in progress included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub active_ms: u64,
}

/// The run was answered.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunResumedEntry {
    /// By question.
    pub answers: BTreeMap<String, Value>,
    /// The claim of the run that asked the questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// Why a failed run goes on that somebody asked to try again.
pub const TRIED_AGAIN: &str = "tried again";

/// The run goes on after something that was not planned.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunRestartedEntry {
    /// Which claim of the run this is.
    pub epoch: u64,
    /// Why.
    pub why: String,
}

/// The run failed.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunFailedEntry {
    /// Code and sentence.
    #[serde(flatten)]
    pub failure: RunFailure,
    /// The node, when one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Tasks of the last step that did not finish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<UnfinishedTask>,
}

/// A task that failed or was cancelled: what it had spent and noted by then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct UnfinishedTask {
    /// The node.
    pub node: String,
    /// How long it ran in milliseconds, retries included.
    #[serde(default)]
    pub ms: u64,
    /// Tries.
    #[serde(default = "one")]
    pub attempts: u32,
    /// What it spent.
    #[serde(default, skip_serializing_if = "RunUsage::is_zero")]
    pub usage: RunUsage,
    /// What its last try noted for the inspector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, Value>,
}

/// The run was cancelled.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RunCancelledEntry {
    /// What watchers had been shown of the step that was cut off: text by node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partial: BTreeMap<String, String>,
    /// Tasks of the step that was cut off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<UnfinishedTask>,
    /// Calls of the step that was cut off. A run that was paused has them in its pause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<UnfinishedCall>,
}

/// Somebody changed the state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StateEditedEntry {
    /// The graph whose state it is. A thread can have runs of several graphs, and an edit of one is not held against the
    /// state of another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// The whole state, replacing the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Box<RawValue>>,
    /// A change, folded in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Box<RawValue>>,
    /// Where the next run begins. Absent: where the parent stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<StoredPosition>,
}

/// A whole state with its place, so that a reader need not start from the beginning.
#[derive(Debug, Serialize, Deserialize)]
pub struct StateSnapshot<S> {
    /// The state.
    pub state: S,
    /// The graph that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// Where the run stood.
    pub at: StoredPosition,
    /// Milliseconds worked on in the run so far.
    #[serde(default)]
    pub active_ms: u64,
    /// Nodes of the step it was made after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finished: Vec<String>,
}

impl StoredPosition {
    pub(crate) fn from_position<S: State>(position: &PlanPosition, graph: &BuiltGraph<S>) -> Self {
        let name = |ix: &u16| graph.node(*ix).name.to_string();
        let task = |task: &PlannedTask| match &task.input {
            None => DueTask::Node(name(&task.node)),
            Some(input) => DueTask::Item { node: name(&task.node), input: input.clone() },
        };
        Self {
            step: position.step,
            due: position.due.iter().map(task).collect(),
            held: position.held_back.iter().map(task).collect(),
            arrived: position
                .arrived
                .iter()
                .map(|(join, sources)| (name(join), sources.iter().map(name).collect()))
                .collect(),
        }
    }

    /// Back to numbers. `Err` names a node that the graph does not have (any more).
    pub(crate) fn to_position<S: State>(&self, graph: &BuiltGraph<S>) -> Result<PlanPosition, String> {
        let number = |name: &String| graph.node_index(name).ok_or_else(|| name.clone());
        let task = |task: &DueTask| match task {
            DueTask::Node(node) => Ok(PlannedTask { node: number(node)?, input: None }),
            DueTask::Item { node, input } => {
                Ok(PlannedTask { node: number(node)?, input: Some(input.clone()) })
            }
        };
        let mut arrived = BTreeMap::new();
        for (join, sources) in &self.arrived {
            arrived.insert(number(join)?, sources.iter().map(number).collect::<Result<_, String>>()?);
        }
        Ok(PlanPosition {
            step: self.step,
            due: self.due.iter().map(task).collect::<Result<_, String>>()?,
            held_back: self.held.iter().map(task).collect::<Result<_, String>>()?,
            arrived,
        })
    }

    /// Names of the nodes that are due.
    pub(crate) fn due_nodes(&self) -> Vec<String> {
        self.due
            .iter()
            .map(|task| match task {
                DueTask::Node(node) | DueTask::Item { node, .. } => node.clone(),
            })
            .collect()
    }
}

/// JSON bytes of a stored form of this module. They have text keys only, so writing them cannot fail; what somebody
/// else's type may refuse to write goes through `serde_json` itself.
#[allow(clippy::expect_used, reason = "an empty body in the log would be worse than the end of one run")]
pub(crate) fn to_json_bytes(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("a stored form has text keys only")
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_has_what_was_shown_before_it_beside_its_own_fields() {
        let shown = vec![ShownPiece { number: 7, data: json!({ "tick": 1 }) }];
        for body in [r#"{"asks":[],"active_ms":3}"#, "{}"] {
            let with_shown = body_with_shown(body.as_bytes(), &shown);
            assert_eq!(shown_in_body(&with_shown).expect("readable"), shown, "{body}");
            let mut read: Value = serde_json::from_slice(&with_shown).expect("JSON");
            read.as_object_mut().expect("an object").remove("shown");
            assert_eq!(read, serde_json::from_str::<Value>(body).expect("JSON"));
            assert_eq!(shown_in_body(body.as_bytes()).expect("readable"), []);
        }
    }
}

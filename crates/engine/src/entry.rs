//! The entries of a thread's log, read: what happened, without the form in which it is stored.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::id::RunId;
use crate::log::{self, ShownPiece, UnfinishedTask};
use crate::question::PendingQuestion;
use crate::store::{EntryKind, LogEntry, Millis, RunFailure, RunUsage, Seq, StoreError};
use crate::stored_json;
use crate::task_path::TaskPath;
use crate::unfinished_call::UnfinishedCall;

/// One entry of a thread's log.
#[derive(Clone, Debug)]
pub struct ThreadEntry {
    /// Its number in the thread, from 1.
    pub seq: Seq,
    /// The entry it follows; 0 for the first.
    pub parent: Seq,
    /// The run that wrote it; `None` for an edit.
    pub run: Option<RunId>,
    /// When, by the store's clock.
    pub at: Millis,
    /// What happened.
    pub body: EntryBody,
    /// What nodes showed between the entry before it and this one, if the run keeps that
    /// ([`StartOptions::keep_emitted`](crate::StartOptions::keep_emitted)).
    pub shown: Vec<ShownPiece>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum EntryBody {
    /// A run began.
    Started {
        /// The graph.
        graph: String,
        /// The input, as an update of the state. `None` went on from where the thread stood.
        input: Option<Box<RawValue>>,
    },
    /// A superstep of the graph is on disk.
    Step(StepResult),
    /// A superstep of a subgraph is on disk.
    InnerStep(StepResult),
    /// The run waits for answers.
    Paused {
        /// What it asks.
        questions: Vec<PendingQuestion>,
        /// Calls of the step in progress.
        calls: Vec<UnfinishedCall>,
        /// What somebody changed while the run waited. Such a pause follows another one, with the same questions.
        edit: Option<StateChange>,
    },
    /// The run was answered.
    Resumed {
        /// By question.
        answers: BTreeMap<String, Value>,
    },
    /// The run goes on after a crash, a takeover or a retry.
    Restarted {
        /// Why.
        reason: String,
    },
    /// The run ended well.
    Finished,
    /// The run ended with an error.
    Failed {
        /// Code and sentence.
        failure: RunFailure,
        /// The node, when one failed.
        node: Option<String>,
        /// Tasks of the last step that did not finish.
        unfinished: Vec<UnfinishedTask>,
    },
    /// The run was cancelled.
    Cancelled {
        /// What watchers had been shown of the step that was cut off: text by node.
        partial_text: BTreeMap<String, String>,
        /// Tasks of the step that was cut off.
        unfinished: Vec<UnfinishedTask>,
        /// Calls of the step that was cut off. A run that was paused has them in its pause.
        calls: Vec<UnfinishedCall>,
    },
    /// Somebody changed the state outside a run.
    Edited(StateChange),
}

/// A change of the state by hand: the whole state, then an update.
#[derive(Clone, Debug)]
pub struct StateChange {
    /// The graph whose state it is; none where the thread only goes on from another entry.
    pub graph: Option<String>,
    /// The whole state, replacing the old one.
    pub state: Option<Box<RawValue>>,
    /// A change, folded in.
    pub update: Option<Box<RawValue>>,
    /// Whether it says which nodes are due next. Otherwise those are that were due before.
    pub sets_due: bool,
}

impl From<log::StateEditedEntry> for StateChange {
    fn from(log::StateEditedEntry { graph, state, update, at }: log::StateEditedEntry) -> Self {
        Self { graph, state, update, sets_due: at.is_some() }
    }
}

/// A superstep.
#[derive(Clone, Debug)]
pub struct StepResult {
    /// Supersteps finished in this graph, this one included.
    pub step: u32,
    /// For a step of a subgraph: the task it runs in.
    pub path: Option<TaskPath>,
    /// What each task did, in the order in which the updates were folded.
    pub tasks: Vec<TaskResult>,
    /// Names of the nodes that are due next.
    pub next: Vec<String>,
    /// Milliseconds the run was worked on so far, waiting for people not counted.
    pub active_ms: u64,
}

/// What one task did.
#[derive(Clone, Debug)]
pub struct TaskResult {
    /// The node.
    pub node: String,
    /// Its update.
    pub update: Box<RawValue>,
    /// How long it took in milliseconds, retries included.
    pub ms: u64,
    /// Tries.
    pub attempts: u32,
    /// The result is from the cache.
    pub cached: bool,
    /// What it spent.
    pub usage: RunUsage,
    /// What the node noted for people who look into the step.
    pub notes: BTreeMap<String, Value>,
    /// Why it failed. Its update is empty then, and the run went on at the node that handles its errors.
    pub failure: Option<RunFailure>,
}

impl ThreadEntry {
    /// Reads a stored entry. One that makes no sense is [`StoreError::Damaged`].
    pub fn from_log(entry: &LogEntry) -> Result<Self, StoreError> {
        let body = EntryBody::from_log(entry)?;
        let shown = log::shown_in_body(&entry.body).map_err(|error| damaged_entry(entry, &error))?;
        let LogEntry { seq, parent, run, at, .. } = *entry;
        Ok(Self { seq, parent, run, at, body, shown })
    }

    /// Whether the run goes on here because its worker was lost or stopped. Of calls that were under way then nothing may be
    /// known, not even what they cost.
    pub fn follows_lost_worker(&self) -> bool {
        matches!(&self.body, EntryBody::Restarted { reason } if reason != log::TRIED_AGAIN)
    }

    /// What it is.
    pub fn kind(&self) -> EntryKind {
        match self.body {
            EntryBody::Started { .. } => EntryKind::Started,
            EntryBody::Step(_) => EntryKind::Step,
            EntryBody::InnerStep(_) => EntryKind::Inner,
            EntryBody::Paused { .. } => EntryKind::Paused,
            EntryBody::Resumed { .. } => EntryKind::Resumed,
            EntryBody::Restarted { .. } => EntryKind::Restarted,
            EntryBody::Finished => EntryKind::Finished,
            EntryBody::Failed { .. } => EntryKind::Failed,
            EntryBody::Cancelled { .. } => EntryKind::Cancelled,
            EntryBody::Edited(_) => EntryKind::Edited,
        }
    }
}

impl EntryBody {
    fn from_log(entry: &LogEntry) -> Result<Self, StoreError> {
        Ok(match entry.kind {
            EntryKind::Started => {
                let log::RunStartedEntry { graph, update, .. } = read_log_body(entry)?;
                Self::Started { graph, input: update }
            }
            EntryKind::Step => Self::Step(StepResult::from_log(entry)?),
            EntryKind::Inner => Self::InnerStep(StepResult::from_log(entry)?),
            EntryKind::Paused => {
                let log::RunPausedEntry { asks, calls, edit, .. } = read_log_body(entry)?;
                Self::Paused { questions: asks, calls, edit: edit.map(StateChange::from) }
            }
            EntryKind::Resumed => {
                Self::Resumed { answers: read_log_body::<log::RunResumedEntry>(entry)?.answers }
            }
            EntryKind::Restarted => {
                Self::Restarted { reason: read_log_body::<log::RunRestartedEntry>(entry)?.why }
            }
            EntryKind::Finished => Self::Finished,
            EntryKind::Failed => {
                let log::RunFailedEntry { failure, node, unfinished } = read_log_body(entry)?;
                Self::Failed { failure, node, unfinished }
            }
            EntryKind::Cancelled => {
                let log::RunCancelledEntry { partial, calls, unfinished } = read_log_body(entry)?;
                Self::Cancelled { partial_text: partial, calls, unfinished }
            }
            EntryKind::Edited => Self::Edited(read_log_body::<log::StateEditedEntry>(entry)?.into()),
        })
    }
}

impl StepResult {
    fn from_log(entry: &LogEntry) -> Result<Self, StoreError> {
        let step: log::StepEntry = read_log_body(entry)?;
        let path = match step.path.as_str() {
            "" => None,
            path => Some(path.parse::<TaskPath>().map_err(|error| damaged_entry(entry, &error))?),
        };
        let next = step.at.due_nodes();
        let tasks = step.tasks.into_iter().map(TaskResult::from_log).collect();
        Ok(Self { step: step.at.step, path, tasks, next, active_ms: step.active_ms })
    }
}

impl TaskResult {
    fn from_log(stored: log::StoredTaskResult) -> Self {
        let log::StoredTaskResult { node, update, ms, attempts, cached, usage, notes, failure, .. } = stored;
        Self { node, update, ms, attempts, cached, usage, notes, failure }
    }
}

/// Reads the body of a stored entry.
pub(crate) fn read_log_body<T: DeserializeOwned>(entry: &LogEntry) -> Result<T, StoreError> {
    stored_json::from_slice(&entry.body).map_err(|error| damaged_entry(entry, &error))
}

fn damaged_entry(entry: &LogEntry, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("entry {}: {error}", entry.seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: EntryKind, body: &str) -> LogEntry {
        LogEntry { seq: 7, parent: 6, base: 0, run: None, at: 5, kind, body: body.into() }
    }

    #[test]
    fn every_kind_of_entry_reads_as_its_own() {
        let step = r#"{"path":"0.0","tasks":[{"node":"a","update":{}}],"step":2,"due":["b",{"node":"c","input":1}]}"#;
        let kinds = [
            (EntryKind::Started, r#"{"v":1,"graph":"g"}"#),
            (EntryKind::Step, r#"{"tasks":[]}"#),
            (EntryKind::Inner, step),
            (EntryKind::Paused, r#"{"asks":[]}"#),
            (EntryKind::Resumed, r#"{"answers":{}}"#),
            (EntryKind::Restarted, r#"{"epoch":2,"why":"taken up again"}"#),
            (EntryKind::Finished, "{}"),
            (EntryKind::Failed, r#"{"code":"panic","message":"?"}"#),
            (EntryKind::Cancelled, "{}"),
            (EntryKind::Edited, "{}"),
        ];
        for (kind, body) in kinds {
            let read = ThreadEntry::from_log(&entry(kind, body));
            assert!(matches!(&read, Ok(read) if read.kind() == kind && read.seq == 7), "{read:?}");
        }
        let Ok(EntryBody::InnerStep(step)) = EntryBody::from_log(&entry(EntryKind::Inner, step)) else {
            panic!("not a step")
        };
        assert_eq!((step.step, step.path.as_ref().map(TaskPath::as_str)), (2, Some("0.0")));
        assert_eq!((step.next, step.tasks[0].attempts), (vec!["b".to_owned(), "c".to_owned()], 1));
    }

    #[test]
    fn an_entry_that_makes_no_sense_is_damage_and_says_which() {
        for (kind, body) in [(EntryKind::Paused, "{}"), (EntryKind::Inner, r#"{"path":"x","tasks":[]}"#)] {
            let read = ThreadEntry::from_log(&entry(kind, body));
            assert!(matches!(&read, Err(StoreError::Damaged(why)) if why.starts_with("entry 7")), "{read:?}");
        }
    }
}

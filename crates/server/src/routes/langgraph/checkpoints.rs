//! Checkpoints: the log of a thread as LangGraph's clients see it. Input and steps of a run, and changes by hand, are a
//! checkpoint each; how a run paused, failed or was cancelled belongs to the tasks after the last one.

use std::collections::HashMap;

use doran_agents::Agent;
use doran_agents::history::read_entries;
use doran_engine::store::{Millis, RunFailure, Seq, StoreError};
use doran_engine::{
    EngineError, EntryBody, PendingQuestion, QuestionKind, RunId, StateChange, TaskResult, ThreadEntry,
    ThreadKey,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ids::{CheckpointId, graph_assistant_id, task_id};
use super::messages::{parse_raw_json, update_to_json};
use super::metadata::run_assistant_id;
use super::thread_state::load_values;
use super::times::time_text;
use crate::ServerApp;
use crate::error::ApiError;

/// How a checkpoint came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckpointSource {
    /// A run was given its input, which is not folded in yet.
    Input,
    /// The input was folded in, or a step was made.
    Loop,
    /// Somebody changed the state.
    Update,
    /// A run went on from an older checkpoint.
    Fork,
}

impl CheckpointSource {
    fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Loop => "loop",
            Self::Update => "update",
            Self::Fork => "fork",
        }
    }
}

/// A checkpoint of a thread.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub(super) id: CheckpointId,
    pub(super) source: CheckpointSource,
    /// Its place, from -1.
    pub(super) step: i64,
    /// The entry whose state it has.
    pub(super) state_seq: Seq,
    pub(super) run: Option<RunId>,
    pub(super) graph: Option<String>,
    pub(super) at: Millis,
    /// The one before it, by its place in the tree.
    parent: Option<usize>,
    /// What became of the tasks after it.
    outcome: TasksOutcome,
}

/// What became of the tasks after a checkpoint.
#[derive(Clone, Debug, Default)]
struct TasksOutcome {
    /// Node and update.
    results: Vec<(String, Value)>,
    questions: Vec<PendingQuestion>,
    failure: Option<(Option<String>, RunFailure)>,
}

/// The checkpoints of a thread, of all its branches, in the order of the log.
#[derive(Default)]
pub(super) struct CheckpointTree {
    checkpoints: Vec<Checkpoint>,
    /// The checkpoint that an entry stands at.
    at_entry: HashMap<Seq, usize>,
    graph_of_run: HashMap<RunId, String>,
    last_entry: Seq,
}

/// The checkpoints of a thread, up to an entry where one is given.
pub(super) async fn load_checkpoints(
    app: &ServerApp,
    thread: &ThreadKey,
    until: Option<Seq>,
) -> Result<CheckpointTree, ApiError> {
    let mut tree = CheckpointTree::default();
    for entry in read_entries(&app.runtime, thread, until).await? {
        tree.add(&entry)?;
    }
    Ok(tree)
}

impl CheckpointTree {
    /// Where the thread stands.
    pub(super) fn newest(&self) -> Option<&Checkpoint> {
        self.at(self.last_entry)
    }

    /// Where the thread stood after an entry.
    pub(super) fn at(&self, entry: Seq) -> Option<&Checkpoint> {
        self.at_entry.get(&entry).map(|index| &self.checkpoints[*index])
    }

    pub(super) fn find(&self, id: CheckpointId) -> Option<&Checkpoint> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.id == id)
    }

    pub(super) fn parent(&self, checkpoint: &Checkpoint) -> Option<&Checkpoint> {
        checkpoint.parent.map(|index| &self.checkpoints[index])
    }

    /// All of them, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Checkpoint> {
        self.checkpoints.iter().rev()
    }

    /// Whether the one leads to the other.
    pub(super) fn leads_to(&self, earlier: &Checkpoint, later: &Checkpoint) -> bool {
        let mut next = Some(later);
        while let Some(here) = next {
            if here.id == earlier.id {
                return true;
            }
            next = self.parent(here);
        }
        false
    }

    fn add(&mut self, entry: &ThreadEntry) -> Result<(), ApiError> {
        // Most entries stand where the one before them stood.
        let stood = self.at_entry.get(&entry.parent).copied();
        self.at_entry.extend(stood.map(|index| (entry.seq, index)));
        self.last_entry = entry.seq;
        match &entry.body {
            EntryBody::Started { graph, input } => {
                self.graph_of_run.extend(entry.run.map(|run| (run, graph.clone())));
                if let Some(input) = input {
                    self.push(entry, CheckpointSource::Input, entry.parent);
                    let update = parse_raw_json(input)?;
                    self.change_outcome(entry, |outcome| {
                        outcome.results = vec![("__start__".to_owned(), update)];
                    });
                    self.push(entry, CheckpointSource::Loop, entry.seq);
                } else if goes_back(entry) {
                    self.push(entry, CheckpointSource::Fork, entry.seq);
                } else {
                    self.change_outcome(entry, |outcome| *outcome = TasksOutcome::default());
                }
            }
            EntryBody::Step(step) => {
                let results: Vec<(String, Value)> =
                    step.tasks.iter().map(task_update).collect::<Result<_, _>>()?;
                self.change_outcome(entry, |outcome| {
                    *outcome = TasksOutcome { results, ..TasksOutcome::default() }
                });
                self.push(entry, CheckpointSource::Loop, entry.seq);
            }
            // The thread was set back to its parent.
            EntryBody::Edited(StateChange { state: None, update: None, sets_due: false, .. }) => {
                self.change_outcome(entry, |outcome| outcome.failure = None);
            }
            EntryBody::Edited(change) => {
                self.push(entry, CheckpointSource::Update, entry.seq);
                self.set_graph(entry, change);
            }
            EntryBody::Paused { questions, edit, .. } => {
                // Somebody changed the state while the run waited; it still waits for the same.
                if let Some(change) = edit {
                    self.push(entry, CheckpointSource::Update, entry.seq);
                    self.set_graph(entry, change);
                }
                self.change_outcome(entry, |outcome| outcome.questions.clone_from(questions));
            }
            EntryBody::Failed { failure, node, .. } => {
                self.change_outcome(entry, |outcome| outcome.failure = Some((node.clone(), failure.clone())));
            }
            EntryBody::Resumed { .. } | EntryBody::Restarted { .. } => {
                self.change_outcome(entry, |outcome| *outcome = TasksOutcome::default());
            }
            // The question of a run that was cancelled is closed.
            EntryBody::Cancelled { .. } => self.change_outcome(entry, |outcome| outcome.questions.clear()),
            EntryBody::InnerStep(_) | EntryBody::Finished => {}
        }
        Ok(())
    }

    fn change_outcome(&mut self, entry: &ThreadEntry, change: impl FnOnce(&mut TasksOutcome)) {
        if let Some(index) = self.at_entry.get(&entry.seq) {
            change(&mut self.checkpoints[*index].outcome);
        }
    }

    /// A change is one of the state of a graph.
    fn set_graph(&mut self, entry: &ThreadEntry, change: &StateChange) {
        if let (Some(index), Some(graph)) = (self.at_entry.get(&entry.seq), &change.graph) {
            self.checkpoints[*index].graph = Some(graph.clone());
        }
    }

    /// Adds a checkpoint at an entry, after the one that the entry stands at.
    fn push(&mut self, entry: &ThreadEntry, source: CheckpointSource, state_seq: Seq) {
        let parent = self.at_entry.get(&entry.seq).copied();
        let known_graph = || parent.and_then(|parent| self.checkpoints[parent].graph.clone());
        let graph = entry.run.and_then(|run| self.graph_of_run.get(&run).cloned()).or_else(known_graph);
        let checkpoint = Checkpoint {
            id: CheckpointId { seq: entry.seq, is_after: source != CheckpointSource::Input },
            source,
            step: parent.map_or(-1, |parent| self.checkpoints[parent].step + 1),
            state_seq,
            run: entry.run,
            graph,
            at: entry.at,
            parent,
            outcome: TasksOutcome::default(),
        };
        self.at_entry.insert(entry.seq, self.checkpoints.len());
        self.checkpoints.push(checkpoint);
    }
}

/// Whether an entry follows an older one than the one before it.
pub(super) fn goes_back(entry: &ThreadEntry) -> bool {
    entry.parent + 1 != entry.seq
}

fn task_update(task: &TaskResult) -> Result<(String, Value), ApiError> {
    Ok((task.node.clone(), parse_raw_json(&task.update)?))
}

/// A state of a thread, as LangGraph's clients read it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct LangGraphState {
    /// The state, with messages as LangChain writes them.
    values: Value,
    /// The nodes that are due.
    next: Vec<String>,
    /// The tasks that are due, or what became of them.
    tasks: Vec<Value>,
    /// Where the checkpoint came from.
    metadata: Option<Map<String, Value>>,
    /// When the checkpoint was written.
    created_at: Option<String>,
    /// The checkpoint.
    checkpoint: Option<CheckpointRef>,
    /// The checkpoint before it.
    parent_checkpoint: Option<CheckpointRef>,
    /// What the thread waits for.
    interrupts: Vec<LangGraphInterrupt>,
    /// The id of the checkpoint.
    checkpoint_id: Option<String>,
    /// The id of the checkpoint before it.
    parent_checkpoint_id: Option<String>,
}

/// The name of a checkpoint.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct CheckpointRef {
    /// The id of the checkpoint.
    checkpoint_id: String,
    /// The thread.
    thread_id: String,
    /// The graph inside the graph; always empty.
    checkpoint_ns: String,
}

impl CheckpointRef {
    pub(super) fn new(thread: &ThreadKey, id: CheckpointId) -> Self {
        Self {
            checkpoint_id: id.to_text(),
            thread_id: thread.thread.as_str().to_owned(),
            checkpoint_ns: String::new(),
        }
    }
}

/// Something that a run waits for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct LangGraphInterrupt {
    /// The id to answer it by.
    pub(super) id: String,
    /// What is asked.
    pub(super) value: Value,
}

/// What questions are interrupts; a breakpoint is none.
pub(super) fn interrupts(questions: &[PendingQuestion]) -> Vec<LangGraphInterrupt> {
    questions
        .iter()
        .filter(|question| question.kind != QuestionKind::Breakpoint)
        .map(|question| LangGraphInterrupt { id: question.id.clone(), value: question.question.clone() })
        .collect()
}

impl LangGraphState {
    /// The state of a thread on which nothing happened.
    pub(super) fn empty() -> Self {
        Self {
            values: json!({}),
            next: Vec::new(),
            tasks: Vec::new(),
            metadata: None,
            created_at: None,
            checkpoint: None,
            parent_checkpoint: None,
            interrupts: Vec::new(),
            checkpoint_id: None,
            parent_checkpoint_id: None,
        }
    }

    /// The state at a checkpoint.
    pub(super) async fn load(
        app: &ServerApp,
        agent: &Agent,
        thread: &ThreadKey,
        tree: &CheckpointTree,
        here: &Checkpoint,
    ) -> Result<Self, ApiError> {
        let parent = tree.parent(here).map(|before| CheckpointRef::new(thread, before.id));
        let (values, due) = load_values(app, agent, thread, Some(here.state_seq)).await?;
        let next = match here.source {
            CheckpointSource::Input => vec!["__start__".to_owned()],
            CheckpointSource::Loop | CheckpointSource::Update | CheckpointSource::Fork => due,
        };
        let checkpoint = CheckpointRef::new(thread, here.id);
        Ok(Self {
            values,
            tasks: tasks(agent, thread, here, &next),
            next,
            metadata: Some(checkpoint_metadata(app, thread, here).await?),
            created_at: Some(time_text(here.at)),
            checkpoint_id: Some(checkpoint.checkpoint_id.clone()),
            checkpoint: Some(checkpoint),
            parent_checkpoint_id: parent.as_ref().map(|parent| parent.checkpoint_id.clone()),
            parent_checkpoint: parent,
            interrupts: interrupts(&here.outcome.questions),
        })
    }

    /// Whether its metadata has all of these pairs.
    pub(super) fn has_metadata(&self, wanted: &Map<String, Value>) -> bool {
        let metadata = self.metadata.as_ref();
        wanted.iter().all(|(name, value)| metadata.and_then(|all| all.get(name)) == Some(value))
    }

    pub(super) fn values(&self) -> &Value {
        &self.values
    }

    /// What the thread waits for, by task.
    pub(super) fn interrupts_by_task(&self) -> Map<String, Value> {
        let waiting =
            self.tasks.iter().filter(|task| task["interrupts"].as_array().is_some_and(|all| !all.is_empty()));
        waiting
            .filter_map(|task| Some((task["id"].as_str()?.to_owned(), task["interrupts"].clone())))
            .collect()
    }
}

async fn checkpoint_metadata(
    app: &ServerApp,
    thread: &ThreadKey,
    here: &Checkpoint,
) -> Result<Map<String, Value>, ApiError> {
    let mut metadata = Map::from_iter([
        ("source".to_owned(), here.source.name().into()),
        ("step".to_owned(), here.step.into()),
        ("parents".to_owned(), json!({})),
        ("thread_id".to_owned(), thread.thread.as_str().into()),
    ]);
    if let Some(graph) = &here.graph {
        metadata.insert("graph_id".to_owned(), graph.as_str().into());
        if here.source != CheckpointSource::Update {
            // Rows of old runs may be gone.
            let assistant = match here.run {
                Some(run) => match app.runtime.run_row(&thread.run(run)).await {
                    Ok(row) => run_assistant_id(&row),
                    Err(EngineError::Store(StoreError::NotFound { .. })) => graph_assistant_id(graph),
                    Err(error) => return Err(error.into()),
                },
                None => graph_assistant_id(graph),
            };
            metadata.insert("assistant_id".to_owned(), assistant.into());
        }
    }
    if let Some(run) = here.run {
        metadata.insert("run_id".to_owned(), run.to_string().into());
    }
    Ok(metadata)
}

/// The tasks after a checkpoint.
fn tasks(agent: &Agent, thread: &ThreadKey, here: &Checkpoint, next: &[String]) -> Vec<Value> {
    let TasksOutcome { results, questions, failure } = &here.outcome;
    let mut results: Vec<Option<&(String, Value)>> = results.iter().map(Some).collect();
    let task = |(index, name): (usize, &String)| {
        let result = results.iter_mut().find(|result| result.is_some_and(|(node, _)| node == name));
        let result = result.and_then(Option::take).map(|(_, update)| update_to_json(agent, update.clone()));
        let failure = failure.as_ref().filter(|(node, _)| node.as_ref().is_none_or(|node| node == name));
        let asked: Vec<PendingQuestion> =
            questions.iter().filter(|question| question.node == *name).cloned().collect();
        json!({
            "id": task_id(thread.thread.as_str(), here.id, name, index),
            "name": name,
            "path": ["__pregel_pull", name],
            "error": failure.map(|(_, failure)| error_text(failure)),
            "interrupts": interrupts(&asked),
            "checkpoint": null,
            "state": null,
            "result": result,
        })
    };
    next.iter().enumerate().map(task).collect()
}

/// An error in the way in which Python shows one.
fn error_text(failure: &RunFailure) -> String {
    format!("{}('{}')", failure.code, failure_message(failure).replace('\'', "\\'"))
}

/// The words of a failure. The engine puts the name of the node before them.
pub(super) fn failure_message(failure: &RunFailure) -> &str {
    let rest = failure.message.strip_prefix("node `").and_then(|rest| rest.split_once("`: "));
    rest.map_or(failure.message.as_str(), |(_, words)| words)
}

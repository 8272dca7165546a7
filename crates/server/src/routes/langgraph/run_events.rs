//! Events of a run as LangGraph's stream modes have them, made from the one event log.

use std::collections::BTreeSet;

use doran_agents::Agent;
use doran_engine::log::ShownPiece;
use doran_engine::runtime::{NodeDelta, NodeDeltaContent};
use doran_engine::store::{RunFailure, RunRow, Seq};
use doran_engine::{EntryBody, Event, PendingQuestion, QuestionKind, StepResult, ThreadEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::checkpoints::{failure_message, goes_back, interrupts, load_checkpoints};
use super::ids::{CheckpointId, task_id};
use super::message_events::{MessageEvents, MessageSource};
use super::messages::{parse_raw_json, update_to_json};
use super::metadata::{DORAN_METADATA, run_assistant_id};
use super::sent_messages::SentMessages;
use super::thread_state::load_values;
use super::times::time_text;
use crate::ServerApp;
use crate::error::ApiError;

/// What of a run is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StreamMode {
    /// The whole state after the input and after each step.
    Values,
    /// The update of each node.
    Updates,
    /// Messages so far, as `messages/partial`.
    Messages,
    /// Pieces of messages, each with where it comes from.
    MessagesTuple,
    /// What nodes show beside messages.
    Custom,
    /// The begin and the end of each task.
    Tasks,
    /// Each checkpoint.
    Checkpoints,
    /// Tasks and checkpoints together.
    Debug,
}

impl StreamMode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Updates => "updates",
            Self::Messages => "messages",
            Self::MessagesTuple => "messages-tuple",
            Self::Custom => "custom",
            Self::Tasks => "tasks",
            Self::Checkpoints => "checkpoints",
            Self::Debug => "debug",
        }
    }
}

/// An event of a stream.
#[derive(Clone, Debug)]
pub(super) struct LangGraphEvent {
    pub(super) name: String,
    pub(super) data: Value,
    /// What the client has of the messages of the step with this event, where it is one of a message.
    pub(super) sent: Option<String>,
}

impl LangGraphEvent {
    pub(super) fn new(name: impl Into<String>, data: Value) -> Self {
        Self { name: name.into(), data, sent: None }
    }

    pub(super) fn of_message(name: &str, data: Value, sent: String) -> Self {
        Self { name: name.to_owned(), data, sent: Some(sent) }
    }
}

/// Where a run stands between two events.
#[derive(Clone, Debug)]
struct RunPlace {
    /// The last checkpoint, and the one before it.
    checkpoint: Option<CheckpointId>,
    step: i64,
    /// The nodes at work.
    at_work: Vec<String>,
}

/// Turns the events of one run into those of the wanted modes.
pub(super) struct RunEvents {
    app: ServerApp,
    agent: Agent,
    row: RunRow,
    modes: BTreeSet<StreamMode>,
    subgraphs: bool,
    place: Option<RunPlace>,
    messages: MessageEvents,
    /// A step ended: what comes now is of the next.
    is_between_steps: bool,
    /// The number of the last stored piece that was sent.
    last_kept: Option<u64>,
}

impl RunEvents {
    pub(super) fn new(
        app: &ServerApp,
        agent: &Agent,
        row: RunRow,
        modes: BTreeSet<StreamMode>,
        subgraphs: bool,
    ) -> Self {
        Self {
            app: app.clone(),
            agent: agent.clone(),
            row,
            messages: MessageEvents::new(&modes),
            modes,
            subgraphs,
            place: None,
            is_between_steps: false,
            last_kept: None,
        }
    }

    /// What nodes showed before an entry and nobody saw in this stream: they come before what is made of the entry.
    pub(super) fn stored_before(&mut self, entry: &ThreadEntry) -> Vec<LangGraphEvent> {
        let mut events = Vec::new();
        for ShownPiece { number, data } in &entry.shown {
            if self.last_kept.is_none_or(|last| last < *number) {
                self.last_kept = Some(*number);
                self.custom_event(data, &mut events);
            }
        }
        events
    }

    fn custom_event(&self, data: &Value, events: &mut Vec<LangGraphEvent>) {
        if self.wants(StreamMode::Custom) {
            events.push(LangGraphEvent::new("custom", data.clone()));
        }
    }

    /// What the client has of the messages of this step.
    pub(super) fn client_has(&mut self, sent: SentMessages) {
        self.messages.sent = sent;
        self.is_between_steps = false;
    }

    fn wants(&self, mode: StreamMode) -> bool {
        self.modes.contains(&mode)
    }

    fn wants_messages(&self) -> bool {
        self.wants(StreamMode::Messages) || self.wants(StreamMode::MessagesTuple)
    }

    /// What an event of the engine means to clients.
    pub(super) async fn translate(&mut self, event: &Event) -> Result<Vec<LangGraphEvent>, ApiError> {
        if std::mem::take(&mut self.is_between_steps) {
            self.messages.sent = SentMessages::default();
        }
        match event {
            Event::Entry(_, entry) => {
                if self.place.is_none() && entry.seq > 0 {
                    self.place = Some(self.find_place(entry).await?);
                }
                self.translate_entry(entry).await
            }
            Event::Delta(delta) => Ok(self.translate_delta(delta)),
            // The log was cleared; the state is what there is.
            Event::Removed { .. } => Ok(Vec::new()),
        }
    }

    /// Where the run stood before its first event that is sent.
    async fn find_place(&mut self, entry: &ThreadEntry) -> Result<RunPlace, ApiError> {
        let needs_steps = self.wants_messages()
            || [StreamMode::Tasks, StreamMode::Checkpoints, StreamMode::Debug]
                .iter()
                .any(|mode| self.wants(*mode));
        let thread = &self.row.thread;
        if self.wants_messages() && entry.parent > 0 {
            let state = self.values(entry.parent).await?.0;
            let ids = state_messages(&self.agent, &state).filter_map(|message| message["id"].as_str());
            self.messages.known = ids.map(str::to_owned).collect();
        }
        let mut place = RunPlace { checkpoint: None, step: -2, at_work: Vec::new() };
        if needs_steps && entry.parent > 0 {
            let tree = load_checkpoints(&self.app, thread, Some(entry.parent)).await?;
            if let Some(last) = tree.at(entry.parent) {
                place.checkpoint = Some(last.id);
                place.step = last.step;
            }
        }
        if !matches!(entry.body, EntryBody::Started { .. }) {
            place.at_work = self.values(entry.parent).await?.1;
        }
        Ok(place)
    }

    async fn translate_entry(&mut self, entry: &ThreadEntry) -> Result<Vec<LangGraphEvent>, ApiError> {
        let mut events = Vec::new();
        match &entry.body {
            EntryBody::Started { input, .. } => {
                let has_input = input.is_some();
                let is_empty = input.as_ref().is_some_and(|input| input.get() == "{}");
                if has_input {
                    self.pass_checkpoint(CheckpointId { seq: entry.seq, is_after: false });
                    self.checkpoint_event(entry, entry.parent, "input", &mut events).await?;
                    self.pass_checkpoint(CheckpointId { seq: entry.seq, is_after: true });
                } else if goes_back(entry) {
                    self.pass_checkpoint(CheckpointId { seq: entry.seq, is_after: true });
                }
                let (values, next) = self.values(entry.seq).await?;
                for message in state_messages(&self.agent, &values) {
                    self.messages.known.extend(message["id"].as_str().map(str::to_owned));
                }
                if !is_empty {
                    self.values_event(&values, &mut events);
                }
                if has_input {
                    self.checkpoint_event(entry, entry.seq, "loop", &mut events).await?;
                }
                self.begin_tasks(entry, &values, &next, &mut events);
            }
            EntryBody::Resumed { .. } => {
                let (values, next) = self.values(entry.seq).await?;
                self.values_event(&values, &mut events);
                self.begin_tasks(entry, &values, &next, &mut events);
            }
            EntryBody::Restarted { .. } => self.messages.sent.begin_again(None),
            EntryBody::Step(step) => self.translate_step(entry, step, &mut events).await?,
            EntryBody::InnerStep(step) => self.translate_inner_step(step, &mut events)?,
            EntryBody::Paused { questions, edit, .. } => {
                if edit.is_some() {
                    self.pass_checkpoint(CheckpointId { seq: entry.seq, is_after: true });
                }
                self.translate_pause(entry, questions, &mut events).await?;
            }
            EntryBody::Failed { failure, node, .. } => {
                self.end_failed_task(entry, node.as_deref(), failure, &mut events);
                events.push(LangGraphEvent::new("error", failure_json(failure)));
            }
            EntryBody::Cancelled { .. } | EntryBody::Finished | EntryBody::Edited(_) => {}
        }
        Ok(events)
    }

    async fn translate_step(
        &mut self,
        entry: &ThreadEntry,
        step: &StepResult,
        events: &mut Vec<LangGraphEvent>,
    ) -> Result<(), ApiError> {
        let mut changed = false;
        let mut at_work = self.place.as_ref().map(|place| place.at_work.clone()).unwrap_or_default();
        for task in &step.tasks {
            let update = update_to_json(&self.agent, parse_raw_json(&task.update)?);
            let is_empty = update.as_object().is_some_and(Map::is_empty);
            changed |= !is_empty;
            if self.wants_messages() {
                let messages: Vec<Value> = state_messages(&self.agent, &update).cloned().collect();
                let source = self.message_source(&task.node);
                for message in messages {
                    self.messages.finish(&source, message, events);
                }
            }
            if self.wants(StreamMode::Updates) {
                let shown = if is_empty { Value::Null } else { update.clone() };
                events.push(LangGraphEvent::new("updates", json!({ &task.node: shown })));
            }
            let index = at_work.iter().position(|node| *node == task.node);
            let id = self.task_id(&task.node, index.unwrap_or_default());
            if let Some(index) = index {
                // A node may be at work more than once.
                at_work[index].clear();
            }
            let result =
                json!({ "id": id, "name": task.node, "error": null, "result": update, "interrupts": [] });
            self.task_event(entry, "task_result", &result, events);
        }
        self.is_between_steps = true;
        self.pass_checkpoint(CheckpointId { seq: entry.seq, is_after: true });
        let needs_values =
            [StreamMode::Values, StreamMode::Tasks, StreamMode::Checkpoints, StreamMode::Debug];
        if needs_values.iter().any(|mode| self.wants(*mode)) {
            let (values, next) = self.values(entry.seq).await?;
            if changed {
                self.values_event(&values, events);
            }
            self.checkpoint_event(entry, entry.seq, "loop", events).await?;
            self.begin_tasks(entry, &values, &next, events);
        } else if let Some(place) = &mut self.place {
            place.at_work.clone_from(&step.next);
        }
        Ok(())
    }

    /// A step of a graph inside a node.
    fn translate_inner_step(
        &mut self,
        step: &StepResult,
        events: &mut Vec<LangGraphEvent>,
    ) -> Result<(), ApiError> {
        if !self.subgraphs || !self.wants(StreamMode::Updates) {
            return Ok(());
        }
        let namespace = step.path.as_ref().map(|path| self.namespace(path.as_str())).unwrap_or_default();
        for task in &step.tasks {
            let update = update_to_json(&self.agent, parse_raw_json(&task.update)?);
            events.push(LangGraphEvent::new(format!("updates|{namespace}"), json!({ &task.node: update })));
        }
        Ok(())
    }

    async fn translate_pause(
        &mut self,
        entry: &ThreadEntry,
        questions: &[PendingQuestion],
        events: &mut Vec<LangGraphEvent>,
    ) -> Result<(), ApiError> {
        let asked = interrupts_json(questions);
        if self.wants(StreamMode::Updates) {
            events.push(LangGraphEvent::new("updates", json!({ "__interrupt__": asked })));
        }
        let is_breakpoint = questions.iter().all(|question| question.kind == QuestionKind::Breakpoint);
        if !is_breakpoint {
            let mut values = self.values(entry.seq).await?.0;
            values["__interrupt__"] = asked.clone();
            self.values_event(&values, events);
            for question in questions {
                let id = self.task_id(&question.node, 0);
                let asked = interrupts_json(std::slice::from_ref(question));
                let result = json!({ "id": id, "name": question.node, "error": null, "result": {}, "interrupts": asked });
                self.task_event(entry, "task_result", &result, events);
            }
        }
        Ok(())
    }

    fn end_failed_task(
        &self,
        entry: &ThreadEntry,
        node: Option<&str>,
        failure: &RunFailure,
        events: &mut Vec<LangGraphEvent>,
    ) {
        let Some(node) = node else { return };
        let id = self.task_id(node, 0);
        let result = json!({
            "id": id, "name": node, "error": failure_json(failure), "result": {}, "interrupts": [],
        });
        self.task_event(entry, "task_result", &result, events);
    }

    fn translate_delta(&mut self, delta: &NodeDelta) -> Vec<LangGraphEvent> {
        let mut events = Vec::new();
        match &delta.piece {
            NodeDeltaContent::Data(Value::String(text)) if self.agent.is_chat() => {
                if self.wants_messages() {
                    let source = self.message_source(&delta.node);
                    self.messages.push(&source, delta, text, &mut events);
                }
            }
            // It was sent from the log.
            NodeDeltaContent::Data(_) if delta.kept.is_some() && delta.kept <= self.last_kept => {}
            NodeDeltaContent::Data(data) => {
                self.last_kept = delta.kept.or(self.last_kept);
                self.custom_event(data, &mut events);
            }
            NodeDeltaContent::Restarted(_) => self.messages.sent.begin_again(Some(&delta.path)),
        }
        events
    }

    fn message_source(&self, node: &str) -> MessageSource {
        let step = self.place.as_ref().map_or(0, |place| place.step + 1);
        let task = self.task_id(node, 0);
        let namespace = format!("{node}:{task}");
        let metadata = json!({
            "langgraph_node": node,
            "langgraph_step": step,
            "langgraph_triggers": [format!("branch:to:{node}")],
            "langgraph_path": ["__pregel_pull", node],
            "langgraph_checkpoint_ns": namespace,
            "checkpoint_ns": namespace,
            "graph_id": self.row.graph,
            "assistant_id": run_assistant_id(&self.row),
            "thread_id": self.row.thread.thread.as_str(),
            "run_id": self.row.run.to_string(),
        });
        MessageSource { task, metadata }
    }

    fn pass_checkpoint(&mut self, id: CheckpointId) {
        if let Some(place) = &mut self.place {
            place.checkpoint = Some(id);
            place.step += 1;
        }
    }

    fn values_event(&self, values: &Value, events: &mut Vec<LangGraphEvent>) {
        if self.wants(StreamMode::Values) {
            events.push(LangGraphEvent::new("values", values.clone()));
        }
    }

    fn begin_tasks(
        &mut self,
        entry: &ThreadEntry,
        values: &Value,
        next: &[String],
        events: &mut Vec<LangGraphEvent>,
    ) {
        if let Some(place) = &mut self.place {
            place.at_work = next.to_vec();
        }
        if !self.wants(StreamMode::Tasks) && !self.wants(StreamMode::Debug) || self.pauses_at(entry, next) {
            return;
        }
        for (index, node) in next.iter().enumerate() {
            let task = json!({
                "id": self.task_id(node, index),
                "name": node,
                "input": values,
                "triggers": [format!("branch:to:{node}")],
                "metadata": {
                    "graph_id": self.row.graph,
                    "assistant_id": run_assistant_id(&self.row),
                    "run_id": self.row.run.to_string(),
                },
            });
            self.task_event(entry, "task", &task, events);
        }
    }

    /// Whether the run pauses here: what is due does not begin yet. A run that goes on has paused.
    fn pauses_at(&self, entry: &ThreadEntry, next: &[String]) -> bool {
        let Some(doran) = self.row.metadata.get(DORAN_METADATA) else { return false };
        let is_named = |field: &str, node: &str| {
            doran[field].as_array().is_some_and(|nodes| nodes.iter().any(|known| *known == node))
        };
        match &entry.body {
            EntryBody::Resumed { .. } => false,
            EntryBody::Step(step) => {
                step.tasks.iter().any(|task| is_named("interrupt_after", &task.node))
                    || next.iter().any(|node| is_named("interrupt_before", node))
            }
            _ => next.iter().any(|node| is_named("interrupt_before", node)),
        }
    }

    fn task_event(&self, entry: &ThreadEntry, kind: &str, payload: &Value, events: &mut Vec<LangGraphEvent>) {
        if self.wants(StreamMode::Tasks) {
            events.push(LangGraphEvent::new("tasks", payload.clone()));
        }
        if self.wants(StreamMode::Debug) {
            let step = self.place.as_ref().map_or(0, |place| place.step + 1);
            events.push(debug_event(step, entry, kind, payload));
        }
    }

    /// The checkpoint that was just passed, with the state after entry `state_seq`.
    async fn checkpoint_event(
        &self,
        entry: &ThreadEntry,
        state_seq: Seq,
        source: &str,
        events: &mut Vec<LangGraphEvent>,
    ) -> Result<(), ApiError> {
        if !self.wants(StreamMode::Checkpoints) && !self.wants(StreamMode::Debug) {
            return Ok(());
        }
        let Some(RunPlace { checkpoint: Some(id), step, .. }) = self.place.clone() else { return Ok(()) };
        let (values, next) = self.values(state_seq).await?;
        let next = if source == "input" { vec!["__start__".to_owned()] } else { next };
        let thread = self.row.thread.thread.as_str();
        let configurable = |id: CheckpointId| {
            json!({
                "checkpoint_ns": "",
                "run_id": self.row.run.to_string(),
                "thread_id": thread,
                "graph_id": self.row.graph,
                "assistant_id": run_assistant_id(&self.row),
                "checkpoint_id": id.to_text(),
            })
        };
        let tree = load_checkpoints(&self.app, &self.row.thread, Some(entry.seq)).await?;
        let parent = tree.find(id).and_then(|here| tree.parent(here)).map(|before| before.id);
        let tasks: Vec<Value> = next
            .iter()
            .enumerate()
            .map(|(index, node)| {
                let id = task_id(thread, id, node, index);
                json!({ "id": id, "name": node, "interrupts": [], "state": null })
            })
            .collect();
        let mut payload = json!({
            "config": { "configurable": configurable(id) },
            "parent_config": parent.map(|parent| json!({ "configurable": configurable(parent) })),
            "values": values,
            "metadata": { "source": source, "step": step, "parents": {} },
            "next": next,
            "tasks": tasks,
        });
        if self.wants(StreamMode::Checkpoints) {
            events.push(LangGraphEvent::new("checkpoints", payload.clone()));
        }
        if self.wants(StreamMode::Debug) {
            let names = [Some(id), parent].map(|id| {
                id.map(
                    |id| json!({ "checkpoint_id": id.to_text(), "thread_id": thread, "checkpoint_ns": "" }),
                )
            });
            let [own, parent] = names.map(Option::unwrap_or_default);
            payload["checkpoint"] = own;
            payload["parent_checkpoint"] = parent;
            events.push(debug_event(step, entry, "checkpoint", &payload));
        }
        Ok(())
    }

    /// The state after an entry, and the nodes that are due then.
    async fn values(&self, seq: Seq) -> Result<(Value, Vec<String>), ApiError> {
        load_values(&self.app, &self.agent, &self.row.thread, Some(seq)).await
    }

    /// The graph inside a task, by the path of that task.
    fn namespace(&self, path: &str) -> String {
        let outer = path.split('/').next().unwrap_or_default();
        let index = outer.split('.').nth(1).and_then(|index| index.parse::<usize>().ok()).unwrap_or_default();
        let node =
            self.place.as_ref().and_then(|place| place.at_work.get(index)).cloned().unwrap_or_default();
        format!("{node}:{}", self.task_id(&node, index))
    }

    fn task_id(&self, node: &str, index: usize) -> String {
        let after = self.place.as_ref().and_then(|place| place.checkpoint);
        let after = after.unwrap_or(CheckpointId { seq: 0, is_after: true });
        task_id(self.row.thread.thread.as_str(), after, node, index)
    }
}

fn debug_event(step: i64, entry: &ThreadEntry, kind: &str, payload: &Value) -> LangGraphEvent {
    let data = json!({ "step": step, "timestamp": time_text(entry.at), "type": kind, "payload": payload });
    LangGraphEvent::new("debug", data)
}

/// Why a run failed, for clients.
pub(super) fn failure_json(failure: &RunFailure) -> Value {
    json!({ "error": failure.code, "message": failure_message(failure) })
}

/// What a run waits for, as streams and results have it.
pub(super) fn interrupts_json(questions: &[PendingQuestion]) -> Value {
    let asked = interrupts(questions)
        .into_iter()
        .map(|interrupt| json!({ "value": interrupt.value, "id": interrupt.id, "response_schema": null }));
    asked.collect()
}

/// The messages of a state or an update.
fn state_messages<'a>(agent: &'a Agent, state: &'a Value) -> impl Iterator<Item = &'a Value> {
    agent.message_fields().iter().filter_map(|field| state.get(field)?.as_array()).flatten()
}

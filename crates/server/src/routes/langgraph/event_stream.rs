//! The event stream of a thread, in the protocol that newer clients use: the events of one run after the other, open until the
//! client goes away.
//!
//! An event has a number that grows with the log of the thread, and an id that is the same in every stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use doran_engine::store::{Millis, RunFilter, RunRow, Seq};
use doran_engine::{EntryBody, Event, QuestionKind, RunHandle, RunId, ThreadEntry, ThreadKey, WatchUntil};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::checkpoints::failure_message;
use super::metadata::is_rolled_back;
use super::run_events::{LangGraphEvent, RunEvents, StreamMode};
use super::{FOUND, invalid, load_thread, operation, read_body};
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::ApiError;
use crate::routes::{ApiRoute, path_value};
use crate::sse::{self, SseFrame, SseSender};

/// Numbers of events that one entry of the log has.
const NUMBERS_PER_ENTRY: u64 = 1 << 20;
/// How often a thread is looked at for a run that another process, or another route, started.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How many of the newest runs are looked at.
const RUNS_LOOKED_AT: usize = 100;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::post(
        "/threads/{thread}/stream/events",
        stream_events,
        operation("langgraph_stream_events", "Streams the events of a thread, in the event protocol.")
            .body::<EventStreamBody>()
            .streams_events("The events, of one run after the other.")
            .errors(&FOUND),
    )]
}

/// What is streamed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventStreamBody {
    /// Which kinds of events.
    channels: Vec<EventChannel>,
    /// Only events of these graphs inside the graph. Those of the outermost one have an empty list.
    #[serde(default)]
    namespaces: Option<Vec<Vec<String>>>,
    /// How deep below these. Events of graphs inside nodes are not sent.
    #[serde(default)]
    #[allow(dead_code, reason = "there is one depth")]
    depth: Option<u32>,
    /// Only events after the one with this number.
    #[serde(default)]
    since: Option<u64>,
}

/// A kind of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum EventChannel {
    /// The whole state after the input and after each step.
    Values,
    /// The update of each node.
    Updates,
    /// Messages that are being written.
    Messages,
    /// Tool calls. They are sent with the messages.
    Tools,
    /// The begin and the end of runs.
    Lifecycle,
    /// Questions.
    Input,
    /// Each checkpoint.
    Checkpoints,
    /// The begin and the end of each task.
    Tasks,
    /// What nodes show beside messages.
    Custom,
}

/// `POST /threads/{thread}/stream/events`
pub(super) async fn stream_events(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let thread = load_thread(&app, &caller, &path_value(id)?).await?.key;
    let body: EventStreamBody = read_body(request, &app).await?;
    if body.channels.is_empty() {
        return Err(invalid("`channels` is empty", "`channels`가 비어 있습니다"));
    }
    // The empty list is the beginning of every namespace.
    let is_outermost = body.namespaces.as_ref().is_none_or(|wanted| wanted.iter().any(Vec::is_empty));
    let stream = ThreadEvents {
        news: app.run_starts.subscribe(),
        app: app.clone(),
        thread,
        channels: if is_outermost { body.channels.into_iter().collect() } else { BTreeSet::new() },
        since: body.since,
        started: HashMap::new(),
    };
    sse::stream_frames(&app, caller, move |frames| async move {
        // A client whose stream ends comes back.
        if let Err(error) = stream.send_events(&frames).await {
            tracing::warn!(error = %error.to_json(), "the event stream of a thread ended");
        }
    })
}

/// The events of a thread.
struct ThreadEvents {
    app: ServerApp,
    thread: ThreadKey,
    channels: BTreeSet<EventChannel>,
    since: Option<u64>,
    /// Runs that start in this process.
    news: broadcast::Receiver<Arc<RunHandle>>,
    /// Those of this thread that are not sent yet. They have what was shown before anybody watched.
    started: HashMap<RunId, Arc<RunHandle>>,
}

impl ThreadEvents {
    async fn send_events(mut self, frames: &SseSender) -> Result<(), ApiError> {
        let mut position = self.first_position().await?;
        let draining = self.app.draining.clone();
        loop {
            self.read_news();
            while let Some(row) = self.next_run(position).await? {
                position = row.first_seq.unwrap_or(position);
                let handle = self.started.remove(&row.run);
                let is_told = tokio::select! {
                    biased;
                    () = draining.cancelled() => false,
                    is_told = self.tell_run(&row, handle, frames) => is_told?,
                };
                if !is_told {
                    return Ok(());
                }
            }
            tokio::select! {
                biased;
                () = draining.cancelled() => return Ok(()),
                () = self.wait_for_news() => {}
            }
        }
    }

    /// Looks at what started meanwhile.
    fn read_news(&mut self) {
        loop {
            match self.news.try_recv() {
                Ok(run) => {
                    self.note_start(run);
                }
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Remembers a run of this thread. `false` for one of another.
    fn note_start(&mut self, run: Arc<RunHandle>) -> bool {
        let is_own = *run.thread() == self.thread;
        if is_own {
            // Runs that were taken back before they were sent stay here.
            if self.started.len() >= RUNS_LOOKED_AT {
                self.started.clear();
            }
            self.started.insert(run.id(), run);
        }
        is_own
    }

    /// Returns when a run may have started.
    async fn wait_for_news(&mut self) {
        let look = tokio::time::sleep(LOOK_INTERVAL);
        tokio::pin!(look);
        loop {
            let news = tokio::select! {
                news = self.news.recv() => news,
                () = &mut look => return,
            };
            match news {
                Ok(run) => {
                    if self.note_start(run) {
                        return;
                    }
                }
                Err(RecvError::Lagged(_)) => return,
                // The server stops.
                Err(RecvError::Closed) => look.as_mut().await,
            }
        }
    }

    async fn newest_runs(&self) -> Result<Vec<RunRow>, ApiError> {
        let thread = self.app.runtime.thread_row(&self.thread).await?;
        let filter = RunFilter {
            thread: Some(self.thread.thread.clone()),
            limit: RUNS_LOOKED_AT,
            ..RunFilter::default()
        };
        let mut runs = self.app.runtime.list_runs(&self.thread.tenant, &filter).await?;
        runs.retain(|run| run.first_seq.is_some() && !is_rolled_back(&thread, run.run));
        Ok(runs)
    }

    /// The entry after which events are sent: those of the runs that are not over, and of the last run where all are. What
    /// came before is in the state of the thread.
    async fn first_position(&self) -> Result<Seq, ApiError> {
        let runs = self.newest_runs().await?;
        let first = match self.since.map(|since| since / NUMBERS_PER_ENTRY) {
            Some(entry) => runs.iter().filter_map(|run| run.first_seq).filter(|first| *first <= entry).max(),
            None => {
                let open = runs.iter().filter(|run| !run.status.is_end());
                let open = open.filter_map(|run| run.first_seq).min();
                open.or_else(|| runs.iter().filter_map(|run| run.first_seq).max())
            }
        };
        Ok(first.unwrap_or(1) - 1)
    }

    /// The first run that began after an entry.
    async fn next_run(&self, after: Seq) -> Result<Option<RunRow>, ApiError> {
        let runs = self.newest_runs().await?;
        let later = runs.into_iter().filter(|run| run.first_seq.is_some_and(|first| first > after));
        Ok(later.min_by_key(|run| run.first_seq))
    }

    /// Sends a run to its end. `false` when the client is gone.
    async fn tell_run(
        &self,
        row: &RunRow,
        handle: Option<Arc<RunHandle>>,
        frames: &SseSender,
    ) -> Result<bool, ApiError> {
        let Some(agent) = self.app.find_agent(&row.graph) else { return Ok(true) };
        let modes = self.channels.iter().filter_map(|channel| channel.stream_mode()).collect();
        let mut run = RunTranslation {
            events: RunEvents::new(&self.app, &agent, row.clone(), modes, false),
            graph: row.graph.clone(),
            entry: row.first_seq.unwrap_or(1),
            at: row.created_at,
            messages: HashMap::new(),
            counts: BTreeMap::new(),
            number: 0,
        };
        let mut watch = match handle {
            Some(handle) => handle.watch_after(0, WatchUntil::RunEnded).await?,
            None => self.app.runtime.watch(&row.key(), 0, WatchUntil::RunEnded).await?,
        };
        while let Some(event) = watch.try_next().await? {
            if let Event::Entry(_, entry) = &event {
                let stored = run.stored_before(entry);
                if !self.send_all(row, &mut run, stored, frames).await {
                    return Ok(false);
                }
                (run.entry, run.at, run.number) = (entry.seq, entry.at, 0);
                run.counts.clear();
            }
            let translated = run.translate(&event).await?;
            if !self.send_all(row, &mut run, translated, frames).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `false` when the client is gone.
    async fn send_all(
        &self,
        row: &RunRow,
        run: &mut RunTranslation,
        events: Vec<ProtocolEvent>,
        frames: &SseSender,
    ) -> bool {
        for event in events {
            run.number += 1;
            let seq = run.entry * NUMBERS_PER_ENTRY + run.number;
            let id = run.event_id(row, &event);
            if !self.channels.contains(&event.channel) || self.since.is_some_and(|since| seq <= since) {
                continue;
            }
            let data = event.to_json(seq, &id, run.at);
            if !frames.send(SseFrame::with_id(event.method(), &data, &seq.to_string())).await {
                return false;
            }
        }
        true
    }
}

impl EventChannel {
    /// The stream mode that its events are made from.
    fn stream_mode(self) -> Option<StreamMode> {
        match self {
            Self::Values => Some(StreamMode::Values),
            Self::Updates => Some(StreamMode::Updates),
            Self::Messages => Some(StreamMode::MessagesTuple),
            Self::Checkpoints => Some(StreamMode::Checkpoints),
            Self::Tasks => Some(StreamMode::Tasks),
            Self::Custom => Some(StreamMode::Custom),
            Self::Tools | Self::Lifecycle | Self::Input => None,
        }
    }
}

/// An event of the protocol.
struct ProtocolEvent {
    channel: EventChannel,
    node: Option<String>,
    data: Value,
}

impl ProtocolEvent {
    fn new(channel: EventChannel, data: Value) -> Self {
        Self { channel, node: None, data }
    }

    fn method(&self) -> &'static str {
        match self.channel {
            EventChannel::Values => "values",
            EventChannel::Updates => "updates",
            EventChannel::Messages => "messages",
            EventChannel::Tools => "tools",
            EventChannel::Lifecycle => "lifecycle",
            EventChannel::Input => "input.requested",
            EventChannel::Checkpoints => "checkpoints",
            EventChannel::Tasks => "tasks",
            EventChannel::Custom => "custom",
        }
    }

    fn to_json(&self, seq: u64, id: &str, at: Millis) -> Value {
        let mut params = json!({ "namespace": [], "timestamp": at, "data": self.data });
        if let Some(node) = &self.node {
            params["node"] = node.as_str().into();
        }
        json!({ "type": "event", "event_id": id, "seq": seq, "method": self.method(), "params": params })
    }
}

/// Turns the events of one run into those of the protocol.
struct RunTranslation {
    events: RunEvents,
    graph: String,
    entry: Seq,
    at: Millis,
    /// Messages that are being written: their text so far.
    messages: HashMap<String, String>,
    /// Events since the last entry, by their methods.
    counts: BTreeMap<&'static str, u64>,
    /// The number of the last of them.
    number: u64,
}

impl RunTranslation {
    /// An id that every stream of this event has, whatever else it tells.
    fn event_id(&mut self, row: &RunRow, event: &ProtocolEvent) -> String {
        let count = self.counts.entry(event.method()).or_default();
        *count += 1;
        format!("{}:{}:{}:{count}", row.run, self.entry, event.method())
    }

    fn stored_before(&mut self, entry: &ThreadEntry) -> Vec<ProtocolEvent> {
        let stored = self.events.stored_before(entry);
        stored.into_iter().flat_map(|event| self.translate_classic(event)).collect()
    }

    async fn translate(&mut self, event: &Event) -> Result<Vec<ProtocolEvent>, ApiError> {
        let mut events = match event {
            Event::Entry(_, entry) => self.events_before(entry),
            Event::Delta(_) | Event::Removed { .. } => Vec::new(),
        };
        for event in self.events.translate(event).await? {
            events.extend(self.translate_classic(event));
        }
        if let Event::Entry(_, entry) = event {
            events.extend(self.end_of_run(entry));
        }
        Ok(events)
    }

    fn lifecycle(&self, name: &str) -> ProtocolEvent {
        let data = json!({ "event": name, "graph_name": self.graph });
        ProtocolEvent::new(EventChannel::Lifecycle, data)
    }

    /// That a run begins, goes on, or asks something: sent before the state.
    fn events_before(&self, entry: &ThreadEntry) -> Vec<ProtocolEvent> {
        match &entry.body {
            EntryBody::Started { .. } | EntryBody::Resumed { .. } => vec![self.lifecycle("running")],
            EntryBody::Paused { questions, .. } => {
                let asked = questions.iter().filter(|question| question.kind != QuestionKind::Breakpoint);
                let asked = asked.map(|question| {
                    let data = json!({ "interrupt_id": question.id, "payload": question.question });
                    ProtocolEvent::new(EventChannel::Input, data)
                });
                asked.chain([self.lifecycle("interrupted")]).collect()
            }
            _ => Vec::new(),
        }
    }

    fn end_of_run(&self, entry: &ThreadEntry) -> Option<ProtocolEvent> {
        match &entry.body {
            EntryBody::Finished => Some(self.lifecycle("completed")),
            EntryBody::Cancelled { .. } => Some(self.lifecycle("interrupted")),
            EntryBody::Failed { failure, .. } => {
                let mut event = self.lifecycle("failed");
                event.data["error"] = failure_message(failure).into();
                Some(event)
            }
            _ => None,
        }
    }

    /// An event of a stream mode as events of the protocol.
    fn translate_classic(
        &mut self,
        LangGraphEvent { name, mut data, .. }: LangGraphEvent,
    ) -> Vec<ProtocolEvent> {
        let channel = match name.as_str() {
            "values" => {
                data.as_object_mut().map(|state| state.remove("__interrupt__"));
                EventChannel::Values
            }
            "updates" => return update_events(data),
            "messages" => return self.message_events(&data[0]),
            "custom" => {
                data = json!({ "payload": data });
                EventChannel::Custom
            }
            "tasks" => EventChannel::Tasks,
            "checkpoints" => {
                let id = |config: &str| data[config]["configurable"]["checkpoint_id"].clone();
                let mut envelope = json!({
                    "id": id("config"), "step": data["metadata"]["step"], "source": data["metadata"]["source"],
                });
                if let parent @ Value::String(_) = id("parent_config") {
                    envelope["parent_id"] = parent;
                }
                data = envelope;
                EventChannel::Checkpoints
            }
            // That a run failed is the end of it.
            _ => return Vec::new(),
        };
        vec![ProtocolEvent::new(channel, data)]
    }

    /// Pieces of a message as a block of text. A message that was not streamed is in the state.
    fn message_events(&mut self, chunk: &Value) -> Vec<ProtocolEvent> {
        let (Some("AIMessageChunk"), Some(id)) = (chunk["type"].as_str(), chunk["id"].as_str()) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        let so_far = self.messages.entry(id.to_owned()).or_insert_with(|| {
            events.push(json!({ "event": "message-start", "role": "ai", "id": id }));
            let empty = json!({ "type": "text", "text": "" });
            events.push(json!({ "event": "content-block-start", "index": 0, "content": empty }));
            String::new()
        });
        let text = chunk["content"].as_str().unwrap_or_default();
        if !text.is_empty() {
            so_far.push_str(text);
            let delta = json!({ "type": "text-delta", "text": text });
            events.push(json!({ "event": "content-block-delta", "index": 0, "delta": delta }));
        }
        if chunk["chunk_position"] == "last" {
            let whole = json!({ "type": "text", "text": so_far });
            events.push(json!({ "event": "content-block-finish", "index": 0, "content": whole }));
            events.push(json!({ "event": "message-finish" }));
            self.messages.remove(id);
        }
        events.into_iter().map(|data| ProtocolEvent::new(EventChannel::Messages, data)).collect()
    }
}

/// The updates of nodes. What a run waits for is sent as questions.
fn update_events(data: Value) -> Vec<ProtocolEvent> {
    let Value::Object(updates) = data else { return Vec::new() };
    let updates: Map<String, Value> = updates;
    let events = updates.into_iter().filter(|(node, update)| node != "__interrupt__" && update.is_object());
    events
        .map(|(node, data)| ProtocolEvent { channel: EventChannel::Updates, node: Some(node), data })
        .collect()
}

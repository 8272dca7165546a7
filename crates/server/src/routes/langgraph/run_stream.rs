//! The stream of a run: its events in LangGraph's modes, each with an id to come back with.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::Response;
use doran_agents::Agent;
use doran_engine::store::RunRow;
use doran_engine::{Event, RunHandle, RunWatch, WatchUntil};
use serde_json::json;
use tokio::sync::oneshot;

use super::cancel::CancelGuard;
use super::invalid;
use super::run_events::{LangGraphEvent, RunEvents, StreamMode};
use super::run_request::OnDisconnect;
use super::sent_messages::SentMessages;
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::ApiError;
use crate::sse::{self, SseFrame, SseSender};

/// No run has more events; a larger number is a mistake.
const MAX_EVENT_NUMBER: u64 = 1 << 40;

/// What of a run is streamed, and from where on.
pub(super) struct StreamOptions {
    pub(super) modes: BTreeSet<StreamMode>,
    pub(super) subgraphs: bool,
    pub(super) start: StreamStart,
    pub(super) on_disconnect: OnDisconnect,
    /// Dropped when nothing more is read.
    pub(super) reading: Option<oneshot::Sender<()>>,
}

/// Where a stream begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamStart {
    /// At the event of the log with this number, from 1.
    AtEvent(u64),
    /// After the event with this id.
    After(EventPosition),
}

/// The id of an event: `ENTRY-INDEX-SENT`, or `ENTRY-INDEX~SENT` for one of the step after the entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventPosition {
    /// The number of the entry of the log.
    entry: u64,
    /// Events since then, those of messages not counted.
    index: u64,
    /// All events made from the entry came before.
    is_past_entry: bool,
    /// What was sent of the messages of the step.
    sent: String,
}

impl EventPosition {
    fn to_text(&self) -> String {
        let Self { entry, index, is_past_entry, sent } = self;
        match (is_past_entry, sent.as_str()) {
            (true, sent) => format!("{entry}-{index}~{sent}"),
            (false, "") => format!("{entry}-{index}"),
            (false, sent) => format!("{entry}-{index}-{sent}"),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        let (entry, rest) = text.split_once('-')?;
        let end = rest.find(['-', '~']).unwrap_or(rest.len());
        let sent = rest.get(end + 1..).unwrap_or_default().to_owned();
        SentMessages::from_text(&sent)?;
        let (entry, index) = (entry.parse().ok()?, rest[..end].parse().ok()?);
        let is_past_entry = rest[end..].starts_with('~');
        (entry < MAX_EVENT_NUMBER).then_some(Self { entry, index, is_past_entry, sent })
    }
}

impl StreamStart {
    /// `Last-Event-ID`, where a client comes back. `-1` and none at all are the beginning.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty() && *id != "-1") else {
            return Ok(Self::AtEvent(1));
        };
        let position = id.to_str().ok().and_then(EventPosition::from_text);
        position.map(Self::After).ok_or_else(|| {
            invalid(
                "`Last-Event-ID` is not the id of an event of this stream",
                "`Last-Event-ID`가 이 스트림의 이벤트 id가 아닙니다",
            )
        })
    }

    /// How many events of the log come before.
    fn skipped_entries(&self) -> u64 {
        match self {
            Self::AtEvent(number) | Self::After(EventPosition { entry: number, .. }) => {
                number.saturating_sub(1)
            }
        }
    }

    /// Whether the client has an event, one of no message.
    fn has_passed(&self, entry: u64, index: u64) -> bool {
        match self {
            Self::AtEvent(_) => false,
            Self::After(last) => (entry, index) <= (last.entry, last.index),
        }
    }
}

/// Streams a run until it rests, the client goes, or the server stops.
pub(super) fn stream_run(
    app: &ServerApp,
    caller: ApiCaller,
    agent: &Agent,
    run: Arc<RunHandle>,
    row: &RunRow,
    options: StreamOptions,
) -> Result<Response, ApiError> {
    let StreamOptions { modes, subgraphs, start, on_disconnect, reading } = options;
    let guard = CancelGuard::new(app, row.key(), on_disconnect);
    let events = RunEvents::new(app, agent, row.clone(), modes, subgraphs);
    let (task_app, id) = (app.clone(), row.run.to_string());
    sse::stream_frames(app, caller, move |frames| async move {
        let _reading = reading;
        let first = LangGraphEvent::new("metadata", json!({ "run_id": id, "attempt": 1 }));
        if start.has_passed(0, 0) || send(&frames, &first, &EventPosition::default()).await {
            match run.watch_after(start.skipped_entries(), WatchUntil::RunEndedOrPaused).await {
                Ok(watch) => send_events(&task_app, watch, events, start, &frames).await,
                Err(error) => {
                    let position = EventPosition { index: 1, ..EventPosition::default() };
                    send(&frames, &error_event(&error.into()), &position).await;
                }
            }
        }
        guard.release();
    })
}

async fn send_events(
    app: &ServerApp,
    mut watch: RunWatch,
    mut events: RunEvents,
    start: StreamStart,
    frames: &SseSender,
) {
    let here = EventPosition { entry: start.skipped_entries(), ..EventPosition::default() };
    let mut stream = StreamWriter { here, had: None, start, frames };
    if let StreamStart::After(last) = &stream.start {
        stream.here.sent.clone_from(&last.sent);
        let sent = SentMessages::from_text(&last.sent).unwrap_or_default();
        if last.is_past_entry { stream.had = Some((last.entry, sent)) } else { events.client_has(sent) }
    }
    loop {
        let next = tokio::select! {
            biased;
            () = app.draining.cancelled() => return,
            next = watch.try_next() => next,
        };
        let translated = match next {
            Ok(None) => return,
            Ok(Some(event)) => {
                stream.here.is_past_entry = true;
                if let Event::Entry(number, entry) = &event {
                    if !stream.write(events.stored_before(entry)).await {
                        return;
                    }
                    stream.here =
                        EventPosition { entry: *number, index: 0, is_past_entry: false, ..stream.here };
                    // The log was cleared meanwhile.
                    if let Some((_, sent)) = stream.had.take_if(|(entry, _)| number > entry) {
                        events.client_has(sent);
                    }
                }
                events.translate(&event).await
            }
            Err(error) => Err(error.into()),
        };
        match translated {
            Ok(translated) => {
                if !stream.write(translated).await {
                    return;
                }
            }
            Err(error) => {
                stream.here.index += 1;
                send(frames, &error_event(&error), &stream.here).await;
                return;
            }
        }
        let here = stream.here.entry;
        if let Some((_, sent)) = stream.had.take_if(|(entry, _)| here == *entry) {
            events.client_has(sent);
        }
    }
}

/// Sends the events that a client does not have.
struct StreamWriter<'a> {
    here: EventPosition,
    /// What the client has, until the place is reached from which on that counts.
    had: Option<(u64, SentMessages)>,
    start: StreamStart,
    frames: &'a SseSender,
}

impl StreamWriter<'_> {
    /// `false` when nobody reads any more.
    async fn write(&mut self, events: Vec<LangGraphEvent>) -> bool {
        for event in events {
            let is_had = match &event.sent {
                Some(_) if self.had.is_some() => true,
                Some(sent) => {
                    self.here.sent.clone_from(sent);
                    false
                }
                None => {
                    self.here.index += 1;
                    self.had.is_some() && !self.here.is_past_entry
                        || self.start.has_passed(self.here.entry, self.here.index)
                }
            };
            if !is_had && !send(self.frames, &event, &self.here).await {
                return false;
            }
        }
        true
    }
}

pub(super) fn error_event(error: &ApiError) -> LangGraphEvent {
    let problem = error.to_json();
    let message = if problem["detail"].is_string() { &problem["detail"] } else { &problem["title"] };
    LangGraphEvent::new("error", json!({ "error": problem["code"], "message": message }))
}

async fn send(frames: &SseSender, event: &LangGraphEvent, position: &EventPosition) -> bool {
    frames.send(SseFrame::with_id(&event.name, &event.data, &position.to_text())).await
}

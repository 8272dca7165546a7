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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamStart {
    /// At the event of the log with this number, from 1.
    AtEvent(u64),
    /// After the event with this id, `ENTRY-INDEX`: the entry of the log and the event made from it.
    After(u64, u64),
}

impl StreamStart {
    /// `Last-Event-ID`, where a client comes back. `-1` and none at all are the beginning.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty() && *id != "-1") else {
            return Ok(Self::AtEvent(1));
        };
        let parts = id.to_str().ok().and_then(|id| id.split_once('-'));
        let parts = parts.and_then(|(entry, index)| Some((entry.parse().ok()?, index.parse().ok()?)));
        match parts {
            Some((entry, index)) if entry < MAX_EVENT_NUMBER => Ok(Self::After(entry, index)),
            _ => Err(invalid(
                "`Last-Event-ID` is not the id of an event of this stream",
                "`Last-Event-ID`가 이 스트림의 이벤트 id가 아닙니다",
            )),
        }
    }

    /// How many events of the log come before.
    fn skipped_entries(self) -> u64 {
        match self {
            Self::AtEvent(number) | Self::After(number, _) => number.saturating_sub(1),
        }
    }

    fn has_passed(self, entry: u64, index: u64) -> bool {
        match self {
            Self::AtEvent(_) => false,
            Self::After(last, last_index) => (entry, index) <= (last, last_index),
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
    let guard = CancelGuard::new(app, row, on_disconnect);
    let events = RunEvents::new(app, agent, row.clone(), modes, subgraphs);
    let (task_app, id) = (app.clone(), row.run.to_string());
    sse::stream_frames(app, caller, move |frames| async move {
        let _reading = reading;
        let first = LangGraphEvent::new("metadata", json!({ "run_id": id, "attempt": 1 }));
        if start.has_passed(0, 0) || send(&frames, &first, 0, 0).await {
            match run.watch_after(start.skipped_entries(), WatchUntil::RunEndedOrPaused).await {
                Ok(watch) => send_events(&task_app, watch, events, start, &frames).await,
                Err(error) => {
                    send(&frames, &error_event(&error.into()), 0, 1).await;
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
    let (mut entry, mut index) = (start.skipped_entries(), 0);
    loop {
        let next = tokio::select! {
            biased;
            () = app.draining.cancelled() => return,
            next = watch.try_next() => next,
        };
        let translated = match next {
            Ok(None) => return,
            Ok(Some(event)) => {
                if let Event::Entry(number, _) = &event {
                    (entry, index) = (*number, 0);
                }
                events.translate(&event).await
            }
            Err(error) => Err(error.into()),
        };
        match translated {
            Ok(translated) => {
                for event in translated {
                    index += 1;
                    if !start.has_passed(entry, index) && !send(frames, &event, entry, index).await {
                        return;
                    }
                }
            }
            Err(error) => {
                send(frames, &error_event(&error), entry, index + 1).await;
                return;
            }
        }
    }
}

pub(super) fn error_event(error: &ApiError) -> LangGraphEvent {
    let problem = error.to_json();
    let message = if problem["detail"].is_string() { &problem["detail"] } else { &problem["title"] };
    LangGraphEvent::new("error", json!({ "error": problem["code"], "message": message }))
}

async fn send(frames: &SseSender, event: &LangGraphEvent, entry: u64, index: u64) -> bool {
    frames.send(SseFrame::with_id(&event.name, &event.data, &format!("{entry}-{index}"))).await
}

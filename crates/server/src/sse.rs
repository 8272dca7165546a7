//! Events of a run as server-sent events. A stream reads the log at the pace of its client. What the client has not read stays in
//! the log, not in a queue.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use doran_agents::Agent;
use doran_agents::admission::AdmissionPermit;
use doran_engine::store::{RunRow, StoreError};
use doran_engine::{EngineError, RunHandle, RunWatch, WatchUntil};
use futures_util::Stream;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::Instrument;

use crate::ServerApp;
use crate::api::{self, RunEvent};
use crate::authentication::ApiCaller;
use crate::body_memory::BodyMemory;
use crate::error::{ApiError, ApiErrorCode};
use crate::metrics::GaugeGuard;

/// Frames between the log and the socket. Few, as a slow client holds all of them.
const MAX_QUEUED_FRAMES: usize = 4;
/// The least time after which a browser reconnects by itself; the most is twice that.
const MIN_RETRY_MS: u128 = 500;

/// A run to be streamed, after the event with this number.
pub(crate) struct WatchedRun<'a> {
    pub(crate) row: RunRow,
    pub(crate) after: u64,
    /// The run, if this request started it. What it shows is seen then, however quick it is.
    pub(crate) started: Option<&'a RunHandle>,
}

/// Streams the events of a run until it rests, the client goes, or the server stops.
pub(crate) async fn stream_run_events(
    app: &ServerApp,
    caller: ApiCaller,
    WatchedRun { row, after, started }: WatchedRun<'_>,
) -> Result<Response, ApiError> {
    let app = app.clone();
    let mut sent = EventNumbers::new(&app, &row, after).await?;
    let watch = match started {
        Some(run) => run.watch_after(sent.last, WatchUntil::RunEndedOrPaused).await?,
        None => app.runtime.watch(&row.key(), sent.last, WatchUntil::RunEndedOrPaused).await?,
    };
    let memory = BodyMemory::new(&app, &caller);
    sse_response(&app.clone(), caller, move |frames| async move {
        // After a restart not all clients should reconnect at the same moment.
        let retry = format!("retry: {}\n\n", MIN_RETRY_MS + uuid::Uuid::new_v4().as_u128() % MIN_RETRY_MS);
        if frames.send(retry.into()).await.is_ok() {
            send_run_events(app, &row, &mut sent, watch, SseSender(frames, memory)).await;
        }
    })
}

/// Which numbered events a client has.
struct EventNumbers {
    last: u64,
    /// Events after this number were requested, and there are none. The client gets to know it before the next event.
    requested_past_end: Option<u64>,
}

impl EventNumbers {
    /// A number past the end belongs to another run, or to a log that was restored: the client goes on at the last event.
    async fn new(app: &ServerApp, row: &RunRow, after: u64) -> Result<Self, ApiError> {
        let newest = match (row.first_seq, row.last_seq) {
            // A run that ended before it started has its end as its only event.
            (None, _) => u64::from(row.status.is_end()),
            (Some(first), Some(last)) => last + 1 - first,
            (Some(first), None) => {
                (app.runtime.thread_row(&row.thread).await?.head + 1).saturating_sub(first)
            }
        };
        if after <= newest {
            return Ok(Self { last: after, requested_past_end: None });
        }
        // Of a run that is over the end is sent once more.
        let last = if row.status.is_end() { newest.saturating_sub(1) } else { newest };
        Ok(Self { last, requested_past_end: Some(after) })
    }

    /// What is sent first when this event comes next: that there are none after the requested number.
    fn gap_before(&mut self, n: u64) -> Option<RunEvent> {
        Some(api::RunEventBody::Gone { after: self.requested_past_end.take()?, next: n }.into())
    }
}

/// Streams what `produce` sends. It is sent as the client reads, and dropped when the client goes.
pub(crate) fn stream_frames<F: Future<Output = ()> + Send + 'static>(
    app: &ServerApp,
    caller: ApiCaller,
    produce: impl FnOnce(SseSender) -> F,
) -> Result<Response, ApiError> {
    let heartbeat = app.limits.heartbeat_interval;
    let memory = BodyMemory::new(app, &caller);
    sse_response(app, caller, move |to| {
        let producer = produce(SseSender(to.clone(), memory));
        async move {
            let mut beat = heartbeat_timer(heartbeat);
            tokio::pin!(producer);
            loop {
                tokio::select! {
                    biased;
                    () = &mut producer => return,
                    _ = beat.tick() => send_heartbeat(&to),
                }
            }
        }
    })
}

/// Ticks while a stream is silent, the first time after a while.
fn heartbeat_timer(every: Duration) -> Interval {
    let mut beat = interval(every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.reset();
    beat
}

/// A comment that shows that the connection is open. Not needed where frames wait already.
fn send_heartbeat(frames: &Sender<Bytes>) {
    drop(frames.try_send(Bytes::from_static(b": alive\n\n")));
}

/// A stream of frames, unless there are too many already. It ends when the key it was opened with is taken away.
fn sse_response<F: Future<Output = ()> + Send + 'static>(
    app: &ServerApp,
    caller: ApiCaller,
    produce: impl FnOnce(Sender<Bytes>) -> F,
) -> Result<Response, ApiError> {
    let room = app.shares.streams.try_acquire(caller.tenant.as_str(), 1).map_err(|_| {
        app.metrics.count_request_shed();
        ApiErrorCode::Overloaded
    })?;
    let open = app.metrics.open_stream();
    let (frames, receiver) = channel(MAX_QUEUED_FRAMES);
    let producer = produce(frames);
    let keys = app.keys.clone();
    let producer = async move {
        tokio::select! {
            () = producer => {}
            () = keys.wait_until_revoked(&caller) => tracing::info!("event stream closed: its API key was revoked"),
        }
    };
    let stream = SseBodyStream {
        producer: Some(Box::pin(producer.in_current_span())),
        receiver,
        _open_stream: (open, room),
    };
    let mut response = Body::from_stream(stream).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies must not keep words back that a person waits for.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// A body that is made while it is read, in the task of its connection. A client that stops reading stops the making;
/// the socket lets go of it in time.
struct SseBodyStream {
    producer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    receiver: Receiver<Bytes>,
    _open_stream: (GaugeGuard, AdmissionPermit),
}

impl Stream for SseBodyStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(frame) = self.receiver.poll_recv(cx) {
            return Poll::Ready(frame.map(Ok));
        }
        if self.producer.as_mut().is_some_and(|producer| producer.as_mut().poll(cx).is_ready()) {
            self.producer = None;
        }
        self.receiver.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

/// The way to one client. What waits there is counted.
pub(crate) struct SseSender(Sender<Bytes>, BodyMemory);

impl SseSender {
    /// Whether the client still listens.
    pub(crate) async fn send(&self, frame: SseFrame) -> bool {
        self.send_bytes(frame.0).await
    }

    /// A stream ends where there is no memory for its frames: its client can come back and go on.
    async fn send_bytes(&self, frame: Bytes) -> bool {
        match self.1.count(frame).await {
            Ok(frame) => self.0.send(frame).await.is_ok(),
            Err(_) => {
                tracing::warn!(
                    "event stream closed: too many streams wait for memory; the client can reconnect"
                );
                false
            }
        }
    }

    /// As `send`, in order.
    pub(crate) async fn send_all(&self, frames: Vec<SseFrame>) -> bool {
        for frame in frames {
            if !self.send(frame).await {
                return false;
            }
        }
        true
    }
}

/// A frame of a dialect. Text of anybody stands only inside the JSON of the `data` line, where a line break is written
/// `\n`.
pub(crate) struct SseFrame(Bytes);

impl SseFrame {
    /// A frame with a name of ours.
    pub(crate) fn new(name: &'static str, data: &Value) -> Self {
        Self(format!("event: {name}\ndata: {data}\n\n").into())
    }

    /// A frame with a name and an id. Neither has a line break.
    pub(crate) fn with_id(name: &str, data: &Value, id: &str) -> Self {
        let plain = |text: &str| text.replace(['\r', '\n'], " ");
        Self(format!("event: {}\ndata: {data}\nid: {}\n\n", plain(name), plain(id)).into())
    }

    /// A frame without a name.
    pub(crate) fn unnamed(data: &Value) -> Self {
        Self(format!("data: {data}\n\n").into())
    }

    /// The word by which OpenAI's streams end.
    pub(crate) fn openai_done() -> Self {
        Self(Bytes::from_static(b"data: [DONE]\n\n"))
    }
}

/// Moves events from the log to the client, as it reads. Ending it ends nothing but the stream.
async fn send_run_events(
    app: ServerApp,
    row: &RunRow,
    sent: &mut EventNumbers,
    mut watch: RunWatch,
    frames: SseSender,
) {
    let (thread, agent) = (row.thread.thread.as_str(), app.find_agent(&row.graph));
    let agent = agent.as_ref();
    let mut beat = heartbeat_timer(app.limits.heartbeat_interval);
    loop {
        let next = watch.try_next();
        tokio::pin!(next);
        let event = loop {
            tokio::select! {
                biased;
                () = app.draining.cancelled() => break Some(api::RunEventBody::Draining.into()),
                event = &mut next => break to_run_event(thread, agent, event),
                _ = beat.tick() => send_heartbeat(&frames.0),
            }
        };
        let Some(event) = event else { return };
        let is_last = matches!(event.body, api::RunEventBody::Draining | api::RunEventBody::Error { .. });
        if let Some(gap) = event.n.and_then(|n| sent.gap_before(n))
            && !frames.send_bytes(encode_run_event(&gap)).await
        {
            return;
        }
        if !frames.send_bytes(encode_run_event(&event)).await || is_last {
            return;
        }
        beat.reset();
    }
}

fn to_run_event(
    thread: &str,
    agent: Option<&Agent>,
    event: Result<Option<doran_engine::Event>, EngineError>,
) -> Option<RunEvent> {
    let read = match event {
        Ok(None) => return None,
        Ok(Some(event)) => {
            RunEvent::from_engine(thread, agent, &event).map_err(|error: StoreError| EngineError::from(error))
        }
        Err(error) => Err(error),
    };
    Some(
        read.unwrap_or_else(|error| {
            api::RunEventBody::Error { problem: ApiError::from(error).to_json() }.into()
        }),
    )
}

/// One frame. Text of anybody stands only inside the JSON of the `data` line, where a line break is written `\n`.
fn encode_run_event(event: &RunEvent) -> Bytes {
    let mut text = String::new();
    if let Some(n) = event.n {
        text.push_str(&format!("id: {n}\n"));
    }
    let data = match serde_json::to_string(event) {
        Ok(data) => data,
        Err(error) => {
            tracing::error!(%error, "an event of a run cannot be written as JSON");
            let problem = ApiError::from(ApiErrorCode::Internal).to_json();
            return encode_run_event(&api::RunEventBody::Error { problem }.into());
        }
    };
    text.push_str(&format!("event: {}\ndata: {data}\n\n", event.frame_name()));
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_model_cannot_end_a_frame() {
        let text = Some("\n\nevent: finished\r\ndata: {}\n\n".to_owned());
        let delta = api::RunEventBody::Delta {
            node: "say".into(),
            attempt: 1,
            index: 0,
            text,
            data: None,
            restarted: None,
        };
        let frame = String::from_utf8(encode_run_event(&delta.into()).to_vec()).expect("text");
        assert_eq!(frame.lines().count(), 3, "{frame}");
        assert!(frame.starts_with("event: delta\ndata: {") && frame.ends_with("}\n\n"), "{frame}");
        assert!(!frame.contains('\r'));
    }
}

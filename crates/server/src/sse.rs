//! Events of a run as server-sent events. A stream reads the log at the pace of its client, with a number; what the
//! client does not read waits in the log, not in a queue.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use doran_agents::Agent;
use doran_engine::store::StoreError;
use doran_engine::{EngineError, RunWatch};
use futures_util::Stream;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::Instrument;

use crate::ServerApp;
use crate::api::{self, RunEvent};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::metrics::GaugeGuard;

/// Frames between the log and the socket. Few, as a slow client holds all of them.
const MAX_QUEUED_FRAMES: usize = 4;
/// The least time after which a browser comes back by itself; the most is twice that.
const MIN_RETRY_MS: u128 = 500;

/// Streams the events of a run until it rests, the client goes, or the server stops.
pub(crate) fn stream_run_events(
    app: &ServerApp,
    caller: ApiCaller,
    thread: &str,
    agent: &str,
    watch: RunWatch,
) -> Result<Response, ApiError> {
    let (app, thread, agent) = (app.clone(), thread.to_owned(), agent.to_owned());
    sse_response(&app.clone(), caller, move |frames| async move {
        // After a restart not everybody should come back at the same moment.
        let retry = format!("retry: {}\n\n", MIN_RETRY_MS + uuid::Uuid::new_v4().as_u128() % MIN_RETRY_MS);
        if frames.send(retry.into()).await.is_ok() {
            send_run_events(app, &thread, &agent, watch, frames).await;
        }
    })
}

/// Streams what `tell` sends. It is told as the client reads, and dropped when the client goes.
pub(crate) fn stream_frames<F: Future<Output = ()> + Send + 'static>(
    app: &ServerApp,
    caller: ApiCaller,
    tell: impl FnOnce(SseSender) -> F,
) -> Result<Response, ApiError> {
    let heartbeat = app.limits.heartbeat_interval;
    sse_response(app, caller, move |to| {
        let telling = tell(SseSender(to.clone()));
        async move {
            let mut beat = heartbeat_timer(heartbeat);
            tokio::pin!(telling);
            loop {
                tokio::select! {
                    biased;
                    () = &mut telling => return,
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

/// A sign of life. Where frames wait already, they are one.
fn send_heartbeat(frames: &Sender<Bytes>) {
    drop(frames.try_send(Bytes::from_static(b": alive\n\n")));
}

/// A stream of frames, unless there are too many already. It ends when the key it was opened with is taken away.
fn sse_response<F: Future<Output = ()> + Send + 'static>(
    app: &ServerApp,
    caller: ApiCaller,
    tell: impl FnOnce(Sender<Bytes>) -> F,
) -> Result<Response, ApiError> {
    let (open, now) = app.metrics.open_stream();
    if usize::try_from(now).is_ok_and(|now| now > app.limits.max_streams) {
        app.metrics.count_request_shed();
        return Err(ApiErrorCode::Overloaded.into());
    }
    let (frames, arriving) = channel(MAX_QUEUED_FRAMES);
    let telling = tell(frames);
    let keys = app.keys.clone();
    let telling = async move {
        tokio::select! {
            () = telling => {}
            () = keys.wait_until_revoked(&caller) => tracing::info!("a stream ended with its key"),
        }
    };
    let told = SseBodyStream {
        producer: Some(Box::pin(telling.in_current_span())),
        receiver: arriving,
        _open_stream: open,
    };
    let mut response = Body::from_stream(told).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies must not keep words back that a person waits for.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// A body that is told while it is read, in the task of its connection. A client that stops reading stops the telling;
/// the socket lets go of it in time.
struct SseBodyStream {
    producer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    receiver: Receiver<Bytes>,
    _open_stream: GaugeGuard,
}

impl Stream for SseBodyStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(frame) = self.receiver.poll_recv(cx) {
            return Poll::Ready(frame.map(Ok));
        }
        if self.producer.as_mut().is_some_and(|telling| telling.as_mut().poll(cx).is_ready()) {
            self.producer = None;
        }
        self.receiver.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}

/// The way to one client.
pub(crate) struct SseSender(Sender<Bytes>);

impl SseSender {
    /// Whether the client still listens.
    pub(crate) async fn send(&self, frame: SseFrame) -> bool {
        self.0.send(frame.0).await.is_ok()
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
    thread: &str,
    agent: &str,
    mut watch: RunWatch,
    frames: Sender<Bytes>,
) {
    let mut beat = heartbeat_timer(app.limits.heartbeat_interval);
    loop {
        let next = watch.try_next();
        tokio::pin!(next);
        let event = loop {
            tokio::select! {
                biased;
                () = app.draining.cancelled() => break Some(api::RunEventBody::Draining.into()),
                event = &mut next => break to_run_event(thread, app.find_agent(agent), event),
                _ = beat.tick() => send_heartbeat(&frames),
            }
        };
        let Some(event) = event else { return };
        let last = matches!(event.body, api::RunEventBody::Draining | api::RunEventBody::Error { .. });
        if frames.send(encode_run_event(&event)).await.is_err() || last {
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
    let told = match event {
        Ok(None) => return None,
        Ok(Some(event)) => {
            RunEvent::from_engine(thread, agent, &event).map_err(|error: StoreError| EngineError::from(error))
        }
        Err(error) => Err(error),
    };
    Some(
        told.unwrap_or_else(|error| {
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
    let data = serde_json::to_string(event).unwrap_or_else(|_| "{}".into());
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

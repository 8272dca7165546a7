//! Limits the memory of request and response bodies, per tenant and in total. Bytes count from the moment they are in memory
//! until the socket has taken them, so clients that do not read cannot use up the memory of the process.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use doran_agents::admission::{AdmissionPermit, AdmissionRefused, FairAdmission};
use futures_util::{Stream, StreamExt};
use tokio::time::{Sleep, sleep, timeout};

use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};

/// Bodies that wait for memory. Each is held while it waits.
pub(crate) const MAX_WAITING_BODIES: usize = 256;
/// Smaller bodies are not counted: a connection itself takes more.
const MIN_COUNTED_BYTES: usize = 16 * 1024;
/// A body that arrives is counted in steps of this size.
const COUNTED_STEP_BYTES: usize = 256 * 1024;
/// What is handed to the connection at once.
const PIECE_BYTES: usize = 32 * 1024;

/// Who the bodies of a request are counted for.
#[derive(Clone, Debug)]
pub(crate) struct BodyMemory {
    memory: FairAdmission,
    caller: ApiCaller,
}

/// Bytes that are counted while they are held.
struct CountedBytes {
    bytes: Bytes,
    _permit: AdmissionPermit,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyMemory {
    pub(crate) fn new(app: &ServerApp, caller: &ApiCaller) -> Self {
        Self { memory: app.shares.body_memory.clone(), caller: caller.clone() }
    }

    /// Reads the body of a request: at most so many bytes in so much time.
    pub(crate) async fn read(&self, body: Body, max_bytes: usize, time: Duration) -> Result<Bytes, ApiError> {
        timeout(time, self.collect(body, max_bytes)).await.map_err(|_| ApiErrorCode::TooSlow)?
    }

    async fn collect(&self, body: Body, max_bytes: usize) -> Result<Bytes, ApiError> {
        let (mut chunks, mut bytes, mut permit) = (body.into_data_stream(), Vec::new(), None);
        let mut counted = MIN_COUNTED_BYTES;
        while let Some(piece) = chunks.next().await {
            // Within its limits a body fails because it is not what its head says, or because the client went away.
            let piece = piece.map_err(|_| ApiErrorCode::BadBody)?;
            if bytes.len() + piece.len() > max_bytes {
                return Err(ApiErrorCode::TooLarge.into());
            }
            while counted < bytes.len() + piece.len() {
                self.grow(&mut permit, COUNTED_STEP_BYTES).map_err(|_| ApiErrorCode::Overloaded)?;
                counted += COUNTED_STEP_BYTES;
            }
            bytes.extend_from_slice(&piece);
        }
        let bytes = Bytes::from(bytes);
        Ok(match permit {
            Some(permit) => Bytes::from_owner(CountedBytes { bytes, _permit: permit }),
            None => bytes,
        })
    }

    fn grow(&self, permit: &mut Option<AdmissionPermit>, bytes: usize) -> Result<(), AdmissionRefused> {
        match permit {
            Some(permit) => permit.try_grow(bytes),
            None => {
                *permit = Some(self.memory.try_acquire(self.caller.tenant.as_str(), bytes)?);
                Ok(())
            }
        }
    }

    /// Bytes that are about to wait for a client, once there is memory for them.
    pub(crate) async fn count(&self, bytes: Bytes) -> Result<Bytes, AdmissionRefused> {
        if bytes.len() <= MIN_COUNTED_BYTES {
            return Ok(bytes);
        }
        let permit = self.memory.acquire(self.caller.tenant.as_str(), bytes.len()).await?;
        Ok(Bytes::from_owner(CountedBytes { bytes, _permit: permit }))
    }

    /// The same, if there is memory now.
    fn try_count(&self, bytes: Bytes) -> Result<Bytes, AdmissionRefused> {
        let permit = self.memory.try_acquire(self.caller.tenant.as_str(), bytes.len())?;
        Ok(Bytes::from_owner(CountedBytes { bytes, _permit: permit }))
    }
}

/// Counts the bodies of a request and of its answer. Streams count their own frames.
pub(crate) async fn count_bodies(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    mut request: Request,
    next: Next,
) -> Response {
    let memory = BodyMemory::new(&app, &caller);
    request.extensions_mut().insert(memory.clone());
    let may_be_repeated = request.method() == Method::GET;
    let (parts, body) = next.run(request).await.into_parts();
    let whole = match body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(bytes) if bytes > MIN_COUNTED_BYTES => to_bytes(body, bytes).await,
        Some(_) | None => return Response::from_parts(parts, body),
    };
    let Ok(whole) = whole else { return ApiError::from(ApiErrorCode::Internal).into_response() };
    // What was only read can be read again later. What was done was done: its answer waits for memory.
    let counted = if may_be_repeated { memory.try_count(whole) } else { memory.count(whole).await };
    match counted {
        Ok(bytes) => {
            let timeout = app.limits.write_timeout
                + Duration::from_secs((bytes.len() / app.limits.min_read_rate.max(1)) as u64);
            let mut response = Response::from_parts(parts, Body::empty());
            response.headers_mut().insert(axum::http::header::CONTENT_LENGTH, bytes.len().into());
            *response.body_mut() = Body::from_stream(CountedBody::new(bytes, timeout));
            response
        }
        Err(AdmissionRefused) => {
            app.metrics.count_request_shed();
            ApiError::from(ApiErrorCode::Overloaded).into_response()
        }
    }
}

/// A body that is handed over in pieces, as the client reads, and given up when that takes too long.
struct CountedBody {
    rest: Bytes,
    deadline: Pin<Box<Sleep>>,
}

impl CountedBody {
    fn new(rest: Bytes, timeout: Duration) -> Self {
        Self { rest, deadline: Box::pin(sleep(timeout)) }
    }
}

impl Stream for CountedBody {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(std::io::Error::other("the client reads too slowly"))));
        }
        let end = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(self.rest.split_to(end))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_drips_is_given_up() {
        let mut body = CountedBody::new(Bytes::from(vec![7; 3 * PIECE_BYTES]), Duration::from_secs(60));
        for _ in 0..2 {
            assert_eq!(body.next().await.expect("more").expect("in time").len(), PIECE_BYTES);
            tokio::time::sleep(Duration::from_secs(40)).await;
        }
        assert!(body.next().await.expect("an item").is_err());
    }
}

//! Reads the rest of a request body that no route read.
//!
//! Many routes ignore the body, or answer before they have read it: a wrong key, a name that does not exist. Closing the
//! connection then would reset it, and the client would lose the answer that is on its way. So what is left of a body is read and
//! thrown away, within limits. A longer body ends the connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use tokio::time::timeout;

/// The most bytes that are thrown away.
const MAX_DISCARDED_BYTES: usize = 1024 * 1024;

/// The longest time that is spent on it.
const MAX_DISCARD_TIME: Duration = Duration::from_secs(2);

/// Wraps the body of a request. A client that waits for `100 Continue` has sent nothing yet.
pub(crate) fn discard_unread_body(request: Request) -> Request {
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return request;
    }
    request.map(|body| Body::new(DiscardedBody { body: Some(body) }))
}

/// A body whose rest is read when it is dropped before its end.
struct DiscardedBody {
    body: Option<Body>,
}

impl HttpBody for DiscardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for DiscardedBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        if body.size_hint().lower() > MAX_DISCARDED_BYTES as u64 {
            return;
        }
        // Outside a runtime there is no connection either.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(timeout(MAX_DISCARD_TIME, discard(body)));
    }
}

async fn discard(body: Body) {
    let (mut chunks, mut discarded) = (body.into_data_stream(), 0);
    while let Some(Ok(chunk)) = chunks.next().await {
        discarded += chunk.len();
        if discarded > MAX_DISCARDED_BYTES {
            return;
        }
    }
}

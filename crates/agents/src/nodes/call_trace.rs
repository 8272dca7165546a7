//! The place of a call in the trace of its run: when it began, and the id that its span has. Both are noted with the call, so
//! that a reader of the log knows what others saw.

use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};

use doran_engine::{Cx, RunId};
use doran_llm::TraceContext;
use serde::{Deserialize, Serialize};

/// A call that is being made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallTrace {
    /// When it began, in milliseconds since 1970.
    pub(crate) at: i64,
    /// The id of its span.
    pub(crate) span: String,
    #[serde(skip)]
    context: Option<TraceContext>,
}

impl CallTrace {
    /// A call that begins now.
    pub(crate) fn begin(cx: &Cx) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let mut span = [0; 8];
        span.copy_from_slice(&RunId::random().as_uuid().as_bytes()[8..]);
        let run = cx.correlation().and_then(|text| text.parse::<TraceContext>().ok());
        Self {
            at: i64::try_from(now).unwrap_or(i64::MAX),
            span: hex::encode(span),
            context: run.map(|run| run.with_span(span)),
        }
    }

    /// Does the call. What it sends to other programs names its span.
    pub(crate) async fn scope<F: Future>(&self, call: F) -> F::Output {
        TraceContext::scope(self.context, call).await
    }
}

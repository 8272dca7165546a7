//! The trace that a request belongs to, in the form of W3C Trace Context. A request to a model carries that of the task that sends
//! it, if somebody gave it one.

use std::fmt;
use std::future::Future;
use std::str::FromStr;

/// The name of the header.
pub const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static OUTGOING: Option<TraceContext>;
}

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span that what comes next belongs to. All zeros: none, a trace begins here.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub sampled: bool,
}

/// A text that is no [`TraceContext`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a place in a trace")]
pub struct InvalidTraceContext;

impl TraceContext {
    /// The trace with another span.
    pub fn with_span(self, span_id: [u8; 8]) -> Self {
        Self { span_id, ..self }
    }

    /// The span, if there is one.
    pub fn span(&self) -> Option<[u8; 8]> {
        (self.span_id != [0; 8]).then_some(self.span_id)
    }

    /// Reads the header of a request. One that is not valid is as good as none, as the standard says.
    pub fn from_header(value: &str) -> Option<Self> {
        value.parse::<Self>().ok().filter(|context| context.span_id != [0; 8])
    }

    /// The value of the header for the requests of the current task.
    pub fn outgoing_header() -> Option<String> {
        OUTGOING.try_with(|context| *context).ok().flatten().map(|context| context.to_string())
    }

    /// Does `work`, whose requests belong to this place.
    pub async fn scope<F: Future>(context: Option<Self>, work: F) -> F::Output {
        OUTGOING.scope(context, work).await
    }
}

impl FromStr for TraceContext {
    type Err = InvalidTraceContext;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.trim().split('-');
        let (Some(version), Some(trace), Some(span), Some(flags)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(InvalidTraceContext);
        };
        let mut read = [0; 1];
        decode(version, &mut read)?;
        // A later version may have more parts. This one has none, and 255 is no version.
        if read[0] == 0xff || read[0] == 0 && parts.next().is_some() {
            return Err(InvalidTraceContext);
        }
        let (mut trace_id, mut span_id) = ([0; 16], [0; 8]);
        decode(trace, &mut trace_id)?;
        decode(span, &mut span_id)?;
        decode(flags, &mut read)?;
        if trace_id == [0; 16] {
            return Err(InvalidTraceContext);
        }
        Ok(Self { trace_id, span_id, sampled: read[0] & 1 == 1 })
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{}-{}-{flags:02x}", hex::encode(self.trace_id), hex::encode(self.span_id))
    }
}

/// Reads small hexadecimal digits of just this length.
fn decode(text: &str, bytes: &mut [u8]) -> Result<(), InvalidTraceContext> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(InvalidTraceContext);
    }
    hex::decode_to_slice(text, bytes).map_err(|_| InvalidTraceContext)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_header_is_read_and_written_alike() {
        let context = TraceContext::from_header(HEADER).expect("valid");
        assert!(context.sampled);
        assert_eq!(context.to_string(), HEADER);
        let later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more";
        assert!(!TraceContext::from_header(later).expect("of a later version").sampled);
    }

    #[test]
    fn what_is_not_valid_is_no_trace() {
        for header in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-가",
        ] {
            assert_eq!(TraceContext::from_header(header), None, "{header}");
        }
    }

    #[tokio::test]
    async fn only_the_requests_of_a_task_that_has_a_trace_carry_one() {
        assert_eq!(TraceContext::outgoing_header(), None);
        let context = TraceContext::from_header(HEADER);
        let inside = TraceContext::scope(context, async { TraceContext::outgoing_header() }).await;
        assert_eq!(inside.as_deref(), Some(HEADER));
    }
}

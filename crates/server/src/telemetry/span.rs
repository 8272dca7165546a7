//! Spans: what is sent of a run, before it is written for anybody.

/// What a span says about itself.
pub(super) type Attributes = Vec<(&'static str, AttributeValue)>;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AttributeValue {
    Text(String),
    Texts(Vec<String>),
    Integer(i64),
    Double(f64),
    Bool(bool),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// On which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpanKind {
    Internal,
    Server,
    Client,
}

/// A part of a run, with times in milliseconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct RunSpan {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) attributes: Attributes,
    pub(super) events: Vec<SpanEvent>,
    /// Why it failed.
    pub(super) error: Option<String>,
}

/// Something that happened within a span.
#[derive(Clone, Debug)]
pub(super) struct SpanEvent {
    pub(super) at: i64,
    pub(super) name: &'static str,
    pub(super) attributes: Attributes,
}

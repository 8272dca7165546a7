//! The messages of OTLP, written as protobuf or as JSON from one description.

use serde_json::{Map, Value, json};

use super::settings::OtlpEncoding;
use super::span::{AttributeValue, Attributes, RunSpan, SpanKind};

/// A message: its fields by number and by name in JSON.
#[derive(Clone, Debug, Default)]
pub(super) struct OtlpMessage(Vec<(u32, &'static str, OtlpField)>);

/// The value of a field.
#[derive(Clone, Debug)]
enum OtlpField {
    Text(String),
    /// Bytes, in hexadecimal digits in JSON.
    Id(Vec<u8>),
    /// A small number: an enumeration, or flags of 32 bits.
    Enumeration(u64),
    Flags(u32),
    Fixed64(u64),
    Integer(i64),
    Double(f64),
    Bool(bool),
    Message(OtlpMessage),
    Messages(Vec<OtlpMessage>),
    PackedFixed64(Vec<u64>),
    PackedDoubles(Vec<f64>),
}

impl OtlpMessage {
    fn with(mut self, number: u32, name: &'static str, field: OtlpField) -> Self {
        self.0.push((number, name, field));
        self
    }

    fn text(self, number: u32, name: &'static str, text: impl Into<String>) -> Self {
        self.with(number, name, OtlpField::Text(text.into()))
    }

    fn time(self, number: u32, name: &'static str, nanos: u64) -> Self {
        self.with(number, name, OtlpField::Fixed64(nanos))
    }

    fn message(self, number: u32, name: &'static str, message: Self) -> Self {
        self.with(number, name, OtlpField::Message(message))
    }

    fn messages(self, number: u32, name: &'static str, messages: Vec<Self>) -> Self {
        self.with(number, name, OtlpField::Messages(messages))
    }

    /// The bytes of a request.
    pub(super) fn encode(&self, encoding: OtlpEncoding) -> Vec<u8> {
        match encoding {
            OtlpEncoding::Protobuf => {
                let mut bytes = Vec::new();
                self.write_protobuf(&mut bytes);
                bytes
            }
            OtlpEncoding::Json => self.to_json().to_string().into_bytes(),
        }
    }

    fn write_protobuf(&self, out: &mut Vec<u8>) {
        for (number, _, field) in &self.0 {
            let number = *number;
            match field {
                OtlpField::Text(text) => push_bytes(out, number, text.as_bytes()),
                OtlpField::Id(bytes) => push_bytes(out, number, bytes),
                OtlpField::Enumeration(value) => {
                    push_varint(out, u64::from(number) << 3);
                    push_varint(out, *value);
                }
                OtlpField::Bool(value) => {
                    push_varint(out, u64::from(number) << 3);
                    push_varint(out, u64::from(*value));
                }
                OtlpField::Integer(value) => {
                    push_varint(out, u64::from(number) << 3);
                    push_varint(out, value.cast_unsigned());
                }
                OtlpField::Fixed64(value) => {
                    push_varint(out, u64::from(number) << 3 | 1);
                    out.extend_from_slice(&value.to_le_bytes());
                }
                OtlpField::Double(value) => {
                    push_varint(out, u64::from(number) << 3 | 1);
                    out.extend_from_slice(&value.to_le_bytes());
                }
                OtlpField::Flags(value) => {
                    push_varint(out, u64::from(number) << 3 | 5);
                    out.extend_from_slice(&value.to_le_bytes());
                }
                OtlpField::Message(message) => push_message(out, number, message),
                OtlpField::Messages(messages) => {
                    messages.iter().for_each(|message| push_message(out, number, message));
                }
                OtlpField::PackedFixed64(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    push_bytes(out, number, &bytes);
                }
                OtlpField::PackedDoubles(values) => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    push_bytes(out, number, &bytes);
                }
            }
        }
    }

    fn to_json(&self) -> Value {
        let field = |field: &OtlpField| match field {
            OtlpField::Text(text) => json!(text),
            OtlpField::Id(bytes) => json!(hex::encode(bytes)),
            OtlpField::Enumeration(value) => json!(value),
            OtlpField::Flags(value) => json!(value),
            // Numbers of 64 bits are texts in the JSON of protobuf.
            OtlpField::Fixed64(value) => json!(value.to_string()),
            OtlpField::Integer(value) => json!(value.to_string()),
            OtlpField::Double(value) => json!(value),
            OtlpField::Bool(value) => json!(value),
            OtlpField::Message(message) => message.to_json(),
            OtlpField::Messages(messages) => messages.iter().map(Self::to_json).collect(),
            OtlpField::PackedFixed64(values) => values.iter().map(u64::to_string).collect(),
            OtlpField::PackedDoubles(values) => json!(values),
        };
        let fields: Map<String, Value> =
            self.0.iter().map(|(_, name, value)| ((*name).to_owned(), field(value))).collect();
        Value::Object(fields)
    }
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn push_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    push_varint(out, u64::from(number) << 3 | 2);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn push_message(out: &mut Vec<u8>, number: u32, message: &OtlpMessage) {
    let mut inner = Vec::new();
    message.write_protobuf(&mut inner);
    push_bytes(out, number, &inner);
}

/// A request that exports spans.
pub(super) fn trace_request(resource: &[(String, String)], spans: &[RunSpan]) -> OtlpMessage {
    let scoped = OtlpMessage::default().message(1, "scope", scope()).messages(
        2,
        "spans",
        spans.iter().map(span_message).collect(),
    );
    export_request("resourceSpans", resource, "scopeSpans", scoped)
}

/// A request that exports metrics.
pub(super) fn metrics_request(resource: &[(String, String)], metrics: Vec<OtlpMessage>) -> OtlpMessage {
    let scoped = OtlpMessage::default().message(1, "scope", scope()).messages(2, "metrics", metrics);
    export_request("resourceMetrics", resource, "scopeMetrics", scoped)
}

fn export_request(
    outer: &'static str,
    resource: &[(String, String)],
    inner: &'static str,
    scoped: OtlpMessage,
) -> OtlpMessage {
    let pairs = resource.iter().map(|(name, value)| key_value(name, &AttributeValue::from(value.as_str())));
    let resource = OtlpMessage::default().messages(1, "attributes", pairs.collect());
    let whole = OtlpMessage::default().message(1, "resource", resource).messages(2, inner, vec![scoped]);
    OtlpMessage::default().messages(1, outer, vec![whole])
}

fn scope() -> OtlpMessage {
    OtlpMessage::default().text(1, "name", "doran").text(2, "version", env!("CARGO_PKG_VERSION"))
}

fn span_message(span: &RunSpan) -> OtlpMessage {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let mut message = OtlpMessage::default().with(1, "traceId", OtlpField::Id(span.trace_id.to_vec())).with(
        2,
        "spanId",
        OtlpField::Id(span.span_id.to_vec()),
    );
    if let Some(parent) = span.parent {
        message = message.with(4, "parentSpanId", OtlpField::Id(parent.to_vec()));
    }
    let events = span.events.iter().map(|event| {
        OtlpMessage::default().time(1, "timeUnixNano", nanos(event.at)).text(2, "name", event.name).messages(
            3,
            "attributes",
            attributes(&event.attributes),
        )
    });
    message = message
        .text(5, "name", &span.name)
        .with(6, "kind", OtlpField::Enumeration(kind))
        .time(7, "startTimeUnixNano", nanos(span.start))
        .time(8, "endTimeUnixNano", nanos(span.end.max(span.start)))
        .messages(9, "attributes", attributes(&span.attributes))
        .messages(11, "events", events.collect());
    if let Some(error) = &span.error {
        let status =
            OtlpMessage::default().text(2, "message", error).with(3, "code", OtlpField::Enumeration(2));
        message = message.message(15, "status", status);
    }
    // Sampled.
    message.with(16, "flags", OtlpField::Flags(1))
}

fn nanos(millis: i64) -> u64 {
    u64::try_from(millis).unwrap_or(0).saturating_mul(1_000_000)
}

pub(super) fn attributes(attributes: &Attributes) -> Vec<OtlpMessage> {
    attributes.iter().map(|(name, value)| key_value(name, value)).collect()
}

fn key_value(name: &str, value: &AttributeValue) -> OtlpMessage {
    OtlpMessage::default().text(1, "key", name).message(2, "value", any_value(value))
}

fn any_value(value: &AttributeValue) -> OtlpMessage {
    let message = OtlpMessage::default();
    match value {
        AttributeValue::Text(text) => message.text(1, "stringValue", text),
        AttributeValue::Bool(value) => message.with(2, "boolValue", OtlpField::Bool(*value)),
        AttributeValue::Integer(value) => message.with(3, "intValue", OtlpField::Integer(*value)),
        AttributeValue::Double(value) => message.with(4, "doubleValue", OtlpField::Double(*value)),
        AttributeValue::Texts(texts) => {
            let values = texts.iter().map(|text| OtlpMessage::default().text(1, "stringValue", text));
            let array = OtlpMessage::default().messages(1, "values", values.collect());
            message.message(5, "arrayValue", array)
        }
    }
}

/// A number at a time, of a sum or a gauge.
pub(super) struct NumberPoint {
    pub(super) attributes: Attributes,
    pub(super) value: f64,
}

/// Numbers that were sorted into classes.
pub(super) struct HistogramPoint {
    pub(super) attributes: Attributes,
    pub(super) count: u64,
    pub(super) sum: f64,
    /// How many there are in each class, the last one without an end.
    pub(super) buckets: Vec<u64>,
}

/// A metric and what it is measured in.
pub(super) struct MetricHead<'a> {
    pub(super) name: &'a str,
    pub(super) help: &'a str,
    pub(super) unit: &'a str,
    /// Since when it is counted, and now, in milliseconds since 1970.
    pub(super) since: i64,
    pub(super) now: i64,
}

impl MetricHead<'_> {
    fn message(&self) -> OtlpMessage {
        OtlpMessage::default()
            .text(1, "name", self.name)
            .text(2, "description", self.help)
            .text(3, "unit", self.unit)
    }

    fn number(&self, point: &NumberPoint) -> OtlpMessage {
        OtlpMessage::default()
            .time(2, "startTimeUnixNano", nanos(self.since))
            .time(3, "timeUnixNano", nanos(self.now))
            .with(4, "asDouble", OtlpField::Double(point.value))
            .messages(7, "attributes", attributes(&point.attributes))
    }

    pub(super) fn gauge(&self, points: &[NumberPoint]) -> OtlpMessage {
        let points = points.iter().map(|point| self.number(point)).collect();
        self.message().message(5, "gauge", OtlpMessage::default().messages(1, "dataPoints", points))
    }

    pub(super) fn sum(&self, points: &[NumberPoint]) -> OtlpMessage {
        let points = points.iter().map(|point| self.number(point)).collect();
        let sum = OtlpMessage::default()
            .messages(1, "dataPoints", points)
            .with(2, "aggregationTemporality", OtlpField::Enumeration(2))
            .with(3, "isMonotonic", OtlpField::Bool(true));
        self.message().message(7, "sum", sum)
    }

    pub(super) fn histogram(&self, bounds: &[f64], points: &[HistogramPoint]) -> OtlpMessage {
        let point = |point: &HistogramPoint| {
            OtlpMessage::default()
                .time(2, "startTimeUnixNano", nanos(self.since))
                .time(3, "timeUnixNano", nanos(self.now))
                .with(4, "count", OtlpField::Fixed64(point.count))
                .with(5, "sum", OtlpField::Double(point.sum))
                .with(6, "bucketCounts", OtlpField::PackedFixed64(point.buckets.clone()))
                .with(7, "explicitBounds", OtlpField::PackedDoubles(bounds.to_vec()))
                .messages(9, "attributes", attributes(&point.attributes))
        };
        let histogram = OtlpMessage::default()
            .messages(1, "dataPoints", points.iter().map(point).collect())
            .with(2, "aggregationTemporality", OtlpField::Enumeration(2));
        self.message().message(9, "histogram", histogram)
    }
}

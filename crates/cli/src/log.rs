//! Log lines on stderr: for people, or one JSON object a line for programs.

use std::fmt;
use std::io::Write;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging. Lines are for files and other programs too, so they have no colours.
pub(crate) fn init_logging(filter: &str, is_json: bool) -> anyhow::Result<()> {
    let filter = filter.parse::<Targets>()?;
    if is_json {
        // With stderr gone there is nobody left to tell.
        let lines = JsonLogLayer(|line: &str| drop(writeln!(std::io::stderr().lock(), "{line}")));
        return Ok(tracing_subscriber::registry().with(lines).with(filter).try_init()?);
    }
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    Ok(tracing_subscriber::registry().with(lines).with(filter).try_init()?)
}

/// Writes every event as an object: when, how bad, by whom, what, and inside which spans.
struct JsonLogLayer<W>(W);

impl<S, W> Layer<S> for JsonLogLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(&str) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<LogFields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        let mut spans = Map::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            let fields = span.extensions().get::<LogFields>().map(|fields| fields.0.clone());
            spans.insert(span.name().to_owned(), fields.unwrap_or_default().into());
        }
        let mut time = String::new();
        // Writing to a text cannot fail.
        SystemTime.format_time(&mut Writer::new(&mut time)).ok();
        let line = json!({
            "time": time,
            "level": event.metadata().level().as_str(),
            "target": event.metadata().target(),
            "message": message,
            "fields": fields.0,
            "spans": spans,
        });
        (self.0)(&line.to_string());
    }
}

#[derive(Default)]
struct LogFields(Map<String, Value>);

impl LogFields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_line_is_one_object_that_says_inside_which_request() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = lines.clone();
        let json = JsonLogLayer(move |line: &str| written.lock().expect("alone").push(line.to_owned()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(json), || {
            let span = tracing::info_span!("request", id = "r-1", run = tracing::field::Empty);
            span.record("run", "r-2");
            span.in_scope(|| tracing::info!(status = 200, "an \"answer\"\n{}", "{\"x\":1}"));
        });
        let lines = lines.lock().expect("alone");
        assert!(lines.len() == 1 && !lines[0].contains('\n'), "{lines:?}");
        let line: Value = serde_json::from_str(&lines[0]).expect("JSON");
        assert_eq!(line["message"], "an \"answer\"\n{\"x\":1}");
        assert_eq!((&line["level"], &line["fields"]["status"]), (&json!("INFO"), &json!(200)));
        assert_eq!(line["spans"], json!({ "request": { "id": "r-1", "run": "r-2" } }));
        assert!(
            line["time"].as_str().is_some_and(|time| time.contains('T') && time.ends_with('Z')),
            "{line}"
        );
    }
}

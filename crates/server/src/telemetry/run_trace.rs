//! The trace of a run, read from its log when the run ends or pauses. Ids follow from the run, so that every process that works
//! on it produces the same trace.
//!
//! A run that failed and is tried again has a second span of the run, below the first. What was sent at a pause is not sent
//! again at the end.

use std::collections::BTreeMap;

use doran_agents::llm::{FinishReason, ModelKind, TraceContext};
use doran_agents::protocol::{
    AgentActivity, CallNote, CallNoteKind, ModelCallNote, ModelRequestNote, StepNotes, UnfinishedRequestNote,
};
use doran_engine::store::{Millis, RunFailure, RunRow, RunUsage};
use doran_engine::{EntryBody, StepResult, ThreadEntry};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::span::{AttributeValue, Attributes, RunSpan, SpanEvent, SpanKind};

/// The most bytes of words in an attribute.
const MAX_CONTENT_BYTES: usize = 64 * 1024;
/// The most spans of a run that are sent at a time. A run with more tells how many are missing.
const MAX_SPANS: usize = 10_000;

/// What happened since the run last rested.
#[derive(Debug, Default)]
pub(super) struct RunSegment {
    /// Spans, the one of the run last. None if the trace is not recorded.
    pub(super) spans: Vec<RunSpan>,
    pub(super) models: Vec<ModelCallMetrics>,
    pub(super) calls: Vec<CallNote>,
    pub(super) nodes: Vec<NodeMetrics>,
    pub(super) restarts: u64,
    pub(super) pauses: u64,
    /// How the run ended, if it did, and how long it took.
    pub(super) end: Option<RunEndMetrics>,
}

impl RunSegment {
    /// A run that was cancelled while it was queued has no log.
    pub(super) fn of_run_that_never_started(row: &RunRow) -> Self {
        let end = RunEndMetrics { outcome: "cancelled", ms: 0, error: None };
        Self { end: row.status.is_end().then_some(end), ..Self::default() }
    }
}

#[derive(Debug)]
pub(super) struct RunEndMetrics {
    pub(super) outcome: &'static str,
    pub(super) ms: u64,
    pub(super) error: Option<String>,
}

#[derive(Debug)]
pub(super) struct NodeMetrics {
    pub(super) node: String,
    pub(super) ms: u64,
    pub(super) error: Option<String>,
}

/// A request to a model.
#[derive(Debug)]
pub(super) struct ModelCallMetrics {
    pub(super) model: String,
    pub(super) error: Option<String>,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cost_micros: Option<u64>,
    pub(super) ms: u64,
}

/// Reads the entries of a run, in their order.
pub(super) struct RunTraceReader<'a> {
    row: &'a RunRow,
    /// The trace, if it is recorded.
    trace: Option<TraceContext>,
    message_content: bool,
    segment: RunSegment,
    /// How often the run went on after an end.
    attempt: u32,
    started: Millis,
    rested: bool,
    ended: bool,
    events: Vec<SpanEvent>,
    input: Option<String>,
    dropped_spans: u64,
}

/// A task as it stands in an entry.
struct TaskView<'a> {
    node: &'a str,
    id: [u8; 8],
    parent: [u8; 8],
    start: Millis,
    end: Millis,
    attempts: u32,
    cached: bool,
    usage: RunUsage,
    error: Option<(String, String)>,
    update: Option<&'a str>,
    step: Option<u32>,
}

impl<'a> RunTraceReader<'a> {
    /// Reads from the first entry of the run on.
    pub(super) fn new(row: &'a RunRow, trace: Option<TraceContext>, message_content: bool) -> Self {
        Self {
            row,
            trace: trace.filter(|trace| trace.sampled),
            message_content,
            segment: RunSegment::default(),
            attempt: 0,
            started: row.started_at.unwrap_or(row.created_at),
            rested: false,
            ended: false,
            events: Vec::new(),
            input: None,
            dropped_spans: 0,
        }
    }

    /// Reads the next entry.
    pub(super) fn read(&mut self, entry: &ThreadEntry) {
        if std::mem::take(&mut self.rested) {
            self.segment = RunSegment::default();
        }
        if std::mem::take(&mut self.ended) {
            self.attempt += 1;
            self.started = entry.at;
            self.events.clear();
        }
        match &entry.body {
            EntryBody::Started { input, .. } => {
                self.started = entry.at;
                self.input = input.as_ref().map(|input| input.get().to_owned());
            }
            EntryBody::Step(step) | EntryBody::InnerStep(step) => self.read_step(entry.at, step),
            EntryBody::Paused { questions, .. } => {
                let ids = questions.iter().map(|question| question.id.to_string()).collect();
                self.add_event(entry.at, "paused", vec![("doran.questions", AttributeValue::Texts(ids))]);
                self.segment.pauses += 1;
                self.rested = true;
            }
            EntryBody::Resumed { .. } => self.add_event(entry.at, "resumed", Vec::new()),
            EntryBody::Restarted { reason } => {
                self.add_event(entry.at, "restarted", vec![("doran.reason", reason.as_str().into())]);
                self.segment.restarts += 1;
            }
            EntryBody::Finished => self.read_end(entry, "finished", None),
            EntryBody::Failed { failure, unfinished, .. } => {
                self.read_unfinished(entry, unfinished, &failure.code, &failure.message);
                self.read_end(entry, "failed", Some(failure));
            }
            EntryBody::Cancelled { unfinished, .. } => {
                self.read_unfinished(entry, unfinished, "cancelled", "the run was cancelled");
                self.read_end(entry, "cancelled", None);
            }
            EntryBody::Edited(_) => {}
        }
    }

    /// What happened since the last rest.
    pub(super) fn finish(self) -> RunSegment {
        self.segment
    }

    fn add_event(&mut self, at: Millis, name: &'static str, attributes: Attributes) {
        if self.events.len() < 128 {
            self.events.push(SpanEvent { at, name, attributes });
        }
    }

    /// An id of this run.
    fn id(&self, what: &str) -> [u8; 8] {
        let mut digest = Sha256::new();
        digest.update(self.row.run.as_uuid().as_bytes());
        digest.update(self.attempt.to_be_bytes());
        digest.update(what.as_bytes());
        first_bytes(&digest.finalize())
    }

    fn run_span_id(&self) -> [u8; 8] {
        self.id("run")
    }

    fn read_step(&mut self, at: Millis, step: &StepResult) {
        let earlier_steps = step.step.saturating_sub(1);
        let outer = step.path.as_ref().map(doran_engine::TaskPath::as_str);
        let parent = match outer {
            Some(path) => self.id(path),
            None => self.run_span_id(),
        };
        let longest = step.tasks.iter().map(|task| task.ms).max().unwrap_or(0);
        let start = at - millis(longest);
        for (place, task) in step.tasks.iter().enumerate() {
            let path = match outer {
                Some(outer) => format!("{outer}/{earlier_steps}.{place}"),
                None => format!("{earlier_steps}.{place}"),
            };
            let notes = read_notes(&task.node, &task.notes);
            let view = TaskView {
                node: &task.node,
                id: self.id(&path),
                parent,
                start,
                end: start + millis(task.ms),
                attempts: task.attempts,
                cached: task.cached,
                usage: task.usage,
                error: task.failure.as_ref().map(|failure| (failure.code.clone(), failure.message.clone())),
                update: Some(task.update.get()),
                step: Some(step.step),
            };
            self.read_task(&view, &notes);
        }
    }

    fn read_unfinished(
        &mut self,
        entry: &ThreadEntry,
        unfinished: &[doran_engine::UnfinishedTask],
        code: &str,
        message: &str,
    ) {
        for (place, task) in unfinished.iter().enumerate() {
            let notes = read_notes(&task.node, &task.notes);
            let view = TaskView {
                node: &task.node,
                id: self.id(&format!("unfinished {} {place}", entry.seq)),
                parent: self.run_span_id(),
                start: entry.at - millis(task.ms),
                end: entry.at,
                attempts: task.attempts,
                cached: false,
                usage: task.usage,
                error: Some((code.to_owned(), message.to_owned())),
                update: None,
                step: None,
            };
            self.read_task(&view, &notes);
        }
    }

    fn read_task(&mut self, task: &TaskView<'_>, notes: &StepNotes) {
        let error = task.error.as_ref().map(|(code, _)| code.clone());
        let ms = u64::try_from(task.end - task.start).unwrap_or(0);
        self.segment.nodes.push(NodeMetrics { node: task.node.to_owned(), ms, error });
        let (mut start, mut end) = (task.start, task.end);
        let mut inner = Vec::new();
        for (place, note) in notes.models.iter().enumerate() {
            let fallback = self.id(&format!("model {} {place}", hex::encode(task.id)));
            inner.extend(self.read_model_call(note, task, fallback));
        }
        for note in &notes.calls {
            self.segment.calls.push(note.clone());
            inner.extend(self.call_span(note, task, notes));
        }
        let Some(trace) = self.trace else { return };
        // What was recorded before a crash began before this try of the node.
        for span in &inner {
            start = start.min(span.start);
            end = end.max(span.end);
        }
        let mut attributes: Attributes =
            vec![("doran.node", task.node.into()), ("doran.attempts", u64::from(task.attempts).into())];
        if let Some(step) = task.step {
            attributes.push(("doran.step", u64::from(step).into()));
        }
        if task.cached {
            attributes.push(("doran.cached", true.into()));
        }
        push_usage(&mut attributes, task.usage);
        if let Some((code, _)) = &task.error {
            attributes.push(("error.type", code.as_str().into()));
        }
        if let (true, Some(update)) = (self.message_content, task.update) {
            attributes.push(("doran.update", truncate_content(update).into()));
        }
        self.push_span(RunSpan {
            trace_id: trace.trace_id,
            span_id: task.id,
            parent: Some(task.parent),
            name: task.node.to_owned(),
            kind: SpanKind::Internal,
            start,
            end,
            attributes,
            events: Vec::new(),
            error: task.error.as_ref().map(|(_, message)| self.error_text(message)),
        });
        inner.into_iter().for_each(|span| self.push_span(span));
    }

    /// Messages of errors may quote what people wrote.
    fn error_text(&self, message: &str) -> String {
        if self.message_content { truncate_content(message) } else { String::new() }
    }

    fn read_model_call(
        &mut self,
        note: &ModelCallNote,
        task: &TaskView<'_>,
        fallback: [u8; 8],
    ) -> Option<RunSpan> {
        let (metrics, kind, purpose, at, span, finish, cached) = match note {
            ModelCallNote::Asked(ModelRequestNote {
                name,
                kind,
                purpose,
                finish,
                input_tokens,
                output_tokens,
                cached_tokens,
                cost_micros,
                ms,
                at,
                span,
                ..
            }) => {
                let metrics = ModelCallMetrics {
                    model: name.clone(),
                    error: None,
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                    cost_micros: *cost_micros,
                    ms: *ms,
                };
                (metrics, kind, purpose, at, span, Some(*finish), *cached_tokens)
            }
            ModelCallNote::Unfinished(UnfinishedRequestNote {
                name,
                kind,
                purpose,
                unfinished,
                input_tokens,
                output_tokens,
                cost_micros,
                ms,
                at,
                span,
                ..
            }) => {
                let metrics = ModelCallMetrics {
                    model: name.clone(),
                    error: Some(unfinished.clone()),
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                    cost_micros: *cost_micros,
                    ms: *ms,
                };
                (metrics, kind, purpose, at, span, None, 0)
            }
            ModelCallNote::FromCache(_) | ModelCallNote::Unknown(_) => return None,
        };
        let span = self.trace.map(|trace| {
            let start = at.unwrap_or(task.end - millis(metrics.ms));
            let provider = match kind {
                ModelKind::Extractive => "doran",
                _ => metrics.model.split_once(':').map_or("_OTHER", |(vendor, _)| vendor),
            };
            let mut attributes: Attributes = vec![
                ("gen_ai.operation.name", "chat".into()),
                ("gen_ai.provider.name", provider.into()),
                ("gen_ai.request.model", metrics.model.as_str().into()),
                ("gen_ai.usage.input_tokens", metrics.input_tokens.into()),
                ("gen_ai.usage.output_tokens", metrics.output_tokens.into()),
                ("doran.purpose", purpose.to_string().into()),
            ];
            if cached > 0 {
                attributes.push(("gen_ai.usage.cache_read.input_tokens", cached.into()));
            }
            if let Some(micros) = metrics.cost_micros {
                attributes.push(("doran.cost_usd", usd(micros).into()));
            }
            if let Some(finish) = finish {
                let finish = vec![finish_reason(finish).to_owned()];
                attributes.push(("gen_ai.response.finish_reasons", AttributeValue::Texts(finish)));
            }
            if let Some(error) = &metrics.error {
                attributes.push(("error.type", error.as_str().into()));
            }
            RunSpan {
                trace_id: trace.trace_id,
                span_id: span.as_deref().and_then(parse_span_id).unwrap_or(fallback),
                parent: Some(task.id),
                name: format!("chat {}", metrics.model),
                kind: SpanKind::Client,
                start,
                end: start + millis(metrics.ms),
                attributes,
                events: Vec::new(),
                error: metrics.error.clone(),
            }
        });
        self.segment.models.push(metrics);
        span
    }

    fn call_span(&self, note: &CallNote, task: &TaskView<'_>, notes: &StepNotes) -> Option<RunSpan> {
        let trace = self.trace?;
        let mut attributes: Attributes = Vec::new();
        let (name, kind) = match note.kind {
            CallNoteKind::Tool => {
                attributes.push(("gen_ai.operation.name", "execute_tool".into()));
                attributes.push(("gen_ai.tool.name", note.name.as_str().into()));
                (format!("execute_tool {}", note.name), SpanKind::Internal)
            }
            CallNoteKind::Search => {
                attributes.push(("gen_ai.operation.name", "retrieval".into()));
                (format!("retrieval {}", note.name), SpanKind::Internal)
            }
            CallNoteKind::Http => (format!("http {}", note.name), SpanKind::Client),
        };
        if let Some(call) = &note.call {
            attributes.push(("gen_ai.tool.call.id", call.as_str().into()));
            if self.message_content {
                attributes.extend(tool_content_attributes(call, notes));
            }
        }
        if note.failed {
            attributes.push(("error.type", "_OTHER".into()));
        }
        Some(RunSpan {
            trace_id: trace.trace_id,
            span_id: parse_span_id(&note.span).unwrap_or_else(|| self.id(&note.span)),
            parent: Some(task.id),
            name,
            kind,
            start: note.at,
            end: note.at + millis(note.ms),
            attributes,
            events: Vec::new(),
            error: note.failed.then(String::new),
        })
    }

    fn push_span(&mut self, span: RunSpan) {
        if self.segment.spans.len() < MAX_SPANS {
            self.segment.spans.push(span);
        } else {
            self.dropped_spans += 1;
        }
    }

    fn read_end(&mut self, entry: &ThreadEntry, outcome: &'static str, failure: Option<&RunFailure>) {
        (self.rested, self.ended) = (true, true);
        let ms = u64::try_from(entry.at - self.started).unwrap_or(0);
        let error = failure.map(|failure| failure.code.clone());
        self.segment.end = Some(RunEndMetrics { outcome, ms, error });
        let Some(trace) = self.trace else { return };
        let row = self.row;
        let mut attributes: Attributes = vec![
            ("gen_ai.operation.name", "invoke_agent".into()),
            ("gen_ai.provider.name", "doran".into()),
            ("gen_ai.agent.name", row.graph.as_str().into()),
            ("gen_ai.conversation.id", row.thread.thread.as_str().into()),
            ("doran.run.id", row.run.to_string().into()),
            ("doran.run.outcome", outcome.into()),
            ("doran.tenant", row.thread.tenant.as_str().into()),
        ];
        push_usage(&mut attributes, row.usage);
        if let Some(failure) = failure {
            attributes.push(("error.type", failure.code.as_str().into()));
        }
        if self.dropped_spans > 0 {
            attributes.push(("doran.dropped_spans", self.dropped_spans.into()));
        }
        if let (true, Some(input)) = (self.message_content, &self.input) {
            attributes.push(("doran.input", truncate_content(input).into()));
        }
        let id = self.run_span_id();
        let parent = if self.attempt == 0 {
            trace.span()
        } else {
            let attempt = std::mem::take(&mut self.attempt);
            let first = self.run_span_id();
            self.attempt = attempt;
            Some(first)
        };
        // A graph inside a node that never finished has no span of that node.
        let known: std::collections::HashSet<[u8; 8]> =
            self.segment.spans.iter().map(|span| span.span_id).collect();
        for span in &mut self.segment.spans {
            span.parent = Some(span.parent.filter(|parent| known.contains(parent)).unwrap_or(id));
        }
        let error = failure.map(|failure| self.error_text(&failure.message));
        self.segment.spans.push(RunSpan {
            trace_id: trace.trace_id,
            span_id: id,
            parent,
            name: format!("invoke_agent {}", row.graph),
            kind: SpanKind::Server,
            start: self.started,
            end: entry.at,
            attributes,
            events: std::mem::take(&mut self.events),
            error,
        });
    }
}

/// What a tool was given, and what it gave.
fn tool_content_attributes(call: &str, notes: &StepNotes) -> Attributes {
    let words = notes.events.iter().filter_map(|event| match event {
        AgentActivity::ToolCall { call: id, arguments, .. } if id == call => {
            Some(("gen_ai.tool.call.arguments", truncate_content(&arguments.to_string()).into()))
        }
        AgentActivity::ToolResult { call: id, text, .. } if id == call => {
            Some(("gen_ai.tool.call.result", truncate_content(text).into()))
        }
        _ => None,
    });
    words.collect()
}

fn push_usage(attributes: &mut Attributes, usage: RunUsage) {
    if !usage.is_zero() {
        attributes.push(("gen_ai.usage.input_tokens", usage.input_tokens.into()));
        attributes.push(("gen_ai.usage.output_tokens", usage.output_tokens.into()));
        attributes.push(("doran.cost_usd", usd(usage.cost_micros).into()));
    }
}

pub(super) fn usd(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Filtered => "content_filter",
        FinishReason::Other => "other",
    }
}

fn millis(ms: u64) -> Millis {
    Millis::try_from(ms).unwrap_or(Millis::MAX / 4)
}

fn parse_span_id(text: &str) -> Option<[u8; 8]> {
    let mut id = [0; 8];
    hex::decode_to_slice(text, &mut id).ok().filter(|()| id != [0; 8])?;
    Some(id)
}

fn first_bytes(digest: &[u8]) -> [u8; 8] {
    let mut id = [0; 8];
    id.copy_from_slice(&digest[..8]);
    id
}

/// The beginning of a text.
fn truncate_content(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_CONTENT_BYTES)].to_owned()
}
/// The notes of a task; none, and a warning, if they cannot be read. Its calls are missing in the trace then.
fn read_notes(node: &str, notes: &BTreeMap<String, Value>) -> StepNotes {
    StepNotes::from_notes(notes).unwrap_or_else(|error| {
        tracing::warn!(node, %error, "the notes of a task cannot be read");
        StepNotes::default()
    })
}

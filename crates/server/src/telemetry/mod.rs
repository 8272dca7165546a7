//! Traces, metrics and a line in the log for every run, read from the log of the run when it comes to rest.
//!
//! The engine tells that a run rests and stores the place of the run in a trace; it knows nothing else of this. Whatever
//! happens here, runs go on: queues are bounded, and what does not fit is dropped and counted.

mod exporter;
mod otlp;
mod run_metrics;
mod run_trace;
mod settings;
mod span;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use doran_agents::llm::TraceContext;
use doran_engine::runtime::RunObserver;
use doran_engine::store::{RunRow, Seq, StoreError};
use doran_engine::{EngineError, RunKey, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

use self::exporter::OtlpExporter;
use self::otlp::{OtlpMessage, metrics_request, trace_request};
pub(crate) use self::run_metrics::RunMetrics;
use self::run_trace::{RunSegment, RunTraceReader, usd};
pub use self::settings::{TelemetrySettings, TelemetryWarning};
use self::span::RunSpan;

/// Runs that wait to be read, and spans of a request, unless variables say otherwise.
const MAX_QUEUE: usize = 2048;
const MAX_BATCH: usize = 512;
/// How long spans wait for others, and how often metrics are sent.
const SCHEDULE_DELAY: Duration = Duration::from_secs(1);
const METRIC_INTERVAL: Duration = Duration::from_secs(60);
/// Requests that wait for a collector.
const MAX_WAITING_REQUESTS: usize = 16;
/// Entries of a log that are read at a time.
const ENTRIES_PER_READ: usize = 64;

tokio::task_local! {
    static INCOMING: Option<TraceContext>;
}

/// Handles a request that came with this header. Runs that it starts belong to the trace of the client.
pub(crate) async fn with_incoming_trace<F: Future>(header: Option<&str>, work: F) -> F::Output {
    INCOMING.scope(header.and_then(TraceContext::from_header), work).await
}

/// Measures and traces the runs of a runtime. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Telemetry(Arc<TelemetryInner>);

#[derive(Debug)]
struct TelemetryInner {
    settings: TelemetrySettings,
    metrics: RunMetrics,
    queue: mpsc::Sender<TelemetryMessage>,
    /// Taken when the work begins.
    waiting: Mutex<Option<mpsc::Receiver<TelemetryMessage>>>,
    has_dropped: AtomicBool,
}

#[derive(Debug)]
enum TelemetryMessage {
    Rested(RunKey, Seq),
    Stop(oneshot::Sender<()>),
}

/// What is sent to collectors, in this order.
enum OutgoingTelemetry {
    Spans(Vec<RunSpan>),
    Metrics(OtlpMessage),
    Stop(oneshot::Sender<()>),
}

impl RunObserver for Telemetry {
    fn correlation_of_new_run(&self) -> Option<String> {
        self.0.settings.traces.as_ref()?;
        let parent = INCOMING.try_with(|parent| *parent).ok().flatten();
        let trace_id = parent.map_or_else(|| uuid::Uuid::new_v4().into_bytes(), |parent| parent.trace_id);
        let sampled = self.0.settings.sampler.samples(trace_id, parent.as_ref());
        let span_id = parent.map_or([0; 8], |parent| parent.span_id);
        Some(TraceContext { trace_id, span_id, sampled }.to_string())
    }

    fn run_written(&self, took: Duration) {
        self.0.metrics.count_store_write(took);
    }

    fn run_rested(&self, run: &RunKey, head: Seq) {
        if self.0.queue.try_send(TelemetryMessage::Rested(run.clone(), head)).is_err() {
            self.0.metrics.count_dropped_run();
            if !self.0.has_dropped.swap(true, Ordering::Relaxed) {
                tracing::warn!("runs end faster than they can be measured; some are in no trace or metric");
            }
        }
    }
}

impl Telemetry {
    /// Begins to work with [`Telemetry::start`]. The runtime has to be made with it as observer.
    pub fn new(mut settings: TelemetrySettings) -> Self {
        const INSTANCE: &str = "service.instance.id";
        if settings.resource.iter().all(|(name, _)| name != INSTANCE) {
            settings.resource.push((INSTANCE.to_owned(), uuid::Uuid::new_v4().to_string()));
        }
        let (queue, waiting) = mpsc::channel(settings.max_queue.unwrap_or(MAX_QUEUE));
        Self(Arc::new(TelemetryInner {
            settings,
            metrics: RunMetrics::default(),
            queue,
            waiting: Mutex::new(Some(waiting)),
            has_dropped: AtomicBool::new(false),
        }))
    }

    /// Measures and traces the runs of this runtime from now on. An error says what cannot be sent; the rest is done.
    pub fn start(&self, runtime: &Runtime) -> Result<(), String> {
        let Some(waiting) = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let settings = &self.0.settings;
        let mut wrong = Ok(());
        let mut open = |target: &Option<settings::OtlpTarget>| {
            let target = target.clone()?;
            OtlpExporter::new(target).map_err(|error| wrong = Err(error)).ok()
        };
        let (traces, metrics) = (open(&settings.traces), open(&settings.metrics));
        let (outgoing, requests) = mpsc::channel(MAX_WAITING_REQUESTS);
        let (exports_spans, exports_metrics) = (traces.is_some(), metrics.is_some());
        tokio::spawn(send_requests(self.0.clone(), traces, metrics, requests));
        let worker = TelemetryWorker {
            inner: self.0.clone(),
            runtime: runtime.clone(),
            outgoing,
            spans: Vec::new(),
            exports_spans,
            exports_metrics,
        };
        tokio::spawn(worker.work(waiting));
        wrong
    }

    /// Sends what is left, for at most this long. Nothing is measured afterwards.
    pub async fn shut_down(&self, time_limit: Duration) {
        let (done, stopped) = oneshot::channel();
        let stop = async {
            // An error means that the work ended before or never began.
            if self.0.queue.send(TelemetryMessage::Stop(done)).await.is_ok() {
                stopped.await.ok();
            }
        };
        let began = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if began && timeout(time_limit, stop).await.is_err() {
            tracing::warn!("telemetry was not sent in time");
        }
    }

    pub(crate) fn run_metrics(&self) -> RunMetrics {
        self.0.metrics.clone()
    }
}

/// Reads what runs did.
struct TelemetryWorker {
    inner: Arc<TelemetryInner>,
    runtime: Runtime,
    outgoing: mpsc::Sender<OutgoingTelemetry>,
    spans: Vec<RunSpan>,
    exports_spans: bool,
    exports_metrics: bool,
}

impl TelemetryWorker {
    async fn work(mut self, mut waiting: mpsc::Receiver<TelemetryMessage>) {
        let settings = &self.inner.settings;
        let max_batch = settings.max_batch.unwrap_or(MAX_BATCH);
        let mut batches = interval(settings.schedule_delay.unwrap_or(SCHEDULE_DELAY));
        let mut measures = interval(settings.metric_interval.unwrap_or(METRIC_INTERVAL));
        batches.set_missed_tick_behavior(MissedTickBehavior::Delay);
        measures.set_missed_tick_behavior(MissedTickBehavior::Delay);
        measures.reset();
        loop {
            tokio::select! {
                message = waiting.recv() => match message {
                    Some(TelemetryMessage::Rested(run, head)) => {
                        self.read_run(&run, head).await;
                        if self.spans.len() >= max_batch {
                            self.send_spans(max_batch);
                        }
                    }
                    Some(TelemetryMessage::Stop(done)) => {
                        self.send_spans(max_batch);
                        self.send_metrics();
                        // An error drops `done`, which tells that it is over.
                        self.outgoing.send(OutgoingTelemetry::Stop(done)).await.ok();
                        return;
                    }
                    None => return,
                },
                _ = batches.tick() => self.send_spans(max_batch),
                _ = measures.tick() => self.send_metrics(),
            }
        }
    }

    async fn read_run(&mut self, run: &RunKey, head: Seq) {
        match read_segment(&self.runtime, &self.inner.settings, run, head).await {
            Ok((row, segment)) => {
                self.inner.metrics.count_segment(&row, &segment);
                log_end(&row, &segment);
                if self.exports_spans {
                    self.spans.extend(segment.spans);
                }
            }
            // Its thread was deleted meanwhile.
            Err(EngineError::Store(StoreError::NotFound { .. })) => {}
            Err(error) => {
                tracing::debug!(%error, "a run that rests cannot be read, and is in no trace or metric");
            }
        }
    }

    fn send_spans(&mut self, max_batch: usize) {
        while !self.spans.is_empty() {
            let count = self.spans.len().min(max_batch);
            let batch: Vec<RunSpan> = self.spans.drain(..count).collect();
            if self.outgoing.try_send(OutgoingTelemetry::Spans(batch)).is_err() {
                self.inner.metrics.count_dropped_spans(count);
            }
        }
    }

    fn send_metrics(&self) {
        if self.exports_metrics {
            let metrics = self.inner.metrics.otlp_metrics(self.runtime.active_runs());
            let request = metrics_request(&self.inner.settings.resource, metrics);
            // The next ones count everything that these do.
            drop(self.outgoing.try_send(OutgoingTelemetry::Metrics(request)));
        }
    }
}

async fn send_requests(
    inner: Arc<TelemetryInner>,
    traces: Option<OtlpExporter>,
    metrics: Option<OtlpExporter>,
    mut requests: mpsc::Receiver<OutgoingTelemetry>,
) {
    while let Some(request) = requests.recv().await {
        match (request, &traces, &metrics) {
            (OutgoingTelemetry::Spans(spans), Some(exporter), _) => {
                let request = trace_request(&inner.settings.resource, &spans);
                if !exporter.send("traces", &request).await {
                    inner.metrics.count_dropped_spans(spans.len());
                }
            }
            (OutgoingTelemetry::Metrics(request), _, Some(exporter)) => {
                exporter.send("metrics", &request).await;
            }
            (OutgoingTelemetry::Stop(done), ..) => {
                done.send(()).ok();
                return;
            }
            (OutgoingTelemetry::Spans(_) | OutgoingTelemetry::Metrics(_), ..) => {}
        }
    }
}

/// Reads what a run did since it rested before, up to the entry `head`.
async fn read_segment(
    runtime: &Runtime,
    settings: &TelemetrySettings,
    run: &RunKey,
    head: Seq,
) -> Result<(RunRow, RunSegment), EngineError> {
    let row = runtime.run_row(run).await?;
    let Some(first) = row.first_seq else {
        let segment = RunSegment::of_run_that_never_started(&row);
        return Ok((row, segment));
    };
    let trace = settings.traces.as_ref().and_then(|_| row.correlation()?.parse().ok());
    let mut reader = RunTraceReader::new(&row, trace, settings.message_content);
    let mut cursor = first.saturating_sub(1);
    'log: loop {
        let entries = runtime.entries(&row.thread, cursor, ENTRIES_PER_READ).await?;
        let is_last = entries.len() < ENTRIES_PER_READ;
        for entry in entries {
            if entry.seq > head || entry.run.is_some_and(|other| other != run.run) {
                break 'log;
            }
            cursor = entry.seq;
            reader.read(&entry);
        }
        if is_last {
            break;
        }
    }
    let segment = reader.finish();
    Ok((row, segment))
}

/// One line for a run that ended.
fn log_end(row: &RunRow, segment: &RunSegment) {
    let Some(end) = &segment.end else { return };
    let trace = row.correlation().and_then(|text| text.parse::<TraceContext>().ok());
    tracing::info!(
        run = %row.run,
        tenant = row.thread.tenant.as_str(),
        agent = row.graph,
        outcome = end.outcome,
        error = end.error.as_deref(),
        ms = end.ms,
        steps = row.steps,
        input_tokens = row.usage.input_tokens,
        output_tokens = row.usage.output_tokens,
        cost_usd = usd(row.usage.cost_micros),
        trace = trace.map(|trace| hex::encode(trace.trace_id)),
        "run ended"
    );
}

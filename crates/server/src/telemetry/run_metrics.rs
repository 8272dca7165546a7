//! Numbers about runs, models, tools, the store and the index: the same for Prometheus and for OTLP.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doran_agents::protocol::CallNoteKind;
use doran_engine::store::RunRow;

use super::otlp::{HistogramPoint, MetricHead, NumberPoint, OtlpMessage};
use super::run_trace::{RunSegment, usd};
use super::span::Attributes;

/// The most different sets of labels. Names come from graphs, models and tools, so there are few; this is for the case that
/// somebody finds a way to make many.
const MAX_SERIES: usize = 5000;

const SECONDS: &[f64] = &[0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 300.0];
const SHORT_SECONDS: &[f64] = &[0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0];
const TOKENS: &[f64] = &[1.0, 16.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];

/// A metric: how Prometheus and OpenTelemetry call it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum RunMetric {
    Runs,
    RunSeconds,
    QueueSeconds,
    Pauses,
    Restarts,
    NodeSeconds,
    ModelSeconds,
    ModelTokens,
    Cost,
    ToolSeconds,
    HttpSeconds,
    SearchSeconds,
    StoreWriteSeconds,
    DroppedRuns,
    DroppedSpans,
}

/// How a metric is described.
struct MetricDescription {
    prometheus: &'static str,
    otlp: &'static str,
    unit: &'static str,
    help: &'static str,
    /// The ends of the classes. `None`: a sum.
    bounds: Option<&'static [f64]>,
    /// Labels, as Prometheus and OpenTelemetry name them.
    labels: &'static [(&'static str, &'static str)],
}

const AGENT: (&str, &str) = ("agent", "gen_ai.agent.name");
const MODEL: (&str, &str) = ("model", "gen_ai.request.model");
const ERROR: (&str, &str) = ("error", "error.type");

impl RunMetric {
    const ALL: [Self; 15] = [
        Self::Runs,
        Self::RunSeconds,
        Self::QueueSeconds,
        Self::Pauses,
        Self::Restarts,
        Self::NodeSeconds,
        Self::ModelSeconds,
        Self::ModelTokens,
        Self::Cost,
        Self::ToolSeconds,
        Self::HttpSeconds,
        Self::SearchSeconds,
        Self::StoreWriteSeconds,
        Self::DroppedRuns,
        Self::DroppedSpans,
    ];

    fn description(self) -> MetricDescription {
        let histogram = |prometheus, otlp, help, bounds, labels| MetricDescription {
            prometheus,
            otlp,
            unit: "s",
            help,
            bounds: Some(bounds),
            labels,
        };
        let sum = |prometheus, otlp, unit, help, labels| MetricDescription {
            prometheus,
            otlp,
            unit,
            help,
            bounds: None,
            labels,
        };
        match self {
            Self::Runs => sum(
                "doran_runs_total",
                "doran.runs",
                "{run}",
                "Runs that ended here.",
                &[AGENT, ("outcome", "doran.run.outcome"), ERROR],
            ),
            Self::RunSeconds => histogram(
                "doran_run_seconds",
                "doran.run.duration",
                "From the start of a run to its end, waiting for people included.",
                SECONDS,
                &[AGENT, ("outcome", "doran.run.outcome")],
            ),
            Self::QueueSeconds => histogram(
                "doran_run_queue_seconds",
                "doran.run.queue.duration",
                "How long runs waited before they were started.",
                SHORT_SECONDS,
                &[AGENT],
            ),
            Self::Pauses => sum(
                "doran_run_pauses_total",
                "doran.run.pauses",
                "{pause}",
                "How often runs began to wait for somebody.",
                &[AGENT],
            ),
            Self::Restarts => sum(
                "doran_run_restarts_total",
                "doran.run.restarts",
                "{restart}",
                "How often runs went on after a crash, a lost lease or a retry.",
                &[AGENT],
            ),
            Self::NodeSeconds => histogram(
                "doran_node_seconds",
                "doran.node.duration",
                "How long nodes took.",
                SECONDS,
                &[AGENT, ("node", "doran.node"), ERROR],
            ),
            Self::ModelSeconds => histogram(
                "doran_model_request_seconds",
                "gen_ai.client.operation.duration",
                "How long requests to models took.",
                SECONDS,
                &[AGENT, MODEL, ERROR, ("operation", "gen_ai.operation.name")],
            ),
            Self::ModelTokens => MetricDescription {
                prometheus: "doran_model_tokens",
                otlp: "gen_ai.client.token.usage",
                unit: "{token}",
                help: "Tokens of requests to models.",
                bounds: Some(TOKENS),
                labels: &[
                    AGENT,
                    MODEL,
                    ("type", "gen_ai.token.type"),
                    ("operation", "gen_ai.operation.name"),
                ],
            },
            Self::Cost => sum(
                "doran_cost_usd_total",
                "doran.cost",
                "USD",
                "What requests to models with a known price cost.",
                &[AGENT, MODEL],
            ),
            Self::ToolSeconds => histogram(
                "doran_tool_call_seconds",
                "doran.tool.duration",
                "How long calls of tools took.",
                SECONDS,
                &[AGENT, ("tool", "gen_ai.tool.name"), ERROR],
            ),
            Self::HttpSeconds => histogram(
                "doran_http_node_seconds",
                "doran.http_node.duration",
                "How long calls of programs over HTTP took.",
                SECONDS,
                &[AGENT, ("node", "doran.node"), ERROR],
            ),
            Self::SearchSeconds => histogram(
                "doran_search_seconds",
                "doran.search.duration",
                "How long searches in the index took.",
                SHORT_SECONDS,
                &[AGENT, ERROR],
            ),
            Self::StoreWriteSeconds => histogram(
                "doran_store_write_seconds",
                "doran.store.write.duration",
                "How long writes of runs to the database took.",
                SHORT_SECONDS,
                &[],
            ),
            Self::DroppedRuns => sum(
                "doran_telemetry_dropped_runs_total",
                "doran.telemetry.dropped_runs",
                "{run}",
                "Runs that were not measured because too many waited.",
                &[],
            ),
            Self::DroppedSpans => sum(
                "doran_telemetry_dropped_spans_total",
                "doran.telemetry.dropped_spans",
                "{span}",
                "Spans that were not sent because the collector did not take them.",
                &[],
            ),
        }
    }
}

/// What was counted under one set of labels.
#[derive(Clone, Debug, Default)]
struct MetricSeries {
    count: u64,
    sum: f64,
    /// One more than there are bounds.
    buckets: Vec<u64>,
}

/// The numbers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RunMetrics(Arc<RunMetricsInner>);

#[derive(Debug)]
struct RunMetricsInner {
    since: i64,
    series: Mutex<BTreeMap<(RunMetric, Vec<String>), MetricSeries>>,
}

impl Default for RunMetrics {
    fn default() -> Self {
        Self(Arc::new(RunMetricsInner { since: now_millis(), series: Mutex::default() }))
    }
}

impl RunMetrics {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(RunMetric, Vec<String>), MetricSeries>> {
        self.0.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, metric: RunMetric, labels: &[&str], value: f64) {
        let mut all = self.lock();
        let key = (metric, labels.iter().map(|label| (*label).to_owned()).collect());
        if all.len() >= MAX_SERIES && !all.contains_key(&key) {
            return;
        }
        let bounds = metric.description().bounds;
        let series = all.entry(key).or_default();
        series.count += 1;
        series.sum += value;
        if let Some(bounds) = bounds {
            series.buckets.resize(bounds.len() + 1, 0);
            let class = bounds.iter().position(|end| value <= *end).unwrap_or(bounds.len());
            series.buckets[class] += 1;
        }
    }

    pub(super) fn count_store_write(&self, took: Duration) {
        self.add(RunMetric::StoreWriteSeconds, &[], took.as_secs_f64());
    }

    pub(super) fn count_dropped_run(&self) {
        self.add(RunMetric::DroppedRuns, &[], 1.0);
    }

    pub(super) fn count_dropped_spans(&self, spans: usize) {
        self.add(RunMetric::DroppedSpans, &[], spans as f64);
    }

    /// Counts what happened since a run last rested.
    pub(super) fn count_segment(&self, row: &RunRow, segment: &RunSegment) {
        let agent = row.graph.as_str();
        let seconds = |ms: u64| ms as f64 / 1e3;
        let error = |error: &Option<String>| error.clone().unwrap_or_default();
        for node in &segment.nodes {
            self.add(RunMetric::NodeSeconds, &[agent, &node.node, &error(&node.error)], seconds(node.ms));
        }
        for call in &segment.models {
            let model = call.model.as_str();
            self.add(RunMetric::ModelSeconds, &[agent, model, &error(&call.error), "chat"], seconds(call.ms));
            for (kind, tokens) in [("input", call.input_tokens), ("output", call.output_tokens)] {
                self.add(RunMetric::ModelTokens, &[agent, model, kind, "chat"], tokens as f64);
            }
            if let Some(micros) = call.cost_micros {
                self.add(RunMetric::Cost, &[agent, model], usd(micros));
            }
        }
        for call in &segment.calls {
            let (error, name, took) = (if call.failed { "_OTHER" } else { "" }, &call.name, seconds(call.ms));
            match call.kind {
                CallNoteKind::Tool => self.add(RunMetric::ToolSeconds, &[agent, name, error], took),
                CallNoteKind::Http => self.add(RunMetric::HttpSeconds, &[agent, name, error], took),
                CallNoteKind::Search => self.add(RunMetric::SearchSeconds, &[agent, error], took),
            }
        }
        (0..segment.restarts).for_each(|_| self.add(RunMetric::Restarts, &[agent], 1.0));
        (0..segment.pauses).for_each(|_| self.add(RunMetric::Pauses, &[agent], 1.0));
        if let Some(end) = &segment.end {
            self.add(RunMetric::Runs, &[agent, end.outcome, &error(&end.error)], 1.0);
            self.add(RunMetric::RunSeconds, &[agent, end.outcome], seconds(end.ms));
            if let Some(started) = row.started_at {
                let waited = u64::try_from(started - row.created_at).unwrap_or(0);
                self.add(RunMetric::QueueSeconds, &[agent], seconds(waited));
            }
        }
    }

    /// The numbers in the text format of Prometheus.
    pub(crate) fn push_prometheus_lines(&self, text: &mut String) {
        let all = self.lock();
        for metric in RunMetric::ALL {
            let MetricDescription { prometheus: name, help, bounds, labels, .. } = metric.description();
            let mut series = all.iter().filter(|((one, _), _)| *one == metric).peekable();
            if series.peek().is_none() {
                continue;
            }
            let kind = if bounds.is_some() { "histogram" } else { "counter" };
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
            for ((_, values), series) in series {
                let pairs: Vec<String> = labels
                    .iter()
                    .zip(values)
                    .map(|((label, _), value)| format!("{label}=\"{}\"", escape(value)))
                    .collect();
                let pairs = pairs.join(",");
                let braced = if pairs.is_empty() { String::new() } else { format!("{{{pairs}}}") };
                let Some(bounds) = bounds else {
                    writeln!(text, "{name}{braced} {}", series.sum).ok();
                    continue;
                };
                let comma = if pairs.is_empty() { "" } else { "," };
                let mut below = 0;
                for (end, count) in bounds.iter().zip(&series.buckets) {
                    below += count;
                    writeln!(text, "{name}_bucket{{{pairs}{comma}le=\"{end}\"}} {below}").ok();
                }
                writeln!(text, "{name}_bucket{{{pairs}{comma}le=\"+Inf\"}} {}", series.count).ok();
                writeln!(text, "{name}_sum{braced} {}", series.sum).ok();
                writeln!(text, "{name}_count{braced} {}", series.count).ok();
            }
        }
    }

    /// The numbers as metrics of OTLP.
    pub(super) fn otlp_metrics(&self, active_runs: usize) -> Vec<OtlpMessage> {
        let (since, now) = (self.0.since, now_millis());
        let all = self.lock();
        let mut metrics = Vec::new();
        for metric in RunMetric::ALL {
            let MetricDescription { otlp: name, unit, help, bounds, labels, .. } = metric.description();
            let head = MetricHead { name, help, unit, since, now };
            let attributes = |values: &[String]| -> Attributes {
                let named = labels.iter().map(|(_, name)| *name).zip(values);
                named
                    .filter(|(_, value)| !value.is_empty())
                    .map(|(name, value)| (name, value.as_str().into()))
                    .collect()
            };
            let series = || {
                all.iter()
                    .filter(|((one, _), _)| *one == metric)
                    .map(|((_, labels), series)| (labels, series))
            };
            if series().next().is_none() {
                continue;
            }
            metrics.push(match bounds {
                None => {
                    let points: Vec<NumberPoint> = series()
                        .map(|(labels, series)| NumberPoint {
                            attributes: attributes(labels),
                            value: series.sum,
                        })
                        .collect();
                    head.sum(&points)
                }
                Some(bounds) => {
                    let points: Vec<HistogramPoint> = series()
                        .map(|(labels, series)| HistogramPoint {
                            attributes: attributes(labels),
                            count: series.count,
                            sum: series.sum,
                            buckets: series.buckets.clone(),
                        })
                        .collect();
                    head.histogram(bounds, &points)
                }
            });
        }
        let head = MetricHead {
            name: "doran.runs.active",
            help: "Runs this process works on, each under a lease.",
            unit: "{run}",
            since,
            now,
        };
        metrics.push(head.gauge(&[NumberPoint { attributes: Vec::new(), value: active_runs as f64 }]));
        metrics
    }
}

/// A value of a label, as Prometheus quotes it.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn now_millis() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_upwards_and_a_label_cannot_break_its_line() {
        let metrics = RunMetrics::default();
        for seconds in [0.001, 0.3, 900.0] {
            metrics.add(RunMetric::ToolSeconds, &["a\"b\n", "search", ""], seconds);
        }
        metrics.count_dropped_spans(7);
        let mut text = String::new();
        metrics.push_prometheus_lines(&mut text);
        for line in [
            "doran_tool_call_seconds_bucket{agent=\"a\\\"b\\n\",tool=\"search\",error=\"\",le=\"0.005\"} 1",
            "doran_tool_call_seconds_bucket{agent=\"a\\\"b\\n\",tool=\"search\",error=\"\",le=\"300\"} 2",
            "doran_tool_call_seconds_bucket{agent=\"a\\\"b\\n\",tool=\"search\",error=\"\",le=\"+Inf\"} 3",
            "doran_telemetry_dropped_spans_total 7",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }

    #[test]
    fn there_is_an_end_to_new_labels() {
        let metrics = RunMetrics::default();
        for number in 0..MAX_SERIES + 10 {
            metrics.add(RunMetric::Pauses, &[&number.to_string()], 1.0);
        }
        metrics.add(RunMetric::Pauses, &["0"], 1.0);
        let all = metrics.lock();
        assert_eq!(all.len(), MAX_SERIES);
        assert_eq!(all[&(RunMetric::Pauses, vec!["0".to_owned()])].count, 2);
    }
}

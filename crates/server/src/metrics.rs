//! Metrics in the format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::ServerApp;

/// Upper ends of the classes of durations, in seconds.
const DURATION_BUCKETS_SECONDS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0];

/// The numbers. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<MetricCounters>);

#[derive(Debug, Default)]
struct MetricCounters {
    requests: Mutex<BTreeMap<(String, u16), RequestDurations>>,
    open_requests: AtomicI64,
    open_streams: AtomicI64,
    runs_started: AtomicU64,
    requests_shed: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct RequestDurations {
    count: u64,
    seconds: f64,
    buckets: [u64; DURATION_BUCKETS_SECONDS.len()],
}

/// Something that is open until this is dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Metrics, fn(&MetricCounters) -> &AtomicI64);

impl Metrics {
    fn record_request(&self, path: &str, status: u16, time: Duration) {
        let seconds = time.as_secs_f64();
        let mut requests = self.0.requests.lock().unwrap_or_else(PoisonError::into_inner);
        // Paths are those of the routes, so there are few.
        let counts = requests.entry((path.to_owned(), status)).or_default();
        counts.count += 1;
        counts.seconds += seconds;
        for (class, end) in counts.buckets.iter_mut().zip(DURATION_BUCKETS_SECONDS) {
            *class += u64::from(seconds <= end);
        }
    }

    /// Counts a run that was started.
    pub(crate) fn count_run_started(&self) {
        self.0.runs_started.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was turned away because there was too much to do.
    pub(crate) fn count_request_shed(&self) {
        self.0.requests_shed.fetch_add(1, Ordering::Relaxed);
    }

    /// A request, until it is answered.
    pub(crate) fn open_request(&self) -> GaugeGuard {
        self.open_gauge(|counts| &counts.open_requests)
    }

    /// A stream, until it ends.
    pub(crate) fn open_stream(&self) -> GaugeGuard {
        self.open_gauge(|counts| &counts.open_streams)
    }

    fn open_gauge(&self, which: fn(&MetricCounters) -> &AtomicI64) -> GaugeGuard {
        which(&self.0).fetch_add(1, Ordering::Relaxed);
        GaugeGuard(self.clone(), which)
    }

    /// All numbers in the text format of Prometheus.
    pub(crate) fn prometheus_text(&self, active_runs: usize) -> String {
        let mut text = String::new();
        let mut line = |name: &str, kind: &str, help: &str, value: i64| {
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}").ok();
        };
        let counter = |value: &AtomicU64| i64::try_from(value.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let gauge = |value: &AtomicI64| value.load(Ordering::Relaxed);
        line("doran_runs_started_total", "counter", "Runs started over HTTP.", counter(&self.0.runs_started));
        line(
            "doran_requests_shed_total",
            "counter",
            "Requests turned away for load.",
            counter(&self.0.requests_shed),
        );
        line("doran_requests_open", "gauge", "Requests being answered.", gauge(&self.0.open_requests));
        line("doran_streams_open", "gauge", "Event streams open.", gauge(&self.0.open_streams));
        let active = i64::try_from(active_runs).unwrap_or(i64::MAX);
        line("doran_runs_active", "gauge", "Runs this process works on.", active);
        self.push_request_lines(&mut text);
        text
    }

    fn push_request_lines(&self, text: &mut String) {
        let requests = self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let name = "doran_request_seconds";
        writeln!(text, "# HELP {name} Time to the head of the answer.\n# TYPE {name} histogram").ok();
        for ((path, status), taken) in requests {
            let labels = format!("path=\"{path}\",status=\"{status}\"");
            for (count, end) in taken.buckets.iter().zip(DURATION_BUCKETS_SECONDS) {
                writeln!(text, "{name}_bucket{{{labels},le=\"{end}\"}} {count}").ok();
            }
            writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", taken.count).ok();
            writeln!(text, "{name}_sum{{{labels}}} {}", taken.seconds).ok();
            writeln!(text, "{name}_count{{{labels}}} {}", taken.count).ok();
        }
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        (self.1)(&self.0.0).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a request by the route that answered it.
pub(crate) async fn measure_request(State(app): State<ServerApp>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let started = Instant::now();
    let response = next.run(request).await;
    app.metrics.record_request(&path, response.status().as_u16(), started.elapsed());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_status() {
        let metrics = Metrics::default();
        metrics.record_request("/api/threads/{thread}", 200, Duration::from_millis(3));
        metrics.record_request("/api/threads/{thread}", 404, Duration::from_millis(3));
        metrics.count_run_started();
        let open = metrics.open_stream();
        let text = metrics.prometheus_text(2);
        for line in [
            "doran_runs_started_total 1",
            "doran_streams_open 1",
            "doran_runs_active 2",
            "doran_request_seconds_bucket{path=\"/api/threads/{thread}\",status=\"200\",le=\"0.001\"} 0",
            "doran_request_seconds_bucket{path=\"/api/threads/{thread}\",status=\"200\",le=\"0.005\"} 1",
            "doran_request_seconds_count{path=\"/api/threads/{thread}\",status=\"404\"} 1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        drop(open);
        assert!(metrics.prometheus_text(0).contains("doran_streams_open 0"));
    }
}

//! What the standard variables of OpenTelemetry say.

use std::fmt;
use std::time::Duration;

use doran_agents::llm::TraceContext;
use percent_encoding::percent_decode_str;

/// Where traces and metrics go, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TelemetrySettings {
    pub(super) traces: Option<OtlpTarget>,
    pub(super) metrics: Option<OtlpTarget>,
    pub(super) sampler: TraceSampler,
    /// Attributes of this process, in everything that is sent.
    pub(super) resource: Vec<(String, String)>,
    /// Whether words of people, models and tools are sent too.
    pub(super) message_content: bool,
    pub(super) schedule_delay: Option<Duration>,
    pub(super) max_queue: Option<usize>,
    pub(super) max_batch: Option<usize>,
    pub(super) metric_interval: Option<Duration>,
    /// What the variables request and Doran does not do.
    pub warnings: Vec<TelemetryWarning>,
}

/// A variable that asks for something that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryWarning {
    /// The variable.
    pub variable: String,
    /// Its value, where that is no secret.
    pub value: String,
    /// What it may be.
    pub accepted: String,
}

/// Where one signal goes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct OtlpTarget {
    pub(super) url: String,
    pub(super) encoding: OtlpEncoding,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout: Duration,
    pub(super) gzip: bool,
}

/// Headers hold keys: they are not shown.
impl fmt::Debug for OtlpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OtlpTarget({:?}, {} headers)", self.encoding, self.headers.len())
    }
}

/// How a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtlpEncoding {
    Protobuf,
    Json,
}

/// Which traces are recorded. The choice is made when a run starts, and stored with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TraceSampler {
    /// So many of all, decided by the id of the trace.
    Ratio(f64),
    /// As the client decided; this share of those that begin here.
    ParentOrRatio(f64),
}

impl Default for TraceSampler {
    fn default() -> Self {
        Self::ParentOrRatio(1.0)
    }
}

impl TraceSampler {
    /// Whether to record a trace, which may have begun elsewhere.
    pub(super) fn samples(self, trace_id: [u8; 16], parent: Option<&TraceContext>) -> bool {
        match (self, parent) {
            (Self::ParentOrRatio(_), Some(parent)) => parent.sampled,
            (Self::Ratio(ratio) | Self::ParentOrRatio(ratio), _) => {
                let mut low = [0; 8];
                low.copy_from_slice(&trace_id[8..]);
                // As the standard has it: the last 63 bits, compared with the part of their range.
                let place = (u64::from_be_bytes(low) >> 1) as f64;
                ratio >= 1.0 || place < ratio * (1u64 << 63) as f64
            }
        }
    }
}

/// A signal, as variables name it.
#[derive(Clone, Copy)]
struct Signal {
    word: &'static str,
    path: &'static str,
}

const TRACES: Signal = Signal { word: "TRACES", path: "/v1/traces" };
const METRICS: Signal = Signal { word: "METRICS", path: "/v1/metrics" };

/// Where a collector on this machine listens.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
const DEFAULT_TIMEOUT_MS: u64 = 10_000;
const SAMPLERS: &str = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio";

/// Variables of the standard that would change what is sent where, and are not read.
const UNSUPPORTED: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
];

/// Reads variables, and gathers what is wrong with them.
struct VariableReader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<TelemetryWarning>,
}

impl TelemetrySettings {
    /// Reads the variables. Without an address, and without an exporter that is requested by name, nothing is sent.
    pub fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut variables = VariableReader { get, warnings: Vec::new() };
        if variables.flag("OTEL_SDK_DISABLED") {
            return Self::default();
        }
        let traces = variables.target(TRACES);
        let metrics = variables.target(METRICS);
        if let Some(value) = variables.value("OTEL_LOGS_EXPORTER").filter(|value| value != "none") {
            variables.warn("OTEL_LOGS_EXPORTER", value, "none");
        }
        if traces.is_some() || metrics.is_some() {
            for name in UNSUPPORTED {
                if let Some(value) = variables.value(name) {
                    variables.warn(name, value, "");
                }
            }
        }
        Self {
            sampler: variables.sampler(),
            resource: variables.resource(),
            message_content: variables.flag("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
            schedule_delay: variables.number("OTEL_BSP_SCHEDULE_DELAY").map(Duration::from_millis),
            max_queue: variables.size("OTEL_BSP_MAX_QUEUE_SIZE"),
            max_batch: variables.size("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
            metric_interval: variables.number("OTEL_METRIC_EXPORT_INTERVAL").map(Duration::from_millis),
            traces,
            metrics,
            warnings: variables.warnings,
        }
    }

    /// Whether anything is sent.
    pub fn is_enabled(&self) -> bool {
        self.traces.is_some() || self.metrics.is_some()
    }
}

impl VariableReader<'_> {
    fn value(&self, name: &str) -> Option<String> {
        (self.get)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn warn(&mut self, variable: &str, value: impl Into<String>, accepted: impl Into<String>) {
        let warning = TelemetryWarning {
            variable: variable.to_owned(),
            value: value.into(),
            accepted: accepted.into(),
        };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// The value for one signal, or else for all of them, with the name of the variable.
    fn for_signal(&self, signal: Signal, rest: &str) -> Option<(String, String)> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{rest}", signal.word);
        let all = format!("OTEL_EXPORTER_OTLP_{rest}");
        [own, all].into_iter().find_map(|name| self.value(&name).map(|value| (name, value)))
    }

    fn flag(&mut self, name: &str) -> bool {
        match self.value(name).map(|value| value.to_ascii_lowercase()).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                self.warn(name, other, "true, false");
                false
            }
        }
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        let value = self.value(name)?;
        let read = value.parse().ok().filter(|number| *number > 0);
        if read.is_none() {
            self.warn(name, value, "1…");
        }
        read
    }

    fn size(&mut self, name: &str) -> Option<usize> {
        self.number(name).map(|number| usize::try_from(number).unwrap_or(usize::MAX).min(1 << 20))
    }

    fn target(&mut self, signal: Signal) -> Option<OtlpTarget> {
        let exporter = format!("OTEL_{}_EXPORTER", signal.word);
        let is_requested = match self.value(&exporter).as_deref() {
            None => false,
            Some("otlp") => true,
            Some("none") => return None,
            Some(other) => {
                self.warn(&exporter, other, "otlp, none");
                return None;
            }
        };
        let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.word);
        let (name, url) = match (self.value(&own), self.value("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(url), _) => (own.as_str(), url),
            (None, Some(base)) => {
                ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}{}", base.trim_end_matches('/'), signal.path))
            }
            (None, None) if is_requested => ("", format!("{DEFAULT_ENDPOINT}{}", signal.path)),
            (None, None) => return None,
        };
        let is_web = reqwest::Url::parse(&url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !is_web {
            // An address may hold a password.
            self.warn(name, "…", "http://HOST:4318, https://HOST");
            return None;
        }
        let encoding = match self.for_signal(signal, "PROTOCOL") {
            None => OtlpEncoding::Protobuf,
            Some((_, value)) if value == "http/protobuf" => OtlpEncoding::Protobuf,
            Some((_, value)) if value == "http/json" => OtlpEncoding::Json,
            Some((name, value)) => {
                self.warn(&name, value, "http/protobuf, http/json");
                return None;
            }
        };
        let gzip = match self.for_signal(signal, "COMPRESSION") {
            None => false,
            Some((_, value)) if value == "none" => false,
            Some((_, value)) if value == "gzip" => true,
            Some((name, value)) => {
                self.warn(&name, value, "gzip, none");
                false
            }
        };
        let headers = match self.for_signal(signal, "HEADERS") {
            None => Vec::new(),
            Some((name, value)) => match read_pairs(&value) {
                Some(headers) => headers,
                None => {
                    self.warn(&name, "…", "NAME=VALUE,NAME=VALUE");
                    Vec::new()
                }
            },
        };
        let timeout = match self.for_signal(signal, "TIMEOUT") {
            None => DEFAULT_TIMEOUT_MS,
            Some((name, _)) => self.number(&name).unwrap_or(DEFAULT_TIMEOUT_MS),
        };
        Some(OtlpTarget { url, encoding, headers, timeout: Duration::from_millis(timeout), gzip })
    }

    fn sampler(&mut self) -> TraceSampler {
        let name = self.value("OTEL_TRACES_SAMPLER").unwrap_or_else(|| "parentbased_always_on".to_owned());
        let ratio = match self.value("OTEL_TRACES_SAMPLER_ARG") {
            Some(text) if name.ends_with("traceidratio") => {
                text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio)).unwrap_or_else(|| {
                    self.warn("OTEL_TRACES_SAMPLER_ARG", text, "0.0…1.0");
                    1.0
                })
            }
            Some(_) | None => 1.0,
        };
        match name.as_str() {
            "always_on" => TraceSampler::Ratio(1.0),
            "always_off" => TraceSampler::Ratio(0.0),
            "traceidratio" => TraceSampler::Ratio(ratio),
            "parentbased_always_on" => TraceSampler::ParentOrRatio(1.0),
            "parentbased_always_off" => TraceSampler::ParentOrRatio(0.0),
            "parentbased_traceidratio" => TraceSampler::ParentOrRatio(ratio),
            _ => {
                self.warn("OTEL_TRACES_SAMPLER", name, SAMPLERS);
                TraceSampler::default()
            }
        }
    }

    fn resource(&mut self) -> Vec<(String, String)> {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut resource = vec![
            own("service.name", "doran"),
            own("service.version", env!("CARGO_PKG_VERSION")),
            own("telemetry.sdk.name", "doran"),
            own("telemetry.sdk.language", "rust"),
        ];
        let mut given = Vec::new();
        if let Some(value) = self.value("OTEL_RESOURCE_ATTRIBUTES") {
            match read_pairs(&value) {
                Some(pairs) => given = pairs,
                None => self.warn("OTEL_RESOURCE_ATTRIBUTES", value, "NAME=VALUE,NAME=VALUE"),
            }
        }
        given.extend(self.value("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
        for (name, value) in given {
            resource.retain(|(known, _)| *known != name);
            resource.push((name, value));
        }
        resource
    }
}

/// Reads `a=1,b=2`, where values may be percent-encoded.
fn read_pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> TelemetrySettings {
        let get =
            |name: &str| variables.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned());
        TelemetrySettings::from_variables(&get)
    }

    fn urls(settings: &TelemetrySettings) -> (Option<&str>, Option<&str>) {
        let url = |target: &'_ Option<OtlpTarget>| target.as_ref().map(|target| target.url.clone());
        let leak = |url: Option<String>| url.map(|url| &*url.leak());
        (leak(url(&settings.traces)), leak(url(&settings.metrics)))
    }

    #[test]
    fn nothing_is_sent_unless_a_variable_says_where() {
        assert!(!read(&[]).is_enabled());
        assert!(!read(&[("OTEL_SERVICE_NAME", "chat")]).is_enabled());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        assert_eq!(
            urls(&read(&[endpoint])),
            (Some("http://collector:4318/v1/traces"), Some("http://collector:4318/v1/metrics"))
        );
        assert!(!read(&[endpoint, ("OTEL_SDK_DISABLED", "true")]).is_enabled());
        assert_eq!(urls(&read(&[endpoint, ("OTEL_METRICS_EXPORTER", "none")])).1, None);
        let own = read(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a.example/in")]);
        assert_eq!(urls(&own), (Some("https://a.example/in"), None), "as it is, and only traces");
        let named = read(&[("OTEL_TRACES_EXPORTER", "otlp")]);
        assert_eq!(urls(&named), (Some("http://localhost:4318/v1/traces"), None));
    }

    #[test]
    fn what_is_not_supported_is_reported_without_secrets() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        let check = |variable: &str, value: &str, expected: &str, on: bool| {
            let settings = read(&[endpoint, (variable, value)]);
            let warnings: Vec<_> =
                settings.warnings.iter().map(|one| (one.variable.as_str(), one.value.as_str())).collect();
            assert_eq!(warnings, [(variable, expected)]);
            assert_eq!(settings.traces.is_some(), on, "{variable}");
        };
        check("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "grpc", false);
        check("OTEL_TRACES_EXPORTER", "jaeger", "jaeger", false);
        check("OTEL_TRACES_SAMPLER", "jaeger_remote", "jaeger_remote", true);
        check("OTEL_EXPORTER_OTLP_HEADERS", "s3cret", "…", true);
        check("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "soon", true);
        check("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem", "/ca.pem", true);
        check("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "me:s3cret@host", "…", false);
        let settings = read(&[endpoint, ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret%21,b=2")]);
        let headers = &settings.traces.as_ref().expect("traces").headers;
        assert_eq!(headers[0], ("api-key".to_owned(), "s3cret!".to_owned()));
        assert!(!format!("{settings:?}").contains("s3cret"));
    }

    #[test]
    fn the_service_is_named_as_variables_say() {
        let settings = read(&[
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,deployment.environment.name=%EC%8B%9C%ED%97%98"),
            ("OTEL_SERVICE_NAME", "b"),
        ]);
        let value = |name: &str| {
            let found: Vec<_> = settings.resource.iter().filter(|(one, _)| one == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].1.clone()
        };
        assert_eq!(value("service.name"), "b");
        assert_eq!(value("deployment.environment.name"), "시험");
    }

    #[test]
    fn every_process_decides_alike_about_a_trace() {
        let (low, high) = ([0; 16], [0xff; 16]);
        let half = TraceSampler::Ratio(0.5);
        assert!(half.samples(low, None) && !half.samples(high, None));
        assert!(TraceSampler::Ratio(1.0).samples(high, None));
        assert!(!TraceSampler::Ratio(0.0).samples(low, None));
        let parent = |sampled| TraceContext { trace_id: low, span_id: [1; 8], sampled };
        assert!(!TraceSampler::default().samples(low, Some(&parent(false))));
        assert!(TraceSampler::ParentOrRatio(0.0).samples(low, Some(&parent(true))));
        assert!(!TraceSampler::Ratio(0.0).samples(low, Some(&parent(true))), "whatever the parent says");
    }
}

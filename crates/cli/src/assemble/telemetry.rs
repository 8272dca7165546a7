//! Traces and metrics, as the variables of OpenTelemetry ask for them.

use std::time::Duration;

use doran_engine::Runtime;
use doran_server::{Telemetry, TelemetrySettings, TelemetryWarning};

use crate::output::{BilingualMessage, bilingual};

/// How long the last traces and metrics may take to be sent when the program ends.
pub(crate) const TELEMETRY_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(800);

/// Begins to measure the runs of a runtime that has `telemetry` as observer. Says what is not done.
pub(super) fn start_telemetry(
    telemetry: &Telemetry,
    runtime: &Runtime,
    settings: &TelemetrySettings,
) -> Vec<BilingualMessage> {
    let mut notes: Vec<BilingualMessage> = settings.warnings.iter().map(warning_message).collect();
    if let Err(reason) = telemetry.start(runtime) {
        notes.push(bilingual!(
            "OpenTelemetry로 보낼 수 없습니다: {reason}",
            "telemetry cannot be sent with OpenTelemetry: {reason}"
        ));
    }
    notes
}

fn warning_message(warning: &TelemetryWarning) -> BilingualMessage {
    let TelemetryWarning { variable, value, accepted } = warning;
    if accepted.is_empty() {
        return bilingual!(
            "환경 변수 `{variable}`은(는) 지원하지 않아 읽지 않습니다",
            "the variable `{variable}` is not supported and not used"
        );
    }
    bilingual!(
        "환경 변수 `{variable}`의 값 `{value}`은(는) 지원하지 않아 쓰지 않습니다. 쓸 수 있는 값: {accepted}",
        "the value `{value}` of the variable `{variable}` is not supported and not used; it may be: {accepted}"
    )
}

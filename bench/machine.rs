//! Describes the machine and the time of a benchmark, for the head of its table.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time, the machine, its load, and the other programs that are measured.
pub(crate) fn about(besides: &[String]) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let doran = format!("doran {}", env!("CARGO_PKG_VERSION"));
    let measured: Vec<&str> =
        std::iter::once(doran.as_str()).chain(besides.iter().map(String::as_str)).collect();
    format!(
        "{} · {cores} cores, {}, {}, load {} · {}",
        now(),
        cpu_model(),
        std::env::consts::OS,
        load(),
        measured.join(", ")
    )
}

fn cpu_model() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.to_owned())
}

/// The load of the machine before the benchmark.
fn load() -> String {
    let known = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    known.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
}

/// The current date and time in UTC.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut days, mut year) = (seconds / 86_400, 1970);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_of = |year| if is_leap(year) { 366 } else { 365 };
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02} UTC", days + 1)
}

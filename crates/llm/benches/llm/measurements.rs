//! Clocks, and what a stretch of waiting comes to.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use crate::times::{at, median};

/// What one client took for one case.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct ClientFigures {
    /// How many calls or pieces there were.
    pub(crate) units: usize,
    /// The middle wait, and the one that 99 of 100 stay below, in microseconds.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time of the whole process for one of them, in microseconds.
    pub(crate) cpu_us: f64,
}

impl ClientFigures {
    pub(crate) fn from_waits(cpu: Duration, waits: &[Duration], units: usize) -> Self {
        let waits: Vec<f64> = waits.iter().copied().map(micros).collect();
        Self {
            units,
            p50_us: at(&waits, 0.5),
            p99_us: at(&waits, 0.99),
            cpu_us: micros(cpu) / units.max(1) as f64,
        }
    }

    /// The middle of several rounds, each figure by itself.
    pub(crate) fn median_of_rounds(rounds: &[Self]) -> Option<Self> {
        let of = |part: fn(&Self) -> f64| median(rounds.iter().map(part).collect());
        Some(Self {
            units: rounds.first()?.units,
            p50_us: of(|round| round.p50_us)?,
            p99_us: of(|round| round.p99_us)?,
            cpu_us: of(|round| round.cpu_us)?,
        })
    }
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The moment, on the clock that all processes share.
pub(crate) fn monotonic_now() -> Duration {
    clock(ClockId::Monotonic)
}

/// Processor time of this process, all threads together.
pub(crate) fn process_cpu_time() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let now = clock_gettime(id);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

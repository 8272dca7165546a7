//! Clocks and stretches of measuring.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::times::median;

/// Processor time of this process, all threads together.
pub(crate) fn process_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), nanos)
}

/// A stretch of measuring, as microseconds for one unit of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineBenchSlice {
    pub wall: f64,
    pub best: f64,
    pub cpu: f64,
}

/// Slices of one side, taken in turns with those of the other.
#[derive(Debug, Default)]
pub(crate) struct EngineBenchSlices(Vec<EngineBenchSlice>);

impl EngineBenchSlices {
    pub(crate) fn push(&mut self, slice: EngineBenchSlice) {
        self.0.push(slice);
    }

    /// Median wall and processor time of the slices, and the best of all. `None` when nothing was measured.
    pub(crate) fn median_slice(&self) -> Option<EngineBenchSlice> {
        let of = |part: fn(&EngineBenchSlice) -> f64| self.0.iter().map(part).collect::<Vec<f64>>();
        Some(EngineBenchSlice {
            wall: median(of(|slice| slice.wall))?,
            best: of(|slice| slice.best).into_iter().reduce(f64::min)?,
            cpu: median(of(|slice| slice.cpu))?,
        })
    }
}

/// The wall times of runs that did `units` of work each, and the processor time they took together.
#[derive(Debug)]
pub(crate) struct EngineBenchRuns {
    units: f64,
    walls: Vec<Duration>,
    begun: Instant,
    cpu_before: Duration,
}

impl EngineBenchRuns {
    pub(crate) fn begin(units: usize) -> Self {
        Self { units: units as f64, walls: Vec::new(), begun: Instant::now(), cpu_before: process_cpu_time() }
    }

    pub(crate) fn push(&mut self, wall: Duration) {
        self.walls.push(wall);
    }

    /// Whether it was measured for this long, and at least three times.
    pub(crate) fn measured_long_enough(&self, time: Duration) -> bool {
        self.walls.len() >= 3 && self.begun.elapsed() >= time
    }

    /// What was measured up to now.
    pub(crate) fn to_slice(&self) -> EngineBenchSlice {
        let per_unit = |seconds: f64| seconds * 1e6 / self.units;
        let walls: Vec<f64> = self.walls.iter().map(Duration::as_secs_f64).collect();
        let best = walls.iter().copied().fold(f64::INFINITY, f64::min);
        let cpu = (process_cpu_time() - self.cpu_before).as_secs_f64() / walls.len().max(1) as f64;
        EngineBenchSlice {
            wall: per_unit(median(walls).unwrap_or_default()),
            best: per_unit(best),
            cpu: per_unit(cpu),
        }
    }
}

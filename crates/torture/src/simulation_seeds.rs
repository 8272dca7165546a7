//! Histories of trouble in the simulator of the engine's tests: many seeds, begun from the clock, in memory and in
//! paused time. A seed that breaks something does so again whenever it is played.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::TortureOptions;
use crate::ledger::Violation;
use crate::report::TortureReport;
use crate::simulator::{self, SimulationCounts, SimulationFailureKind};

/// Seeds that are reported before it gives up.
const MAX_REPORTED_SEEDS: usize = 5;

/// Runs the torture. `--kills` says how many seeds.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let started = Instant::now();
    let seeds = options.kills.unwrap_or(if options.quick { 1_000 } else { 10_000 });
    let (next, found) = (AtomicU64::new(0), Mutex::new((SimulationCounts::default(), Vec::new())));
    let work = || loop {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if nth >= seeds {
            return;
        }
        let seed = options.seed.wrapping_add(nth);
        let played = catch_unwind(AssertUnwindSafe(|| simulator::run_seed(seed)));
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        match played {
            Ok(Ok(tally)) => found.0.add(&tally),
            Ok(Err(problem)) => found.1.push((seed, violation_from_failure(problem.kind), problem.text)),
            Err(_) => found.1.push((seed, Violation::Damaged, "it panicked".to_owned())),
        }
        if found.1.len() >= MAX_REPORTED_SEEDS {
            next.store(seeds, Ordering::Relaxed);
        }
        if nth > 0 && nth.is_multiple_of(1_000) {
            eprintln!("sim       {nth} of {seeds}");
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let (tally, problems) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut figures = TortureReport::new("sim", options.seed);
    if let Err(problem) = simulator::check_fixed_histories() {
        figures.record_violation(violation_from_failure(problem.kind), problem.text);
    }
    for (name, number) in [
        ("seeds", seeds),
        ("kills", u64::from(tally.crashes)),
        ("runs", u64::from(tally.runs)),
        ("answers_lost", u64::from(tally.lost)),
        ("refusals", u64::from(tally.refused)),
        ("late", u64::from(tally.late)),
        ("takeovers", u64::from(tally.takeovers)),
        ("unknown_calls", u64::from(tally.unknown)),
        ("cancelled", u64::from(tally.cancelled)),
        ("cleared_entries", u64::from(tally.cleared)),
        ("misfits", u64::from(tally.misfits)),
        ("frozen", u64::from(tally.frozen)),
        ("clock_jumps", u64::from(tally.clock_jumps)),
        ("disconnected", u64::from(tally.disconnected)),
        ("wrong_answers", u64::from(tally.wrong_answers)),
    ] {
        figures.add_number(name, number);
    }
    for (seed, broken, text) in problems {
        figures.record_violation(broken, format!("seed {seed} (alone: --seed {seed} --kills 1): {text}"));
    }
    figures.add_number("seconds", started.elapsed().as_secs());
    Ok(figures)
}

/// Runs the torture in a process of its own, in which a seeded bug can be switched on.
pub fn run_in_child(options: &TortureOptions) -> Result<TortureReport, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let seed = options.seed.to_string();
    let child = std::process::Command::new(program)
        .args(["sim", "--quick", "--seed", &seed])
        .envs(options.mutant_env())
        .output()
        .map_err(|error| error.to_string())?;
    let mut figures = TortureReport::new("sim", options.seed);
    if !child.status.success() {
        let lines = String::from_utf8_lossy(&child.stderr);
        let first =
            lines.lines().find(|line| line.contains("seed ") && line.contains(':')).unwrap_or("it failed");
        figures.record_violation(Violation::Lost, first.trim().to_owned());
    }
    Ok(figures)
}

fn violation_from_failure(kind: SimulationFailureKind) -> Violation {
    match kind {
        SimulationFailureKind::Lost => Violation::Lost,
        SimulationFailureKind::Doubled => Violation::Doubled,
        SimulationFailureKind::Stuck => Violation::Stuck,
        SimulationFailureKind::Torn => Violation::Torn,
        SimulationFailureKind::Ends => Violation::Ends,
    }
}

//! Seeded bugs: each is switched on in the victims, and the torture that is there to notice it must do so within its
//! normal time.

use std::time::Instant;

use crate::ledger::Violation;
use crate::report::TortureReport;
use crate::{TortureFunction, TortureOptions, io_faults, kill_loop, replicas};

/// A bug, what it is, and who has to catch it.
const SEEDED_BUGS: [(&str, &str, TortureFunction); 9] = [
    ("M1", "acknowledged before the commit", kill_loop::run),
    ("M2", "an event shown before the commit", kill_loop::run),
    ("M3", "records and step in two transactions", kill_loop::run),
    ("M4", "no check of the epoch at the commit", replicas::run_sleeping_replicas),
    ("M5", "idempotency key after the run, in its own transaction", kill_loop::run),
    ("M6", "event numbers from milliseconds", kill_loop::run),
    ("M12", "a call that must not be repeated is repeated", kill_loop::run),
    ("M13", "an answer that is not consumed", kill_loop::run),
    ("M14", "an error of fsync swallowed", io_faults::run),
];

/// Runs the torture.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let begun = Instant::now();
    let mut figures = TortureReport::new("mutants", options.seed);
    for (name, what, torture) in SEEDED_BUGS {
        let began = Instant::now();
        let with = TortureOptions { mutant: Some(name), quick: true, kills: None, ..options.clone() };
        let found = torture(&with)?;
        let seconds = began.elapsed().as_secs_f32();
        figures.add_number("kills", found.number("kills"));
        if found.is_skipped() {
            figures.add_number("skipped_mutants", 1_u64);
            figures.add_note(format!("{name:<4} SKIPPED  {what}"));
        } else if found.has_no_violations() {
            figures.add_note(format!("{name:<4} MISSED   {what} ({seconds:.1} s)"));
            figures.record_violation(Violation::Lost, format!("{name} was not noticed"));
        } else {
            figures.add_number("caught", 1_u64);
            let first: String = found.first_violation().unwrap_or_default().chars().take(110).collect();
            figures.add_note(format!("{name:<4} caught   {what} ({seconds:.1} s): {first}"));
        }
    }
    figures.add_number("mutants", SEEDED_BUGS.len());
    figures.add_number("seconds", begun.elapsed().as_secs());
    Ok(figures)
}

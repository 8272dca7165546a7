//! Seeded bugs: each is switched on in the victims, and the torture that is there to notice it must do so within its
//! normal time.

use std::time::Instant;

use crate::ledger::Violation;
use crate::report::TortureReport;
use crate::{
    TortureFunction, TortureOptions, database_restarts, io_faults, kill_loop, power_loss, replicas,
    simulation_seeds,
};

/// A bug, what it is, and who has to catch it.
const SEEDED_BUGS: [(&str, &str, TortureFunction); 21] = [
    ("reply_before_commit", "acknowledged before the commit", kill_loop::run),
    ("event_before_commit", "an event shown before the commit", kill_loop::run),
    ("records_cleared_in_own_transaction", "records and step in two transactions", kill_loop::run),
    ("ignore_fence", "no check of the epoch at the commit", replicas::run_sleeping_replicas),
    ("give_up_in_outage", "a run given up as soon as its store is away", database_restarts::run),
    ("idempotency_key_after_run", "idempotency key after the run, in its own transaction", kill_loop::run),
    ("event_number_from_clock", "event numbers from milliseconds", kill_loop::run),
    ("repeat_at_most_once_effect", "a call that must not be repeated is repeated", kill_loop::run),
    ("answer_not_consumed", "an answer that is not consumed", kill_loop::run),
    ("swallow_fsync_error", "an error of fsync swallowed", io_faults::run),
    ("no_fsync", "nothing is synced", power_loss::run_database),
    ("sync_at_checkpoint_only", "commits are not synced, checkpoints are", power_loss::run_database),
    ("budget_reset_by_claim", "a pause or crash resets what was spent", simulation_seeds::run_in_child),
    ("accept_before_sync", "a run acknowledged before it is on disk", power_loss::run_database),
    ("end_before_sync", "the end of a run told before it is on disk", power_loss::run_database),
    ("ask_before_sync", "a question asked before it is on disk", power_loss::run_database),
    ("call_before_sync", "a call made before what led to it is on disk", power_loss::run_database),
    ("show_before_sync", "a watcher shown an entry before it is on disk", power_loss::run_database),
    ("read_before_sync", "a reader that does not wait for the disk", power_loss::run_database),
    (
        "library_files_not_synced",
        "files of the library, the index and the facts not synced",
        power_loss::run_library,
    ),
    (
        "library_folders_not_synced",
        "folders of the library and the index not synced",
        power_loss::run_library,
    ),
];

/// Runs the torture.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let started = Instant::now();
    let mut figures = TortureReport::new("mutants", options.seed);
    for (name, what, torture) in SEEDED_BUGS {
        let began = Instant::now();
        let with = TortureOptions { mutant: Some(name), quick: true, kills: None, ..options.clone() };
        let found = torture(&with)?;
        let seconds = began.elapsed().as_secs_f32();
        figures.add_number("kills", found.number("kills"));
        if found.is_skipped() {
            figures.add_number("skipped_mutants", 1_u64);
            figures.add_note(format!("{name:<34} SKIPPED  {what}"));
        } else if found.has_no_violations() {
            figures.add_note(format!("{name:<34} MISSED   {what} ({seconds:.1} s)"));
            figures.record_violation(Violation::Lost, format!("{name} was not noticed"));
        } else {
            figures.add_number("caught", 1_u64);
            let first: String = found.first_violation().unwrap_or_default().chars().take(110).collect();
            figures.add_note(format!("{name:<34} caught   {what} ({seconds:.1} s): {first}"));
        }
    }
    figures.add_number("mutants", SEEDED_BUGS.len());
    figures.add_number("seconds", started.elapsed().as_secs());
    Ok(figures)
}

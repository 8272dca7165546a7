//! Everything CI runs, in order. A task that fails does not stop the following ones.

use std::process::ExitCode;
use std::time::Instant;

use crate::{XtaskResult, browser, check, deny, test, tidy, torture, ui};

/// Runs every task and ends with one line: `N passed, N failed, N skipped (M.M min)`.
///
/// The numbers count tests. A failed task counts as one failed test, so `0 failed` is printed only if everything
/// passed.
pub fn run() -> ExitCode {
    let began = Instant::now();
    let mut failed = Vec::new();
    note_failure("check", check::run(), &mut failed);
    note_failure("tidy", tidy::run(), &mut failed);
    note_failure("deny", deny::run(), &mut failed);
    let test::TestRun { mut tally, outcome } = test::run_and_count(&[]);
    note_test_failure("test", &mut tally, outcome, &mut failed);
    note_failure("ui", ui::check(), &mut failed);
    // This runs after the check of the page, which also installs the browser driver.
    let test::TestRun { tally: mut seen, outcome } = browser::check();
    note_test_failure("browser", &mut seen, outcome, &mut failed);
    tally.add(&seen);
    note_failure("torture", torture::run(), &mut failed);

    for (name, why) in &failed {
        eprintln!("{name}: FAILED: {why}");
        tally.failed += 1;
    }
    println!("{}", tally.closing_line(began.elapsed()));
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The tests that failed are named again at the end. Without one, the error means that a test did not build or crashed.
fn note_test_failure(
    name: &'static str,
    tally: &mut test::TestTally,
    outcome: XtaskResult,
    failed: &mut Vec<(&'static str, String)>,
) {
    if outcome.is_err() {
        tally.failed = tally.failed.saturating_sub(1);
    }
    note_failure(name, outcome, failed);
}

fn note_failure(name: &'static str, outcome: XtaskResult, failed: &mut Vec<(&'static str, String)>) {
    if let Err(why) = outcome {
        failed.push((name, why));
    }
}

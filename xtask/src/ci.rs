//! All that CI runs, in order. A chore that fails does not hide what the next ones would say.

use std::process::ExitCode;
use std::time::Instant;

use crate::{XtaskResult, browser, check, deny, test, tidy, torture, ui};

/// Runs every chore and ends with one line: `N passed, N failed, N skipped (M.M min)`.
///
/// The numbers are those of the tests. A chore that fails counts as one failed, so that a line with `0 failed` is only
/// printed when everything held.
pub fn run() -> ExitCode {
    let began = Instant::now();
    let mut failed = Vec::new();
    note_failure("check", check::run(), &mut failed);
    note_failure("tidy", tidy::run(), &mut failed);
    note_failure("deny", deny::run(), &mut failed);
    let test::TestRun { mut tally, outcome } = test::run_and_count(&[]);
    if tally.failed == 0 {
        // Without a failed test this means that one did not build or died.
        note_failure("test", outcome, &mut failed);
    }
    note_failure("ui", ui::check(), &mut failed);
    // After the page was checked: that also fetches what drives the browser.
    let seen = browser::check();
    tally.add(&seen.tally);
    if seen.tally.failed == 0 {
        note_failure("browser", seen.outcome, &mut failed);
    }
    note_failure("torture", torture::run(), &mut failed);

    for (name, why) in &failed {
        eprintln!("{name}: FAILED: {why}");
        tally.failed += 1;
    }
    println!("{}", tally.closing_line(began.elapsed()));
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn note_failure(name: &'static str, outcome: XtaskResult, failed: &mut Vec<(&'static str, String)>) {
    if let Err(why) = outcome {
        failed.push((name, why));
    }
}

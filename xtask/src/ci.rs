//! All that CI runs, in order. A chore that fails does not hide what the next ones would say.

use std::time::Instant;

use crate::deny::Deny;
use crate::test::Tally;
use crate::{Outcome, check, deny, test, tidy, torture};

/// Runs every chore and ends with one line: `N passed, N failed, N skipped (M.M min)`.
///
/// A failed chore counts as one failed and a skipped chore as one skipped, so a line with `0 failed, 0 skipped` says
/// that all of it was done and held.
pub fn run() -> Outcome {
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    note("check", check::run(), &mut failed);
    note("tidy", tidy::run(), &mut failed);
    match deny::run() {
        Ok(Deny::Checked) => {}
        Ok(Deny::Missing) => tally.skipped += 1,
        Err(why) => note("deny", Err(why), &mut failed),
    }
    let tested = test::tally(&[]);
    tally.add(&tested.tally);
    if tested.tally.failed == 0 {
        note("test", tested.outcome, &mut failed);
    }
    note("torture", torture::run(), &mut failed);

    tally.failed += u64::try_from(failed.len()).unwrap_or(u64::MAX);
    for name in failed {
        eprintln!("{name}: FAILED");
    }
    println!("{}", tally.closing_line(began.elapsed()));
    if tally.failed == 0 { Ok(()) } else { Err("ci: failed".to_string()) }
}

fn note(name: &'static str, outcome: Outcome, failed: &mut Vec<&'static str>) {
    if let Err(why) = outcome {
        eprintln!("{name}: {why}");
        failed.push(name);
    }
}

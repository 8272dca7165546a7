//! Format and lints. A warning is an error here.

use crate::Outcome;
use crate::command::run_cargo;

/// Checks both, whatever the first says, so that one run tells all.
pub fn run() -> Outcome {
    let format = run_cargo(&["fmt", "--all", "--check"]);
    // A feature that costs nothing to build is looked at too.
    let features = ["--features", "doran/sentence-transformer"];
    let lints = ["clippy", "--workspace", "--all-targets", "--locked"].into_iter().chain(features);
    let lints: Vec<&str> = lints.chain(["--", "-D", "warnings"]).collect();
    let lints = run_cargo(&lints);
    format.and(lints)
}

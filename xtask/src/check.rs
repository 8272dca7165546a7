//! Format and lints. A warning is an error here.

use crate::Outcome;
use crate::command::run_cargo;

/// Checks both, whatever the first says, so that one run tells all.
pub fn run() -> Outcome {
    let format = run_cargo(&["fmt", "--all", "--check"]);
    let lints = run_cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    format.and(lints)
}

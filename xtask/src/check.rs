//! Format and lints. A warning is an error here.

use crate::Outcome;
use crate::command::run_cargo;

/// Checks the format first, because it takes a second.
pub fn run() -> Outcome {
    run_cargo(&["fmt", "--all", "--check"])?;
    run_cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

//! Formatting and lints. Warnings are errors here.

use crate::XtaskResult;
use crate::command::run_cargo;
use crate::test::SHIPPED_FEATURES;

/// Runs both checks even if the first fails, so that one run shows all findings.
pub fn run() -> XtaskResult {
    let format = run_cargo(&["fmt", "--all", "--check"]);
    // This feature adds no build time, so it is checked too.
    let features = format!("{SHIPPED_FEATURES},doran/sentence-transformer");
    let all = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--features",
        &features,
        "--",
        "-D",
        "warnings",
    ];
    let lints = run_cargo(&all);
    format.and(lints)
}

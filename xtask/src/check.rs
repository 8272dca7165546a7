//! Format and lints. A warning is an error here.

use crate::XtaskResult;
use crate::command::run_cargo;
use crate::test::SHIPPED_FEATURES;

/// Checks both, whatever the first says, so that one run tells all.
pub fn run() -> XtaskResult {
    let format = run_cargo(&["fmt", "--all", "--check"]);
    // A feature that costs nothing to build is looked at too.
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

//! The short version of the torture tests, for every change. The long ones are run with `./x torture NAME`.

use crate::XtaskResult;
use crate::command::run_cargo;

/// Runs every torture test in its short version.
pub fn run() -> XtaskResult {
    run_cargo(&[
        "run",
        "--quiet",
        "--locked",
        "--package",
        "doran-torture",
        "--features",
        "failpoints",
        "--",
        "all",
        "--quick",
    ])
}

//! The short version of the tortures, for every change. The long ones are `./x torture NAME`.

use crate::XtaskResult;
use crate::command::run_cargo;

/// Every torture, kept short.
pub fn run() -> XtaskResult {
    run_cargo(&[
        "run",
        "--quiet",
        "--locked",
        "--package",
        "doran-store",
        "--example",
        "torture",
        "--features",
        "failpoints",
        "--",
        "all",
        "--quick",
    ])
}

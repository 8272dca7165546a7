//! The short version of the torture tests, for every change. The long ones are run with `./x torture NAME`.

use std::process::Command;

use crate::XtaskResult;
use crate::command::{root, run_cargo, target_directory};
use crate::test::SHIPPED_FEATURES;

/// Runs every torture test in its short version. The program is built with the features of the tests: a different set
/// would compile its dependencies again.
pub fn run() -> XtaskResult {
    let features = format!("{SHIPPED_FEATURES},doran-torture/failpoints");
    run_cargo(&["build", "--quiet", "--locked", "--workspace", "--bin", "torture", "--features", &features])?;
    let program = target_directory().join("debug").join("torture");
    eprintln!("$ {} all --quick", program.display());
    let status = Command::new(program).current_dir(root()).args(["all", "--quick"]).status();
    let status = status.map_err(|why| format!("torture does not start: {why}"))?;
    if status.success() { Ok(()) } else { Err("a torture test failed".to_string()) }
}

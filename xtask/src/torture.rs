//! The short version of the torture tests, for every change. The long ones are run with `./x torture NAME`.

use std::process::Command;

use crate::XtaskResult;
use crate::command::{root, run_cargo, target_directory};
use crate::test::SHIPPED_FEATURES;
use crate::test::inputs::JobInputs;
use crate::test::jobs::{Job, JobKind};

/// Runs every torture test in its short version.
pub fn run() -> XtaskResult {
    let mut job = build()?;
    let status = job.command.status().map_err(|why| format!("torture does not start: {why}"))?;
    if status.success() { Ok(()) } else { Err("a torture test failed".to_string()) }
}

/// Builds the program and returns the job that runs it. It is built with the features of the tests, and an example is named
/// so that those count that only tests ask for: a different set would compile the dependencies again.
pub fn build() -> Result<Job, String> {
    let features = format!("{SHIPPED_FEATURES},doran-torture/failpoints");
    let targets = ["--workspace", "--bin", "torture", "--example", "draw"];
    run_cargo(&[&["build", "--quiet", "--locked"], &targets[..], &["--features", &features]].concat())?;
    let program = target_directory().join("debug").join("torture");
    let mut command = Command::new(&program);
    command.current_dir(root()).args(["all", "--quick"]);
    Ok(Job {
        name: "torture".to_owned(),
        command,
        kind: JobKind::Plain { show: true },
        inputs: Some(JobInputs { programs: vec![program], folders: Vec::new() }),
        after: None,
    })
}

//! Tests the web page in a real browser against the real program. Prints a notice if something it needs is missing.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::XtaskResult;
use crate::command::{root, run_cargo, target_directory};
use crate::test::inputs::JobInputs;
use crate::test::jobs::{Job, JobKind};
use crate::test::{TestRun, TestTally};

/// Builds the program and runs the browser tests against it.
pub fn run() -> XtaskResult {
    if missing_requirement().is_none() {
        // As the tests of the program build it: other features would compile its dependencies again.
        let program = ["--package", "doran", "--features", "doran/python", "--test", "it"];
        run_cargo(&[&["test", "--locked", "--no-run"], &program[..]].concat())?;
        let graphs = ["--package", "doran-server", "--features", "doran/python", "--example", "four_graphs"];
        run_cargo(&[&["build", "--locked", "--package", "doran"], &graphs[..]].concat())?;
    }
    match job() {
        Ok(mut job) => {
            let status = job.command.status().map_err(|why| format!("node does not start: {why}"))?;
            if status.success() { Ok(()) } else { Err("a test of the page failed".to_string()) }
        }
        Err(skipped) => skipped.outcome,
    }
}

/// The job that runs the browser tests against the program that earlier tests have built, after the check of the page, which
/// installs the browser driver. Screenshots are stored in `target/browser`. An error says what is missing.
pub fn job() -> Result<Job, TestRun> {
    if let Some(why) = missing_requirement() {
        return Err(skip(why));
    }
    let programs = target_directory().join("debug");
    let (doran, graphs) = (programs.join("doran"), programs.join("examples").join("four_graphs"));
    let mut command = Command::new("node");
    command.current_dir(ui_directory()).arg("e2e/run.mjs");
    command.arg("--doran").arg(&doran).arg("--graphs").arg(&graphs);
    command.arg("--shots").arg(target_directory().join("browser"));
    Ok(Job {
        name: "browser".to_owned(),
        command,
        kind: JobKind::Summary,
        inputs: Some(JobInputs {
            programs: vec![doran, graphs],
            folders: vec!["crates/server/ui".to_owned()],
        }),
        after: Some("ui"),
    })
}

fn skip(why: &str) -> TestRun {
    let tally = TestTally { skipped: 1, ..TestTally::default() };
    if std::env::var_os("DORAN_REQUIRE_PARTS").is_some() {
        return TestRun { tally, outcome: Err(why.to_string()) };
    }
    eprintln!("browser: SKIPPED, the page was not tried in a browser: {why}");
    eprintln!(
        "browser: 브라우저에서 페이지를 시험하지 않았습니다. Node.js와 Chromium이 필요합니다 (Debian, Ubuntu: apt-get install nodejs npm chromium)."
    );
    TestRun { tally, outcome: Ok(()) }
}

/// What is missing to run the tests, if anything.
fn missing_requirement() -> Option<&'static str> {
    let runs = |program: &str| {
        let tried =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    if !runs("node") {
        return Some("Node.js is not installed");
    }
    let named = std::env::var_os("CHROMIUM").is_some();
    if !named && !["chromium", "chromium-browser", "google-chrome"].iter().any(|name| runs(name)) {
        return Some("no Chromium was found; set CHROMIUM to its path");
    }
    None
}

fn ui_directory() -> PathBuf {
    root().join("crates").join("server").join("ui")
}

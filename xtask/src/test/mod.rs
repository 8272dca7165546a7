//! The tests, with the results of all test programs summed up in one line.
//!
//! A test that cannot run because something is missing prints a line that starts with `SKIPPED:` and returns. The
//! test program counts it as passed; this task counts it as skipped.
//!
//! Tests that failed run a second time, one after the other. A test that passes then is reported as `UNSTABLE` and counts
//! as passed: it depends on timing and must be repaired, but it does not hide the results of the others.

pub mod inputs;
pub mod jobs;
mod output;
mod passed_runs;
pub mod programs;

use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use crate::XtaskResult;
use crate::command::cargo;

pub use output::TestTally;
use output::{LineVisibility, TestOutputCounter};
use passed_runs::PassedRuns;

/// The result of a test run.
pub struct TestRun {
    /// The summed results.
    pub tally: TestTally,
    /// Whether cargo succeeded. It fails if a test program does not build, which the tally does not show.
    pub outcome: XtaskResult,
}

/// Runs the tests and prints the sum. `args` are passed to `cargo test`.
pub fn run(args: &[String]) -> ExitCode {
    let began = Instant::now();
    let TestRun { tally, outcome } = run_and_count(args);
    if let Err(why) = &outcome {
        eprintln!("test: FAILED: {why}");
    }
    println!("{}", tally.closing_line(began.elapsed()));
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the tests and sums up what they print. Failed tests run once more.
pub fn run_and_count(args: &[String]) -> TestRun {
    let (first, outcome) = run_once(&cargo_test_arguments(args));
    let mut tally = first.tally;
    let names: Vec<String> = first.failed_names.iter().cloned().collect();
    // A program that died names fewer tests than failed: there is nothing to run again.
    if outcome.is_ok() || names.is_empty() || first.programs_died {
        return TestRun { tally, outcome };
    }
    eprintln!("test: running {} failed tests again, one after the other", names.len());
    let (second, outcome) = run_once(&repeat_arguments(args, &names));
    for name in first.failed_names.difference(&second.failed_names) {
        eprintln!("UNSTABLE: {name} failed, and passed when it ran alone. It depends on timing: repair it.");
    }
    let still_failed = second.tally.failed.min(tally.failed);
    tally.passed += tally.failed - still_failed;
    tally.failed = still_failed;
    let failed_twice: Vec<&str> = second.failed_names.iter().map(String::as_str).collect();
    let outcome = outcome.map_err(|why| format!("{why}: {}", failed_twice.join(", ")));
    TestRun { tally, outcome }
}

fn run_once(cargo_arguments: &[String]) -> (TestOutputCounter, XtaskResult) {
    let mut counter = TestOutputCounter::default();
    let outcome = run_and_read_lines(cargo_arguments, |line| {
        if counter.read_line(line) == LineVisibility::Shown {
            println!("{line}");
        }
    });
    counter.programs_died |= outcome.is_err() && counter.tally.failed != counter.failed_lines;
    (counter, outcome)
}

/// The same selection of programs, and in them only the named tests.
fn repeat_arguments(args: &[String], names: &[String]) -> Vec<String> {
    let (own, theirs) = split_arguments(args);
    let options: Vec<String> =
        own.iter().filter(|arg| arg.starts_with('-') || is_option_value(own, arg)).cloned().collect();
    let mut all = cargo_test_arguments(&options);
    all.extend(theirs.iter().filter(|arg| arg.starts_with("--")).cloned());
    all.extend(["--test-threads=1", "--exact"].map(String::from));
    all.extend_from_slice(names);
    all
}

/// Whether `arg` follows an option that takes a value.
fn is_option_value(own: &[String], arg: &String) -> bool {
    let takes_value = ["-p", "--package", "--test", "--features", "--bin", "--example"];
    own.iter()
        .zip(own.iter().skip(1))
        .any(|(option, value)| value == arg && takes_value.contains(&option.as_str()))
}

/// What cargo reads, and what is passed to the test programs.
fn split_arguments(args: &[String]) -> (&[String], &[String]) {
    match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (args, &[]),
    }
}

/// What earlier runs passed, or None if everything has to run: in CI, or because `all` asks for it.
pub fn earlier_runs(all: bool) -> jobs::EarlierRuns {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if all || is_set("CI") || is_set("UPDATE_EXPECT") {
        return None;
    }
    match inputs::SharedInputs::read() {
        Ok(shared) => Some((shared, PassedRuns::open())),
        Err(why) => {
            eprintln!("test: everything runs, because what changed is not known: {why}");
            None
        }
    }
}

/// Runs the failed tests of a program again, alone. Returns the results of the program with what they say now.
pub fn repeat_failed(result: &jobs::JobResult) -> TestRun {
    let jobs::JobKind::TestProgram(program) = &result.kind else {
        let outcome = result.failure.clone().map_or(Ok(()), |why| Err(format!("{}: {why}", result.name)));
        return TestRun { tally: result.tally, outcome };
    };
    if !result.can_repeat {
        let outcome = Err(format!("{}: a test failed or died", result.name));
        return TestRun { tally: result.tally, outcome };
    }
    eprintln!("test: running {} failed tests of {} again, alone", result.failed_names.len(), result.name);
    let mut command = program.command();
    command.args(["--test-threads=1", "--exact"]).args(&result.failed_names);
    let (second, _) = jobs::run_job(jobs::Job {
        name: result.name.clone(),
        command,
        kind: result.kind.clone(),
        inputs: None,
        after: None,
    });
    println!("{}", second.shown());
    for name in result.failed_names.difference(&second.failed_names) {
        eprintln!("UNSTABLE: {name} failed, and passed when it ran alone. It depends on timing: repair it.");
    }
    let mut tally = result.tally;
    let ran = second.tally.passed + second.tally.failed + second.tally.skipped;
    let failure = match second.failure {
        None if ran < tally.failed => Some("not all of them ran again".to_owned()),
        other => other,
    };
    let still_failed = if failure.is_some() { second.tally.failed.clamp(1, tally.failed) } else { 0 };
    tally.passed += tally.failed - still_failed;
    tally.failed = still_failed;
    let outcome = match failure {
        None => Ok(()),
        Some(why) => {
            let names: Vec<&str> = second.failed_names.iter().map(String::as_str).collect();
            Err(format!("{}: {why}: {}", result.name, names.join(", ")))
        }
    };
    TestRun { tally, outcome }
}

/// Features of the released program. A plain `cargo build` leaves them out because they add about a hundred crates.
pub const SHIPPED_FEATURES: &str = "doran/python,doran-agents/python";

/// Tests all packages unless some are named. Continues after a test program fails.
fn cargo_test_arguments(args: &[String]) -> Vec<String> {
    let (own, theirs) = split_arguments(args);
    let named = own.iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    let mut all: Vec<String> = ["test", "--locked", "--no-fail-fast"].map(String::from).to_vec();
    if !named {
        all.extend(["--workspace", "--features", SHIPPED_FEATURES].map(String::from));
    }
    all.extend_from_slice(own);
    all.extend(["--", "--show-output"].map(String::from));
    all.extend_from_slice(theirs);
    all
}

fn run_and_read_lines(args: &[String], mut see: impl FnMut(&str)) -> XtaskResult {
    eprintln!("$ cargo {}", args.join(" "));
    let mut child = cargo(&[])
        .args(args)
        .envs(programs::eval_data())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|why| format!("cargo does not start: {why}"))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(|why| format!("the output of the tests cannot be read: {why}"))?;
            see(&String::from_utf8_lossy(&line));
        }
    }
    let status = child.wait().map_err(|why| format!("cargo did not end: {why}"))?;
    if status.success() { Ok(()) } else { Err("a test failed, died or did not build".to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_a_package_leaves_the_others_alone() {
        let args = |words: &str| {
            cargo_test_arguments(&words.split(' ').map(String::from).collect::<Vec<_>>()).join(" ")
        };
        assert_eq!(args("-p doran-store"), "test --locked --no-fail-fast -p doran-store -- --show-output");
        assert_eq!(
            args("a_law -- --ignored"),
            "test --locked --no-fail-fast --workspace --features doran/python,doran-agents/python a_law -- --show-output --ignored"
        );
    }

    #[test]
    fn the_second_run_selects_the_failed_tests_in_the_same_programs() {
        let args: Vec<String> =
            ["-p", "doran-store", "a_filter", "--", "--ignored", "other"].map(String::from).to_vec();
        assert_eq!(
            repeat_arguments(&args, &["b::law".to_owned()]).join(" "),
            "test --locked --no-fail-fast -p doran-store -- --show-output --ignored --test-threads=1 --exact b::law"
        );
    }
}

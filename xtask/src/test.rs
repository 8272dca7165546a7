//! `cargo test`, with the results of all test programs summed up in one line.
//!
//! A test that cannot run because something is missing prints a line that starts with `SKIPPED:` and returns. The
//! test program counts it as passed; this task counts it as skipped.
//!
//! Tests that failed run a second time, one after the other. A test that passes then is reported as `UNSTABLE` and counts
//! as passed: it depends on timing and must be repaired, but it does not hide the results of the others.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::XtaskResult;
use crate::command::{cargo, root};

/// The summed results of test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestTally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that did not run.
    pub skipped: u64,
}

impl TestTally {
    /// Adds the results of `more`.
    pub fn add(&mut self, more: &Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }

    /// The last line of a run.
    pub fn closing_line(&self, took: Duration) -> String {
        let minutes = took.as_secs_f64() / 60.0;
        format!("{} passed, {} failed, {} skipped ({minutes:.1} min)", self.passed, self.failed, self.skipped)
    }
}

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

/// The directory of the evaluation sets, which are not part of the repository. By default it is next to the
/// repository.
fn eval_data() -> Option<(&'static str, std::path::PathBuf)> {
    let beside = root().parent()?.join("shared").join("data");
    (std::env::var_os("DORAN_EVAL_DATA").is_none() && beside.is_dir()).then_some(("DORAN_EVAL_DATA", beside))
}

fn run_and_read_lines(args: &[String], mut see: impl FnMut(&str)) -> XtaskResult {
    eprintln!("$ cargo {}", args.join(" "));
    let mut child = cargo(&[])
        .args(args)
        .envs(eval_data())
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

/// Whether a line of output is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineVisibility {
    Shown,
    Hidden,
}

/// Parses the output of test programs line by line.
#[derive(Debug, Default)]
struct TestOutputCounter {
    tally: TestTally,
    /// Inside the output of passed tests, which is requested only to find skipped ones.
    in_successes: bool,
    /// Tests of the current program that printed that they were skipped.
    announced_skips: u64,
    /// Lines that name a failed test.
    failed_lines: u64,
    /// The names of failed tests.
    failed_names: BTreeSet<String>,
    /// Whether a program failed without naming all its failed tests.
    programs_died: bool,
}

impl TestOutputCounter {
    fn read_line(&mut self, line: &str) -> LineVisibility {
        if line == "successes:" {
            self.in_successes = true;
            return LineVisibility::Hidden;
        }
        if line == "failures:" {
            self.in_successes = false;
        }
        if let Some(name) = parse_failed_test(line) {
            self.failed_lines += 1;
            self.failed_names.insert(name.to_owned());
        }
        if let Some(found) = parse_result_line(line) {
            let skipped = self.announced_skips.min(found.passed);
            self.tally.add(&TestTally {
                passed: found.passed - skipped,
                failed: found.failed,
                skipped: found.skipped + skipped,
            });
            self.in_successes = false;
            self.announced_skips = 0;
            return LineVisibility::Shown;
        }
        if is_passed_test(line) || (self.in_successes && !line.starts_with("SKIPPED:")) {
            return LineVisibility::Hidden;
        }
        if !self.in_successes {
            return LineVisibility::Shown;
        }
        self.announced_skips += 1;
        LineVisibility::Shown
    }
}

/// Whether a line names a passed test. Thousands of such lines would hide the one that matters.
fn is_passed_test(line: &str) -> bool {
    line.is_empty() || (line.starts_with("test ") && line.ends_with(" ... ok"))
}

/// Parses `test postgres::a_law ... FAILED`.
fn parse_failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Parses `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s`.
fn parse_result_line(line: &str) -> Option<TestTally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut tally = TestTally::default();
    for part in counts.split("; ") {
        match part.split_once(' ') {
            Some((count, "passed")) => tally.passed = count.parse().ok()?,
            Some((count, "failed")) => tally.failed = count.parse().ok()?,
            Some((count, "ignored")) => tally.skipped = count.parse().ok()?,
            _ => {}
        }
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: &str, shown: &str) {
        let mut sum = TestOutputCounter::default();
        let seen: Vec<&str> =
            output.lines().filter(|line| sum.read_line(line) == LineVisibility::Shown).collect();
        let TestTally { passed, failed, skipped } = sum.tally;
        assert_eq!(format!("{passed} {failed} {skipped}"), expected);
        assert_eq!(seen.join("\n"), shown);
    }

    #[test]
    fn programs_are_summed() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\
                      test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        check(output, "4 2 1", output);
    }

    #[test]
    fn a_test_that_says_it_was_skipped_did_not_pass() {
        let end =
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        let output =
            format!("test a ... ok\nsuccesses:\n---- a stdout ----\nSKIPPED: no PostgreSQL\nchatter\n{end}");
        check(&output, "1 0 1", &format!("SKIPPED: no PostgreSQL\n{end}"));
    }

    #[test]
    fn what_a_failed_test_prints_is_shown() {
        let output = "successes:\nchatter\nfailures:\n---- b stdout ----\nSKIPPED: not counted here";
        check(output, "0 0 0", "failures:\n---- b stdout ----\nSKIPPED: not counted here");
    }

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
    fn failed_tests_are_named_for_the_second_run() {
        let mut sum = TestOutputCounter::default();
        for line in
            ["test a::law ... ok", "test b::law ... FAILED", "test c ... ignored", "failures:", "    b::law"]
        {
            sum.read_line(line);
        }
        assert_eq!(
            (sum.failed_lines, sum.failed_names.into_iter().collect::<Vec<_>>()),
            (1, vec!["b::law".to_owned()])
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

    #[test]
    fn the_closing_line_counts_minutes() {
        let tally = TestTally { passed: 12, failed: 0, skipped: 1 };
        assert_eq!(tally.closing_line(Duration::from_secs(90)), "12 passed, 0 failed, 1 skipped (1.5 min)");
    }
}

//! Everything CI runs. A task that fails does not stop the others.
//!
//! First everything is built. Then test programs, the page, the tortures and the checks of the code run side by side.
//! Outside CI, what passed earlier and did not change is not run again: see `test/inputs`.

use std::process::ExitCode;
use std::time::Instant;

use crate::command::{low_priority, run_cargo};
use crate::test::inputs::JobInputs;
use crate::test::jobs::{Job, JobKind, run_lanes};
use crate::test::programs::{self, TestProgram};
use crate::test::{SHIPPED_FEATURES, TestTally, earlier_runs, repeat_failed};
use crate::{XtaskResult, browser, deny, tidy, torture, ui};

/// The jobs that take longest, the longest first. They begin first, so that none of them is left over at the end.
const LONGEST: [&str; 8] = [
    "doran-server it",
    "doran it",
    "browser",
    "doran-engine it",
    "doran-retrieval unit tests",
    "doran-agents it",
    "doran-retrieval it",
    "doran-store it",
];

/// Runs every task and ends with one line: `N passed, N failed, N skipped, N unchanged (M.M min)`.
///
/// The numbers count tests. A failed task counts as one failed test, so `0 failed` is printed only if everything
/// passed. With `all`, what did not change runs too.
pub fn run(all: bool) -> ExitCode {
    let began = Instant::now();
    let mut tally = TestTally::default();
    let mut failed = Vec::new();
    note_failure("format", run_cargo(&["fmt", "--all", "--check"]), &mut failed);
    note_failure("tidy", tidy::run(), &mut failed);
    note_failure("deny", deny::run(), &mut failed);

    let mut tests = Vec::new();
    let mut tortures = Vec::new();
    match programs::build() {
        Ok(programs) => {
            tests.extend(programs.into_iter().map(test_program_job));
            match browser::job() {
                Ok(job) => tests.push(job),
                Err(skipped) => {
                    tally.add(&skipped.tally);
                    note_failure("browser", skipped.outcome, &mut failed);
                }
            }
            match torture::build() {
                Ok(job) => tortures.push(job),
                Err(why) => note_failure("torture", Err(why), &mut failed),
            }
        }
        Err(why) => note_failure("test", Err(why), &mut failed),
    }
    tests.sort_by_key(|job| LONGEST.iter().position(|name| *name == job.name).unwrap_or(LONGEST.len()));

    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let checks = vec![ui::job(), check_job(), doc_tests_job()];
    let lanes = vec![(cores.clamp(2, 4), tests), (1, tortures), (1, checks)];
    let results = run_lanes(lanes, &earlier_runs(all));
    for result in results {
        if result.failure.is_none() {
            tally.add(&result.tally);
            continue;
        }
        let again = repeat_failed(&result);
        tally.add(&again.tally);
        if again.outcome.is_err() {
            // The task is counted below, and with it one of its tests.
            tally.failed -= again.tally.failed.min(1);
        }
        note_failure("test", again.outcome, &mut failed);
    }
    for (name, why) in &failed {
        eprintln!("{name}: FAILED: {why}");
        tally.failed += 1;
    }
    if tally.unchanged > 0 {
        println!(
            "unchanged: passed earlier with the same programs, files and tools; `./x test --all` runs them too"
        );
    }
    println!("{}", tally.closing_line(began.elapsed()));
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn test_program_job(program: TestProgram) -> Job {
    Job {
        name: program.name.clone(),
        command: program.command(),
        inputs: Some(JobInputs::of_test_program(&program)),
        kind: JobKind::TestProgram(program),
        after: None,
    }
}

/// Lints and links in doc comments. Cargo knows itself what did not change.
fn check_job() -> Job {
    let mut command = low_priority(&this_program());
    command.arg("check");
    Job { name: "check".to_owned(), command, kind: JobKind::Plain { show: false }, inputs: None, after: None }
}

/// The examples in doc comments.
fn doc_tests_job() -> Job {
    let mut command = low_priority(&std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(crate::command::root())
        .args(["test", "--doc", "--locked", "--no-fail-fast", "--workspace", "--features", SHIPPED_FEATURES])
        .args(["--", "--show-output"]);
    let folders = ["Cargo.lock", "Cargo.toml", "crates"].map(str::to_owned).to_vec();
    Job {
        name: "doc tests".to_owned(),
        command,
        kind: JobKind::CargoTest,
        inputs: Some(JobInputs { programs: Vec::new(), folders }),
        after: None,
    }
}

/// The program of this task.
pub fn this_program() -> std::ffi::OsString {
    std::env::current_exe().map_or_else(|_| "xtask".into(), Into::into)
}

fn note_failure(name: &'static str, outcome: XtaskResult, failed: &mut Vec<(&'static str, String)>) {
    if let Err(why) = outcome {
        failed.push((name, why));
    }
}

//! Runs jobs side by side: test programs, the checks of the code, the page, the tortures. Most of them wait for processes,
//! timers and disks for a part of their time, which the others use.
//!
//! What a job prints is shown when it ends, so that the lines of two jobs do not mix.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::inputs::{JobInputs, SharedInputs};
use super::output::{LineVisibility, TestOutputCounter, TestTally};
use super::passed_runs::PassedRuns;
use super::programs::TestProgram;
use crate::command::target_directory;

/// How the output of a job is read.
#[derive(Clone, Debug)]
pub enum JobKind {
    /// A test program. Its failed tests can run again alone.
    TestProgram(TestProgram),
    /// Several test programs, started by cargo.
    CargoTest,
    /// Ends with a line such as `31 passed, 0 failed, 0 skipped`.
    Summary,
    /// Counts no tests. What it prints is shown if it fails, or if `show` is true.
    Plain { show: bool },
}

/// Something to run.
pub struct Job {
    pub name: String,
    pub command: Command,
    pub kind: JobKind,
    /// What it depends on. Without it the job always runs.
    pub inputs: Option<JobInputs>,
    /// The job that must have ended before.
    pub after: Option<&'static str>,
}

/// The result of a job.
pub struct JobResult {
    pub name: String,
    pub kind: JobKind,
    pub tally: TestTally,
    /// Why it failed.
    pub failure: Option<String>,
    pub failed_names: BTreeSet<String>,
    /// Whether all that failed has a name and can run again alone.
    pub can_repeat: bool,
    took: Duration,
    shown: String,
}

impl JobResult {
    /// What it printed, as far as a person wants to read it.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

/// What is known about earlier runs. None: everything runs.
pub type EarlierRuns = Option<(SharedInputs, PassedRuns)>;

/// Runs lists of jobs. Each list has a number of jobs that may run at once, in the order of the list.
pub fn run_lanes(lanes: Vec<(usize, Vec<Job>)>, earlier: &EarlierRuns) -> Vec<JobResult> {
    let ended = Ended::default();
    let (send, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for (width, jobs) in lanes {
            let width = width.min(jobs.len());
            let queue = Arc::new(Mutex::new(VecDeque::from(jobs)));
            for _ in 0..width {
                let (queue, send, ended) = (queue.clone(), send.clone(), &ended);
                scope.spawn(move || {
                    while let Some(job) = ended.next_ready(&queue) {
                        let name = job.name.clone();
                        drop(send.send(run_unless_unchanged(job, earlier)));
                        ended.note(&name);
                    }
                });
            }
        }
        drop(send);
        results.iter().inspect(show).collect()
    })
}

/// The names of jobs that ended.
#[derive(Default)]
struct Ended {
    names: Mutex<BTreeSet<String>>,
    changed: Condvar,
}

impl Ended {
    fn note(&self, name: &str) {
        lock(&self.names).insert(name.to_owned());
        self.changed.notify_all();
    }

    /// The first job of a list whose predecessor ended. Waits while there are only others.
    fn next_ready(&self, queue: &Mutex<VecDeque<Job>>) -> Option<Job> {
        let mut names = lock(&self.names);
        loop {
            let mut jobs = lock(queue);
            let is_ready = |job: &Job| job.after.is_none_or(|before| names.contains(before));
            if let Some(at) = jobs.iter().position(is_ready) {
                return jobs.remove(at);
            }
            if jobs.is_empty() {
                return None;
            }
            drop(jobs);
            names = self.changed.wait(names).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_unless_unchanged(job: Job, earlier: &EarlierRuns) -> JobResult {
    let key = match (&job.inputs, earlier) {
        (Some(inputs), Some((shared, _))) => match shared.key(&job.name, inputs) {
            Ok(key) => Some(key),
            Err(why) => {
                eprintln!("{}: runs, because its inputs cannot be read: {why}", job.name);
                None
            }
        },
        _ => None,
    };
    let passed_before = key.as_ref().and_then(|key| earlier.as_ref()?.1.find(key));
    if let Some(count) = passed_before {
        return JobResult {
            name: job.name,
            kind: job.kind,
            tally: TestTally { unchanged: count, ..TestTally::default() },
            failure: None,
            failed_names: BTreeSet::new(),
            can_repeat: false,
            took: Duration::ZERO,
            shown: String::new(),
        };
    }
    let (name, inputs) = (job.name.clone(), job.inputs.clone());
    let (result, nothing_missing) = run_job(job);
    // A test that was skipped may find what it needs the next time, so its program is not remembered.
    if let (Some(key), Some((shared, runs)), Some(inputs)) = (key, earlier, inputs)
        && result.failure.is_none()
        && nothing_missing
    {
        // What was changed while it ran is not what passed.
        let now = shared.read_again().and_then(|shared| shared.key(&name, &inputs));
        if now.is_ok_and(|now| now == key) {
            runs.remember(&key, &name, result.tally.passed);
        }
    }
    result
}

/// Runs a job. Also says whether every test of it found what it needs.
pub fn run_job(mut job: Job) -> (JobResult, bool) {
    eprintln!("test: {} begins", job.name);
    let began = Instant::now();
    let output = output_path(&job.name);
    let ended = start_into_file(&mut job.command, &output);
    let text = String::from_utf8_lossy(&fs::read(&output).unwrap_or_default()).into_owned();
    drop(fs::remove_file(&output));
    let nothing_missing = !text.contains("SKIPPED");
    let mut result = JobResult {
        name: job.name,
        kind: job.kind,
        tally: TestTally::default(),
        failure: None,
        failed_names: BTreeSet::new(),
        can_repeat: false,
        took: Duration::ZERO,
        shown: String::new(),
    };
    let mut counter = TestOutputCounter::default();
    let mut summary = None;
    match result.kind {
        JobKind::TestProgram(_) | JobKind::CargoTest => {
            for line in text.lines() {
                if counter.read_line(line) == LineVisibility::Shown && !is_noise(line) {
                    result.shown.push_str(line);
                    result.shown.push('\n');
                }
            }
            result.tally = counter.tally;
        }
        JobKind::Summary => {
            summary = text.lines().last().and_then(parse_summary_line);
            result.tally = summary.unwrap_or_default();
            result.shown = text;
        }
        JobKind::Plain { show } => {
            if show || !nothing_missing || !ended.as_ref().is_ok_and(ExitStatus::success) {
                result.shown = text;
            }
        }
    }
    result.failure = match (ended, &result.kind) {
        (Err(why), _) => Some(why),
        // A program that ends well without a result did not run its tests.
        (Ok(status), JobKind::TestProgram(_)) if counter.result_lines != 1 => {
            Some(format!("it printed no result ({status})"))
        }
        (Ok(status), JobKind::Summary) if summary.is_none() => {
            Some(format!("it did not come to its end ({status})"))
        }
        (Ok(status), _) if status.success() && result.tally.failed == 0 => None,
        (Ok(status), _) => Some(format!("failed ({status})")),
    };
    result.can_repeat = !counter.failed_names.is_empty()
        && counter.failed_lines == counter.tally.failed
        && counter.result_lines == 1;
    result.failed_names = counter.failed_names;
    result.took = began.elapsed();
    (result, nothing_missing)
}

/// Lines that every program prints and that say nothing.
fn is_noise(line: &str) -> bool {
    (line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")))
        || line.starts_with("test result: ok.")
        || line.contains(" has been running for over 60 seconds")
        || (line.starts_with("test ") && line.contains(" ... ignored"))
}

/// Runs a command with everything it prints in a file. A process that it leaves behind does not hold this one up, as it
/// would with a pipe.
fn start_into_file(command: &mut Command, output: &Path) -> Result<ExitStatus, String> {
    let wrong = |why: std::io::Error| format!("{}: {why}", output.display());
    let stdout = File::options().create(true).write(true).truncate(true).open(output).map_err(wrong)?;
    drop(stdout);
    let stdout = File::options().append(true).open(output).map_err(wrong)?;
    let stderr = stdout.try_clone().map_err(wrong)?;
    let status = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).status();
    status.map_err(|why| format!("{}: {why}", command.get_program().to_string_lossy()))
}

fn output_path(name: &str) -> PathBuf {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let folder = target_directory().join("output");
    drop(fs::create_dir_all(&folder));
    folder.join(format!("{name}-{}.txt", std::process::id()))
}

/// Prints what a job printed, and its result.
fn show(result: &JobResult) {
    print!("{}", result.shown);
    let name = &result.name;
    let counts_tests = !matches!(result.kind, JobKind::Plain { .. });
    if result.took.is_zero() {
        let tests = if counts_tests { format!(" ({} tests)", result.tally.unchanged) } else { String::new() };
        println!("{name}: unchanged since it passed, not run{tests}");
        return;
    }
    let verdict = result.failure.as_ref().map_or("ok".to_owned(), |why| format!("FAILED: {why}"));
    let counts = if counts_tests { format!(", {}", result.tally.counts()) } else { String::new() };
    println!("{name}: {verdict}{counts} ({:.0} s)", result.took.as_secs_f64());
}

/// Parses `31 passed, 0 failed, 0 skipped`.
fn parse_summary_line(line: &str) -> Option<TestTally> {
    let mut tally = TestTally::default();
    let mut parts = line.split(", ");
    for (field, name) in
        [(&mut tally.passed, " passed"), (&mut tally.failed, " failed"), (&mut tally.skipped, " skipped")]
    {
        *field = parts.next()?.strip_suffix(name)?.parse().ok()?;
    }
    Some(tally)
}

#[cfg(test)]
mod tests;

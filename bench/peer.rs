//! Other programs that are measured next to Doran, called peers.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::arguments::BenchError;

/// The directory of the peer programs.
pub(crate) fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peer")
}

/// The Python interpreter that `./x bench NAME` passes, or the one it installed earlier. `None` if it never ran.
pub(crate) fn python(bench: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DORAN_BENCH_PYTHON").filter(|path| !path.is_empty());
    let left = place().join(format!("../../.parts/bench-{bench}-venv/bin/python"));
    named.map(PathBuf::from).or_else(|| left.exists().then_some(left))
}

/// The command that runs `bench/peer/NAME.py`.
pub(crate) fn script(bench: &str) -> Result<Command, BenchError> {
    let python = python(bench).ok_or_else(|| format!("there is no Python for it; try ./x bench {bench}"))?;
    let mut command = Command::new(python);
    command.arg(place().join(format!("{bench}.py")));
    Ok(command)
}

/// A program that measures on request: one line of JSON in, one line of JSON out. It exits when its input ends, which
/// happens when this value is dropped.
pub(crate) struct Program {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program and reads its first line.
    pub(crate) fn start(mut command: Command) -> Result<(Self, String), BenchError> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("{name}: {error}"))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{name} has no pipes").into());
        };
        let mut program = Self { child, requests: Some(requests), answers: BufReader::new(answers) };
        let first = program.line()?;
        Ok((program, first))
    }

    /// Like [`Program::start`], for a program whose first line is JSON.
    pub(crate) fn ready<T: DeserializeOwned>(command: Command) -> Result<(Self, T), BenchError> {
        let (program, first) = Self::start(command)?;
        Ok((program, read(&first)?))
    }

    /// Requests one measurement.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, request: &Value) -> Result<T, BenchError> {
        let requests = self.requests.as_mut().ok_or("the peer is gone")?;
        writeln!(requests, "{request}")?;
        requests.flush()?;
        read(&self.line()?)
    }

    fn line(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("the peer ended without an answer; its words are above".into()),
            _ => Ok(line),
        }
    }
}

fn read<T: DeserializeOwned>(line: &str) -> Result<T, BenchError> {
    let answer: Value = serde_json::from_str(line)?;
    match answer.get("error") {
        Some(error) => Err(format!("the peer says: {error}").into()),
        None => Ok(serde_json::from_value(answer)?),
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.requests.take());
        // The program has no data to save, so its exit status does not matter.
        drop(self.child.wait());
    }
}

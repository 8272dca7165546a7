//! Other programs that are measured beside Doran.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::arguments::BenchError;

/// Where the programs of the peers lie.
pub(crate) fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peer")
}

/// The interpreter that `./x bench NAME` names, or else the one it left behind; `None`: it never ran.
pub(crate) fn python(bench: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DORAN_BENCH_PYTHON").filter(|path| !path.is_empty());
    let left = place().join(format!("../../.parts/bench-{bench}-venv/bin/python"));
    named.map(PathBuf::from).or_else(|| left.exists().then_some(left))
}

/// `bench/peer/NAME.py`.
pub(crate) fn script(bench: &str) -> Result<Command, BenchError> {
    let python = python(bench).ok_or_else(|| format!("there is no Python for it; try ./x bench {bench}"))?;
    let mut command = Command::new(python);
    command.arg(place().join(format!("{bench}.py")));
    Ok(command)
}

/// A program that is asked for one measurement at a time: a line of JSON in, a line of JSON out. It ends with its
/// input, which ends when this is dropped.
pub(crate) struct Program {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it and reads the line it says first.
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

    /// The same, for a program whose first line is JSON.
    pub(crate) fn ready<T: DeserializeOwned>(command: Command) -> Result<(Self, T), BenchError> {
        let (program, first) = Self::start(command)?;
        Ok((program, read(&first)?))
    }

    /// Asks for a measurement.
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
        // It has nothing to keep; how it ends does not matter.
        drop(self.child.wait());
    }
}

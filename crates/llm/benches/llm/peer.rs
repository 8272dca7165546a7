//! Other clients: programs that are asked for one measurement at a time, and the server as a program.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::Fail;
use crate::meter::Figures;

/// Another program. It ends with its input, which ends when this is dropped.
pub(crate) struct Peer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(crate) name: String,
}

impl Peer {
    /// The `openai` client of Python.
    pub(crate) fn python() -> Result<Self, Fail> {
        let python = match std::env::var_os("DORAN_BENCH_PYTHON").filter(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => root().join(".parts/bench-llm-venv/bin/python"),
        };
        let mut command = Command::new(python);
        command.arg(root().join("bench/peer/llm.py"));
        Self::start(command)
    }

    /// `async-openai`.
    pub(crate) fn rust() -> Result<Self, Fail> {
        let place = std::env::var_os("DORAN_BENCH_LLM_PEER").filter(|path| !path.is_empty());
        Self::start(Command::new(place.ok_or("DORAN_BENCH_LLM_PEER is not set")?))
    }

    fn start(mut command: Command) -> Result<Self, Fail> {
        let (child, requests, answers) = piped(&mut command)?;
        let mut peer = Self { child, requests: Some(requests), answers, name: String::new() };
        let ready = peer.read()?;
        peer.name = ready["name"].as_str().ok_or("the peer has no name")?.to_owned();
        Ok(peer)
    }

    /// Asks for a measurement.
    pub(crate) fn measure(
        &mut self,
        case: &str,
        url: &str,
        model: &str,
        count: usize,
    ) -> Result<Figures, Fail> {
        let request = json!({ "case": case, "url": url, "model": model, "count": count });
        let requests = self.requests.as_mut().ok_or("the peer is gone")?;
        writeln!(requests, "{request}")?;
        requests.flush()?;
        Ok(serde_json::from_value(self.read()?)?)
    }

    fn read(&mut self) -> Result<Value, Fail> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("the peer ended without an answer; its words are above".into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        match answer.get("error") {
            Some(error) => Err(format!("the peer says: {error}").into()),
            None => Ok(answer),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.requests.take());
        // It has nothing to keep; how it ends does not matter.
        drop(self.child.wait());
    }
}

/// The server, in a process of its own.
pub(crate) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    /// Its address, up to the version.
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start() -> Result<Self, Fail> {
        let (child, input, answers) = piped(Command::new(std::env::current_exe()?).arg("--serve"))?;
        let mut line = String::new();
        BufReader::new(answers).read_line(&mut line)?;
        Ok(Self { child, input: Some(input), url: format!("{}/v1", line.trim()) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        drop(self.child.wait());
    }
}

fn piped(command: &mut Command) -> Result<(Child, ChildStdin, BufReader<ChildStdout>), Fail> {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => Ok((child, input, BufReader::new(output))),
        _ => Err("a program has no pipes".into()),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

//! LangGraph's side: a Python program that is asked for one measurement at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Fail;
use crate::turns::Measured;

/// The other program. It ends with its input, which ends when this is dropped.
pub(crate) struct Peer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(crate) name: String,
    pub(crate) python: String,
}

#[derive(Deserialize)]
struct Ready {
    langgraph: String,
    python: String,
}

#[derive(Deserialize)]
struct Turns {
    turns: usize,
    seconds: f64,
    latencies_ms: Vec<f64>,
}

impl Peer {
    pub(crate) fn start() -> Result<Self, Fail> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = match std::env::var_os("DORAN_BENCH_PYTHON").filter(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => root.join(".parts/bench-agents-venv/bin/python"),
        };
        let mut child = Command::new(&python)
            .arg(root.join("bench/peer/agents.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}; try ./x bench agents", python.display()))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the peer has no pipes".into());
        };
        let answers = BufReader::new(answers);
        let mut peer =
            Self { child, requests: Some(requests), answers, name: String::new(), python: String::new() };
        let ready: Ready = peer.read()?;
        peer.name = format!("langgraph {}", ready.langgraph);
        peer.python = ready.python;
        Ok(peer)
    }

    /// Turns for so long, so many at once, on a fresh file.
    pub(crate) fn turns(
        &mut self,
        case: &str,
        at_once: usize,
        time: Duration,
        file: &Path,
    ) -> Result<Measured, Fail> {
        let request =
            json!({ "case": case, "at_once": at_once, "seconds": time.as_secs_f64(), "path": file });
        let requests = self.requests.as_mut().ok_or("the peer is gone")?;
        writeln!(requests, "{request}")?;
        requests.flush()?;
        let Turns { turns, seconds, latencies_ms } = self.read()?;
        Ok(Measured { turns, seconds, latencies_ms })
    }

    fn read<T: DeserializeOwned>(&mut self) -> Result<T, Fail> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err("the peer ended without an answer; its words are above".into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        match answer.get("error") {
            Some(error) => Err(format!("the peer says: {error}").into()),
            None => Ok(serde_json::from_value(answer)?),
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

//! LangGraph's side: a Python program that is asked for one measurement at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Fail;
use crate::homes::{Ground, Home};
use crate::meter::Slice;

/// The other program. It ends with its input, which ends when this is dropped.
pub(crate) struct Peer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub name: String,
    pub python: String,
}

#[derive(Deserialize)]
struct Ready {
    langgraph: String,
    python: String,
}

#[derive(Deserialize)]
struct Nodes {
    wall_us_per_node: f64,
    best_us_per_node: f64,
    cpu_us_per_node: f64,
}

#[derive(Deserialize)]
struct Thread {
    marks: Vec<Mark>,
}

/// A conversation after so many turns.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Mark {
    pub turns: usize,
    pub bytes: u64,
    #[serde(rename = "ms_per_turn_last10")]
    pub ms: f64,
}

impl Peer {
    pub(crate) fn start() -> Result<Self, Fail> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = match std::env::var_os("DORAN_BENCH_PYTHON").filter(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => root.join(".parts/bench-engine-venv/bin/python"),
        };
        let mut child = Command::new(&python)
            .arg(root.join("bench/peer/engine.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}; try ./x bench engine", python.display()))?;
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

    /// Microseconds per node.
    pub(crate) fn nodes(
        &mut self,
        case: &str,
        home: Home,
        ground: &Ground,
        time: Duration,
    ) -> Result<Slice, Fail> {
        let mut request = json!({ "case": case, "store": home.name(), "seconds": time.as_secs_f64() });
        place(&mut request, home, ground)?;
        let nodes: Nodes = self.ask(&request)?;
        Ok(Slice { wall: nodes.wall_us_per_node, best: nodes.best_us_per_node, cpu: nodes.cpu_us_per_node })
    }

    /// A conversation, looked at after these numbers of turns, or where `most` ended it.
    pub(crate) fn thread(
        &mut self,
        home: Home,
        ground: &Ground,
        turns: &[usize],
        most: Duration,
    ) -> Result<Vec<Mark>, Fail> {
        let mut request = json!({
            "case": "thread",
            "store": home.name(),
            "turns": turns,
            "max_seconds": most.as_secs_f64(),
        });
        place(&mut request, home, ground)?;
        Ok(self.ask::<Thread>(&request)?.marks)
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Value) -> Result<T, Fail> {
        let requests = self.requests.as_mut().ok_or("the peer is gone")?;
        writeln!(requests, "{request}")?;
        requests.flush()?;
        self.read()
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

fn place(request: &mut Value, home: Home, ground: &Ground) -> Result<(), Fail> {
    match home {
        Home::None | Home::Ram => {}
        Home::Sqlite => request["path"] = json!(ground.file()),
        Home::Postgres => request["path"] = json!(ground.server()?),
    }
    Ok(())
}

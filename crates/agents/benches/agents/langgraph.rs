//! LangGraph's side: a Python program that is asked for one measurement at a time.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::Fail;
use crate::peer::{Program, script};
use crate::turns::Measured;

pub(crate) struct LangGraph {
    program: Program,
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

impl LangGraph {
    pub(crate) fn start() -> Result<Self, Fail> {
        let (program, ready): (_, Ready) = Program::ready(script("agents")?)?;
        Ok(Self { program, name: format!("langgraph {}", ready.langgraph), python: ready.python })
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
        let Turns { turns, seconds, latencies_ms } = self.program.ask(&request)?;
        Ok(Measured { turns, seconds, latencies_ms })
    }
}

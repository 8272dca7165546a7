//! LangGraph's side: a Python program that is asked for one measurement at a time.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::AgentBenchError;
use crate::peer::{Program, script};
use crate::turns::TurnMeasurements;

pub(crate) struct LangGraphTurnsPeer {
    program: Program,
    pub(crate) name: String,
    pub(crate) python: String,
}

#[derive(Deserialize)]
struct LangGraphTurnsReady {
    langgraph: String,
    python: String,
}

#[derive(Deserialize)]
struct LangGraphTurnsReport {
    turns: usize,
    seconds: f64,
    latencies_ms: Vec<f64>,
}

impl LangGraphTurnsPeer {
    pub(crate) fn start() -> Result<Self, AgentBenchError> {
        let (program, ready): (_, LangGraphTurnsReady) = Program::ready(script("agents")?)?;
        Ok(Self { program, name: format!("langgraph {}", ready.langgraph), python: ready.python })
    }

    /// Turns for so long, so many at once, on a fresh file.
    pub(crate) fn measure_turns(
        &mut self,
        case: &str,
        at_once: usize,
        time: Duration,
        file: &Path,
    ) -> Result<TurnMeasurements, AgentBenchError> {
        let request =
            json!({ "case": case, "at_once": at_once, "seconds": time.as_secs_f64(), "path": file });
        let LangGraphTurnsReport { turns, seconds, latencies_ms } = self.program.ask(&request)?;
        Ok(TurnMeasurements { turns, seconds, latencies_ms, syncs: 0 })
    }
}

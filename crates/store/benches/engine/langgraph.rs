//! LangGraph's side: a Python program that is asked for one measurement at a time.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::EngineBenchError;
use crate::bench_stores::{EngineBenchDatabases, EngineBenchStoreKind};
use crate::measurement::EngineBenchSlice;
use crate::peer::{Program, script};

pub(crate) struct LangGraphEnginePeer {
    program: Program,
    pub name: String,
    pub python: String,
}

#[derive(Deserialize)]
struct LangGraphVersions {
    langgraph: String,
    python: String,
}

#[derive(Deserialize)]
struct LangGraphNodeTimes {
    wall_us_per_node: f64,
    best_us_per_node: f64,
    cpu_us_per_node: f64,
}

#[derive(Deserialize)]
struct LangGraphThreadReply {
    marks: Vec<LangGraphThreadMark>,
}

/// A conversation after so many turns.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct LangGraphThreadMark {
    pub turns: usize,
    pub bytes: u64,
    #[serde(rename = "ms_per_turn_last10")]
    pub ms: f64,
}

impl LangGraphEnginePeer {
    pub(crate) fn start() -> Result<Self, EngineBenchError> {
        let (program, ready): (_, LangGraphVersions) = Program::ready(script("engine")?)?;
        Ok(Self { program, name: format!("langgraph {}", ready.langgraph), python: ready.python })
    }

    /// Microseconds per node.
    pub(crate) fn measure_nodes(
        &mut self,
        case: &str,
        kind: EngineBenchStoreKind,
        ground: &EngineBenchDatabases,
        time: Duration,
    ) -> Result<EngineBenchSlice, EngineBenchError> {
        let mut request = json!({ "case": case, "store": kind.name(), "seconds": time.as_secs_f64() });
        set_store_path(&mut request, kind, ground)?;
        let nodes: LangGraphNodeTimes = self.program.ask(&request)?;
        Ok(EngineBenchSlice {
            wall: nodes.wall_us_per_node,
            best: nodes.best_us_per_node,
            cpu: nodes.cpu_us_per_node,
        })
    }

    /// A conversation, looked at after these numbers of turns, or where `most` ended it.
    pub(crate) fn measure_thread(
        &mut self,
        kind: EngineBenchStoreKind,
        ground: &EngineBenchDatabases,
        turns: &[usize],
        most: Duration,
    ) -> Result<Vec<LangGraphThreadMark>, EngineBenchError> {
        let mut request = json!({
            "case": "thread",
            "store": kind.name(),
            "turns": turns,
            "max_seconds": most.as_secs_f64(),
        });
        set_store_path(&mut request, kind, ground)?;
        Ok(self.program.ask::<LangGraphThreadReply>(&request)?.marks)
    }
}

fn set_store_path(
    request: &mut Value,
    kind: EngineBenchStoreKind,
    ground: &EngineBenchDatabases,
) -> Result<(), EngineBenchError> {
    match kind {
        EngineBenchStoreKind::None | EngineBenchStoreKind::Ram => {}
        EngineBenchStoreKind::Sqlite => request["path"] = json!(ground.new_file_path()),
        EngineBenchStoreKind::Postgres => request["path"] = json!(ground.postgres_url()?),
    }
    Ok(())
}

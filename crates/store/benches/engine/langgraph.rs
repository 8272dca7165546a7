//! LangGraph's side: a Python program that is asked for one measurement at a time.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::Fail;
use crate::homes::{Ground, Home};
use crate::meter::Slice;
use crate::peer::{Program, script};

pub(crate) struct LangGraph {
    program: Program,
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

impl LangGraph {
    pub(crate) fn start() -> Result<Self, Fail> {
        let (program, ready): (_, Ready) = Program::ready(script("engine")?)?;
        Ok(Self { program, name: format!("langgraph {}", ready.langgraph), python: ready.python })
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
        let nodes: Nodes = self.program.ask(&request)?;
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
        Ok(self.program.ask::<Thread>(&request)?.marks)
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

//! `./x bench agents`: what a turn of an agent costs when the model costs nothing, on SQLite, beside the same graph in
//! LangGraph. What is measured and how to read it is told in `bench/README.md`.
//!
//! ```text
//! agents [--quick] [--json] [CASE…]      only cases whose name begins with one of these
//! ```

#[path = "../../../../bench/mod.rs"]
#[allow(dead_code, reason = "each bench uses a part")]
mod shared;

mod langgraph_peer;
mod turns;

use std::process::ExitCode;
use std::time::Duration;

use crate::arguments::BenchArguments;
use crate::langgraph_peer::LangGraphTurnsPeer;
use crate::shared::{arguments, machine, peer, table, times};
use crate::table::{Report, Row, Target};
use crate::turns::{TurnCase, TurnMeasurements};

pub(crate) type AgentBenchError = Box<dyn std::error::Error + Send + Sync>;

/// How long to look.
struct AgentBenchPace {
    rounds: usize,
    slice: Duration,
    turns: usize,
}

const FULL_PACE: AgentBenchPace =
    AgentBenchPace { rounds: 5, slice: Duration::from_millis(2000), turns: 1000 };
const QUICK_PACE: AgentBenchPace =
    AgentBenchPace { rounds: 2, slice: Duration::from_millis(500), turns: 300 };

fn main() -> ExitCode {
    arguments::start("agents", &[], bench)
}

async fn bench(asked: BenchArguments) -> Result<(), AgentBenchError> {
    let pace = if asked.quick { QUICK_PACE } else { FULL_PACE };
    let place = tempfile::tempdir()?;
    let mut peer = LangGraphTurnsPeer::start()
        .inspect_err(|error| {
            eprintln!("bench: LANGGRAPH IS MISSING, its figures are left out: {error}");
            eprintln!("bench: LangGraph 를 실행할 수 없어 그 수치는 비워 둡니다.");
        })
        .ok();
    let beside = match &peer {
        Some(peer) => format!("{} on Python {}", peer.name, peer.python),
        None => "no LangGraph".to_owned(),
    };
    let mut report = Report::begin("agents", asked.json, &machine::about(&[beside]));
    for (talk, at_once) in [(TurnCase::Greeting, 1), (TurnCase::ToolCall, 1), (TurnCase::Greeting, 16)] {
        let name = match at_once {
            1 => format!("turn/{}", talk.name()),
            _ => format!("turns{at_once}/{}", talk.name()),
        };
        if !asked.wants(&name) {
            continue;
        }
        eprintln!("bench: {name}");
        let (mut doran, mut other) = (TurnMeasurements::default(), TurnMeasurements::default());
        // Both sides in turns, so that a busy moment of the machine slows both.
        for round in 0..pace.rounds {
            let file = place.path().join(format!("{}-{at_once}-{round}.db", talk.name()));
            doran.add(turns::measure_turns(talk, at_once, pace.slice, &file).await?);
            if let Some(peer) = &mut peer {
                let file = place.path().join(format!("peer-{}-{at_once}-{round}.db", talk.name()));
                match peer.measure_turns(talk.name(), at_once, pace.slice, &file) {
                    Ok(measured) => other.add(measured),
                    Err(error) => eprintln!("bench: {name}: LANGGRAPH WAS NOT MEASURED: {error}"),
                }
            }
        }
        let other = (other.turns > 0).then_some(other);
        let langgraph = peer.as_ref().map(|peer| peer.name.as_str()).unwrap_or_default();
        for (what, share) in [("p50", 0.50), ("p99", 0.99)] {
            let row = Row::less(format!("{name}-{what}"), "ms/turn", doran.percentile(share));
            report.push(row.peer(langgraph, other.as_ref().map(|other| other.percentile(share))));
        }
        report.push(Row::less(format!("{name}-syncs"), "syncs/turn", doran.syncs_per_turn()));
        let rate = Row::more(format!("{name}-rate"), "turns/s", doran.rate());
        let rate = rate.peer(langgraph, other.as_ref().map(TurnMeasurements::rate));
        report.push(rate.target(Target::RatioAtLeast(20.0)));
    }
    for agent in ["assistant", "docqa"] {
        let name = format!("thread{}/{agent}", pace.turns);
        if !asked.wants(&name) {
            continue;
        }
        eprintln!("bench: {name}");
        let grown =
            turns::measure_thread_growth(agent, pace.turns, &place.path().join(format!("{agent}.db")))
                .await?;
        for (what, unit, last, first) in [
            ("ms", "ms/turn", grown.last_ms, grown.first_ms),
            ("bytes", "bytes/turn", grown.last_bytes, grown.first_bytes),
        ] {
            let row = Row::less(format!("{name}-{what}"), unit, last).floor("doran, first 100 turns", first);
            report.push(row.target(Target::RatioAtMost(1.2)));
        }
    }
    report.end();
    Ok(())
}

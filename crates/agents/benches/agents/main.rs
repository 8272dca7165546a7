//! `./x bench agents`: what a turn of an agent costs when the model costs nothing, on SQLite, beside the same graph in
//! LangGraph. What is measured and how to read it is told in `bench/README.md`.
//!
//! ```text
//! agents [--quick] [--json]
//! ```

mod peer;
mod table;
mod turns;

use std::process::ExitCode;
use std::time::Duration;

use crate::peer::Peer;
use crate::table::{Row, Target};
use crate::turns::{Measured, Talk};

pub(crate) type Fail = Box<dyn std::error::Error + Send + Sync>;

/// How long to look.
struct Pace {
    rounds: usize,
    slice: Duration,
    turns: usize,
}

const WHOLE: Pace = Pace { rounds: 5, slice: Duration::from_millis(2000), turns: 1000 };
const QUICK: Pace = Pace { rounds: 2, slice: Duration::from_millis(500), turns: 300 };

fn main() -> ExitCode {
    let (mut json, mut pace) = (false, WHOLE);
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--quick" => pace = QUICK,
            "--json" => json = true,
            // Cargo says so to every benchmark.
            "--bench" => {}
            _ => {
                eprintln!("bench: `{word}` is no option. Use: agents [--quick] [--json]");
                return ExitCode::from(2);
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Fail::from).and_then(|runtime| runtime.block_on(bench(&pace, json))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn bench(pace: &Pace, json: bool) -> Result<(), Fail> {
    let place = tempfile::tempdir()?;
    let mut peer = Peer::start()
        .inspect_err(|error| {
            eprintln!("bench: LANGGRAPH IS MISSING, its figures are left out: {error}");
            eprintln!("bench: LangGraph 를 실행할 수 없어 그 수치는 비워 둡니다.");
        })
        .ok();
    let about = table::about(peer.as_ref());
    if json {
        eprintln!("{about}");
    } else {
        println!("{about}\n");
    }
    let mut rows = Vec::new();
    for (talk, at_once) in [(Talk::Small, 1), (Talk::Tool, 1), (Talk::Small, 16)] {
        let name = match at_once {
            1 => format!("turn/{}", talk.name()),
            _ => format!("turns{at_once}/{}", talk.name()),
        };
        eprintln!("bench: {name}");
        let (mut doran, mut other) = (Measured::default(), Measured::default());
        // Both sides in turns, so that a busy moment of the machine slows both.
        for round in 0..pace.rounds {
            let file = place.path().join(format!("{}-{at_once}-{round}.db", talk.name()));
            doran.add(turns::measure(talk, at_once, pace.slice, &file).await?);
            if let Some(peer) = &mut peer {
                let file = place.path().join(format!("peer-{}-{at_once}-{round}.db", talk.name()));
                match peer.turns(talk.name(), at_once, pace.slice, &file) {
                    Ok(measured) => other.add(measured),
                    Err(error) => eprintln!("bench: {name}: LANGGRAPH WAS NOT MEASURED: {error}"),
                }
            }
        }
        let other = (other.turns > 0).then_some(other);
        let beside = |value: fn(&Measured) -> f64| {
            let peer = peer.as_ref().zip(other.as_ref());
            peer.map(|(peer, other)| (peer.name.clone(), value(other)))
        };
        rows.push(Row::less(
            format!("{name}-p50"),
            "ms/turn",
            doran.percentile(0.50),
            beside(|m| m.percentile(0.50)),
        ));
        rows.push(Row::less(
            format!("{name}-p99"),
            "ms/turn",
            doran.percentile(0.99),
            beside(|m| m.percentile(0.99)),
        ));
        let rate = Row::more(format!("{name}-rate"), "turns/s", doran.rate(), beside(Measured::rate));
        rows.push(rate.target(Target::AtLeast(20.0)));
    }
    for agent in ["assistant", "docqa"] {
        eprintln!("bench: thread{}/{agent}", pace.turns);
        let grown = turns::thread(agent, pace.turns, &place.path().join(format!("{agent}.db"))).await?;
        let beside = Some(("doran, first 100 turns".to_owned(), grown.first_ms));
        let name = |what: &str| format!("thread{}/{agent}-{what}", pace.turns);
        rows.push(Row::floor(name("ms"), "ms/turn", grown.last_ms, beside).target(Target::AtMost(1.2)));
        let beside = Some(("doran, first 100 turns".to_owned(), grown.first_bytes));
        rows.push(
            Row::floor(name("bytes"), "bytes/turn", grown.last_bytes, beside).target(Target::AtMost(1.2)),
        );
    }
    if json {
        rows.iter().for_each(|row| println!("{}", row.json()));
    } else {
        print!("{}", table::table(&rows));
    }
    let verdict = table::verdict(&rows);
    if json {
        eprintln!("bench: {verdict}");
    } else {
        println!("\n{verdict}");
    }
    Ok(())
}

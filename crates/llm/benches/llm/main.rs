//! `./x bench llm`: what asking a model costs beside what the model itself takes, with the `openai` client of Python and
//! `async-openai` doing the same in the same run. What is measured and how to read it is told in `bench/README.md`.
//!
//! ```text
//! llm [--quick] [--json]
//! ```

mod clients;
mod meter;
mod peer;
mod server;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use crate::meter::{Figures, micros};
use crate::peer::{Peer, Server};
use crate::table::{Row, Target, figure};

pub(crate) type Fail = Box<dyn std::error::Error + Send + Sync>;

/// Streams side by side.
pub(crate) const STREAMS: usize = 500;

/// The first pieces of a stream come while others connect, and are not counted. The peers do the same.
pub(crate) const WARM_UP: usize = 3;

/// Calls before those that are measured. The peers do the same.
pub(crate) const WARM_UP_CALLS: usize = 20;

struct Pace {
    rounds: usize,
    calls: usize,
    /// Pieces of a stream; one every fifth of a second.
    pieces: usize,
    cancels: usize,
}

const WHOLE: Pace = Pace { rounds: 5, calls: 500, pieces: 25, cancels: 300 };
const QUICK: Pace = Pace { rounds: 1, calls: 100, pieces: 8, cancels: 50 };

fn main() -> ExitCode {
    let (mut pace, mut json, mut serve) = (WHOLE, false, false);
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--quick" => pace = QUICK,
            "--json" => json = true,
            "--serve" => serve = true,
            // Cargo says so to every benchmark.
            "--bench" => {}
            _ => {
                eprintln!("bench: `{word}` is no option. Use: llm [--quick] [--json]");
                return ExitCode::from(2);
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = runtime.map_err(Fail::from).and_then(|runtime| match serve {
        true => runtime.block_on(server::serve()),
        false => runtime.block_on(bench(&pace, json)),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What was measured of one client.
#[derive(Default)]
struct Side {
    calls: Vec<Figures>,
    streams: Vec<Figures>,
}

async fn bench(pace: &Pace, json: bool) -> Result<(), Fail> {
    let server = Server::start()?;
    let mut peers: Vec<(Peer, Side)> = Vec::new();
    for (what, started) in [("THE OPENAI CLIENT OF PYTHON", Peer::python()), ("ASYNC-OPENAI", Peer::rust())] {
        match started {
            Ok(peer) => peers.push((peer, Side::default())),
            Err(error) => {
                eprintln!("bench: {what} IS MISSING, its figures are left out: {error}");
                eprintln!("bench: 비교 대상을 실행할 수 없어 그 수치는 비워 둡니다.");
            }
        }
    }
    let names: Vec<&str> = peers.iter().map(|(peer, _)| peer.name.as_str()).collect();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let about = format!(
        "{cores} cores, {}, load {load} · doran {}, {}",
        std::env::consts::OS,
        env!("CARGO_PKG_VERSION"),
        names.join(", ")
    );
    if json {
        eprintln!("{about}");
    } else {
        println!("{about}\n");
    }

    let (url, model) = (server.url.as_str(), format!("paced/{}/200000", pace.pieces));
    let (mut doran, mut floor) = (Side::default(), Side::default());
    // In turns, so that a busy moment of the machine meets all of them.
    for _ in 0..pace.rounds {
        floor.calls.push(clients::floor_calls(url, pace.calls).await?);
        doran.calls.push(clients::doran_calls(url, pace.calls).await?);
        for (peer, side) in &mut peers {
            side.calls.push(peer.measure("calls", url, "whole", pace.calls)?);
        }
    }
    for _ in 0..pace.rounds {
        floor.streams.push(clients::floor_streams(url, &model, STREAMS).await?);
        doran.streams.push(clients::doran_streams(url, &model, STREAMS).await?);
        for (peer, side) in &mut peers {
            side.streams.push(peer.measure("streams", url, &model, STREAMS)?);
        }
    }
    let expected = STREAMS * pace.pieces;
    let sides = peers.iter().map(|(_, side)| side).chain([&doran, &floor]);
    if let Some(lost) = sides.flat_map(|side| &side.streams).find(|round| round.units != expected) {
        return Err(format!("{} pieces came of {expected}", lost.units).into());
    }
    let mut rows = rows(&doran, &floor, &peers).ok_or("nothing was measured")?;
    rows.extend(cancels(url, pace.cancels).await?);
    match json {
        true => rows.iter().for_each(|row| println!("{}", row.json())),
        false => print!("{}", table::table(&rows)),
    }
    let missed: Vec<&str> =
        rows.iter().filter(|row| row.met() == Some(false)).map(|row| row.case.as_str()).collect();
    let asked = rows.iter().filter(|row| row.target.is_some()).count();
    let told = format!("{} of {asked} targets met; MISSED: {}", asked - missed.len(), missed.join(", "));
    eprintln!("{}", if missed.is_empty() { format!("all {asked} targets met") } else { told });
    Ok(())
}

fn rows(doran: &Side, floor: &Side, peers: &[(Peer, Side)]) -> Option<Vec<Row>> {
    let (calls, streams) = (Figures::middle(&doran.calls)?, Figures::middle(&doran.streams)?);
    let (bare_calls, bare) = (Figures::middle(&floor.calls)?, Figures::middle(&floor.streams)?);
    let row = |case: &str, unit, doran, beside: Option<(&str, f64)>, target| Row {
        case: case.to_owned(),
        unit,
        doran,
        beside: beside.map(|(name, figure)| (name.to_owned(), figure)),
        target,
    };
    let mut rows = Vec::new();
    for (case, ours, bare, part) in [
        ("call-p50", calls, bare_calls, (|all: &Figures| all.p50_us) as fn(&Figures) -> f64),
        ("call-p99", calls, bare_calls, |all| all.p99_us),
        ("call-cpu", calls, bare_calls, |all| all.cpu_us),
        ("stream500-p50", streams, bare, |all| all.p50_us),
        ("stream500-p99", streams, bare, |all| all.p99_us),
        ("stream500-cpu", streams, bare, |all| all.cpu_us),
    ] {
        let unit = match case {
            "call-cpu" => "cpu us/call",
            "stream500-cpu" => "cpu us/chunk",
            _ => "us",
        };
        for (peer, side) in peers {
            let theirs = Figures::middle(if case.starts_with("call") { &side.calls } else { &side.streams })?;
            let python = peer.name.contains("Python");
            let target = (case == "stream500-cpu" && python).then_some(Target::TimesLess(10.0));
            rows.push(row(case, unit, part(&ours), Some((&peer.name, part(&theirs))), target));
        }
        rows.push(row(case, unit, part(&ours), Some(("bare sockets", part(&bare))), None));
    }
    let added = |ours: f64, bare: f64| (ours - bare).max(0.0);
    rows.push(row("call-p50-added", "us", added(calls.p50_us, bare_calls.p50_us), None, None));
    rows.push(row("stream500-p50-added", "us", added(streams.p50_us, bare.p50_us), None, None));
    let p99 = added(streams.p99_us, bare.p99_us);
    rows.push(row("stream500-p99-added", "us", p99, None, Some(Target::AtMost(1_000.0))));
    Some(rows)
}

/// From the moment a stream is dropped to the moment its vendor sees the connection closed.
async fn cancels(url: &str, count: usize) -> Result<Option<Row>, Fail> {
    let dropped = clients::doran_cancels(url, count).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut closed = clients::hung_up(url).await?;
    closed.sort();
    if closed.len() != count {
        return Err(format!("{} of {count} streams were given up", closed.len()).into());
    }
    let mut waits: Vec<Duration> =
        closed.iter().zip(&dropped).map(|(closed, dropped)| closed.saturating_sub(*dropped)).collect();
    waits.sort();
    let slowest = waits.last().copied().unwrap_or_default();
    eprintln!("bench: of {count} cancels the slowest took {} us", figure(micros(slowest)));
    let p99 = waits[(count * 99 / 100).min(count - 1)];
    Ok(Some(Row {
        case: "cancel-p99".into(),
        unit: "us",
        doran: micros(p99),
        beside: None,
        target: Some(Target::AtMost(100_000.0)),
    }))
}

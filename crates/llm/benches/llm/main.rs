//! `./x bench llm`: what asking a model costs beside what the model itself takes, with the `openai` client of Python and
//! `async-openai` doing the same in the same run. What is measured and how to read it is told in `bench/README.md`.
//!
//! ```text
//! llm [--quick] [--json] [CASE…]      only cases whose name begins with one of these
//! ```

#[path = "../../../../bench/mod.rs"]
#[allow(dead_code, reason = "each bench uses a part")]
mod shared;

mod in_process_clients;
mod measurements;
mod peer_processes;
mod vendor_server;

use std::process::ExitCode;
use std::time::Duration;

use crate::arguments::BenchArguments;
use crate::measurements::{ClientFigures, micros};
use crate::peer_processes::{PeerClient, VendorServerProcess};
use crate::shared::{arguments, machine, peer, table, times};
use crate::table::{Report, Row, Target, figure};

pub(crate) type LlmBenchError = Box<dyn std::error::Error + Send + Sync>;

/// Streams side by side.
pub(crate) const CONCURRENT_STREAMS: usize = 500;

/// The first pieces of a stream come while others connect, and are not counted. The peers do the same.
pub(crate) const WARM_UP_PIECES: usize = 3;

/// Calls before those that are measured. The peers do the same.
pub(crate) const WARM_UP_CALLS: usize = 20;

struct LlmBenchScale {
    rounds: usize,
    calls: usize,
    /// Pieces of a stream; one every fifth of a second.
    pieces: usize,
    cancels: usize,
}

const FULL_SCALE: LlmBenchScale = LlmBenchScale { rounds: 5, calls: 500, pieces: 25, cancels: 300 };
const QUICK_SCALE: LlmBenchScale = LlmBenchScale { rounds: 1, calls: 100, pieces: 8, cancels: 50 };

fn main() -> ExitCode {
    arguments::start("llm", &["--serve"], async |asked: BenchArguments| {
        if asked.has("--serve") { vendor_server::serve().await } else { run_bench(&asked).await }
    })
}

/// What was measured of one client.
#[derive(Default)]
struct ClientMeasurements {
    calls: Vec<ClientFigures>,
    streams: Vec<ClientFigures>,
}

async fn run_bench(asked: &BenchArguments) -> Result<(), LlmBenchError> {
    let pace = if asked.quick { QUICK_SCALE } else { FULL_SCALE };
    let server = VendorServerProcess::start()?;
    let mut peers: Vec<(PeerClient, ClientMeasurements)> = Vec::new();
    for (what, started) in
        [("THE OPENAI CLIENT OF PYTHON", PeerClient::python()), ("ASYNC-OPENAI", PeerClient::rust())]
    {
        match started {
            Ok(peer) => peers.push((peer, ClientMeasurements::default())),
            Err(error) => {
                eprintln!("bench: {what} IS MISSING, its figures are left out: {error}");
                eprintln!("bench: 비교 대상을 실행할 수 없어 그 수치는 비워 둡니다.");
            }
        }
    }
    let names: Vec<String> = peers.iter().map(|(peer, _)| peer.name.clone()).collect();
    let mut report = Report::begin("llm", asked.json, &machine::about(&names));

    let (url, model) = (server.url.as_str(), format!("paced/{}/200000", pace.pieces));
    let (mut doran, mut floor) = (ClientMeasurements::default(), ClientMeasurements::default());
    // In turns, so that a busy moment of the machine meets all of them.
    for _ in 0..pace.rounds {
        if asked.wants("call") {
            floor.calls.push(in_process_clients::floor_calls(url, pace.calls).await?);
            doran.calls.push(in_process_clients::doran_calls(url, pace.calls).await?);
            for (peer, side) in &mut peers {
                side.calls.push(peer.measure("calls", url, "whole", pace.calls)?);
            }
        }
    }
    for _ in 0..pace.rounds {
        if asked.wants("stream500") {
            floor.streams.push(in_process_clients::floor_streams(url, &model, CONCURRENT_STREAMS).await?);
            doran.streams.push(in_process_clients::doran_streams(url, &model, CONCURRENT_STREAMS).await?);
            for (peer, side) in &mut peers {
                side.streams.push(peer.measure("streams", url, &model, CONCURRENT_STREAMS)?);
            }
        }
    }
    let expected = CONCURRENT_STREAMS * pace.pieces;
    let sides = peers.iter().map(|(_, side)| side).chain([&doran, &floor]);
    if let Some(lost) = sides.flat_map(|side| &side.streams).find(|round| round.units != expected) {
        return Err(format!("{} pieces came of {expected}", lost.units).into());
    }
    for what in [CALL_CASE, STREAM_CASE] {
        report_case(&mut report, &what, &doran, &floor, &peers);
    }
    if asked.wants("cancel") {
        report.push(measure_cancels(url, pace.cancels).await?);
    }
    report.end();
    Ok(())
}

/// One of the two things that every client does.
struct LlmBenchCase {
    name: &'static str,
    cpu: &'static str,
    figures: fn(&ClientMeasurements) -> &[ClientFigures],
    /// How many times less processor time than Python's client is asked for, and how many microseconds may be added to
    /// the slowest hundredth.
    targets: Option<(f64, f64)>,
}

const CALL_CASE: LlmBenchCase =
    LlmBenchCase { name: "call", cpu: "cpu us/call", figures: |side| &side.calls, targets: None };
const STREAM_CASE: LlmBenchCase = LlmBenchCase {
    name: "stream500",
    cpu: "cpu us/chunk",
    figures: |side| &side.streams,
    targets: Some((10.0, 1_000.0)),
};

fn report_case(
    report: &mut Report,
    what: &LlmBenchCase,
    doran: &ClientMeasurements,
    floor: &ClientMeasurements,
    peers: &[(PeerClient, ClientMeasurements)],
) {
    let middle = |side: &ClientMeasurements| ClientFigures::median_of_rounds((what.figures)(side));
    let (Some(ours), Some(bare)) = (middle(doran), middle(floor)) else { return };
    let parts: [(&str, &str, fn(&ClientFigures) -> f64); 3] = [
        ("p50", "us", |all| all.p50_us),
        ("p99", "us", |all| all.p99_us),
        ("cpu", what.cpu, |all| all.cpu_us),
    ];
    for (part, unit, of) in parts {
        let row = || Row::less(format!("{}-{part}", what.name), unit, of(&ours));
        for (peer, side) in peers {
            let asked = what.targets.filter(|_| part == "cpu" && peer.name.contains("Python"));
            let target = asked.map(|(times, _)| Target::RatioAtLeast(times));
            report.push(row().peer(&peer.name, middle(side).map(|theirs| of(&theirs))).target(target));
        }
        report.push(row().floor("bare sockets", of(&bare)));
    }
    for (part, _, of) in &parts[..2] {
        let asked = what.targets.filter(|_| *part == "p99");
        let row = Row::less(format!("{}-{part}-added", what.name), "us", (of(&ours) - of(&bare)).max(0.0));
        report.push(row.target(asked.map(|(_, limit)| Target::ValueAtMost(limit))));
    }
}

/// From the moment a stream is dropped to the moment its vendor sees the connection closed.
async fn measure_cancels(url: &str, count: usize) -> Result<Row, LlmBenchError> {
    let dropped = in_process_clients::doran_cancels(url, count).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut closed = in_process_clients::fetch_hang_up_times(url).await?;
    closed.sort();
    if closed.len() != count {
        return Err(format!("{} of {count} streams were given up", closed.len()).into());
    }
    let waits: Vec<f64> = closed
        .iter()
        .zip(&dropped)
        .map(|(closed, dropped)| micros(closed.saturating_sub(*dropped)))
        .collect();
    eprintln!("bench: of {count} cancels the slowest took {} us", figure(times::at(&waits, 1.0)));
    Ok(Row::less("cancel-p99", "us", times::at(&waits, 0.99)).target(Target::ValueAtMost(100_000.0)))
}

//! `./x bench server`: what a request costs, beside FastAPI with LangGraph and beside `langgraph dev`. What is measured
//! and how to read it is described in `bench/README.md`.
//!
//! ```text
//! server [--quick] [--json] [CASE…]      only cases whose name begins with one of these
//! ```
//!
//! The measured server is this program again, started with `--serve STORE`, so that the load comes from outside its
//! process on both sides. Start-up and memory are those of the program `doran`, when `DORAN_BENCH_PROGRAM` names it.

#[path = "../../../../bench/mod.rs"]
#[allow(dead_code, reason = "each bench uses a part")]
mod shared;

mod graph;
mod load;
mod measured_server;

use std::process::ExitCode;
use std::time::Duration;

use tokio::time::timeout;

use crate::arguments::BenchArguments;
use crate::load::RequestTimes;
use crate::measured_server::{MeasuredServer, MeasuredServerKind, ServerBenchSetup, ServerBenchStore};
use crate::shared::{arguments, machine, peer, table, times};
use crate::table::{Report, Row, Target};

pub(crate) type ServerBenchError = Box<dyn std::error::Error + Send + Sync>;

/// Clients at a time.
const CLIENT_COUNTS: [usize; 3] = [1, 16, 64];
/// Streams in which nothing happens.
const IDLE_STREAMS: usize = 5_000;

fn main() -> ExitCode {
    arguments::start("server", &["--serve"], async |asked: BenchArguments| match asked.cases.as_slice() {
        [store] if asked.has("--serve") => graph::serve(store).await,
        _ => bench(asked).await,
    })
}

/// How long to look.
struct ServerBenchPace {
    rounds: usize,
    slice: Duration,
    first_tokens: usize,
    starts: usize,
    idle: usize,
}

impl ServerBenchPace {
    const FULL: Self =
        Self { rounds: 3, slice: Duration::from_secs(3), first_tokens: 200, starts: 7, idle: IDLE_STREAMS };
    const QUICK: Self =
        Self { rounds: 1, slice: Duration::from_millis(600), first_tokens: 20, starts: 2, idle: 500 };
}

async fn bench(asked: BenchArguments) -> Result<(), ServerBenchError> {
    let ground = ServerBenchSetup::new()?;
    if ground.postgres.is_none() {
        eprintln!("bench: POSTGRESQL IS MISSING, its rows are left out. ./x bench server starts one.");
        eprintln!("bench: PostgreSQL 이 없어 그 줄은 빠집니다. ./x bench server 가 서버를 띄웁니다.");
    }
    if ground.python.is_none() {
        eprintln!("bench: FASTAPI AND LANGGRAPH ARE MISSING, their figures are left out.");
        eprintln!("bench: FastAPI 와 LangGraph 가 없어 그 수치는 비워 둡니다.");
    }
    let mut besides: Vec<String> = ground.postgres.iter().map(|_| "PostgreSQL".to_owned()).collect();
    besides.push(peer_versions(&ground).await.unwrap_or_else(|| "no peer".to_owned()));
    let pace = if asked.quick { ServerBenchPace::QUICK } else { ServerBenchPace::FULL };
    let report = Report::begin("server", asked.json, &machine::about(&besides));
    let mut bench = ServerBench { asked, pace, ground, report };
    for home in ServerBenchStore::ALL {
        if home != ServerBenchStore::Postgres || bench.ground.postgres.is_some() {
            bench.bench_store(home).await?;
        }
    }
    bench.bench_langgraph_dev().await?;
    bench.bench_program().await?;
    bench.bench_idle_streams().await?;
    bench.report.end();
    Ok(())
}

/// What the peers say they are.
async fn peer_versions(ground: &ServerBenchSetup) -> Option<String> {
    let names = "import sys; from importlib.metadata import version as v; print(', '.join(f'{n} {v(n)}' for n in ('fastapi', 'uvicorn', 'langgraph', 'langgraph-api')), 'on Python', sys.version.split()[0])";
    let text =
        tokio::process::Command::new(ground.python.as_ref()?).args(["-c", names]).output().await.ok()?;
    Some(String::from_utf8_lossy(&text.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}

struct ServerBench {
    asked: BenchArguments,
    pace: ServerBenchPace,
    ground: ServerBenchSetup,
    report: Report,
}

impl ServerBench {
    /// Starts a side, or says loudly why its figures are missing.
    async fn start(
        &self,
        kind: MeasuredServerKind,
        home: ServerBenchStore,
    ) -> Result<Option<MeasuredServer>, ServerBenchError> {
        if kind != MeasuredServerKind::Doran && self.ground.python.is_none() {
            return Ok(None);
        }
        match MeasuredServer::start(kind, home, &self.ground).await {
            Ok(side) => Ok(Some(side)),
            Err(error) if kind != MeasuredServerKind::Doran => {
                eprintln!("bench: {} on {} WAS NOT MEASURED: {error}", kind.name(), home.name());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Requests and first tokens with one store, both sides in turns, so that a busy moment slows both.
    async fn bench_store(&mut self, home: ServerBenchStore) -> Result<(), ServerBenchError> {
        let store = home.name();
        let crowds: Vec<usize> = CLIENT_COUNTS
            .into_iter()
            .filter(|crowd| self.asked.wants(&format!("chat{crowd}/{store}")))
            .collect();
        let first = format!("first-token/{store}");
        if crowds.is_empty() && !self.asked.wants(&first) {
            return Ok(());
        }
        let Some(doran) = self.start(MeasuredServerKind::Doran, home).await? else { return Ok(()) };
        let peer = self.start(MeasuredServerKind::FastApi, home).await?;
        for crowd in crowds {
            eprintln!("bench: chat{crowd}/{store}");
            let (mut ours, mut theirs) = (RequestTimes::default(), RequestTimes::default());
            for _ in 0..self.pace.rounds {
                ours.add(load::measure_clients(&doran.endpoint, crowd, self.pace.slice).await?);
                if let Some(peer) = &peer {
                    theirs.add(load::measure_clients(&peer.endpoint, crowd, self.pace.slice).await?);
                }
            }
            let theirs = peer.as_ref().map(|_| &theirs);
            let targets = if crowd == 1 { None } else { Some(20.0) };
            self.chat_rows(
                &format!("chat{crowd}/{store}"),
                MeasuredServerKind::FastApi,
                &ours,
                theirs,
                targets,
            );
        }
        if self.asked.wants(&first) {
            eprintln!("bench: {first}");
            let count = self.pace.first_tokens;
            let ours = load::first_tokens(&doran.endpoint, count).await?;
            let theirs = match &peer {
                Some(peer) => Some(load::first_tokens(&peer.endpoint, count.min(50)).await?),
                None => None,
            };
            let name = MeasuredServerKind::FastApi.name();
            let row = Row::less(first, "ms p50", times::at(&ours, 0.5))
                .peer(name, theirs.map(|theirs| times::at(&theirs, 0.5)));
            self.report.push(row.target(Target::ValueAtMost(5.0)));
        }
        if let Some(peer) = peer {
            peer.kill().await;
        }
        doran.kill().await;
        Ok(())
    }

    fn chat_rows(
        &mut self,
        case: &str,
        kind: MeasuredServerKind,
        ours: &RequestTimes,
        theirs: Option<&RequestTimes>,
        least: Option<f64>,
    ) {
        let name = kind.name();
        let rate = Row::more(case, "requests/s", ours.rate())
            .peer(name, theirs.map(RequestTimes::rate))
            .best(ours.best, theirs.map(|theirs| theirs.best));
        self.report.push(rate.target(least.map(Target::RatioAtLeast)));
        for (what, share) in [("p50", 0.5), ("p99", 0.99)] {
            let row = Row::less(format!("{case}-{what}"), "ms", times::at(&ours.times, share))
                .peer(name, theirs.map(|theirs| times::at(&theirs.times, share)));
            let asked = what == "p99" && least.is_some();
            self.report.push(row.target(asked.then_some(Target::RatioAtLeast(10.0))));
        }
    }

    /// Beside LangGraph's own development server, which keeps everything in memory.
    async fn bench_langgraph_dev(&mut self) -> Result<(), ServerBenchError> {
        if !self.asked.wants("dev") || self.ground.python.is_none() {
            return Ok(());
        }
        let Some(peer) = self.start(MeasuredServerKind::Dev, ServerBenchStore::Ram).await? else {
            return Ok(());
        };
        let Some(doran) = self.start(MeasuredServerKind::Doran, ServerBenchStore::Ram).await? else {
            return Ok(());
        };
        for crowd in [1, 16] {
            eprintln!("bench: dev{crowd}/ram");
            let (mut ours, mut theirs) = (RequestTimes::default(), Some(RequestTimes::default()));
            for _ in 0..self.pace.rounds {
                ours.add(load::measure_clients(&doran.endpoint, crowd, self.pace.slice).await?);
                // It has been seen to stop answering for good.
                let patience = self.pace.slice * 10;
                let taken = match theirs.is_some() {
                    true => {
                        timeout(patience, load::measure_clients(&peer.endpoint, crowd, self.pace.slice)).await
                    }
                    false => continue,
                };
                match (taken, &mut theirs) {
                    (Ok(Ok(taken)), Some(theirs)) => theirs.add(taken),
                    _ => {
                        eprintln!("bench: dev{crowd}/ram: IT STOPPED ANSWERING, its figures are left out");
                        eprintln!("bench: dev{crowd}/ram: 응답이 멈춰 그 수치는 비워 둡니다.");
                        theirs = None;
                    }
                }
            }
            self.chat_rows(&format!("dev{crowd}/ram"), MeasuredServerKind::Dev, &ours, theirs.as_ref(), None);
        }
        peer.kill().await;
        doran.kill().await;
        Ok(())
    }

    /// Start-up and memory of the program itself, beside the least that FastAPI with LangGraph takes.
    async fn bench_program(&mut self) -> Result<(), ServerBenchError> {
        if !self.asked.wants("ready") && !self.asked.wants("idle-rss") {
            return Ok(());
        }
        if self.ground.program.is_none() {
            eprintln!(
                "bench: THE PROGRAM IS MISSING, start-up and memory are left out. ./x bench server builds it."
            );
            eprintln!("bench: doran 프로그램이 없어 시작 시간과 메모리를 재지 않습니다.");
            return Ok(());
        }
        eprintln!("bench: ready, idle-rss");
        let ours = self.ground.measure_startup(MeasuredServerKind::Program, self.pace.starts).await?;
        let theirs = match self.ground.python {
            Some(_) => {
                Some(self.ground.measure_startup(MeasuredServerKind::FastApi, self.pace.starts.min(3)).await?)
            }
            None => None,
        };
        let name = MeasuredServerKind::FastApi.name();
        let ready = Row::less("ready", "ms", ours.ready)
            .peer(name, theirs.as_ref().map(|theirs| theirs.ready))
            .best(ours.best, theirs.as_ref().map(|theirs| theirs.best));
        self.report.push(ready.target(Target::ValueAtMost(150.0)));
        let rss = Row::less("idle-rss", "MiB", ours.mib).peer(name, theirs.map(|theirs| theirs.mib));
        self.report.push(rss.target(Target::ValueAtMost(60.0)));
        Ok(())
    }

    /// Memory of streams in which nothing happens.
    async fn bench_idle_streams(&mut self) -> Result<(), ServerBenchError> {
        if !self.asked.wants("idle-stream") {
            return Ok(());
        }
        let count = self.pace.idle;
        eprintln!("bench: idle-stream, {count} of them");
        let mut found = Vec::new();
        for kind in [MeasuredServerKind::Doran, MeasuredServerKind::FastApi] {
            let Some(side) = self.start(kind, ServerBenchStore::Ram).await? else { continue };
            let path = load::start_idle_run(&side.endpoint).await?;
            // What the first streams set up once belongs to nobody's stream.
            let few = load::open_idle_streams(&side.endpoint, &path, 50).await?;
            let before = side.resident_bytes()?;
            let held = load::open_idle_streams(&side.endpoint, &path, count).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let after = side.resident_bytes()?;
            found.push((after.saturating_sub(before)) as f64 / count as f64 / 1000.0);
            drop((few, held));
            side.kill().await;
        }
        if let Some(ours) = found.first() {
            let row = Row::less(format!("idle-stream/{count}"), "kB each", *ours)
                .peer(MeasuredServerKind::FastApi.name(), found.get(1).copied());
            self.report.push(row.target(Target::ValueAtMost(30.0)));
        }
        Ok(())
    }
}

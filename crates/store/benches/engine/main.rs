//! `./x bench engine`: what the engine costs, beside LangGraph and beside the bare database. What is measured and how
//! to read it is told in `bench/README.md`.
//!
//! ```text
//! engine [--quick] [--json] [CASE…]      only cases whose name begins with one of these
//! ```

#[path = "../../../../bench/mod.rs"]
#[allow(dead_code, reason = "each bench uses a part")]
mod shared;

mod bench_stores;
mod database_floor;
mod flat_costs;
mod growing_thread;
mod langgraph;
mod measurement;
mod node_cases;

use std::process::ExitCode;
use std::time::Duration;

use crate::arguments::BenchArguments;
use crate::bench_stores::{EngineBenchDatabases, EngineBenchStoreKind, connect_plain};
use crate::langgraph::LangGraphEnginePeer;
use crate::measurement::EngineBenchSlices;
use crate::node_cases::NodeBenchCase;
use crate::shared::{arguments, machine, peer, table, times};
use crate::table::{Report, Row, Target};
use crate::times::median;

pub(crate) type EngineBenchError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    arguments::start("engine", &[], run_benches)
}

/// How long to look.
struct EngineBenchPace {
    rounds: usize,
    doran_time: Duration,
    peer_time: Duration,
    /// A log that is written to for the first time is slower than one that is written over, so a disk needs longer.
    doran_disk_time: Duration,
    peer_disk_time: Duration,
    floor_time: Duration,
    crowd_rounds: usize,
    peer_turns: &'static [usize],
    peer_thread_time: Duration,
    thread_stores: &'static [EngineBenchStoreKind],
    /// The threads that a database is filled with.
    flat_threads: &'static [(EngineBenchStoreKind, u64)],
}

impl EngineBenchPace {
    const FULL: Self = Self {
        rounds: 5,
        doran_time: Duration::from_millis(300),
        peer_time: Duration::from_millis(600),
        doran_disk_time: Duration::from_millis(600),
        peer_disk_time: Duration::from_millis(1000),
        floor_time: Duration::from_secs(8),
        crowd_rounds: 5,
        peer_turns: &[10, 100, 400],
        peer_thread_time: Duration::from_secs(60),
        thread_stores: &[EngineBenchStoreKind::Sqlite, EngineBenchStoreKind::Postgres],
        flat_threads: &[(EngineBenchStoreKind::Sqlite, 100_000), (EngineBenchStoreKind::Postgres, 1_000_000)],
    };
    const QUICK: Self = Self {
        rounds: 2,
        doran_time: Duration::from_millis(100),
        peer_time: Duration::from_millis(100),
        doran_disk_time: Duration::from_millis(200),
        peer_disk_time: Duration::from_millis(100),
        floor_time: Duration::from_millis(1500),
        crowd_rounds: 2,
        peer_turns: &[10, 100],
        peer_thread_time: Duration::from_secs(5),
        thread_stores: &[EngineBenchStoreKind::Sqlite],
        flat_threads: &[(EngineBenchStoreKind::Sqlite, 20_000), (EngineBenchStoreKind::Postgres, 20_000)],
    };
}

async fn run_benches(asked: BenchArguments) -> Result<(), EngineBenchError> {
    let ground =
        EngineBenchDatabases::new(std::env::var("DORAN_TEST_POSTGRES").ok().filter(|url| !url.is_empty()))?;
    let peer = LangGraphEnginePeer::start()
        .inspect_err(|error| {
            eprintln!("bench: LANGGRAPH IS MISSING, its figures are left out: {error}");
            eprintln!("bench: LangGraph 를 실행할 수 없어 그 수치는 비워 둡니다.");
        })
        .ok();
    if ground.postgres.is_none() {
        eprintln!("bench: POSTGRESQL IS MISSING, its rows are left out. ./x bench engine starts one.");
        eprintln!("bench: PostgreSQL 이 없어 그 줄은 빠집니다. ./x bench engine 이 서버를 띄웁니다.");
    }
    let about = machine::about(&measured_versions(peer.as_ref(), &ground).await?);
    let pace = if asked.quick { EngineBenchPace::QUICK } else { EngineBenchPace::FULL };
    let report = Report::begin("engine", asked.json, &about);
    let mut bench = EngineBench { options: asked, pace, databases: ground, peer, report };
    bench.bench_nodes().await?;
    bench.bench_floors().await?;
    bench.bench_threads().await?;
    bench.bench_cold_loads().await?;
    bench.bench_flat_costs().await?;
    bench.report.end();
    Ok(())
}

/// What is measured, with versions.
async fn measured_versions(
    peer: Option<&LangGraphEnginePeer>,
    ground: &EngineBenchDatabases,
) -> Result<Vec<String>, EngineBenchError> {
    let mut versions = vec![format!("SQLite {}", rusqlite::version())];
    if let Some(url) = &ground.postgres {
        let row = connect_plain(url).await?.query_one("SHOW server_version", &[]).await?;
        let version: String = row.get(0);
        versions.push(format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default()));
    }
    versions.push(match peer {
        Some(peer) => format!("{} on Python {}", peer.name, peer.python),
        None => "no LangGraph".to_owned(),
    });
    Ok(versions)
}

struct EngineBench {
    options: BenchArguments,
    pace: EngineBenchPace,
    databases: EngineBenchDatabases,
    peer: Option<LangGraphEnginePeer>,
    report: Report,
}

impl EngineBench {
    fn has_store(&self, kind: EngineBenchStoreKind) -> bool {
        kind != EngineBenchStoreKind::Postgres || self.databases.postgres.is_some()
    }

    fn peer_name(&self) -> String {
        self.peer.as_ref().map(|peer| peer.name.clone()).unwrap_or_default()
    }

    async fn bench_nodes(&mut self) -> Result<(), EngineBenchError> {
        for kind in EngineBenchStoreKind::ALL {
            for case in NodeBenchCase::ALL {
                let name = format!("{}/{}", case.name(), kind.name());
                if self.has_store(kind) && self.options.wants(&name) {
                    self.bench_node_case(case, kind, name).await?;
                }
            }
        }
        Ok(())
    }

    /// Both sides in turns, so that a busy moment of the machine slows both.
    async fn bench_node_case(
        &mut self,
        case: NodeBenchCase,
        kind: EngineBenchStoreKind,
        name: String,
    ) -> Result<(), EngineBenchError> {
        eprintln!("bench: {name}");
        let pace = &self.pace;
        let (doran_time, peer_time) = if kind.on_disk() {
            (pace.doran_disk_time, pace.peer_disk_time)
        } else {
            (pace.doran_time, pace.peer_time)
        };
        let (mut doran, mut peer) = (EngineBenchSlices::default(), EngineBenchSlices::default());
        for _ in 0..pace.rounds {
            doran.push(node_cases::measure_case(case, kind, &self.databases, doran_time).await?);
            if let Some(other) = &mut self.peer {
                match other.measure_nodes(case.name(), kind, &self.databases, peer_time) {
                    Ok(slice) => peer.push(slice),
                    Err(error) => eprintln!("bench: {name}: LANGGRAPH WAS NOT MEASURED: {error}"),
                }
            }
        }
        let Some(doran) = doran.median_slice() else { return Ok(()) };
        let (peer, langgraph) = (peer.median_slice(), self.peer_name());
        let mut wall = Row::less(name.clone(), "us/node", doran.wall)
            .peer(&langgraph, peer.map(|peer| peer.wall))
            .best(doran.best, peer.map(|peer| peer.best));
        let mut cpu = Row::less(format!("{name}-cpu"), "cpu us/node", doran.cpu)
            .peer(&langgraph, peer.map(|peer| peer.cpu));
        match kind {
            EngineBenchStoreKind::None => wall = wall.target(Target::RatioAtLeast(200.0)),
            EngineBenchStoreKind::Ram => wall = wall.target(Target::RatioAtLeast(250.0)),
            EngineBenchStoreKind::Sqlite => cpu = cpu.target(Target::RatioAtLeast(10.0)),
            EngineBenchStoreKind::Postgres => {}
        }
        self.report.push(wall);
        self.report.push(cpu);
        Ok(())
    }

    async fn bench_floors(&mut self) -> Result<(), EngineBenchError> {
        let floors = [
            (EngineBenchStoreKind::Sqlite, "loop100/sqlite-floor", "bare sqlite commit", 1.3),
            (EngineBenchStoreKind::Postgres, "loop100/postgres-floor", "bare postgres insert", 1.5),
        ];
        for (kind, name, beside, most) in floors {
            if !self.has_store(kind) || !self.options.wants(name) {
                continue;
            }
            eprintln!("bench: {name}");
            if let Some(found) =
                database_floor::compare_with_floor(kind, &self.databases, self.pace.floor_time).await?
            {
                let row = Row::less(name, "us/step", found.doran.wall)
                    .floor(beside, found.floor.wall)
                    .best(found.doran.best, Some(found.floor.best))
                    .target(Target::RatioAtMost(most));
                self.report.push(row);
                let cpu = Row::less(format!("{name}-cpu"), "cpu us/step", found.doran.cpu);
                self.report.push(cpu.floor(beside, found.floor.cpu));
                eprintln!("bench: {name}: {} bytes a step", found.bytes);
            }
        }
        for kind in [EngineBenchStoreKind::Sqlite, EngineBenchStoreKind::Postgres] {
            let name = format!("steps64/{}", kind.name());
            if !self.has_store(kind) || !self.options.wants(&name) {
                continue;
            }
            eprintln!("bench: {name}");
            let rates =
                database_floor::steps_at_once(kind, &self.databases, 64, self.pace.crowd_rounds).await?;
            let best = rates.iter().copied().fold(0.0, f64::max);
            let mut row = Row::more(name, "steps/s", median(rates).unwrap_or_default()).best(best, None);
            if kind == EngineBenchStoreKind::Sqlite {
                row = row.target(Target::ValueAtLeast(2000.0));
            }
            self.report.push(row);
        }
        Ok(())
    }

    async fn bench_threads(&mut self) -> Result<(), EngineBenchError> {
        for kind in self.pace.thread_stores {
            if self.has_store(*kind) && self.options.wants("thread") {
                self.bench_thread(*kind).await?;
            }
        }
        Ok(())
    }

    /// A conversation of 32,000 messages by a runtime that knows nothing of it.
    async fn bench_cold_loads(&mut self) -> Result<(), EngineBenchError> {
        for kind in [EngineBenchStoreKind::Sqlite, EngineBenchStoreKind::Postgres] {
            let name = format!("cold{}/{}", growing_thread::COLD_MESSAGES, kind.name());
            if !self.has_store(kind) || !self.options.wants(&name) {
                continue;
            }
            eprintln!("bench: {name}");
            let found = growing_thread::load_cold_thread(kind, &self.databases).await?;
            let Some((walls, cpus)) = found else { continue };
            let best = walls.iter().copied().fold(f64::INFINITY, f64::min);
            let row = Row::less(name.clone(), "ms", median(walls).unwrap_or_default()).best(best, None);
            self.report.push(row.target(Target::ValueAtMost(25.0)));
            self.report.push(Row::less(format!("{name}-cpu"), "cpu ms", median(cpus).unwrap_or_default()));
        }
        Ok(())
    }

    async fn bench_flat_costs(&mut self) -> Result<(), EngineBenchError> {
        for (kind, many) in self.pace.flat_threads {
            let name = format!("flat{many}/{}", kind.name());
            if !self.has_store(*kind) || !self.options.wants(&name) {
                continue;
            }
            eprintln!("bench: {name}");
            let found = flat_costs::compare_thread_counts(*kind, &self.databases, *many).await?;
            let Some([few, many]) = found else { continue };
            for ((call, few), (_, many)) in few.into_iter().zip(many) {
                let beside = format!("doran, {} threads", flat_costs::FEW_THREADS);
                let row = Row::less(format!("{name}-{call}"), "us/call", many).floor(&beside, few);
                self.report.push(row.target(Target::RatioAtMost(2.0)));
            }
        }
        Ok(())
    }

    async fn bench_thread(&mut self, kind: EngineBenchStoreKind) -> Result<(), EngineBenchError> {
        let store = kind.name();
        eprintln!("bench: thread/{store}");
        let Some(grown) = growing_thread::grow_thread(kind, &self.databases, &[10, 100, 1000]).await? else {
            return Ok(());
        };
        let pace = &self.pace;
        let mut peers = Vec::new();
        if let Some(other) = &mut self.peer {
            eprintln!("bench: thread/{store}, LangGraph");
            match other.measure_thread(kind, &self.databases, pace.peer_turns, pace.peer_thread_time) {
                Ok(marks) => peers = marks,
                Err(error) => eprintln!("bench: thread/{store}: LANGGRAPH WAS NOT MEASURED: {error}"),
            }
        }
        let langgraph = self.peer_name();
        let last = grown.marks.last().copied();
        for mark in &grown.marks {
            let same = peers.iter().find(|peer| peer.turns == mark.turns);
            let name = |what: &str| format!("thread{}/{store}-{what}", mark.turns);
            self.report
                .push(Row::less(name("ms"), "ms/turn", mark.ms).peer(&langgraph, same.map(|peer| peer.ms)));
            let bytes = Row::less(name("bytes"), "bytes", mark.bytes as f64);
            self.report.push(bytes.peer(&langgraph, same.map(|peer| peer.bytes as f64)));
        }
        // Where only the peer was looked at: further than a fair share of time, and cut short when it ran out.
        for peer in peers.iter().filter(|peer| !grown.marks.iter().any(|mark| mark.turns == peer.turns)) {
            eprintln!(
                "bench: LangGraph after {} turns: {} bytes, {:.1} ms a turn",
                peer.turns, peer.bytes, peer.ms
            );
        }
        let Some(last) = last else { return Ok(()) };
        let name = |what: &str| format!("thread{}/{store}-{what}", last.turns);
        let raw = (last.turns as u64 * growing_thread::TURN_BYTES) as f64;
        let own_bytes = last.bytes.saturating_sub(grown.empty_bytes);
        let disk = Row::less(name("disk"), "bytes", own_bytes as f64).floor("raw message bytes", raw);
        self.report.push(disk.target(Target::RatioAtMost(2.0)));
        let flat = Row::less(name("flat"), "ms/turn", grown.late).floor("doran, first 10 turns", grown.early);
        self.report.push(flat.target(Target::RatioAtMost(1.2)));
        self.report.push(Row::less(name("cold"), "ms", grown.cold));
        if let Some(syncs) = grown.syncs {
            self.report.push(Row::less(name("syncs"), "syncs/turn", syncs));
        }
        Ok(())
    }
}

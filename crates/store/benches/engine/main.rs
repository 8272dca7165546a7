//! `./x bench engine`: what the engine costs, beside LangGraph and beside the bare database. What is measured and how
//! to read it is told in `bench/README.md`.
//!
//! ```text
//! engine [--quick] [--json] [CASE…]      only cases whose name begins with one of these
//! ```

#[path = "../../../../bench/mod.rs"]
#[allow(dead_code, reason = "each bench uses a part")]
mod shared;

mod cases;
mod floor;
mod homes;
mod langgraph;
mod meter;
mod thread;

use std::process::ExitCode;
use std::time::Duration;

use crate::asked::Asked;
use crate::cases::Case;
use crate::homes::{Ground, Home, connect};
use crate::langgraph::LangGraph;
use crate::meter::Side;
use crate::shared::{asked, machine, peer, table, times};
use crate::table::{Report, Row, Target};
use crate::times::median;

pub(crate) type Fail = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    asked::start("engine", &[], bench)
}

/// How long to look.
struct Pace {
    rounds: usize,
    doran: Duration,
    peer: Duration,
    /// A log that is written to for the first time is slower than one that is written over, so a disk needs longer.
    doran_disk: Duration,
    peer_disk: Duration,
    floor: Duration,
    crowds: usize,
    peer_turns: &'static [usize],
    peer_thread: Duration,
    thread_homes: &'static [Home],
}

impl Pace {
    const WHOLE: Self = Self {
        rounds: 5,
        doran: Duration::from_millis(300),
        peer: Duration::from_millis(600),
        doran_disk: Duration::from_millis(600),
        peer_disk: Duration::from_millis(1000),
        floor: Duration::from_secs(8),
        crowds: 5,
        peer_turns: &[10, 100, 400],
        peer_thread: Duration::from_secs(60),
        thread_homes: &[Home::Sqlite, Home::Postgres],
    };
    const QUICK: Self = Self {
        rounds: 2,
        doran: Duration::from_millis(100),
        peer: Duration::from_millis(100),
        doran_disk: Duration::from_millis(200),
        peer_disk: Duration::from_millis(100),
        floor: Duration::from_millis(1500),
        crowds: 2,
        peer_turns: &[10, 100],
        peer_thread: Duration::from_secs(5),
        thread_homes: &[Home::Sqlite],
    };
}

async fn bench(asked: Asked) -> Result<(), Fail> {
    let ground = Ground::new(std::env::var("DORAN_TEST_POSTGRES").ok().filter(|url| !url.is_empty()))?;
    let peer = LangGraph::start()
        .inspect_err(|error| {
            eprintln!("bench: LANGGRAPH IS MISSING, its figures are left out: {error}");
            eprintln!("bench: LangGraph 를 실행할 수 없어 그 수치는 비워 둡니다.");
        })
        .ok();
    if ground.postgres.is_none() {
        eprintln!("bench: POSTGRESQL IS MISSING, its rows are left out. ./x bench engine starts one.");
        eprintln!("bench: PostgreSQL 이 없어 그 줄은 빠집니다. ./x bench engine 이 서버를 띄웁니다.");
    }
    let about = machine::about(&measured(peer.as_ref(), &ground).await?);
    let pace = if asked.quick { Pace::QUICK } else { Pace::WHOLE };
    let report = Report::begin("engine", asked.json, &about);
    let mut bench = Bench { asked, pace, ground, peer, report };
    bench.nodes().await?;
    bench.floors().await?;
    bench.threads().await?;
    bench.report.end();
    Ok(())
}

/// What is measured, with versions.
async fn measured(peer: Option<&LangGraph>, ground: &Ground) -> Result<Vec<String>, Fail> {
    let mut versions = vec![format!("SQLite {}", rusqlite::version())];
    if let Some(url) = &ground.postgres {
        let row = connect(url).await?.query_one("SHOW server_version", &[]).await?;
        let version: String = row.get(0);
        versions.push(format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default()));
    }
    versions.push(match peer {
        Some(peer) => format!("{} on Python {}", peer.name, peer.python),
        None => "no LangGraph".to_owned(),
    });
    Ok(versions)
}

struct Bench {
    asked: Asked,
    pace: Pace,
    ground: Ground,
    peer: Option<LangGraph>,
    report: Report,
}

impl Bench {
    fn has(&self, home: Home) -> bool {
        home != Home::Postgres || self.ground.postgres.is_some()
    }

    fn peer_name(&self) -> String {
        self.peer.as_ref().map(|peer| peer.name.clone()).unwrap_or_default()
    }

    async fn nodes(&mut self) -> Result<(), Fail> {
        for home in Home::ALL {
            for case in Case::ALL {
                let name = format!("{}/{}", case.name(), home.name());
                if self.has(home) && self.asked.wants(&name) {
                    self.node_case(case, home, name).await?;
                }
            }
        }
        Ok(())
    }

    /// Both sides in turns, so that a busy moment of the machine slows both.
    async fn node_case(&mut self, case: Case, home: Home, name: String) -> Result<(), Fail> {
        eprintln!("bench: {name}");
        let pace = &self.pace;
        let (doran_time, peer_time) =
            if home.on_disk() { (pace.doran_disk, pace.peer_disk) } else { (pace.doran, pace.peer) };
        let (mut doran, mut peer) = (Side::default(), Side::default());
        for _ in 0..pace.rounds {
            doran.push(cases::slice(case, home, &self.ground, doran_time).await?);
            if let Some(other) = &mut self.peer {
                match other.nodes(case.name(), home, &self.ground, peer_time) {
                    Ok(slice) => peer.push(slice),
                    Err(error) => eprintln!("bench: {name}: LANGGRAPH WAS NOT MEASURED: {error}"),
                }
            }
        }
        let Some(doran) = doran.total() else { return Ok(()) };
        let (peer, langgraph) = (peer.total(), self.peer_name());
        let mut wall = Row::less(name.clone(), "us/node", doran.wall)
            .peer(&langgraph, peer.map(|peer| peer.wall))
            .best(doran.best, peer.map(|peer| peer.best));
        let mut cpu = Row::less(format!("{name}-cpu"), "cpu us/node", doran.cpu)
            .peer(&langgraph, peer.map(|peer| peer.cpu));
        match home {
            Home::None | Home::Ram => wall = wall.target(Target::RatioAtLeast(200.0)),
            Home::Sqlite => cpu = cpu.target(Target::RatioAtLeast(10.0)),
            Home::Postgres => {}
        }
        self.report.push(wall);
        self.report.push(cpu);
        Ok(())
    }

    async fn floors(&mut self) -> Result<(), Fail> {
        let floors = [
            (Home::Sqlite, "loop100/sqlite-floor", "bare sqlite commit", 1.3),
            (Home::Postgres, "loop100/postgres-floor", "bare postgres insert", 1.5),
        ];
        for (home, name, beside, most) in floors {
            if !self.has(home) || !self.asked.wants(name) {
                continue;
            }
            eprintln!("bench: {name}");
            if let Some(found) = floor::beside(home, &self.ground, self.pace.floor).await? {
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
        for home in [Home::Sqlite, Home::Postgres] {
            let name = format!("steps64/{}", home.name());
            if !self.has(home) || !self.asked.wants(&name) {
                continue;
            }
            eprintln!("bench: {name}");
            let rates = floor::steps_at_once(home, &self.ground, 64, self.pace.crowds).await?;
            let best = rates.iter().copied().fold(0.0, f64::max);
            let mut row = Row::more(name, "steps/s", median(rates).unwrap_or_default()).best(best, None);
            if home == Home::Sqlite {
                row = row.target(Target::ValueAtLeast(2000.0));
            }
            self.report.push(row);
        }
        Ok(())
    }

    async fn threads(&mut self) -> Result<(), Fail> {
        for home in self.pace.thread_homes {
            if self.has(*home) && self.asked.wants("thread") {
                self.thread(*home).await?;
            }
        }
        Ok(())
    }

    async fn thread(&mut self, home: Home) -> Result<(), Fail> {
        let store = home.name();
        eprintln!("bench: thread/{store}");
        let Some(grown) = thread::grow(home, &self.ground, &[10, 100, 1000]).await? else { return Ok(()) };
        let pace = &self.pace;
        let mut peers = Vec::new();
        if let Some(other) = &mut self.peer {
            eprintln!("bench: thread/{store}, LangGraph");
            match other.thread(home, &self.ground, pace.peer_turns, pace.peer_thread) {
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
        let raw = (last.turns as u64 * thread::TURN) as f64;
        let disk = Row::less(name("disk"), "bytes", last.bytes as f64).floor("raw message bytes", raw);
        self.report.push(disk.target(Target::RatioAtMost(2.0)));
        let flat = Row::less(name("flat"), "ms/turn", grown.late).floor("doran, first 10 turns", grown.early);
        self.report.push(flat.target(Target::RatioAtMost(1.2)));
        self.report.push(Row::less(name("cold"), "ms", grown.cold));
        Ok(())
    }
}

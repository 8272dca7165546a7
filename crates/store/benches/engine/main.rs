//! `./x bench engine`: what the engine costs, beside LangGraph and beside the bare database. What is measured and how
//! to read it is told in `bench/README.md`.
//!
//! ```text
//! engine [--quick] [--json] [CASE…]      only cases whose name begins with one of these
//! ```

mod cases;
mod floor;
mod homes;
mod machine;
mod meter;
mod peer;
mod table;
mod thread;

use std::process::ExitCode;
use std::time::Duration;

use crate::cases::Case;
use crate::homes::{Ground, Home};
use crate::meter::{Side, median};
use crate::peer::Peer;
use crate::table::{Row, Target};

pub(crate) type Fail = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let asked = match Asked::read(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(word) => {
            eprintln!("bench: `{word}` is no option. Use: engine [--quick] [--json] [CASE…]");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(Fail::from).and_then(|runtime| runtime.block_on(bench(&asked))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Asked {
    json: bool,
    pace: Pace,
    cases: Vec<String>,
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

impl Asked {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self { json: false, pace: Pace::WHOLE, cases: Vec::new() };
        for word in words {
            match word.as_str() {
                "--quick" => asked.pace = Pace::QUICK,
                "--json" => asked.json = true,
                // Cargo says so to every benchmark.
                "--bench" => {}
                option if option.starts_with('-') => return Err(word),
                _ => asked.cases.push(word),
            }
        }
        Ok(asked)
    }

    fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| case.starts_with(wanted.as_str()))
    }
}

async fn bench(asked: &Asked) -> Result<(), Fail> {
    let ground = Ground::new(std::env::var("DORAN_TEST_POSTGRES").ok().filter(|url| !url.is_empty()))?;
    let peer = Peer::start()
        .inspect_err(|error| {
            eprintln!("bench: LANGGRAPH IS MISSING, its figures are left out: {error}");
            eprintln!("bench: LangGraph 를 실행할 수 없어 그 수치는 비워 둡니다.");
        })
        .ok();
    if ground.postgres.is_none() {
        eprintln!("bench: POSTGRESQL IS MISSING, its rows are left out. ./x bench engine starts one.");
        eprintln!("bench: PostgreSQL 이 없어 그 줄은 빠집니다. ./x bench engine 이 서버를 띄웁니다.");
    }
    let about = machine::about(peer.as_ref(), &ground).await?;
    if asked.json {
        eprintln!("{about}");
    } else {
        println!("{about}\n");
    }
    let mut bench = Bench { asked, ground, peer, rows: Vec::new() };
    bench.nodes().await?;
    bench.floors().await?;
    bench.threads().await?;
    if !asked.json {
        print!("{}", table::table(&bench.rows));
    }
    bench.verdict();
    Ok(())
}

struct Bench<'a> {
    asked: &'a Asked,
    ground: Ground,
    peer: Option<Peer>,
    rows: Vec<Row>,
}

impl Bench<'_> {
    fn has(&self, home: Home) -> bool {
        home != Home::Postgres || self.ground.postgres.is_some()
    }

    fn row(&mut self, row: Row) {
        if self.asked.json {
            println!("{}", row.json());
        }
        self.rows.push(row);
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
        let pace = &self.asked.pace;
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
        let mut wall = Row::new(name.clone(), "us/node", doran.wall)
            .peer(&langgraph, peer.map(|peer| peer.wall))
            .best(doran.best, peer.map(|peer| peer.best));
        let mut cpu = Row::new(format!("{name}-cpu"), "cpu us/node", doran.cpu)
            .peer(&langgraph, peer.map(|peer| peer.cpu));
        match home {
            Home::None | Home::Ram => wall = wall.target(Target::RatioAtLeast(200.0)),
            Home::Sqlite => cpu = cpu.target(Target::RatioAtLeast(10.0)),
            Home::Postgres => {}
        }
        self.row(wall);
        self.row(cpu);
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
            if let Some(found) = floor::beside(home, &self.ground, self.asked.pace.floor).await? {
                let row = Row::new(name.to_owned(), "us/step", found.doran.wall)
                    .floor(beside, found.floor.wall)
                    .best(found.doran.best, Some(found.floor.best))
                    .target(Target::RatioAtMost(most));
                self.row(row);
                let cpu = Row::new(format!("{name}-cpu"), "cpu us/step", found.doran.cpu);
                self.row(cpu.floor(beside, found.floor.cpu));
                eprintln!("bench: {name}: {} bytes a step", found.bytes);
            }
        }
        for home in [Home::Sqlite, Home::Postgres] {
            let name = format!("steps64/{}", home.name());
            if !self.has(home) || !self.asked.wants(&name) {
                continue;
            }
            eprintln!("bench: {name}");
            let rates = floor::steps_at_once(home, &self.ground, 64, self.asked.pace.crowds).await?;
            let best = rates.iter().copied().fold(0.0, f64::max);
            let mut row = Row::new(name, "steps/s", median(rates).unwrap_or_default()).best(best, None);
            if home == Home::Sqlite {
                row = row.target(Target::ValueAtLeast(2000.0));
            }
            self.row(row);
        }
        Ok(())
    }

    async fn threads(&mut self) -> Result<(), Fail> {
        for home in self.asked.pace.thread_homes {
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
        let pace = &self.asked.pace;
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
            self.row(Row::new(name("ms"), "ms/turn", mark.ms).peer(&langgraph, same.map(|peer| peer.ms)));
            let bytes = Row::new(name("bytes"), "bytes", mark.bytes as f64);
            self.row(bytes.peer(&langgraph, same.map(|peer| peer.bytes as f64)));
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
        let disk = Row::new(name("disk"), "bytes", last.bytes as f64).floor("raw message bytes", raw);
        self.row(disk.target(Target::RatioAtMost(2.0)));
        let flat = Row::new(name("flat"), "ms/turn", grown.late).floor("doran, first 10 turns", grown.early);
        self.row(flat.target(Target::RatioAtMost(1.2)));
        self.row(Row::new(name("cold"), "ms", grown.cold));
        Ok(())
    }

    fn verdict(&self) {
        let missed: Vec<&str> =
            self.rows.iter().filter(|row| row.met() == Some(false)).map(|row| row.case.as_str()).collect();
        let targets = self.rows.iter().filter(|row| row.target.is_some()).count();
        let unknown = self.rows.iter().filter(|row| row.target.is_some() && row.met().is_none()).count();
        let met = targets - missed.len() - unknown;
        let mut text = format!("{met} of {targets} targets met");
        if !missed.is_empty() {
            text.push_str(&format!("; MISSED: {}", missed.join(", ")));
        }
        if unknown > 0 {
            text.push_str(&format!("; {unknown} not measured"));
        }
        if self.asked.json {
            eprintln!("bench: {text}");
        } else {
            println!("\n{text}");
        }
    }
}

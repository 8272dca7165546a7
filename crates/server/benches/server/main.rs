//! `./x bench server`: what a request costs, beside FastAPI with LangGraph and beside `langgraph dev`. What is measured
//! and how to read it is told in `bench/README.md`.
//!
//! ```text
//! server [--quick] [--json] [CASE…]      only cases whose name begins with one of these
//! ```
//!
//! The measured server is this program again, started with `--serve STORE`, so that the load comes from outside its
//! process on both sides. Start-up and memory are those of the program `doran`, when `DORAN_BENCH_PROGRAM` names it.

mod graph;
mod load;
mod machine;
mod side;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use crate::load::Taken;
use crate::side::{Ground, Home, Kind, Side};
use crate::table::{Row, Target};

pub(crate) type Fail = Box<dyn std::error::Error + Send + Sync>;

/// Clients at a time.
const CROWDS: [usize; 3] = [1, 16, 64];
/// Streams in which nothing happens.
const IDLE: usize = 5_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let came = match words.as_slice() {
        [flag, store] if flag == "--serve" => {
            runtime.map_err(Fail::from).and_then(|runtime| runtime.block_on(graph::serve(store)))
        }
        _ => match Asked::read(words) {
            Ok(asked) => runtime.map_err(Fail::from).and_then(|runtime| runtime.block_on(bench(&asked))),
            Err(word) => {
                eprintln!("bench: `{word}` is no option. Use: server [--quick] [--json] [CASE…]");
                return ExitCode::from(2);
            }
        },
    };
    match came {
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
    slice: Duration,
    first_tokens: usize,
    starts: usize,
    idle: usize,
}

impl Pace {
    const WHOLE: Self =
        Self { rounds: 3, slice: Duration::from_secs(3), first_tokens: 200, starts: 7, idle: IDLE };
    const QUICK: Self =
        Self { rounds: 1, slice: Duration::from_millis(600), first_tokens: 20, starts: 2, idle: 500 };
}

impl Asked {
    fn read(words: Vec<String>) -> Result<Self, String> {
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
    let ground = Ground::new()?;
    if ground.postgres.is_none() {
        eprintln!("bench: POSTGRESQL IS MISSING, its rows are left out. ./x bench server starts one.");
        eprintln!("bench: PostgreSQL 이 없어 그 줄은 빠집니다. ./x bench server 가 서버를 띄웁니다.");
    }
    if ground.python.is_none() {
        eprintln!("bench: FASTAPI AND LANGGRAPH ARE MISSING, their figures are left out.");
        eprintln!("bench: FastAPI 와 LangGraph 가 없어 그 수치는 비워 둡니다.");
    }
    let about = machine::about(&ground).await;
    if asked.json {
        eprintln!("{about}");
    } else {
        println!("{about}\n");
    }
    let mut bench = Bench { asked, ground, rows: Vec::new() };
    for home in Home::ALL {
        if home != Home::Postgres || bench.ground.postgres.is_some() {
            bench.home(home).await?;
        }
    }
    bench.beside_dev().await?;
    bench.program().await?;
    bench.idle().await?;
    if !asked.json {
        print!("{}", table::table(&bench.rows));
    }
    bench.verdict();
    Ok(())
}

struct Bench<'a> {
    asked: &'a Asked,
    ground: Ground,
    rows: Vec<Row>,
}

impl Bench<'_> {
    fn row(&mut self, row: Row) {
        if self.asked.json {
            println!("{}", row.json());
        }
        self.rows.push(row);
    }

    /// Starts a side, or says loudly why its figures are missing.
    async fn start(&self, kind: Kind, home: Home) -> Result<Option<Side>, Fail> {
        if kind != Kind::Doran && self.ground.python.is_none() {
            return Ok(None);
        }
        match Side::start(kind, home, &self.ground).await {
            Ok(side) => Ok(Some(side)),
            Err(error) if kind != Kind::Doran => {
                eprintln!("bench: {} on {} WAS NOT MEASURED: {error}", kind.name(), home.name());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Requests and first tokens with one store, both sides in turns, so that a busy moment slows both.
    async fn home(&mut self, home: Home) -> Result<(), Fail> {
        let store = home.name();
        let crowds: Vec<usize> =
            CROWDS.into_iter().filter(|crowd| self.asked.wants(&format!("chat{crowd}/{store}"))).collect();
        let first = format!("first-token/{store}");
        if crowds.is_empty() && !self.asked.wants(&first) {
            return Ok(());
        }
        let Some(doran) = self.start(Kind::Doran, home).await? else { return Ok(()) };
        let peer = self.start(Kind::FastApi, home).await?;
        for crowd in crowds {
            eprintln!("bench: chat{crowd}/{store}");
            let (mut ours, mut theirs) = (Taken::default(), Taken::default());
            for _ in 0..self.asked.pace.rounds {
                ours.add(load::crowd(&doran.door, crowd, self.asked.pace.slice).await?);
                if let Some(peer) = &peer {
                    theirs.add(load::crowd(&peer.door, crowd, self.asked.pace.slice).await?);
                }
            }
            let theirs = peer.as_ref().map(|_| &theirs);
            let targets = if crowd == 1 { None } else { Some(20.0) };
            self.chat_rows(&format!("chat{crowd}/{store}"), Kind::FastApi, &ours, theirs, targets);
        }
        if self.asked.wants(&first) {
            eprintln!("bench: {first}");
            let count = self.asked.pace.first_tokens;
            let ours = load::first_tokens(&doran.door, count).await?;
            let theirs = match &peer {
                Some(peer) => Some(load::first_tokens(&peer.door, count.min(50)).await?),
                None => None,
            };
            let name = Kind::FastApi.name();
            let row = Row::less(first, "ms p50", load::at(&ours, 0.5))
                .peer(name, theirs.map(|theirs| load::at(&theirs, 0.5)));
            self.row(row.target(Target::ValueAtMost(5.0)));
        }
        if let Some(peer) = peer {
            peer.end().await;
        }
        doran.end().await;
        Ok(())
    }

    fn chat_rows(
        &mut self,
        case: &str,
        kind: Kind,
        ours: &Taken,
        theirs: Option<&Taken>,
        least: Option<f64>,
    ) {
        let name = kind.name();
        let mut rate = Row::more(case.to_owned(), "requests/s", ours.rate())
            .peer(name, theirs.map(Taken::rate))
            .best(ours.best, theirs.map(|theirs| theirs.best));
        rate.target = least.map(Target::RatioAtLeast);
        self.row(rate);
        for (what, share) in [("p50", 0.5), ("p99", 0.99)] {
            let row = Row::less(format!("{case}-{what}"), "ms", load::at(&ours.times, share))
                .peer(name, theirs.map(|theirs| load::at(&theirs.times, share)));
            self.row(if what == "p99" && least.is_some() {
                row.target(Target::RatioAtLeast(10.0))
            } else {
                row
            });
        }
    }

    /// Beside LangGraph's own development server, which keeps everything in memory.
    async fn beside_dev(&mut self) -> Result<(), Fail> {
        if !self.asked.wants("dev") || self.ground.python.is_none() {
            return Ok(());
        }
        let Some(peer) = self.start(Kind::Dev, Home::Ram).await? else { return Ok(()) };
        let Some(doran) = self.start(Kind::Doran, Home::Ram).await? else { return Ok(()) };
        for crowd in [1, 16] {
            eprintln!("bench: dev{crowd}/ram");
            let (mut ours, mut theirs) = (Taken::default(), Taken::default());
            for _ in 0..self.asked.pace.rounds {
                ours.add(load::crowd(&doran.door, crowd, self.asked.pace.slice).await?);
                theirs.add(load::crowd(&peer.door, crowd, self.asked.pace.slice).await?);
            }
            self.chat_rows(&format!("dev{crowd}/ram"), Kind::Dev, &ours, Some(&theirs), None);
        }
        peer.end().await;
        doran.end().await;
        Ok(())
    }

    /// Start-up and memory of the program itself, beside the least that FastAPI with LangGraph takes.
    async fn program(&mut self) -> Result<(), Fail> {
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
        let ours = self.ground.starts(Kind::Program, self.asked.pace.starts).await?;
        let theirs = match self.ground.python {
            Some(_) => Some(self.ground.starts(Kind::FastApi, self.asked.pace.starts.min(3)).await?),
            None => None,
        };
        let name = Kind::FastApi.name();
        let ready = Row::less("ready".into(), "ms", ours.ready)
            .peer(name, theirs.as_ref().map(|theirs| theirs.ready))
            .best(ours.best, theirs.as_ref().map(|theirs| theirs.best));
        self.row(ready.target(Target::ValueAtMost(150.0)));
        let rss = Row::less("idle-rss".into(), "MiB", ours.mib).peer(name, theirs.map(|theirs| theirs.mib));
        self.row(rss.target(Target::ValueAtMost(60.0)));
        Ok(())
    }

    /// Memory of streams in which nothing happens.
    async fn idle(&mut self) -> Result<(), Fail> {
        if !self.asked.wants("idle-stream") {
            return Ok(());
        }
        let count = self.asked.pace.idle;
        eprintln!("bench: idle-stream, {count} of them");
        let mut found = Vec::new();
        for kind in [Kind::Doran, Kind::FastApi] {
            let Some(side) = self.start(kind, Home::Ram).await? else { continue };
            let path = load::idle_path(&side.door).await?;
            // What the first streams set up once belongs to nobody's stream.
            let few = load::hold(&side.door, &path, 50).await?;
            let before = side.bytes()?;
            let held = load::hold(&side.door, &path, count).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let after = side.bytes()?;
            found.push((after.saturating_sub(before)) as f64 / count as f64 / 1000.0);
            drop((few, held));
            side.end().await;
        }
        if let Some(ours) = found.first() {
            let row = Row::less(format!("idle-stream/{count}"), "kB each", *ours)
                .peer(Kind::FastApi.name(), found.get(1).copied());
            self.row(row.target(Target::ValueAtMost(30.0)));
        }
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

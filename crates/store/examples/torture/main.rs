//! Tortures the stores: kills processes at every instant, makes disks fail and fill up, lets two replicas lose each
//! other, and counts what was lost, doubled or stuck. The seeded bugs of `mutants` show that it would notice.
//!
//! One program, two roles. The driver owns what must survive a kill: what was done to the world, what was
//! acknowledged, what was shown. The victim opens a store, runs a graph, and talks to the driver line by line.

mod book;
mod check;
mod child;
mod clients;
mod disk;
mod graph;
mod io;
mod kill;
mod mutants;
#[path = "../../tests/it/pg.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod pg;
mod proxy;
mod replicas;
mod report;
mod rng;
mod seeds;
#[path = "../../../engine/tests/it/sim/mod.rs"]
#[allow(clippy::expect_used, reason = "written as a test, which fails by panicking; each seed is caught")]
mod sim;
#[path = "../../../engine/tests/it/support.rs"]
#[allow(
    dead_code,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "the engine's tests use all of it"
)]
mod support;
mod victim;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use report::Figures;

/// The first argument of a process that is a victim.
pub const VICTIM: &str = "--victim";

const USAGE: &str = "\
torture NAME [--quick] [--json] [--seed N] [--kills N]      (N kills, faults or seeds)
  kill       kill a process on SQLite at random instants and at every fail point
  io         make the k-th sync or write of the disk fail
  disk       fill the disk and free it again
  sim        play seeded histories of trouble on the engine in memory, 10,000 of them
  replicas   two processes on PostgreSQL that are killed, sleep, or lose the database
  mutants    switch on seeded bugs and see that the tortures above notice
  all        everything; with --quick all but the mutants";

/// What was asked for.
#[derive(Clone)]
pub struct Options {
    pub quick: bool,
    pub json: bool,
    pub seed: u64,
    pub kills: Option<u64>,
    /// A seeded bug to switch on in the victims.
    pub mutant: Option<&'static str>,
}

impl Options {
    /// What victims find in their environment.
    pub fn mutant_env(&self) -> Vec<(String, String)> {
        self.mutant.iter().map(|mutant| ("DORAN_MUTANT".to_owned(), (*mutant).to_owned())).collect()
    }
}

pub type Torture = fn(&Options) -> Result<Figures, String>;

const TORTURES: [(&str, Torture); 6] = [
    ("sim", seeds::run),
    ("kill", kill::run),
    ("io", io::run),
    ("disk", disk::run),
    ("replicas", replicas::run),
    ("mutants", mutants::run),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == VICTIM) {
        return match orders(&args[1..]) {
            Some(orders) => victim::main(&orders),
            None => ExitCode::FAILURE,
        };
    }
    if args.first().is_some_and(|first| first == disk::INSIDE) {
        return match disk::inside(&args[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    match parse(&args) {
        Ok((name, options)) => drive(&name, &options),
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn orders(args: &[String]) -> Option<victim::Orders> {
    let [url, lease, end] = args else { return None };
    let lease = Duration::from_millis(lease.parse().ok()?);
    Some(victim::Orders { url: url.clone(), lease, hard: end == "hard" })
}

fn parse(args: &[String]) -> Result<(String, Options), String> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut options = Options {
        quick: false,
        json: false,
        seed: u64::from(clock.subsec_nanos()),
        kills: None,
        mutant: None,
    };
    let mut name = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = |what: &str| {
            let given = args.next().and_then(|given| given.parse().ok());
            given.ok_or_else(|| format!("`{what}` needs a number"))
        };
        match arg.as_str() {
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            "--seed" => options.seed = number("--seed")?,
            "--kills" => options.kills = Some(number("--kills")?),
            other if name.is_none() && !other.starts_with('-') => name = Some(other.to_owned()),
            other => return Err(format!("`{other}` is not known")),
        }
    }
    Ok((name.ok_or("which torture?")?, options))
}

fn drive(name: &str, options: &Options) -> ExitCode {
    // Whether a seeded bug shows is a matter of timing, so the short version, which guards every change, leaves them out.
    let in_all = |known: &str| name == "all" && !(options.quick && known == "mutants");
    let chosen: Vec<&(&str, Torture)> =
        TORTURES.iter().filter(|(known, _)| in_all(known) || *known == name).collect();
    if chosen.is_empty() {
        eprintln!("there is no torture called `{name}`\n{USAGE}");
        return ExitCode::FAILURE;
    }
    eprintln!("seed {}", options.seed);
    let mut holds = true;
    for (name, torture) in chosen {
        match torture(options) {
            Ok(figures) => {
                let required = std::env::var("DORAN_REQUIRE_PARTS").as_deref() == Ok("1");
                holds &= figures.holds() && !(figures.is_skipped() && required);
                eprintln!("{}", figures.table());
                if options.json {
                    println!("{}", figures.json());
                }
            }
            Err(why) => {
                holds = false;
                eprintln!("{name:<9} FAILED: {why}");
                if options.json {
                    println!(
                        "{}",
                        serde_json::json!({ "torture": name, "seed": options.seed, "failed": why })
                    );
                }
            }
        }
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! Tortures the stores and the library: kills processes at every instant, makes disks fail, fill up and lose power, lets
//! two replicas lose each other, and counts what was lost, doubled or stuck. The seeded bugs of `mutants` show that it would notice.
//!
//! One program, two roles. The driver owns what must survive a kill: what was done to the world, what was
//! acknowledged, what was shown. The victim opens a store, runs a graph, and talks to the driver line by line.

mod consistency_check;
mod database_restarts;
mod disk_full;
mod fault_proxy;
mod io_faults;
mod kill_loop;
mod ledger;
#[path = "../../store/tests/it/postgres_server.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod postgres_server;
mod power_loss;
mod replicas;
mod report;
mod seeded_bugs;
mod seeded_rng;
mod simulation_seeds;
#[allow(clippy::expect_used, reason = "written as a test, which fails by panicking; each seed is caught")]
mod simulator;
#[path = "../../engine/tests/it/support.rs"]
#[allow(
    dead_code,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    reason = "the engine's tests use all of it"
)]
mod support;
mod torture_clients;
mod torture_graph;
mod victim;
mod victim_process;
mod victim_protocol;

use std::process::ExitCode;
use std::time::Duration;

use report::TortureReport;

/// The first argument of a process that is a victim.
pub const VICTIM_ARGUMENT: &str = "--victim";

const USAGE: &str = "\
torture NAME [--quick] [--json] [--seed N] [--kills N]      (N kills, faults, images or seeds)
  kill       kill a process on SQLite at random instants and at every fail point
  io         make the k-th sync or write of the disk fail
  disk       fill the disk and free it again
  power      cut the power at any moment of a recording, with unsynced writes dropped, reordered and torn;
             of a database, and of a library with its search index and remembered facts
  sim        play seeded histories of trouble on the engine in memory, 10,000 of them
  replicas   two processes on PostgreSQL that are killed, sleep, or lose the database
  restarts   restart PostgreSQL under runs that call a model, and count the calls
  mutants    switch on seeded bugs and see that the tortures above notice
  all        everything; with --quick all but restarts and mutants";

/// The command line.
#[derive(Clone)]
pub struct TortureOptions {
    pub quick: bool,
    pub json: bool,
    pub seed: u64,
    pub kills: Option<u64>,
    /// A seeded bug to switch on in the victims.
    pub mutant: Option<&'static str>,
}

impl TortureOptions {
    /// What victims find in their environment.
    pub fn mutant_env(&self) -> Vec<(String, String)> {
        self.mutant.iter().map(|mutant| ("DORAN_MUTANT".to_owned(), (*mutant).to_owned())).collect()
    }
}

pub type TortureFunction = fn(&TortureOptions) -> Result<TortureReport, String>;

const TORTURES: [(&str, TortureFunction); 8] = [
    ("sim", simulation_seeds::run),
    ("kill", kill_loop::run),
    ("io", io_faults::run),
    ("disk", disk_full::run),
    ("power", power_loss::run),
    ("replicas", replicas::run),
    ("restarts", database_restarts::run),
    ("mutants", seeded_bugs::run),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == VICTIM_ARGUMENT) {
        return match parse_victim_options(&args[1..]) {
            Some(orders) => victim::victim_main(&orders),
            None => ExitCode::FAILURE,
        };
    }
    if args.first().is_some_and(|first| first == power_loss::library_victim::LIBRARY_VICTIM_ARGUMENT) {
        return power_loss::library_victim::library_victim_main(&args[1..]);
    }
    if args.first().is_some_and(|first| first == doran_retrieval::ingest::EXTRACT_WORKER_ARG) {
        return doran_retrieval::ingest::extract_worker_main();
    }
    if args.first().is_some_and(|first| first == disk_full::INSIDE_MOUNT_ARGUMENT) {
        return match disk_full::run_inside_mount(&args[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    if !cfg!(feature = "failpoints") {
        eprintln!("built without fail points: run `./x torture NAME`");
        return ExitCode::FAILURE;
    }
    match parse_arguments(&args) {
        Ok((name, options)) => run_tortures(&name, &options),
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn parse_victim_options(args: &[String]) -> Option<victim::VictimOptions> {
    let [url, lease, end] = args else { return None };
    let lease = Duration::from_millis(lease.parse().ok()?);
    Some(victim::VictimOptions { url: url.clone(), lease, abort_on_failure: end == "hard" })
}

fn parse_arguments(args: &[String]) -> Result<(String, TortureOptions), String> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut options = TortureOptions {
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

fn run_tortures(name: &str, options: &TortureOptions) -> ExitCode {
    // Whether a seeded bug shows, and whether a restarted database is back in time, depends on the machine. The short
    // version guards every change and leaves both out.
    let in_all = |known: &str| name == "all" && !(options.quick && ["mutants", "restarts"].contains(&known));
    let chosen: Vec<&(&str, TortureFunction)> =
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
                holds &= figures.has_no_violations() && !(figures.is_skipped() && required);
                eprintln!("{}", figures.render_table());
                if options.json {
                    println!("{}", figures.render_json());
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

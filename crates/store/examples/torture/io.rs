//! A disk that fails once: the k-th sync or write of a victim on SQLite returns an error. The victim must say that the
//! outcome is unknown and end; after a restart nothing acknowledged is lost, and asking again under the same key gives
//! one run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::book::{Book, Broken, Outcome};
use crate::child::{Birth, Victim};
use crate::clients::outcome;
use crate::report::Figures;
use crate::wire::{Act, Start, What};
use crate::{Options, check};

/// Requests of one case.
const STARTS: u64 = 16;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A call that fails.
#[derive(Clone, Copy)]
struct Fault {
    call: &'static str,
    nth: u64,
    errno: i32,
    /// The victim ends without closing anything.
    hard: bool,
}

/// Runs the torture.
pub fn run(options: &Options) -> Result<Figures, String> {
    let begun = Instant::now();
    let mut figures = Figures::new("io", options.seed);
    let dir =
        tempfile::Builder::new().prefix("doran-torture-").tempdir().map_err(|error| error.to_string())?;
    if let Err(error) = Command::new("cc").arg("--version").output() {
        return Ok(Figures::skipped("io", options.seed, format!("no C compiler: {error}")));
    }
    let shim = compile(dir.path())?;
    for fault in faults(options) {
        // After a full disk the same process does a refused step again.
        let strict = fault.errno != ENOSPC;
        let book = Arc::new(Book::new(options.seed, strict, Duration::from_millis(2)));
        let name = format!("{} {} errno {} hard {}", fault.call, fault.nth, fault.errno, fault.hard);
        case(options, &shim, fault, &book, &mut figures).map_err(|why| format!("{name}: {why}"))?;
        for (broken, what) in book.verdict() {
            figures.wrong(broken, format!("{name}: {what}"));
        }
        figures.add("cases", 1_u64);
        // Whatever the fault did, the process that met it is ended before the next one opens the store.
        figures.add("kills", 1_u64);
        if options.mutant.is_some() && !figures.holds() {
            break;
        }
    }
    figures.add("seconds", begun.elapsed().as_secs());
    Ok(figures)
}

fn faults(options: &Options) -> Vec<Fault> {
    let step = if options.quick { 8 } else { 1 };
    let first = options.seed % step;
    let mut faults = Vec::new();
    for nth in (1 + first..=40).step_by(usize::try_from(step).unwrap_or(1)) {
        for hard in [true, false] {
            faults.push(Fault { call: "sync", nth, errno: EIO, hard });
        }
        let errno = if nth % 2 == 0 { EIO } else { ENOSPC };
        faults.push(Fault { call: "write", nth: nth * 3, errno, hard: nth % 4 < 2 });
    }
    faults
}

/// Builds the shim.
fn compile(dir: &Path) -> Result<PathBuf, String> {
    let (source, shim) = (dir.join("shim.c"), dir.join("shim.so"));
    std::fs::write(&source, include_str!("shim.c")).map_err(|error| error.to_string())?;
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&shim)
        .arg(&source)
        .arg("-ldl")
        .output();
    match built {
        Ok(built) if built.status.success() => Ok(shim),
        Ok(built) => Err(format!("cc: {}", String::from_utf8_lossy(&built.stderr))),
        Err(error) => Err(format!("no C compiler: {error}")),
    }
}

fn case(
    options: &Options,
    shim: &Path,
    fault: Fault,
    book: &Arc<Book>,
    figures: &mut Figures,
) -> Result<(), String> {
    let dir =
        tempfile::Builder::new().prefix("doran-torture-").tempdir().map_err(|error| error.to_string())?;
    let data = dir.path().join("data");
    std::fs::create_dir(&data).map_err(|error| error.to_string())?;
    let mark = dir.path().join("mark");
    let mut env = options.mutant_env();
    env.extend([
        ("LD_PRELOAD".to_owned(), shim.display().to_string()),
        ("DORAN_SHIM_DIR".to_owned(), data.display().to_string()),
        ("DORAN_SHIM_CALL".to_owned(), fault.call.to_owned()),
        ("DORAN_SHIM_NTH".to_owned(), fault.nth.to_string()),
        ("DORAN_SHIM_ERRNO".to_owned(), fault.errno.to_string()),
        ("DORAN_SHIM_MARK".to_owned(), mark.display().to_string()),
    ]);
    let mut birth = Birth {
        url: format!("sqlite:{}", data.join("doran.db").display()),
        lease: Duration::from_secs(2),
        hard: fault.hard,
        log: &dir.path().join("victims.log"),
        env,
    };
    let starts: Vec<Start> = (0..STARTS).map(start).collect();
    let mut sent = 0;
    let victim = Victim::start(&birth, book)?;
    let mut opened = false;
    if victim.ready().is_ok() {
        // SQLite gets over some errors while it makes a new file. Nothing was acknowledged by then.
        opened = !mark.exists();
        for start in &starts {
            sent += 1;
            book.started(start, outcome(victim.ask(What::Start(start.clone()))));
            if victim.is_over() {
                break;
            }
        }
        victim.ask(What::Rest { threads: threads(), ms: 1000 });
    }
    if mark.exists() {
        figures.add("failed_calls", 1_u64);
        // A full disk is refused and goes by; anything else ends the process.
        let ends = victim.over_within(Duration::from_secs(1)).is_some();
        figures.add("ended_by_itself", u64::from(ends));
        if !ends && opened && fault.errno == EIO {
            book.wrong(Broken::Damaged, "the disk failed, and the process goes on");
        }
    }
    victim.kill();
    drop(victim);

    birth.env = options.mutant_env();
    let victim = Victim::start(&birth, book)?;
    victim.ready()?;
    for start in starts.iter().take(sent) {
        let told = outcome(victim.ask(What::Start(start.clone())));
        if !matches!(told, Outcome::Acknowledged(_)) {
            book.wrong(Broken::Lost, format!("asking again for {} gives {told:?}", start.token));
        }
        book.started(start, told);
    }
    let moving = victim.must(What::Rest { threads: threads(), ms: 5000 })?;
    for run in moving.as_array().into_iter().flatten() {
        book.wrong(Broken::Stuck, format!("{run} does not move"));
    }
    check::threads(&victim, &threads(), book)?;
    if let Err(why) = victim.must(What::Whole) {
        book.wrong(Broken::Damaged, why);
    }
    Ok(())
}

fn threads() -> Vec<String> {
    (0..4).map(|n| format!("io-{n}")).collect()
}

fn start(n: u64) -> Start {
    Start {
        thread: format!("io-{}", n % 4),
        token: format!("t{n}"),
        plan: vec![Act::Post, Act::Mix],
        if_busy: 1,
        key: Some(format!("k{n}")),
        load: 0,
    }
}

//! A disk that fills up: 8 MB in a mount of its own. Writes are refused and say why, reads go on, and once there is
//! room again everything moves without a restart.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::book::{Book, Broken, Outcome};
use crate::child::{Birth, Victim};
use crate::clients::outcome;
use crate::report::Figures;
use crate::wire::{Act, Start, What};
use crate::{Options, check};

/// The first argument of the process inside the mount.
pub const INSIDE: &str = "--disk";

/// Mounts a small disk over the first argument and runs the rest.
const MOUNT: &str = "mount -t tmpfs -o size=8m none \"$1\" && shift && exec \"$@\"";

/// Room that is left for a while. The file keeps it once it took it, so fifty times this must fit on the disk.
const REST: u64 = 64 << 10;

/// How long it may take until everything moves again.
const RECOVERY: Duration = Duration::from_secs(10);

/// Runs the torture.
pub fn run(options: &Options) -> Result<Figures, String> {
    let begun = Instant::now();
    let dir =
        tempfile::Builder::new().prefix("doran-torture-").tempdir().map_err(|error| error.to_string())?;
    let inside = |program: &Path, args: &[String]| {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-c", MOUNT, "sh"]).arg(dir.path()).arg(program).args(args);
        command.output()
    };
    if !inside(Path::new("true"), &[]).is_ok_and(|tried| tried.status.success()) {
        let why = "this machine does not let us mount a small disk (unshare -Urm)".to_owned();
        return Ok(Figures::skipped("disk", options.seed, why));
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let cycles = if options.quick { 5 } else { 50 };
    let args =
        [INSIDE.to_owned(), dir.path().display().to_string(), cycles.to_string(), options.seed.to_string()];
    let done = inside(&this, &args).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&done.stdout);
    let found: Value = serde_json::from_str(&said)
        .map_err(|error| format!("{error}: {said}{}", String::from_utf8_lossy(&done.stderr)))?;
    let mut figures = Figures::new("disk", options.seed);
    for name in ["cycles", "acknowledged", "refused", "slowest_recovery_ms"] {
        figures.add(name, found[name].as_u64().unwrap_or_default());
    }
    for wrong in found["wrong"].as_array().into_iter().flatten() {
        figures.wrong(Broken::Damaged, wrong.as_str().unwrap_or_default().to_owned());
    }
    figures.add("seconds", begun.elapsed().as_secs());
    Ok(figures)
}

/// The part inside the mount. Prints what it found.
pub fn inside(args: &[String]) -> Result<(), String> {
    let [dir, cycles, seed] = args else { return Err("folder, cycles and seed".into()) };
    let cycles: u64 = cycles.parse().map_err(|_| "cycles")?;
    let mut found = Found::default();
    let book = Arc::new(Book::new(seed.parse().map_err(|_| "seed")?, false, Duration::from_millis(2)));
    let dir = Path::new(dir);
    let log = std::env::temp_dir().join(format!("doran-torture-{}.log", std::process::id()));
    let birth = Birth {
        url: format!("sqlite:{}", dir.join("doran.db").display()),
        lease: Duration::from_secs(1),
        hard: true,
        log: &log,
        env: Vec::new(),
    };
    let victim = Victim::start(&birth, &book)?;
    victim.ready()?;
    for cycle in 0..cycles {
        if let Err(why) = fill_and_free(&victim, &book, dir, cycle, &mut found) {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            book.wrong(Broken::Damaged, format!("cycle {cycle}: {why} {said}; on disk: {}", sizes(dir)));
            break;
        }
    }
    std::fs::remove_file(&log).map_err(|error| error.to_string())?;
    let wrong: Vec<String> =
        book.verdict().iter().map(|(broken, what)| format!("{broken:?}: {what}")).collect();
    let (_, acknowledged) = book.counts();
    let said = json!({
        "cycles": cycles,
        "acknowledged": acknowledged,
        "refused": found.refused,
        "slowest_recovery_ms": found.slowest.as_millis() as u64,
        "wrong": wrong,
    });
    println!("{said}");
    Ok(())
}

#[derive(Default)]
struct Found {
    refused: u64,
    slowest: Duration,
}

fn fill_and_free(
    victim: &Victim,
    book: &Arc<Book>,
    dir: &Path,
    cycle: u64,
    found: &mut Found,
) -> Result<(), String> {
    let threads: Vec<String> = (0..2).map(|n| format!("d{cycle}-{n}")).collect();
    let ballast = dir.join("ballast");
    let start = |n: u64| Start {
        thread: threads[usize::try_from(n % 2).unwrap_or_default()].clone(),
        token: format!("t{cycle}-{n}"),
        plan: vec![Act::Post, Act::Read],
        if_busy: 1,
        key: None,
        load: 20_000,
    };
    // Some are on their way when the disk becomes full.
    let mut n = 0;
    while n < 4 {
        let plan = [Act::Mix, Act::Fan, Act::Mix].repeat(3);
        let next = Start { plan, load: 0, ..start(n) };
        n += 1;
        book.started(&next, outcome(victim.ask(What::Start(next.clone()))));
    }
    top_up(&ballast, REST).map_err(|error| format!("ballast: {error}"))?;
    let full = loop {
        let next = start(n);
        n += 1;
        let told = outcome(victim.ask(What::Start(next.clone())));
        book.started(&next, told.clone());
        match told {
            // The log may have given room back: that is taken too.
            Outcome::Acknowledged(_) if n < 500 => {
                top_up(&ballast, 0).map_err(|error| format!("ballast: {error}"))?;
            }
            told => break told,
        }
    };
    found.refused += 1;
    if full != Outcome::Refused("full".into()) {
        return Err(format!("a full disk gives {full:?} after {n} runs"));
    }
    for thread in &threads {
        // Runs may still be moving, so this only shows that reading works.
        if let Err(why) = victim.must(What::Dump { thread: thread.clone() })
            && !why.contains("not_found")
        {
            return Err(why);
        }
    }
    victim.must(What::Whole)?;

    std::fs::remove_file(&ballast).map_err(|error| format!("ballast: {error}"))?;
    let freed = Instant::now();
    loop {
        let next = start(n);
        n += 1;
        let told = outcome(victim.ask(What::Start(next.clone())));
        book.started(&next, told.clone());
        if matches!(told, Outcome::Acknowledged(_)) {
            break;
        }
        if freed.elapsed() > RECOVERY {
            return Err(format!("there is room again, and a start gives {told:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let ms = u64::try_from(RECOVERY.as_millis()).unwrap_or(u64::MAX);
    let moving = victim.must(What::Rest { threads: threads.clone(), ms })?;
    for run in moving.as_array().into_iter().flatten() {
        book.wrong(Broken::Stuck, format!("{run} does not move; on disk: {}", sizes(dir)));
    }
    found.slowest = found.slowest.max(freed.elapsed());
    check::threads(victim, &threads, book)?;
    victim.must(What::Whole)?;
    for thread in threads {
        victim.must(What::Delete { thread })?;
    }
    Ok(())
}

/// The files of a folder with their sizes.
fn sizes(dir: &Path) -> String {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = files.map(|file| {
        let size = file.metadata().map_or(0, |about| about.len());
        format!("{} {size}", file.file_name().display())
    });
    sizes.collect::<Vec<_>>().join(", ")
}

/// Takes all room of the disk but `rest` bytes.
fn top_up(ballast: &Path, rest: u64) -> std::io::Result<()> {
    let mut file = File::options().create(true).append(true).open(ballast)?;
    while file.write_all(&[0; 4 << 10]).is_ok() {}
    let size = file.metadata()?.len();
    file.set_len(size.saturating_sub(rest))
}

//! A disk that fills up: 8 MB in a mount of its own. Writes are refused and say why, reads go on, and once there is
//! room again everything moves without a restart.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ledger::{RequestOutcome, TortureLedger, Violation};
use crate::report::TortureReport;
use crate::torture_clients::request_outcome;
use crate::victim_process::{VictimLaunch, VictimProcess};
use crate::victim_protocol::{PlannedAction, VictimRequest, VictimStartRequest};
use crate::{TortureOptions, consistency_check};

/// The first argument of the process inside the mount.
pub const INSIDE_MOUNT_ARGUMENT: &str = "--disk";

/// Mounts a small disk over the first argument and runs the rest.
const MOUNT_COMMAND: &str = "mount -t tmpfs -o size=8m none \"$1\" && shift && exec \"$@\"";

/// Room that is left for a while. The file keeps it once it took it, so fifty times this must fit on the disk.
const SPARE_DISK_BYTES: u64 = 64 << 10;

/// How long it may take until everything moves again.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the torture.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let started = Instant::now();
    let dir =
        tempfile::Builder::new().prefix("doran-torture-").tempdir().map_err(|error| error.to_string())?;
    let inside = |program: &Path, args: &[String]| {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-c", MOUNT_COMMAND, "sh"]).arg(dir.path()).arg(program).args(args);
        command.output()
    };
    if !inside(Path::new("true"), &[]).is_ok_and(|tried| tried.status.success()) {
        let why = "this machine does not let us mount a small disk (unshare -Urm)".to_owned();
        return Ok(TortureReport::skipped("disk", options.seed, why));
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let cycles = if options.quick { 5 } else { 50 };
    let args = [
        INSIDE_MOUNT_ARGUMENT.to_owned(),
        dir.path().display().to_string(),
        cycles.to_string(),
        options.seed.to_string(),
    ];
    let done = inside(&this, &args).map_err(|error| error.to_string())?;
    let output = String::from_utf8_lossy(&done.stdout);
    let found: Value = serde_json::from_str(&output)
        .map_err(|error| format!("{error}: {output}{}", String::from_utf8_lossy(&done.stderr)))?;
    let mut figures = TortureReport::new("disk", options.seed);
    for name in ["cycles", "acknowledged", "refused", "slowest_recovery_ms"] {
        let number = found[name].as_u64().ok_or_else(|| format!("no `{name}` in {output}"))?;
        figures.add_number(name, number);
    }
    for wrong in found["wrong"].as_array().into_iter().flatten() {
        figures.record_violation(Violation::Damaged, wrong.as_str().unwrap_or_default().to_owned());
    }
    figures.add_number("seconds", started.elapsed().as_secs());
    Ok(figures)
}

/// The part inside the mount. Prints what it found.
pub fn run_inside_mount(args: &[String]) -> Result<(), String> {
    let [dir, cycles, seed] = args else { return Err("folder, cycles and seed".into()) };
    let cycles: u64 = cycles.parse().map_err(|_| "cycles")?;
    let mut found = DiskFullResult::default();
    let ledger =
        Arc::new(TortureLedger::new(seed.parse().map_err(|_| "seed")?, false, Duration::from_millis(2)));
    let dir = Path::new(dir);
    let log = std::env::temp_dir().join(format!("doran-torture-{}.log", std::process::id()));
    let launch = VictimLaunch {
        url: format!("sqlite:{}", dir.join("doran.db").display()),
        lease: Duration::from_secs(1),
        abort_on_failure: true,
        log: &log,
        env: Vec::new(),
    };
    let victim = VictimProcess::start(&launch, &ledger)?;
    victim.wait_until_ready()?;
    for cycle in 0..cycles {
        if let Err(why) = fill_and_free(&victim, &ledger, dir, cycle, &mut found) {
            let log_text = std::fs::read_to_string(&log).unwrap_or_default();
            ledger.record_violation(
                Violation::Damaged,
                format!("cycle {cycle}: {why} {log_text}; on disk: {}", describe_file_sizes(dir)),
            );
            break;
        }
    }
    std::fs::remove_file(&log).map_err(|error| error.to_string())?;
    let wrong: Vec<String> =
        ledger.violations().iter().map(|(broken, what)| format!("{broken:?}: {what}")).collect();
    let (_, acknowledged) = ledger.observed_and_acknowledged_counts();
    let report = json!({
        "cycles": cycles,
        "acknowledged": acknowledged,
        "refused": found.refused,
        "slowest_recovery_ms": found.slowest_recovery.as_millis() as u64,
        "wrong": wrong,
    });
    println!("{report}");
    Ok(())
}

#[derive(Default)]
struct DiskFullResult {
    refused: u64,
    slowest_recovery: Duration,
}

fn fill_and_free(
    victim: &VictimProcess,
    ledger: &Arc<TortureLedger>,
    dir: &Path,
    cycle: u64,
    found: &mut DiskFullResult,
) -> Result<(), String> {
    let threads: Vec<String> = (0..2).map(|n| format!("d{cycle}-{n}")).collect();
    let ballast = dir.join("ballast");
    let start = |n: u64| VictimStartRequest {
        thread: threads[usize::try_from(n % 2).unwrap_or_default()].clone(),
        token: format!("t{cycle}-{n}"),
        plan: vec![PlannedAction::Post, PlannedAction::Read],
        if_busy: 1,
        key: None,
        load: 20_000,
        waits: false,
    };
    // Some are on their way when the disk becomes full.
    let mut n = 0;
    while n < 4 {
        let plan = [PlannedAction::Mix, PlannedAction::Fan, PlannedAction::Mix].repeat(3);
        let next = VictimStartRequest { plan, load: 0, ..start(n) };
        n += 1;
        ledger.record_start(&next, request_outcome(victim.ask(VictimRequest::Start(next.clone()))));
    }
    fill_disk(&ballast, SPARE_DISK_BYTES).map_err(|error| format!("ballast: {error}"))?;
    let full = loop {
        let next = start(n);
        n += 1;
        let outcome = request_outcome(victim.ask(VictimRequest::Start(next.clone())));
        ledger.record_start(&next, outcome.clone());
        match outcome {
            // The log may have given room back: that is taken too.
            RequestOutcome::Acknowledged(_) if n < 500 => {
                fill_disk(&ballast, 0).map_err(|error| format!("ballast: {error}"))?;
            }
            outcome => break outcome,
        }
    };
    found.refused += 1;
    if full != RequestOutcome::Refused("full".into()) {
        return Err(format!("a full disk gives {full:?} after {n} runs"));
    }
    for thread in &threads {
        // Runs may still be moving, so this only shows that reading works.
        if let Err(why) = victim.ask_or_error(VictimRequest::Dump { thread: thread.clone() })
            && !why.contains("not_found")
        {
            return Err(why);
        }
    }
    victim.ask_or_error(VictimRequest::Whole)?;

    std::fs::remove_file(&ballast).map_err(|error| format!("ballast: {error}"))?;
    let freed = Instant::now();
    loop {
        let next = start(n);
        n += 1;
        let outcome = request_outcome(victim.ask(VictimRequest::Start(next.clone())));
        ledger.record_start(&next, outcome.clone());
        if matches!(outcome, RequestOutcome::Acknowledged(_)) {
            break;
        }
        if freed.elapsed() > RECOVERY_TIMEOUT {
            return Err(format!("there is room again, and a start gives {outcome:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let ms = u64::try_from(RECOVERY_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    let moving = victim.ask_or_error(VictimRequest::Rest { threads: threads.clone(), ms })?;
    for run in moving.as_array().into_iter().flatten() {
        ledger.record_violation(
            Violation::Stuck,
            format!("{run} does not move; on disk: {}", describe_file_sizes(dir)),
        );
    }
    found.slowest_recovery = found.slowest_recovery.max(freed.elapsed());
    consistency_check::check_threads(victim, &threads, ledger)?;
    victim.ask_or_error(VictimRequest::Whole)?;
    for thread in threads {
        victim.ask_or_error(VictimRequest::Delete { thread })?;
    }
    Ok(())
}

/// The files of a folder with their sizes.
fn describe_file_sizes(dir: &Path) -> String {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = files.map(|file| {
        let size = file.metadata().map_or(0, |about| about.len());
        format!("{} {size}", file.file_name().display())
    });
    sizes.collect::<Vec<_>>().join(", ")
}

/// Takes all room of the disk but `rest` bytes.
fn fill_disk(ballast: &Path, rest: u64) -> std::io::Result<()> {
    let mut file = File::options().create(true).append(true).open(ballast)?;
    while file.write_all(&[0; 4 << 10]).is_ok() {}
    let size = file.metadata()?.len();
    file.set_len(size.saturating_sub(rest))
}

//! A disk that fails once: the k-th sync or write of a victim on SQLite returns an error. The victim must say that the
//! outcome is unknown and end; after a restart nothing acknowledged is lost, and asking again under the same key gives
//! one run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ledger::{RequestOutcome, TortureLedger, Violation};
use crate::report::TortureReport;
use crate::torture_clients::request_outcome;
use crate::victim_process::{VictimLaunch, VictimProcess};
use crate::victim_protocol::{PlannedAction, VictimRequest, VictimStartRequest};
use crate::{TortureOptions, consistency_check};

/// Requests of one case.
const STARTS_PER_CASE: u64 = 16;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A call that fails.
#[derive(Clone, Copy)]
struct IoFault {
    call: &'static str,
    nth: u64,
    errno: i32,
    /// The victim ends without closing anything.
    abort_on_failure: bool,
}

/// Runs the torture.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let started = Instant::now();
    let mut figures = TortureReport::new("io", options.seed);
    let dir =
        tempfile::Builder::new().prefix("doran-torture-").tempdir().map_err(|error| error.to_string())?;
    if let Err(error) = Command::new("cc").arg("--version").output() {
        return Ok(TortureReport::skipped("io", options.seed, format!("no C compiler: {error}")));
    }
    let shim = compile_shim(dir.path(), include_str!("io_fault_shim.c"))?;
    for fault in planned_faults(options) {
        // After a full disk the same process does a refused step again.
        let strict = fault.errno != ENOSPC;
        let ledger = Arc::new(TortureLedger::new(options.seed, strict, Duration::from_millis(2)));
        let name =
            format!("{} {} errno {} hard {}", fault.call, fault.nth, fault.errno, fault.abort_on_failure);
        run_fault_case(options, &shim, fault, &ledger, &mut figures)
            .map_err(|why| format!("{name}: {why}"))?;
        for (broken, what) in ledger.violations() {
            figures.record_violation(broken, format!("{name}: {what}"));
        }
        figures.add_number("cases", 1_u64);
        // Whatever the fault did, the process that met it is ended before the next one opens the store.
        figures.add_number("kills", 1_u64);
        if options.mutant.is_some() && !figures.has_no_violations() {
            break;
        }
    }
    figures.add_number("seconds", started.elapsed().as_secs());
    Ok(figures)
}

fn planned_faults(options: &TortureOptions) -> Vec<IoFault> {
    let step = if options.quick { 8 } else { 1 };
    let first = options.seed % step;
    let mut faults = Vec::new();
    for nth in (1 + first..=40).step_by(usize::try_from(step).unwrap_or(1)) {
        for hard in [true, false] {
            faults.push(IoFault { call: "sync", nth, errno: EIO, abort_on_failure: hard });
        }
        let errno = if nth % 2 == 0 { EIO } else { ENOSPC };
        faults.push(IoFault { call: "write", nth: nth * 3, errno, abort_on_failure: nth % 4 < 2 });
    }
    faults
}

/// Builds a library that a victim loads before its own calls.
pub fn compile_shim(dir: &Path, code: &str) -> Result<PathBuf, String> {
    let (source, shim) = (dir.join("shim.c"), dir.join("shim.so"));
    std::fs::write(&source, code).map_err(|error| error.to_string())?;
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

fn run_fault_case(
    options: &TortureOptions,
    shim: &Path,
    fault: IoFault,
    ledger: &Arc<TortureLedger>,
    figures: &mut TortureReport,
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
    let mut launch = VictimLaunch {
        url: format!("sqlite:{}", data.join("doran.db").display()),
        lease: Duration::from_secs(2),
        abort_on_failure: fault.abort_on_failure,
        log: &dir.path().join("victims.log"),
        env,
    };
    let starts: Vec<VictimStartRequest> = (0..STARTS_PER_CASE).map(start_request).collect();
    let mut sent = 0;
    let victim = VictimProcess::start(&launch, ledger)?;
    let mut opened = false;
    if victim.wait_until_ready().is_ok() {
        // SQLite gets over some errors while it makes a new file. Nothing was acknowledged by then.
        opened = !mark.exists();
        for start in &starts {
            sent += 1;
            ledger.record_start(start, request_outcome(victim.ask(VictimRequest::Start(start.clone()))));
            if victim.has_exited() {
                break;
            }
        }
        victim.ask(VictimRequest::Rest { threads: thread_names(), ms: 1000 });
    }
    if mark.exists() {
        figures.add_number("failed_calls", 1_u64);
        // A full disk is refused and goes by; anything else ends the process.
        let max_seconds = if fault.errno == EIO { 20 } else { 1 };
        let ends = victim.wait_for_exit(Duration::from_secs(max_seconds)).is_some();
        figures.add_number("ended_by_itself", u64::from(ends));
        if !ends && opened && fault.errno == EIO {
            ledger.record_violation(Violation::Damaged, "the disk failed, and the process goes on");
        }
    }
    victim.kill();
    drop(victim);

    launch.env = options.mutant_env();
    let victim = VictimProcess::start(&launch, ledger)?;
    victim.wait_until_ready()?;
    for start in starts.iter().take(sent) {
        let outcome = request_outcome(victim.ask(VictimRequest::Start(start.clone())));
        if !matches!(outcome, RequestOutcome::Acknowledged(_)) {
            ledger.record_violation(
                Violation::Lost,
                format!("asking again for {} gives {outcome:?}", start.token),
            );
        }
        ledger.record_start(start, outcome);
    }
    let moving = victim.ask_or_error(VictimRequest::Rest { threads: thread_names(), ms: 30_000 })?;
    for run in moving.as_array().into_iter().flatten() {
        ledger.record_violation(Violation::Stuck, format!("{run} does not move"));
    }
    consistency_check::check_threads(&victim, &thread_names(), ledger)?;
    if let Err(why) = victim.ask_or_error(VictimRequest::Whole) {
        ledger.record_violation(Violation::Damaged, why);
    }
    Ok(())
}

fn thread_names() -> Vec<String> {
    (0..4).map(|n| format!("io-{n}")).collect()
}

fn start_request(n: u64) -> VictimStartRequest {
    VictimStartRequest {
        thread: format!("io-{}", n % 4),
        token: format!("t{n}"),
        plan: vec![PlannedAction::Post, PlannedAction::Mix],
        if_busy: 1,
        key: Some(format!("k{n}")),
        load: 0,
        waits: false,
    }
}

//! A victim on SQLite loses power.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::TortureOptions;
use crate::ledger::{TortureLedger, Violation};
use crate::power_loss::image_check::ImageCheck;
use crate::power_loss::io_trace::{DiskOperation, SyncTarget, TraceRecord, VictimLine, parse_trace};
use crate::power_loss::recording::{RecordedFailure, Recording};
use crate::power_loss::trace_ledger::ledger_of;
use crate::report::TortureReport;
use crate::torture_clients::TortureClients;
use crate::victim_process::{VictimLaunch, VictimProcess, lock_ignoring_poison};
use crate::victim_protocol::VictimRequest;

/// Of so many images one is not only read: its runs go on until they end.
const IMAGES_PER_RESUMED: usize = 100;

/// How long a victim may take to end.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Makes a recording and checks up to `max_images` of it. Gives how many there were.
pub fn record_and_check(
    options: &TortureOptions,
    round: u64,
    max_images: usize,
    dir: &Path,
    shim: &Path,
    figures: &Mutex<TortureReport>,
) -> Result<usize, String> {
    let threads: Vec<String> = (0..6).map(|n| format!("p{round}-{n}")).collect();
    let recording = record(options, round, &threads, dir, shim)?;
    let made = recording.check_images(max_images, dir, figures, |folder| {
        let check = ImageCheck::new(folder, &threads)?;
        let seed = recording.seed;
        Ok(move |failure: &RecordedFailure<'_, VictimLine>| {
            let ledger = Arc::new(ledger_of(failure.records, seed));
            ledger.record_power_failure();
            let resumed = failure.number % IMAGES_PER_RESUMED == IMAGES_PER_RESUMED / 2;
            check.check(failure.image, &ledger, resumed.then(|| options.mutant_env()))?;
            lock_ignoring_poison(figures).add_number("resumed", u64::from(resumed));
            Ok(ledger.violations())
        })
    })?;
    count_operations(&recording, &mut lock_ignoring_poison(figures));
    Ok(made)
}

/// Records a process that crashes, one that ends in an orderly way, and one that is killed in the end.
fn record(
    options: &TortureOptions,
    round: u64,
    threads: &[String],
    dir: &Path,
    shim: &Path,
) -> Result<Recording<VictimLine>, String> {
    let (data, trace) = (dir.join("recorded"), dir.join("trace"));
    std::fs::create_dir(&data).map_err(|error| error.to_string())?;
    let seed = options.seed.wrapping_add(round);
    let ledger = Arc::new(TortureLedger::new(seed, true, Duration::from_millis(2)));
    let clients = TortureClients::new(&ledger, threads.to_vec());
    for process in 0..3_u64 {
        let mut env = options.mutant_env();
        env.push(("LD_PRELOAD".to_owned(), shim.display().to_string()));
        env.push(("DORAN_TRACE_DIR".to_owned(), data.display().to_string()));
        env.push(("DORAN_TRACE_FILE".to_owned(), trace.display().to_string()));
        if process == 0 {
            // At a fail point nothing is under way that the trace could have half of.
            env.push(("DORAN_FAILPOINT".to_owned(), "commit.after_commit:60".to_owned()));
        }
        let launch = VictimLaunch {
            url: format!("sqlite:{}", data.join("doran.db").display()),
            lease: Duration::from_secs(10),
            abort_on_failure: true,
            log: &dir.join("victims.log"),
            env,
        };
        let victim = Arc::new(VictimProcess::start(&launch, &ledger)?);
        victim.wait_until_ready()?;
        // The first goes on until it meets its fail point, however slow the machine is.
        let time = if process == 0 { MAX_WAIT } else { Duration::from_millis(250) };
        clients.run(&victim, seed, process, time);
        match process {
            0 => drop(victim.wait_for_exit(MAX_WAIT).ok_or("the fail point was not met")?),
            1 => {
                drop(victim.send(VictimRequest::Leave));
                victim.wait_for_exit(MAX_WAIT).ok_or("a victim does not leave")?;
            }
            _ => victim.kill(),
        }
    }
    let trace = std::fs::read(&trace).map_err(|error| error.to_string())?;
    Ok(Recording { records: parse_trace(&trace, &data)?, seed })
}

fn count_operations(recording: &Recording<VictimLine>, figures: &mut TortureReport) {
    let is_write = |record: &TraceRecord<_>| matches!(record, TraceRecord::Disk(DiskOperation::Write { .. }));
    figures.add_number("writes", recording.count(is_write));
    figures.add_number("syncs", recording.count(TraceRecord::ends_sync));
    // Of the database itself only a checkpoint is synced.
    let of_database = |record: &TraceRecord<_>| match record {
        TraceRecord::Disk(DiskOperation::SyncStarted { target: SyncTarget::File(file), .. }) => {
            file == "doran.db"
        }
        _ => false,
    };
    figures.add_number("checkpoints", recording.count(of_database));
    let ledger = ledger_of(&recording.records, recording.seed);
    let (seen, acknowledged) = ledger.observed_and_acknowledged_counts();
    figures.add_number("acknowledged", acknowledged);
    figures.add_number("events_seen", seen);
    figures.add_number("calls", ledger.call_count());
    // A recording that breaks a promise by itself is no use.
    for (broken, what) in ledger.violations() {
        figures.record_violation(broken, format!("while recording: {what}"));
    }
    if acknowledged == 0 {
        figures.record_violation(Violation::Stuck, "nothing was acknowledged in a recording");
    }
}

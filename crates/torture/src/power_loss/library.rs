//! A victim with a library, its search index and remembered facts loses power.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::TortureOptions;
use crate::ledger::Violation;
use crate::power_loss::io_trace::{DiskOperation, SyncTarget, TraceRecord, parse_trace};
use crate::power_loss::library_check::LibraryCheck;
use crate::power_loss::library_promises::LibraryPromises;
use crate::power_loss::library_victim::{LIBRARY_VICTIM_ARGUMENT, LibraryLine};
use crate::power_loss::recording::{RecordedFailure, Recording};
use crate::report::TortureReport;
use crate::seeded_rng::SeededRng;
use crate::victim_process::lock_ignoring_poison;

/// Processes of one recording. A document may be read as often as that before it counts as the cause of the crashes.
const PROCESSES: u64 = 4;

/// Most processes end at one of their first syncs, so that the next finds what is not sure.
const MAX_SYNCS_OF_LIFE: u64 = 300;

/// Makes a recording and checks up to `max_images` of it. Gives how many there were.
pub fn record_and_check(
    options: &TortureOptions,
    round: u64,
    max_images: usize,
    dir: &Path,
    shim: &Path,
    figures: &Mutex<TortureReport>,
) -> Result<usize, String> {
    let recording = record(options, round, dir, shim)?;
    let promises = LibraryPromises::from_records(&recording.records);
    {
        let mut figures = lock_ignoring_poison(figures);
        let is_write =
            |record: &TraceRecord<_>| matches!(record, TraceRecord::Disk(DiskOperation::Write { .. }));
        figures.add_number("writes", recording.count(is_write));
        figures.add_number("syncs", recording.count(TraceRecord::ends_sync));
        figures.add_number("library_acknowledged", promises.acknowledged);
        // A recording that breaks a promise by itself is no use.
        for what in &promises.failures {
            figures.record_violation(Violation::Damaged, format!("while recording: {what}"));
        }
        if promises.acknowledged == 0 {
            figures.record_violation(Violation::Stuck, "nothing was acknowledged in a recording");
        }
    }
    recording.check_images(max_images, dir, figures, |folder| {
        let check = LibraryCheck::new(folder)?;
        Ok(move |failure: &RecordedFailure<'_, LibraryLine>| {
            check.check(failure.image, &LibraryPromises::from_records(failure.records))
        })
    })
}

fn record(
    options: &TortureOptions,
    round: u64,
    dir: &Path,
    shim: &Path,
) -> Result<Recording<LibraryLine>, String> {
    let (data, trace) = (dir.join("recorded"), dir.join("trace"));
    std::fs::create_dir(&data).map_err(|error| error.to_string())?;
    let seed = options.seed.wrapping_add(round);
    let mut rng = SeededRng::new(seed);
    let this = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    for process in 0..PROCESSES {
        let log = std::fs::File::create(dir.join("victims.log")).map_err(|error| error.to_string())?;
        let mut command = Command::new(&this);
        command.args([LIBRARY_VICTIM_ARGUMENT.as_ref(), data.as_os_str()]);
        command.args([seed.to_string(), process.to_string()]);
        command.env("LD_PRELOAD", shim).env("DORAN_TRACE_DIR", &data).env("DORAN_TRACE_FILE", &trace);
        // One process in four ends by itself.
        if rng.chance_percent(75) {
            command.env("DORAN_TRACE_END", (1 + rng.below(MAX_SYNCS_OF_LIFE)).to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.status().map_err(|error| format!("cannot start a victim: {error}"))?;
    }
    let trace = std::fs::read(&trace).map_err(|error| error.to_string())?;
    let mut records = parse_trace(&trace, &data)?;
    // A program that does not sync leaves the same trace without the syncs.
    match options.mutant {
        Some("library_files_not_synced") => records.retain(|record| !is_sync_of(record, true)),
        Some("library_folders_not_synced") => records.retain(|record| !is_sync_of(record, false)),
        _ => {}
    }
    Ok(Recording { records, seed })
}

fn is_sync_of(record: &TraceRecord<LibraryLine>, file: bool) -> bool {
    match record {
        TraceRecord::Disk(DiskOperation::SyncStarted { target, .. }) => {
            matches!(target, SyncTarget::File(_)) == file
        }
        _ => false,
    }
}

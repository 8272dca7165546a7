//! Power loss: a victim on SQLite is recorded with all it does to its files and all it promises. From the record come
//! images that a disk could hold after a power failure at any moment: writes that no sync covers are kept, dropped,
//! taken out of order or torn. Each image is opened with the real store and compared with what had been promised by then.
//!
//! A kill does not show a missing sync, because the operating system still has what was written.

mod image_check;
mod io_trace;
mod simulated_disk;
mod trace_ledger;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::TortureOptions;
use crate::io_faults::compile_shim;
use crate::ledger::{TortureLedger, Violation};
use crate::power_loss::image_check::ImageCheck;
use crate::power_loss::io_trace::{SyncTarget, TraceRecord, parse_trace};
use crate::power_loss::simulated_disk::{SimulatedDisk, UNSYNCED_WRITES, UnsyncedWrites};
use crate::power_loss::trace_ledger::ledger_of;
use crate::report::TortureReport;
use crate::seeded_rng::SeededRng;
use crate::torture_clients::TortureClients;
use crate::victim_process::{VictimLaunch, VictimProcess, lock_ignoring_poison};
use crate::victim_protocol::VictimRequest;

/// Images of one recording, at most. A new recording has other operations and other moments.
const IMAGES_PER_RECORDING: usize = 500;

/// Of so many images one is not only read: its runs go on until they end.
const IMAGES_PER_RESUMED: usize = 100;

/// Runs the torture.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let started = Instant::now();
    if let Err(error) = Command::new("cc").arg("--version").output() {
        return Ok(TortureReport::skipped("power", options.seed, format!("no C compiler: {error}")));
    }
    let wanted = options.kills.unwrap_or(if options.quick { 300 } else { 10_000 });
    let wanted = usize::try_from(wanted).map_err(|error| error.to_string())?;
    let figures = Mutex::new(TortureReport::new("power", options.seed));
    let (mut images, mut round) = (0, 0);
    while images < wanted && lock_ignoring_poison(&figures).has_no_violations() {
        round += 1;
        let dir = scratch_dir()?;
        let recording = Recording::make(options, round, dir.path())?;
        let max_images = (wanted - images).min(IMAGES_PER_RECORDING);
        let made = recording.check_images(options, max_images, dir.path(), &figures)?;
        if made == 0 {
            return Err("a recording without a moment to lose power at".into());
        }
        images += made;
        let mut figures = lock_ignoring_poison(&figures);
        recording.count_operations(&mut figures);
        if !figures.has_no_violations() && options.mutant.is_none() {
            figures.add_note(format!("the recording is kept in {}", dir.keep().display()));
        }
    }
    let mut figures = figures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    figures.add_number("kills", images);
    figures.add_number("recordings", round);
    figures.add_number("seconds", started.elapsed().as_secs());
    Ok(figures)
}

/// A folder in memory where there is one: what is synced here need not survive anything.
fn scratch_dir() -> Result<tempfile::TempDir, String> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("doran-torture-").tempdir_in(place).map_err(|error| error.to_string())
}

/// What a few lives of a victim did and promised.
struct Recording {
    records: Vec<TraceRecord>,
    threads: Vec<String>,
    seed: u64,
}

/// A moment at which the power fails: before this record, with these unsynced writes.
struct PowerFailure {
    before: usize,
    unsynced: UnsyncedWrites,
}

impl Recording {
    /// Records a life that crashes, one that ends in an orderly way, and one that is killed in the end.
    fn make(options: &TortureOptions, round: u64, dir: &Path) -> Result<Self, String> {
        let shim = compile_shim(dir, include_str!("io_trace_shim.c"))?;
        let (data, trace) = (dir.join("recorded"), dir.join("trace"));
        std::fs::create_dir(&data).map_err(|error| error.to_string())?;
        let seed = options.seed.wrapping_add(round);
        let threads: Vec<String> = (0..6).map(|n| format!("p{round}-{n}")).collect();
        let ledger = Arc::new(TortureLedger::new(seed, true, Duration::from_millis(2)));
        let clients = TortureClients::new(&ledger, threads.clone());
        for life in 0..3_u64 {
            let mut env = options.mutant_env();
            env.push(("LD_PRELOAD".to_owned(), shim.display().to_string()));
            env.push(("DORAN_TRACE_DIR".to_owned(), data.display().to_string()));
            env.push(("DORAN_TRACE_FILE".to_owned(), trace.display().to_string()));
            if life == 0 {
                // At a fail point nothing is under way that the trace could have half of.
                env.push(("DORAN_FAILPOINT".to_owned(), "commit.after_commit:60".to_owned()));
            }
            let birth = VictimLaunch {
                url: format!("sqlite:{}", data.join("doran.db").display()),
                lease: Duration::from_secs(10),
                abort_on_failure: true,
                log: &dir.join("victims.log"),
                env,
            };
            let victim = Arc::new(VictimProcess::start(&birth, &ledger)?);
            victim.wait_until_ready()?;
            clients.run(&victim, seed, life, Duration::from_millis(250));
            match life {
                0 => drop(victim.wait_for_exit(Duration::from_secs(10)).ok_or("the fail point was not met")?),
                1 => {
                    drop(victim.send(VictimRequest::Leave));
                    victim.wait_for_exit(Duration::from_secs(10)).ok_or("a victim does not leave")?;
                }
                _ => victim.kill(),
            }
        }
        let trace = std::fs::read(&trace).map_err(|error| error.to_string())?;
        Ok(Self { records: parse_trace(&trace, &data)?, threads, seed })
    }

    /// Moments worth a look: before and after the end of each sync, and before an operation of the disk after which
    /// more would have been promised.
    fn power_failures(&self) -> Vec<PowerFailure> {
        let mut disk = SimulatedDisk::default();
        let mut failures = Vec::new();
        let mut promised = false;
        for (before, record) in self.records.iter().enumerate() {
            let after_sync = before > 0 && matches!(self.records[before - 1], TraceRecord::SyncEnded { .. });
            let at_sync = after_sync || matches!(record, TraceRecord::SyncEnded { .. });
            if at_sync || (promised && record.is_disk_operation()) {
                promised = false;
                let choices =
                    if disk.has_unsynced_writes() { &UNSYNCED_WRITES[..] } else { &UNSYNCED_WRITES[..1] };
                failures.extend(choices.iter().map(|unsynced| PowerFailure { before, unsynced: *unsynced }));
            }
            promised |= matches!(record, TraceRecord::Said(_));
            disk.apply(record);
        }
        failures
    }

    /// Checks up to `most` images, spread over the whole recording. Gives how many there were.
    fn check_images(
        &self,
        options: &TortureOptions,
        max_images: usize,
        dir: &Path,
        figures: &Mutex<TortureReport>,
    ) -> Result<usize, String> {
        let failures = self.power_failures();
        let count = failures.len().min(max_images);
        let chosen: Vec<(usize, &PowerFailure)> =
            (0..count).map(|n| (n, &failures[n * failures.len() / count])).collect();
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let work = |worker: usize| -> Result<(), String> {
            let mut disk = SimulatedDisk::default();
            let mut applied = 0;
            let folder = dir.join(format!("image-{worker}"));
            let check = ImageCheck::new(&folder, &self.threads)?;
            for (number, failure) in chosen.iter().filter(|(number, _)| number % workers == worker) {
                if !lock_ignoring_poison(figures).has_no_violations() {
                    return Ok(());
                }
                self.records[applied..failure.before].iter().for_each(|record| disk.apply(record));
                applied = failure.before;
                let mut rng = SeededRng::for_part(self.seed, *number as u64);
                let image = disk.image(failure.unsynced, &mut rng);
                let ledger = Arc::new(ledger_of(&self.records[..failure.before], self.seed));
                ledger.record_power_failure();
                let resumed = number % IMAGES_PER_RESUMED == IMAGES_PER_RESUMED / 2;
                check.check(&image, &ledger, resumed.then(|| options.mutant_env()))?;
                let mut figures = lock_ignoring_poison(figures);
                figures.add_number("resumed", u64::from(resumed));
                for (broken, what) in ledger.violations() {
                    let at = format!("{:?} before record {}", failure.unsynced, failure.before);
                    figures.record_violation(broken, format!("{at}: {what}"));
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
            running.into_iter().try_for_each(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(_) => Err("a check panicked".to_owned()),
            })
        })?;
        Ok(count)
    }

    fn count_operations(&self, figures: &mut TortureReport) {
        let count =
            |kind: fn(&TraceRecord) -> bool| self.records.iter().filter(|record| kind(record)).count();
        figures.add_number("writes", count(|record| matches!(record, TraceRecord::Write { .. })));
        figures.add_number("syncs", count(|record| matches!(record, TraceRecord::SyncEnded { .. })));
        // Of the database itself only a checkpoint is synced.
        let of_database = |record: &TraceRecord| match record {
            TraceRecord::SyncStarted { target: SyncTarget::File(file), .. } => file == "doran.db",
            _ => false,
        };
        figures.add_number("checkpoints", count(of_database));
        let ledger = ledger_of(&self.records, self.seed);
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
}

//! A recording of processes, and the images that come from it.

use std::path::Path;
use std::sync::Mutex;

use crate::ledger::Violation;
use crate::power_loss::io_trace::TraceRecord;
use crate::power_loss::simulated_disk::{DiskImage, SimulatedDisk, UNSYNCED_WRITES, UnsyncedWrites};
use crate::report::TortureReport;
use crate::seeded_rng::SeededRng;
use crate::victim_process::lock_ignoring_poison;

/// What a few processes of a victim did and promised.
pub struct Recording<L> {
    pub records: Vec<TraceRecord<L>>,
    pub seed: u64,
}

/// A moment at which the power fails: before this record, with these unsynced writes.
struct PowerFailure {
    before: usize,
    unsynced: UnsyncedWrites,
}

/// What was recorded up to a power failure, and what the disk holds after it.
pub struct RecordedFailure<'a, L> {
    pub number: usize,
    pub image: &'a DiskImage,
    pub records: &'a [TraceRecord<L>],
}

/// What an image breaks.
pub type ImageViolations = Vec<(Violation, String)>;

impl<L: Sync> Recording<L> {
    /// Moments worth a look: before and after the end of each sync, and before an operation of the disk after which
    /// more would have been promised.
    fn power_failures(&self) -> Vec<PowerFailure> {
        let mut disk = SimulatedDisk::default();
        let mut failures = Vec::new();
        let mut promised = false;
        for (before, record) in self.records.iter().enumerate() {
            let at_sync = record.ends_sync() || (before > 0 && self.records[before - 1].ends_sync());
            if at_sync || (promised && matches!(record, TraceRecord::Disk(_))) {
                promised = false;
                let choices =
                    if disk.has_unsynced_writes() { &UNSYNCED_WRITES[..] } else { &UNSYNCED_WRITES[..1] };
                failures.extend(choices.iter().map(|unsynced| PowerFailure { before, unsynced: *unsynced }));
            }
            promised |= matches!(record, TraceRecord::Line(_));
            record.apply_to(&mut disk);
        }
        failures
    }

    /// Checks up to `max_images`, spread over the whole recording, with a checker for each worker that has a folder of
    /// its own. Gives how many images there were.
    pub fn check_images<C>(
        &self,
        max_images: usize,
        dir: &Path,
        figures: &Mutex<TortureReport>,
        new_checker: impl Fn(&Path) -> Result<C, String> + Sync,
    ) -> Result<usize, String>
    where
        C: FnMut(&RecordedFailure<'_, L>) -> Result<ImageViolations, String>,
    {
        let failures = self.power_failures();
        let count = failures.len().min(max_images);
        let chosen: Vec<(usize, &PowerFailure)> =
            (0..count).map(|n| (n, &failures[n * failures.len() / count])).collect();
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let work = |worker: usize| -> Result<(), String> {
            let mut disk = SimulatedDisk::default();
            let mut applied = 0;
            let mut check = new_checker(&dir.join(format!("image-{worker}")))?;
            for (number, failure) in chosen.iter().filter(|(number, _)| number % workers == worker) {
                if !lock_ignoring_poison(figures).has_no_violations() {
                    return Ok(());
                }
                self.records[applied..failure.before].iter().for_each(|record| record.apply_to(&mut disk));
                applied = failure.before;
                let mut rng = SeededRng::for_part(self.seed, *number as u64);
                let image = &disk.image(failure.unsynced, &mut rng);
                let records = &self.records[..failure.before];
                for (broken, what) in check(&RecordedFailure { number: *number, image, records })? {
                    let at = format!("{:?} before record {}", failure.unsynced, failure.before);
                    lock_ignoring_poison(figures).record_violation(broken, format!("{at}: {what}"));
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let work = &work;
            let running: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
            running.into_iter().try_for_each(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(_) => Err("a check panicked".to_owned()),
            })
        })?;
        Ok(count)
    }

    pub fn count(&self, kind: impl Fn(&TraceRecord<L>) -> bool) -> usize {
        self.records.iter().filter(|record| kind(record)).count()
    }
}

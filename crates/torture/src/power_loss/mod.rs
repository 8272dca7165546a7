//! Power loss: a process is recorded with all it does to its files and all it promises. From the record come images that
//! a disk could hold after a power failure at any moment: writes that no sync covers are kept, dropped, taken out of
//! order or torn. Each image is opened with the real code and compared with what had been promised by then.
//!
//! Recorded are a victim on SQLite, and one with a library of documents, its search index and remembered facts. A kill
//! does not show a missing sync, because the operating system still has what was written.

mod database;
mod image_check;
mod io_trace;
mod library;
mod library_check;
mod library_promises;
pub mod library_victim;
mod recording;
mod simulated_disk;
mod trace_ledger;

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use crate::TortureOptions;
use crate::io_faults::compile_shim;
use crate::report::TortureReport;
use crate::victim_process::lock_ignoring_poison;

/// Images of one recording, at most. A new recording has other operations and other moments.
const IMAGES_PER_RECORDING: usize = 500;

/// One in so many images is of the library.
const IMAGES_PER_LIBRARY_IMAGE: usize = 4;

/// Makes a recording and checks up to so many images of it in a folder, with a shim. Gives how many there were.
type RecordAndCheck =
    fn(&TortureOptions, u64, usize, &Path, &Path, &Mutex<TortureReport>) -> Result<usize, String>;

/// Runs the torture: most images are of a database, the rest of a library.
pub fn run(options: &TortureOptions) -> Result<TortureReport, String> {
    let wanted = wanted_images(options)?;
    let of_library = wanted / IMAGES_PER_LIBRARY_IMAGE;
    run_both(options, wanted - of_library, of_library)
}

/// Checks images of a database only.
pub fn run_database(options: &TortureOptions) -> Result<TortureReport, String> {
    run_both(options, wanted_images(options)?, 0)
}

/// Checks images of a library only.
pub fn run_library(options: &TortureOptions) -> Result<TortureReport, String> {
    run_both(options, 0, wanted_images(options)?)
}

fn wanted_images(options: &TortureOptions) -> Result<usize, String> {
    let wanted = options.kills.unwrap_or(if options.quick { 300 } else { 10_000 });
    usize::try_from(wanted).map_err(|error| error.to_string())
}

fn run_both(
    options: &TortureOptions,
    of_database: usize,
    of_library: usize,
) -> Result<TortureReport, String> {
    let started = Instant::now();
    if let Err(error) = Command::new("cc").arg("--version").output() {
        return Ok(TortureReport::skipped("power", options.seed, format!("no C compiler: {error}")));
    }
    if of_library > 0
        && let Some(why) = library_victim::missing_jail()
    {
        return Ok(TortureReport::skipped("power", options.seed, why));
    }
    let figures = Mutex::new(TortureReport::new("power", options.seed));
    let parts: [(usize, RecordAndCheck); 2] =
        [(of_database, database::record_and_check), (of_library, library::record_and_check)];
    for (wanted, record_and_check) in parts {
        let (mut images, mut round) = (0, 0);
        while images < wanted && lock_ignoring_poison(&figures).has_no_violations() {
            round += 1;
            let dir = scratch_dir()?;
            let shim = compile_shim(dir.path(), include_str!("io_trace_shim.c"))?;
            let max_images = (wanted - images).min(IMAGES_PER_RECORDING);
            let made = record_and_check(options, round, max_images, dir.path(), &shim, &figures)?;
            if made == 0 {
                return Err("a recording without a moment to lose power at".into());
            }
            images += made;
            let mut figures = lock_ignoring_poison(&figures);
            figures.add_number("kills", made);
            figures.add_number("recordings", 1_u64);
            if !figures.has_no_violations() && options.mutant.is_none() {
                figures.add_note(format!("the recording is kept in {}", dir.keep().display()));
            }
        }
    }
    let mut figures = figures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    figures.add_number("library_images", of_library);
    figures.add_number("seconds", started.elapsed().as_secs());
    Ok(figures)
}

/// A folder in memory where there is one: what is synced here need not survive anything.
fn scratch_dir() -> Result<tempfile::TempDir, String> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("doran-torture-").tempdir_in(place).map_err(|error| error.to_string())
}

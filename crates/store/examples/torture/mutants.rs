//! Seeded bugs: each is switched on in the victims, and the torture that is there to notice it must do so within its
//! normal time.

use std::time::Instant;

use crate::book::Broken;
use crate::report::Figures;
use crate::{Options, Torture, io, kill, replicas};

/// A bug, what it is, and who has to catch it.
const MUTANTS: [(&str, &str, Torture); 9] = [
    ("M1", "acknowledged before the commit", kill::run),
    ("M2", "an event shown before the commit", kill::run),
    ("M3", "records and step in two transactions", kill::run),
    ("M4", "no check of the epoch at the commit", replicas::run_zombies),
    ("M5", "idempotency key after the run, in its own transaction", kill::run),
    ("M6", "event numbers from milliseconds", kill::run),
    ("M12", "a call that must not be repeated is repeated", kill::run),
    ("M13", "an answer that is not consumed", kill::run),
    ("M14", "an error of fsync swallowed", io::run),
];

/// Runs the torture.
pub fn run(options: &Options) -> Result<Figures, String> {
    let begun = Instant::now();
    let mut figures = Figures::new("mutants", options.seed);
    for (name, what, torture) in MUTANTS {
        let began = Instant::now();
        let with = Options { mutant: Some(name), quick: true, kills: None, ..options.clone() };
        let found = torture(&with)?;
        let seconds = began.elapsed().as_secs_f32();
        figures.add("kills", found.number("kills"));
        if found.is_skipped() {
            figures.add("skipped_mutants", 1_u64);
            figures.note(format!("{name:<4} SKIPPED  {what}"));
        } else if found.holds() {
            figures.note(format!("{name:<4} MISSED   {what} ({seconds:.1} s)"));
            figures.wrong(Broken::Lost, format!("{name} was not noticed"));
        } else {
            figures.add("caught", 1_u64);
            let first: String = found.first().unwrap_or_default().chars().take(110).collect();
            figures.note(format!("{name:<4} caught   {what} ({seconds:.1} s): {first}"));
        }
    }
    figures.add("mutants", MUTANTS.len());
    figures.add("seconds", begun.elapsed().as_secs());
    Ok(figures)
}

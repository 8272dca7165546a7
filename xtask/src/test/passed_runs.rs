//! Remembers which jobs passed, by the hash of their inputs, in `target/passed`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::command::target_directory;

/// After this time a job runs again, even if nothing changed: the machine may have.
const REMEMBERED_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The jobs that passed.
pub struct PassedRuns {
    folder: PathBuf,
}

impl PassedRuns {
    /// Those of this checkout. Results that are too old are forgotten.
    pub fn open() -> Self {
        let runs = Self { folder: target_directory().join("passed") };
        runs.forget(SystemTime::now());
        runs
    }

    /// Those in a folder.
    #[cfg(test)]
    pub fn for_tests(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// How many tests passed in the run with this key, if there was one.
    pub fn find(&self, key: &str) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(key)).ok()?;
        text.lines().next()?.parse().ok()
    }

    /// Remembers a run. Without the note the job runs again, so a failure to write it does no harm.
    pub fn remember(&self, key: &str, name: &str, passed: u64) {
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            let draft = self.folder.join(format!("{key}.draft"));
            fs::write(&draft, format!("{passed}\n{name}\n"))?;
            fs::rename(&draft, self.folder.join(key))
        };
        if let Err(why) = write() {
            eprintln!("test: that {name} passed cannot be remembered: {why}");
        }
    }

    fn forget(&self, now: SystemTime) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if is_too_old(&entry.path(), now) {
                drop(fs::remove_file(entry.path()));
            }
        }
    }
}

fn is_too_old(path: &Path, now: SystemTime) -> bool {
    let written = fs::metadata(path).and_then(|facts| facts.modified());
    // A time in the future is as good as none.
    !written.is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age < REMEMBERED_FOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_remembered_by_its_key_for_a_week() {
        let folder = std::env::temp_dir().join(format!("doran-xtask-passed-{}", std::process::id()));
        let runs = PassedRuns { folder: folder.clone() };
        assert_eq!(runs.find("a"), None);
        runs.remember("a", "doran it", 7);
        assert_eq!((runs.find("a"), runs.find("b")), (Some(7), None));
        let now = SystemTime::now();
        runs.forget(now + REMEMBERED_FOR - Duration::from_secs(60));
        assert_eq!(runs.find("a"), Some(7));
        runs.forget(now - Duration::from_secs(60));
        assert_eq!(runs.find("a"), None, "it would be of the future");
        runs.remember("a", "doran it", 7);
        runs.forget(now + REMEMBERED_FOR + Duration::from_secs(60));
        assert_eq!(runs.find("a"), None);
        drop(fs::remove_dir_all(folder));
    }
}

//! The directory in which a backup is made, beside the archive. It holds conversations, so it is removed when the backup is
//! stopped, and one that a killed backup left is removed by the next.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::output::bilingual;

/// What the names of such directories start with.
const PREFIX: &str = ".doran-backup-";
/// The file whose lock says that a backup is being made.
const LOCK_NAME: &str = "lock";
/// How often something is tried that another process or thread can disturb.
const ATTEMPTS: usize = 100;

/// Stops a backup from another thread.
#[derive(Clone, Default)]
pub(crate) struct BackupStop(Arc<Mutex<StopState>>);

#[derive(Default)]
struct StopState {
    scratch: Option<PathBuf>,
    is_stopped: bool,
    is_published: bool,
}

impl BackupStop {
    /// Removes what was written. `false` if the archive is complete already.
    pub(crate) fn stop(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_published {
            return false;
        }
        state.is_stopped = true;
        if let Some(scratch) = &state.scratch {
            remove_folder(scratch);
        }
        true
    }

    /// Does the last step, unless the backup was stopped.
    pub(super) fn publish(&self, step: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped {
            return Err(stopped());
        }
        step()?;
        state.is_published = true;
        Ok(())
    }

    fn begin(&self, scratch: &Path) -> anyhow::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped {
            return Err(stopped());
        }
        state.scratch = Some(scratch.to_owned());
        Ok(())
    }
}

fn stopped() -> anyhow::Error {
    bilingual!("백업을 멈췄습니다", "the backup was stopped").into()
}

/// The directory of a backup, locked. Dropped, it is removed.
pub(super) struct ScratchFolder {
    path: PathBuf,
    _lock: File,
}

impl ScratchFolder {
    /// Makes one in `parent`, and removes those of backups that were killed.
    pub(super) fn create(parent: &Path, stop: &BackupStop) -> anyhow::Result<Self> {
        remove_left_overs(parent);
        for _ in 0..ATTEMPTS {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            // Another backup may take it for a left-over until the lock is held.
            let lock = folder.path().join(LOCK_NAME);
            let Ok(file) = OpenOptions::new().write(true).create_new(true).open(&lock) else { continue };
            if file.try_lock().is_err() || !lock.exists() {
                continue;
            }
            let scratch = Self { path: folder.keep(), _lock: file };
            stop.begin(&scratch.path)?;
            return Ok(scratch);
        }
        Err(io::Error::other(format!("cannot make a directory in {}", parent.display())).into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        remove_folder(&self.path);
    }
}

/// Removes a directory in which another thread may still write.
fn remove_folder(path: &Path) {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::yield_now(),
            Ok(()) | Err(_) => return,
        }
    }
    tracing::warn!(path = %path.display(), "cannot remove what an unfinished backup wrote; remove it by hand");
}

/// Removes the directories of backups that are not being made any more.
fn remove_left_overs(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let path = entry.path();
        if !is_named || !fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir() && is_own(&about)) {
            continue;
        }
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(path.join(LOCK_NAME));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok() && fs::remove_dir_all(&path).is_ok()) {
            tracing::info!(path = %path.display(), "removed what an unfinished backup left");
        }
    }
}

#[cfg(unix)]
fn is_own(about: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(about) == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).expect("entries");
        entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn left_overs_of_dead_backups_go_and_those_of_living_ones_stay() {
        let parent = TestDirectory::new();
        let dead = parent.path().join(".doran-backup-dead");
        fs::create_dir(&dead).expect("folder");
        fs::write(dead.join("database.sqlite"), "private").expect("written");
        fs::write(parent.path().join(".doran-backup-notes"), "a file of somebody").expect("written");
        let first = ScratchFolder::create(parent.path(), &BackupStop::default()).expect("made");
        assert!(!dead.exists());
        let second = ScratchFolder::create(parent.path(), &BackupStop::default()).expect("made");
        assert!(first.path().join(LOCK_NAME).exists() && second.path().join(LOCK_NAME).exists());
        drop((first, second));
        assert_eq!(names(parent.path()), [".doran-backup-notes"]);
    }

    #[test]
    fn a_stopped_backup_leaves_nothing_and_a_complete_one_stays() {
        let parent = TestDirectory::new();
        let stop = BackupStop::default();
        let scratch = ScratchFolder::create(parent.path(), &stop).expect("made");
        fs::write(scratch.path().join("archive.zip"), "private").expect("written");
        assert!(stop.stop());
        assert_eq!(names(parent.path()), [""; 0]);
        assert!(stop.publish(|| panic!("it was stopped")).is_err());
        assert!(ScratchFolder::create(parent.path(), &stop).is_err());
        assert_eq!(names(parent.path()), [""; 0]);

        let stop = BackupStop::default();
        stop.publish(|| Ok(())).expect("published");
        assert!(!stop.stop());
    }
}

//! Where a restore unpacks, and how everything gets to its place.
//!
//! A marker in the data directory names what a restore moves there. It is written before the first file and removed after
//! the last step. As long as it is there, only another restore uses the directory: that one removes what was moved.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use doran_engine::failpoint;
use serde::{Deserialize, Serialize};

use super::is_plain_path;
use crate::data_dir::{self, RESTORE_FOLDER, RESTORE_MARKER};

/// What a restore that has not been completed has moved, or was about to move, to its place. There was nothing before.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct RestoreMarker {
    /// Files and directories at the top of the data directory.
    names: BTreeSet<String>,
    database: Option<PathBuf>,
}

impl RestoreMarker {
    /// The marker of an earlier restore, if that was not completed.
    pub(super) fn read(data_dir: &Path) -> io::Result<Option<Self>> {
        match fs::read(data_dir.join(RESTORE_MARKER)) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, data_dir: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        data_dir::write_private_file(&data_dir.join(RESTORE_MARKER), &text)
    }

    /// The paths that another restore removes. A database of other settings than `database` is not touched.
    pub(super) fn removable_paths(&self, data_dir: &Path, database: Option<&Path>) -> BTreeSet<PathBuf> {
        let names = self.names.iter().filter(|name| is_plain_path(name) && !name.contains('/'));
        let moved = self.database.clone().filter(|moved| Some(moved.as_path()) == database);
        names.map(|name| data_dir.join(name)).chain(moved).collect()
    }
}

/// Where an archive is unpacked: a directory in the data directory, and a file beside the database, so that everything
/// is moved to its place by renaming. Dropped, what was not moved is removed.
pub(super) struct StagingDirectories {
    pub(super) data_dir: PathBuf,
    pub(super) folder: PathBuf,
    database: Option<PathBuf>,
    /// The marker of an earlier restore that was not completed. It stays until this one is.
    earlier: Option<RestoreMarker>,
    /// Whether the data directory is as it was before this restore.
    is_unchanged: Cell<bool>,
}

impl StagingDirectories {
    /// Makes them, instead of those that an earlier restore has left.
    pub(super) fn create(
        data_dir: &Path,
        database: Option<&Path>,
        earlier: Option<RestoreMarker>,
    ) -> io::Result<Self> {
        let left = earlier.as_ref().and_then(|earlier| earlier.database.as_deref()).map(copy_of_database);
        left.map_or(Ok(()), |copy| remove_if_there(&copy))?;
        let staging = Self {
            data_dir: data_dir.to_owned(),
            folder: data_dir.join(RESTORE_FOLDER),
            database: database.map(Path::to_owned),
            earlier,
            is_unchanged: Cell::new(true),
        };
        staging.remove_unpacked()?;
        if staging.earlier.is_none() {
            // Nothing is moved yet, so there is nothing to remove.
            RestoreMarker::default().write(&staging.data_dir)?;
        }
        fs::create_dir(&staging.folder)?;
        Ok(staging)
    }

    /// Where the database is unpacked.
    pub(super) fn database_copy(&self) -> Option<PathBuf> {
        self.database.as_deref().map(copy_of_database)
    }

    /// Whether the data directory is as it was before this restore, apart from what is unpacked.
    pub(super) fn is_unchanged(&self) -> bool {
        self.is_unchanged.get()
    }

    /// The names that will be at the top of the data directory, besides the database.
    pub(super) fn names(&self) -> io::Result<BTreeSet<String>> {
        let name = |entry: io::Result<fs::DirEntry>| {
            let name = entry?.file_name().into_string();
            name.map_err(|name| io::Error::other(format!("the name of {name:?} is not UTF-8")))
        };
        fs::read_dir(&self.folder)?.map(name).collect()
    }

    /// Moves everything to its place, the database last. What an earlier restore has moved there is removed before.
    pub(super) fn publish(&self) -> io::Result<()> {
        let names = self.names()?;
        let mut moves: Vec<(PathBuf, PathBuf)> =
            names.iter().map(|name| (self.folder.join(name), self.data_dir.join(name))).collect();
        if let (Some(copy), Some(database)) = (self.database_copy(), &self.database)
            && copy.exists()
        {
            moves.push((copy, database.clone()));
        }
        if let Some(earlier) = &self.earlier {
            self.is_unchanged.set(false);
            for path in earlier.removable_paths(&self.data_dir, self.database.as_deref()) {
                remove_if_there(&path)?;
            }
        }
        let marker = RestoreMarker { names, database: self.database.clone() };
        marker.write(&self.data_dir)?;
        self.is_unchanged.set(false);
        for (at, (from, to)) in moves.iter().enumerate() {
            if let Err(error) = fs::rename(from, to) {
                let moved_back = moves[..at].iter().rev().try_for_each(|(from, to)| fs::rename(to, from));
                self.is_unchanged.set(moved_back.is_ok() && self.earlier.is_none());
                return Err(error);
            }
        }
        #[cfg(unix)]
        for (_, to) in &moves {
            File::open(to.parent().unwrap_or(to))?.sync_all()?;
        }
        data_dir::make_dir_private(&self.data_dir).map_err(io::Error::other)?;
        fs::remove_dir(&self.folder)?;
        failpoint::hit("restore.before_completed");
        // From here on the data directory changes, and another restore must not remove anything in it.
        self.remove_marker().inspect_err(|_| {
            marker.write(&self.data_dir).ok();
        })
    }

    fn remove_marker(&self) -> io::Result<()> {
        remove_if_there(&self.data_dir.join(RESTORE_MARKER))?;
        #[cfg(unix)]
        File::open(&self.data_dir)?.sync_all()?;
        Ok(())
    }

    fn remove_unpacked(&self) -> io::Result<()> {
        remove_if_there(&self.folder)?;
        self.database_copy().map_or(Ok(()), |copy| remove_if_there(&copy))
    }
}

impl Drop for StagingDirectories {
    fn drop(&mut self) {
        let removed = self.remove_unpacked().and_then(|()| {
            // The marker goes last. One of an earlier restore, or of one that stopped halfway, stays.
            if self.is_unchanged() && self.earlier.is_none() { self.remove_marker() } else { Ok(()) }
        });
        if let Err(error) = removed {
            tracing::warn!(path = %self.folder.display(), %error, "cannot remove what was unpacked; the next `doran restore` removes it");
        }
    }
}

fn copy_of_database(database: &Path) -> PathBuf {
    let mut name = database.to_owned().into_os_string();
    name.push(".restore.new");
    name.into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

//! The archive of a backup: a zip with the database, the files of the data directory, the settings file, and a list of
//! all of them with their checksums.
//!
//! ```text
//! manifest.json          BackupManifest
//! database.sqlite        the database, if it is a SQLite file
//! thread-databases/…     the databases of agents that have their own, under the names that they get in the data directory
//! data/doran.toml        the settings file, wherever it was
//! data/library/…         and the other files of the data directory, under their own names
//! ```
//!
//! [`mod@write`] makes one while a server runs. [`restore`] puts one into an empty data directory, and
//! [`restored_settings`] keeps its settings file from leading out of that directory. The search index is not in it: the
//! next start makes it from the library.

mod disk_space;
pub(crate) mod restore;
mod restore_notes;
mod restore_staging;
mod restored_settings;
mod scratch_folder;
pub(crate) mod write;

pub(crate) use scratch_folder::BackupStop;

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::data_dir::{DataDirEntry, THREADS_FOLDER, classify_entry};

/// The format of the archive that this program writes, and the newest that it reads. Format 1 had no databases of agents.
const ARCHIVE_FORMAT: u32 = 2;
/// The list of what is in the archive.
const MANIFEST_NAME: &str = "manifest.json";
/// The copy of the SQLite database.
const DATABASE_NAME: &str = "database.sqlite";
/// What the names of files of the data directory start with.
const DATA_PREFIX: &str = "data/";
/// What the names of databases of agents start with. The rest is their path in the restored data directory.
const THREADS_PREFIX: &str = "thread-databases/";
/// The name of the settings file.
const SETTINGS_NAME: &str = "doran.toml";

/// What an archive contains, and who wrote it.
#[derive(Debug, Serialize, Deserialize)]
struct BackupManifest {
    /// The format of the archive.
    format: u32,
    /// The version of the program that wrote it.
    version: String,
    /// Seconds since 1970.
    created_at: u64,
    database: BackedUpDatabase,
    /// Where the paths in the settings file started. Format 1 does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<SettingsSurroundings>,
    /// The databases of agents that have their own.
    #[serde(default)]
    thread_databases: Vec<ThreadDatabase>,
    files: Vec<ArchivedFile>,
}

/// Where the settings file was, to know where the paths in it led.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SettingsSurroundings {
    /// The directory of the file.
    folder: PathBuf,
    data_dir: PathBuf,
    home: Option<PathBuf>,
}

/// A database with the threads of some agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ThreadDatabase {
    /// Its path in the restored data directory.
    path: String,
    /// Where it was.
    was: PathBuf,
    agents: Vec<String>,
}

/// The kind of database that was in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BackedUpDatabase {
    /// It is in the archive.
    Sqlite,
    /// It is not in the archive: `pg_dump` makes its backup.
    Postgres,
}

/// A file in the archive.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ArchivedFile {
    name: String,
    bytes: u64,
    sha256: String,
}

/// Whether this is a relative path, with `/`, that stays where it starts on every system.
fn is_plain_path(path: &str) -> bool {
    let is_plain =
        |step: &str| !step.is_empty() && step != "." && step != ".." && !step.contains(['\\', ':', '\0']);
    path.split('/').all(is_plain)
}

/// Whether a database of an agent may have this path in a data directory: none that Doran itself uses.
fn is_thread_database_path(path: &str) -> bool {
    let top = path.split('/').next().unwrap_or_default();
    let taken =
        ["doran.db", "doran.db-wal", "doran.db-shm", "doran.db-journal", "doran.db.lock", SETTINGS_NAME];
    is_plain_path(path) && classify_entry(top) != Some(DataDirEntry::Temporary) && !taken.contains(&top)
}

/// The place in a data directory of a database that was outside of it.
fn free_thread_path(was: &Path, is_taken: impl Fn(&str) -> bool) -> String {
    let name = was.file_name().map(|name| name.to_string_lossy().replace(['\\', ':', '\0'], "_"));
    let name = name.unwrap_or_else(|| "threads.db".to_owned());
    let names = std::iter::once(name.clone()).chain((2..).map(|number: u64| format!("{number}-{name}")));
    let mut paths = names.map(|name| format!("{THREADS_FOLDER}/{name}"));
    paths.find(|path| !is_taken(path)).unwrap_or_default()
}

/// The path from the root of the file system, without `.` and `..`.
fn absolute(path: &Path) -> PathBuf {
    normalize(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// The path without `.` and `..`, as far as its text says.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for step in path.components() {
        match step {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            step => normal.push(step),
        }
    }
    normal
}

/// Copies a stream and returns its length and its SHA-256 in hexadecimal.
fn copy_and_hash(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<(u64, String)> {
    let (mut bytes, mut hash, mut buffer) = (0, Sha256::new(), vec![0; 64 << 10]);
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok((bytes, hex::encode(hash.finalize()))),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        bytes += read as u64;
    }
}

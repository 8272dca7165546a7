//! The archive of a backup: a zip with the database, the files of the data directory, the settings file, and a list of
//! all of them with their checksums.
//!
//! ```text
//! manifest.json          BackupManifest
//! database.sqlite        the database, if it is a SQLite file
//! data/doran.toml        the settings file, wherever it was
//! data/library/…         and the other files of the data directory, under their own names
//! ```
//!
//! [`mod@write`] makes one while a server runs. [`restore`] puts one into an empty data directory. The search index is not
//! in it: the next start makes it from the library.

pub(crate) mod restore;
pub(crate) mod write;

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The format of the archive that this program writes, and the newest that it reads.
const ARCHIVE_FORMAT: u32 = 1;
/// The list of what is in the archive.
const MANIFEST_NAME: &str = "manifest.json";
/// The copy of the SQLite database.
const DATABASE_NAME: &str = "database.sqlite";
/// What the names of files of the data directory start with.
const DATA_PREFIX: &str = "data/";

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
    files: Vec<ArchivedFile>,
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

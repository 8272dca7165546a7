//! Puts the content of an archive into an empty data directory.
//!
//! Everything is unpacked into a directory of its own and verified there. Only then is it moved to its place. An error
//! leaves the data directory as it was.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use super::{
    ARCHIVE_FORMAT, ArchivedFile, BackedUpDatabase, BackupManifest, DATA_PREFIX, DATABASE_NAME,
    MANIFEST_NAME, copy_and_hash,
};
use crate::config::{Config, Database};
use crate::data_dir::{self, DataDirEntry, DataDirLock, RESTORE_FOLDER, classify_entry};
use crate::output::{BilingualMessage, bilingual};

/// The most bytes of the list of files.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// What was restored.
#[derive(Debug)]
pub(crate) struct RestoreReport {
    pub(crate) files: usize,
    /// Whether the archive has no database, because it was on a PostgreSQL server.
    pub(crate) database_is_elsewhere: bool,
}

/// Restores the archive. The data directory must be empty.
pub(crate) fn restore_archive(config: &Config, from: &Path) -> Result<RestoreReport, BilingualMessage> {
    let shown = from.display();
    let file = File::open(from).map_err(|error| {
        bilingual!("백업 `{shown}`을(를) 읽을 수 없습니다", "cannot read the backup `{shown}`")
            .with_cause(error)
    })?;
    let mut archive = OpenArchive::open(from, file)?;
    archive.check_version()?;
    let database = match (&config.database, archive.manifest.database) {
        (Database::Sqlite(path), BackedUpDatabase::Sqlite) => Some(path.clone()),
        (Database::Postgres(_), BackedUpDatabase::Postgres) => None,
        (Database::Sqlite(_), BackedUpDatabase::Postgres) => {
            return Err(bilingual!(
                "이 백업은 PostgreSQL을 쓰던 서버의 것입니다. `database`에 `postgres://…`를 정하세요",
                "this backup is of a server with PostgreSQL; set `database` to `postgres://…`"
            ));
        }
        (Database::Postgres(_), BackedUpDatabase::Sqlite) => {
            return Err(bilingual!(
                "이 백업에는 SQLite 데이터베이스가 있습니다. `database`를 `sqlite`로 정하세요",
                "this backup contains a SQLite database; set `database` to `sqlite`"
            ));
        }
    };
    let is_new = !config.data_dir.exists();
    let lock = DataDirLock::acquire(&config.data_dir)?;
    if let Err(error) = archive.restore_to(&config.data_dir, database) {
        if is_new {
            lock.remove_empty_directory(&config.data_dir);
        }
        return Err(error);
    }
    Ok(RestoreReport {
        files: archive.manifest.files.len(),
        database_is_elsewhere: archive.manifest.database == BackedUpDatabase::Postgres,
    })
}

fn cannot_restore(data_dir: &Path, error: io::Error) -> BilingualMessage {
    let shown = data_dir.display();
    bilingual!(
        "`{shown}`에 복원할 수 없습니다. 아무것도 바뀌지 않았습니다",
        "cannot restore to `{shown}`; nothing was changed"
    )
    .with_cause(error)
}

/// Rejects a data directory that has something to lose.
fn check_empty(data_dir: &Path, database: Option<&Path>) -> Result<(), BilingualMessage> {
    let unreadable = |error| cannot_restore(data_dir, error);
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(data_dir).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        if matches!(classify_entry(&name), Some(DataDirEntry::Data | DataDirEntry::Database)) {
            found.insert(name);
        }
    }
    let elsewhere = database.filter(|path| path.exists() && path.parent() != Some(data_dir));
    found.extend(elsewhere.map(|path| path.display().to_string()));
    if found.is_empty() {
        return Ok(());
    }
    let (shown, found) = (data_dir.display(), found.into_iter().collect::<Vec<_>>().join(", "));
    Err(bilingual!(
        "데이터 디렉터리 `{shown}`이(가) 비어 있지 않습니다({found}). 다른 곳으로 옮기거나, `--data-dir`로 빈 디렉터리를 고르세요",
        "the data directory `{shown}` is not empty ({found}); move it away, or choose an empty one with `--data-dir`"
    ))
}

struct OpenArchive {
    shown: String,
    zip: ZipArchive<BufReader<File>>,
    manifest: BackupManifest,
}

impl OpenArchive {
    fn open(path: &Path, file: File) -> Result<Self, BilingualMessage> {
        let shown = path.display().to_string();
        let odd = |error: &dyn std::fmt::Display| damaged(&shown, &error.to_string());
        let mut zip = ZipArchive::new(BufReader::new(file)).map_err(|error| odd(&error))?;
        let mut text = Vec::new();
        let listed = zip.by_name(MANIFEST_NAME).map_err(|error| odd(&error))?;
        listed.take(MAX_MANIFEST_BYTES).read_to_end(&mut text).map_err(|error| odd(&error))?;
        // A newer list may have another shape. Its format and its writer are reported first.
        let format: ManifestFormat = serde_json::from_slice(&text).map_err(|error| odd(&error))?;
        if format.format > ARCHIVE_FORMAT {
            return Err(newer(&shown, &format.version));
        }
        let manifest = serde_json::from_slice(&text).map_err(|error| odd(&error))?;
        Ok(Self { shown, zip, manifest })
    }

    /// A newer program may have written files that this one does not understand.
    fn check_version(&self) -> Result<(), BilingualMessage> {
        let number = |version: &str| -> Option<Vec<u64>> {
            version.split(['-', '+']).next()?.split('.').map(|part| part.parse().ok()).collect()
        };
        let (written, own) = (number(&self.manifest.version), number(env!("CARGO_PKG_VERSION")));
        if written.is_none() || written > own {
            return Err(newer(&self.shown, &self.manifest.version));
        }
        Ok(())
    }

    /// Unpacks everything beside the data, verifies it and moves it to its place.
    fn restore_to(&mut self, data_dir: &Path, database: Option<PathBuf>) -> Result<(), BilingualMessage> {
        check_empty(data_dir, database.as_deref())?;
        let staging = StagingDirectories::create(data_dir, database)
            .map_err(|error| cannot_restore(data_dir, error))?;
        self.unpack(&staging)?;
        staging.publish().map_err(|error| cannot_restore(data_dir, error))
    }

    /// Unpacks and verifies everything.
    fn unpack(&mut self, staging: &StagingDirectories) -> Result<(), BilingualMessage> {
        let listed: BTreeSet<&str> = self.manifest.files.iter().map(|file| file.name.as_str()).collect();
        if listed.len() != self.manifest.files.len() || self.zip.len() != listed.len() + 1 {
            return Err(damaged(&self.shown, "its list of files does not fit its content"));
        }
        for file in &self.manifest.files {
            let to = staging
                .place_of(&file.name)
                .ok_or_else(|| damaged(&self.shown, &format!("a file called {:?}", file.name)))?;
            unpack_file(&mut self.zip, file, &to).map_err(|error| match error {
                UnpackError::Damaged(why) => damaged(&self.shown, &format!("`{}`: {why}", file.name)),
                UnpackError::Write(error) => cannot_restore(&staging.data_dir, error),
            })?;
        }
        let Some(copy) = staging.database_copy().filter(|copy| copy.exists()) else { return Ok(()) };
        doran_store::sqlite::verify_file(&copy).map_err(|error| {
            let shown = &self.shown;
            bilingual!(
                "백업 `{shown}`의 데이터베이스를 쓸 수 없습니다. 아무것도 바뀌지 않았습니다",
                "the database in the backup `{shown}` cannot be used; nothing was changed"
            )
            .with_cause(error)
        })
    }
}

/// The part of the list that every format has.
#[derive(serde::Deserialize)]
struct ManifestFormat {
    format: u32,
    version: String,
}

fn newer(shown: &str, version: &str) -> BilingualMessage {
    let own = env!("CARGO_PKG_VERSION");
    bilingual!(
        "백업 `{shown}`은(는) 더 새로운 doran {version}이(가) 만들었고, 이 프로그램은 {own}입니다. {version} 이상을 설치하세요. 아무것도 바뀌지 않았습니다",
        "the backup `{shown}` was written by the newer doran {version}, and this is {own}; install {version} or newer. Nothing was changed"
    )
}

fn damaged(shown: &str, why: &str) -> BilingualMessage {
    bilingual!(
        "백업 `{shown}`은(는) 손상되었거나 doran의 백업이 아닙니다. 다른 백업을 쓰세요. 아무것도 바뀌지 않았습니다",
        "the backup `{shown}` is damaged, or not a backup of doran; use another one. Nothing was changed"
    )
    .with_cause(why.to_owned())
}

enum UnpackError {
    Damaged(String),
    Write(io::Error),
}

fn unpack_file(
    zip: &mut ZipArchive<BufReader<File>>,
    file: &ArchivedFile,
    to: &Path,
) -> Result<(), UnpackError> {
    let entry = zip.by_name(&file.name).map_err(|error| UnpackError::Damaged(error.to_string()))?;
    to.parent().map_or(Ok(()), fs::create_dir_all).map_err(UnpackError::Write)?;
    let mut out = WatchedWriter {
        inner: BufWriter::new(File::create_new(to).map_err(UnpackError::Write)?),
        failed: None,
    };
    // No more is unpacked than the list says.
    let copied = copy_and_hash(&mut entry.take(file.bytes + 1), &mut out);
    if let Some(error) = out.failed.take() {
        return Err(UnpackError::Write(error));
    }
    let (bytes, sha256) = copied.map_err(|error| UnpackError::Damaged(error.to_string()))?;
    if (bytes, &sha256) != (file.bytes, &file.sha256) {
        return Err(UnpackError::Damaged("the checksum does not fit".to_owned()));
    }
    out.inner.flush().and_then(|()| out.inner.get_ref().sync_all()).map_err(UnpackError::Write)
}

/// Tells errors of the disk that is written to from those of the archive that is read.
struct WatchedWriter {
    inner: BufWriter<File>,
    failed: Option<io::Error>,
}

impl Write for WatchedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(|error| {
            let kind = error.kind();
            self.failed = Some(error);
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Where an archive is unpacked: a directory in the data directory, and a file beside the database, so that everything
/// is moved to its place by renaming. Dropped, what was not moved is removed.
struct StagingDirectories {
    data_dir: PathBuf,
    folder: PathBuf,
    database: Option<PathBuf>,
}

impl StagingDirectories {
    fn create(data_dir: &Path, database: Option<PathBuf>) -> io::Result<Self> {
        let staging = Self { data_dir: data_dir.to_owned(), folder: data_dir.join(RESTORE_FOLDER), database };
        // A restore that was killed left them.
        staging.remove()?;
        fs::create_dir(&staging.folder)?;
        Ok(staging)
    }

    /// Where a file of the archive is unpacked. `None` for a name that no backup has.
    fn place_of(&self, name: &str) -> Option<PathBuf> {
        if name == DATABASE_NAME {
            return self.database_copy();
        }
        let relative = name.strip_prefix(DATA_PREFIX)?;
        let is_plain =
            |step: &str| !step.is_empty() && step != "." && step != ".." && !step.contains(['\\', ':', '\0']);
        let top = relative.split('/').next()?;
        let fits = relative.split('/').all(is_plain) && classify_entry(top) == Some(DataDirEntry::Data);
        fits.then(|| self.folder.join(relative))
    }

    fn database_copy(&self) -> Option<PathBuf> {
        let mut name = self.database.clone()?.into_os_string();
        name.push(".restore.new");
        Some(name.into())
    }

    /// Moves everything to its place, the database last. If that fails, it is moved back.
    fn publish(&self) -> io::Result<()> {
        let mut moves: Vec<(PathBuf, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            moves.push((entry.path(), self.data_dir.join(entry.file_name())));
        }
        if let (Some(copy), Some(database)) = (self.database_copy(), &self.database)
            && copy.exists()
        {
            moves.push((copy, database.clone()));
        }
        for (at, (from, to)) in moves.iter().enumerate() {
            if let Err(error) = fs::rename(from, to) {
                for (from, to) in &moves[..at] {
                    fs::rename(to, from)?;
                }
                return Err(error);
            }
        }
        #[cfg(unix)]
        for (_, to) in &moves {
            File::open(to.parent().unwrap_or(to))?.sync_all()?;
        }
        data_dir::ensure_private_dir(&self.data_dir).map_err(io::Error::other)
    }

    fn remove(&self) -> io::Result<()> {
        let missing_is_fine = |done: io::Result<()>| match done {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        missing_is_fine(fs::remove_dir_all(&self.folder))?;
        self.database_copy().map_or(Ok(()), |copy| missing_is_fine(fs::remove_file(copy)))
    }
}

impl Drop for StagingDirectories {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(path = %self.folder.display(), %error, "cannot remove what was unpacked; remove it by hand");
        }
    }
}

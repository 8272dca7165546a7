//! Puts the content of an archive into an empty data directory.
//!
//! Everything is unpacked into a directory of its own and verified there. Only then is it moved to its place. An error
//! before that leaves the data directory as it was; after a later one [`restore_staging`](super::restore_staging) keeps
//! others away from it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use zip::ZipArchive;

use super::restore_notes::{
    SET_ASIDE_NAME, SettingsOutcome, conflict_notes, other_settings_file, settings_notes,
};
use super::restore_staging::{RestoreMarker, StagingDirectories};
use super::restored_settings::for_restored_directory;
use super::{
    ARCHIVE_FORMAT, ArchivedFile, BackedUpDatabase, BackupManifest, DATA_PREFIX, DATABASE_NAME,
    MANIFEST_NAME, SETTINGS_NAME, THREADS_PREFIX, copy_and_hash, is_plain_path, is_thread_database_path,
};
use crate::config::{Config, Database};
use crate::data_dir::{self, DataDirEntry, DataDirLock, classify_entry};
use crate::output::{BilingualMessage, bilingual};

/// The most bytes of the list of files.
const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// What was restored.
#[derive(Debug)]
pub(crate) struct RestoreReport {
    pub(crate) files: usize,
    /// Whether the archive has no database, because it was on a PostgreSQL server.
    pub(crate) database_is_elsewhere: bool,
    /// What is different now, and what the next commands read.
    pub(crate) notes: Vec<BilingualMessage>,
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
    archive.check_database()?;
    let lock = DataDirLock::acquire_for_restore(&config.data_dir)?;
    let settings = match archive.restore_to(config, database.as_deref()) {
        Ok(settings) => settings,
        Err(error) => {
            if is_new {
                lock.remove_empty_directory(&config.data_dir);
            }
            return Err(error);
        }
    };
    let mut notes = settings_notes(config, &settings);
    notes.extend(archive.missing_threads_note(&settings));
    let is_readable = matches!(settings, SettingsOutcome::Restored(_));
    notes.extend(conflict_notes(config, &archive.manifest, is_readable));
    Ok(RestoreReport {
        files: archive.manifest.files.len(),
        database_is_elsewhere: archive.manifest.database == BackedUpDatabase::Postgres,
        notes,
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

fn restore_not_completed(data_dir: &Path, error: io::Error) -> BilingualMessage {
    let shown = data_dir.display();
    bilingual!(
        "`{shown}`에 복원하다가 실패해 일부만 있습니다. 원인을 없앤 뒤 같은 백업으로 `doran restore`를 다시 실행하세요. 그때까지 다른 명령은 이 디렉터리를 쓰지 않습니다",
        "the restore to `{shown}` failed halfway and left a part of the backup there; remove the cause and run `doran restore` again with the same backup. Until then other commands do not use the directory"
    )
    .with_cause(error)
}

/// Rejects a data directory that has something to lose, or where something of the archive has no place. What an earlier
/// restore has left does not count: it is removed.
fn check_empty(
    data_dir: &Path,
    database: Option<&Path>,
    names: &BTreeSet<String>,
    earlier: Option<&RestoreMarker>,
) -> Result<(), BilingualMessage> {
    let unreadable = |error| cannot_restore(data_dir, error);
    let left = earlier.map(|earlier| earlier.removable_paths(data_dir, database)).unwrap_or_default();
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(data_dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if left.contains(&entry.path()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        // A log beside a database that is not there yet would be taken for that of the restored one.
        let base =
            ["-wal", "-shm", "-journal"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        let is_taken = names.contains(base) || database == Some(data_dir.join(base).as_path());
        let is_data = matches!(classify_entry(&name), Some(DataDirEntry::Data | DataDirEntry::Database));
        if is_taken || is_data {
            found.insert(name);
        }
    }
    let elsewhere =
        database.filter(|path| path.exists() && path.parent() != Some(data_dir) && !left.contains(*path));
    if let (Some(path), true) = (elsewhere, found.is_empty()) {
        let shown = path.display();
        return Err(bilingual!(
            "적용 중인 설정의 `database`는 데이터 디렉터리 밖의 `{shown}`이고, 그 데이터베이스가 이미 있습니다. `--database sqlite`를 붙이면 데이터 디렉터리에 복원합니다",
            "`database` of the settings in force is `{shown}`, outside of the data directory, and that database exists; add `--database sqlite` to restore into the data directory"
        ));
    }
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
            return Err(newer_format(&shown, &format));
        }
        if format.format == 0 {
            return Err(odd(&"its list of files has no known format"));
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

    /// Without its database an archive would restore an installation that has lost everything.
    fn check_database(&self) -> Result<(), BilingualMessage> {
        let shown = &self.shown;
        let database = self.manifest.files.iter().find(|file| file.name == DATABASE_NAME);
        let threads = |file: &ArchivedFile| file.name.starts_with(THREADS_PREFIX) && file.bytes == 0;
        let is_missing = match self.manifest.database {
            BackedUpDatabase::Sqlite => database.is_none_or(|file| file.bytes == 0),
            BackedUpDatabase::Postgres => false,
        };
        if is_missing || self.manifest.files.iter().any(threads) {
            return Err(bilingual!(
                "백업 `{shown}`에 데이터베이스가 없거나 비어 있습니다. 다른 백업을 쓰세요. 아무것도 바뀌지 않았습니다",
                "the backup `{shown}` has no database, or an empty one; use another one. Nothing was changed"
            ));
        }
        let places: Vec<&str> =
            self.manifest.files.iter().filter_map(|file| file.name.strip_prefix(THREADS_PREFIX)).collect();
        let listed: Vec<&str> = self.manifest.thread_databases.iter().map(|one| one.path.as_str()).collect();
        if places != listed {
            return Err(damaged(shown, "its list of databases does not fit its content"));
        }
        Ok(())
    }

    /// Says which threads the backup does not have.
    fn missing_threads_note(&self, settings: &SettingsOutcome) -> Option<BilingualMessage> {
        let SettingsOutcome::Restored(settings) = settings else { return None };
        let missing = self.manifest.format == 1 && !settings.thread_databases.is_empty();
        missing.then(|| {
            let agents = settings.thread_databases.join(", ");
            bilingual!(
                "이 백업은 이전 형식이라 `checkpoint_db_path`가 있는 에이전트의 스레드가 들어 있지 않습니다({agents})",
                "this backup has the older format, without the threads of agents with a `checkpoint_db_path` ({agents})"
            )
        })
    }

    /// Unpacks everything beside the data, verifies it and moves it to its place.
    fn restore_to(
        &mut self,
        config: &Config,
        database: Option<&Path>,
    ) -> Result<SettingsOutcome, BilingualMessage> {
        let data_dir = &config.data_dir;
        let unchanged = |error| cannot_restore(data_dir, error);
        let earlier = RestoreMarker::read(data_dir).map_err(unchanged)?;
        let places = self.manifest.files.iter().filter_map(|file| relative_place(&file.name));
        let names = places.filter_map(|place| place.split('/').next()).map(str::to_owned).collect();
        check_empty(data_dir, database, &names, earlier.as_ref())?;
        let staging = StagingDirectories::create(data_dir, database, earlier.clone()).map_err(unchanged)?;
        self.unpack(&staging)?;
        let settings =
            self.restore_settings(&staging, other_settings_file(config).is_some()).map_err(unchanged)?;
        // Settings may have added directories for databases.
        let names = staging.names().map_err(unchanged)?;
        check_empty(data_dir, database, &names, earlier.as_ref())?;
        staging.publish().map_err(|error| match staging.is_unchanged() {
            true => cannot_restore(data_dir, error),
            false => restore_not_completed(data_dir, error),
        })?;
        Ok(settings)
    }

    /// Changes the unpacked settings, so that they lead nowhere else. If others are in force, there are always some, to be
    /// named instead of those.
    fn restore_settings(
        &self,
        staging: &StagingDirectories,
        others_are_in_force: bool,
    ) -> io::Result<SettingsOutcome> {
        let path = staging.folder.join(SETTINGS_NAME);
        if !path.exists() && !others_are_in_force {
            return Ok(SettingsOutcome::None);
        }
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8(bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(String::new()),
            Err(error) => return Err(error),
        };
        let BackupManifest { settings, thread_databases, .. } = &self.manifest;
        let restored =
            text.and_then(|text| for_restored_directory(&text, settings.as_ref(), thread_databases));
        let Some(restored) = restored else {
            fs::rename(&path, staging.folder.join(SET_ASIDE_NAME))?;
            return Ok(SettingsOutcome::SetAside);
        };
        for database in &restored.thread_databases {
            let place = staging.folder.join(database);
            place.parent().map_or(Ok(()), fs::create_dir_all)?;
        }
        data_dir::write_private_file(&path, restored.text.as_bytes())?;
        Ok(SettingsOutcome::Restored(restored))
    }

    /// Unpacks and verifies everything.
    fn unpack(&mut self, staging: &StagingDirectories) -> Result<(), BilingualMessage> {
        let listed: BTreeSet<&str> = self.manifest.files.iter().map(|file| file.name.as_str()).collect();
        if listed.len() != self.manifest.files.len() || self.zip.len() != listed.len() + 1 {
            return Err(damaged(&self.shown, "its list of files does not fit its content"));
        }
        for file in &self.manifest.files {
            let to = unpacked_place(staging, &file.name)
                .ok_or_else(|| damaged(&self.shown, &format!("a file called {:?}", file.name)))?;
            unpack_file(&mut self.zip, file, &to).map_err(|error| match error {
                UnpackError::Damaged(why) => damaged(&self.shown, &format!("`{}`: {why}", file.name)),
                UnpackError::Write(error) => cannot_restore(&staging.data_dir, error),
            })?;
        }
        let threads = self.manifest.thread_databases.iter().map(|one| staging.folder.join(&one.path));
        for copy in staging.database_copy().into_iter().chain(threads) {
            doran_store::sqlite::verify_file(&copy).map_err(|error| {
                let shown = &self.shown;
                bilingual!(
                    "백업 `{shown}`의 데이터베이스를 쓸 수 없습니다. 아무것도 바뀌지 않았습니다",
                    "the database in the backup `{shown}` cannot be used; nothing was changed"
                )
                .with_cause(error)
            })?;
        }
        Ok(())
    }
}

/// The part of the list that every format has.
#[derive(Deserialize)]
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

fn newer_format(shown: &str, found: &ManifestFormat) -> BilingualMessage {
    let ManifestFormat { format, version } = found;
    let own = env!("CARGO_PKG_VERSION");
    bilingual!(
        "백업 `{shown}`의 형식은 {format}이고, 이 프로그램(doran {own})은 형식 {ARCHIVE_FORMAT}까지 읽습니다. 이 백업을 만든 doran {version}처럼 형식 {format}을 쓰는 프로그램으로 복원하세요. 아무것도 바뀌지 않았습니다",
        "the backup `{shown}` has format {format}, and this program (doran {own}) reads formats up to {ARCHIVE_FORMAT}; restore it with the program that wrote it, a doran {version} with format {format}, or a newer one. Nothing was changed"
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

/// Where a file of the archive is unpacked. `None` for a name that no backup has.
fn unpacked_place(staging: &StagingDirectories, name: &str) -> Option<PathBuf> {
    if name == DATABASE_NAME {
        return staging.database_copy();
    }
    relative_place(name).map(|place| staging.folder.join(place))
}

/// The place in the data directory of a file of the archive. `None` for the database, and for a name that no backup has.
fn relative_place(name: &str) -> Option<&str> {
    if let Some(path) = name.strip_prefix(THREADS_PREFIX) {
        return Some(path).filter(|path| is_thread_database_path(path));
    }
    let path = name.strip_prefix(DATA_PREFIX)?;
    let fits =
        is_plain_path(path) && path.split('/').next().and_then(classify_entry) == Some(DataDirEntry::Data);
    fits.then_some(path)
}

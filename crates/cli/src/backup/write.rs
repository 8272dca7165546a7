//! Writes the archive. No lock is taken, so a server may be running.
//!
//! The database is copied as of one instant. The library changes only by replacing whole files, and a document's
//! directory is read as of one instant, too. So everything that was acknowledged before the backup began is in it.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use zip::write::{SimpleFileOptions, ZipWriter};

use super::{
    ARCHIVE_FORMAT, ArchivedFile, BackedUpDatabase, BackupManifest, DATA_PREFIX, DATABASE_NAME,
    MANIFEST_NAME, copy_and_hash,
};
use crate::config::{Config, Database};
use crate::data_dir::{DataDirEntry, classify_entry};
use crate::output::bilingual;

/// How deep directories in the data directory are read.
const MAX_DEPTH: usize = 8;
/// How often a directory that changes while it is read is read again.
const MAX_READ_ATTEMPTS: usize = 100;

/// What was written.
#[derive(Debug)]
pub(crate) struct BackupReport {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

/// Writes the archive `to`, which must not exist. It gets its name when it is complete and on disk.
pub(crate) fn write_archive(config: &Config, to: &Path) -> anyhow::Result<BackupReport> {
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if to.try_exists()? {
        return Err(bilingual!("파일이 이미 있습니다", "the file exists already").into());
    }
    let scratch = tempfile::Builder::new().prefix(".doran-backup-").tempdir_in(parent)?;
    let archive = tempfile::NamedTempFile::new_in(parent)?;
    let mut archive =
        ArchiveWriter { zip: ZipWriter::new(BufWriter::with_capacity(1 << 20, archive)), files: Vec::new() };
    let database = match &config.database {
        Database::Sqlite(path) => {
            if !path.try_exists()? {
                let shown = path.display();
                return Err(bilingual!(
                    "데이터베이스 `{shown}`이(가) 없습니다. `--data-dir`을 확인하세요",
                    "there is no database `{shown}`; check `--data-dir`"
                )
                .into());
            }
            let copy = scratch.path().join(DATABASE_NAME);
            doran_store::sqlite::back_up_file(path, &copy)?;
            archive.add(DATABASE_NAME, &mut File::open(&copy)?)?;
            fs::remove_file(&copy)?;
            BackedUpDatabase::Sqlite
        }
        Database::Postgres(_) => BackedUpDatabase::Postgres,
    };
    if let Some(settings) = &config.file {
        archive.add(&format!("{DATA_PREFIX}doran.toml"), &mut File::open(settings)?)?;
    }
    for path in list_directory(&config.data_dir)? {
        let name = utf8_name(&path)?;
        let is_data = classify_entry(name) == Some(DataDirEntry::Data);
        if is_data && name != "doran.toml" {
            // The entry itself may be a link, to a larger disk for example.
            archive.add_tree(&format!("{DATA_PREFIX}{name}"), &path, &fs::metadata(&path)?, 0)?;
        }
    }
    let report =
        BackupReport { files: archive.files.len(), bytes: archive.files.iter().map(|file| file.bytes).sum() };
    archive.finish(database)?.persist_noclobber(to).map_err(|error| error.error)?;
    #[cfg(unix)]
    File::open(parent)?.sync_all()?;
    Ok(report)
}

struct ArchiveWriter {
    zip: ZipWriter<BufWriter<tempfile::NamedTempFile>>,
    files: Vec<ArchivedFile>,
}

impl ArchiveWriter {
    fn start(&mut self, name: &str) -> io::Result<()> {
        let options = SimpleFileOptions::default().unix_permissions(0o600).large_file(true);
        self.zip.start_file(name, options).map_err(io::Error::other)
    }

    fn add(&mut self, name: &str, file: &mut File) -> io::Result<()> {
        self.start(name)?;
        let (bytes, sha256) = copy_and_hash(file, &mut self.zip)?;
        self.files.push(ArchivedFile { name: name.to_owned(), bytes, sha256 });
        Ok(())
    }

    /// Adds a file, or a directory with everything in it. What is gone meanwhile was removed on purpose.
    fn add_tree(&mut self, name: &str, path: &Path, about: &Metadata, depth: usize) -> io::Result<()> {
        if about.is_file() {
            return match File::open(path) {
                Ok(mut file) => self.add(name, &mut file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            };
        }
        if !about.is_dir() {
            return Ok(());
        }
        if depth == MAX_DEPTH {
            return Err(io::Error::other(format!("{} is nested too deep", path.display())));
        }
        let DirectoryContent { files, folders } = read_directory_at_one_instant(path)?;
        for (path, mut file) in files {
            self.add(&format!("{name}/{}", utf8_name(&path)?), &mut file)?;
        }
        for (path, about) in folders {
            self.add_tree(&format!("{name}/{}", utf8_name(&path)?), &path, &about, depth + 1)?;
        }
        Ok(())
    }

    /// Writes the list of files and syncs the archive.
    fn finish(mut self, database: BackedUpDatabase) -> io::Result<tempfile::NamedTempFile> {
        let created_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let manifest = BackupManifest {
            format: ARCHIVE_FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at,
            database,
            files: std::mem::take(&mut self.files),
        };
        self.start(MANIFEST_NAME)?;
        serde_json::to_writer_pretty(&mut self.zip, &manifest)?;
        let mut writer = self.zip.finish().map_err(io::Error::other)?;
        writer.flush()?;
        let archive = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        archive.as_file().sync_all()?;
        Ok(archive)
    }
}

/// The files of one directory, opened, and the directories in it.
struct DirectoryContent {
    files: Vec<(PathBuf, File)>,
    folders: Vec<(PathBuf, Metadata)>,
}

/// Opens all files of a directory as they were at one instant: if one appeared, changed or went while they were opened,
/// it begins again. An open file stays readable after it is replaced or removed.
fn read_directory_at_one_instant(directory: &Path) -> io::Result<DirectoryContent> {
    for _ in 0..MAX_READ_ATTEMPTS {
        let before = stat_directory(directory)?;
        let mut content = DirectoryContent { files: Vec::new(), folders: Vec::new() };
        let mut changed = false;
        for (path, about) in before.iter().cloned() {
            if about.is_dir() {
                content.folders.push((path, about));
            } else if about.is_file() {
                match File::open(&path) {
                    Ok(file) => content.files.push((path, file)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => changed = true,
                    Err(error) => return Err(error),
                }
            }
        }
        let same = |(left, right): (&(PathBuf, Metadata), &(PathBuf, Metadata))| {
            left.0 == right.0 && (left.1.is_dir() || is_same_file(&left.1, &right.1))
        };
        let after = stat_directory(directory)?;
        if !changed && before.len() == after.len() && before.iter().zip(&after).all(same) {
            return Ok(content);
        }
    }
    Err(io::Error::other(format!("{} changes all the time", directory.display())))
}

fn is_same_file(left: &Metadata, right: &Metadata) -> bool {
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::ino(left) != std::os::unix::fs::MetadataExt::ino(right) {
        return false;
    }
    left.len() == right.len() && left.modified().ok() == right.modified().ok()
}

/// The entries of a directory, sorted. Links to files are followed; links to directories, hidden and half-written files
/// and locks are left out.
fn stat_directory(directory: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut found = Vec::new();
    for path in list_directory(directory)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with('.') || name.ends_with(".new") || name == "lock" {
            continue;
        }
        let about = fs::symlink_metadata(&path).and_then(|about| {
            if about.is_symlink() {
                fs::metadata(&path).map(|about| (about, true))
            } else {
                Ok((about, false))
            }
        });
        match about {
            Ok((about, linked)) if about.is_file() || !linked => found.push((path, about)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The paths in a directory, sorted. One that does not exist is empty.
fn list_directory(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn utf8_name(path: &Path) -> io::Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| io::Error::other(format!("the name of {} is not UTF-8", path.display())))
}

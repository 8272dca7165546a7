//! Writes the archive. No lock is taken, so a server may be running.
//!
//! Each database is copied as of one instant. The library changes only by replacing whole files, and a document's
//! directory is read as of one instant, too. So everything that was acknowledged before the backup began is in it.

use std::cell::Cell;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use zip::write::{SimpleFileOptions, ZipWriter};

use super::scratch_folder::ScratchFolder;
use super::{
    ARCHIVE_FORMAT, ArchivedFile, BackedUpDatabase, BackupManifest, BackupStop, DATA_PREFIX, DATABASE_NAME,
    MANIFEST_NAME, SETTINGS_NAME, SettingsSurroundings, THREADS_PREFIX, ThreadDatabase, absolute,
    copy_and_hash, disk_space, free_thread_path, is_thread_database_path,
};
use crate::assemble::agents_by_storage;
use crate::config::{Config, Database};
use crate::data_dir::{DataDirEntry, classify_entry, has_unfinished_restore, unfinished_restore_error};
use crate::output::bilingual;
use crate::store_advice::store_advice;

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
pub(crate) fn write_archive(config: &Config, to: &Path, stop: &BackupStop) -> anyhow::Result<BackupReport> {
    if has_unfinished_restore(&config.data_dir) {
        return Err(unfinished_restore_error(&config.data_dir).into());
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if to.try_exists()? {
        return Err(bilingual!("파일이 이미 있습니다", "the file exists already").into());
    }
    let no_room = |error: io::Error| match disk_space::is_no_room(&error) {
        true => disk_space::full_archive_disk(parent).into(),
        false => anyhow::Error::from(error),
    };
    let scratch = ScratchFolder::create(parent, stop).map_err(|error| match error.downcast() {
        Ok(error) => no_room(error),
        Err(error) => error,
    })?;
    let unfinished = scratch.path().join("archive.zip");
    let archive = ArchiveFile::create(&unfinished).map_err(no_room)?;
    let failed = archive.failed.clone();
    let report = write_content(config, scratch.path(), archive).map_err(|error| {
        // The zip writer repeats the error of its file in other words.
        failed.take().map_or(error, no_room)
    })?;
    stop.publish(|| {
        tempfile::TempPath::try_from_path(&unfinished)?.persist_noclobber(to).map_err(|error| error.error)?;
        Ok(())
    })?;
    #[cfg(unix)]
    File::open(parent)?.sync_all()?;
    Ok(report)
}

fn write_content(config: &Config, scratch: &Path, archive: ArchiveFile) -> anyhow::Result<BackupReport> {
    let mut archive = ArchiveWriter { zip: ZipWriter::new(archive), files: Vec::new(), copied: Vec::new() };
    let database = match &config.database {
        Database::Sqlite(path) => {
            check_database(path)?;
            archive.add_database(DATABASE_NAME, path, scratch)?;
            BackedUpDatabase::Sqlite
        }
        Database::Postgres(_) => BackedUpDatabase::Postgres,
    };
    let mut thread_databases = find_thread_databases(config)?;
    // One that does not exist, or that SQLite has not begun, has no threads.
    thread_databases.retain(|one| fs::metadata(&one.was).is_ok_and(|about| about.len() > 0));
    for one in &thread_databases {
        archive.add_database(&format!("{THREADS_PREFIX}{}", one.path), &one.was, scratch)?;
    }
    if let Some(settings) = &config.file {
        archive.add(&format!("{DATA_PREFIX}{SETTINGS_NAME}"), &mut File::open(settings)?)?;
    }
    for path in list_directory(&config.data_dir)? {
        let name = utf8_name(&path)?;
        let is_data = classify_entry(name) == Some(DataDirEntry::Data);
        if is_data && name != SETTINGS_NAME {
            // The entry itself may be a link, to a larger disk for example.
            archive.add_tree(&format!("{DATA_PREFIX}{name}"), &path, &fs::metadata(&path)?, 0)?;
        }
    }
    let report =
        BackupReport { files: archive.files.len(), bytes: archive.files.iter().map(|file| file.bytes).sum() };
    let surroundings = config.file.as_deref().and_then(Path::parent).map(|folder| SettingsSurroundings {
        folder: absolute(folder),
        data_dir: absolute(&config.data_dir),
        home: config.home().map(Path::to_owned),
    });
    archive.finish(database, surroundings, thread_databases)?;
    Ok(report)
}

/// A database without content has nothing to restore.
fn check_database(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let message = match fs::metadata(path) {
        Ok(about) if about.len() > 0 => return Ok(()),
        Ok(_) => bilingual!(
            "데이터베이스 `{shown}`이(가) 비어 있습니다. `--data-dir`을 확인하세요",
            "the database `{shown}` is empty; check `--data-dir`"
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => bilingual!(
            "데이터베이스 `{shown}`이(가) 없습니다. `--data-dir`을 확인하세요",
            "there is no database `{shown}`; check `--data-dir`"
        ),
        Err(error) => return Err(error.into()),
    };
    Err(message.into())
}

/// The databases of agents that have their own. One in the data directory keeps its place; any other gets one in `threads`
/// there.
fn find_thread_databases(config: &Config) -> anyhow::Result<Vec<ThreadDatabase>> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| absolute(path));
    let data_dirs = [absolute(&config.data_dir), real(&config.data_dir)];
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (file, agents) in agents_by_storage(config, &config.tables.agent_settings())? {
        let Some(was) = file.map(|file| absolute(&file)) else { continue };
        // Either spelling of the path may be that of the data directory.
        let place = [was.clone(), real(&was)].into_iter().find_map(|path| {
            let path = data_dirs.iter().find_map(|folder| path.strip_prefix(folder).ok())?;
            let steps: Option<Vec<&str>> = path.iter().map(|step| step.to_str()).collect();
            Some(steps?.join("/")).filter(|path| is_thread_database_path(path))
        });
        match place {
            Some(path) => inside.push(ThreadDatabase { path, was, agents }),
            None => outside.push((was, agents)),
        }
    }
    for (was, agents) in outside {
        let path = free_thread_path(&was, |path| inside.iter().any(|one| one.path == path));
        inside.push(ThreadDatabase { path, was, agents });
    }
    Ok(inside)
}

struct ArchiveWriter {
    zip: ZipWriter<ArchiveFile>,
    files: Vec<ArchivedFile>,
    /// The databases that were copied as such. Files beside them belong to them.
    copied: Vec<PathBuf>,
}

impl ArchiveWriter {
    /// Adds a database as of one instant, also while a server writes to it.
    fn add_database(&mut self, name: &str, from: &Path, scratch: &Path) -> anyhow::Result<()> {
        let copy = scratch.join("copy.sqlite");
        doran_store::sqlite::back_up_file(from, &copy)
            .map_err(|error| disk_space::copy_error(from, scratch.parent().unwrap_or(scratch), error))?;
        // `restore` checks the same. A backup that it would refuse is none.
        doran_store::sqlite::verify_file(&copy).map_err(|error| {
            let shown = from.display();
            let message = bilingual!(
                "데이터베이스 `{shown}`은(는) 이 프로그램이 복원할 수 없어 백업하지 않았습니다",
                "the database `{shown}` was not backed up, because this program could not restore it"
            );
            message.with_cause(store_advice(&Database::Sqlite(from.to_owned()), error))
        })?;
        self.add(name, &mut File::open(&copy)?)?;
        fs::remove_file(&copy)?;
        self.copied.push(absolute(from));
        Ok(())
    }

    /// Whether this is a database that was copied, or its log or lock.
    fn is_of_database(&self, path: &Path) -> bool {
        let path = absolute(path);
        self.copied.iter().any(|database| {
            let rest =
                path.as_os_str().as_encoded_bytes().strip_prefix(database.as_os_str().as_encoded_bytes());
            rest.is_some_and(|rest| matches!(rest, b"" | b"-wal" | b"-shm" | b"-journal" | b".lock"))
        })
    }

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
            if self.is_of_database(path) {
                return Ok(());
            }
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
            if self.is_of_database(&path) {
                continue;
            }
            self.add(&format!("{name}/{}", utf8_name(&path)?), &mut file)?;
        }
        for (path, about) in folders {
            self.add_tree(&format!("{name}/{}", utf8_name(&path)?), &path, &about, depth + 1)?;
        }
        Ok(())
    }

    /// Writes the list of files and syncs the archive.
    fn finish(
        mut self,
        database: BackedUpDatabase,
        settings: Option<SettingsSurroundings>,
        thread_databases: Vec<ThreadDatabase>,
    ) -> io::Result<()> {
        let created_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let manifest = BackupManifest {
            format: ARCHIVE_FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at,
            database,
            settings,
            thread_databases,
            files: std::mem::take(&mut self.files),
        };
        self.start(MANIFEST_NAME)?;
        serde_json::to_writer_pretty(&mut self.zip, &manifest)?;
        let mut archive = self.zip.finish().map_err(io::Error::other)?;
        archive.flush()?;
        archive.file.get_ref().sync_all()
    }
}

/// The unfinished archive. After its first error it takes everything and writes nothing, because a zip writer that is
/// dropped tries to write on, and prints its own error where it cannot.
struct ArchiveFile {
    file: BufWriter<File>,
    failed: Rc<Cell<Option<io::Error>>>,
    has_failed: bool,
    /// Where the zip writer is, or believes to be after an error.
    position: u64,
    /// The largest position so far.
    end: u64,
}

impl ArchiveFile {
    fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = BufWriter::with_capacity(1 << 20, options.open(path)?);
        Ok(Self { file, failed: Rc::default(), has_failed: false, position: 0, end: 0 })
    }

    /// Keeps an error of the file, and returns its kind.
    fn keep_error<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let kind = error.kind();
            self.has_failed = true;
            self.failed.set(Some(error));
            kind.into()
        })
    }
}

impl Write for ArchiveFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.has_failed {
            true => bytes.len(),
            false => {
                let done = self.file.write(bytes);
                self.keep_error(done)?
            }
        };
        self.position += written as u64;
        self.end = self.end.max(self.position);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.has_failed {
            return Ok(());
        }
        let done = self.file.flush();
        self.keep_error(done)
    }
}

impl Seek for ArchiveFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.position.saturating_add_signed(by),
            SeekFrom::End(by) => self.end.saturating_add_signed(by),
        };
        if !self.has_failed {
            let done = self.file.seek(SeekFrom::Start(self.position));
            self.keep_error(done)?;
        }
        Ok(self.position)
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

//! Opens the database file: locking, format checks, migrations and connection settings.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use doran_engine::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{SqliteResultExt, file_error, message_error, to_store_error};
use crate::InspectedFormat;
use crate::migrations::Migrations;
use doran_engine::failpoint::{hit, mutant};

/// The oldest SQLite version that is safe to use. 3.51.2 and older can corrupt a WAL database that has two
/// connections.
const MIN_SQLITE_VERSION: i32 = 3_051_003;

/// `dora`, the application id in the header of every Doran database.
const APPLICATION_ID: i32 = 0x646f_7261;

const MIGRATIONS: Migrations = Migrations {
    first_format: 6,
    scripts: &[
        include_str!("../../migrations/sqlite/0006_initial.sql"),
        include_str!("../../migrations/sqlite/0007_thread_pairs.sql"),
    ],
};

/// Network file systems, where SQLite's locks and shared memory are not reliable: NFS, SMB, CIFS, SMB2, 9P, AFS,
/// Coda, Ceph.
#[cfg(target_os = "linux")]
const NETWORK_FILE_SYSTEM_TYPES: [u64; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x5346_414f, 0x7375_7245, 0x00c3_6400];

/// Rejects a SQLite library with a known data-loss bug.
pub(super) fn check_sqlite_version() -> Result<(), StoreError> {
    let found = rusqlite::version_number();
    if found < MIN_SQLITE_VERSION {
        let found = rusqlite::version();
        return Err(StoreError::Other(message_error(format!(
            "SQLite {found} can corrupt its files: 3.51.3 or newer is needed"
        ))));
    }
    Ok(())
}

/// The canonical path of the file, so that different spellings of a path use the same lock.
pub(super) fn real_path(path: &Path) -> Result<PathBuf, StoreError> {
    let failed = |cause: std::io::Error| StoreError::Unavailable(file_error(path, "cannot open", cause));
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let name = path
                .file_name()
                .ok_or_else(|| StoreError::Other(message_error("a database needs a file name")))?;
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Ok(folder.canonicalize().map_err(failed)?.join(name))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Locks the lock file next to the database. The lock is held until the returned file is closed or the process ends.
pub(super) fn lock_database(path: &Path) -> Result<File, StoreError> {
    let name = path_with_suffix(path, ".lock");
    let file = File::options().create(true).truncate(false).write(true).open(&name);
    let file = file.map_err(|cause| StoreError::Unavailable(file_error(&name, "cannot write", cause)))?;
    try_lock(file, &name, path)
}

/// Whether a process has the database open. Changes nothing.
pub(super) fn is_locked(path: &Path) -> bool {
    let file = File::options().write(true).open(path_with_suffix(path, ".lock"));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Locks the database file itself, if it exists: the lock file beside it may have been removed. The lock is independent of
/// SQLite's own locks on Linux alone.
#[cfg(target_os = "linux")]
pub(super) fn lock_database_file(path: &Path) -> Result<Option<File>, StoreError> {
    match File::open(path) {
        Ok(file) => try_lock(file, path, path).map(Some),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(StoreError::Unavailable(file_error(path, "cannot read", cause))),
    }
}

/// Does nothing: this lock would conflict with SQLite's own.
#[cfg(not(target_os = "linux"))]
pub(super) fn lock_database_file(_path: &Path) -> Result<Option<File>, StoreError> {
    Ok(None)
}

fn try_lock(file: File, name: &Path, path: &Path) -> Result<File, StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Unavailable(message_error(format!(
            "`{}` is in use by another process",
            path.display()
        )))),
        Err(TryLockError::Error(cause)) => {
            Err(StoreError::Unavailable(file_error(name, "cannot lock", cause)))
        }
    }
}

/// Rejects a network file system.
#[cfg(target_os = "linux")]
pub(super) fn check_file_system(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let found = rustix::fs::statfs(folder);
    let found =
        found.map_err(|cause| StoreError::Unavailable(file_error(folder, "cannot look at", cause)))?;
    // The type's width differs between platforms. All values fit in 32 bits.
    let kind = u64::from(found.f_type as u32);
    if NETWORK_FILE_SYSTEM_TYPES.contains(&kind) {
        let folder = folder.display();
        let message =
            format!("`{folder}` is a network file system, on which SQLite loses data: use a local disk");
        return Err(StoreError::Other(message_error(message)));
    }
    Ok(())
}

/// Does nothing: only Linux reports the file system type as a number.
#[cfg(not(target_os = "linux"))]
pub(super) fn check_file_system(_path: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Rejects a file that is not a Doran database or has a format that this program does not know. Does not change what
/// is in the file. A missing or empty file is accepted, unless it has a log.
pub(super) fn check_existing_file(path: &Path) -> Result<(), StoreError> {
    match inspect_existing_file(path)?.found {
        Some(found) => MIGRATIONS.pending(found).map(drop),
        None => Ok(()),
    }
}

/// The format of a file that exists. Does not change what is in the file.
pub(super) fn inspect_existing_file(path: &Path) -> Result<InspectedFormat, StoreError> {
    let nothing = InspectedFormat { found: None, known: MIGRATIONS.current_format() };
    match path.metadata() {
        Ok(meta) if !meta.is_file() => {
            return Err(StoreError::Other(message_error(format!("`{}` is not a file", path.display()))));
        }
        Ok(meta) if meta.len() == 0 => return check_no_log_without_file(path).map(|()| nothing),
        Ok(_) => {}
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            return check_no_log_without_file(path).map(|()| nothing);
        }
        Err(cause) => return Err(StoreError::Unavailable(file_error(path, "cannot read", cause))),
    }
    let look = |access: OpenFlags| {
        let conn = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        let id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let format: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables: u32 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, format, tables))
    };
    let looked = match look(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // The power failed, or the process was killed, while the file was made. SQLite can read it only after it has
        // rolled back what had been begun.
        Err(rusqlite::Error::SqliteFailure(error, _))
            if error.extended_code == rusqlite::ffi::SQLITE_READONLY_ROLLBACK =>
        {
            look(OpenFlags::SQLITE_OPEN_READ_WRITE)
        }
        looked => looked,
    };
    let (id, format, tables) = looked.map_err(|error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => {
            StoreError::Damaged(format!("`{}` is not a SQLite database", path.display()))
        }
        _ => to_store_error(error),
    })?;
    if id == 0 && format == 0 && tables == 0 {
        return Ok(nothing);
    }
    if id != APPLICATION_ID {
        let message = format!("`{}` is a database of another program", path.display());
        return Err(StoreError::Other(message_error(message)));
    }
    MIGRATIONS.inspected(Some(format_version(format)?))
}

/// Rejects a file without tables, which a store would begin anew.
pub(super) fn check_not_empty(path: &Path) -> Result<(), StoreError> {
    let conn = open_reader(path)?;
    let format: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).or_store_error()?;
    if format == 0 {
        return Err(StoreError::Damaged(format!("`{}` is empty", path.display())));
    }
    Ok(())
}

/// Rejects a write-ahead log whose database is missing or empty: SQLite would delete it, with all it holds. SQLite itself
/// writes the first page of the file before it begins a log.
fn check_no_log_without_file(path: &Path) -> Result<(), StoreError> {
    const LOG_HEADER_BYTES: u64 = 32;
    let log = path_with_suffix(path, "-wal");
    match log.metadata() {
        Ok(meta) if meta.len() > LOG_HEADER_BYTES => Err(StoreError::Damaged(format!(
            "`{}` is missing or empty, and `{}` is not: restore both from a backup, or move the log away",
            path.display(),
            log.display()
        ))),
        Ok(_) => Ok(()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(StoreError::Unavailable(file_error(&log, "cannot read", cause))),
    }
}

/// Opens the write connection and migrates the file to the newest format.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).or_store_error()?;
    conn.busy_timeout(BUSY_TIMEOUT).or_store_error()?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).or_store_error()?;
    if mode != "wal" {
        let path = path.display();
        return Err(StoreError::Other(message_error(format!(
            "`{path}` lies where SQLite cannot keep a write-ahead log"
        ))));
    }
    // The writer runs checkpoints itself, because a failed sync inside an automatic checkpoint would go unnoticed. It also
    // syncs the log itself, when somebody waits for it.
    conn.execute_batch(
        "PRAGMA synchronous = NORMAL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -16000;",
    )
    .or_store_error()?;
    if mutant("no_fsync") {
        conn.pragma_update(None, "synchronous", "OFF").or_store_error()?;
    }
    configure_connection(&conn).or_store_error()?;
    copy_before_migration(&conn, path, &MIGRATIONS)?;
    migrate(&conn, &MIGRATIONS)?;
    Ok(conn)
}

/// Copies a database of an older format to a file beside it, before it is migrated. Older programs cannot read what a
/// migration makes, but they can read this copy.
fn copy_before_migration(conn: &Connection, path: &Path, migrations: &Migrations) -> Result<(), StoreError> {
    let format: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).or_store_error()?;
    let (found, known) = (format_version(format)?, migrations.current_format());
    if found == 0 || found == known {
        return Ok(());
    }
    let copy = path_with_suffix(path, &format!(".format-{found}"));
    let part = path_with_suffix(&copy, ".part");
    let cannot = |cause: std::io::Error| StoreError::Other(file_error(&copy, "cannot write", cause));
    match std::fs::remove_file(&part) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(cannot(cause)),
        Ok(()) | Err(_) => {}
    }
    if let Err(error) = super::vacuum_into(conn, &part) {
        std::fs::remove_file(&part).ok();
        return Err(error);
    }
    std::fs::rename(&part, &copy).map_err(cannot)?;
    #[cfg(unix)]
    File::open(path.parent().unwrap_or(Path::new("/")))
        .and_then(|folder| folder.sync_all())
        .map_err(cannot)?;
    tracing::warn!(
        "the database is migrated from format {found} to format {known}; `{}` is a copy of it as it was",
        copy.display()
    );
    Ok(())
}

/// Opens the write-ahead log of a database that is open, and makes sure that it and all it holds is on disk.
pub(super) fn open_log(path: &Path) -> Result<File, StoreError> {
    let log = path_with_suffix(path, "-wal");
    let open = || {
        let file = File::options().read(true).write(true).open(&log)?;
        file.sync_data()?;
        // The name of the file must survive too.
        #[cfg(unix)]
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        Ok(file)
    };
    open().map_err(|cause: std::io::Error| StoreError::Unavailable(file_error(&log, "cannot sync", cause)))
}

/// Opens a read-only connection.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).or_store_error()?;
    conn.busy_timeout(BUSY_TIMEOUT).or_store_error()?;
    configure_connection(&conn).or_store_error()?;
    Ok(conn)
}

/// Opens the only connection to an in-memory database.
pub(super) fn open_in_memory() -> Result<Connection, StoreError> {
    let conn = Connection::open_in_memory().or_store_error()?;
    configure_connection(&conn).or_store_error()?;
    migrate(&conn, &MIGRATIONS)?;
    Ok(conn)
}

/// Appends `suffix` to the file name of `path`.
pub(super) fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings that all connections share.
fn configure_connection(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(128);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Query plans do not depend on bound values, so a statement is never planned again because of them.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;")
}

fn format_version(user_version: i64) -> Result<u32, StoreError> {
    u32::try_from(user_version)
        .map_err(|_| StoreError::Damaged(format!("format {user_version} does not exist")))
}

/// Migrates the file to the newest format, with one transaction per version.
fn migrate(conn: &Connection, migrations: &Migrations) -> Result<(), StoreError> {
    let format: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).or_store_error()?;
    for (number, script) in migrations.pending(format_version(format)?)? {
        let step = conn.unchecked_transaction().or_store_error()?;
        step.execute_batch(script).or_store_error()?;
        hit("migration.mid_transaction");
        step.pragma_update(None, "application_id", APPLICATION_ID).or_store_error()?;
        step.pragma_update(None, "user_version", number).or_store_error()?;
        step.commit().or_store_error()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formats that this program has, and one that a later version might add.
    const WITH_NEXT_FORMAT: Migrations = Migrations {
        first_format: MIGRATIONS.first_format,
        scripts: &[
            MIGRATIONS.scripts[0],
            MIGRATIONS.scripts[1],
            "ALTER TABLE threads ADD COLUMN title TEXT; UPDATE threads SET title = upper(thread);",
        ],
    };

    fn file_with_thread(path: &Path) -> Connection {
        let conn = open_writer(path).expect("open");
        let sql = "INSERT INTO threads (tenant, thread, created_at, updated_at, metadata)
                   VALUES ('local', 't', 1, 1, '{}')";
        conn.execute(sql, []).expect("thread");
        conn
    }

    fn title(conn: &Connection) -> rusqlite::Result<String> {
        conn.query_row("SELECT title FROM threads", [], |row| row.get(0))
    }

    #[test]
    fn a_later_migration_finds_the_rows_and_is_done_once() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("doran.db");
        let conn = file_with_thread(&path);
        migrate(&conn, &WITH_NEXT_FORMAT).expect("migrated");
        migrate(&conn, &WITH_NEXT_FORMAT).expect("nothing to do");
        assert_eq!(title(&conn).expect("column"), "T");
        drop(conn);
        let refused = check_existing_file(&path);
        assert!(matches!(refused, Err(StoreError::Newer { found: 8, known: 7 })), "{refused:?}");
    }

    #[test]
    fn the_database_is_copied_before_a_migration() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("doran.db");
        let conn = file_with_thread(&path);
        copy_before_migration(&conn, &path, &MIGRATIONS).expect("nothing to copy");
        let copy = path_with_suffix(&path, &format!(".format-{}", MIGRATIONS.current_format()));
        assert!(!copy.exists(), "there is no migration");
        std::fs::write(path_with_suffix(&copy, ".part"), "left by a crash").expect("write");
        copy_before_migration(&conn, &path, &WITH_NEXT_FORMAT).expect("copied");
        migrate(&conn, &WITH_NEXT_FORMAT).expect("migrated");
        drop(conn);
        check_existing_file(&path).expect_err("this program is too old for it now");
        // The way back: the copy takes the place of the database.
        check_existing_file(&copy).expect("the format before");
        let conn = open_writer(&copy).expect("open");
        assert!(title(&conn).is_err(), "the copy has no new column");
        let threads: u32 =
            conn.query_row("SELECT count(*) FROM threads", [], |row| row.get(0)).expect("count");
        assert_eq!(threads, 1);
    }

    #[test]
    fn a_database_that_cannot_be_copied_is_not_migrated() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("doran.db");
        let conn = file_with_thread(&path);
        let copy = path_with_suffix(&path, &format!(".format-{}", MIGRATIONS.current_format()));
        std::fs::create_dir(&copy).expect("something in the way");
        let error = copy_before_migration(&conn, &path, &WITH_NEXT_FORMAT).expect_err("in the way");
        assert!(format!("{error:?}").contains("doran.db.format-"), "{error:?}");
        drop(conn);
        check_existing_file(&path).expect("still the format before");
    }

    #[test]
    fn a_migration_that_fails_half_way_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("doran.db");
        let conn = file_with_thread(&path);
        let broken = Migrations {
            first_format: MIGRATIONS.first_format,
            scripts: &["", "", "ALTER TABLE threads ADD COLUMN title TEXT; UPDATE nothing SET x = 1;"],
        };
        migrate(&conn, &broken).expect_err("no such table");
        assert!(title(&conn).is_err(), "the column is undone");
        check_existing_file(&path).expect("still the format before");
        migrate(&conn, &WITH_NEXT_FORMAT).expect("done again");
    }
}

//! Opening the file: whose it is, which format it has, how it is written.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use doran_engine::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{SqliteResultExt, file_error, message_error, to_store_error};
use doran_engine::failpoint::hit;

/// SQLite 3.51.2 and older can corrupt a file in WAL mode that has two connections.
const MIN_SQLITE_VERSION: i32 = 3_051_003;

/// `dora`, in the header of each of our files.
const APPLICATION_ID: i32 = 0x646f_7261;

/// One script for each format, from 1 on.
const MIGRATIONS: [&str; 2] = [
    include_str!("../../migrations/sqlite/0001_base.sql"),
    include_str!("../../migrations/sqlite/0002_places.sql"),
];

/// The newest format this program knows.
pub(super) const CURRENT_FORMAT_VERSION: u32 = MIGRATIONS.len() as u32;

/// File systems on which the locks and the shared memory of SQLite cannot be relied on: NFS, SMB, CIFS, SMB2, 9P,
/// AFS, Coda, Ceph.
#[cfg(target_os = "linux")]
const NETWORK_FILE_SYSTEM_TYPES: [u64; 8] =
    [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x5346_414f, 0x7375_7245, 0x00c3_6400];

/// Refuses a library with a known way to lose data.
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

/// The one name of a file, so that two ways to spell its path meet the same lock.
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

/// Takes the lock file beside the database. It holds until the returned file is closed, also by the end of the process.
pub(super) fn lock_database(path: &Path) -> Result<File, StoreError> {
    let name = path_with_suffix(path, ".lock");
    let file = File::options().create(true).truncate(false).write(true).open(&name);
    let file = file.map_err(|cause| StoreError::Unavailable(file_error(&name, "cannot write", cause)))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Unavailable(message_error(format!(
            "`{}` is in use by another process",
            path.display()
        )))),
        Err(TryLockError::Error(cause)) => {
            Err(StoreError::Unavailable(file_error(&name, "cannot lock", cause)))
        }
    }
}

/// Refuses a file system that lies on another machine.
#[cfg(target_os = "linux")]
pub(super) fn check_file_system(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let found = rustix::fs::statfs(folder);
    let found =
        found.map_err(|cause| StoreError::Unavailable(file_error(folder, "cannot look at", cause)))?;
    // The type has another width on each platform; the numbers all fit 32 bits.
    let kind = u64::from(found.f_type as u32);
    if NETWORK_FILE_SYSTEM_TYPES.contains(&kind) {
        let folder = folder.display();
        let message =
            format!("`{folder}` is a network file system, on which SQLite loses data: use a local disk");
        return Err(StoreError::Other(message_error(message)));
    }
    Ok(())
}

/// Only Linux tells by a number what a file system is.
#[cfg(not(target_os = "linux"))]
pub(super) fn check_file_system(_path: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Refuses what is not ours or too new, without touching it. A file that is empty or missing is fine.
pub(super) fn check_existing_file(path: &Path) -> Result<(), StoreError> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() => {
            return Err(StoreError::Other(message_error(format!("`{}` is not a file", path.display()))));
        }
        Ok(meta) if meta.len() == 0 => return Ok(()),
        Ok(_) => {}
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(StoreError::Unavailable(file_error(path, "cannot read", cause))),
    }
    let look = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        let id: i32 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let format: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables: u32 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, format, tables))
    };
    let (id, format, tables) = look().map_err(|error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => {
            StoreError::Damaged(format!("`{}` is not a SQLite database", path.display()))
        }
        _ => to_store_error(error),
    })?;
    if id == 0 && format == 0 && tables == 0 {
        return Ok(());
    }
    if id != APPLICATION_ID {
        let message = format!("`{}` is a database of another program", path.display());
        return Err(StoreError::Other(message_error(message)));
    }
    check_format_version(format)
}

/// The connection that writes, with the newest format.
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
    // A failed sync inside an automatic checkpoint would go unseen, so the writer does its checkpoints itself.
    conn.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -16000;",
    )
    .or_store_error()?;
    configure_connection(&conn).or_store_error()?;
    migrate(&conn)?;
    Ok(conn)
}

/// A connection that only reads.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).or_store_error()?;
    conn.busy_timeout(BUSY_TIMEOUT).or_store_error()?;
    configure_connection(&conn).or_store_error()?;
    Ok(conn)
}

/// The only connection to a database without a file.
pub(super) fn open_in_memory() -> Result<Connection, StoreError> {
    let conn = Connection::open_in_memory().or_store_error()?;
    configure_connection(&conn).or_store_error()?;
    migrate(&conn)?;
    Ok(conn)
}

/// The name of `path` with `suffix` after it.
pub(super) fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What all connections have in common.
fn configure_connection(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(128);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // A plan never depends on bound values, so a statement is never planned anew for them.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;")
}

fn check_format_version(format: i64) -> Result<(), StoreError> {
    match u32::try_from(format) {
        Ok(format) if format <= CURRENT_FORMAT_VERSION => Ok(()),
        Ok(found) => Err(StoreError::Newer { found, known: CURRENT_FORMAT_VERSION }),
        Err(_) => Err(StoreError::Damaged(format!("format {format} does not exist"))),
    }
}

/// Brings the file to the newest format, one transaction for each step.
fn migrate(conn: &Connection) -> Result<(), StoreError> {
    let format: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).or_store_error()?;
    check_format_version(format)?;
    for (number, script) in (1_i64..).zip(MIGRATIONS) {
        if number <= format {
            continue;
        }
        let step = conn.unchecked_transaction().or_store_error()?;
        step.execute_batch(script).or_store_error()?;
        hit("migrate.mid");
        step.pragma_update(None, "application_id", APPLICATION_ID).or_store_error()?;
        step.pragma_update(None, "user_version", number).or_store_error()?;
        step.commit().or_store_error()?;
    }
    Ok(())
}

//! The data directory: where threads live, held by one process at a time.

#[cfg_attr(not(unix), path = "data_dir/no_permissions.rs")]
mod permissions;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::client::ServerHttpClient;
use crate::config::{Config, Database};
use crate::output::{BilingualMessage, bilingual};

/// The data directory, held until dropped.
///
/// The lock is the operating system's, so a killed process leaves none behind; the file itself stays. It is held until the
/// last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct DataDirLock {
    _lock: Arc<File>,
}

impl DataDirLock {
    /// Makes the directory if need be, readable by its owner only, and takes its lock.
    pub(crate) fn acquire(path: &Path) -> Result<Self, BilingualMessage> {
        ensure_private_dir(path)?;
        Ok(Self { _lock: Arc::new(acquire_lock_file(path)?) })
    }

    /// The same for a restore, which may find one that was not completed.
    pub(crate) fn acquire_for_restore(path: &Path) -> Result<Self, BilingualMessage> {
        make_dir_private(path)?;
        Ok(Self { _lock: Arc::new(acquire_lock_file(path)?) })
    }

    /// Removes a directory that holds nothing but the lock. Any other stays.
    pub(crate) fn remove_empty_directory(self, path: &Path) {
        let is_lock =
            |entry: std::io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() == "lock");
        if fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_lock)) {
            fs::remove_file(path.join("lock")).ok();
            fs::remove_dir(path).ok();
        }
    }
}

/// Whether another process has the directory.
pub(crate) fn is_locked(path: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path.join("lock")) else { return false };
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Makes the directory if need be, without taking it, and takes the rights of other users away from it and from the
/// files that Doran keeps in it. A directory with a part of a backup is refused.
pub(crate) fn ensure_private_dir(path: &Path) -> Result<(), BilingualMessage> {
    make_dir_private(path)?;
    match has_unfinished_restore(path) {
        true => Err(unfinished_restore_error(path)),
        false => Ok(()),
    }
}

/// Whether a restore to this directory was ended before it was complete.
pub(crate) fn has_unfinished_restore(path: &Path) -> bool {
    path.join(RESTORE_MARKER).exists()
}

/// Says that the directory holds a part of a backup only.
pub(crate) fn unfinished_restore_error(path: &Path) -> BilingualMessage {
    let shown = path.display();
    bilingual!(
        "`{shown}`에 백업을 복원하던 `doran restore`가 끝나지 않아 일부만 있습니다. 같은 백업으로 `doran restore`를 다시 실행하세요",
        "`{shown}` has only a part of a backup, because `doran restore` was ended before it was complete; run it again with the same backup"
    )
}

/// Makes the directory if need be and takes the rights of other users away.
pub(crate) fn make_dir_private(path: &Path) -> Result<(), BilingualMessage> {
    let shown = path.display();
    create_private_dir(path).map_err(|error| {
        bilingual!(
            "데이터 디렉터리 `{shown}`을(를) 만들 수 없습니다. `--data-dir`로 다른 곳을 고르세요",
            "cannot make the data directory `{shown}`; choose another with `--data-dir`"
        )
        .with_cause(error)
    })?;
    make_private(&permissions::exposed_paths(path));
    Ok(())
}

/// Takes the rights of other users away from these paths, and says so.
pub(crate) fn make_private(exposed: &[PathBuf]) {
    for exposed in exposed {
        match permissions::make_private(exposed) {
            Ok(()) => {
                tracing::warn!(path = %exposed.display(), "other users could read this file; its permissions are corrected");
            }
            // A directory of a volume: what is written in it belongs to this user alone.
            Err(_) if permissions::is_of_another_user(exposed) => {
                static TOLD: std::sync::Once = std::sync::Once::new();
                TOLD.call_once(|| {
                    tracing::warn!(path = %exposed.display(), "the data directory belongs to another user, so that other users can list it; set `data_dir` to a directory inside it, which is made private");
                });
            }
            Err(error) => {
                tracing::warn!(path = %exposed.display(), %error, "other users can read this file and its permissions cannot be changed; run `chmod 600` on it");
            }
        }
    }
}

/// What other users of this machine can read or write: the directory, files that Doran keeps in it, or the database
/// file, wherever it is.
pub(crate) fn exposed_paths(config: &Config) -> Vec<PathBuf> {
    let mut exposed = permissions::exposed_paths(&config.data_dir);
    exposed.extend(exposed_database_files(&config.database));
    exposed.sort();
    exposed.dedup();
    exposed
}

/// Whether this process may not change the permissions of a directory, because it belongs to another user.
pub(crate) fn is_of_another_user(path: &Path) -> bool {
    permissions::is_of_another_user(path)
}

/// Files of the database that other users of this machine can read or write.
pub(crate) fn exposed_database_files(database: &Database) -> Vec<PathBuf> {
    let Database::Sqlite(path) = database else { return Vec::new() };
    let beside = |end: &str| {
        let mut name = path.clone().into_os_string();
        name.push(end);
        PathBuf::from(name)
    };
    ["", "-wal", "-shm"].into_iter().map(beside).filter(|path| permissions::is_exposed(path)).collect()
}

/// What a file or directory at the top of the data directory is to a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataDirEntry {
    /// It cannot be made again.
    Data,
    /// The SQLite database with its log, its lock and its older copies, or databases of agents that a restore put here.
    Database,
    /// It belongs to a running process, or can be made again.
    Temporary,
}

/// What Doran keeps under this name in the data directory. A directory that was chosen with `--data-dir` may contain
/// things of others, which are `None`.
pub(crate) fn classify_entry(name: &str) -> Option<DataDirEntry> {
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let ours = starts(&["doran.db", "doran.toml", "memory.", "models.", "keys.", "mcp-pins."]);
    let temporary = ["demo", "lock", "replica.id", "search", RESTORE_FOLDER, RESTORE_MARKER].contains(&name)
        || starts(&["server."])
        || (ours && (name.ends_with(".lock") || name.ends_with(".new")));
    if temporary {
        return Some(DataDirEntry::Temporary);
    }
    if starts(&["doran.db"]) || name == THREADS_FOLDER {
        return Some(DataDirEntry::Database);
    }
    let data = starts(&["doran.toml", "memory.", "models.", "keys."])
        || name.ends_with(".key")
        || ["mcp-pins.json", "mcp-pins.json.imported", "library", "library.imported", "evals", "agents"]
            .contains(&name);
    data.then_some(DataDirEntry::Data)
}

/// The directory in the data directory for databases of agents that were elsewhere before a restore.
pub(crate) const THREADS_FOLDER: &str = "threads";

/// The directory in the data directory in which a restore unpacks.
pub(crate) const RESTORE_FOLDER: &str = "restore.new";

/// The file in the data directory that names what a restore puts there, as long as it is not complete.
pub(crate) const RESTORE_MARKER: &str = "restore.unfinished";

/// Files and directories that this process makes belong to its owner alone, whichever part of it makes them.
pub(crate) fn set_private_umask() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Writes a file that only its owner can read. It is there whole or as it was before.
pub(crate) fn write_private_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    write_and_rename(&beside, path, bytes).inspect_err(|_| {
        fs::remove_file(&beside).ok();
    })
}

fn write_and_rename(beside: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(beside)?;
    #[cfg(unix)]
    permissions::give_to_owner_of_directory(&file, path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    #[cfg(unix)]
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Waits for the lock of this name in the directory. It is held until the file is dropped, or the process ends.
pub(crate) fn wait_for_lock(directory: &Path, name: &str) -> std::io::Result<File> {
    let file = open_lock_file(&directory.join(name))?;
    file.lock()?;
    Ok(file)
}

fn open_lock_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    permissions::give_to_owner_of_directory(&file, path)?;
    Ok(file)
}

fn create_private_dir(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn acquire_lock_file(directory: &Path) -> Result<File, BilingualMessage> {
    let path = directory.join("lock");
    let shown = path.display();
    let cannot = |error: std::io::Error| {
        bilingual!("잠금 파일 `{shown}`을(를) 쓸 수 없습니다", "cannot use the lock file `{shown}`")
            .with_cause(error)
    };
    let mut file = open_lock_file(&path).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(already_locked_error(directory, file)),
        Err(TryLockError::Error(error)) => return Err(cannot(error)),
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(cannot)?;
    writeln!(file, "{}", std::process::id()).and_then(|()| file.flush()).map_err(cannot)?;
    Ok(file)
}

fn already_locked_error(directory: &Path, mut file: File) -> BilingualMessage {
    let shown = directory.display();
    let mut text = String::new();
    let holder = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok());
    if let Some(server) = ServerHttpClient::from_data_dir(directory) {
        let address = server.address;
        return bilingual!(
            "데이터 디렉터리 `{shown}`은(는) 서버 http://{address} 가 쓰고 있고, 이 명령은 서버가 멈춘 동안에만 할 수 있습니다. 서버를 켠 곳에서 Ctrl-C로 멈추고 다시 하거나, `--data-dir`로 다른 곳을 고르세요",
            "the server http://{address} is using the data directory `{shown}`, and this can be done only while it is stopped; stop it with Ctrl-C where it was started and try again, or choose another directory with `--data-dir`"
        );
    }
    match holder {
        Some(pid) => bilingual!(
            "데이터 디렉터리 `{shown}`을(를) 다른 doran(프로세스 {pid})이 쓰고 있습니다. 그 프로세스를 끝내거나(`kill {pid}`), `--data-dir`로 다른 곳을 고르세요",
            "another doran (process {pid}) is using the data directory `{shown}`; stop it (`kill {pid}`) or choose another directory with `--data-dir`"
        ),
        // The other process has the lock but has not written its number yet, or the system does not let it be read.
        None => bilingual!(
            "데이터 디렉터리 `{shown}`을(를) 다른 doran이 쓰고 있습니다. 그것을 끝내거나, `--data-dir`로 다른 곳을 고르세요",
            "another doran is using the data directory `{shown}`; stop it or choose another directory with `--data-dir`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    #[test]
    fn the_error_of_a_second_holder_names_the_first_and_what_to_do() {
        let scratch = TestDirectory::new();
        let path = scratch.path().join("a/b");
        let first = DataDirLock::acquire(&path).expect("free");
        let error = DataDirLock::acquire(&path).expect_err("held");
        let pid = std::process::id().to_string();
        for text in [&error.ko, &error.en] {
            assert!(text.contains(&pid) && text.contains("--data-dir"), "{text}");
            assert!(text.contains(&path.display().to_string()), "{text}");
        }
        drop(first);
        DataDirLock::acquire(&path).expect("free again");
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_read_it() {
        use std::os::unix::fs::PermissionsExt;

        let scratch = TestDirectory::new();
        let data = scratch.path().join("data");
        let _held = DataDirLock::acquire(&data).expect("free");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(&data), 0o700);
        assert_eq!(mode(&data.join("lock")), 0o600);
    }

    #[test]
    fn a_number_left_by_a_dead_process_does_not_keep_the_lock() {
        let scratch = TestDirectory::new();
        fs::write(scratch.path().join("lock"), "4194304999\n").expect("write");
        DataDirLock::acquire(scratch.path()).expect("free");
        let text = fs::read_to_string(scratch.path().join("lock")).expect("read");
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let scratch = TestDirectory::new();
        let path = scratch.path().join("file");
        fs::write(&path, "").expect("write");
        let error = DataDirLock::acquire(&path).expect_err("a file");
        assert!(error.en.contains("cannot make the data directory"), "{error}");
    }
}

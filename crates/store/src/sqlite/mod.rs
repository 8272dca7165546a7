//! The SQLite store: one file on a local disk, used by one process.
//!
//! - `writer` runs all writes on one connection. Concurrent writes share a transaction, and all who wait for the disk
//!   share a sync.
//! - `reader_pool` has read-only connections that never wait for the writer.
//! - `database_file` opens the file and migrates it to the newest format.
//! - `queue`, `runs`, `history`, `deleted_usage`, `idempotency`, `items`, `timers`, `thread_maintenance`, `log_batches`
//!   and `garbage_collection` implement the store operations as plain functions of a connection.
//!
//! The file is locked as long as the store is open, so no lease outlives the process. Leases are kept in memory:
//! renewing one costs no write, and after a restart every interrupted run can be claimed at once.

mod database_file;
mod deleted_usage;
mod error;
mod garbage_collection;
mod history;
mod idempotency;
mod items;
mod log_batches;
mod queue;
mod reader_pool;
mod rows;
mod runs;
#[cfg(test)]
mod tests;
mod thread_maintenance;
mod timers;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::failpoint::mutant;
use doran_engine::id::{RunKey, TenantId, ThreadId, ThreadKey};
use doran_engine::store::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, DeletedUsage, Durability, Fence, GcReport,
    HistoryStore, InputDurability, LeaseRenewal, LoadedLog, LogEntry, Millis, NewEntry, NewRun,
    NodeCacheStore, Retention, RunFilter, RunPosition, RunRow, RunSignal, RunStore, Seq, SignalOutcome,
    StoreError, SubmitOutcome, ThreadFilter, ThreadMaintenance, ThreadRow, WorkerLease,
};
use rusqlite::Connection;
use serde_json::{Map, Value};

use self::error::{SqliteResultExt, file_error, message_error};
use self::garbage_collection::{GC_BATCH_ROWS, GcCursor};
use self::log_batches::{BatchBudget, CopyProgress};
use self::reader_pool::ReaderPool;
use self::writer::{SqliteWriter, TransactionFailPoints, WriteJobKind, WriteTransaction, WriterState};
use crate::{FileStoreMaintenance, InspectedFormat};

/// A store in one SQLite file. Clones share it. The file is unlocked when the last clone is dropped.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<SqliteStoreInner>,
}

struct SqliteStoreInner {
    // Fields are dropped in this order. The writer is the last connection to close and moves the WAL into the file.
    // Then the lock is released.
    readers: Option<Arc<ReaderPool>>,
    writer: SqliteWriter,
    _locks: Vec<File>,
}

impl SqliteStore {
    /// Opens the file, or creates it. Blocks on disk I/O.
    ///
    /// Returns an error if another process has the file open, if it is on a network file system, if it is not a Doran
    /// database, or if its format is newer than this program. The file is not modified in these cases.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        database_file::check_sqlite_version()?;
        let path = database_file::real_path(path.as_ref())?;
        database_file::check_file_system(&path)?;
        let lock = database_file::lock_database(&path)?;
        let file_lock = database_file::lock_database_file(&path)?;
        database_file::check_existing_file(&path)?;
        let conn = database_file::open_writer(&path)?;
        let file_lock = match file_lock {
            None => database_file::lock_database_file(&path)?,
            held => held,
        };
        let locks = [Some(lock), file_lock].into_iter().flatten().collect();
        release_claims_of_earlier_process(&conn).or_store_error()?;
        let log = database_file::open_log(&path)?;
        Self::start_writer(conn, Some(log), Some(ReaderPool::new(path)), locks)
    }

    /// Opens a store in memory. Its content is lost when the store is dropped.
    pub fn in_memory() -> Result<Self, StoreError> {
        database_file::check_sqlite_version()?;
        Self::start_writer(database_file::open_in_memory()?, None, None, Vec::new())
    }

    /// The number of committed transactions. Several calls may share one transaction.
    pub fn transactions(&self) -> u64 {
        self.inner.writer.transactions()
    }

    /// The number of syncs of the write-ahead log that somebody waited for or that time brought. Several transactions may
    /// share one sync. Checkpoints are not counted.
    pub fn syncs(&self) -> u64 {
        self.inner.writer.wal_sync().syncs()
    }

    /// Rewrites the file to return free space to the disk (`VACUUM`). Writes wait until it is done.
    pub async fn compact(&self) -> Result<(), StoreError> {
        let vacuum = |conn: &Connection| {
            conn.execute_batch("VACUUM").or_store_error()?;
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).or_store_error()
        };
        self.inner.writer.run_outside_transaction(vacuum).await
    }

    fn start_writer(
        conn: Connection,
        log: Option<File>,
        readers: Option<Arc<ReaderPool>>,
        locks: Vec<File>,
    ) -> Result<Self, StoreError> {
        let sql = "SELECT coalesce(max(ticket), 0) FROM runs WHERE status < 4";
        let ticket = conn.query_row(sql, [], |row| row.get(0)).or_store_error()?;
        let writer = SqliteWriter::start(conn, log, WriterState::new(ticket))?;
        Ok(Self { inner: Arc::new(SqliteStoreInner { readers, writer, _locks: locks }) })
    }

    async fn write<T: Send + 'static>(
        &self,
        points: TransactionFailPoints,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.run_in_transaction(WriteJobKind::Long, points, Durability::Now, work).await
    }

    /// Clears threads batch by batch.
    async fn clear_thread_batches<F>(&self, clear: F) -> Result<u64, StoreError>
    where
        F: Fn(&WriteTransaction<'_>, &mut GcCursor) -> Result<u64, StoreError> + Copy + Send + 'static,
    {
        let (mut total, mut cursor) = (0, GcCursor::default());
        while !cursor.is_done {
            let batch = move |tx: &mut WriteTransaction<'_>| {
                let mut next = cursor;
                clear(tx, &mut next).map(|cleared| (cleared, next))
            };
            let (cleared, next) = self.write(TransactionFailPoints::default(), batch).await?;
            total += cleared;
            cursor = next;
        }
        Ok(total)
    }

    /// Copies a thread batch by batch.
    async fn copy_in_batches(
        &self,
        from: ThreadKey,
        to: ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        let begin = move |tx: &mut WriteTransaction<'_>| log_batches::begin_copy(tx, from, to, stands);
        let mut progress = self.write(TransactionFailPoints::default(), begin).await?;
        loop {
            let copy = match progress {
                CopyProgress::Complete(row) => return Ok(row),
                CopyProgress::Unfinished(copy) => copy,
            };
            let number = copy.number;
            let next = move |tx: &mut WriteTransaction<'_>| log_batches::continue_copy(tx, *copy);
            progress = match self.write(TransactionFailPoints::default(), next).await {
                Ok(progress) => progress,
                Err(error) => {
                    let abandon = move |tx: &mut WriteTransaction<'_>| log_batches::abandon_copy(tx, number);
                    // If this fails too, the next start of the process does it.
                    drop(self.write(TransactionFailPoints::default(), abandon).await);
                    self.delete_unowned_logs_or_log().await;
                    return Err(error);
                }
            };
        }
    }

    /// Deletes logs that belong to no thread, batch by batch.
    async fn delete_unowned_logs(&self) -> Result<(), StoreError> {
        while self.write(TransactionFailPoints::default(), |tx| log_batches::delete_unowned_logs(tx)).await? {
        }
        Ok(())
    }

    /// The same after a thread was removed. That is done; what is left of its log is deleted by the next `gc`.
    async fn delete_unowned_logs_or_log(&self) {
        if let Err(error) = self.delete_unowned_logs().await {
            tracing::warn!(%error, "could not delete the log of a removed thread yet");
        }
    }

    /// Deletes rows batch by batch until a batch is not full.
    async fn clear_row_batches<F>(&self, clear: F) -> Result<u64, StoreError>
    where
        F: Fn(&WriteTransaction<'_>) -> Result<u64, StoreError> + Copy + Send + 'static,
    {
        let mut total = 0;
        loop {
            let cleared = self.write(TransactionFailPoints::default(), move |tx| clear(tx)).await?;
            total += cleared;
            if cleared < GC_BATCH_ROWS as u64 {
                return Ok(total);
            }
        }
    }

    /// Reads one snapshot. Returns when everything in it is on disk, also when it tells that something is not there.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let found = self.read_visible(work).await;
        self.wait_for_visible().await?;
        found
    }

    /// Reads one snapshot, of which not everything may be on disk.
    async fn read_visible<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Some(failure) = self.inner.writer.fatal_error() {
            return Err(failure);
        }
        match &self.inner.readers {
            Some(readers) => readers.run_in_snapshot(work).await,
            None => self.write(TransactionFailPoints::default(), |tx| work(tx.conn)).await,
        }
    }

    /// Waits until everything that could be seen up to now is on disk.
    async fn wait_for_visible(&self) -> Result<(), StoreError> {
        if mutant("read_before_sync") {
            return Ok(());
        }
        let wal_sync = self.inner.writer.wal_sync();
        wal_sync.wait_until_durable(wal_sync.visible_position()).await
    }
}

/// Releases all runs that an earlier process had claimed, and copies it did not complete. Writes nothing if there are
/// none.
///
/// `status < 4` repeats the condition of the partial index over open runs. SQLite uses that index only if the
/// condition is in the query.
fn release_claims_of_earlier_process(conn: &Connection) -> rusqlite::Result<()> {
    let all = conn.unchecked_transaction()?;
    let sql = "UPDATE threads SET ready = (SELECT r.ticket FROM runs r WHERE r.tenant = threads.tenant AND r.run = active)
               WHERE (tenant, thread) IN (SELECT tenant, thread FROM runs WHERE status = 2 AND status < 4 AND held = 1)";
    all.execute(sql, [])?;
    all.execute("UPDATE runs SET held = 0 WHERE status = 2 AND status < 4 AND held = 1", [])?;
    all.execute("UPDATE unowned_logs SET copying = 0 WHERE copying = 1", [])?;
    all.commit()
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqliteStore")
    }
}

#[async_trait]
impl FileStoreMaintenance for SqliteStore {
    async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let to = to.to_owned();
        let copy = move |conn: &Connection| back_up(conn, &to);
        match &self.inner.readers {
            Some(readers) => {
                readers.run_without_transaction(copy).await?;
                self.wait_for_visible().await
            }
            None => self.inner.writer.run_outside_transaction(copy).await,
        }
    }

    async fn integrity_check(&self) -> Result<(), StoreError> {
        match &self.inner.readers {
            Some(readers) => readers.run_in_snapshot(check_integrity).await,
            None => self.inner.writer.run_outside_transaction(check_integrity).await,
        }
    }

    async fn wait_for_fatal_error(&self) -> Arc<str> {
        self.inner.writer.wait_for_fatal_error().await
    }
}

fn remove_file_at(path: &Path) -> Result<(), StoreError> {
    std::fs::remove_file(path).map_err(|cause| StoreError::Other(file_error(path, "cannot remove", cause)))
}

/// Copies the database at `from`, which another process may have open, to the new file `to`. Blocks on disk I/O.
pub fn back_up_file(from: &Path, to: &Path) -> Result<(), StoreError> {
    back_up(&database_file::open_reader(from)?, to)
}

/// Whether a process has the database at `path` open as its store.
pub fn is_file_locked(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    database_file::is_locked(&path)
}

/// Checks a database file that no process has open: that it is a database of Doran in a format that this program knows, and
/// that it is not damaged.
pub fn verify_file(path: &Path) -> Result<(), StoreError> {
    database_file::check_existing_file(path)?;
    database_file::check_not_empty(path)?;
    check_integrity(&database_file::open_reader(path)?)
}

/// The same, without an error for the format, which it returns.
pub(crate) fn inspect_file(path: &Path) -> Result<InspectedFormat, StoreError> {
    let inspected = database_file::inspect_existing_file(path)?;
    if inspected.found.is_some_and(|found| found <= inspected.known) {
        check_integrity(&database_file::open_reader(path)?)?;
    }
    Ok(inspected)
}

fn check_integrity(conn: &Connection) -> Result<(), StoreError> {
    let mut statement = conn.prepare("PRAGMA integrity_check").or_store_error()?;
    let lines = statement.query_map([], |row| row.get(0)).or_store_error()?;
    let lines: Vec<String> = lines.collect::<Result<_, _>>().or_store_error()?;
    if lines == ["ok"] { Ok(()) } else { Err(StoreError::Damaged(lines.join("; "))) }
}

/// Writes a consistent copy to a new file and syncs it to disk. Never overwrites an existing file.
fn back_up(conn: &Connection, to: &Path) -> Result<(), StoreError> {
    let exists = || StoreError::Conflict(format!("`{}` exists already", to.display()));
    if to.try_exists().map_err(|cause| StoreError::Other(file_error(to, "cannot look at", cause)))? {
        return Err(exists());
    }
    // The copy is written under a temporary name and renamed when complete, so a partial copy is never mistaken for a
    // backup. An interrupted backup may have left its temporary file.
    let part = database_file::path_with_suffix(to, ".part");
    if part.exists() {
        remove_file_at(&part)?;
    }
    let done = vacuum_into(conn, &part).and_then(|()| {
        publish_backup(&part, to).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::AlreadyExists => exists(),
            _ => StoreError::Other(file_error(to, "cannot make", cause)),
        })
    });
    if part.exists() {
        remove_file_at(&part)?;
    }
    done?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let sync = File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(|cause| StoreError::Other(file_error(to, "cannot write", cause)))
}

/// Gives the finished backup its final name, unless that name is taken.
fn publish_backup(part: &Path, to: &Path) -> std::io::Result<()> {
    // Unlike a rename, a hard link never replaces a file that was created in the meantime.
    match std::fs::hard_link(part, to) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
            publish_backup_without_links(part, to)
        }
        linked => linked,
    }
}

/// The same for file systems without hard links, such as FAT: an empty file reserves the name, then the backup
/// replaces it.
fn publish_backup_without_links(part: &Path, to: &Path) -> std::io::Result<()> {
    File::options().write(true).create_new(true).open(to)?;
    std::fs::rename(part, to)
}

fn vacuum_into(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let name = path
        .to_str()
        .ok_or_else(|| StoreError::Other(message_error("the name of a backup must be UTF-8")))?;
    let cannot = |cause| StoreError::Other(file_error(path, "cannot write", cause));
    // Conversations are private, so the empty file is created first, with restricted permissions.
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(cannot)?;
    conn.execute("VACUUM INTO ?1", [name]).or_store_error()?;
    File::open(path).and_then(|file| file.sync_all()).map_err(cannot)
}

#[async_trait]
impl RunStore for SqliteStore {
    async fn submit(&self, run: NewRun) -> Result<SubmitOutcome, StoreError> {
        let points = TransactionFailPoints {
            before_commit: Some("submit.before_commit"),
            after_commit: Some("submit.after_commit"),
            ..TransactionFailPoints::default()
        };
        let later = if mutant("idempotency_key_after_run") { run.idempotency.clone() } else { None };
        let key = run.thread.run(run.run);
        let durability = match run.durability {
            InputDurability::Now => Durability::Now,
            InputDurability::Awaited | InputDurability::Later => Durability::Later,
        };
        let work = |tx: &mut WriteTransaction<'_>| queue::submit(tx, run);
        let submitted =
            self.inner.writer.run_in_transaction(WriteJobKind::Short, points, durability, work).await;
        // Only the worker that begins may know of what can still be lost.
        if durability == Durability::Later && !matches!(submitted, Ok(SubmitOutcome::Started(_))) {
            self.wait_for_visible().await?;
        }
        let submitted = submitted?;
        if let (Some(named), false) = (later, matches!(submitted, SubmitOutcome::Repeated(_))) {
            let name = move |tx: &mut WriteTransaction<'_>| {
                queue::insert_idempotency_key(tx, &key, &named.key, &named.hash)
            };
            self.write(TransactionFailPoints::default(), name).await?;
        }
        Ok(submitted)
    }

    async fn claim(
        &self,
        claim: &WorkerLease,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        let (claim, only) = (claim.clone(), only.cloned());
        self.write(TransactionFailPoints::default(), move |tx| queue::claim(tx, &claim, only.as_ref(), limit))
            .await
    }

    async fn renew(&self, claim: &WorkerLease, fences: &[Fence]) -> Result<Vec<LeaseRenewal>, StoreError> {
        let (claim, fences) = (claim.clone(), fences.to_vec());
        self.write(TransactionFailPoints::default(), move |tx| runs::renew(tx, &claim, &fences)).await
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let points = TransactionFailPoints {
            before_begin: Some("commit.before_begin"),
            before_commit: Some("commit.before_commit"),
            after_commit: Some("commit.after_commit"),
        };
        let (fence, durability) = (fence.clone(), commit.durability);
        let work = move |tx: &mut WriteTransaction<'_>| runs::commit(tx, &fence, commit);
        self.inner.writer.run_in_transaction(WriteJobKind::Short, points, durability, work).await
    }

    async fn wait_until_durable(&self, position: CommitPosition) -> Result<(), StoreError> {
        self.inner.writer.wal_sync().wait_until_durable(position).await
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    async fn signal_and_claim(
        &self,
        run: &RunKey,
        signal: RunSignal,
        claim: Option<&WorkerLease>,
    ) -> Result<SignalOutcome, StoreError> {
        let after_commit = match &signal {
            RunSignal::Cancel { .. } => Some("cancel.after_commit"),
            RunSignal::Answer { .. } => Some("answer.after_consume"),
            RunSignal::Edit { .. } | RunSignal::Retry { .. } => None,
        };
        let (run, claim) = (run.clone(), claim.cloned());
        let points = TransactionFailPoints { after_commit, ..TransactionFailPoints::default() };
        self.write(points, move |tx| runs::signal_and_claim(tx, &run, signal, claim.as_ref())).await
    }
}

#[async_trait]
impl HistoryStore for SqliteStore {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<LoadedLog, StoreError> {
        let thread = thread.clone();
        self.read(move |conn| history::load(conn, &thread, at)).await
    }

    async fn entries(
        &self,
        thread: &ThreadKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let thread = thread.clone();
        let find = move |conn: &Connection| history::entries(conn, &thread, after, limit);
        self.read(find).await
    }

    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError> {
        let run = run.clone();
        self.read(move |conn| rows::find_run(conn, &run)).await
    }

    async fn run_positions(&self, runs: &[RunKey]) -> Result<Vec<Option<RunPosition>>, StoreError> {
        let runs = runs.to_vec();
        self.read(move |conn| runs.iter().map(|run| history::run_position(conn, run)).collect()).await
    }

    async fn runs(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |conn| history::runs(conn, &tenant, &filter)).await
    }

    async fn deleted_usage(&self, tenant: &TenantId, since: Millis) -> Result<Vec<DeletedUsage>, StoreError> {
        let tenant = tenant.clone();
        self.read(move |conn| deleted_usage::deleted_usage(conn, &tenant, since)).await
    }

    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        let thread = thread.clone();
        self.read(move |conn| history::thread(conn, &thread)).await
    }

    async fn thread_before_write(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        let thread = thread.clone();
        self.read_visible(move |conn| history::thread(conn, &thread)).await
    }

    async fn threads(&self, tenant: &TenantId, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |conn| history::threads(conn, &tenant, &filter)).await
    }
}

#[async_trait]
impl ThreadMaintenance for SqliteStore {
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError> {
        let (thread, metadata) = (thread.clone(), metadata.clone());
        self.write(TransactionFailPoints::default(), move |tx| {
            thread_maintenance::put_thread(tx, &thread, &metadata)
        })
        .await
    }

    async fn append_entry(
        &self,
        thread: &ThreadKey,
        expect: Seq,
        entry: NewEntry,
    ) -> Result<Seq, StoreError> {
        let thread = thread.clone();
        self.write(TransactionFailPoints::default(), move |tx| {
            thread_maintenance::append(tx, &thread, expect, &entry)
        })
        .await
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        // In a task of its own, so that a caller who leaves does not leave half a copy.
        let (store, from, to) = (self.clone(), from.clone(), to.clone());
        let copy = tokio::spawn(async move { store.copy_in_batches(from, to, stands).await });
        copy.await.unwrap_or_else(|error| Err(StoreError::Other(error.into())))
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        let thread = thread.clone();
        let delete = move |tx: &mut WriteTransaction<'_>| {
            thread_maintenance::delete_thread(tx.conn, &thread, &mut BatchBudget::new())
        };
        let existed = self.write(TransactionFailPoints::default(), delete).await?;
        if existed {
            self.delete_unowned_logs_or_log().await;
        }
        Ok(existed)
    }

    /// Deletes in small transactions. If one fails, the earlier ones stay committed and the next call continues.
    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError> {
        let mut cleared = GcReport::default();
        if let Some(age) = retention.idle_threads {
            cleared.threads = self
                .clear_thread_batches(move |tx, after| garbage_collection::clear_threads(tx, age, after))
                .await?;
        }
        self.delete_unowned_logs().await?;
        if let Some(age) = retention.old_entries {
            cleared.entries = self
                .clear_thread_batches(move |tx, after| garbage_collection::clear_entries(tx, age, after))
                .await?;
        }
        let age = retention.idempotency;
        cleared.keys =
            self.clear_row_batches(move |tx| garbage_collection::clear_idempotency_keys(tx, age)).await?;
        cleared.keys += self.clear_row_batches(idempotency::clear_expired_responses).await?;
        cleared.cached = self.clear_row_batches(garbage_collection::clear_expired_cache).await?;
        cleared.items = self.clear_row_batches(items::clear_expired_items).await?;
        Ok(cleared)
    }
}

#[async_trait]
impl NodeCacheStore for SqliteStore {
    async fn cached_value(&self, tenant: &TenantId, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (tenant, key) = (tenant.clone(), key.to_owned());
        self.read(move |conn| thread_maintenance::get_cached(conn, &tenant, &key, writer::unix_millis_now()))
            .await
    }

    async fn cache_value(
        &self,
        tenant: &TenantId,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError> {
        let (tenant, key, value) = (tenant.clone(), key.to_owned(), value.to_owned());
        self.write(TransactionFailPoints::default(), move |tx| {
            thread_maintenance::put_cached(tx, &tenant, &key, &value, lifetime)
        })
        .await
    }
}

//! SQLite: one file on a local disk, used by one process.
//!
//! - [`writer`] is the only thread that writes; many callers share one sync of the disk.
//! - [`readers`] are connections that never wait for it.
//! - [`file`] opens the file and brings it to the newest format.
//! - [`queue`], [`runs`], [`history`] and [`upkeep`] are the rules of a store as plain functions of a connection.
//!
//! The file is locked for the life of the store. So no lease can outlive the process, and leases are kept in memory:
//! to prolong one costs no write, and after a start every run that was being worked on can be claimed at once.

mod error;
mod file;
mod history;
mod queue;
mod readers;
mod rows;
mod runs;
#[cfg(test)]
mod tests;
mod upkeep;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_engine::failpoint::mutant;
use doran_engine::id::{RunKey, Tenant, ThreadId, ThreadKey};
use doran_engine::store::{
    Claim, Claimed, Cleared, Commit, Committed, Entry, Fence, History, Loaded, NewEntry, NewRun, NodeCache,
    Renewed, Retention, RunFilter, RunRow, Runs, Seq, Signal, StoreError, Submitted, ThreadFilter, ThreadRow,
    Upkeep,
};
use rusqlite::Connection;
use serde_json::{Map, Value};

use self::error::{Sorted, of_file, text};
use self::readers::Readers;
use self::writer::{Desk, Points, Tx, Writer};
use crate::Keeper;

/// A store in one SQLite file. Clones share it; the file is free again when the last one is gone.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    // Dropped in this order: the writer is the last connection, which moves its log into the file, and the lock is
    // given back after that.
    readers: Option<Arc<Readers>>,
    writer: Writer,
    _lock: Option<File>,
}

impl SqliteStore {
    /// Opens the file, or makes it. Blocks on the disk.
    ///
    /// Refused are: a file another process has open, one on a network file system, one that is not ours, and one of
    /// a newer format. None of them is touched.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        file::check_library()?;
        let path = file::real_path(path.as_ref())?;
        file::check_place(&path)?;
        let lock = file::lock(&path)?;
        file::check_content(&path)?;
        let conn = file::writer(&path)?;
        Self::start(conn, Some(Readers::new(path)), Some(lock))
    }

    /// A store that ends with the process.
    pub fn in_memory() -> Result<Self, StoreError> {
        file::check_library()?;
        Self::start(file::in_memory()?, None, None)
    }

    /// How many transactions this store has put on disk. Many calls may share one.
    pub fn transactions(&self) -> u64 {
        self.inner.writer.transactions()
    }

    /// Gives room that was cleared back to the disk. Writes wait meanwhile; the file is written anew.
    pub async fn compact(&self) -> Result<(), StoreError> {
        let vacuum = |conn: &Connection| {
            conn.execute_batch("VACUUM").sorted()?;
            conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).sorted()
        };
        self.inner.writer.alone(vacuum).await
    }

    fn start(
        conn: Connection,
        readers: Option<Arc<Readers>>,
        lock: Option<File>,
    ) -> Result<Self, StoreError> {
        release_all(&conn).sorted()?;
        let sql = "SELECT coalesce(max(ticket), 0) FROM runs WHERE status < 4";
        let ticket = conn.query_row(sql, [], |row| row.get(0)).sorted()?;
        let writer = Writer::start(conn, Desk::new(ticket))?;
        Ok(Self { inner: Arc::new(Inner { readers, writer, _lock: lock }) })
    }

    async fn write<T: Send + 'static>(
        &self,
        points: Points,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.writer.run(points, work).await
    }

    /// Clears batch after batch of threads.
    async fn sweep<F>(&self, clear: F) -> Result<u64, StoreError>
    where
        F: Fn(&Tx<'_>, Option<&ThreadKey>) -> Result<(u64, Option<ThreadKey>), StoreError>
            + Copy
            + Send
            + 'static,
    {
        let (mut total, mut after) = (0, None::<ThreadKey>);
        loop {
            let (cleared, last) = self.write(Points::default(), move |tx| clear(tx, after.as_ref())).await?;
            total += cleared;
            if last.is_none() {
                return Ok(total);
            }
            after = last;
        }
    }

    /// Clears batch after batch until one is not whole.
    async fn clear<F>(&self, clear: F) -> Result<u64, StoreError>
    where
        F: Fn(&Tx<'_>) -> Result<u64, StoreError> + Copy + Send + 'static,
    {
        let mut total = 0;
        loop {
            let cleared = self.write(Points::default(), move |tx| clear(tx)).await?;
            total += cleared;
            if cleared < upkeep::BATCH as u64 {
                return Ok(total);
            }
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Some(failure) = self.inner.writer.failure() {
            return Err(failure);
        }
        match &self.inner.readers {
            Some(readers) => readers.run(work).await,
            None => self.inner.writer.run(Points::default(), |tx| work(tx.conn)).await,
        }
    }

    /// As [`SqliteStore::read`], for a row or two.
    async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.inner.readers {
            Some(readers) if self.inner.writer.failure().is_none() => readers.quick(work).await,
            _ => self.read(work).await,
        }
    }
}

/// Nobody holds a run of an earlier process. A start that finds none writes nothing.
///
/// `status < 4` stands there as it does in the index over the open runs: SQLite does not see that it follows.
fn release_all(conn: &Connection) -> rusqlite::Result<()> {
    let all = conn.unchecked_transaction()?;
    let sql = "UPDATE threads SET ready = (SELECT r.ticket FROM runs r WHERE r.tenant = threads.tenant AND r.run = active)
               WHERE (tenant, thread) IN (SELECT tenant, thread FROM runs WHERE status = 2 AND status < 4 AND held = 1)";
    all.execute(sql, [])?;
    all.execute("UPDATE runs SET held = 0 WHERE status = 2 AND status < 4 AND held = 1", [])?;
    all.commit()
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqliteStore")
    }
}

#[async_trait]
impl Keeper for SqliteStore {
    async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let to = to.to_owned();
        let copy = move |conn: &Connection| back_up(conn, &to);
        match &self.inner.readers {
            Some(readers) => readers.raw(copy).await,
            None => self.inner.writer.alone(copy).await,
        }
    }

    async fn integrity_check(&self) -> Result<(), StoreError> {
        let check = |conn: &Connection| {
            let mut statement = conn.prepare("PRAGMA integrity_check").sorted()?;
            let lines = statement.query_map([], |row| row.get(0)).sorted()?;
            let lines: Vec<String> = lines.collect::<Result<_, _>>().sorted()?;
            if lines == ["ok"] { Ok(()) } else { Err(StoreError::Damaged(lines.join("; "))) }
        };
        match &self.inner.readers {
            Some(readers) => readers.run(check).await,
            None => self.inner.writer.alone(check).await,
        }
    }

    async fn failed(&self) -> Arc<str> {
        self.inner.writer.failed().await
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    std::fs::remove_file(path).map_err(|cause| StoreError::Other(of_file(path, "cannot remove", cause)))
}

/// Copies the file at `from`, which another process may have open and in use, to the new file `to`. Blocks on the disk.
pub fn back_up_file(from: &Path, to: &Path) -> Result<(), StoreError> {
    back_up(&file::reader(from)?, to)
}

/// Writes the content of one instant to a new file and waits until the disk has it. Never replaces a file.
fn back_up(conn: &Connection, to: &Path) -> Result<(), StoreError> {
    let exists = || StoreError::Conflict(format!("`{}` exists already", to.display()));
    if to.try_exists().map_err(|cause| StoreError::Other(of_file(to, "cannot look at", cause)))? {
        return Err(exists());
    }
    // The copy gets its name when it is whole, so that half of one is never taken for a backup. A backup that was cut
    // off may have left its part.
    let part = file::beside(to, ".part");
    if part.exists() {
        remove(&part)?;
    }
    let done = copy_to(conn, &part).and_then(|()| {
        named(&part, to).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::AlreadyExists => exists(),
            _ => StoreError::Other(of_file(to, "cannot make", cause)),
        })
    });
    if part.exists() {
        remove(&part)?;
    }
    done?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let sync = File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(|cause| StoreError::Other(of_file(to, "cannot write", cause)))
}

/// Gives a file its name, unless another has it.
fn named(part: &Path, to: &Path) -> std::io::Result<()> {
    // A link, unlike a rename, never takes the place of a file that somebody made meanwhile.
    match std::fs::hard_link(part, to) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => held_and_named(part, to),
        linked => linked,
    }
}

/// The same where there are no links, as on a stick: an empty file holds the name, and the whole one takes its place.
fn held_and_named(part: &Path, to: &Path) -> std::io::Result<()> {
    File::options().write(true).create_new(true).open(to)?;
    std::fs::rename(part, to)
}

fn copy_to(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let name = path.to_str().ok_or_else(|| StoreError::Other(text("the name of a backup must be UTF-8")))?;
    let cannot = |cause| StoreError::Other(of_file(path, "cannot write", cause));
    // Conversations are nobody else's business: the empty file is there first, with its permissions.
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(cannot)?;
    conn.execute("VACUUM INTO ?1", [name]).sorted()?;
    File::open(path).and_then(|file| file.sync_all()).map_err(cannot)
}

#[async_trait]
impl Runs for SqliteStore {
    async fn submit(&self, run: NewRun) -> Result<Submitted, StoreError> {
        let points = Points {
            before_commit: Some("api.before_accept_commit"),
            after_commit: Some("api.after_accept_commit"),
            ..Points::default()
        };
        let later = if mutant("M5") { run.idempotency.clone() } else { None };
        let key = run.thread.run(run.run);
        let submitted = self.write(points, |tx| queue::submit(tx, run)).await?;
        if let (Some(named), false) = (later, matches!(submitted, Submitted::Repeated(_))) {
            let name = move |tx: &mut Tx<'_>| queue::name_request(tx, &key, &named.key, &named.hash);
            self.write(Points::default(), name).await?;
        }
        Ok(submitted)
    }

    async fn claim(
        &self,
        claim: &Claim,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<Claimed>, StoreError> {
        let (claim, only) = (claim.clone(), only.cloned());
        self.write(Points::default(), move |tx| queue::claim(tx, &claim, only.as_ref(), limit)).await
    }

    async fn renew(&self, claim: &Claim, fences: &[Fence]) -> Result<Vec<Renewed>, StoreError> {
        let (claim, fences) = (claim.clone(), fences.to_vec());
        self.write(Points::default(), move |tx| runs::renew(tx, &claim, &fences)).await
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<Committed, StoreError> {
        let points = Points {
            before_begin: Some("cp.before_begin"),
            before_commit: Some("cp.before_commit"),
            after_commit: Some("cp.after_commit"),
        };
        let fence = fence.clone();
        self.write(points, move |tx| runs::commit(tx, &fence, commit)).await
    }

    async fn signal(&self, run: &RunKey, signal: Signal) -> Result<RunRow, StoreError> {
        let after_commit = match &signal {
            Signal::Cancel { .. } => Some("cancel.after_commit"),
            Signal::Answer { .. } => Some("resume.after_consume"),
            Signal::Retry { .. } => None,
        };
        let run = run.clone();
        let points = Points { after_commit, ..Points::default() };
        self.write(points, move |tx| runs::signal(tx, &run, signal)).await
    }
}

#[async_trait]
impl History for SqliteStore {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<Loaded, StoreError> {
        let thread = thread.clone();
        self.read(move |conn| history::load(conn, &thread, at)).await
    }

    async fn entries(&self, thread: &ThreadKey, after: Seq, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let thread = thread.clone();
        let find = move |conn: &Connection| history::entries(conn, &thread, after, limit);
        if limit == 1 { self.look(find).await } else { self.read(find).await }
    }

    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError> {
        let run = run.clone();
        self.look(move |conn| rows::find_run(conn, &run)).await
    }

    async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |conn| history::runs(conn, &tenant, &filter)).await
    }

    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        let thread = thread.clone();
        self.look(move |conn| history::thread(conn, &thread)).await
    }

    async fn threads(&self, tenant: &Tenant, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |conn| history::threads(conn, &tenant, &filter)).await
    }
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError> {
        let (thread, metadata) = (thread.clone(), metadata.clone());
        self.write(Points::default(), move |tx| upkeep::put_thread(tx, &thread, &metadata)).await
    }

    async fn append(&self, thread: &ThreadKey, expect: Seq, entry: NewEntry) -> Result<Seq, StoreError> {
        let thread = thread.clone();
        self.write(Points::default(), move |tx| upkeep::append(tx, &thread, expect, &entry)).await
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        let (from, to) = (from.clone(), to.clone());
        self.write(Points::default(), move |tx| upkeep::copy_thread(tx, &from, &to, stands.as_ref())).await
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        let thread = thread.clone();
        self.write(Points::default(), move |tx| upkeep::delete_thread(tx.conn, &thread)).await
    }

    /// Goes by small transactions: one that fails leaves what the earlier ones cleared, and the next call goes on.
    async fn gc(&self, retention: &Retention) -> Result<Cleared, StoreError> {
        let mut cleared = Cleared::default();
        if let Some(age) = retention.idle_threads {
            cleared.threads = self.sweep(move |tx, after| upkeep::clear_threads(tx, age, after)).await?;
        }
        if let Some(age) = retention.old_entries {
            cleared.entries = self.sweep(move |tx, after| upkeep::clear_entries(tx, age, after)).await?;
        }
        let age = retention.idempotency;
        cleared.keys = self.clear(move |tx| upkeep::clear_keys(tx, age)).await?;
        cleared.cached = self.clear(upkeep::clear_cache).await?;
        Ok(cleared)
    }
}

#[async_trait]
impl NodeCache for SqliteStore {
    async fn cached(&self, tenant: &Tenant, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (tenant, key) = (tenant.clone(), key.to_owned());
        self.read(move |conn| upkeep::cached(conn, &tenant, &key, writer::wall_clock())).await
    }

    async fn keep(
        &self,
        tenant: &Tenant,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError> {
        let (tenant, key, value) = (tenant.clone(), key.to_owned(), value.to_owned());
        self.write(Points::default(), move |tx| upkeep::keep(tx, &tenant, &key, &value, lifetime)).await
    }
}

//! The writer: all writes go through one connection.
//!
//! While there is one run at most, a caller runs its job at once, on its own thread. Otherwise jobs wait in a channel. The
//! writer thread takes up to [`MAX_JOBS_PER_TRANSACTION`] waiting jobs and runs them in one transaction.
//! Each job has its own savepoint: a rejected job rolls back only itself. The transaction ends without waiting for the
//! disk. A caller gets its result when the transaction is on disk, or right away if it can be on disk later; `wal_sync`
//! looks after that.
//!
//! Nothing blocks a thread of the runtime for long: a caller that writes hands its other tasks to another thread first
//! (`block_in_place`), so a disk that takes its time holds up only those who wait for it. Handing them over takes as long as a
//! short job, which waits for no disk. A caller leaves it out for short jobs once the last [`MIN_QUICK_JOBS`] jobs were quick,
//! if the runtime has other threads that go on should this job be a slow one.
//!
//! If a commit fails for any reason other than a full or locked file, its outcome is unknown. The writer then stops
//! for good and every current and later write fails. Only a new process, which reads the file again, can continue.

mod transaction_runner;
mod wal_sync;
mod write_job;

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doran_engine::id::{RunKey, ThreadKey};
use doran_engine::store::{CommitPosition, Durability, Millis, StoreError};
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::block_in_place;

use self::transaction_runner::{TransactionRunner, run_writer_thread};
use self::wal_sync::WalSync;
use self::write_job::{WriteJob, WriteTask, writer_stopped_error};
use super::error::{message_error, to_store_error};
use super::runs::VerifiedFence;

/// The most jobs in one transaction.
const MAX_JOBS_PER_TRANSACTION: usize = 64;
/// How many claimed runs there may be for a caller to write on its own thread. The writes of several runs are cheaper
/// together.
const MAX_RUNS_OF_LONE_CALLER: usize = 1;
/// A lone job that takes this long holds up other tasks of its thread too little to be noticed.
pub(super) const MAX_QUICK_JOB_TIME: Duration = Duration::from_millis(1);
/// How many quick jobs in a row show that the next one will be quick.
pub(super) const MIN_QUICK_JOBS: u32 = 64;
/// The most queued jobs. When the queue is full, callers wait.
const MAX_QUEUED_JOBS: usize = 1024;
/// WAL pages that trigger a checkpoint: 4 MiB.
const WAL_CHECKPOINT_PAGES: i32 = 1000;
/// WAL pages from which a checkpoint waits for readers, so that the WAL starts again at its first page: 16 MiB. With
/// readers that overlap there is no moment without one, and a checkpoint that does not wait never gets that far.
const WAL_RESTART_PAGES: i32 = 4 * WAL_CHECKPOINT_PAGES;
/// How long such a checkpoint waits, and holds up writes, at most.
const WAL_RESTART_TIMEOUT: Duration = Duration::from_millis(100);
/// Jobs that take longer than this do not count against leases.
const LONG_JOBS_TIME: Duration = Duration::from_millis(100);

/// The handle through which jobs reach the writer.
pub(super) struct SqliteWriter {
    jobs: Option<mpsc::Sender<Box<dyn WriteJob>>>,
    /// Locked by whoever writes: the writer thread or a lone caller. `None` when the store is closed.
    runner: Option<Arc<Mutex<TransactionRunner>>>,
    writer_thread: Option<JoinHandle<()>>,
    sync_thread: Option<JoinHandle<()>>,
    wal_sync: Arc<WalSync>,
    fatal_error_watch: watch::Receiver<Option<Arc<str>>>,
    transactions: Arc<AtomicU64>,
}

/// What a job does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteJobKind {
    /// Writes a few rows in a transaction.
    Short,
    /// Works in a transaction.
    Long,
    /// Works outside of any transaction, alone.
    Exclusive,
}

/// What a job can use.
pub(super) struct WriteTransaction<'a> {
    pub(super) conn: &'a Connection,
    pub(super) state: &'a mut WriterState,
    pub(super) now: Millis,
    /// The position that the transaction gets.
    pub(super) position: CommitPosition,
}

/// State of the writer that is kept in memory only. It may be lost, because no lease outlives the process.
pub(super) struct WriterState {
    /// Lease expiry times, on a monotonic clock. Entries of runs that are no longer claimed have no effect.
    pub(super) leases: HashMap<RunKey, RunLease>,
    /// Leases to remove if the transaction commits.
    pub(super) ended_leases: Vec<RunKey>,
    /// The last ticket issued.
    pub(super) ticket: i64,
    /// The fence that the previous job verified. Nothing was written since.
    pub(super) verified_fence: Option<VerifiedFence>,
    /// The fence that this job verified, for the next job. Discarded if the job or its transaction is rolled back.
    pub(super) next_verified_fence: Option<VerifiedFence>,
    last_time: Millis,
}

pub(super) struct RunLease {
    pub(super) thread: ThreadKey,
    pub(super) until: Instant,
}

/// Fail points around the transaction of a job.
#[derive(Clone, Copy, Default)]
pub(super) struct TransactionFailPoints {
    pub(super) before_begin: Option<&'static str>,
    pub(super) before_commit: Option<&'static str>,
    pub(super) after_commit: Option<&'static str>,
}

impl WriterState {
    pub(super) fn new(ticket: i64) -> Self {
        Self {
            leases: HashMap::new(),
            ended_leases: Vec::new(),
            ticket,
            verified_fence: None,
            next_verified_fence: None,
            last_time: 0,
        }
    }

    /// Prolongs all leases by a time in which nobody could renew one, because the writer was busy.
    pub(super) fn prolong_leases(&mut self, busy: Duration) {
        if busy > LONG_JOBS_TIME {
            self.leases.values_mut().for_each(|lease| lease.until += busy);
        }
    }

    /// The current time, which never goes backwards while the process runs.
    fn monotonic_now(&mut self) -> Millis {
        self.last_time = self.last_time.max(unix_millis_now());
        self.last_time
    }
}

/// Milliseconds since 1970.
pub(super) fn unix_millis_now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

impl SqliteWriter {
    /// Starts the writer. `log` is the write-ahead log; a database in memory has none.
    pub(super) fn start(
        mut conn: Connection,
        log: Option<File>,
        state: WriterState,
    ) -> Result<Self, StoreError> {
        let wal_pages = Arc::new(AtomicI32::new(0));
        let seen = wal_pages.clone();
        let hook = move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        };
        conn.wal_hook(Some(hook)).map_err(to_store_error)?;
        let (jobs, queue) = mpsc::channel(MAX_QUEUED_JOBS);
        let (fatal_error, fatal_error_watch) = watch::channel(None);
        let transactions = Arc::new(AtomicU64::new(0));
        let wal_sync = Arc::new(WalSync::new(log, fatal_error));
        let runner = TransactionRunner {
            conn,
            state,
            wal_pages,
            checkpointed_pages: 0,
            disk_full: false,
            quick_jobs: 0,
            wal_sync: wal_sync.clone(),
            transactions: transactions.clone(),
        };
        let runner = Arc::new(Mutex::new(runner));
        let syncs = wal_sync.clone();
        let sync_thread = spawn_thread("sqlite-sync", move || syncs.run_sync_thread())?;
        // From here on dropping `Self` ends the threads.
        let mut writer = Self {
            jobs: Some(jobs),
            runner: Some(runner.clone()),
            writer_thread: None,
            sync_thread: Some(sync_thread),
            wal_sync,
            fatal_error_watch,
            transactions,
        };
        writer.writer_thread =
            Some(spawn_thread("sqlite-writer", move || run_writer_thread(&runner, queue))?);
        Ok(writer)
    }

    /// Runs `work` in a transaction. With [`Durability::Now`] it returns after the transaction, and everything before it,
    /// is on disk.
    pub(super) async fn run_in_transaction<T: Send + 'static>(
        &self,
        kind: WriteJobKind,
        points: TransactionFailPoints,
        durability: Durability,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.submit_job(
            WriteTask {
                fail_points: points,
                kind,
                durability,
                work: Some(work),
                result: None,
                reply: Some(reply),
            },
            answer,
        )
        .await
    }

    /// Runs `work` outside of any transaction.
    pub(super) async fn run_outside_transaction<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let work = |tx: &mut WriteTransaction<'_>| work(tx.conn);
        let task = WriteTask {
            fail_points: TransactionFailPoints::default(),
            kind: WriteJobKind::Exclusive,
            durability: Durability::Now,
            work: Some(work),
            result: None,
            reply: Some(reply),
        };
        self.submit_job(task, answer).await
    }

    /// The error that stopped the writer, if it has stopped.
    pub(super) fn fatal_error(&self) -> Option<StoreError> {
        self.fatal_error_watch.borrow().as_deref().map(writer_stopped_error)
    }

    /// Waits until the writer stops with an error, and returns the cause.
    pub(super) async fn wait_for_fatal_error(&self) -> Arc<str> {
        let mut failed = self.fatal_error_watch.clone();
        loop {
            if let Some(why) = failed.borrow_and_update().clone() {
                return why;
            }
            if failed.changed().await.is_err() {
                // The writer thread ended without an error, so there is nothing to return.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Which commits are on disk.
    pub(super) fn wal_sync(&self) -> &WalSync {
        &self.wal_sync
    }

    /// The number of committed transactions.
    pub(super) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// The number of jobs that no transaction has picked up yet.
    #[cfg(test)]
    pub(super) fn queued_jobs(&self) -> usize {
        self.jobs.as_ref().map_or(0, |jobs| jobs.max_capacity() - jobs.capacity())
    }

    async fn submit_job<T>(
        &self,
        job: impl WriteJob + 'static,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable(message_error("the store is closed"));
        if let Some(job) = self.run_if_alone(Box::new(job)) {
            let jobs = self.jobs.as_ref().ok_or_else(gone)?;
            jobs.send(job).await.map_err(|_| gone())?;
        }
        // Every job is answered, unless a panic ended the thread that ran it.
        answer.await.map_err(|_| StoreError::Unknown(message_error("a write ended in the middle")))?
    }

    /// Runs the job on this thread, if nobody else writes or is about to. Handing it to the writer thread and waiting for
    /// the reply would take longer than the write. Returns the job if it was not run.
    fn run_if_alone(&self, job: Box<dyn WriteJob>) -> Option<Box<dyn WriteJob>> {
        let queue_is_empty = self.jobs.as_ref().is_some_and(|jobs| jobs.capacity() == jobs.max_capacity());
        let kind = job.kind();
        if kind == WriteJobKind::Exclusive || !queue_is_empty || !can_block_in_place() {
            return Some(job);
        }
        // A lock that a panic has poisoned is left to the writer thread.
        let Some(Ok(mut runner)) = self.runner.as_ref().map(|runner| runner.try_lock()) else {
            return Some(job);
        };
        if runner.state.leases.len() > MAX_RUNS_OF_LONE_CALLER || runner.is_checkpoint_due() {
            return Some(job);
        }
        match kind == WriteJobKind::Short && runner.is_quick() && has_other_workers() {
            true => runner.run_lone_job(job),
            false => block_in_place(|| runner.run_lone_job(job)),
        }
        None
    }
}

/// Whether this runtime has other threads that can take over the tasks of this one.
fn can_block_in_place() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Whether other threads of this runtime go on while this one is held up.
fn has_other_workers() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.metrics().num_workers() > 1)
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| StoreError::Unavailable(error.into()))
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        self.jobs = None;
        join_thread(self.writer_thread.take());
        if let Some(Ok(runner)) = self.runner.take().and_then(Arc::into_inner).map(Mutex::into_inner) {
            runner.close();
        }
        self.wal_sync.close();
        join_thread(self.sync_thread.take());
    }
}

fn join_thread(thread: Option<JoinHandle<()>>) {
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("a thread of the store ended by a panic");
    }
}

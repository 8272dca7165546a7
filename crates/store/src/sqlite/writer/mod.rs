//! The writer: all writes go through one connection.
//!
//! Jobs wait in a channel. The writer thread takes up to [`MAX_JOBS_PER_TRANSACTION`] waiting jobs and runs them in
//! one transaction, so that they share one disk sync. Each job has its own savepoint: a rejected job rolls back only
//! itself. A caller gets its result after the transaction is on disk.
//!
//! Nothing blocks a thread of the runtime: a disk that takes its time holds up only those who wait for it.
//!
//! If a commit fails for any reason other than a full or locked file, its outcome is unknown. The writer then stops
//! for good and every current and later write fails. Only a new process, which reads the file again, can continue.

mod transaction_runner;
mod write_job;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doran_engine::id::{RunKey, ThreadKey};
use doran_engine::store::{Millis, StoreError};
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::sync::{mpsc, oneshot, watch};

use self::transaction_runner::{TransactionRunner, run_writer_thread};
use self::write_job::{WriteJob, WriteTask, writer_stopped_error};
use super::error::{message_error, to_store_error};
use super::runs::VerifiedFence;

/// The most jobs in one transaction.
const MAX_JOBS_PER_TRANSACTION: usize = 64;
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
    thread: Option<JoinHandle<()>>,
    fatal_error_watch: watch::Receiver<Option<Arc<str>>>,
    transactions: Arc<AtomicU64>,
}

/// What a job can use.
pub(super) struct WriteTransaction<'a> {
    pub(super) conn: &'a Connection,
    pub(super) state: &'a mut WriterState,
    pub(super) now: Millis,
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
    pub(super) fn start(mut conn: Connection, desk: WriterState) -> Result<Self, StoreError> {
        let log = Arc::new(AtomicI32::new(0));
        let seen = log.clone();
        let hook = move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        };
        conn.wal_hook(Some(hook)).map_err(to_store_error)?;
        let (jobs, queue) = mpsc::channel(MAX_QUEUED_JOBS);
        let (tell, failed) = watch::channel(None);
        let transactions = Arc::new(AtomicU64::new(0));
        let clerk = TransactionRunner {
            conn,
            state: desk,
            wal_pages: log,
            checkpointed_pages: 0,
            disk_full: false,
            fatal_error_sender: tell,
            transactions: transactions.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || run_writer_thread(clerk, queue));
        let thread = Some(thread.map_err(|error| StoreError::Unavailable(error.into()))?);
        Ok(Self { jobs: Some(jobs), thread, fatal_error_watch: failed, transactions })
    }

    /// Runs `work` in a transaction. Returns after the transaction is on disk.
    pub(super) async fn run_in_transaction<T: Send + 'static>(
        &self,
        points: TransactionFailPoints,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.submit_job(
            WriteTask {
                fail_points: points,
                exclusive: false,
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
            exclusive: true,
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
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(Box::new(job)).await.map_err(|_| gone())?;
        // Every job is answered, unless a panic ended the thread that ran it.
        answer.await.map_err(|_| StoreError::Unknown(message_error("a write ended in the middle")))?
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes ended by a panic");
        }
    }
}

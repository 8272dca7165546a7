//! The one who writes.
//!
//! Jobs wait in a channel. A thread takes all that wait, up to [`MOST`], and puts them into one transaction, so
//! that one sync of the disk serves them all. Each job has a savepoint of its own: one that is refused takes nothing
//! back but itself. Nobody gets an answer before the transaction is on disk.
//!
//! A caller who finds nobody else there, on a disk that has been quick so far, writes by itself on the spot: waking a
//! thread and being woken by it costs about as much as the write. That stops one worker of the runtime for a sync,
//! never more than one, and not at all while the disk is slow or the runtime has no other.
//!
//! A commit that fails for any reason but a full or locked file leaves open whether it happened. Then the thread
//! stops for good: everybody is told so, now and later, and only a new process that reads the file again may go on.

mod transaction_runner;
mod write_job;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doran_engine::id::{RunKey, ThreadKey};
use doran_engine::store::{Millis, StoreError};
use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot, watch};

use self::transaction_runner::{TransactionRunner, run_writer_thread};
use self::write_job::{WriteJob, WriteTask, writer_stopped_error};
use super::error::{message_error, to_store_error};
use super::runs::VerifiedFence;

/// Jobs in one transaction.
const MAX_JOBS_PER_TRANSACTION: usize = 64;
/// Jobs that may wait before callers have to.
const MAX_QUEUED_JOBS: usize = 1024;
/// Pages in the log that are worth a checkpoint: 4 MiB.
const WAL_CHECKPOINT_PAGES: i32 = 1000;

/// A write on the spot that took longer than this sends those after it to the thread.
const SLOW_INLINE_WRITE_THRESHOLD: Duration = Duration::from_millis(2);
/// How many of them, the first time. Each further time in a row it is four times as many: a disk has a slow moment now
/// and then, and to go to the thread for long after each costs more than it saves.
const MIN_INLINE_BACKOFF_JOBS: u32 = 4;
/// How many of them at most.
const MAX_INLINE_BACKOFF_JOBS: u32 = 256;

/// The way to the one who writes.
pub(super) struct SqliteWriter {
    jobs: Option<mpsc::Sender<Box<dyn WriteJob>>>,
    runner: Arc<Mutex<TransactionRunner>>,
    /// Callers who have a job with us.
    callers: AtomicU32,
    /// Jobs that are still to go to the thread because the disk was slow.
    inline_backoff_left: AtomicU32,
    /// How many it will be when the next write on the spot is slow.
    next_inline_backoff: AtomicU32,
    thread: Option<JoinHandle<()>>,
    fatal_error_watch: watch::Receiver<Option<Arc<str>>>,
    transactions: Arc<AtomicU64>,
}

/// What a job works with.
pub(super) struct WriteTransaction<'a> {
    pub(super) conn: &'a Connection,
    pub(super) state: &'a mut WriterState,
    pub(super) now: Millis,
}

/// What the thread that writes remembers. All of it can be lost: no lease outlives the process.
pub(super) struct WriterState {
    /// Ends of leases, by a clock that nobody can set. An entry of a run that is no longer held means nothing.
    pub(super) leases: HashMap<RunKey, RunLease>,
    /// Entries of `leases` that mean nothing any more if the transaction holds.
    pub(super) ended_leases: Vec<RunKey>,
    /// The last ticket given out.
    pub(super) ticket: i64,
    /// What the job before this one found out. Nobody has written since.
    pub(super) verified_fence: Option<VerifiedFence>,
    /// What this job found out, for the next one. Void when the job or its transaction is taken back.
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

    /// The time of day, except that it never runs back while the process lives.
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
        let clerk = Arc::new(Mutex::new(clerk));
        let shared = clerk.clone();
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || run_writer_thread(&shared, queue));
        let thread = Some(thread.map_err(|error| StoreError::Unavailable(error.into()))?);
        let (crowd, away, wary) =
            (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(MIN_INLINE_BACKOFF_JOBS));
        Ok(Self {
            jobs: Some(jobs),
            runner: clerk,
            callers: crowd,
            inline_backoff_left: away,
            next_inline_backoff: wary,
            thread,
            fatal_error_watch: failed,
            transactions,
        })
    }

    /// Does `work` in a transaction and answers when that is on disk.
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

    /// Does `work` outside any transaction, between two of them.
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

    /// Why nothing can be written any more, once that is so.
    pub(super) fn fatal_error(&self) -> Option<StoreError> {
        self.fatal_error_watch.borrow().as_deref().map(writer_stopped_error)
    }

    /// Waits until nothing can be written any more, and tells why.
    pub(super) async fn wait_for_fatal_error(&self) -> Arc<str> {
        let mut failed = self.fatal_error_watch.clone();
        loop {
            if let Some(why) = failed.borrow_and_update().clone() {
                return why;
            }
            if failed.changed().await.is_err() {
                // The thread ended without a failure: this never comes true.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Transactions that reached the disk.
    pub(super) fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// Jobs that nobody took yet.
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
        let present = CallerGuard::enter(&self.callers);
        if let Some(job) = self.try_run_inline(Box::new(job), present.is_only_caller) {
            jobs.send(job).await.map_err(|_| gone())?;
        }
        // Every job that was taken is answered, or a panic ended the one who took it.
        answer.await.map_err(|_| StoreError::Unknown(message_error("a write ended in the middle")))?
    }

    /// Does the job now if nobody else is there and the disk is quick; else gives it back.
    fn try_run_inline(&self, job: Box<dyn WriteJob>, alone: bool) -> Option<Box<dyn WriteJob>> {
        let slow = self
            .inline_backoff_left
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok();
        if slow || !alone || job.is_exclusive() || !is_multi_thread_runtime() {
            return Some(job);
        }
        let Ok(mut clerk) = self.runner.try_lock() else { return Some(job) };
        let begun = Instant::now();
        clerk.run_jobs(vec![job]);
        let wary = if begun.elapsed() > SLOW_INLINE_WRITE_THRESHOLD {
            let away = self.next_inline_backoff.load(Ordering::Relaxed);
            self.inline_backoff_left.store(away, Ordering::Relaxed);
            (away * 4).min(MAX_INLINE_BACKOFF_JOBS)
        } else {
            MIN_INLINE_BACKOFF_JOBS
        };
        self.next_inline_backoff.store(wary, Ordering::Relaxed);
        None
    }
}

/// Whether the runtime goes on while this thread waits for the disk.
pub(super) fn is_multi_thread_runtime() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// A caller who has a job with us, until it has its answer or gives up.
struct CallerGuard<'a> {
    callers: &'a AtomicU32,
    /// Nobody else was there.
    is_only_caller: bool,
}

impl<'a> CallerGuard<'a> {
    fn enter(crowd: &'a AtomicU32) -> Self {
        Self { callers: crowd, is_only_caller: crowd.fetch_add(1, Ordering::Relaxed) == 0 }
    }
}

impl Drop for CallerGuard<'_> {
    fn drop(&mut self) {
        self.callers.fetch_sub(1, Ordering::Relaxed);
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

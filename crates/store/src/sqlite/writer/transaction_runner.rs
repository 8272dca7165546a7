//! Runs batches of jobs in transactions, one savepoint per job, and checkpoints the WAL.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use doran_engine::failpoint::{hit, mutant};
use doran_engine::store::Durability;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::mpsc;

use super::super::database_file::BUSY_TIMEOUT;
use super::super::error::{is_disk_failure, to_store_error};
use super::wal_sync::WalSync;
use super::write_job::{JobRefusal, TransactionEnd, WriteJob};
use super::{
    MAX_JOBS_PER_TRANSACTION, MAX_QUICK_JOB_TIME, MIN_QUICK_JOBS, TransactionFailPoints,
    WAL_CHECKPOINT_PAGES, WAL_RESTART_PAGES, WAL_RESTART_TIMEOUT, WriteJobKind, WriteTransaction,
    WriterState,
};

/// Stands for the number of WAL pages while a transaction has written none.
const NOTHING_WRITTEN: i32 = -1;

/// The state of a transaction after a job.
enum TransactionProgress {
    Continues,
    RolledBack,
}

/// Runs jobs, one transaction at a time.
pub(super) struct TransactionRunner {
    pub(super) conn: Connection,
    pub(super) state: WriterState,
    /// WAL pages after the last transaction.
    pub(super) wal_pages: Arc<AtomicI32>,
    /// WAL pages at the last checkpoint.
    pub(super) checkpointed_pages: i32,
    /// The last write or checkpoint found the disk full. The WAL may be what fills it, so the next checkpoint runs
    /// early.
    pub(super) disk_full: bool,
    /// Lone jobs since one that took longer than [`MAX_QUICK_JOB_TIME`].
    pub(super) quick_jobs: u32,
    pub(super) wal_sync: Arc<WalSync>,
    pub(super) transactions: Arc<AtomicU64>,
}

/// The loop of the writer thread: takes all waiting jobs, runs them, and repeats.
pub(super) fn run_writer_thread(
    runner: &Mutex<TransactionRunner>,
    mut queue: mpsc::Receiver<Box<dyn WriteJob>>,
) {
    let mut jobs = Vec::with_capacity(MAX_JOBS_PER_TRANSACTION);
    while queue.blocking_recv_many(&mut jobs, MAX_JOBS_PER_TRANSACTION) > 0 {
        // A panic in the middle of a transaction leaves nothing that could be continued.
        let Ok(mut runner) = runner.lock() else { return };
        runner.run_jobs(std::mem::take(&mut jobs));
    }
}

impl TransactionRunner {
    pub(super) fn run_jobs(&mut self, jobs: Vec<Box<dyn WriteJob>>) {
        let begun = Instant::now();
        let mut batch = Vec::with_capacity(jobs.len());
        for job in jobs {
            if job.kind() == WriteJobKind::Exclusive {
                self.run_batch(std::mem::take(&mut batch));
                self.run_exclusive_job(job);
            } else {
                batch.push(job);
            }
        }
        self.run_batch(batch);
        self.checkpoint();
        self.state.prolong_leases(begun.elapsed());
    }

    /// Runs one job that needs a transaction. It is followed by no checkpoint, which would hold up its caller.
    pub(super) fn run_lone_job(&mut self, job: Box<dyn WriteJob>) {
        let begun = Instant::now();
        self.run_batch(vec![job]);
        let elapsed = begun.elapsed();
        self.quick_jobs = if elapsed <= MAX_QUICK_JOB_TIME { self.quick_jobs.saturating_add(1) } else { 0 };
        self.state.prolong_leases(elapsed);
    }

    /// Whether a short job will hardly hold up the thread it runs on, going by those before it.
    pub(super) fn is_quick(&self) -> bool {
        self.quick_jobs >= MIN_QUICK_JOBS
    }

    fn run_exclusive_job(&mut self, mut job: Box<dyn WriteJob>) {
        if let Some(why) = self.stop_reason() {
            return job.answer(&TransactionEnd::Stopped(why));
        }
        let now = self.state.monotonic_now();
        (self.state.verified_fence, self.state.next_verified_fence) = (None, None);
        // It may take minutes, and may checkpoint.
        self.wal_sync.sync();
        let position = self.wal_sync.next_position();
        let disk = self.wal_sync.lock_disk();
        if let Some(why) = self.stop_reason() {
            return job.answer(&TransactionEnd::Stopped(why));
        }
        let outcome =
            job.run(&mut WriteTransaction { conn: &self.conn, state: &mut self.state, now, position });
        drop(disk);
        if outcome.is_err_and(|refused| refused.disk_failed) {
            self.stop_for_good(&Arc::from("the disk failed"));
        }
        self.wal_sync.begin_commit();
        self.wal_sync.end_commit(true);
        self.wal_sync.answer_when_durable(job);
    }

    /// Runs the jobs and sends their results. If a job's failure rolls back the whole transaction, as SQLite does
    /// when the disk is full, the jobs before it fail too. The jobs after it get a new transaction.
    fn run_batch(&mut self, mut jobs: Vec<Box<dyn WriteJob>>) {
        while !jobs.is_empty() {
            let (done, end) = self.run_transaction(&mut jobs);
            self.disk_full |= matches!(end, TransactionEnd::Full(_));
            let rest = jobs.split_off(done);
            for job in std::mem::replace(&mut jobs, rest) {
                match (&end, job.durability()) {
                    (TransactionEnd::Committed, Durability::Now) => self.wal_sync.answer_when_durable(job),
                    _ => job.answer(&end),
                }
            }
        }
    }

    /// Runs one transaction. Returns how many jobs it handled, and how it ended.
    fn run_transaction(&mut self, jobs: &mut [Box<dyn WriteJob>]) -> (usize, TransactionEnd) {
        let all = jobs.len();
        if let Some(why) = self.stop_reason() {
            return (all, TransactionEnd::Stopped(why));
        }
        hit_fail_points(jobs, |points| points.before_begin);
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            self.check_disk(&error);
            return (all, TransactionEnd::from_rolled_back(&error));
        }
        for (number, job) in jobs.iter_mut().enumerate() {
            match self.run_job(job.as_mut(), all > 1) {
                Ok(TransactionProgress::Continues) => {}
                // A rejected job that is alone in its transaction reports its own error.
                Ok(TransactionProgress::RolledBack) => return (number + 1, TransactionEnd::Committed),
                Err(end) => {
                    self.roll_back();
                    return (number + 1, end);
                }
            }
        }
        hit_fail_points(jobs, |points| points.before_commit);
        let end = self.commit();
        if matches!(end, TransactionEnd::Committed) {
            hit_fail_points(jobs, |points| points.after_commit);
        }
        (all, end)
    }

    /// Runs one job. Returns `Err` if the transaction cannot continue.
    fn run_job(
        &mut self,
        job: &mut dyn WriteJob,
        shared: bool,
    ) -> Result<TransactionProgress, TransactionEnd> {
        if shared {
            self.execute_control_statement("SAVEPOINT job")?;
        }
        let now = self.state.monotonic_now();
        self.state.verified_fence = self.state.next_verified_fence.take();
        let position = self.wal_sync.next_position();
        let outcome =
            job.run(&mut WriteTransaction { conn: &self.conn, state: &mut self.state, now, position });
        if outcome.is_err() {
            self.state.next_verified_fence = None;
        }
        self.disk_full |= matches!(outcome, Err(JobRefusal { disk_full: true, .. }));
        if let Err(JobRefusal { disk_failed: true, .. }) = outcome {
            let why: Arc<str> = Arc::from("the disk failed");
            self.stop_for_good(&why);
            return Err(TransactionEnd::RolledBack(why));
        }
        if self.conn.is_autocommit() {
            let why = Arc::from("another write of the same transaction failed");
            let full = matches!(outcome, Err(JobRefusal { disk_full: true, .. }));
            return Err(if full { TransactionEnd::Full(why) } else { TransactionEnd::RolledBack(why) });
        }
        match (outcome, shared) {
            (Ok(()), true) => self.execute_control_statement("RELEASE job")?,
            (Ok(()), false) => {}
            (Err(_), true) => {
                self.execute_control_statement("ROLLBACK TO job")?;
                self.execute_control_statement("RELEASE job")?;
            }
            (Err(_), false) => {
                self.state.ended_leases.clear();
                self.execute_control_statement("ROLLBACK")?;
                return Ok(TransactionProgress::RolledBack);
            }
        }
        Ok(TransactionProgress::Continues)
    }

    fn execute_control_statement(&mut self, sql: &str) -> Result<(), TransactionEnd> {
        self.execute(sql).map_err(|error| {
            self.check_disk(&error);
            TransactionEnd::from_rolled_back(&error)
        })
    }

    fn commit(&mut self) -> TransactionEnd {
        // The hook sets the number of pages if the transaction wrote any.
        let pages = self.wal_pages.swap(NOTHING_WRITTEN, Ordering::Relaxed);
        self.wal_sync.begin_commit();
        let committed = self.execute("COMMIT");
        let restore =
            self.wal_pages.compare_exchange(NOTHING_WRITTEN, pages, Ordering::Relaxed, Ordering::Relaxed);
        self.wal_sync.end_commit(restore.is_err());
        let Err(error) = committed else {
            self.transactions.fetch_add(1, Ordering::Relaxed);
            for run in self.state.ended_leases.drain(..) {
                self.state.leases.remove(&run);
            }
            return TransactionEnd::Committed;
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => {
                self.roll_back();
                TransactionEnd::from_rolled_back(&error)
            }
            _ if mutant("swallow_fsync_error") => {
                self.roll_back();
                TransactionEnd::Committed
            }
            _ => {
                let why: Arc<str> = Arc::from(error.to_string());
                self.stop_for_good(&why);
                self.state.ended_leases.clear();
                self.state.next_verified_fence = None;
                TransactionEnd::Unknown(why)
            }
        }
    }

    fn roll_back(&mut self) {
        self.state.ended_leases.clear();
        self.state.next_verified_fence = None;
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            self.stop_for_good(&Arc::from(error.to_string()));
        }
    }

    /// Whether the WAL is large enough for a checkpoint.
    pub(super) fn is_checkpoint_due(&mut self) -> bool {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        // After a complete checkpoint, the WAL starts again at its first page.
        if pages < self.checkpointed_pages {
            self.checkpointed_pages = 0;
        }
        pages - self.checkpointed_pages >= WAL_CHECKPOINT_PAGES || self.disk_full
    }

    /// Runs a WAL checkpoint if one is due.
    fn checkpoint(&mut self) {
        let wal_sync = self.wal_sync.clone();
        let pages = self.wal_pages.load(Ordering::Relaxed);
        if !self.is_checkpoint_due() {
            return;
        }
        let disk = wal_sync.lock_disk();
        if self.stop_reason().is_some() {
            return;
        }
        // On a full disk the WAL is truncated to free space. Truncating waits for readers, so it is not done
        // otherwise.
        let done = if self.disk_full {
            self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        } else if pages >= WAL_RESTART_PAGES {
            self.restart_wal()
        } else {
            self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        };
        drop(disk);
        (self.checkpointed_pages, self.disk_full) = (pages, false);
        if let Err(error) = done {
            // A full disk or a busy reader only delays the checkpoint. The WAL still has all data.
            tracing::warn!(%error, "checkpoint failed");
            self.disk_full = true;
            self.check_disk(&error);
        }
    }

    /// Checkpoints and lets the WAL start again, if all readers of the old one are done in time.
    fn restart_wal(&self) -> rusqlite::Result<()> {
        self.conn.busy_timeout(WAL_RESTART_TIMEOUT)?;
        let done = self.conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()));
        self.conn.busy_timeout(BUSY_TIMEOUT)?;
        done
    }

    fn check_disk(&mut self, error: &rusqlite::Error) {
        if is_disk_failure(error) {
            self.stop_for_good(&Arc::from(error.to_string()));
        }
    }

    fn stop_for_good(&mut self, why: &Arc<str>) {
        self.wal_sync.fail(why);
    }

    fn stop_reason(&self) -> Option<Arc<str>> {
        self.wal_sync.failure()
    }

    /// Closes the connection, which moves the WAL into the file. After a failure the WAL must stay as it is for the next
    /// process.
    pub(super) fn close(self) {
        let wal_sync = self.wal_sync.clone();
        let _disk = wal_sync.lock_disk();
        if self.stop_reason().is_some()
            && let Err(error) = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        {
            tracing::error!(error = %to_store_error(error), "cannot keep the log as it is");
        }
        drop(self);
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }
}

fn hit_fail_points(
    jobs: &[Box<dyn WriteJob>],
    point: impl Fn(&TransactionFailPoints) -> Option<&'static str>,
) {
    for name in jobs.iter().filter_map(|job| point(&job.fail_points())) {
        hit(name);
    }
}

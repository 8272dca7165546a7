//! The transactions: many jobs in one, each with a savepoint of its own, and the log that is moved into the file.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use doran_engine::failpoint::{hit, mutant};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, watch};

use super::super::error::{is_io, sorted};
use super::job::{End, Job, Refused};
use super::{Desk, LONG_LOG, MOST, Points, Tx};

/// Where a transaction is after a job.
enum Went {
    On,
    Back,
}

/// Does the jobs, one transaction after the other.
pub(super) struct Clerk {
    pub(super) conn: Connection,
    pub(super) desk: Desk,
    /// Pages in the log after the last transaction.
    pub(super) log: Arc<AtomicI32>,
    /// Pages that were in it at the last checkpoint.
    pub(super) moved: i32,
    /// The last write or checkpoint found no room. It may be the log that takes it, so that is moved before its time.
    pub(super) full: bool,
    pub(super) failed: watch::Sender<Option<Arc<str>>>,
    pub(super) transactions: Arc<AtomicU64>,
}

/// The work of the thread: all that waits, then all that came meanwhile.
pub(super) fn work(clerk: &Mutex<Clerk>, mut queue: mpsc::Receiver<Box<dyn Job>>) {
    let mut jobs = Vec::with_capacity(MOST);
    while queue.blocking_recv_many(&mut jobs, MOST) > 0 {
        // Whoever panicked with the connection in hand left it in a state that nobody knows.
        let Ok(mut clerk) = clerk.lock() else { return };
        clerk.round(std::mem::take(&mut jobs));
    }
}

impl Clerk {
    pub(super) fn round(&mut self, jobs: Vec<Box<dyn Job>>) {
        let mut batch = Vec::with_capacity(jobs.len());
        for job in jobs {
            if job.is_alone() {
                self.batch(std::mem::take(&mut batch));
                self.alone(job);
            } else {
                batch.push(job);
            }
        }
        self.batch(batch);
        self.checkpoint();
    }

    fn alone(&mut self, mut job: Box<dyn Job>) {
        if let Some(why) = self.stopped() {
            return job.answer(&End::Stopped(why));
        }
        let now = self.desk.now();
        (self.desk.known, self.desk.learnt) = (None, None);
        let outcome = job.run(&mut Tx { conn: &self.conn, desk: &mut self.desk, now });
        if outcome.is_err_and(|refused| refused.disk) {
            self.stop(Arc::from("the disk failed"));
        }
        job.answer(&End::OnDisk);
    }

    /// Runs the jobs and answers them. A job whose failure undoes the whole transaction takes the ones before it with
    /// it, which SQLite does when the disk is full; those after it get a transaction of their own.
    fn batch(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        while !jobs.is_empty() {
            let (done, end) = self.transaction(&mut jobs);
            self.full |= matches!(end, End::Full(_));
            let rest = jobs.split_off(done);
            for job in std::mem::replace(&mut jobs, rest) {
                job.answer(&end);
            }
        }
    }

    /// How many of the jobs were dealt with, and how.
    fn transaction(&mut self, jobs: &mut [Box<dyn Job>]) -> (usize, End) {
        let all = jobs.len();
        if let Some(why) = self.stopped() {
            return (all, End::Stopped(why));
        }
        pass(jobs, |points| points.before_begin);
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            self.check_disk(&error);
            return (all, End::of_rolled_back(&error));
        }
        for (number, job) in jobs.iter_mut().enumerate() {
            match self.one(job.as_mut(), all > 1) {
                Ok(Went::On) => {}
                // A refused job that has the transaction for itself gives its own answer.
                Ok(Went::Back) => return (number + 1, End::OnDisk),
                Err(end) => {
                    self.roll_back();
                    return (number + 1, end);
                }
            }
        }
        pass(jobs, |points| points.before_commit);
        let end = self.commit();
        if matches!(end, End::OnDisk) {
            pass(jobs, |points| points.after_commit);
        }
        (all, end)
    }

    /// Runs one job. `Err` when the transaction cannot go on.
    fn one(&mut self, job: &mut dyn Job, shared: bool) -> Result<Went, End> {
        if shared {
            self.step("SAVEPOINT job")?;
        }
        let now = self.desk.now();
        self.desk.known = self.desk.learnt.take();
        let outcome = job.run(&mut Tx { conn: &self.conn, desk: &mut self.desk, now });
        if outcome.is_err() {
            self.desk.learnt = None;
        }
        self.full |= matches!(outcome, Err(Refused { full: true, .. }));
        if let Err(Refused { disk: true, .. }) = outcome {
            let why: Arc<str> = Arc::from("the disk failed");
            self.stop(why.clone());
            return Err(End::TakenBack(why));
        }
        if self.conn.is_autocommit() {
            let why = Arc::from("another write of the same transaction failed");
            let full = matches!(outcome, Err(Refused { full: true, .. }));
            return Err(if full { End::Full(why) } else { End::TakenBack(why) });
        }
        match (outcome, shared) {
            (Ok(()), true) => self.step("RELEASE job")?,
            (Ok(()), false) => {}
            (Err(_), true) => {
                self.step("ROLLBACK TO job")?;
                self.step("RELEASE job")?;
            }
            (Err(_), false) => {
                self.desk.spent.clear();
                self.step("ROLLBACK")?;
                return Ok(Went::Back);
            }
        }
        Ok(Went::On)
    }

    fn step(&mut self, sql: &str) -> Result<(), End> {
        self.execute(sql).map_err(|error| {
            self.check_disk(&error);
            End::of_rolled_back(&error)
        })
    }

    fn commit(&mut self) -> End {
        let Err(error) = self.execute("COMMIT") else {
            self.transactions.fetch_add(1, Ordering::Relaxed);
            for run in self.desk.spent.drain(..) {
                self.desk.leases.remove(&run);
            }
            return End::OnDisk;
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => {
                self.roll_back();
                End::of_rolled_back(&error)
            }
            _ if mutant("M14") => {
                self.roll_back();
                End::OnDisk
            }
            _ => {
                let why: Arc<str> = Arc::from(error.to_string());
                self.stop(why.clone());
                self.desk.spent.clear();
                self.desk.learnt = None;
                End::Unknown(why)
            }
        }
    }

    fn roll_back(&mut self) {
        self.desk.spent.clear();
        self.desk.learnt = None;
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            self.stop(Arc::from(error.to_string()));
        }
    }

    /// Moves what is in the log to its place in the file, once there is much of it.
    fn checkpoint(&mut self) {
        if self.stopped().is_some() {
            return;
        }
        let pages = self.log.load(Ordering::Relaxed);
        // A log that could be moved whole starts again from its first page.
        if pages < self.moved {
            self.moved = 0;
        }
        if pages - self.moved < LONG_LOG && !self.full {
            return;
        }
        // On a full disk the log gives its room back; that waits for readers, so it is not done otherwise.
        let sql =
            if self.full { "PRAGMA wal_checkpoint(TRUNCATE)" } else { "PRAGMA wal_checkpoint(PASSIVE)" };
        (self.moved, self.full) = (pages, false);
        let done = self.conn.query_row(sql, [], |_| Ok(()));
        if let Err(error) = done {
            // A full disk or a busy reader only put it off: the log still has everything.
            tracing::warn!(%error, "checkpoint failed");
            self.full = true;
            self.check_disk(&error);
        }
    }

    fn check_disk(&mut self, error: &rusqlite::Error) {
        if is_io(error) {
            self.stop(Arc::from(error.to_string()));
        }
    }

    fn stop(&mut self, why: Arc<str>) {
        tracing::error!(%why, "the store stops: the process must be restarted");
        // What the log says must stay as it is for the process that reads it next.
        if let Err(error) = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
            tracing::error!(error = %sorted(error), "cannot keep the log as it is");
        }
        self.failed.send_replace(Some(why));
    }

    fn stopped(&self) -> Option<Arc<str>> {
        self.failed.borrow().clone()
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }
}

fn pass(jobs: &[Box<dyn Job>], point: impl Fn(&Points) -> Option<&'static str>) {
    for name in jobs.iter().filter_map(|job| point(&job.points())) {
        hit(name);
    }
}

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

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doran_engine::id::{RunKey, ThreadKey};
use doran_engine::store::{Millis, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot, watch};

use super::error::{has_io, is_io, sorted, text};
use super::runs::Known;
use doran_engine::failpoint::{hit, mutant};

/// Jobs in one transaction.
const MOST: usize = 64;
/// Jobs that may wait before callers have to.
const WAITING: usize = 1024;
/// Pages in the log that are worth a checkpoint: 4 MiB.
const LONG_LOG: i32 = 1000;

/// A write on the spot that took longer than this sends those after it to the thread.
const QUICK: Duration = Duration::from_millis(2);
/// How many of them, the first time. Each further time in a row it is four times as many: a disk has a slow moment now
/// and then, and to go to the thread for long after each costs more than it saves.
const AWAY: u32 = 4;
/// How many of them at most.
const MOST_AWAY: u32 = 256;

/// The way to the one who writes.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    clerk: Arc<Mutex<Clerk>>,
    /// Callers who have a job with us.
    crowd: AtomicU32,
    /// Jobs that are still to go to the thread because the disk was slow.
    away: AtomicU32,
    /// How many it will be when the next write on the spot is slow.
    wary: AtomicU32,
    thread: Option<JoinHandle<()>>,
    failed: watch::Receiver<Option<Arc<str>>>,
    transactions: Arc<AtomicU64>,
}

/// What a job works with.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    pub(super) desk: &'a mut Desk,
    pub(super) now: Millis,
}

/// What the thread that writes remembers. All of it can be lost: no lease outlives the process.
pub(super) struct Desk {
    /// Ends of leases, by a clock that nobody can set. An entry of a run that is no longer held means nothing.
    pub(super) leases: HashMap<RunKey, Lease>,
    /// Entries of `leases` that mean nothing any more if the transaction holds.
    pub(super) spent: Vec<RunKey>,
    /// The last ticket given out.
    pub(super) ticket: i64,
    /// What the job before this one found out. Nobody has written since.
    pub(super) known: Option<Known>,
    /// What this job found out, for the next one. Void when the job or its transaction is taken back.
    pub(super) learnt: Option<Known>,
    last: Millis,
}

pub(super) struct Lease {
    pub(super) thread: ThreadKey,
    pub(super) until: Instant,
}

/// Fail points around the transaction of a job.
#[derive(Clone, Copy, Default)]
pub(super) struct Points {
    pub(super) before_begin: Option<&'static str>,
    pub(super) before_commit: Option<&'static str>,
    pub(super) after_commit: Option<&'static str>,
}

impl Desk {
    pub(super) fn new(ticket: i64) -> Self {
        Self { leases: HashMap::new(), spent: Vec::new(), ticket, known: None, learnt: None, last: 0 }
    }

    /// The time of day, except that it never runs back while the process lives.
    fn now(&mut self) -> Millis {
        self.last = self.last.max(wall_clock());
        self.last
    }
}

/// Milliseconds since 1970.
pub(super) fn wall_clock() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

impl Writer {
    pub(super) fn start(mut conn: Connection, desk: Desk) -> Result<Self, StoreError> {
        let log = Arc::new(AtomicI32::new(0));
        let seen = log.clone();
        let hook = move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        };
        conn.wal_hook(Some(hook)).map_err(sorted)?;
        let (jobs, queue) = mpsc::channel(WAITING);
        let (tell, failed) = watch::channel(None);
        let transactions = Arc::new(AtomicU64::new(0));
        let clerk = Clerk {
            conn,
            desk,
            log,
            moved: 0,
            full: false,
            failed: tell,
            transactions: transactions.clone(),
        };
        let clerk = Arc::new(Mutex::new(clerk));
        let shared = clerk.clone();
        let thread =
            std::thread::Builder::new().name("sqlite-writer".into()).spawn(move || work(&shared, queue));
        let thread = Some(thread.map_err(|error| StoreError::Unavailable(error.into()))?);
        let (crowd, away, wary) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(AWAY));
        Ok(Self { jobs: Some(jobs), clerk, crowd, away, wary, thread, failed, transactions })
    }

    /// Does `work` in a transaction and answers when that is on disk.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        points: Points,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Task { points, alone: false, work: Some(work), result: None, reply: Some(reply) }, answer)
            .await
    }

    /// Does `work` outside any transaction, between two of them.
    pub(super) async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let work = |tx: &mut Tx<'_>| work(tx.conn);
        let task = Task {
            points: Points::default(),
            alone: true,
            work: Some(work),
            result: None,
            reply: Some(reply),
        };
        self.send(task, answer).await
    }

    /// Why nothing can be written any more, once that is so.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.failed.borrow().as_deref().map(stopped)
    }

    /// Waits until nothing can be written any more, and tells why.
    pub(super) async fn failed(&self) -> Arc<str> {
        let mut failed = self.failed.clone();
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
    pub(super) fn waiting(&self) -> usize {
        self.jobs.as_ref().map_or(0, |jobs| jobs.max_capacity() - jobs.capacity())
    }

    async fn send<T>(
        &self,
        job: impl Job + 'static,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable(text("the store is closed"));
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        let present = Present::among(&self.crowd);
        if let Some(job) = self.on_the_spot(Box::new(job), present.alone) {
            jobs.send(job).await.map_err(|_| gone())?;
        }
        // Every job that was taken is answered, or a panic ended the one who took it.
        answer.await.map_err(|_| StoreError::Unknown(text("a write ended in the middle")))?
    }

    /// Does the job now if nobody else is there and the disk is quick; else gives it back.
    fn on_the_spot(&self, job: Box<dyn Job>, alone: bool) -> Option<Box<dyn Job>> {
        let slow =
            self.away.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if slow || !alone || job.is_alone() || !has_other_workers() {
            return Some(job);
        }
        let Ok(mut clerk) = self.clerk.try_lock() else { return Some(job) };
        let begun = Instant::now();
        clerk.round(vec![job]);
        let wary = if begun.elapsed() > QUICK {
            let away = self.wary.load(Ordering::Relaxed);
            self.away.store(away, Ordering::Relaxed);
            (away * 4).min(MOST_AWAY)
        } else {
            AWAY
        };
        self.wary.store(wary, Ordering::Relaxed);
        None
    }
}

/// Whether the runtime goes on while this thread waits for the disk.
pub(super) fn has_other_workers() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// A caller who has a job with us, until it has its answer or gives up.
struct Present<'a> {
    crowd: &'a AtomicU32,
    /// Nobody else was there.
    alone: bool,
}

impl<'a> Present<'a> {
    fn among(crowd: &'a AtomicU32) -> Self {
        Self { crowd, alone: crowd.fetch_add(1, Ordering::Relaxed) == 0 }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.crowd.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes ended by a panic");
        }
    }
}

/// Something to do for a caller who waits.
trait Job: Send {
    fn points(&self) -> Points;
    /// Does it. `Err` when what it wrote must be taken back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Refused>;
    /// Wants no transaction.
    fn is_alone(&self) -> bool;
    fn answer(self: Box<Self>, end: &End);
}

/// What the refusal of a job says of the file.
struct Refused {
    /// The disk failed.
    disk: bool,
    /// There is no room left.
    full: bool,
}

/// How a transaction ended.
enum End {
    OnDisk,
    /// Rolled back for sure.
    Full(Arc<str>),
    /// Rolled back for sure.
    TakenBack(Arc<str>),
    /// Nobody knows.
    Unknown(Arc<str>),
    /// Not even begun.
    Stopped(Arc<str>),
}

impl End {
    fn of_rolled_back(error: &rusqlite::Error) -> Self {
        let why = Arc::from(error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(why),
            _ => Self::TakenBack(why),
        }
    }

    fn error(&self) -> Option<StoreError> {
        match self {
            Self::OnDisk => None,
            Self::Full(why) => Some(StoreError::Full(text(&**why))),
            Self::TakenBack(why) => Some(StoreError::Unavailable(text(&**why))),
            Self::Unknown(why) => Some(StoreError::Unknown(text(&**why))),
            Self::Stopped(why) => Some(stopped(why)),
        }
    }
}

fn stopped(why: &str) -> StoreError {
    StoreError::Unavailable(text(format!("a write failed and the process must be restarted: {why}")))
}

struct Task<T, F> {
    points: Points,
    alone: bool,
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T: Send, F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send> Job for Task<T, F> {
    fn points(&self) -> Points {
        self.points
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Refused> {
        let result = match self.work.take() {
            Some(work) => guarded(|| work(tx)),
            None => Err(StoreError::Other(text("a job was run twice"))),
        };
        let outcome = result
            .as_ref()
            .map(drop)
            .map_err(|error| Refused { disk: has_io(error), full: matches!(error, StoreError::Full(_)) });
        self.result = Some(result);
        if mutant("M1") && outcome.is_ok() {
            reply(self.reply.take(), self.result.take(), &End::OnDisk);
        }
        outcome
    }

    fn is_alone(&self) -> bool {
        self.alone
    }

    fn answer(self: Box<Self>, end: &End) {
        reply(self.reply, self.result, end);
    }
}

/// A panic in one job is that job's error.
fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(StoreError::Other(text("a write panicked"))))
}

/// A refusal stands however the transaction of its neighbours ended: nothing of it was written.
fn reply<T>(
    to: Option<oneshot::Sender<Result<T, StoreError>>>,
    result: Option<Result<T, StoreError>>,
    end: &End,
) {
    let answer = match (result, end.error()) {
        (Some(Err(refused)), _) => Err(refused),
        (_, Some(error)) => Err(error),
        (Some(Ok(value)), None) => Ok(value),
        (None, None) => Err(StoreError::Other(text("a job was not run"))),
    };
    // A caller that no longer waits does not need to be told.
    drop(to.map(|to| to.send(answer)));
}

/// Where a transaction is after a job.
enum Went {
    On,
    Back,
}

struct Clerk {
    conn: Connection,
    desk: Desk,
    /// Pages in the log after the last transaction.
    log: Arc<AtomicI32>,
    /// Pages that were in it at the last checkpoint.
    moved: i32,
    /// The last write or checkpoint found no room. It may be the log that takes it, so that is moved before its time.
    full: bool,
    failed: watch::Sender<Option<Arc<str>>>,
    transactions: Arc<AtomicU64>,
}

/// The work of the thread: all that waits, then all that came meanwhile.
fn work(clerk: &Mutex<Clerk>, mut queue: mpsc::Receiver<Box<dyn Job>>) {
    let mut jobs = Vec::with_capacity(MOST);
    while queue.blocking_recv_many(&mut jobs, MOST) > 0 {
        // Whoever panicked with the connection in hand left it in a state that nobody knows.
        let Ok(mut clerk) = clerk.lock() else { return };
        clerk.round(std::mem::take(&mut jobs));
    }
}

impl Clerk {
    fn round(&mut self, jobs: Vec<Box<dyn Job>>) {
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

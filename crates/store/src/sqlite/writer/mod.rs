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

mod clerk;
mod job;

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

use self::clerk::{Clerk, work};
use self::job::{Job, Task, stopped};
use super::error::{sorted, text};
use super::runs::Known;

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

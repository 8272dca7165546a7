//! Syncs the write-ahead log: one call for all who wait.
//!
//! The writer commits without waiting for the disk (`synchronous = NORMAL`). Frames of the log carry a running checksum,
//! and recovery stops at the first frame that does not fit, so a power failure cuts off an end of the log and never takes
//! a piece out of its middle. Commits are numbered. A sync that begins after commit *n* ended makes all commits up to *n*
//! durable, also those that a checkpoint has moved to the database file meanwhile: before it moves anything a checkpoint
//! syncs the log itself, and before the log is used again from its start it syncs the database file.
//!
//! The store has its own descriptor of the log. SQLite locks the database and the `-shm` file and not the log, so closing
//! this descriptor releases no lock.
//!
//! A failed sync stops the writer for good. Nobody knows which pages the system still has, and a second sync would
//! succeed without having written them. So no checkpoint may run after it either, nor beside it.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use doran_engine::failpoint::mutant;
use doran_engine::store::{CommitPosition, MAX_UNDURABLE_TIME, StoreError};
use tokio::sync::{oneshot, watch};

use super::super::error::message_error;
use super::write_job::{TransactionEnd, WriteJob, writer_stopped_error};

/// Which commits are on disk, and who waits for one.
pub(in super::super) struct WalSync {
    /// `None` for a database in memory: there everything is durable at once.
    log: Option<File>,
    state: Mutex<WalSyncState>,
    /// Notified when the sync thread may have something to do.
    work: Condvar,
    /// Held during a sync and during a checkpoint.
    disk: Mutex<()>,
    fatal_error: watch::Sender<Option<Arc<str>>>,
    syncs: AtomicU64,
}

#[derive(Default)]
struct WalSyncState {
    /// The newest commit that somebody may see: it has ended, or is about to.
    visible: u64,
    /// The newest commit that has ended.
    ended: u64,
    /// The newest commit that is on disk.
    durable: u64,
    /// The newest commit that somebody waits for.
    wanted: u64,
    /// Since when a commit is not on disk and no sync under way covers it.
    undurable_since: Option<Instant>,
    waiting: Vec<(u64, SyncWaiter)>,
    closed: bool,
}

/// Somebody who waits for the disk.
enum SyncWaiter {
    Job(Box<dyn WriteJob>),
    Caller(oneshot::Sender<Result<(), Arc<str>>>),
}

impl SyncWaiter {
    fn tell(self, failure: Option<&Arc<str>>) {
        match (self, failure) {
            (Self::Job(job), None) => job.answer(&TransactionEnd::Committed),
            (Self::Job(job), Some(why)) => job.answer(&TransactionEnd::Unknown(why.clone())),
            // The caller may no longer be waiting.
            (Self::Caller(caller), failure) => {
                drop(caller.send(failure.map_or(Ok(()), |why| Err(why.clone()))));
            }
        }
    }
}

/// A log that was deleted is gone when the process ends, synced or not.
#[cfg(unix)]
fn check_has_name(log: &File) -> std::io::Result<()> {
    match std::os::unix::fs::MetadataExt::nlink(&log.metadata()?) {
        0 => Err(std::io::Error::other("it was deleted while the database was in use")),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn check_has_name(_: &File) -> std::io::Result<()> {
    Ok(())
}

impl WalSync {
    pub(super) fn new(log: Option<File>, fatal_error: watch::Sender<Option<Arc<str>>>) -> Self {
        Self {
            log,
            state: Mutex::default(),
            work: Condvar::new(),
            disk: Mutex::default(),
            fatal_error,
            syncs: AtomicU64::new(0),
        }
    }

    /// The number of syncs.
    pub(in super::super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// The position of everything that could be seen up to now.
    pub(in super::super) fn visible_position(&self) -> CommitPosition {
        CommitPosition(self.lock_state().visible)
    }

    /// The position that the next commit gets.
    pub(super) fn next_position(&self) -> CommitPosition {
        CommitPosition(self.lock_state().visible + 1)
    }

    /// A commit is about to end: from now on somebody may see it.
    pub(super) fn begin_commit(&self) {
        self.lock_state().visible += 1;
    }

    /// The commit has ended, and wrote to the log or not.
    pub(super) fn end_commit(&self, wrote: bool) {
        let mut state = self.lock_state();
        let all_before_durable = state.durable == state.ended;
        state.ended = state.visible;
        if self.log.is_none() || (!wrote && all_before_durable) {
            let ended = state.ended;
            let ready = state.mark_durable(ended);
            drop(state);
            return ready.into_iter().for_each(|waiter| waiter.tell(None));
        }
        // The thread sets its clock when it learns of the first commit, and works when somebody waits.
        let first = state.undurable_since.is_none();
        state.undurable_since.get_or_insert_with(Instant::now);
        if first || state.wanted > state.durable {
            self.work.notify_one();
        }
    }

    /// Answers a job when everything that ended before now is on disk.
    pub(super) fn answer_when_durable(&self, job: Box<dyn WriteJob>) {
        let mut state = self.lock_state();
        let failure = self.failure();
        if state.durable >= state.ended || failure.is_some() {
            drop(state);
            return SyncWaiter::Job(job).tell(failure.as_ref());
        }
        let position = state.ended;
        self.add_waiter(&mut state, position, SyncWaiter::Job(job));
    }

    /// Waits until the commit at this position, and with it everything before, is on disk.
    pub(in super::super) async fn wait_until_durable(
        &self,
        position: CommitPosition,
    ) -> Result<(), StoreError> {
        let answer = {
            let mut state = self.lock_state();
            // A position that was never given out is not waited for.
            let position = position.0.min(state.visible);
            if state.durable >= position {
                return Ok(());
            }
            if let Some(why) = self.failure() {
                return Err(writer_stopped_error(&why));
            }
            let (tell, answer) = oneshot::channel();
            self.add_waiter(&mut state, position, SyncWaiter::Caller(tell));
            answer
        };
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(StoreError::Unknown(message_error(&*why))),
            Err(_) => Err(StoreError::Unknown(message_error("the store was closed"))),
        }
    }

    fn add_waiter(&self, state: &mut WalSyncState, position: u64, waiter: SyncWaiter) {
        state.waiting.push((position, waiter));
        state.wanted = state.wanted.max(position);
        self.work.notify_one();
    }

    /// The loop of the sync thread.
    pub(super) fn run_sync_thread(&self) {
        while self.wait_for_work() {
            self.sync();
        }
    }

    /// Waits until something has to be synced. `false` when nothing will be any more.
    fn wait_for_work(&self) -> bool {
        let mut state = self.lock_state();
        loop {
            if self.failure().is_some() {
                return false;
            }
            let behind = state.ended > state.durable;
            if behind && (state.wanted > state.durable || state.closed) {
                return true;
            }
            if state.closed {
                return false;
            }
            let left = state.undurable_since.map(|since| MAX_UNDURABLE_TIME.saturating_sub(since.elapsed()));
            state = match left {
                Some(left) if left.is_zero() => return true,
                Some(left) => self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Makes everything that ended before now durable, and tells those who wait for it.
    pub(super) fn sync(&self) {
        let disk = self.lock_disk();
        let target = {
            let mut state = self.lock_state();
            state.undurable_since = None;
            state.ended
        };
        if self.failure().is_some() {
            return;
        }
        let synced = match &self.log {
            Some(log) if !mutant("no_fsync") && !mutant("sync_at_checkpoint_only") => {
                log.sync_data().and_then(|()| check_has_name(log))
            }
            _ => Ok(()),
        };
        self.syncs.fetch_add(1, Ordering::Relaxed);
        match synced {
            Err(error) if !mutant("swallow_fsync_error") => {
                self.fail(&Arc::from(format!("the write-ahead log could not be synced: {error}")));
            }
            _ => {
                drop(disk);
                let ready = self.lock_state().mark_durable(target);
                ready.into_iter().for_each(|waiter| waiter.tell(None));
            }
        }
    }

    /// Keeps syncs away as long as it is held. After a failed sync nothing more may reach the disk: `failure` tells.
    pub(in super::super) fn lock_disk(&self) -> MutexGuard<'_, ()> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the store has stopped, if it has.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.fatal_error.borrow().clone()
    }

    /// Stops for good. Nobody who waits will learn more.
    pub(super) fn fail(&self, why: &Arc<str>) {
        tracing::error!(%why, "the store stops: the process must be restarted");
        let waiting = {
            let mut state = self.lock_state();
            self.fatal_error.send_replace(Some(why.clone()));
            self.work.notify_one();
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|(_, waiter)| waiter.tell(Some(why)));
    }

    /// Lets the sync thread end when everything is on disk.
    pub(super) fn close(&self) {
        self.lock_state().closed = true;
        self.work.notify_one();
    }

    #[cfg(test)]
    pub(in super::super) fn is_all_durable(&self) -> bool {
        let state = self.lock_state();
        state.durable == state.visible
    }

    fn lock_state(&self) -> MutexGuard<'_, WalSyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WalSyncState {
    /// Takes out those whose wait is over.
    fn mark_durable(&mut self, position: u64) -> Vec<SyncWaiter> {
        self.durable = self.durable.max(position);
        if self.durable == self.ended {
            self.undurable_since = None;
        }
        let durable = self.durable;
        self.waiting.extract_if(.., |(wanted, _)| *wanted <= durable).map(|(_, waiter)| waiter).collect()
    }
}

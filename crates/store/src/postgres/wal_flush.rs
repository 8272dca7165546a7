//! Which commits of this process are on the server's disk.
//!
//! A batch of steps that need not be on disk at once commits with `synchronous_commit = off`. Any other commit flushes the
//! server's log up to itself, and with it everything before. So one small commit makes everything durable that this
//! process, or anybody else, has committed before it.
//!
//! A server that crashes loses what was not flushed, and with it every connection. A flush therefore proves something
//! about a commit only on a connection that was open before the commit was sent. On a younger one nobody knows, and the
//! caller has to read the log again.
//!
//! A statement that writes nothing flushes nothing, however it commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::store::{CommitPosition, MAX_UNDURABLE_TIME, StoreError};
use tokio::runtime::Handle;

use super::pool::PostgresPool;

/// How often, and after what pauses, a connection is looked for that is older than a commit.
const MAX_OLDER_CONNECTION_TRIES: usize = 5;
const OLDER_CONNECTION_PAUSE: Duration = Duration::from_millis(20);

/// What a statement that was executed did to the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEffect {
    /// It wrote, and may not be on disk.
    Later,
    /// It wrote, and is on disk.
    Flushed,
    /// It may have written nothing.
    Unknown,
}

/// Follows the commits of one process.
#[derive(Default)]
pub(super) struct WalFlush {
    state: Mutex<WalFlushState>,
    /// Held during a flush that somebody waits for. Those who wait meanwhile share the next one.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct WalFlushState {
    /// The newest position.
    last: u64,
    /// Commits that may not be on disk, with the time when they were sent.
    unflushed: BTreeMap<u64, Instant>,
    /// Commits whose connections were all lost before a flush: only their log can say whether they survived.
    unprovable: BTreeSet<u64>,
    /// Flushes that have begun and ended, of those that somebody waited for.
    begun: u64,
    ended: u64,
    /// When the connection of the last one that ended was opened.
    ended_on: Option<Instant>,
    /// A flush will happen by itself.
    scheduled: bool,
}

/// A commit that is on its way.
pub(super) struct SentCommit {
    pub(super) at: Instant,
    /// Everything up to here was committed before.
    after: u64,
}

impl WalFlush {
    /// A commit is about to be sent.
    pub(super) fn begin_commit(&self) -> SentCommit {
        SentCommit { at: Instant::now(), after: self.lock_state().last }
    }

    /// The commit was made, on a connection that was opened at `connected`.
    pub(super) fn end_commit(
        &self,
        sent: &SentCommit,
        connected: Instant,
        effect: LogEffect,
    ) -> CommitPosition {
        let mut state = self.lock_state();
        state.last += 1;
        let position = state.last;
        match effect {
            LogEffect::Later => drop(state.unflushed.insert(position, sent.at)),
            LogEffect::Flushed => {
                state.unflushed.retain(|position, at| *position > sent.after || connected > *at);
            }
            LogEffect::Unknown => {}
        }
        CommitPosition(position)
    }

    /// Makes sure that everything which is not on disk soon will be.
    pub(super) fn schedule(self: &Arc<Self>, pool: &PostgresPool) {
        let Ok(runtime) = Handle::try_current() else { return };
        if std::mem::replace(&mut self.lock_state().scheduled, true) {
            return;
        }
        let (flush, pool) = (self.clone(), pool.clone());
        runtime.spawn(async move {
            tokio::time::sleep(MAX_UNDURABLE_TIME).await;
            let newest = {
                let mut state = flush.lock_state();
                state.scheduled = false;
                state.unflushed.keys().next_back().copied()
            };
            if let Some(newest) = newest
                && let Err(error) = flush.wait_until_durable(&pool, CommitPosition(newest)).await
            {
                tracing::debug!(%error, "steps may not be on the database's disk yet");
            }
        });
    }

    /// Waits until everything up to this position is on disk.
    pub(super) async fn wait_until_durable(
        &self,
        pool: &PostgresPool,
        position: CommitPosition,
    ) -> Result<(), StoreError> {
        if self.sent_if_undurable(position)?.is_none() {
            return Ok(());
        }
        // The commit was made. If the database cannot be asked now, only its log can say whether it survives.
        let unknown = |error| match error {
            StoreError::Unavailable(source) => StoreError::Unknown(source),
            error => error,
        };
        self.flush(pool).await.map_err(unknown)?;
        // The flush may have got a connection that is younger than the commit, because the pool has grown since. One that
        // is older proves that the server did not crash; it may be busy for a moment.
        for _ in 0..MAX_OLDER_CONNECTION_TRIES {
            let Some(sent) = self.sent_if_undurable(position)? else { return Ok(()) };
            pool.commit_message_on_connection_of(sent).await.map_err(unknown)?;
            if self.sent_if_undurable(position)?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(OLDER_CONNECTION_PAUSE).await;
        }
        self.give_up(position);
        self.sent_if_undurable(position).map(drop)
    }

    /// Makes everything durable that anybody has committed before now. Returns when the connection was opened that proves
    /// it: about what is older than that it proves nothing.
    pub(super) async fn flush(&self, pool: &PostgresPool) -> Result<Instant, StoreError> {
        let begun = self.lock_state().begun;
        let _turn = self.turn.lock().await;
        {
            let mut state = self.lock_state();
            // One that began after this call has ended.
            if let Some(connected) = state.ended_on.filter(|_| state.ended > begun) {
                return Ok(connected);
            }
            state.begun += 1;
        }
        let connected = pool.commit_message().await?;
        let mut state = self.lock_state();
        state.ended = state.begun;
        state.ended_on = Some(connected);
        Ok(connected)
    }

    /// When this commit was sent, if it may not be on disk yet. `None` says that it is, and with it what it builds on. Others
    /// before it may have been lost with an earlier life of the server. An error if nothing can prove it any more.
    fn sent_if_undurable(&self, position: CommitPosition) -> Result<Option<Instant>, StoreError> {
        let state = self.lock_state();
        if state.unprovable.contains(&position.0) {
            return Err(StoreError::Unknown("the connection to the database was lost since".into()));
        }
        Ok(state.unflushed.get(&position.0).copied())
    }

    /// Nothing can prove this commit, nor those before it that nothing has proved yet.
    fn give_up(&self, position: CommitPosition) {
        let mut state = self.lock_state();
        let newer = state.unflushed.split_off(&(position.0 + 1));
        let lost = std::mem::replace(&mut state.unflushed, newer);
        state.unprovable.extend(lost.into_keys());
    }

    fn lock_state(&self) -> MutexGuard<'_, WalFlushState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_durable(flush: &WalFlush, position: CommitPosition) -> bool {
        flush.sent_if_undurable(position).expect("known").is_none()
    }

    #[test]
    fn a_commit_that_waits_makes_everything_before_it_durable() {
        let (flush, connected) = (WalFlush::default(), Instant::now());
        let later = |sent: &SentCommit| flush.end_commit(sent, connected, LogEffect::Later);
        let first = later(&flush.begin_commit());
        let now = flush.begin_commit();
        let beside = later(&flush.begin_commit());
        assert!(!is_durable(&flush, first));
        let position = flush.end_commit(&now, connected, LogEffect::Flushed);
        assert!(is_durable(&flush, first));
        assert!(!is_durable(&flush, beside), "it may have been committed after the flush");
        assert!(first < beside && beside < position);
    }

    #[test]
    fn a_statement_that_may_have_written_nothing_proves_nothing() {
        let (flush, connected) = (WalFlush::default(), Instant::now());
        let first = flush.end_commit(&flush.begin_commit(), connected, LogEffect::Later);
        flush.end_commit(&flush.begin_commit(), connected, LogEffect::Unknown);
        assert!(!is_durable(&flush, first));
    }

    #[test]
    fn what_nothing_can_prove_is_given_up_once_and_for_all() {
        let (flush, connected) = (WalFlush::default(), Instant::now());
        let later = || flush.end_commit(&flush.begin_commit(), connected, LogEffect::Later);
        let (lost, asked, newer) = (later(), later(), later());
        flush.give_up(asked);
        for position in [lost, asked] {
            assert!(matches!(flush.sent_if_undurable(position), Err(StoreError::Unknown(_))));
        }
        assert!(!is_durable(&flush, newer));
        flush.end_commit(&flush.begin_commit(), connected, LogEffect::Flushed);
        assert!(is_durable(&flush, newer));
        assert!(flush.sent_if_undurable(lost).is_err(), "a later flush proves nothing about it");
        assert_eq!(flush.lock_state().unflushed.len(), 0, "nothing is left to be flushed");
    }

    #[test]
    fn a_connection_proves_nothing_about_commits_that_are_older_than_itself() {
        let flush = WalFlush::default();
        let lost = flush.end_commit(&flush.begin_commit(), Instant::now(), LogEffect::Later);
        let reconnected = Instant::now() + Duration::from_secs(1);
        flush.end_commit(&flush.begin_commit(), reconnected, LogEffect::Flushed);
        assert!(!is_durable(&flush, lost));
    }
}

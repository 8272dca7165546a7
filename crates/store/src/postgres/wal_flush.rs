//! Which commits of this process are on the server's disk.
//!
//! A batch of steps that need not be on disk at once commits with `synchronous_commit = off`. Any other commit flushes the
//! server's log up to itself, and with it everything before. So one small commit makes everything durable that this
//! process, or anybody else, has committed before it.
//!
//! A server that crashes loses what was not flushed, and with it every connection. A flush therefore proves something
//! about a commit only on a connection that was open before the commit was sent. On a younger one nobody knows, and the
//! caller has to read the log again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::store::{CommitPosition, Durability, MAX_UNDURABLE_TIME, StoreError};
use tokio::runtime::Handle;

use super::pool::PostgresPool;

/// How often, and after what pauses, a connection is looked for that is older than a commit.
const MAX_OLDER_CONNECTION_TRIES: usize = 5;
const OLDER_CONNECTION_PAUSE: Duration = Duration::from_millis(20);

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
    /// Commits that may not be on disk, with the time when they were sent. After a crash of the server some stay here for
    /// good: whether they survived only their log can say.
    unflushed: BTreeMap<u64, Instant>,
    /// Flushes that have begun and ended, of those that somebody waited for.
    begun: u64,
    ended: u64,
    /// A flush will happen by itself.
    scheduled: bool,
}

/// A commit that is on its way.
pub(super) struct SentCommit {
    at: Instant,
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
        durability: Durability,
    ) -> CommitPosition {
        let mut state = self.lock_state();
        state.last += 1;
        let position = state.last;
        match durability {
            Durability::Later => drop(state.unflushed.insert(position, sent.at)),
            Durability::Now => {
                state.unflushed.retain(|position, at| *position > sent.after || connected > *at);
            }
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
        if self.is_durable(position) {
            return Ok(());
        }
        self.flush(pool).await?;
        // The flush may have got a connection that is younger than the commit, because the pool has grown since. One that
        // is older proves that the server did not crash; it may be busy for a moment.
        for _ in 0..MAX_OLDER_CONNECTION_TRIES {
            let Some(sent) = self.lock_state().unflushed.get(&position.0).copied() else { return Ok(()) };
            pool.commit_message_on_connection_of(sent).await?;
            if self.is_durable(position) {
                return Ok(());
            }
            tokio::time::sleep(OLDER_CONNECTION_PAUSE).await;
        }
        Err(StoreError::Unknown("the connection to the database was lost since".into()))
    }

    /// Makes everything durable that anybody has committed before now.
    pub(super) async fn flush(&self, pool: &PostgresPool) -> Result<(), StoreError> {
        let begun = self.lock_state().begun;
        let _turn = self.turn.lock().await;
        {
            let mut state = self.lock_state();
            // One that began after this call has ended.
            if state.ended > begun {
                return Ok(());
            }
            state.begun += 1;
        }
        pool.commit_message().await?;
        let mut state = self.lock_state();
        state.ended = state.begun;
        Ok(())
    }

    /// Whether this commit is on disk, and with it what it builds on. Others before it may have been lost with an earlier
    /// life of the server.
    fn is_durable(&self, position: CommitPosition) -> bool {
        !self.lock_state().unflushed.contains_key(&position.0)
    }

    fn lock_state(&self) -> MutexGuard<'_, WalFlushState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_waits_makes_everything_before_it_durable() {
        let (flush, connected) = (WalFlush::default(), Instant::now());
        let later = |sent: &SentCommit| flush.end_commit(sent, connected, Durability::Later);
        let first = later(&flush.begin_commit());
        let now = flush.begin_commit();
        let beside = later(&flush.begin_commit());
        assert!(!flush.is_durable(first));
        let position = flush.end_commit(&now, connected, Durability::Now);
        assert!(flush.is_durable(first));
        assert!(!flush.is_durable(beside), "it may have been committed after the flush");
        assert!(first < beside && beside < position);
    }

    #[test]
    fn a_connection_proves_nothing_about_commits_that_are_older_than_itself() {
        let flush = WalFlush::default();
        let lost = flush.end_commit(&flush.begin_commit(), Instant::now(), Durability::Later);
        let reconnected = Instant::now() + Duration::from_secs(1);
        flush.end_commit(&flush.begin_commit(), reconnected, Durability::Now);
        assert!(!flush.is_durable(lost));
    }
}

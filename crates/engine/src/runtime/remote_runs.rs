//! Runs that other processes drive, or that nobody drives yet: one task asks the store for all that are watched here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::id::RunKey;
use crate::runtime::RuntimeInner;
use crate::store::RunPosition;

/// How often the store is read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The most runs read in one request.
const RUNS_PER_POLL: usize = 500;

/// What is known of a run that is driven elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemoteRun {
    NotAskedYet,
    Missing,
    At(RunPosition),
}

/// The runs that are watched here and driven elsewhere.
#[derive(Default)]
pub(super) struct RemoteRuns(Mutex<HashMap<RunKey, watch::Sender<RemoteRun>>>);

impl RemoteRuns {
    fn lock(&self) -> MutexGuard<'_, HashMap<RunKey, watch::Sender<RemoteRun>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs that somebody still watches.
    fn watched(&self) -> Vec<RunKey> {
        let mut runs = self.lock();
        runs.retain(|_, sender| sender.receiver_count() > 0);
        runs.keys().cloned().collect()
    }

    fn publish(&self, run: &RunKey, position: Option<RunPosition>) {
        let now = position.map_or(RemoteRun::Missing, RemoteRun::At);
        if let Some(sender) = self.lock().get(run) {
            sender.send_if_modified(|known| std::mem::replace(known, now) != now);
        }
    }
}

impl RuntimeInner {
    /// Follows a run that this process does not drive. The receiver tells when the run may have gone on; the first time
    /// at once, for what happened before this call.
    pub(super) fn follow_remote_run(self: &Arc<Self>, run: &RunKey) -> watch::Receiver<RemoteRun> {
        let mut runs = self.remote_runs.lock();
        if runs.is_empty() {
            tokio::spawn(poll_remote_runs(Arc::downgrade(self)));
        }
        let sender = runs.entry(run.clone()).or_insert_with(|| watch::Sender::new(RemoteRun::NotAskedYet));
        let mut receiver = sender.subscribe();
        receiver.mark_changed();
        receiver
    }
}

/// Asks the store now and then, as long as somebody watches.
async fn poll_remote_runs(inner: Weak<RuntimeInner>) {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        let runs = inner.remote_runs.watched();
        if runs.is_empty() {
            return;
        }
        for some in runs.chunks(RUNS_PER_POLL) {
            match inner.store.run_positions(some).await {
                Ok(positions) => {
                    some.iter().zip(positions).for_each(|(run, at)| inner.remote_runs.publish(run, at));
                }
                // Watchers wait for the store to come back.
                Err(error) => tracing::debug!(%error, "could not look at runs of other processes"),
            }
        }
    }
}

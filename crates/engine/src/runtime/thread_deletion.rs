//! Deleting a thread whose runs may be under way.

use std::time::Duration;

use crate::error::EngineError;
use crate::id::ThreadKey;
use crate::log;
use crate::runtime::Runtime;
use crate::store::{RunFilter, RunSignal, RunStatus, StoreError};

/// How long a deletion waits for a run to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Queued runs that are cancelled before a deletion.
const MAX_QUEUED_RUNS: usize = 1000;

impl Runtime {
    /// Removes a thread with all it holds. `false` when there was none.
    ///
    /// A run under way is cancelled first, so that all it spent is counted with the usage of deleted runs. If it has not
    /// stopped after five seconds, it is removed all the same: then what it spends in its last step is not counted.
    pub async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, EngineError> {
        match tokio::time::timeout(STOP_TIMEOUT, self.stop_runs(thread)).await {
            Ok(Ok(()) | Err(EngineError::Store(StoreError::NotFound { .. }))) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => tracing::warn!(%thread, "a run does not stop; its thread is deleted under it"),
        }
        Ok(self.0.store.delete_thread(thread).await?)
    }

    async fn stop_runs(&self, thread: &ThreadKey) -> Result<(), EngineError> {
        let Some(active) = self.0.store.thread(thread).await?.active else { return Ok(()) };
        // Those that wait would begin when the active one ends.
        let waiting = RunFilter {
            thread: Some(thread.thread.clone()),
            status: Some(RunStatus::Queued),
            limit: MAX_QUEUED_RUNS,
            ..RunFilter::default()
        };
        for run in self.0.store.runs(&thread.tenant, &waiting).await? {
            let body = log::to_json_bytes(&log::RunCancelledEntry::default());
            self.0.store.signal(&run.key(), RunSignal::Cancel { body }).await?;
        }
        let run = self.run_handle(&thread.run(active)).await?;
        self.cancel(&run.key()).await?;
        run.wait().await?;
        Ok(())
    }
}

//! The tasks of a shared library: one follows the database, one says that this process is alive, the others process
//! documents.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::super::ingest_worker::{put_when_reachable, split_extracted};
use super::super::record::ReadyVersion;
use super::super::{Library, LibraryError, LibraryInner, disk};
use super::ingest_job::{IndexRepair, SharedIngestJob, SharedWork, database_failure};
use super::{
    REFRESH_INTERVAL, SharedDocuments, WORKER_LEASE, WORKER_RENEWAL_INTERVAL, original_name, read_text,
    record_key, text_name,
};
use crate::ingest::{IngestFailure, IngestFailureKind};

/// How long a worker without work waits before it looks for documents of processes that died.
const IDLE_INTERVAL: Duration = Duration::from_secs(3);

/// How long a worker waits after an error of the database.
const ERROR_DELAY: Duration = Duration::from_secs(1);

impl Library {
    /// Starts the tasks. Before that, makes the index agree with the database.
    pub(super) async fn start_shared_workers(&self) -> Result<(), LibraryError> {
        let inner = &self.inner;
        let Some(shared) = &inner.shared else { return Ok(()) };
        self.workers.push(tokio::spawn(follow_database(inner.clone())));
        if inner.options.workers == 0 {
            return Ok(());
        }
        shared.database.renew_worker(&shared.process, WORKER_LEASE).await?;
        self.workers.push(tokio::spawn(renew_lease(inner.clone())));
        let filled = inner.index.ensure_exists().await?;
        shared.sync_index(inner).await?;
        self.watch_index(filled);
        for _ in 0..inner.options.workers {
            self.workers.push(tokio::spawn(run_shared_worker(inner.clone())));
        }
        Ok(())
    }

    /// Lets go of the documents of this process after its tasks have ended.
    pub(in super::super) async fn end_shared_workers(&self) {
        let Some(shared) = &self.inner.shared else { return };
        if let Err(error) = shared.let_go_of_all(&self.inner).await {
            tracing::warn!(%error, "other replicas take the queued documents over when the lease of this one has run out");
        }
        if self.inner.options.workers > 0
            && let Err(error) = shared.database.end_worker(&shared.process).await
        {
            tracing::debug!(%error, "the lease of this process runs out by itself");
        }
    }
}

async fn follow_database(inner: Arc<LibraryInner>) {
    let mut is_reported = false;
    loop {
        tokio::time::sleep(REFRESH_INTERVAL).await;
        let Some(shared) = &inner.shared else { return };
        match shared.refresh(&inner).await {
            Ok(()) => is_reported = false,
            Err(error) if !is_reported => {
                is_reported = true;
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot ask the database for changed documents; trying again"
                );
            }
            Err(_) => {}
        }
    }
}

async fn renew_lease(inner: Arc<LibraryInner>) {
    loop {
        tokio::time::sleep(WORKER_RENEWAL_INTERVAL).await;
        let Some(shared) = &inner.shared else { return };
        if let Err(error) = shared.database.renew_worker(&shared.process, WORKER_LEASE).await {
            tracing::debug!(%error, "the lease of this process could not be renewed");
        }
    }
}

async fn run_shared_worker(inner: Arc<LibraryInner>) {
    let Some(shared) = &inner.shared else { return };
    loop {
        match shared.take_work(&inner).await {
            Ok(SharedWork::Ingest(job)) => {
                // Another idle worker may be needed for a document that is still queued.
                inner.wake_worker.notify_one();
                process_job(&inner, shared, &job).await;
            }
            Ok(SharedWork::Remove(key, job)) => {
                if let Err(error) = shared.finish_removal(&inner, &key, &job).await {
                    tracing::warn!(id = %key.id, %error, "a document could not be removed; that is tried again");
                }
            }
            Ok(SharedWork::Again) => {}
            Ok(SharedWork::Nothing) => {
                let woken = inner.wake_worker.notified();
                // A timeout is not an error: it looks for documents of processes that died.
                tokio::time::timeout(IDLE_INTERVAL, woken).await.ok();
            }
            Err(error) => {
                tracing::debug!(%error, "no document could be taken; trying again");
                tokio::time::sleep(ERROR_DELAY).await;
            }
        }
    }
}

/// Processes a document and lets go of it, however long the database takes to hear of that.
async fn process_job(inner: &Arc<LibraryInner>, shared: &SharedDocuments, job: &SharedIngestJob) {
    let key = job.record.key();
    // A panic is a failure of this document alone.
    let done = AssertUnwindSafe(ingest(inner, shared, job)).catch_unwind().await;
    let result = done.unwrap_or_else(|_| Err(IngestFailure::new(IngestFailureKind::Crashed, "a panic")));
    if let Err(failure) = &result {
        tracing::info!(id = %key.id, kind = failure.kind.as_str(), detail = %failure.detail, "a document was not read");
    }
    loop {
        let repaired = match shared.let_go(inner, job, &result).await {
            Ok(IndexRepair::None) => Ok(()),
            Ok(IndexRepair::Remove) => {
                inner.index.remove(&key.tenant, &key.id).await.map(drop).map_err(LibraryError::Index)
            }
            Ok(IndexRepair::FinishRemoval) => shared.finish_removal(inner, &key, &job.name).await,
            Err(error) => Err(error),
        };
        match repaired {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(id = %key.id, %error, "where a document stands could not be written down; trying again");
                tokio::time::sleep(ERROR_DELAY).await;
            }
        }
    }
}

/// Reads and indexes a document. `None` if it is not this job's any more.
async fn ingest(
    inner: &Arc<LibraryInner>,
    shared: &SharedDocuments,
    job: &SharedIngestJob,
) -> Result<Option<ReadyVersion>, IngestFailure> {
    let (key, hash) = (record_key(&job.record.key()), &job.incoming.hash);
    let text = text_name(hash);
    let file =
        async |name: &str| shared.database.file(&key, name).await.map_err(|error| database_failure(&error));
    let bytes = match file(&text).await? {
        Some(bytes) => bytes,
        None => {
            let Some(original) = file(&original_name(hash)).await? else {
                // Only a newer version or a removal deletes it.
                return match is_own(inner, shared, job) {
                    true => Err(IngestFailure::new(IngestFailureKind::Disk, "the original is missing")),
                    false => Ok(None),
                };
            };
            let read = tokio::select! {
                read = inner.options.reader.read(&job.record.name, &original) => read?,
                () = wait_until_lost(inner, shared, job) => return Ok(None),
            };
            serde_json::to_vec(&read)
                .map_err(|error| IngestFailure::new(IngestFailureKind::Disk, error.to_string()))?
        }
    };
    let is_ours = shared.begin_indexing(inner, job, (&text, &bytes)).await;
    if !is_ours.map_err(|error| database_failure(&error))? {
        return Ok(None);
    }
    let extracted = read_text(&bytes).map_err(|error| database_failure(&error))?;
    let record = job.record.clone();
    let split = disk::run_blocking(&inner.root, move || Ok(split_extracted(&record, extracted))).await;
    let split = split.map_err(|error| database_failure(&error))??;
    let is_wanted = || is_own(inner, shared, job);
    if !put_when_reachable(inner, &job.record.tenant, &split, is_wanted).await? {
        return Ok(None);
    }
    Ok(Some(split.into_ready(&job.incoming)))
}

fn is_own(inner: &LibraryInner, shared: &SharedDocuments, job: &SharedIngestJob) -> bool {
    let known = shared.known(inner, &job.record.key());
    known.is_some_and(|(record, _)| record.worker.as_deref() == Some(&job.name))
}

/// Ends when the document is not this job's any more.
async fn wait_until_lost(inner: &LibraryInner, shared: &SharedDocuments, job: &SharedIngestJob) {
    let mut changes = inner.change_count.subscribe();
    while is_own(inner, shared, job) {
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

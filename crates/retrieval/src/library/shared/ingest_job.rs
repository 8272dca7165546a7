//! Which document is processed next, and how a job takes it, goes on with it and lets go of it.

use std::collections::BTreeSet;

use super::super::record::{
    DocumentKey, DocumentRecord, IncomingVersion, IngestState, MAX_READ_ATTEMPTS, ReadyVersion,
    unix_seconds_now,
};
use super::super::{LibraryError, LibraryInner};
use super::{RecordChoice, RecordFiles, SharedDocuments, catalog_of};
use crate::ingest::{IngestFailure, IngestFailureKind};

/// How many seconds a removal that failed waits before it is tried again.
const REMOVAL_RETRY_SECONDS: u64 = 5;

/// A document that this process works on.
pub(super) struct SharedIngestJob {
    pub(super) record: DocumentRecord,
    pub(super) incoming: IncomingVersion,
    /// The name of the job in the record.
    pub(super) name: String,
}

/// What a worker has taken.
pub(super) enum SharedWork {
    /// A document to ingest.
    Ingest(Box<SharedIngestJob>),
    /// A document to remove, by this job.
    Remove(DocumentKey, String),
    /// Another process was faster, or there was something to write only.
    Again,
    /// Nothing.
    Nothing,
}

/// What there is to do for a record when no job has it.
fn is_work(record: &DocumentRecord, now: u64) -> bool {
    match record.state {
        IngestState::Queued | IngestState::Reading | IngestState::Indexing => record.incoming.is_some(),
        IngestState::Removing => {
            record.worker.is_some() || record.changed_at.saturating_add(REMOVAL_RETRY_SECONDS) <= now
        }
        IngestState::Failed | IngestState::Paused | IngestState::Cancelled => {
            record.version_to_restore().is_some()
        }
        IngestState::Ready => false,
    }
}

/// The process of a job.
fn process_of(job: &str) -> &str {
    job.split_once('/').map_or(job, |(process, _)| process)
}

impl SharedDocuments {
    /// Takes what is to be done next: the oldest document of the tenant with the fewest that are being processed. The
    /// documents of a process that died are taken over.
    pub(super) async fn take_work(&self, inner: &LibraryInner) -> Result<SharedWork, LibraryError> {
        self.refresh(inner).await?;
        let jobs = inner.catalog().mirrored_jobs();
        let live = match jobs.is_empty() {
            true => BTreeSet::new(),
            false => self.database.live_workers().await?,
        };
        let now = unix_seconds_now();
        // A job that came after the list of those who are alive is looked at again.
        let is_taken = |record: &DocumentRecord| {
            let is_alive = |job: &String| !jobs.contains(job) || live.contains(process_of(job));
            record.worker.as_ref().is_some_and(is_alive)
        };
        let next = inner.catalog().next_mirrored(is_taken, |record| is_work(record, now));
        let Some(next) = next else { return Ok(SharedWork::Nothing) };
        self.take(inner, &next.key(), &next).await
    }

    async fn take(
        &self,
        inner: &LibraryInner,
        key: &DocumentKey,
        seen: &DocumentRecord,
    ) -> Result<SharedWork, LibraryError> {
        let name = self.job_name();
        self.change(inner, key, RecordFiles::default(), |before| {
            // What another process has changed is looked at anew.
            let Some(before) = before.filter(|before| before == seen) else {
                return Ok(RecordChoice::Keep(SharedWork::Again));
            };
            if before.state == IngestState::Removing {
                let record = DocumentRecord { worker: Some(name.clone()), ..before };
                return Ok(RecordChoice::Write(
                    Box::new(record),
                    SharedWork::Remove(key.clone(), name.clone()),
                ));
            }
            if let Some(incoming) = before.version_to_restore() {
                let record = DocumentRecord { worker: Some(name.clone()), ..before };
                let job = SharedIngestJob { record: record.clone(), incoming, name: name.clone() };
                return Ok(RecordChoice::Write(Box::new(record), SharedWork::Ingest(Box::new(job))));
            }
            let Some(incoming) = before.incoming.clone() else {
                return Ok(RecordChoice::Keep(SharedWork::Again));
            };
            let mut record = DocumentRecord { overtaken: Vec::new(), ..before };
            if record.attempts >= MAX_READ_ATTEMPTS {
                record = DocumentRecord { worker: None, ..record.after_interruption() };
                return Ok(RecordChoice::Write(Box::new(record), SharedWork::Again));
            }
            record.state = IngestState::Reading;
            record.attempts += 1;
            record.worker = Some(name.clone());
            let job = SharedIngestJob { record: record.clone(), incoming, name: name.clone() };
            Ok(RecordChoice::Write(Box::new(record), SharedWork::Ingest(Box::new(job))))
        })
        .await
    }

    /// Moves a document from reading to indexing and stores its text. One whose ready version is restored stays in its state.
    /// `false` if it is not this job's any more.
    pub(super) async fn begin_indexing(
        &self,
        inner: &LibraryInner,
        job: &SharedIngestJob,
        text: (&str, &[u8]),
    ) -> Result<bool, LibraryError> {
        let files: &[(&str, &[u8])] = &[text];
        self.change(inner, &job.record.key(), RecordFiles { put: files }, |before| {
            let own = before.filter(|record| record.worker.as_deref() == Some(&job.name));
            Ok(match own {
                Some(before) if before.state == IngestState::Reading => {
                    let record = DocumentRecord { state: IngestState::Indexing, ..before };
                    RecordChoice::Write(Box::new(record), true)
                }
                Some(before) => RecordChoice::Keep(before.state != IngestState::Removing),
                None => RecordChoice::Keep(false),
            })
        })
        .await
    }

    /// Lets go of a document with the result of the job. Returns what is left to do with the index.
    pub(super) async fn let_go(
        &self,
        inner: &LibraryInner,
        job: &SharedIngestJob,
        result: &Result<Option<ReadyVersion>, IngestFailure>,
    ) -> Result<IndexRepair, LibraryError> {
        let key = job.record.key();
        self.change(inner, &key, RecordFiles::default(), |before| {
            let wrote = result.as_ref().is_ok_and(Option::is_some);
            let Some(before) = before else {
                // It was removed by a process that took this one for dead.
                return Ok(RecordChoice::Keep(if wrote { IndexRepair::Remove } else { IndexRepair::None }));
            };
            if before.worker.as_deref() != Some(&job.name) {
                let is_same = before.ready.as_ref().map(|ready| &ready.hash) == Some(&job.incoming.hash);
                if !wrote || is_same || before.state != IngestState::Ready {
                    return Ok(RecordChoice::Keep(IndexRepair::None));
                }
                // The index may have this version instead of the newer one, which is therefore indexed again.
                return Ok(RecordChoice::Write(Box::new(indexed_again(before)), IndexRepair::None));
            }
            if before.state == IngestState::Removing {
                return Ok(RecordChoice::Keep(IndexRepair::FinishRemoval));
            }
            let mut catalog = catalog_of(Some(&before));
            // Of a document that was changed meanwhile the version is ready, and the change is still to be made.
            let is_current = matches!(before.state, IngestState::Reading | IngestState::Indexing);
            let wanted = if is_current { 0 } else { u64::MAX };
            match result {
                Ok(Some(ready)) => drop(catalog.mark_ready(&key, wanted, ready.clone())),
                Ok(None) => {}
                Err(failure) => catalog.mark_failed(&key, wanted, failure.clone()),
            }
            let mut record = catalog.record(&key).unwrap_or(before);
            if let Some(ready) = record.ready.as_mut().filter(|ready| ready.hash == job.incoming.hash) {
                // What could not be restored is left to the next comparison with the index.
                ready.is_lost = false;
            }
            let record = DocumentRecord { worker: None, overtaken: Vec::new(), ..record };
            Ok(RecordChoice::Write(Box::new(record), IndexRepair::None))
        })
        .await
    }

    /// Lets go of everything that this process works on, as if it had never begun: the process stops.
    pub(super) async fn let_go_of_all(&self, inner: &LibraryInner) -> Result<(), LibraryError> {
        self.refresh(inner).await?;
        let is_own = |record: &DocumentRecord| {
            record.worker.as_deref().is_some_and(|job| process_of(job) == self.process)
        };
        let own = inner.catalog().records_where(is_own);
        for record in own {
            self.change(inner, &record.key(), RecordFiles::default(), |before| {
                let Some(mut record) = before.filter(is_own) else { return Ok(RecordChoice::Keep(())) };
                if matches!(record.state, IngestState::Reading | IngestState::Indexing) {
                    record.state = IngestState::Queued;
                    record.attempts = record.attempts.saturating_sub(1);
                }
                record.worker = None;
                record.overtaken.clear();
                Ok(RecordChoice::Write(Box::new(record), ()))
            })
            .await?;
        }
        Ok(())
    }

    /// Sees to it that the ready version of a document is indexed again. One that was changed meanwhile is left alone.
    pub(super) async fn index_again(
        &self,
        inner: &LibraryInner,
        seen: &DocumentRecord,
    ) -> Result<(), LibraryError> {
        self.change(inner, &seen.key(), RecordFiles::default(), |before| {
            let before = before.filter(|before| before == seen && before.state != IngestState::Removing);
            let Some(before) = before else { return Ok(RecordChoice::Keep(())) };
            Ok(RecordChoice::Write(Box::new(indexed_again(before)), ()))
        })
        .await
    }
}

/// What a job that lost its document has to do with the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexRepair {
    None,
    /// Remove what it wrote.
    Remove,
    /// Finish the removal of the document, which waited for the job.
    FinishRemoval,
}

/// A record whose ready version is to be indexed again. A newer version that is waiting, or that failed, is kept as it is.
fn indexed_again(mut record: DocumentRecord) -> DocumentRecord {
    let Some(ready) = &mut record.ready else { return record };
    if record.state == IngestState::Ready {
        record.incoming.get_or_insert(IncomingVersion { hash: ready.hash.clone(), bytes: ready.bytes });
        record.state = IngestState::Queued;
    } else {
        ready.is_lost = true;
    }
    record
}

/// The failure of a job whose database did not answer.
pub(super) fn database_failure(error: &LibraryError) -> IngestFailure {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    IngestFailure::new(IngestFailureKind::Disk, format!("{error}: {cause}"))
}

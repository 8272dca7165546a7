//! The ingest worker: processes documents one after another, from the original to the index.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use doran_llm::ModelError;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::catalog::IngestJob;
use super::record::{DocumentKey, DocumentRecord, ReadyVersion};
use super::{LibraryError, LibraryInner, disk};
use crate::contract::is_contract;
use crate::ingest::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind};
use crate::passage::{Document, DocumentKind, DocumentTenant, Passage};
use crate::retriever::{DocumentIndex, RetrieveError};
use crate::split::{SPLIT_RULES_VERSION, split_within_memory_limit};

/// The delay before a failed removal is retried: the first one, and the longest.
const FIRST_REMOVAL_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_REMOVAL_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The delay before a document is stored again in an index that did not take it: the first one, and the longest.
const FIRST_INDEX_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_INDEX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How often an index that can be reached refuses a document before the document fails. A node that has just started answers
/// before it takes documents.
const MAX_INDEX_REFUSALS: u32 = 4;

/// The delay before vectors are computed again after a failure.
const EMBEDDING_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Processes documents until the library is dropped. When none is left, computes the vectors that the index lacks.
pub(super) async fn run_ingest_worker(inner: Arc<LibraryInner>) {
    loop {
        let next = inner.catalog().next_job();
        let Some(job) = next else {
            clean_up_index(&inner).await;
            match embed_some(&inner).await {
                // Documents that came meanwhile are read first.
                EmbeddingStep::MoreLeft => {}
                EmbeddingStep::Complete => inner.wake_worker.notified().await,
                EmbeddingStep::Failed => {
                    // A timeout is not an error: it is tried again then.
                    let woken = inner.wake_worker.notified();
                    tokio::time::timeout(EMBEDDING_RETRY_DELAY, woken).await.ok();
                }
            }
            continue;
        };
        // Another idle worker may be needed for a document that is still queued.
        inner.wake_worker.notify_one();
        inner.notify_changed();
        let key = job.record.key();
        let (wanted, hash) = (job.generation, job.incoming.hash.clone());
        // A panic is a failure of this document alone: the worker goes on, and nobody waits for it for ever.
        let done = AssertUnwindSafe(process_ingest_job(&inner, job)).catch_unwind().await;
        let done = done.unwrap_or_else(|_| Err(IngestFailure::new(IngestFailureKind::Crashed, "a panic")));
        if let Err(failure) = done {
            tracing::info!(id = %key.id, kind = failure.kind.as_str(), detail = %failure.detail, "a document was not read");
            inner.catalog().mark_failed(&key, wanted, failure);
        }
        if let Err(error) = inner.save_record(&key).await {
            tracing::warn!(id = %key.id, %error, "where a document stands could not be written down");
        }
        if !inner.catalog().is_current_generation(&key, wanted) {
            let writing = inner.catalog().write_lock(&key);
            let _writing = writing.lock().await;
            inner.remove_version(&key, &hash).await;
        }
        inner.catalog().finish_job(&key.tenant);
        inner.notify_changed();
    }
}

/// Expunges the text of replaced versions from the index when no other work is left. Rewriting its files for each of a
/// thousand changed documents would cost far more.
async fn clean_up_index(inner: &LibraryInner) {
    if !inner.catalog().begin_cleanup() {
        return;
    }
    if let Err(error) = inner.index.expunge_deleted().await {
        tracing::warn!(%error, "words of replaced documents stay on the disk until the next start");
    }
    inner.catalog().finish_cleanup();
    inner.notify_changed();
}

/// How far the vectors of the index are.
enum EmbeddingStep {
    MoreLeft,
    Complete,
    Failed,
}

/// Computes some vectors that the index lacks.
async fn embed_some(inner: &LibraryInner) -> EmbeddingStep {
    if inner.index.passages_without_vectors() == 0 {
        return EmbeddingStep::Complete;
    }
    match inner.index.embed_some().await {
        Ok(0) => EmbeddingStep::Complete,
        Ok(_) => EmbeddingStep::MoreLeft,
        Err(error) => {
            tracing::warn!(%error, "vectors could not be computed; that is tried again");
            EmbeddingStep::Failed
        }
    }
}

/// Removes a document and retries until that succeeds. Sends the result of the first attempt to the caller.
pub(super) async fn remove_with_retries(
    inner: Arc<LibraryInner>,
    key: DocumentKey,
    tell: oneshot::Sender<Result<(), LibraryError>>,
) {
    let mut tell = Some(tell);
    let mut pause = FIRST_REMOVAL_RETRY_DELAY;
    loop {
        let done = inner.remove_document(&key).await;
        let failed = match &done {
            Ok(()) | Err(LibraryError::Unknown(_)) => false,
            Err(error) => {
                tracing::warn!(id = %key.id, %error, "a document could not be removed; that is tried again");
                inner.catalog().mark_removal_failed(&key);
                inner.notify_changed();
                true
            }
        };
        if let Some(tell) = tell.take() {
            // The caller may have gone away.
            tell.send(done).ok();
        }
        if !failed {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_REMOVAL_RETRY_DELAY);
    }
}

async fn process_ingest_job(inner: &Arc<LibraryInner>, job: IngestJob) -> Result<(), IngestFailure> {
    let IngestJob { record, incoming, generation: wanted, work_lock: turn, cancel: stop } = job;
    let key = record.key();
    // The previous worker may still be processing an older version.
    let _turn = turn.lock().await;
    if !inner.catalog().is_current_generation(&key, wanted) {
        return Ok(());
    }
    // The attempt is recorded before the file is read, so that a file that kills the process is not retried forever.
    inner.save_record(&key).await.map_err(|error| disk_failure(&error))?;
    let directory = disk::document_directory(&inner.root, &key);
    let text = disk::text_path(&directory, &incoming.hash);
    let path = text.clone();
    let before = disk::run_blocking(&inner.root, move || disk::read_extracted_text(&path))
        .await
        .map_err(|error| disk_failure(&error))?;
    let extracted = match before {
        Some(extracted) => extracted,
        None => {
            let original = disk::original_path(&directory, &incoming.hash);
            let bytes = disk::run_blocking(&inner.root, move || std::fs::read(&original))
                .await
                .map_err(|error| disk_failure(&error))?;
            let read = tokio::select! {
                read = inner.options.reader.read(&record.name, &bytes) => read,
                () = stop.notified() => return Ok(()),
            };
            store_extracted_text(inner, &text, read?).await?
        }
    };
    if !inner.catalog().mark_indexing(&key, wanted) {
        return Ok(());
    }
    inner.notify_changed();
    index_document(inner, &key, &record, &incoming, wanted, extracted).await
}

async fn store_extracted_text(
    inner: &LibraryInner,
    path: &std::path::Path,
    extracted: ExtractedText,
) -> Result<ExtractedText, IngestFailure> {
    let path = path.to_owned();
    disk::run_blocking(&inner.root, move || {
        let bytes = serde_json::to_vec(&extracted).map_err(std::io::Error::other)?;
        disk::write_file_atomically(&path, &bytes)?;
        Ok(extracted)
    })
    .await
    .map_err(|error| disk_failure(&error))
}

async fn index_document(
    inner: &LibraryInner,
    key: &DocumentKey,
    record: &DocumentRecord,
    incoming: &super::IncomingVersion,
    wanted: u64,
    extracted: ExtractedText,
) -> Result<(), IngestFailure> {
    let record = record.clone();
    let split = disk::run_blocking(&inner.root, move || Ok(split_extracted(&record, extracted)));
    let split = split.await.map_err(|error| disk_failure(&error))??;
    let is_wanted = || inner.catalog().is_current_generation(key, wanted);
    if !put_when_reachable(inner, &key.tenant, &split, is_wanted).await? {
        return Ok(());
    }
    let ready = split.into_ready(incoming);
    let writing = inner.catalog().write_lock(key);
    let _writing = writing.lock().await;
    let old = inner.catalog().mark_ready(key, wanted, ready);
    inner.write_record_locked(key).await.map_err(|error| disk_failure(&error))?;
    if let Some(old) = old {
        inner.remove_version(key, &old).await;
    }
    Ok(())
}

/// Stores a document and returns `true`. An index or an embedder that cannot be reached is no fault of the document, which
/// waits for it as long as it is wanted. An index that can be reached and refuses the document again and again fails it.
pub(super) async fn put_when_reachable(
    inner: &LibraryInner,
    tenant: &DocumentTenant,
    split: &SplitDocument,
    is_wanted: impl Fn() -> bool,
) -> Result<bool, IngestFailure> {
    let (mut refusals, mut pause) = (0, FIRST_INDEX_RETRY_DELAY);
    loop {
        let Err(error) = inner.index.put(tenant, &split.document, &split.passages).await else {
            return Ok(true);
        };
        refusals = if is_refusal(&*inner.index, &error).await { refusals + 1 } else { 0 };
        if refusals == MAX_INDEX_REFUSALS {
            return Err(IngestFailure::new(IngestFailureKind::NotIndexed, error.to_string()));
        }
        tracing::debug!(%error, "a document could not be stored in the index; trying again");
        tokio::time::sleep(pause).await;
        if !is_wanted() {
            return Ok(false);
        }
        pause = (pause * 2).min(MAX_INDEX_RETRY_DELAY);
    }
}

/// Returns whether an index that takes other documents has failed with this error.
async fn is_refusal(index: &dyn DocumentIndex, error: &RetrieveError) -> bool {
    match error.embedder_error() {
        Some(ModelError::Unreachable { .. } | ModelError::RateLimited { .. }) => false,
        // Some servers fail in this way at a text that is too long for them.
        Some(error) if error.is_transient() => index.check_embedder().await.is_ok(),
        Some(_) => true,
        None => index.check_health().await.is_ok(),
    }
}

/// A document that was read, as it goes into the index.
pub(super) struct SplitDocument {
    pub(super) document: Document,
    pub(super) passages: Vec<Passage>,
    format: FileFormat,
    hidden: usize,
}

impl SplitDocument {
    /// The version that is ready once it is in the index.
    pub(super) fn into_ready(self, incoming: &super::IncomingVersion) -> ReadyVersion {
        let Self { document, passages, format, hidden } = self;
        ReadyVersion {
            hash: incoming.hash.clone(),
            bytes: incoming.bytes,
            version: document.version,
            title: document.title,
            format,
            passages: passages.len(),
            pages: document.pages.len(),
            hidden,
            kind: document.kind,
            cut: SPLIT_RULES_VERSION,
            is_lost: false,
        }
    }
}

/// Splits the text of a document and decides on its kind.
pub(super) fn split_extracted(
    record: &DocumentRecord,
    extracted: ExtractedText,
) -> Result<SplitDocument, IngestFailure> {
    let (format, hidden) = (extracted.format, extracted.hidden);
    let mut document = disk::document_from_extracted(record, &record.kind, extracted);
    if record.recognises_kind && is_contract(&document) {
        document.kind = DocumentKind::Contract;
    }
    let passages = split_within_memory_limit(&document).ok_or_else(too_many_passages)?;
    if passages.is_empty() {
        return Err(IngestFailure::new(IngestFailureKind::NoText, "no passages"));
    }
    Ok(SplitDocument { document, passages, format, hidden })
}

/// The failure for a text that splits into more passages than one file may have.
pub(super) fn too_many_passages() -> IngestFailure {
    IngestFailure::new(IngestFailureKind::TooLarge, "too many passages")
}

fn disk_failure(error: &LibraryError) -> IngestFailure {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    IngestFailure::new(IngestFailureKind::Disk, format!("{error}: {cause}"))
}

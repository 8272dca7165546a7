//! What a worker of the library does: one document after another, from its original to the index.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::record::{Key, Ready, Record};
use super::shelf::Job;
use super::{Inner, LibraryError, disk};
use crate::ingest::{Extracted, Failure, FailureKind};
use crate::passage::{Document, Passage};
use crate::split::{CUT, split_within_reason};

/// How long a removal that failed waits before it is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Works until the library is dropped.
pub(super) async fn work(inner: Arc<Inner>) {
    loop {
        let next = inner.shelf().next();
        let Some(job) = next else {
            sweep(&inner).await;
            inner.wake.notified().await;
            continue;
        };
        // Whoever sleeps may have been woken for a document that is still there.
        inner.wake.notify_one();
        inner.tell();
        let key = job.record.key();
        let (wanted, hash) = (job.wanted, job.incoming.hash.clone());
        if let Err(failure) = one(&inner, job).await {
            tracing::info!(id = %key.id, kind = failure.kind.as_str(), detail = %failure.detail, "a document was not read");
            inner.shelf().failed(&key, wanted, failure);
        }
        if let Err(error) = inner.keep(&key).await {
            tracing::warn!(id = %key.id, %error, "where a document stands could not be written down");
        }
        if !inner.shelf().is_wanted(&key, wanted) {
            let writing = inner.shelf().writing(&key);
            let _writing = writing.lock().await;
            inner.drop_version(&key, &hash).await;
        }
        inner.shelf().done(&key.tenant);
        inner.tell();
    }
}

/// Lets the index forget the words of versions that were replaced, once there is nothing else to do: to write its files
/// anew for each of a thousand changed documents would cost far more.
async fn sweep(inner: &Inner) {
    if !inner.shelf().sweeps() {
        return;
    }
    if let Err(error) = inner.index.sweep().await {
        tracing::warn!(%error, "words of replaced documents stay on the disk until the next start");
    }
    inner.shelf().swept();
    inner.tell();
}

/// Takes a document away, and tries again for as long as that fails. The first outcome is told.
pub(super) async fn take_away(inner: Arc<Inner>, key: Key, tell: oneshot::Sender<Result<(), LibraryError>>) {
    let mut tell = Some(tell);
    let mut pause = FIRST_PAUSE;
    loop {
        let done = inner.take_away(&key).await;
        let failed = match &done {
            Ok(()) | Err(LibraryError::Unknown(_)) => false,
            Err(error) => {
                tracing::warn!(id = %key.id, %error, "a document could not be removed; that is tried again");
                inner.shelf().stuck(&key);
                inner.tell();
                true
            }
        };
        if let Some(tell) = tell.take() {
            // Whoever asked may be gone.
            tell.send(done).ok();
        }
        if !failed {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn one(inner: &Arc<Inner>, job: Job) -> Result<(), Failure> {
    let Job { record, incoming, wanted, turn, stop } = job;
    let key = record.key();
    // The worker before may still be letting go of an older version.
    let _turn = turn.lock().await;
    if !inner.shelf().is_wanted(&key, wanted) {
        return Ok(());
    }
    // The attempt is on disk before the file is touched, so that one that kills the process is not read for ever.
    inner.keep(&key).await.map_err(|error| disk_failed(&error))?;
    let directory = disk::directory(&inner.root, &key);
    let text = disk::text(&directory, &incoming.hash);
    let path = text.clone();
    let before = disk::blocking(&inner.root, move || disk::extracted(&path))
        .await
        .map_err(|error| disk_failed(&error))?;
    let extracted = match before {
        Some(extracted) => extracted,
        None => {
            let original = disk::original(&directory, &incoming.hash);
            let bytes = disk::blocking(&inner.root, move || std::fs::read(&original))
                .await
                .map_err(|error| disk_failed(&error))?;
            let read = tokio::select! {
                read = inner.options.reader.read(&record.name, &bytes) => read,
                () = stop.notified() => return Ok(()),
            };
            kept(inner, &text, read?).await?
        }
    };
    if !inner.shelf().indexing(&key, wanted) {
        return Ok(());
    }
    inner.tell();
    index(inner, &key, &record, &incoming, wanted, extracted).await
}

async fn kept(inner: &Inner, path: &std::path::Path, extracted: Extracted) -> Result<Extracted, Failure> {
    let path = path.to_owned();
    disk::blocking(&inner.root, move || {
        let bytes = serde_json::to_vec(&extracted).map_err(std::io::Error::other)?;
        disk::write(&path, &bytes)?;
        Ok(extracted)
    })
    .await
    .map_err(|error| disk_failed(&error))
}

async fn index(
    inner: &Inner,
    key: &Key,
    record: &Record,
    incoming: &super::Incoming,
    wanted: u64,
    extracted: Extracted,
) -> Result<(), Failure> {
    let (format, hidden) = (extracted.format, extracted.hidden);
    let record = record.clone();
    let cut = disk::blocking(&inner.root, move || {
        let document = disk::whole(&record, &record.kind, extracted);
        Ok(split_within_reason(&document).map(|passages| (document, passages)))
    });
    let cut: Option<(Document, Vec<Passage>)> = cut.await.map_err(|error| disk_failed(&error))?;
    let (document, passages) = cut.ok_or_else(too_many)?;
    if passages.is_empty() {
        return Err(Failure::new(FailureKind::NoText, "no passages"));
    }
    inner
        .index
        .put(&key.tenant, &document, &passages)
        .await
        .map_err(|error| Failure::new(FailureKind::NotIndexed, error.to_string()))?;
    let ready = Ready {
        hash: incoming.hash.clone(),
        bytes: incoming.bytes,
        version: document.version,
        title: document.title,
        format,
        passages: passages.len(),
        pages: document.pages.len(),
        hidden,
        kind: document.kind,
        cut: CUT,
    };
    let writing = inner.shelf().writing(key);
    let _writing = writing.lock().await;
    let old = inner.shelf().found(key, wanted, ready);
    inner.write_record(key).await.map_err(|error| disk_failed(&error))?;
    if let Some(old) = old {
        inner.drop_version(key, &old).await;
    }
    Ok(())
}

/// What is said of a text that falls into more passages than one file may have.
pub(super) fn too_many() -> Failure {
    Failure::new(FailureKind::TooLarge, "too many passages")
}

fn disk_failed(error: &LibraryError) -> Failure {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    Failure::new(FailureKind::Disk, format!("{error}: {cause}"))
}

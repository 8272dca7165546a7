//! A write job: work for a waiting caller, and how its transaction ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use doran_engine::failpoint::mutant;
use doran_engine::store::{Durability, StoreError};
use rusqlite::ErrorCode;
use tokio::sync::oneshot;

use super::super::error::{is_disk_failure_of_store, message_error};
use super::{TransactionFailPoints, WriteJobKind, WriteTransaction};

/// Work for a waiting caller.
pub(super) trait WriteJob: Send {
    fn fail_points(&self) -> TransactionFailPoints;
    /// Runs the job. Returns `Err` if its writes must be rolled back.
    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> Result<(), JobRefusal>;
    fn kind(&self) -> WriteJobKind;
    /// Whether the caller is answered before the transaction is on disk.
    fn durability(&self) -> Durability;
    fn answer(self: Box<Self>, end: &TransactionEnd);
}

/// What a failed job says about the state of the disk.
pub(super) struct JobRefusal {
    /// The disk failed.
    pub(super) disk_failed: bool,
    /// The disk is full.
    pub(super) disk_full: bool,
}

/// How a transaction ended.
pub(super) enum TransactionEnd {
    Committed,
    /// The disk is full. The transaction was rolled back.
    Full(Arc<str>),
    /// The transaction was rolled back.
    RolledBack(Arc<str>),
    /// Whether the transaction was committed is unknown.
    Unknown(Arc<str>),
    /// The writer had stopped, so the transaction was not started.
    Stopped(Arc<str>),
}

impl TransactionEnd {
    pub(super) fn from_rolled_back(error: &rusqlite::Error) -> Self {
        let why = Arc::from(error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(why),
            _ => Self::RolledBack(why),
        }
    }

    fn to_store_error(&self) -> Option<StoreError> {
        match self {
            Self::Committed => None,
            Self::Full(why) => Some(StoreError::Full(message_error(&**why))),
            Self::RolledBack(why) => Some(StoreError::Unavailable(message_error(&**why))),
            Self::Unknown(why) => Some(StoreError::Unknown(message_error(&**why))),
            Self::Stopped(why) => Some(writer_stopped_error(why)),
        }
    }
}

pub(super) fn writer_stopped_error(why: &str) -> StoreError {
    StoreError::Unavailable(message_error(format!("a write failed and the process must be restarted: {why}")))
}

pub(super) struct WriteTask<T, F> {
    pub(super) fail_points: TransactionFailPoints,
    pub(super) kind: WriteJobKind,
    pub(super) durability: Durability,
    pub(super) work: Option<F>,
    pub(super) result: Option<Result<T, StoreError>>,
    pub(super) reply: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T: Send, F: FnOnce(&mut WriteTransaction<'_>) -> Result<T, StoreError> + Send> WriteJob
    for WriteTask<T, F>
{
    fn fail_points(&self) -> TransactionFailPoints {
        self.fail_points
    }

    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> Result<(), JobRefusal> {
        let result = match self.work.take() {
            Some(work) => catch_panic(|| work(tx)),
            None => Err(StoreError::Other(message_error("a job was run twice"))),
        };
        let outcome = result.as_ref().map(drop).map_err(|error| JobRefusal {
            disk_failed: is_disk_failure_of_store(error),
            disk_full: matches!(error, StoreError::Full(_)),
        });
        self.result = Some(result);
        if mutant("reply_before_commit") && outcome.is_ok() {
            send_reply(self.reply.take(), self.result.take(), &TransactionEnd::Committed);
            // As long as a slow disk takes: the reply has left the process before the transaction ends.
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        outcome
    }

    fn kind(&self) -> WriteJobKind {
        self.kind
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn answer(self: Box<Self>, end: &TransactionEnd) {
        send_reply(self.reply, self.result, end);
    }
}

/// Turns a panic in a job into an error of that job.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(StoreError::Other(message_error("a write panicked"))))
}

/// Sends the result. A rejected job keeps its own error however the transaction ended, because nothing of it was
/// written.
fn send_reply<T>(
    to: Option<oneshot::Sender<Result<T, StoreError>>>,
    result: Option<Result<T, StoreError>>,
    end: &TransactionEnd,
) {
    let answer = match (result, end.to_store_error()) {
        (Some(Err(refused)), _) => Err(refused),
        (_, Some(error)) => Err(error),
        (Some(Ok(value)), None) => Ok(value),
        (None, None) => Err(StoreError::Other(message_error("a job was not run"))),
    };
    // The caller may no longer be waiting.
    drop(to.map(|to| to.send(answer)));
}

//! Something to do for a caller who waits, and how it ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use doran_engine::failpoint::mutant;
use doran_engine::store::StoreError;
use rusqlite::ErrorCode;
use tokio::sync::oneshot;

use super::super::error::{is_disk_failure_of_store, message_error};
use super::{TransactionFailPoints, WriteTransaction};

/// Something to do for a caller who waits.
pub(super) trait WriteJob: Send {
    fn fail_points(&self) -> TransactionFailPoints;
    /// Does it. `Err` when what it wrote must be taken back.
    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> Result<(), JobRefusal>;
    /// Wants no transaction.
    fn is_exclusive(&self) -> bool;
    fn answer(self: Box<Self>, end: &TransactionEnd);
}

/// What the refusal of a job says of the file.
pub(super) struct JobRefusal {
    /// The disk failed.
    pub(super) disk_failed: bool,
    /// There is no room left.
    pub(super) disk_full: bool,
}

/// How a transaction ended.
pub(super) enum TransactionEnd {
    Committed,
    /// Rolled back for sure.
    Full(Arc<str>),
    /// Rolled back for sure.
    RolledBack(Arc<str>),
    /// Nobody knows.
    Unknown(Arc<str>),
    /// Not even begun.
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
    pub(super) exclusive: bool,
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
        if mutant("M1") && outcome.is_ok() {
            send_reply(self.reply.take(), self.result.take(), &TransactionEnd::Committed);
        }
        outcome
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    fn answer(self: Box<Self>, end: &TransactionEnd) {
        send_reply(self.reply, self.result, end);
    }
}

/// A panic in one job is that job's error.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(StoreError::Other(message_error("a write panicked"))))
}

/// A refusal stands however the transaction of its neighbours ended: nothing of it was written.
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
    // A caller that no longer waits does not need to be told.
    drop(to.map(|to| to.send(answer)));
}

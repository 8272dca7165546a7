//! Something to do for a caller who waits, and how it ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use doran_engine::failpoint::mutant;
use doran_engine::store::StoreError;
use rusqlite::ErrorCode;
use tokio::sync::oneshot;

use super::super::error::{has_io, text};
use super::{Points, Tx};

/// Something to do for a caller who waits.
pub(super) trait Job: Send {
    fn points(&self) -> Points;
    /// Does it. `Err` when what it wrote must be taken back.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Refused>;
    /// Wants no transaction.
    fn is_alone(&self) -> bool;
    fn answer(self: Box<Self>, end: &End);
}

/// What the refusal of a job says of the file.
pub(super) struct Refused {
    /// The disk failed.
    pub(super) disk: bool,
    /// There is no room left.
    pub(super) full: bool,
}

/// How a transaction ended.
pub(super) enum End {
    OnDisk,
    /// Rolled back for sure.
    Full(Arc<str>),
    /// Rolled back for sure.
    TakenBack(Arc<str>),
    /// Nobody knows.
    Unknown(Arc<str>),
    /// Not even begun.
    Stopped(Arc<str>),
}

impl End {
    pub(super) fn of_rolled_back(error: &rusqlite::Error) -> Self {
        let why = Arc::from(error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(why),
            _ => Self::TakenBack(why),
        }
    }

    fn error(&self) -> Option<StoreError> {
        match self {
            Self::OnDisk => None,
            Self::Full(why) => Some(StoreError::Full(text(&**why))),
            Self::TakenBack(why) => Some(StoreError::Unavailable(text(&**why))),
            Self::Unknown(why) => Some(StoreError::Unknown(text(&**why))),
            Self::Stopped(why) => Some(stopped(why)),
        }
    }
}

pub(super) fn stopped(why: &str) -> StoreError {
    StoreError::Unavailable(text(format!("a write failed and the process must be restarted: {why}")))
}

pub(super) struct Task<T, F> {
    pub(super) points: Points,
    pub(super) alone: bool,
    pub(super) work: Option<F>,
    pub(super) result: Option<Result<T, StoreError>>,
    pub(super) reply: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T: Send, F: FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send> Job for Task<T, F> {
    fn points(&self) -> Points {
        self.points
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Refused> {
        let result = match self.work.take() {
            Some(work) => guarded(|| work(tx)),
            None => Err(StoreError::Other(text("a job was run twice"))),
        };
        let outcome = result
            .as_ref()
            .map(drop)
            .map_err(|error| Refused { disk: has_io(error), full: matches!(error, StoreError::Full(_)) });
        self.result = Some(result);
        if mutant("M1") && outcome.is_ok() {
            reply(self.reply.take(), self.result.take(), &End::OnDisk);
        }
        outcome
    }

    fn is_alone(&self) -> bool {
        self.alone
    }

    fn answer(self: Box<Self>, end: &End) {
        reply(self.reply, self.result, end);
    }
}

/// A panic in one job is that job's error.
fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(StoreError::Other(text("a write panicked"))))
}

/// A refusal stands however the transaction of its neighbours ended: nothing of it was written.
fn reply<T>(
    to: Option<oneshot::Sender<Result<T, StoreError>>>,
    result: Option<Result<T, StoreError>>,
    end: &End,
) {
    let answer = match (result, end.error()) {
        (Some(Err(refused)), _) => Err(refused),
        (_, Some(error)) => Err(error),
        (Some(Ok(value)), None) => Ok(value),
        (None, None) => Err(StoreError::Other(text("a job was not run"))),
    };
    // A caller that no longer waits does not need to be told.
    drop(to.map(|to| to.send(answer)));
}

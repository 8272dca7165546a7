//! What an error of SQLite means for the caller.

use std::path::Path;

use doran_engine::store::{BoxError, StoreError};
use rusqlite::ErrorCode;

/// The error of a statement inside a transaction that is rolled back: nothing was written.
pub(super) fn sorted(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(error.into()),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory,
        ) => StoreError::Unavailable(error.into()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(error.to_string()),
        Some(_) => StoreError::Other(error.into()),
        None => match error {
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => StoreError::Damaged(error.to_string()),
            other => StoreError::Other(other.into()),
        },
    }
}

/// Whether the disk itself failed. After that nothing the process believes of the file can be relied on.
pub(super) fn is_io(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// As [`is_io`], for an error that went through [`sorted`].
pub(super) fn has_io(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable(source) => source.downcast_ref().is_some_and(is_io),
        _ => false,
    }
}

/// A sentence as an error.
pub(super) fn text(message: impl Into<String>) -> BoxError {
    message.into().into()
}

/// An error about a file, with its name and cause in one sentence.
pub(super) fn of_file(path: &Path, what: &str, cause: impl std::fmt::Display) -> BoxError {
    text(format!("{what} `{}`: {cause}", path.display()))
}

/// Result of a statement as result of a store.
pub(super) trait Sorted<T> {
    /// Sorts the error by what the caller can do.
    fn sorted(self) -> Result<T, StoreError>;
}

impl<T> Sorted<T> for rusqlite::Result<T> {
    fn sorted(self) -> Result<T, StoreError> {
        self.map_err(sorted)
    }
}

//! What an error of SQLite means for the caller.

use std::path::Path;

use doran_engine::store::{BoxError, StoreError};
use rusqlite::ErrorCode;

/// The error of a statement inside a transaction that is rolled back: nothing was written.
pub(super) fn to_store_error(error: rusqlite::Error) -> StoreError {
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
pub(super) fn is_disk_failure(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// As [`is_io`], for an error that went through [`sorted`].
pub(super) fn is_disk_failure_of_store(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable(source) => source.downcast_ref().is_some_and(is_disk_failure),
        _ => false,
    }
}

/// A sentence as an error.
pub(super) fn message_error(message: impl Into<String>) -> BoxError {
    message.into().into()
}

/// An error about a file, with its name and cause in one sentence.
pub(super) fn file_error(path: &Path, what: &str, cause: impl std::fmt::Display) -> BoxError {
    message_error(format!("{what} `{}`: {cause}", path.display()))
}

/// Result of a statement as result of a store.
pub(super) trait SqliteResultExt<T> {
    /// Sorts the error by what the caller can do.
    fn or_store_error(self) -> Result<T, StoreError>;
}

impl<T> SqliteResultExt<T> for rusqlite::Result<T> {
    fn or_store_error(self) -> Result<T, StoreError> {
        self.map_err(to_store_error)
    }
}

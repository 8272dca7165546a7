//! Converts SQLite errors to [`StoreError`].

use std::path::Path;

use doran_engine::store::{BoxError, StoreError};
use rusqlite::ErrorCode;

/// Converts the error of a statement whose transaction is rolled back. Nothing was written.
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
        Some(ErrorCode::TooBig) => StoreError::Rejected(error.into()),
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

/// Whether the disk itself failed. After that, the process can no longer rely on what it knows about the file.
pub(super) fn is_disk_failure(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// Like [`is_disk_failure`], for an error already converted by [`to_store_error`].
pub(super) fn is_disk_failure_of_store(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable(source) => source.downcast_ref().is_some_and(is_disk_failure),
        _ => false,
    }
}

/// Makes an error from a message.
pub(super) fn message_error(message: impl Into<String>) -> BoxError {
    message.into().into()
}

/// Makes an error that names the file and the cause.
pub(super) fn file_error(path: &Path, what: &str, cause: impl std::fmt::Display) -> BoxError {
    message_error(format!("{what} `{}`: {cause}", path.display()))
}

/// Converts the result of a statement to the result of a store.
pub(super) trait SqliteResultExt<T> {
    /// Converts the error with [`to_store_error`].
    fn or_store_error(self) -> Result<T, StoreError>;
}

impl<T> SqliteResultExt<T> for rusqlite::Result<T> {
    fn or_store_error(self) -> Result<T, StoreError> {
        self.map_err(to_store_error)
    }
}

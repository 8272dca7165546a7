//! Converts PostgreSQL errors to [`StoreError`].

use doran_engine::id::{RunId, RunKey, ThreadKey};
use doran_engine::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::RefusedLogin;

/// Whether the failed statement could have written something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementAccess {
    Reading,
    Writing,
}

/// What a statement was about, for error messages.
#[derive(Clone, Copy)]
pub(super) enum StatementSubject<'a> {
    Thread(&'a ThreadKey),
    Run(&'a RunKey),
    Submit(&'a ThreadKey, &'a str),
    Everything,
}

/// Whether the connection was lost or refused. A statement that failed on a working connection is not such an error.
pub(super) fn is_connection_lost(error: &Error) -> bool {
    match error.as_db_error() {
        Some(db) => matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic)),
        // A value that could not be encoded or decoded does not affect the connection.
        None => error.is_closed() || has_io_source(error),
    }
}

fn has_io_source(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<std::io::Error>() {
            return true;
        }
        source = inner.source();
    }
    false
}

/// Converts the error of a statement that was sent.
pub(super) fn statement_error(
    error: Error,
    doing: StatementAccess,
    about: StatementSubject<'_>,
) -> StoreError {
    if is_connection_lost(&error) {
        return match doing {
            StatementAccess::Reading => StoreError::Unavailable(error.into()),
            // The statement may have been committed before the connection broke.
            StatementAccess::Writing => StoreError::Unknown(error.into()),
        };
    }
    let Some(db) = error.as_db_error() else { return StoreError::Other(error.into()) };
    match error_from_doran_code(db, about) {
        Some(own) => own,
        None => error_from_sql_state(error),
    }
}

/// Converts an error from connecting or preparing. No statement was sent.
pub(super) fn connection_error(error: Error) -> StoreError {
    match error.as_db_error().map(|db| db.code().code()) {
        Some(code) if code.starts_with("28") => refused_login(error),
        Some("3D000") => StoreError::Unavailable(RefusedLogin::NoDatabase(error.into()).into()),
        None if is_login_error(&error) => refused_login(error),
        Some(code) if !code.starts_with("53") && !code.starts_with("57") && !is_connection_lost(&error) => {
            error_from_sql_state(error)
        }
        _ => StoreError::Unavailable(error.into()),
    }
}

/// The operator can allow the login again, so a program that runs waits for that, as for a server that is away.
fn refused_login(error: Error) -> StoreError {
    StoreError::Unavailable(RefusedLogin::Credentials(error.into()).into())
}

/// Whether the client itself gave up the login: the server requires a password and the URL has none, or the server does not
/// know the password either.
fn is_login_error(error: &Error) -> bool {
    let text = error.to_string();
    !is_connection_lost(error)
        && ["invalid configuration", "authentication error"].iter().any(|start| text.starts_with(start))
}

pub(super) fn unavailable(message: &'static str) -> StoreError {
    StoreError::Unavailable(message.into())
}

pub(super) fn configuration_error(message: &'static str) -> StoreError {
    StoreError::Other(message.into())
}

pub(super) fn damaged(error: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged(error.to_string())
}

/// Errors raised by Doran's own SQL functions. See `functions.sql`.
fn error_from_doran_code(db: &DbError, about: StatementSubject<'_>) -> Option<StoreError> {
    let message = db.message();
    Some(match (db.code().code(), about) {
        ("DR001", _) => StoreError::Fenced,
        ("DR002", StatementSubject::Thread(key) | StatementSubject::Submit(key, _)) => {
            match message.parse::<RunId>() {
                Ok(run) => StoreError::Busy { thread: key.thread.clone(), run },
                Err(error) => damaged(error),
            }
        }
        ("DR003", _) => StoreError::Conflict(message.to_owned()),
        ("DR004", StatementSubject::Submit(_, key)) => StoreError::KeyReused(key.to_owned()),
        ("DR005", StatementSubject::Thread(key)) => StoreError::no_thread(key),
        ("DR006", StatementSubject::Run(key)) => StoreError::no_run(key),
        ("DR007", _) => StoreError::NotFound { what: "entry", id: message.to_owned() },
        ("23505", StatementSubject::Submit(..)) => StoreError::Conflict("this run exists already".into()),
        ("23505", _) => StoreError::Conflict("another writer wrote the same entry".into()),
        _ => return None,
    })
}

/// Errors raised by PostgreSQL. The statement was rolled back.
fn error_from_sql_state(error: Error) -> StoreError {
    let Some(code) = error.code() else { return StoreError::Other(error.into()) };
    if *code == SqlState::DISK_FULL {
        return StoreError::Full(error.into());
    }
    // Out of a resource, cancelled by a timeout, a deadlock, or a server that is read-only after a failover.
    let passing = ["53", "55", "57", "40"].iter().any(|class| code.code().starts_with(class))
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION;
    // A value that the server cannot hold, or that breaks one of its limits.
    let never = ["22", "54"].iter().any(|class| code.code().starts_with(class));
    match (passing, never) {
        (true, _) => StoreError::Unavailable(error.into()),
        (false, true) => StoreError::Rejected(error.into()),
        (false, false) => StoreError::Other(error.into()),
    }
}

//! Connections, timeouts and retries.
//!
//! A read is retried on a new connection. A write is retried only if it certainly had no effect: the connection
//! turned out to be dead while the statement was being prepared, or the database rolled the statement back and asked
//! to retry it.

use std::time::Duration;

use deadpool_postgres::{Object, PoolError, QueueMode, Runtime, TimeoutType};
use doran_engine::store::StoreError;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

use super::PostgresOptions;
use super::error::{
    StatementAccess, StatementSubject, connection_error, is_connection_lost, statement_error, unavailable,
};
use super::url::PostgresTarget;

/// The most times a statement is sent.
const MAX_STATEMENT_ATTEMPTS: usize = 5;

/// The timeout for maintenance of a whole thread.
const MAINTENANCE_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) type SqlParams<'a> = &'a [&'a (dyn ToSql + Sync)];

#[derive(Clone)]
pub(super) struct PostgresPool {
    pool: deadpool_postgres::Pool,
    connect_timeout: Duration,
    /// How long to wait for a response. After that, the request or the response counts as lost in the network.
    answer_timeout: Duration,
}

impl PostgresPool {
    pub(super) fn new(target: &PostgresTarget, options: &PostgresOptions) -> Result<Self, StoreError> {
        let pool = deadpool_postgres::Pool::builder(target.tls.connection_manager(&target.config))
            .max_size(options.max_connections.max(1))
            // The most recently used connection first: a single caller keeps using one, which has its statements
            // prepared.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Other(error.into()))?;
        let answer = options.statement_timeout + Duration::from_secs(2);
        Ok(Self { pool, connect_timeout: options.connect_timeout, answer_timeout: answer })
    }

    pub(super) async fn read(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut left = MAX_STATEMENT_ATTEMPTS;
        loop {
            left -= 1;
            let (client, statement) = self.prepare_on_connection(sql).await?;
            let error = match self.execute_statement(&client, &statement, params).await {
                Ok(rows) => return Ok(rows),
                Err(StatementError::Rejected(error)) if !is_stale_prepared_statement(&error) => {
                    return Err(statement_error(error, StatementAccess::Reading, about));
                }
                Err(StatementError::Rejected(error)) => {
                    self.discard_connections(client);
                    statement_error(error, StatementAccess::Reading, about)
                }
                Err(StatementError::ConnectionLost(error)) => {
                    self.discard_connections(client);
                    StoreError::Unavailable(error.into())
                }
                // Waiting for the same time again would not help.
                Err(StatementError::TimedOut) => {
                    self.discard_connections(client);
                    return Err(unavailable(ANSWER_TIMEOUT_MESSAGE));
                }
            };
            if left == 0 {
                return Err(error);
            }
        }
    }

    /// Calls one of the SQL functions that write.
    pub(super) async fn write(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Row, StoreError> {
        let rows = self.write_returning_rows(about, sql, params).await?;
        rows.into_iter().next().ok_or_else(|| StoreError::Damaged("a function gave no row".into()))
    }

    pub(super) async fn write_returning_rows(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut left = MAX_STATEMENT_ATTEMPTS;
        loop {
            let (client, statement) = self.prepare_on_connection(sql).await?;
            left -= 1;
            let error = match self.execute_statement(&client, &statement, params).await {
                Ok(rows) => return Ok(rows),
                Err(StatementError::Rejected(error)) => error,
                Err(StatementError::ConnectionLost(error)) => {
                    self.discard_connections(client);
                    return Err(StoreError::Unknown(error.into()));
                }
                Err(StatementError::TimedOut) => {
                    self.discard_connections(client);
                    return Err(StoreError::Unknown(ANSWER_TIMEOUT_MESSAGE.into()));
                }
            };
            let stale = is_stale_prepared_statement(&error);
            if left == 0 || !(stale || is_serialization_failure_or_deadlock(&error)) {
                return Err(statement_error(error, StatementAccess::Writing, about));
            }
            if stale {
                self.discard_connections(client);
            }
        }
    }

    /// Like [`PostgresPool::write`], for calls that may take minutes.
    pub(super) async fn write_with_maintenance_timeout(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Row, StoreError> {
        let mut client = self.get_connection_until(Instant::now() + self.connect_timeout).await?;
        let work = async {
            let transaction = client.transaction().await.map_err(connection_error)?;
            let limit = format!("set local statement_timeout = {}", MAINTENANCE_TIMEOUT.as_millis());
            transaction.batch_execute(&limit).await.map_err(connection_error)?;
            let statement = transaction.prepare_cached(sql).await.map_err(connection_error)?;
            // Nothing is stored before the commit, so a connection lost here has changed nothing.
            let row = transaction.query_one(&statement, params).await;
            let row = row.map_err(|error| statement_error(error, StatementAccess::Reading, about))?;
            transaction
                .commit()
                .await
                .map_err(|error| statement_error(error, StatementAccess::Writing, about))?;
            Ok(row)
        };
        match timeout(MAINTENANCE_TIMEOUT + self.answer_timeout, work).await {
            Ok(done) => done,
            Err(_) => {
                self.discard_connections(client);
                Err(StoreError::Unknown(ANSWER_TIMEOUT_MESSAGE.into()))
            }
        }
    }

    /// Returns a connection with the statement prepared. A dead connection is replaced, because nothing was sent on
    /// it yet.
    async fn prepare_on_connection(&self, sql: &'static str) -> Result<(Object, Statement), StoreError> {
        let deadline = Instant::now() + self.connect_timeout;
        let mut replaced = false;
        loop {
            let client = self.get_connection_until(deadline).await?;
            let error = match timeout_at(deadline, client.prepare_cached(sql)).await {
                Ok(Ok(statement)) => return Ok((client, statement)),
                Ok(Err(error)) if !is_connection_lost(&error) => return Err(connection_error(error)),
                Ok(Err(error)) => connection_error(error),
                Err(_) => unavailable(ANSWER_TIMEOUT_MESSAGE),
            };
            self.discard_connections(client);
            if replaced {
                return Err(error);
            }
            replaced = true;
        }
    }

    /// Closes this connection and all idle ones: they have probably failed too.
    fn discard_connections(&self, client: Object) {
        drop(Object::take(client));
        self.pool.retain(|_, _| false);
    }

    async fn execute_statement(
        &self,
        client: &Object,
        statement: &Statement,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StatementError> {
        match timeout(self.answer_timeout, client.query(statement, params)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) if is_connection_lost(&error) => Err(StatementError::ConnectionLost(error)),
            Ok(Err(error)) => Err(StatementError::Rejected(error)),
            Err(_) => Err(StatementError::TimedOut),
        }
    }

    async fn get_connection_until(&self, deadline: Instant) -> Result<Object, StoreError> {
        let got = timeout_at(deadline, self.pool.get()).await;
        match got.unwrap_or(Err(PoolError::Timeout(TimeoutType::Wait))) {
            Ok(client) => Ok(client),
            Err(PoolError::Backend(error)) => Err(connection_error(error)),
            Err(PoolError::Timeout(_)) => {
                Err(unavailable("no connection to the database became free in time"))
            }
            Err(error) => Err(StoreError::Other(error.into())),
        }
    }
}

/// Why a statement failed.
enum StatementError {
    /// The database returned this error and rolled the statement back.
    Rejected(Error),
    /// The connection was lost before a response came.
    ConnectionLost(Error),
    /// No response came in time.
    TimedOut,
}

const ANSWER_TIMEOUT_MESSAGE: &str = "the database did not answer in time";

/// The database rolled the statement back because of a concurrent one.
fn is_serialization_failure_or_deadlock(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
    })
}

/// A newer program changed a table after the statement was prepared. The statement had no effect.
fn is_stale_prepared_statement(error: &Error) -> bool {
    error.code().is_some_and(|code| *code == SqlState::FEATURE_NOT_SUPPORTED)
}

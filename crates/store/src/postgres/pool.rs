//! Connections, deadlines, and what is tried again.
//!
//! A statement that only reads is tried again on a fresh connection. One that writes is tried again only when
//! nothing of it was sent: the connection turned out to be dead while the statement was being prepared, or the
//! database undid it and asked to try again.

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

/// How often a statement is sent at most.
const MAX_STATEMENT_ATTEMPTS: usize = 5;

/// How long the upkeep of a whole thread may take.
const MAINTENANCE_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) type SqlParams<'a> = &'a [&'a (dyn ToSql + Sync)];

#[derive(Clone)]
pub(super) struct PostgresPool {
    pool: deadpool_postgres::Pool,
    connect_timeout: Duration,
    /// After this the answer is not waited for: the network has swallowed the question or the answer.
    answer_timeout: Duration,
}

impl PostgresPool {
    pub(super) fn new(target: &PostgresTarget, options: &PostgresOptions) -> Result<Self, StoreError> {
        let pool = deadpool_postgres::Pool::builder(target.tls.connection_manager(&target.config))
            .max_size(options.max_connections.max(1))
            // The one that was used last: a lone caller keeps to one, whose statements are prepared.
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
                // To wait as long once more would help nobody.
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

    /// Calls one of the functions that write.
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

    /// As [`Pool::write`], for what may take minutes.
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
            // Nothing is kept before the commit, so a connection lost here has changed nothing.
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

    /// A connection that knows the statement. A dead one is replaced, for nothing was asked of it yet.
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

    /// Gives up a connection, and the idle ones with it: what befell one has seldom spared the others.
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

/// How a statement came to nothing.
enum StatementError {
    /// The database answered with this error, and undid the statement.
    Rejected(Error),
    /// The connection ended before an answer came.
    ConnectionLost(Error),
    /// No answer came.
    TimedOut,
}

const ANSWER_TIMEOUT_MESSAGE: &str = "the database did not answer in time";

/// The database undid the statement for the sake of another one that ran at the same time.
fn is_serialization_failure_or_deadlock(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
    })
}

/// A newer program changed a table under a statement that was prepared before. Nothing of it was done.
fn is_stale_prepared_statement(error: &Error) -> bool {
    error.code().is_some_and(|code| *code == SqlState::FEATURE_NOT_SUPPORTED)
}

//! Connections, timeouts and retries.
//!
//! A read is retried on a new connection. A write is retried only if it certainly had no effect: the connection
//! turned out to be dead while the statement was being prepared, or the database rolled the statement back and asked
//! to retry it.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, PoolError, QueueMode, Runtime, TimeoutType, Timeouts};
use doran_engine::failpoint::mutant;
use doran_engine::store::{CommitPosition, StoreError};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

use super::PostgresOptions;
use super::error::{
    StatementAccess, StatementSubject, connection_error, is_connection_lost, statement_error, unavailable,
};
use super::url::PostgresTarget;
use super::wal_flush::{LogEffect, WalFlush};

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
    wal_flush: Arc<WalFlush>,
}

/// Whether everything that the statement before it saw is on disk. The first function is evaluated first.
const IS_FLUSHED_SQL: &str = "select pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn()";

/// A transaction that writes as little as possible. One that writes nothing would flush nothing.
const MESSAGE_SQL: &str = "select pg_logical_emit_message(true, 'doran', ''::text)::text";

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
        Ok(Self {
            pool,
            connect_timeout: options.connect_timeout,
            answer_timeout: answer,
            wal_flush: Arc::default(),
        })
    }

    /// Reads. Returns when everything it saw is on disk, whoever wrote it.
    pub(super) async fn read(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        for _ in 0..MAX_STATEMENT_ATTEMPTS {
            let began = std::time::Instant::now();
            let (rows, is_flushed) = self.read_and_check(about, sql, params, true).await?;
            // On a younger connection the server may have lost what was read before it was flushed.
            if is_flushed || self.wal_flush.flush(self).await? <= began {
                return Ok(rows);
            }
        }
        Err(unavailable("the connections to the database were lost again and again"))
    }

    /// Reads what can be seen. Not everything may be on disk.
    pub(super) async fn read_visible(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.read_and_check(about, sql, params, false).await?.0)
    }

    /// Reads, and tells whether everything it saw is on disk, if `checks_flush`.
    async fn read_and_check(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
        checks_flush: bool,
    ) -> Result<(Vec<Row>, bool), StoreError> {
        let mut left = MAX_STATEMENT_ATTEMPTS;
        loop {
            left -= 1;
            let (client, statement) = self.prepare_on_connection(sql).await?;
            let found = match checks_flush && !mutant("read_before_sync") {
                true => self.execute_read(&client, &statement, params).await,
                false => self.execute_statement(&client, &statement, params).await.map(|rows| (rows, true)),
            };
            let error = match found {
                Ok(found) => return Ok(found),
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
        Ok(self.write_with_position(about, sql, params, LogEffect::Unknown).await?.0)
    }

    /// Like [`PostgresPool::write_returning_rows`], and returns the position of the commit. `effect` tells what the
    /// statement does if it returns a row; one that returns none may have written nothing.
    pub(super) async fn write_with_position(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
        effect: LogEffect,
    ) -> Result<(Vec<Row>, CommitPosition), StoreError> {
        let mut left = MAX_STATEMENT_ATTEMPTS;
        loop {
            let (client, statement) = self.prepare_on_connection(sql).await?;
            left -= 1;
            let sent = self.wal_flush.begin_commit();
            let error = match self.execute_statement(&client, &statement, params).await {
                Ok(rows) => {
                    let connected = Object::metrics(&client).created;
                    let effect = if rows.is_empty() { LogEffect::Unknown } else { effect };
                    let position = self.wal_flush.end_commit(&sent, connected, effect);
                    if effect == LogEffect::Later {
                        self.wal_flush.schedule(self);
                    }
                    return Ok((rows, position));
                }
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
                let refused = statement_error(error, StatementAccess::Writing, about);
                // It tells of a run or an entry, which may have been written just now.
                if matches!(refused, StoreError::Busy { .. } | StoreError::Conflict(_)) {
                    drop(client);
                    let connected = Box::pin(self.wal_flush.flush(self)).await?;
                    if connected > sent.at && left > 0 {
                        continue;
                    }
                }
                return Err(refused);
            }
            if stale {
                self.discard_connections(client);
            }
        }
    }

    /// Commits something small, which flushes everything before it to the server's disk. Returns when its connection was
    /// opened.
    pub(super) async fn commit_message(&self) -> Result<std::time::Instant, StoreError> {
        let (client, statement) = self.prepare_on_connection(MESSAGE_SQL).await?;
        let done = self.commit_message_on(&client, &statement).await;
        self.message_outcome(client, done)
    }

    /// Like [`PostgresPool::commit_message`], on a connection that was open at `time`. Does nothing if the pool has no such
    /// connection that is free now.
    pub(super) async fn commit_message_on_connection_of(
        &self,
        time: std::time::Instant,
    ) -> Result<(), StoreError> {
        // Held, so that the pool gives another one each time.
        let mut younger = Vec::new();
        while self.pool.status().available > 0 {
            // One that would have to be opened is younger anyway, and opening it may take long.
            let free_now =
                Timeouts { wait: Some(Duration::ZERO), create: Some(Duration::ZERO), recycle: None };
            let Ok(client) = self.pool.timeout_get(&free_now).await else { return Ok(()) };
            if Object::metrics(&client).created > time {
                younger.push(client);
                continue;
            }
            drop(younger);
            let prepared = timeout(self.connect_timeout, client.prepare_cached(MESSAGE_SQL)).await;
            let done = match prepared {
                Ok(Ok(statement)) => self.commit_message_on(&client, &statement).await,
                Ok(Err(error)) => Err(StatementError::ConnectionLost(error)),
                Err(_) => Err(StatementError::TimedOut),
            };
            return self.message_outcome(client, done).map(drop);
        }
        Ok(())
    }

    async fn commit_message_on(
        &self,
        client: &Object,
        statement: &Statement,
    ) -> Result<std::time::Instant, StatementError> {
        let sent = self.wal_flush.begin_commit();
        self.execute_statement(client, statement, &[]).await?;
        let connected = Object::metrics(client).created;
        self.wal_flush.end_commit(&sent, connected, LogEffect::Flushed);
        Ok(connected)
    }

    fn message_outcome(
        &self,
        client: Object,
        done: Result<std::time::Instant, StatementError>,
    ) -> Result<std::time::Instant, StoreError> {
        done.map_err(|error| match error {
            StatementError::Rejected(error) => {
                statement_error(error, StatementAccess::Writing, StatementSubject::Everything)
            }
            StatementError::ConnectionLost(error) => {
                self.discard_connections(client);
                StoreError::Unknown(error.into())
            }
            StatementError::TimedOut => {
                self.discard_connections(client);
                StoreError::Unknown(ANSWER_TIMEOUT_MESSAGE.into())
            }
        })
    }

    /// Waits until everything up to this position is on the server's disk.
    pub(super) async fn wait_until_durable(&self, position: CommitPosition) -> Result<(), StoreError> {
        self.wal_flush.wait_until_durable(self, position).await
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

    /// Executes a statement that reads, and tells whether everything it saw is on disk. Both requests are sent at once.
    async fn execute_read(
        &self,
        client: &Object,
        statement: &Statement,
        params: SqlParams<'_>,
    ) -> Result<(Vec<Row>, bool), StatementError> {
        let check = match timeout(self.answer_timeout, client.prepare_cached(IS_FLUSHED_SQL)).await {
            Ok(Ok(check)) => check,
            Ok(Err(error)) if is_connection_lost(&error) => {
                return Err(StatementError::ConnectionLost(error));
            }
            Ok(Err(error)) => return Err(StatementError::Rejected(error)),
            Err(_) => return Err(StatementError::TimedOut),
        };
        let (rows, flushed) = tokio::join!(
            self.execute_statement(client, statement, params),
            self.execute_statement(client, &check, &[]),
        );
        let (rows, flushed) = (rows?, flushed?);
        Ok((rows, flushed.first().is_some_and(|row| row.try_get(0).unwrap_or(false))))
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

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
use super::error::{About, Doing, is_lost, of_connecting, of_statement, unavailable};
use super::url::Target;

/// How often a statement is sent at most.
const TRIES: usize = 5;

/// How long the upkeep of a whole thread may take.
const LONG: Duration = Duration::from_secs(600);

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

#[derive(Clone)]
pub(super) struct Pool {
    pool: deadpool_postgres::Pool,
    connect: Duration,
    /// After this the answer is not waited for: the network has swallowed the question or the answer.
    answer: Duration,
}

impl Pool {
    pub(super) fn new(target: &Target, options: &PostgresOptions) -> Result<Self, StoreError> {
        let pool = deadpool_postgres::Pool::builder(target.tls.manager(&target.config))
            .max_size(options.connections.max(1))
            // The one that was used last: a lone caller keeps to one, whose statements are prepared.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Other(error.into()))?;
        let answer = options.statement_timeout + Duration::from_secs(2);
        Ok(Self { pool, connect: options.connect_timeout, answer })
    }

    pub(super) async fn read(
        &self,
        about: About<'_>,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut left = TRIES;
        loop {
            left -= 1;
            let (client, statement) = self.prepared(sql).await?;
            let error = match self.ask(&client, &statement, params).await {
                Ok(rows) => return Ok(rows),
                Err(Broken::Said(error)) if !is_stale(&error) => {
                    return Err(of_statement(error, Doing::Reading, about));
                }
                Err(Broken::Said(error)) => {
                    self.renounce(client);
                    of_statement(error, Doing::Reading, about)
                }
                Err(Broken::Lost(error)) => {
                    self.renounce(client);
                    StoreError::Unavailable(error.into())
                }
                // To wait as long once more would help nobody.
                Err(Broken::Silent) => {
                    self.renounce(client);
                    return Err(unavailable(SILENT));
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
        about: About<'_>,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Row, StoreError> {
        let rows = self.write_all(about, sql, params).await?;
        rows.into_iter().next().ok_or_else(|| StoreError::Damaged("a function gave no row".into()))
    }

    pub(super) async fn write_all(
        &self,
        about: About<'_>,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut left = TRIES;
        loop {
            let (client, statement) = self.prepared(sql).await?;
            left -= 1;
            let error = match self.ask(&client, &statement, params).await {
                Ok(rows) => return Ok(rows),
                Err(Broken::Said(error)) => error,
                Err(Broken::Lost(error)) => {
                    self.renounce(client);
                    return Err(StoreError::Unknown(error.into()));
                }
                Err(Broken::Silent) => {
                    self.renounce(client);
                    return Err(StoreError::Unknown(SILENT.into()));
                }
            };
            let stale = is_stale(&error);
            if left == 0 || !(stale || asks_again(&error)) {
                return Err(of_statement(error, Doing::Writing, about));
            }
            if stale {
                self.renounce(client);
            }
        }
    }

    /// As [`Pool::write`], for what may take minutes.
    pub(super) async fn write_long(
        &self,
        about: About<'_>,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Row, StoreError> {
        let mut client = self.get_until(Instant::now() + self.connect).await?;
        let work = async {
            let transaction = client.transaction().await.map_err(of_connecting)?;
            let limit = format!("set local statement_timeout = {}", LONG.as_millis());
            transaction.batch_execute(&limit).await.map_err(of_connecting)?;
            let statement = transaction.prepare_cached(sql).await.map_err(of_connecting)?;
            // Nothing is kept before the commit, so a connection lost here has changed nothing.
            let row = transaction.query_one(&statement, params).await;
            let row = row.map_err(|error| of_statement(error, Doing::Reading, about))?;
            transaction.commit().await.map_err(|error| of_statement(error, Doing::Writing, about))?;
            Ok(row)
        };
        match timeout(LONG + self.answer, work).await {
            Ok(done) => done,
            Err(_) => {
                self.renounce(client);
                Err(StoreError::Unknown(SILENT.into()))
            }
        }
    }

    /// A connection that knows the statement. A dead one is replaced, for nothing was asked of it yet.
    async fn prepared(&self, sql: &'static str) -> Result<(Object, Statement), StoreError> {
        let deadline = Instant::now() + self.connect;
        let mut replaced = false;
        loop {
            let client = self.get_until(deadline).await?;
            let error = match timeout_at(deadline, client.prepare_cached(sql)).await {
                Ok(Ok(statement)) => return Ok((client, statement)),
                Ok(Err(error)) if !is_lost(&error) => return Err(of_connecting(error)),
                Ok(Err(error)) => of_connecting(error),
                Err(_) => unavailable(SILENT),
            };
            self.renounce(client);
            if replaced {
                return Err(error);
            }
            replaced = true;
        }
    }

    /// Gives up a connection, and the idle ones with it: what befell one has seldom spared the others.
    fn renounce(&self, client: Object) {
        drop(Object::take(client));
        self.pool.retain(|_, _| false);
    }

    async fn ask(
        &self,
        client: &Object,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Broken> {
        match timeout(self.answer, client.query(statement, params)).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) if is_lost(&error) => Err(Broken::Lost(error)),
            Ok(Err(error)) => Err(Broken::Said(error)),
            Err(_) => Err(Broken::Silent),
        }
    }

    async fn get_until(&self, deadline: Instant) -> Result<Object, StoreError> {
        let got = timeout_at(deadline, self.pool.get()).await;
        match got.unwrap_or(Err(PoolError::Timeout(TimeoutType::Wait))) {
            Ok(client) => Ok(client),
            Err(PoolError::Backend(error)) => Err(of_connecting(error)),
            Err(PoolError::Timeout(_)) => {
                Err(unavailable("no connection to the database became free in time"))
            }
            Err(error) => Err(StoreError::Other(error.into())),
        }
    }
}

/// How a statement came to nothing.
enum Broken {
    /// The database answered with this error, and undid the statement.
    Said(Error),
    /// The connection ended before an answer came.
    Lost(Error),
    /// No answer came.
    Silent,
}

const SILENT: &str = "the database did not answer in time";

/// The database undid the statement for the sake of another one that ran at the same time.
fn asks_again(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
    })
}

/// A newer program changed a table under a statement that was prepared before. Nothing of it was done.
fn is_stale(error: &Error) -> bool {
    error.code().is_some_and(|code| *code == SqlState::FEATURE_NOT_SUPPORTED)
}

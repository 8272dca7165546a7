//! Schema migrations. Processes that start at the same time wait for each other on a lock that ends with the
//! transaction.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::store::StoreError;
use tokio_postgres::{Client, Transaction};

use super::error::{
    StatementAccess, StatementSubject, connection_error, damaged, statement_error, unavailable,
};
use super::pool::PostgresPool;
use super::row::get_column;
use super::url::PostgresTarget;
use crate::migrations::Migrations;

/// The longest time a start may take, including the wait for another process that migrates.
pub(super) const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// A format that changes functions alone has an empty script.
const MIGRATIONS: Migrations =
    Migrations { first_format: 14, scripts: &[include_str!("../../migrations/postgres/0014_initial.sql")] };

/// The SQL functions of the newest format. They hold no data, so they are all recreated after a migration.
const SQL_FUNCTIONS: &str = include_str!("../../migrations/postgres/functions.sql");

/// How often a running process checks whether a newer one has migrated the schema.
const FORMAT_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The time of the last format check.
#[derive(Default)]
pub(super) struct FormatCheck(Mutex<Option<Instant>>);

impl FormatCheck {
    /// Returns an error if a newer program has migrated the schema: what this program writes may not be readable by
    /// the newer one. Checks at most once per [`FORMAT_CHECK_INTERVAL`].
    pub(super) async fn refuse_newer_format(&self, pool: &PostgresPool) -> Result<(), StoreError> {
        let now = Instant::now();
        {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now.duration_since(last) < FORMAT_CHECK_INTERVAL) {
                return Ok(());
            }
            *last = Some(now);
        }
        let sql = "select value from doran_meta where name = 'format'";
        let rows = pool.read(StatementSubject::Everything, sql, &[]).await?;
        let Some(row) = rows.first() else { return Err(damaged("`doran_meta` names no format")) };
        let pending = MIGRATIONS.pending(format_version(get_column(row, "value")?)?);
        if pending.is_err() {
            // Every later check fails again, until this process ends.
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        pending.map(drop)
    }
}

/// What was learned about the server while migrating.
pub(super) struct PostgresServerInfo {
    /// The server acknowledges commits before they are on disk, unless told otherwise.
    pub asynchronous_commit: bool,
}

pub(super) async fn migrate(target: &PostgresTarget) -> Result<PostgresServerInfo, StoreError> {
    // A server that accepts the connection and does not respond must not block the start.
    let connect = target.config.get_connect_timeout().copied().unwrap_or(MIGRATION_TIMEOUT);
    let (mut client, driver) = match tokio::time::timeout(connect, target.tls.connect(&target.config)).await {
        Ok(connected) => connected.map_err(connection_error)?,
        Err(_) => return Err(unavailable("the database did not answer in time")),
    };
    let seen = migrate_schema(&mut client, &target.schema).await;
    drop(client);
    driver.abort();
    seen
}

async fn migrate_schema(client: &mut Client, schema: &str) -> Result<PostgresServerInfo, StoreError> {
    let transaction = client.transaction().await.map_err(connection_error)?;
    apply_migrations(&transaction, schema).await.map_err(|error| match error {
        MigrationError::Statement(error) => {
            statement_error(error, StatementAccess::Reading, StatementSubject::Everything)
        }
        MigrationError::Store(error) => error,
    })?;
    transaction
        .commit()
        .await
        .map_err(|error| statement_error(error, StatementAccess::Writing, StatementSubject::Everything))?;
    let row = client.query_one("select current_setting('synchronous_commit')", &[]).await;
    let row =
        row.map_err(|error| statement_error(error, StatementAccess::Reading, StatementSubject::Everything))?;
    let setting: String = row.try_get(0).map_err(damaged)?;
    Ok(PostgresServerInfo { asynchronous_commit: setting == "off" })
}

async fn apply_migrations(transaction: &Transaction<'_>, schema: &str) -> Result<(), MigrationError> {
    let limits = format!(
        "set local statement_timeout = {limit}; set local lock_timeout = {limit}; set local synchronous_commit = on",
        limit = MIGRATION_TIMEOUT.as_millis()
    );
    transaction.batch_execute(&limits).await?;
    transaction
        .execute("select pg_advisory_xact_lock(hashtextextended('doran ' || $1::text, 0))", &[&schema])
        .await?;
    // `if not exists` alone would require the privilege to create schemas even if the schema exists.
    let exists = "select exists (select 1 from pg_namespace where nspname = $1::text)";
    if !transaction.query_one(exists, &[&schema]).await?.try_get::<_, bool>(0)? {
        transaction.batch_execute(&format!("create schema {schema}")).await?;
    }
    let exists =
        "select exists (select 1 from pg_tables where schemaname = $1::text and tablename = 'doran_meta')";
    if !transaction.query_one(exists, &[&schema]).await?.try_get::<_, bool>(0)? {
        // One row needs no index, and a short name no place beside the table.
        let table = "create table doran_meta (name varchar(60) not null, value int8 not null);
            insert into doran_meta values ('format', 0)";
        transaction.batch_execute(table).await?;
    }
    let row = transaction.query_one("select value from doran_meta where name = 'format'", &[]).await?;
    let found = format_version(row.try_get(0)?).map_err(MigrationError::Store)?;
    for (_, script) in MIGRATIONS.pending(found).map_err(MigrationError::Store)? {
        transaction.batch_execute(script).await?;
    }
    let current = MIGRATIONS.current_format();
    if found < current {
        transaction.batch_execute(SQL_FUNCTIONS).await?;
        let update = "update doran_meta set value = $1 where name = 'format'";
        transaction.execute(update, &[&i64::from(current)]).await?;
    }
    Ok(())
}

fn format_version(value: i64) -> Result<u32, StoreError> {
    u32::try_from(value).map_err(|_| damaged("`doran_meta` holds a format that is no number of ours"))
}

enum MigrationError {
    Statement(tokio_postgres::Error),
    Store(StoreError),
}

impl From<tokio_postgres::Error> for MigrationError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Statement(error)
    }
}

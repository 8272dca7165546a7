//! Schema migrations. Processes that start at the same time wait for each other on a lock that ends with the
//! transaction.

use std::time::Duration;

use doran_engine::store::StoreError;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Transaction};

use super::error::{
    StatementAccess, StatementSubject, connection_error, damaged, statement_error, unavailable,
};
use super::url::PostgresTarget;
use crate::InspectedFormat;
use crate::migrations::Migrations;

/// The longest time a start may take, including the wait for another process that migrates.
pub(super) const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// A format that changes functions alone has an empty script.
pub(super) const MIGRATIONS: Migrations = Migrations {
    first_format: 14,
    scripts: &[
        include_str!("../../migrations/postgres/0014_initial.sql"),
        include_str!("../../migrations/postgres/0015_keys_outlive_threads.sql"),
    ],
};

/// The SQL functions of the newest format. They hold no data, so they are all recreated after a migration.
const SQL_FUNCTIONS: &str = include_str!("../../migrations/postgres/functions.sql");

const TABLE_EXISTS_SQL: &str =
    "select exists (select 1 from pg_tables where schemaname = $1::text and tablename = 'doran_meta')";

pub(super) const FORMAT_SQL: &str = "select value from doran_meta where name = 'format'";

/// What was learned about the server while migrating.
pub(super) struct PostgresServerInfo {
    /// The server acknowledges commits before they are on disk, unless told otherwise.
    pub asynchronous_commit: bool,
}

pub(super) async fn migrate(target: &PostgresTarget) -> Result<PostgresServerInfo, StoreError> {
    let (mut client, driver) = connect(target).await?;
    let seen = migrate_schema(&mut client, &target.schema).await;
    drop(client);
    driver.abort();
    seen
}

/// Reads which format the schema has, and changes nothing.
pub(super) async fn inspect(target: &PostgresTarget) -> Result<InspectedFormat, StoreError> {
    let (mut client, driver) = connect(target).await?;
    let found = read_format(&mut client, &target.schema).await;
    drop(client);
    driver.abort();
    MIGRATIONS.inspected(found?)
}

async fn connect(target: &PostgresTarget) -> Result<(Client, JoinHandle<()>), StoreError> {
    // A server that accepts the connection and does not respond must not block the start.
    let connect = target.config.get_connect_timeout().copied().unwrap_or(MIGRATION_TIMEOUT);
    match tokio::time::timeout(connect, target.tls.connect(&target.config)).await {
        Ok(connected) => connected.map_err(connection_error),
        Err(_) => Err(unavailable("the database did not answer in time")),
    }
}

/// The format of the schema. `None` if nothing is there yet.
async fn read_format(client: &mut Client, schema: &str) -> Result<Option<u32>, StoreError> {
    let transaction = client.build_transaction().read_only(true).start().await.map_err(connection_error)?;
    let refused = |error| statement_error(error, StatementAccess::Reading, StatementSubject::Everything);
    if !transaction.query_one(TABLE_EXISTS_SQL, &[&schema]).await.map_err(refused)?.get::<_, bool>(0) {
        return Ok(None);
    }
    let rows = transaction.query(FORMAT_SQL, &[]).await.map_err(refused)?;
    let Some(row) = rows.first() else { return Err(damaged("`doran_meta` names no format")) };
    let format = format_version(row.try_get(0).map_err(damaged)?)?;
    // A start that was cut off leaves the table without a format.
    Ok((format > 0).then_some(format))
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
    if !transaction.query_one(TABLE_EXISTS_SQL, &[&schema]).await?.try_get::<_, bool>(0)? {
        // One row needs no index, and a short name no place beside the table.
        let table = "create table doran_meta (name varchar(60) not null, value int8 not null);
            insert into doran_meta values ('format', 0)";
        transaction.batch_execute(table).await?;
    }
    let row = transaction.query_one(FORMAT_SQL, &[]).await?;
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

pub(super) fn format_version(value: i64) -> Result<u32, StoreError> {
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

//! Bringing the schema up to date. Programs that start at the same time wait for each other at a lock that ends
//! with the transaction.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::store::StoreError;
use tokio_postgres::{Client, Transaction};

use super::error::{About, Doing, damaged, of_connecting, of_statement, unavailable};
use super::pool::Pool;
use super::row::get;
use super::url::Target;

/// How long a start may take, another program's migration included.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What each step did to the tables, in order; the format of a store is the number of steps it has seen.
const STEPS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_tables.sql"),
    "", // functions alone
    "", // functions alone
    include_str!("../../migrations/postgres/0004_places.sql"),
    include_str!("../../migrations/postgres/0005_minutes.sql"),
    "", // functions alone
    include_str!("../../migrations/postgres/0007_small.sql"),
];

/// The functions of the newest format. They hold nothing, so after a step they are all made anew.
const FUNCTIONS: &str = include_str!("../../migrations/postgres/functions.sql");

/// How often a program that runs looks whether a newer one has brought the schema further.
const LOOK: Duration = Duration::from_secs(5);

/// When a program that runs looked last.
#[derive(Default)]
pub(super) struct Looked(Mutex<Option<Instant>>);

impl Looked {
    /// Refuses, now and then, to go on with a schema that a newer program has brought further: what this one writes
    /// may not be what that one reads.
    pub(super) async fn at(&self, pool: &Pool) -> Result<(), StoreError> {
        let now = Instant::now();
        {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now.duration_since(last) < LOOK) {
                return Ok(());
            }
            *last = Some(now);
        }
        let sql = "select value from doran_meta where name = 'format'";
        let rows = pool.read(About::Everything, sql, &[]).await?;
        let Some(row) = rows.first() else { return Err(damaged("`doran_meta` names no format")) };
        let (found, known) = (get::<i64>(row, "value")?, STEPS.len());
        match (u32::try_from(found), u32::try_from(known)) {
            (Ok(found), Ok(known)) if found > known => {
                // Every look says it again until this program is gone.
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Err(StoreError::Newer { found, known })
            }
            _ => Ok(()),
        }
    }
}

/// What was found out about the server on the way.
pub(super) struct Seen {
    /// The server answers before a commit is on disk, unless asked not to.
    pub loses_commits: bool,
}

pub(super) async fn migrate(target: &Target) -> Result<Seen, StoreError> {
    // A server that takes the connection and then says nothing must not hold up the start.
    let connect = target.config.get_connect_timeout().copied().unwrap_or(PATIENCE);
    let (mut client, driver) = match tokio::time::timeout(connect, target.tls.connect(&target.config)).await {
        Ok(connected) => connected.map_err(of_connecting)?,
        Err(_) => return Err(unavailable("the database did not answer in time")),
    };
    let seen = bring_up(&mut client, &target.schema).await;
    drop(client);
    driver.abort();
    seen
}

async fn bring_up(client: &mut Client, schema: &str) -> Result<Seen, StoreError> {
    let transaction = client.transaction().await.map_err(of_connecting)?;
    apply(&transaction, schema).await.map_err(|error| match error {
        Failed::Statement(error) => of_statement(error, Doing::Reading, About::Everything),
        Failed::Store(error) => error,
    })?;
    transaction.commit().await.map_err(|error| of_statement(error, Doing::Writing, About::Everything))?;
    let row = client.query_one("select current_setting('synchronous_commit')", &[]).await;
    let row = row.map_err(|error| of_statement(error, Doing::Reading, About::Everything))?;
    let setting: String = row.try_get(0).map_err(damaged)?;
    Ok(Seen { loses_commits: setting == "off" })
}

async fn apply(transaction: &Transaction<'_>, schema: &str) -> Result<(), Failed> {
    let limits = format!(
        "set local statement_timeout = {limit}; set local lock_timeout = {limit}; set local synchronous_commit = on",
        limit = PATIENCE.as_millis()
    );
    transaction.batch_execute(&limits).await?;
    transaction
        .execute("select pg_advisory_xact_lock(hashtextextended('doran ' || $1::text, 0))", &[&schema])
        .await?;
    // `if not exists` alone would ask for the right to make schemas even when there is nothing to make.
    let exists = "select exists (select 1 from pg_namespace where nspname = $1::text)";
    if !transaction.query_one(exists, &[&schema]).await?.try_get::<_, bool>(0)? {
        transaction.batch_execute(&format!("create schema {schema}")).await?;
    }
    let exists =
        "select exists (select 1 from pg_tables where schemaname = $1::text and tablename = 'doran_meta')";
    if !transaction.query_one(exists, &[&schema]).await?.try_get::<_, bool>(0)? {
        let table = "create table doran_meta (name text primary key, value int8 not null);
            insert into doran_meta values ('format', 0)";
        transaction.batch_execute(table).await?;
    }
    let row = transaction.query_one("select value from doran_meta where name = 'format'", &[]).await?;
    let found = u32::try_from(row.try_get::<_, i64>(0)?).map_err(|_| {
        Failed::Store(StoreError::Damaged("`doran_meta` holds a format that is no number of ours".into()))
    })?;
    let known = u32::try_from(STEPS.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(Failed::Store(StoreError::Newer { found, known }));
    }
    for step in STEPS.iter().skip(found as usize) {
        transaction.batch_execute(step).await?;
    }
    if found < known {
        transaction.batch_execute(FUNCTIONS).await?;
        let update = "update doran_meta set value = $1 where name = 'format'";
        transaction.execute(update, &[&i64::from(known)]).await?;
    }
    Ok(())
}

enum Failed {
    Statement(tokio_postgres::Error),
    Store(StoreError),
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Statement(error)
    }
}

//! Stops the writes of a program that has become too old: a newer one may have migrated the schema while this one runs,
//! and may not be able to read what this one writes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use doran_engine::store::{CommitPosition, StoreError};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_postgres::Row;

use super::error::{StatementSubject, damaged};
use super::migrate::{FORMAT_SQL, MIGRATIONS, format_version};
use super::pool::{PostgresPool, SqlParams};
use super::row::get_column;
use super::wal_flush::LogEffect;

/// How often a running process reads the format of the schema.
const FORMAT_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// What is known of the format of the schema.
struct FormatCheck {
    checked_at: Mutex<Option<Instant>>,
    /// The format that a newer program has made. It stays until this process ends.
    newer: watch::Sender<Option<u32>>,
}

impl FormatCheck {
    fn refuse_known_newer_format(&self) -> Result<(), StoreError> {
        self.newer.borrow().map_or(Ok(()), |found| Err(newer_format_error(found)))
    }

    async fn read_format(&self, pool: &PostgresPool) -> Result<(), StoreError> {
        // The migration may still be on its way to the disk: that is soon enough to stop.
        let rows = pool.read_visible(StatementSubject::Everything, FORMAT_SQL, &[]).await?;
        let Some(row) = rows.first() else { return Err(damaged("`doran_meta` names no format")) };
        let pending = MIGRATIONS.pending(format_version(get_column(row, "value")?)?).map(drop);
        if let Err(StoreError::Newer { found, .. }) = pending {
            self.newer.send_replace(Some(found));
        }
        pending
    }
}

fn newer_format_error(found: u32) -> StoreError {
    StoreError::Newer { found, known: MIGRATIONS.current_format() }
}

/// A pool that takes no more writes once a newer program has migrated the schema. Reading goes on.
#[derive(Clone)]
pub(super) struct CheckedPool {
    pool: PostgresPool,
    format: Arc<FormatCheck>,
    /// Ends the checks with the last clone.
    _checks: Arc<AbortOnDrop>,
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl CheckedPool {
    /// The same pool, with a task that reads the format now and then.
    pub(super) fn new(pool: PostgresPool) -> Self {
        let format = Arc::new(FormatCheck { checked_at: Mutex::default(), newer: watch::Sender::new(None) });
        let (own_pool, own_format) = (pool.clone(), format.clone());
        let checks = tokio::spawn(async move {
            while own_format.refuse_known_newer_format().is_ok() {
                tokio::time::sleep(FORMAT_CHECK_INTERVAL).await;
                // A database that is away is noticed by those who need it.
                own_format.read_format(&own_pool).await.ok();
            }
        });
        Self { pool, format, _checks: Arc::new(AbortOnDrop(checks.abort_handle())) }
    }

    /// Returns an error once it is known that a newer program has migrated the schema.
    pub(super) fn refuse_known_newer_format(&self) -> Result<(), StoreError> {
        self.format.refuse_known_newer_format()
    }

    /// The same, and reads the format if that was not done lately.
    pub(super) async fn refuse_newer_format(&self) -> Result<(), StoreError> {
        self.refuse_known_newer_format()?;
        let now = Instant::now();
        {
            let mut last = self.format.checked_at.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| now.duration_since(last) < FORMAT_CHECK_INTERVAL) {
                return Ok(());
            }
            *last = Some(now);
        }
        let read = self.format.read_format(&self.pool).await;
        if read.is_err() {
            *self.format.checked_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        read
    }

    /// Waits until it is known that a newer program has migrated the schema. Returns what every write gets from then on.
    pub(super) async fn wait_for_newer_format(&self) -> StoreError {
        let mut newer = self.format.newer.subscribe();
        match newer.wait_for(Option::is_some).await.map(|found| *found) {
            Ok(Some(found)) => newer_format_error(found),
            // The sender lives as long as this pool.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    pub(super) async fn read(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.pool.read(about, sql, params).await
    }

    pub(super) async fn read_visible(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.pool.read_visible(about, sql, params).await
    }

    pub(super) async fn write(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Row, StoreError> {
        self.refuse_known_newer_format()?;
        self.pool.write(about, sql, params).await
    }

    pub(super) async fn write_returning_rows(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.refuse_known_newer_format()?;
        self.pool.write_returning_rows(about, sql, params).await
    }

    pub(super) async fn write_with_position(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
        effect: LogEffect,
    ) -> Result<(Vec<Row>, CommitPosition), StoreError> {
        self.refuse_known_newer_format()?;
        self.pool.write_with_position(about, sql, params, effect).await
    }

    pub(super) async fn write_with_maintenance_timeout(
        &self,
        about: StatementSubject<'_>,
        sql: &'static str,
        params: SqlParams<'_>,
    ) -> Result<Row, StoreError> {
        self.refuse_known_newer_format()?;
        self.pool.write_with_maintenance_timeout(about, sql, params).await
    }

    pub(super) async fn wait_until_durable(&self, position: CommitPosition) -> Result<(), StoreError> {
        self.pool.wait_until_durable(position).await
    }
}

//! Timers.

use async_trait::async_trait;
use doran_engine::id::TenantId;
use doran_engine::store::{
    MAX_SCHEDULES_PER_TENANT, Millis, NewTimer, StoreError, TimerKind, TimerRow, TimerStore, TimerTime,
    too_many_schedules,
};
use rusqlite::{Row, params};

use super::SqliteStore;
use super::rows::{execute, get_column, invalid_code, limit_to_i64, query_all, query_optional, to_i64};
use super::thread_maintenance::duration_millis;
use super::writer::{self, TransactionFailPoints, WriteTransaction};

/// The columns that [`timer_row`] reads.
const TIMER_COLUMNS: &str = "tenant, id, kind, at, body, created_at, updated_at";

#[async_trait]
impl TimerStore for SqliteStore {
    async fn store_time(&self) -> Result<Millis, StoreError> {
        Ok(writer::unix_millis_now())
    }

    async fn put_timer(&self, tenant: &TenantId, timer: &NewTimer) -> Result<TimerRow, StoreError> {
        timer.check()?;
        let (tenant, timer) = (tenant.clone(), timer.clone());
        self.write(TransactionFailPoints::default(), move |tx| put_timer(tx, &tenant, &timer)).await
    }

    async fn timer(&self, tenant: &TenantId, id: &str) -> Result<Option<TimerRow>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        self.read(move |conn| {
            let sql = format!("SELECT {TIMER_COLUMNS} FROM timers WHERE tenant = ?1 AND id = ?2");
            query_optional(conn, &sql, params![tenant.as_str(), id], timer_row)
        })
        .await
    }

    async fn timers(
        &self,
        tenant: &TenantId,
        kind: TimerKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TimerRow>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.unwrap_or_default().to_owned());
        self.read(move |conn| {
            let sql = format!(
                "SELECT {TIMER_COLUMNS} FROM timers WHERE tenant = ?1 AND kind = ?2 AND id > ?3 ORDER BY id LIMIT ?4"
            );
            query_all(conn, &sql, params![tenant.as_str(), kind.code(), after, limit_to_i64(limit)], timer_row)
        })
        .await
    }

    async fn delete_timer(&self, tenant: &TenantId, id: &str) -> Result<bool, StoreError> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        self.write(TransactionFailPoints::default(), move |tx| {
            let sql = "DELETE FROM timers WHERE tenant = ?1 AND id = ?2";
            Ok(execute(tx.conn, sql, params![tenant.as_str(), id])? > 0)
        })
        .await
    }

    async fn due_timers(&self, limit: usize) -> Result<Vec<TimerRow>, StoreError> {
        self.read(move |conn| {
            let sql =
                format!("SELECT {TIMER_COLUMNS} FROM timers WHERE at <= ?1 ORDER BY at, tenant, id LIMIT ?2");
            query_all(conn, &sql, params![writer::unix_millis_now(), limit_to_i64(limit)], timer_row)
        })
        .await
    }

    async fn move_timer(
        &self,
        tenant: &TenantId,
        id: &str,
        from: Millis,
        to: TimerTime,
        body: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let (tenant, id, body) = (tenant.clone(), id.to_owned(), body.map(<[u8]>::to_vec));
        self.write(TransactionFailPoints::default(), move |tx| {
            let sql = "UPDATE timers SET at = ?4, body = coalesce(?5, body), updated_at = ?6
                       WHERE tenant = ?1 AND id = ?2 AND at = ?3";
            let row = params![tenant.as_str(), id, from, due_at(to, tx.now), body, tx.now];
            Ok(execute(tx.conn, sql, row)? > 0)
        })
        .await
    }
}

fn due_at(time: TimerTime, now: Millis) -> Option<Millis> {
    match time {
        TimerTime::At(at) => Some(at),
        TimerTime::After(wait) => Some(now.saturating_add(duration_millis(wait))),
        TimerTime::Never => None,
    }
}

fn put_timer(tx: &WriteTransaction<'_>, tenant: &TenantId, timer: &NewTimer) -> Result<TimerRow, StoreError> {
    let sql = format!(
        "INSERT INTO timers ({TIMER_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
         ON CONFLICT DO UPDATE SET kind = iif(?7, excluded.kind, kind), at = iif(?7, excluded.at, at),
             body = iif(?7, excluded.body, body), updated_at = iif(?7, excluded.updated_at, updated_at)
         RETURNING {TIMER_COLUMNS}"
    );
    let at = due_at(timer.time, tx.now);
    let row = params![tenant.as_str(), timer.id, timer.kind.code(), at, timer.body, tx.now, timer.replace];
    let stored = query_optional(tx.conn, &sql, row, timer_row)?
        .ok_or_else(|| StoreError::Damaged("a timer was not stored".into()))?;
    if timer.kind == TimerKind::Schedule {
        let sql = "SELECT 1 FROM timers WHERE tenant = ?1 AND kind = ?2 LIMIT 1 OFFSET ?3";
        let most = params![tenant.as_str(), timer.kind.code(), to_i64(MAX_SCHEDULES_PER_TENANT)];
        if query_optional(tx.conn, sql, most, |row| get_column::<i64>(row, 0))?.is_some() {
            // Undoes the transaction.
            return Err(too_many_schedules());
        }
    }
    Ok(stored)
}

fn timer_row(row: &Row<'_>) -> Result<TimerRow, StoreError> {
    let kind: u8 = get_column(row, 2)?;
    let tenant = TenantId::new(&get_column::<String>(row, 0)?);
    Ok(TimerRow {
        tenant: tenant.map_err(|error| StoreError::Damaged(error.to_string()))?,
        id: get_column(row, 1)?,
        kind: TimerKind::from_code(kind).ok_or_else(|| invalid_code("kind of timer", kind))?,
        at: get_column(row, 3)?,
        body: get_column(row, 4)?,
        created_at: get_column(row, 5)?,
        updated_at: get_column(row, 6)?,
    })
}

//! Timers.

use async_trait::async_trait;
use doran_engine::id::TenantId;
use doran_engine::store::{
    MAX_SCHEDULES_PER_TENANT, Millis, NewTimer, StoreError, TimerKind, TimerRow, TimerStore, TimerTime,
    too_many_schedules,
};
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::{StatementSubject, damaged};
use super::pool::SqlParams;
use super::row::{decode_code, get_column, limit_to_i64, to_bounded_millis, to_i64, unix_millis};

/// SQL for a time in milliseconds: `$at`, or so long after `$now`, or null.
macro_rules! due_at {
    ($at:literal, $wait:literal, $now:literal) => {
        concat!(
            "coalesce(",
            $at,
            "::int8, floor(extract(epoch from ",
            $now,
            ") * 1000)::int8 + ",
            $wait,
            "::int8)"
        )
    };
}

/// A time, or how long to wait for it.
fn time_parts(time: TimerTime) -> (Option<i64>, Option<i64>) {
    match time {
        TimerTime::At(at) => (Some(at), None),
        TimerTime::After(wait) => (None, Some(to_bounded_millis(wait))),
        TimerTime::Never => (None, None),
    }
}

#[async_trait]
impl TimerStore for PostgresStore {
    async fn store_time(&self) -> Result<Millis, StoreError> {
        let rows =
            self.pool.read(StatementSubject::Everything, "select clock_timestamp() as now", &[]).await?;
        let row = rows.first().ok_or_else(|| damaged("the database has no time"))?;
        Ok(unix_millis(get_column(row, "now")?))
    }

    async fn put_timer(&self, tenant: &TenantId, timer: &NewTimer) -> Result<TimerRow, StoreError> {
        timer.check()?;
        // A schedule too many is inserted by nobody: the source of the row is empty then.
        let sql = concat!(
            "insert into timers as old (tenant, id, kind, at, body, created_at, updated_at)
            select $1::text, $2::text, $3::int2, ",
            due_at!("$4", "$5", "c.now"),
            ", $6::bytea, c.now, c.now
            from (select clock_timestamp() as now) c
            where $3::int2 <> 2 or exists (select 1 from timers where tenant = $1 and id = $2)
                or not exists (select 1 from timers where tenant = $1 and kind = 2 offset $8::int8 - 1 limit 1)
            on conflict (tenant, id) do update set
                kind = case when $7::bool then excluded.kind else old.kind end,
                at = case when $7 then excluded.at else old.at end,
                body = case when $7 then excluded.body else old.body end,
                updated_at = case when $7 then excluded.updated_at else old.updated_at end
            returning tenant, id, kind, at, body, created_at, updated_at"
        );
        let (at, wait) = time_parts(timer.time);
        let kind = i16::from(timer.kind.code());
        let most = to_i64(MAX_SCHEDULES_PER_TENANT);
        let params: SqlParams<'_> =
            &[&tenant.as_str(), &timer.id, &kind, &at, &wait, &timer.body, &timer.replace, &most];
        let rows = self.pool.write_returning_rows(StatementSubject::Everything, sql, params).await?;
        rows.first().map_or_else(|| Err(too_many_schedules()), timer_row)
    }

    async fn timer(&self, tenant: &TenantId, id: &str) -> Result<Option<TimerRow>, StoreError> {
        let sql = "select tenant, id, kind, at, body, created_at, updated_at from timers
            where tenant = $1 and id = $2";
        let rows = self.pool.read(StatementSubject::Everything, sql, &[&tenant.as_str(), &id]).await?;
        rows.first().map(timer_row).transpose()
    }

    async fn timers(
        &self,
        tenant: &TenantId,
        kind: TimerKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TimerRow>, StoreError> {
        let sql = "select tenant, id, kind, at, body, created_at, updated_at from timers
            where tenant = $1 and kind = $2 and id > $3 order by id limit $4";
        let (kind, after) = (i16::from(kind.code()), after.unwrap_or_default());
        let params: SqlParams<'_> = &[&tenant.as_str(), &kind, &after, &limit_to_i64(limit)];
        let rows = self.pool.read(StatementSubject::Everything, sql, params).await?;
        rows.iter().map(timer_row).collect()
    }

    async fn delete_timer(&self, tenant: &TenantId, id: &str) -> Result<bool, StoreError> {
        let sql = "delete from timers where tenant = $1 and id = $2 returning 1";
        let params: SqlParams<'_> = &[&tenant.as_str(), &id];
        let rows = self.pool.write_returning_rows(StatementSubject::Everything, sql, params).await?;
        Ok(!rows.is_empty())
    }

    async fn due_timers(&self, limit: usize) -> Result<Vec<TimerRow>, StoreError> {
        let sql = "select tenant, id, kind, at, body, created_at, updated_at from timers
            where at <= floor(extract(epoch from clock_timestamp()) * 1000)::int8 order by at, tenant, id limit $1";
        let rows = self.pool.read(StatementSubject::Everything, sql, &[&limit_to_i64(limit)]).await?;
        rows.iter().map(timer_row).collect()
    }

    async fn move_timer(
        &self,
        tenant: &TenantId,
        id: &str,
        from: Millis,
        to: TimerTime,
        body: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let sql = concat!(
            "update timers set at = ",
            due_at!("$4", "$5", "clock_timestamp()"),
            ", body = coalesce($6::bytea, body), updated_at = clock_timestamp()
            where tenant = $1 and id = $2 and at = $3 returning 1"
        );
        let (at, wait) = time_parts(to);
        let params: SqlParams<'_> = &[&tenant.as_str(), &id, &from, &at, &wait, &body];
        let rows = self.pool.write_returning_rows(StatementSubject::Everything, sql, params).await?;
        Ok(!rows.is_empty())
    }
}

fn timer_row(row: &Row) -> Result<TimerRow, StoreError> {
    Ok(TimerRow {
        tenant: TenantId::new(get_column(row, "tenant")?).map_err(damaged)?,
        id: get_column(row, "id")?,
        kind: decode_code(get_column(row, "kind")?, TimerKind::from_code)?,
        at: get_column(row, "at")?,
        body: get_column(row, "body")?,
        created_at: unix_millis(get_column(row, "created_at")?),
        updated_at: unix_millis(get_column(row, "updated_at")?),
    })
}

//! Creating, updating and deleting threads, garbage collection, and the node cache.

use std::time::Duration;

use async_trait::async_trait;
use doran_engine::id::{TenantId, ThreadId, ThreadKey};
use doran_engine::store::{
    GcReport, NewEntry, NodeCacheStore, Retention, Seq, StoreError, ThreadMaintenance, ThreadRow,
    check_metadata,
};
use serde_json::{Map, Value};

use super::PostgresStore;
use super::error::StatementSubject;
use super::pool::SqlParams;
use super::row::{canonical_json, get_column, thread_row, to_bounded_millis, to_i64, to_u64};

/// The most threads or rows that one `gc` transaction deletes, so that no transaction holds its locks for long.
const GC_BATCH_ROWS: i32 = 500;

#[async_trait]
impl ThreadMaintenance for PostgresStore {
    async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, StoreError> {
        check_metadata(metadata)?;
        let keys: Vec<&[u8]> = metadata.keys().map(String::as_bytes).collect();
        let values: Vec<Option<Vec<u8>>> = metadata
            .values()
            .map(|value| (!value.is_null()).then(|| canonical_json(value).into_bytes()))
            .collect();
        let sql = "select * from put_thread($1, $2, $3, $4)";
        let params: SqlParams<'_> = &[&thread.tenant.as_str(), &thread.thread.as_str(), &keys, &values];
        thread_row(&self.pool.write(StatementSubject::Thread(thread), sql, params).await?)
    }

    async fn append_entry(
        &self,
        thread: &ThreadKey,
        expect: Seq,
        entry: NewEntry,
    ) -> Result<Seq, StoreError> {
        let sql = "select append_entry($1, $2, $3, $4, $5, $6, $7, $8) as seq";
        let params: SqlParams<'_> = &[
            &thread.tenant.as_str(),
            &thread.thread.as_str(),
            &to_i64(expect),
            &i16::from(entry.kind.code()),
            &entry.body,
            &entry.parent.map(to_i64),
            &to_i64(entry.base),
            &entry.snapshot,
        ];
        to_u64(get_column(&self.pool.write(StatementSubject::Thread(thread), sql, params).await?, "seq")?)
    }

    async fn copy_thread(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        let sql = "select * from copy_thread($1, $2, $3, $4, $5, $6, $7)";
        let stands = stands.as_ref();
        let params: SqlParams<'_> = &[
            &from.tenant.as_str(),
            &from.thread.as_str(),
            &to.as_str(),
            &stands.map(|entry| i16::from(entry.kind.code())),
            &stands.map(|entry| entry.body.as_slice()),
            &stands.and_then(|entry| entry.parent).map(to_i64),
            &stands.map(|entry| to_i64(entry.base)),
        ];
        thread_row(
            &self.pool.write_with_maintenance_timeout(StatementSubject::Thread(from), sql, params).await?,
        )
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        let sql = "select delete_thread($1, $2) as was";
        let params: SqlParams<'_> = &[&thread.tenant.as_str(), &thread.thread.as_str()];
        get_column(
            &self.pool.write_with_maintenance_timeout(StatementSubject::Thread(thread), sql, params).await?,
            "was",
        )
    }

    /// Deletes in small transactions. If one fails, the earlier ones stay committed and the next call continues.
    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError> {
        let mut cleared = GcReport::default();
        if let Some(idle) = retention.idle_threads {
            cleared.threads = self
                .delete_in_batches("select clear_idle_threads($1, $2) as rows", &to_bounded_millis(idle))
                .await?;
        }
        if let Some(age) = retention.old_entries {
            cleared.entries = self.clear_old_entries(to_bounded_millis(age)).await?;
        }
        let keys = "with old as (
                delete from idempotency where (tenant, key) in (
                    select tenant, key from idempotency
                    where created_at < clock_timestamp() - $1::int8 * interval '1 millisecond'
                    limit $2::int4 for update skip locked)
                returning 1)
            select count(*) as rows from old";
        cleared.keys = self.delete_in_batches(keys, &to_bounded_millis(retention.idempotency)).await?;
        let cached = "with old as (
                delete from cache where (tenant, digest) in (
                    select tenant, digest from cache
                    where expires <= clock_timestamp() - $1::int8 * interval '1 millisecond'
                    limit $2::int4 for update skip locked)
                returning 1)
            select count(*) as rows from old";
        cleared.cached = self.delete_in_batches(cached, &0).await?;
        Ok(cleared)
    }
}

impl PostgresStore {
    /// Repeats a statement that deletes one batch until a batch is not full.
    async fn delete_in_batches(&self, sql: &'static str, age: &i64) -> Result<u64, StoreError> {
        let mut total = 0;
        loop {
            let row = self
                .pool
                .write_with_maintenance_timeout(StatementSubject::Everything, sql, &[age, &GC_BATCH_ROWS])
                .await?;
            let rows = to_u64(get_column(&row, "rows")?)?;
            total += rows;
            if rows < GC_BATCH_ROWS.unsigned_abs().into() {
                return Ok(total);
            }
        }
    }

    async fn clear_old_entries(&self, age: i64) -> Result<u64, StoreError> {
        let sql = "select o_tenant, o_thread, o_cleared from clear_old_entries($1, $2, $3, $4)";
        let (mut tenant, mut thread) = (String::new(), String::new());
        let mut total = 0;
        loop {
            let params: SqlParams<'_> = &[&age, &tenant, &thread, &GC_BATCH_ROWS];
            let row =
                self.pool.write_with_maintenance_timeout(StatementSubject::Everything, sql, params).await?;
            total += to_u64(get_column(&row, "o_cleared")?)?;
            let last: Option<String> = get_column(&row, "o_tenant")?;
            let Some(last) = last else { return Ok(total) };
            tenant = last;
            thread = get_column(&row, "o_thread")?;
        }
    }
}

#[async_trait]
impl NodeCacheStore for PostgresStore {
    async fn cached_value(&self, tenant: &TenantId, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "select value from cache where tenant = $1 and digest = sha256($2)
            and (expires is null or expires > clock_timestamp())";
        let rows =
            self.pool.read(StatementSubject::Everything, sql, &[&tenant.as_str(), &key.as_bytes()]).await?;
        rows.first().map(|row| get_column(row, "value")).transpose()
    }

    async fn cache_value(
        &self,
        tenant: &TenantId,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
    ) -> Result<(), StoreError> {
        let sql = "insert into cache (tenant, digest, value, expires)
            values ($1, sha256($2), $3, clock_timestamp() + $4::int8 * interval '1 millisecond')
            on conflict (tenant, digest) do update set value = excluded.value, expires = excluded.expires
            returning 1";
        let params: SqlParams<'_> =
            &[&tenant.as_str(), &key.as_bytes(), &value, &lifetime.map(to_bounded_millis)];
        self.pool.write(StatementSubject::Everything, sql, params).await.map(|_| ())
    }
}

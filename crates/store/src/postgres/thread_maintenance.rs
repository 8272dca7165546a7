//! Creating, updating and deleting threads, garbage collection, and the node cache.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use doran_engine::id::{TenantId, ThreadId, ThreadKey};
use doran_engine::store::{
    GcReport, MAX_REMOVAL_AGE, NewEntry, NodeCacheStore, Retention, Seq, StoreError, ThreadMaintenance,
    ThreadRow, check_metadata,
};
use serde_json::{Map, Value};

use super::PostgresStore;
use super::error::{StatementSubject, damaged};
use super::key_values::PURGE_SQL;
use super::pool::SqlParams;
use super::row::{canonical_json, get_column, thread_row, to_bounded_millis, to_i64, to_u64, unix_millis};

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
        // In a task of its own, so that a caller who leaves does not leave half a copy.
        let (store, from, to) = (self.clone(), from.clone(), to.clone());
        let copy = tokio::spawn(async move { store.copy_in_batches(&from, &to, stands).await });
        copy.await.unwrap_or_else(|error| Err(StoreError::Other(error.into())))
    }

    async fn delete_thread(&self, thread: &ThreadKey) -> Result<bool, StoreError> {
        let sql = "select delete_thread($1, $2) as was";
        let params: SqlParams<'_> = &[&thread.tenant.as_str(), &thread.thread.as_str()];
        let subject = StatementSubject::Thread(thread);
        let row = self.pool.write_with_maintenance_timeout(subject, sql, params).await?;
        let existed = get_column(&row, "was")?;
        if existed && let Err(error) = self.delete_unowned_logs().await {
            // The thread is removed. What is left of its log is deleted by the next `gc`.
            tracing::warn!(%error, "could not delete the log of a removed thread yet");
        }
        Ok(existed)
    }

    /// Deletes in small transactions. If one fails, the earlier ones stay committed and the next call continues.
    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError> {
        let mut cleared = GcReport::default();
        if let Some(idle) = retention.idle_threads {
            cleared.threads = self
                .delete_in_batches("select clear_idle_threads($1, $2) as rows", &to_bounded_millis(idle))
                .await?;
        }
        self.delete_unowned_logs().await?;
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
        let responses = "with old as (
                delete from idempotent_responses where (tenant, key) in (
                    select tenant, key from idempotent_responses
                    where expires <= clock_timestamp() - $1::int8 * interval '1 millisecond'
                    limit $2::int4 for update skip locked)
                returning 1)
            select count(*) as rows from old";
        cleared.keys += self.delete_in_batches(responses, &0).await?;
        let cached = "with old as (
                delete from cache where (tenant, digest) in (
                    select tenant, digest from cache
                    where expires <= clock_timestamp() - $1::int8 * interval '1 millisecond'
                    limit $2::int4 for update skip locked)
                returning 1)
            select count(*) as rows from old";
        cleared.cached = self.delete_in_batches(cached, &0).await?;
        let items = "with old as (
                delete from items where (tenant, namespace, key) in (
                    select tenant, namespace, key from items
                    where expires <= clock_timestamp() - $1::int8 * interval '1 millisecond'
                    limit $2::int4 for update skip locked)
                returning tenant),
            counted as (
                update item_counts c set items = c.items - o.items
                from (select tenant, count(*) as items from old group by tenant) o where c.tenant = o.tenant)
            select count(*) as rows from old";
        cleared.items = self.delete_in_batches(items, &0).await?;
        self.delete_in_batches(PURGE_SQL, &to_bounded_millis(MAX_REMOVAL_AGE)).await?;
        Ok(cleared)
    }
}

impl PostgresStore {
    /// Copies a thread batch by batch. Nobody sees the copy before it is complete.
    async fn copy_in_batches(
        &self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
    ) -> Result<ThreadRow, StoreError> {
        let (tenant, source_name) = (from.tenant.as_str(), from.thread.as_str());
        let subject = StatementSubject::Thread(from);
        let stands = stands.as_ref();
        let parent = stands.and_then(|entry| entry.parent).map(to_i64);
        let sql = "select o_source, o_number, o_head, o_left from begin_copy($1, $2, $3, $4)";
        let params: SqlParams<'_> = &[&tenant, &source_name, &to.as_str(), &parent];
        let begun = self.pool.write_with_maintenance_timeout(subject, sql, params).await;
        let begun = begun.map_err(known_to_be_invisible)?;
        let (source, number): (i64, i64) = (get_column(&begun, "o_source")?, get_column(&begun, "o_number")?);
        let head: i64 = get_column(&begun, "o_head")?;
        let mut left: Option<i64> = get_column(&begun, "o_left")?;
        while let Some(before) = left {
            let sql = "select copy_batch($1, $2, $3, $4, $5) as o_left";
            let params: SqlParams<'_> = &[&tenant, &source_name, &source, &number, &before];
            match self.pool.write_with_maintenance_timeout(subject, sql, params).await {
                Ok(row) => left = get_column(&row, "o_left")?,
                Err(error) => {
                    self.abandon_copy(number).await;
                    return Err(known_to_be_invisible(error));
                }
            }
        }
        let sql = "select * from finish_copy($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let params: SqlParams<'_> = &[
            &tenant,
            &source_name,
            &to.as_str(),
            &source,
            &number,
            &head,
            &stands.map(|entry| i16::from(entry.kind.code())),
            &stands.map(|entry| entry.body.as_slice()),
            &parent,
            &stands.map(|entry| to_i64(entry.base)),
        ];
        match self.pool.write_with_maintenance_timeout(subject, sql, params).await {
            Ok(row) => thread_row(&row),
            Err(error) => {
                if !matches!(error, StoreError::Unknown(_)) {
                    self.abandon_copy(number).await;
                }
                Err(error)
            }
        }
    }

    /// Deletes what was copied. If this fails, it is deleted when the copy counts as given up.
    async fn abandon_copy(&self, number: i64) {
        let sql = "update unowned_logs set copying_until = null where number = $1";
        let abandoned = self.pool.write_returning_rows(StatementSubject::Everything, sql, &[&number]).await;
        let deleted = match abandoned {
            Ok(_) => self.delete_unowned_logs().await,
            Err(error) => Err(error),
        };
        if let Err(error) = deleted {
            tracing::warn!(%error, "could not delete an incomplete copy yet");
        }
    }

    /// Deletes logs that belong to no thread, batch by batch.
    async fn delete_unowned_logs(&self) -> Result<(), StoreError> {
        let sql = "select delete_unowned_logs() as found";
        let everything = StatementSubject::Everything;
        while get_column(&self.pool.write_with_maintenance_timeout(everything, sql, &[]).await?, "found")? {}
        Ok(())
    }

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

    /// Clears old entries of threads that changed since that was done last.
    async fn clear_old_entries(&self, age: i64) -> Result<u64, StoreError> {
        let everything = StatementSubject::Everything;
        let sql = "select clock_timestamp() - $1::int8 * interval '1 millisecond' as before,
                date_trunc('minute', clock_timestamp() at time zone 'UTC') as until,
                date_trunc('minute', to_timestamp(m.value / 1000.0) at time zone 'UTC') - interval '1 minute' as changed
            from doran_meta m where m.name = 'entries_cleared_before'";
        let rows = self.pool.read(everything, sql, &[&age]).await?;
        let Some(range) = rows.first() else {
            return Err(damaged("`doran_meta` does not say what was cleared"));
        };
        let before: SystemTime = get_column(range, "before")?;
        let (until, mut changed): (SystemTime, SystemTime) =
            (get_column(range, "until")?, get_column(range, "changed")?);
        let (mut tenant, mut thread) = (String::new(), String::new());
        let mut total = 0;
        loop {
            let sql = "select o_changed, o_tenant, o_thread, o_cleared from clear_old_entries($1, $2, $3, $4, $5, $6)";
            let params: SqlParams<'_> = &[&before, &until, &changed, &tenant, &thread, &GC_BATCH_ROWS];
            let rows = self.pool.write_returning_rows(everything, sql, params).await?;
            let Some(row) = rows.first() else { break };
            total += to_u64(get_column(row, "o_cleared")?)?;
            changed = get_column(row, "o_changed")?;
            (tenant, thread) = (get_column(row, "o_tenant")?, get_column(row, "o_thread")?);
        }
        let sql =
            "update doran_meta set value = greatest(value, $1::int8) where name = 'entries_cleared_before'";
        self.pool.write_returning_rows(everything, sql, &[&unix_millis(before)]).await?;
        Ok(total)
    }
}

/// Nothing of an incomplete copy can be seen, so whether this part of it was written does not matter.
fn known_to_be_invisible(error: StoreError) -> StoreError {
    match error {
        StoreError::Unknown(cause) => StoreError::Unavailable(cause),
        error => error,
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

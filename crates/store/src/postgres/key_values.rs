//! Values that all replicas share.
//!
//! A write is one statement. It first raises the revision of its bucket, whose row stays locked until the commit: writes
//! of one bucket come one after another, and nobody sees a revision before all lower ones. A write that came too late
//! raises the revision too and changes nothing else.

use std::collections::BTreeMap;

use async_trait::async_trait;
use doran_engine::store::{
    KeyValue, KeyValueChange, KeyValueChanges, KeyValueStore, KeyValueWrite, StoreError,
};
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::StatementSubject;
use super::pool::SqlParams;
use super::row::{get_column, limit_to_i64, to_bounded_millis, to_i64, to_u64};

/// Puts a value where there is none. What an earlier value of this name left is replaced.
const INSERT_SQL: &str = "with raised as (
        insert into key_value_buckets as b (bucket, revision) values ($1, 1)
        on conflict (bucket) do update set revision = b.revision + 1 returning revision),
    written as (
        insert into key_values as v (bucket, key, revision, changed_at, expires, value)
        select $1::text, $2::text, revision, clock_timestamp(),
            clock_timestamp() + $4::int8 * interval '1 millisecond', $3::bytea
        from raised
        on conflict (bucket, key) do update set revision = excluded.revision, changed_at = excluded.changed_at,
            expires = excluded.expires, value = excluded.value
        where v.value is null or v.expires <= clock_timestamp()
        returning revision),
    deleted as (
        delete from key_value_blobs where bucket = $1 and key = $2 and name <> all ($5::text[])
            and exists (select 1 from written)),
    put as (
        insert into key_value_blobs (bucket, key, name, bytes)
        select $1::text, $2::text, b.name, b.bytes from unnest($5::text[], $6::bytea[]) as b (name, bytes)
        where exists (select 1 from written)
        on conflict (bucket, key, name) do update set bytes = excluded.bytes)
    select (select revision from written) as revision";

/// Puts a value in place of one that is known.
const UPDATE_SQL: &str = "with raised as (
        insert into key_value_buckets as b (bucket, revision) values ($1, 1)
        on conflict (bucket) do update set revision = b.revision + 1 returning revision),
    written as (
        update key_values v set revision = raised.revision, changed_at = clock_timestamp(),
            expires = clock_timestamp() + $4::int8 * interval '1 millisecond', value = $3
        from raised
        where v.bucket = $1 and v.key = $2 and v.revision = $8 and v.value is not null
            and (v.expires is null or v.expires > clock_timestamp())
        returning v.revision),
    deleted as (
        delete from key_value_blobs where bucket = $1 and key = $2 and exists (select 1 from written)
            and ($3::bytea is null or name = any ($7::text[])) and name <> all ($5::text[])),
    put as (
        insert into key_value_blobs (bucket, key, name, bytes)
        select $1::text, $2::text, b.name, b.bytes from unnest($5::text[], $6::bytea[]) as b (name, bytes)
        where exists (select 1 from written)
        on conflict (bucket, key, name) do update set bytes = excluded.bytes)
    select (select revision from written) as revision";

/// Forgets removals and expired values that are older than `$1` milliseconds.
pub(super) const PURGE_SQL: &str = "with old as (
        delete from key_values where (bucket, key) in (
            select bucket, key from key_values
            where (value is null or expires <= clock_timestamp())
                and changed_at < clock_timestamp() - $1::int8 * interval '1 millisecond'
            limit $2::int4 for update skip locked)
        returning bucket, revision),
    purged as (
        update key_value_buckets b set purged = greatest(b.purged, o.revision)
        from (select bucket, max(revision) as revision from old group by bucket) o where b.bucket = o.bucket)
    select count(*) as rows from old";

#[async_trait]
impl KeyValueStore for PostgresStore {
    async fn key_value(&self, bucket: &str, key: &str) -> Result<Option<KeyValue>, StoreError> {
        let sql = "select key, value, revision from key_values where bucket = $1 and key = $2
            and value is not null and (expires is null or expires > clock_timestamp())";
        let rows = self.pool.read(StatementSubject::Everything, sql, &[&bucket, &key]).await?;
        rows.first().map(key_value).transpose()
    }

    async fn key_values(&self, bucket: &str, prefix: &str) -> Result<Vec<KeyValue>, StoreError> {
        let sql = "select key, value, revision from key_values
            where bucket = $1 and key >= $2 and starts_with(key, $2)
                and value is not null and (expires is null or expires > clock_timestamp())
            order by key";
        let rows = self.pool.read(StatementSubject::Everything, sql, &[&bucket, &prefix]).await?;
        rows.iter().map(key_value).collect()
    }

    async fn key_value_changes(
        &self,
        bucket: &str,
        after: u64,
        limit: usize,
    ) -> Result<KeyValueChanges, StoreError> {
        let sql = "select v.key, v.revision, $2::int8 < b.purged or $2::int8 = 0 as from_start,
                case when v.expires is null or v.expires > clock_timestamp() then v.value end as value
            from key_value_buckets b left join key_values v on v.bucket = b.bucket
                and v.revision > case when $2::int8 < b.purged then 0 else $2::int8 end
            where b.bucket = $1 order by v.revision limit $3";
        let params: SqlParams<'_> = &[&bucket, &to_i64(after), &limit_to_i64(limit)];
        let rows = self.pool.read(StatementSubject::Everything, sql, params).await?;
        let from_start = rows.first().map_or(Ok(after == 0), |row| get_column(row, "from_start"))?;
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            // Where nothing was changed there is a row without a value.
            if let Some(key) = get_column(row, "key")? {
                let (value, revision) = (get_column(row, "value")?, to_u64(get_column(row, "revision")?)?);
                changes.push(KeyValueChange { key, value, revision });
            }
        }
        Ok(KeyValueChanges { from_start, changes })
    }

    async fn write_key_value(&self, write: KeyValueWrite<'_>) -> Result<Option<u64>, StoreError> {
        write.check()?;
        let (names, bytes): (Vec<&str>, Vec<&[u8]>) = write.put_blobs.iter().copied().unzip();
        let lifetime = write.lifetime.map(to_bounded_millis);
        let expected = write.expected.map(to_i64);
        let inserted: SqlParams<'_> = &[&write.bucket, &write.key, &write.value, &lifetime, &names, &bytes];
        let updated: SqlParams<'_> = &[
            &write.bucket,
            &write.key,
            &write.value,
            &lifetime,
            &names,
            &bytes,
            &write.delete_blobs,
            &expected,
        ];
        let (sql, params) = if expected.is_none() { (INSERT_SQL, inserted) } else { (UPDATE_SQL, updated) };
        let subject = StatementSubject::Everything;
        let row = match write.put_blobs {
            [] => self.pool.write(subject, sql, params).await?,
            _ => self.pool.write_with_maintenance_timeout(subject, sql, params).await?,
        };
        get_column::<Option<i64>>(&row, "revision")?.map(to_u64).transpose()
    }

    async fn key_value_blob(
        &self,
        bucket: &str,
        key: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "select bytes from key_value_blobs where bucket = $1 and key = $2 and name = $3";
        let rows = self.pool.read(StatementSubject::Everything, sql, &[&bucket, &key, &name]).await?;
        rows.first().map(|row| get_column(row, "bytes")).transpose()
    }

    async fn bucket_revisions(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let sql = "select bucket, revision from key_value_buckets";
        let rows = self.pool.read(StatementSubject::Everything, sql, &[]).await?;
        let revision = |row: &Row| Ok((get_column(row, "bucket")?, to_u64(get_column(row, "revision")?)?));
        rows.iter().map(revision).collect()
    }
}

fn key_value(row: &Row) -> Result<KeyValue, StoreError> {
    Ok(KeyValue {
        key: get_column(row, "key")?,
        value: get_column(row, "value")?,
        revision: to_u64(get_column(row, "revision")?)?,
    })
}

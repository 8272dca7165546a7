//! Reads states, log entries, runs and threads. Each read is one statement, so it sees one snapshot. None takes a
//! lock.

use async_trait::async_trait;
use doran_engine::id::{RunKey, TenantId, ThreadKey};
use doran_engine::store::{
    DeletedUsage, HistoryStore, LoadedLog, LogEntry, Millis, RunFilter, RunPosition, RunRow, RunStatus, Seq,
    StoreError, ThreadFilter, ThreadRow, check_metadata, entries_leading_to,
};
use uuid::Uuid;

use super::PostgresStore;
use super::batched_writes::results_in_request_order;
use super::error::StatementSubject;
use super::pool::SqlParams;
use super::row::{
    canonical_json, decode_code, deleted_usage_row, entry_from_row, from_unix_millis, get_column,
    limit_to_i64, run_row, thread_columns, thread_row, to_i64, to_u64,
};

const THREAD_SQL: &str =
    concat!("select ", thread_columns!(), " from threads t where tenant = $1 and thread = $2");

#[async_trait]
impl HistoryStore for PostgresStore {
    async fn load(&self, thread: &ThreadKey, at: Option<Seq>) -> Result<LoadedLog, StoreError> {
        // Three kinds of rows: the thread (newest entry and requested entry), the snapshot, and the entries after it.
        let sql = "
            with t as (
                select number, n.head, coalesce($3::int8, n.head) as wanted from threads, lateral (
                    select coalesce(max(e.seq), 0)::int8 as head from entries e where e.number = threads.number
                ) n
                where tenant = $1 and thread = $2
            ), w as (
                select e.number, e.seq, e.base from t, entries e where e.number = t.number and e.seq = t.wanted
            ), s as (
                select s.seq, s.body from w, snapshots s
                where s.number = w.number and s.seq in (w.seq, w.base)
                order by s.seq desc limit 1
            )
            select 1 as part, head as seq, wanted as parent, (select base::int8 from w) as base, null::uuid as run,
                null::timestamptz as at, null::int2 as kind, null::bytea as body from t
            union all
            select 2, seq, 0, 0, null, null, null, body from s
            union all
            (select 3, e.seq, coalesce(e.parent, e.seq - 1), e.base, e.run, e.at, e.kind, e.body from w, entries e
            where e.number = w.number and e.seq > coalesce((select s.seq from s), w.base)
                and e.seq <= w.seq
            order by e.seq)";
        let params: SqlParams<'_> = &[&thread.tenant.as_str(), &thread.thread.as_str(), &at.map(to_i64)];
        let rows = self.pool.read(StatementSubject::Thread(thread), sql, params).await?;
        let mut loaded = LoadedLog::default();
        let mut found = None;
        for row in &rows {
            match get_column::<i32>(row, "part")? {
                1 => {
                    loaded.head = to_u64(get_column(row, "seq")?)?;
                    let base: Option<i64> = get_column(row, "base")?;
                    found = Some((to_u64(get_column(row, "parent")?)?, base.map(to_u64).transpose()?));
                }
                2 => loaded.snapshot = Some((to_u64(get_column(row, "seq")?)?, get_column(row, "body")?)),
                _ => loaded.entries.push(entry_from_row(row)?),
            }
        }
        let (wanted, base) = found.ok_or_else(|| StoreError::no_thread(thread))?;
        if wanted == 0 {
            return Ok(loaded);
        }
        let base = base.ok_or_else(|| StoreError::no_entry(wanted))?;
        loaded.entries.sort_by_key(|entry| entry.seq);
        loaded.entries = entries_leading_to(loaded.entries, wanted);
        // `gc` may have deleted entries that an abandoned branch depends on.
        let whole = match loaded.snapshot.as_ref().map(|(seq, _)| *seq) {
            Some(seq) if seq == wanted => true,
            Some(seq) => loaded.entries.first().is_some_and(|first| first.parent == seq),
            None => base == 0 && loaded.entries.first().is_some_and(|first| first.parent == 0),
        };
        if whole { Ok(loaded) } else { Err(StoreError::no_entry(wanted)) }
    }

    async fn entries(
        &self,
        thread: &ThreadKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        // Every row includes the thread. A thread without entries gives one row, a missing thread none.
        let sql = "
            select e.seq::int8, coalesce(e.parent, e.seq - 1)::int8 as parent, e.base::int8, e.run, e.at, e.kind, e.body
            from threads t left join lateral (
                select * from entries e where e.number = t.number and e.seq > $3::int8 order by e.seq limit $4
            ) e on true
            where t.tenant = $1 and t.thread = $2 order by e.seq";
        let params: SqlParams<'_> =
            &[&thread.tenant.as_str(), &thread.thread.as_str(), &to_i64(after), &limit_to_i64(limit)];
        let rows = self.pool.read(StatementSubject::Thread(thread), sql, params).await?;
        if rows.is_empty() {
            return Err(StoreError::no_thread(thread));
        }
        let mut entries = Vec::with_capacity(rows.len());
        for row in &rows {
            if get_column::<Option<i64>>(row, "seq")?.is_some() {
                entries.push(entry_from_row(row)?);
            }
        }
        Ok(entries)
    }

    async fn run(&self, run: &RunKey) -> Result<RunRow, StoreError> {
        let sql = "select * from runs where tenant = $1 and run = $2";
        let rows = self
            .pool
            .read(StatementSubject::Run(run), sql, &[&run.tenant.as_str(), &run.run.as_uuid()])
            .await?;
        rows.first().map(run_row).unwrap_or_else(|| Err(StoreError::no_run(run)))
    }

    async fn run_positions(&self, runs: &[RunKey]) -> Result<Vec<Option<RunPosition>>, StoreError> {
        let sql =
            "select a.i, r.status, r.epoch, (case when r.first_seq is null then 0 else coalesce(r.last_seq,
                (select max(e.seq) from entries e where e.number = r.number), 0) end)::int8 as head
            from unnest($1::text[], $2::uuid[]) with ordinality as a (tenant, run, i)
            join runs r on r.tenant = a.tenant and r.run = a.run";
        let tenants: Vec<&str> = runs.iter().map(|run| run.tenant.as_str()).collect();
        let ids: Vec<Uuid> = runs.iter().map(|run| run.run.as_uuid()).collect();
        let rows = self.pool.read(StatementSubject::Everything, sql, &[&tenants, &ids]).await?;
        results_in_request_order(runs.len(), &rows, |row| {
            Ok(RunPosition {
                status: decode_code(get_column(row, "status")?, RunStatus::from_code)?,
                epoch: to_u64(get_column(row, "epoch")?)?,
                head: to_u64(get_column(row, "head")?)?,
            })
        })
    }

    async fn runs(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let sql = match filter.thread {
            None => {
                "select * from runs where tenant = $1 and ($2::text is null or thread = $2)
                 and ($3::int2 is null or status = $3) and ($4::uuid is null or run < $4) order by run desc limit $5"
            }
            Some(_) => {
                "select * from runs where number = (select number from threads where tenant = $1 and thread = $2)
                 and ($3::int2 is null or status = $3) and ($4::uuid is null or run < $4) order by run desc limit $5"
            }
        };
        let thread = filter.thread.as_ref().map(|thread| thread.as_str());
        let status = filter.status.map(|status| i16::from(status.code()));
        let before = filter.before.map(|run| run.as_uuid());
        let params: SqlParams<'_> =
            &[&tenant.as_str(), &thread, &status, &before, &limit_to_i64(filter.limit)];
        let rows = self.pool.read(StatementSubject::Everything, sql, params).await?;
        rows.iter().map(run_row).collect()
    }

    async fn deleted_usage(&self, tenant: &TenantId, since: Millis) -> Result<Vec<DeletedUsage>, StoreError> {
        let sql =
            "select at, graph, runs, input_tokens, output_tokens, cost_micros, is_exact from deleted_usage
            where tenant = $1 and at >= to_timestamp($2::int8 / 1000.0) order by at, graph";
        let rows = self.pool.read(StatementSubject::Everything, sql, &[&tenant.as_str(), &since]).await?;
        rows.iter().map(deleted_usage_row).collect()
    }

    async fn thread(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        let params: SqlParams<'_> = &[&thread.tenant.as_str(), &thread.thread.as_str()];
        let rows = self.pool.read(StatementSubject::Thread(thread), THREAD_SQL, params).await?;
        rows.first().map(thread_row).unwrap_or_else(|| Err(StoreError::no_thread(thread)))
    }

    async fn thread_before_write(&self, thread: &ThreadKey) -> Result<ThreadRow, StoreError> {
        let params: SqlParams<'_> = &[&thread.tenant.as_str(), &thread.thread.as_str()];
        let rows = self.pool.read_visible(StatementSubject::Thread(thread), THREAD_SQL, params).await?;
        rows.first().map(thread_row).unwrap_or_else(|| Err(StoreError::no_thread(thread)))
    }

    async fn threads(&self, tenant: &TenantId, filter: &ThreadFilter) -> Result<Vec<ThreadRow>, StoreError> {
        check_metadata(&filter.metadata)?;
        let (tenant, offset, limit) =
            (tenant.as_str(), limit_to_i64(filter.offset), limit_to_i64(filter.limit));
        let after = filter.after.as_ref();
        let (changed, name) =
            after.map(|after| (from_unix_millis(after.updated_at), after.thread.as_str())).unzip();
        if !filter.metadata.is_empty() {
            return self.threads_with_pairs(tenant, filter).await;
        }
        // The index over changes has a resolution of one minute. Few threads share a minute.
        let rows = if after.is_some() {
            let sql = concat!(
                "select ",
                thread_columns!(),
                " from threads t where tenant = $1
                and changed_in <= date_trunc('minute', $4::timestamptz at time zone 'UTC')
                and (date_trunc('milliseconds', updated_at) < $4
                    or (date_trunc('milliseconds', updated_at) = $4 and thread > $5::text collate \"C\"))
                order by changed_in desc, date_trunc('milliseconds', updated_at) desc, thread offset $2 limit $3"
            );
            let params: SqlParams<'_> = &[&tenant, &offset, &limit, &changed, &name];
            self.pool.read(StatementSubject::Everything, sql, params).await?
        } else {
            let sql = concat!(
                "select ",
                thread_columns!(),
                " from threads t where tenant = $1
                order by changed_in desc, date_trunc('milliseconds', updated_at) desc, thread offset $2 limit $3"
            );
            let params: SqlParams<'_> = &[&tenant, &offset, &limit];
            self.pool.read(StatementSubject::Everything, sql, params).await?
        };
        rows.iter().map(thread_row).collect()
    }
}

/// Whether thread `t` has all pairs of a filter, and comes after the last thread of the page before.
macro_rules! has_pairs_after {
    () => {
        "(select count(*) from unnest($4::bytea[], $5::bytea[]) as w (k, v)
            join unnest(t.meta_keys, t.meta_vals) as m (k, v) on m.k = w.k and m.v = w.v) = cardinality($4::bytea[])
        and ($6::timestamptz is null or date_trunc('milliseconds', updated_at) < $6
            or (date_trunc('milliseconds', updated_at) = $6 and t.thread > $7::text collate \"C\"))"
    };
}

impl PostgresStore {
    /// Threads by their metadata.
    async fn threads_with_pairs(
        &self,
        tenant: &str,
        filter: &ThreadFilter,
    ) -> Result<Vec<ThreadRow>, StoreError> {
        let (offset, limit) = (limit_to_i64(filter.offset), limit_to_i64(filter.limit));
        let after = filter.after.as_ref();
        let (changed, name) =
            after.map(|after| (from_unix_millis(after.updated_at), after.thread.as_str())).unzip();
        let keys: Vec<&[u8]> = filter.metadata.keys().map(String::as_bytes).collect();
        let values: Vec<Vec<u8>> =
            filter.metadata.values().map(|value| canonical_json(value).into_bytes()).collect();
        // A pair that fewer than 1000 threads have leads to them. Otherwise some are found soon in the list of all.
        let rows = if let Some(pair) = self.find_rare_pair(tenant, &keys, &values).await? {
            let sql = concat!(
                "select ",
                thread_columns!(),
                " from (select p.thread from thread_pairs p where p.tenant = $1 and p.pair = $8
                    order by p.thread limit 2000) p
                join threads t on t.tenant = $1 and t.thread = p.thread where ",
                has_pairs_after!(),
                " order by date_trunc('milliseconds', updated_at) desc, t.thread offset $2 limit $3"
            );
            let params: SqlParams<'_> = &[&tenant, &offset, &limit, &keys, &values, &changed, &name, &pair];
            self.pool.read(StatementSubject::Everything, sql, params).await?
        } else {
            let sql = concat!(
                "select ",
                thread_columns!(),
                " from threads t where tenant = $1
                and changed_in <= coalesce(date_trunc('minute', $6::timestamptz at time zone 'UTC'), 'infinity') and ",
                has_pairs_after!(),
                " order by changed_in desc, date_trunc('milliseconds', updated_at) desc, thread offset $2 limit $3"
            );
            let params: SqlParams<'_> = &[&tenant, &offset, &limit, &keys, &values, &changed, &name];
            self.pool.read(StatementSubject::Everything, sql, params).await?
        };
        rows.iter().map(thread_row).collect()
    }

    /// The digest of a pair that fewer than 1000 threads have.
    async fn find_rare_pair(
        &self,
        tenant: &str,
        keys: &[&[u8]],
        values: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        // The order makes the server go by the index, whatever it believes of the pair.
        let sql = "
            select pair from unnest($2::bytea[], $3::bytea[]) as w (k, v), lateral (select pair_digest(w.k, w.v) as pair) d
            where (select count(*) from (select 1 from thread_pairs p where p.tenant = $1 and p.pair = d.pair
                order by p.thread limit 1000) f) < 1000
            limit 1";
        let params: SqlParams<'_> = &[&tenant, &keys, &values];
        let rows = self.pool.read(StatementSubject::Everything, sql, params).await?;
        rows.first().map(|row| get_column(row, "pair")).transpose()
    }
}

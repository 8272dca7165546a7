//! The most frequent writes, batched: one statement handles many runs. There are three kinds: starting a run on a
//! free thread, a step, and the end of a run.
//!
//! A statement handles the runs it can and returns which ones it handled. The others go through the general SQL
//! function, which handles every case and reports errors. Session settings (see `url`) make the planner look up each
//! run by its key.

use std::time::SystemTime;

use doran_engine::failpoint::mutant;
use doran_engine::id::RunId;
use doran_engine::store::{
    Commit, CommitOutcome, CommitPosition, Durability, Fence, InputDurability, NewEntry, NewRun, NewStatus,
    RunStatus, StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::error::{StatementSubject, damaged};
use super::pool::PostgresPool;
use super::row::{canonical_json, get_column, to_bounded_millis, to_i64, unix_millis};
use super::wal_flush::LogEffect;
use super::write_batcher::BatchWriter;

/// Batches steps that append one entry and nothing else.
pub(super) struct StepBatchWriter(pub(super) PostgresPool);

/// One such step.
pub(super) struct StepWrite {
    pub(super) fence: Fence,
    pub(super) head: u64,
    pub(super) entry: NewEntry,
    pub(super) durability: Durability,
}

impl BatchWriter for StepBatchWriter {
    type Item = StepWrite;
    type Done = CommitOutcome;

    fn byte_size(item: &StepWrite) -> usize {
        item.entry.body.len()
    }

    async fn write_batch(&self, steps: &[StepWrite]) -> Result<Vec<Option<CommitOutcome>>, StoreError> {
        let who = FenceColumns::from_fences(steps.iter().map(|step| &step.fence));
        let heads: Vec<i64> = steps.iter().map(|step| to_i64(step.head)).collect();
        let parents: Vec<Option<i64>> = steps.iter().map(|step| step.entry.parent.map(to_i64)).collect();
        let bases: Vec<i64> = steps.iter().map(|step| to_i64(step.entry.base)).collect();
        let kinds: Vec<i16> = steps.iter().map(|step| i16::from(step.entry.kind.code())).collect();
        let bodies: Vec<&[u8]> = steps.iter().map(|step| step.entry.body.as_slice()).collect();
        // The rows of the runs are locked, so a takeover happens either before (the epoch no longer matches) or
        // after. Rows that somebody else has locked are skipped, here and below, and go through their own statement.
        // The others do not wait for them.
        let sql = "with asked as materialized (
                select * from unnest($1::text[], $2::text[], $3::uuid[], $4::int8[], $5::int8[], $6::int8[], $7::int8[],
                    $8::int2[], $9::bytea[])
                with ordinality as a (tenant, thread, run, epoch, head, parent, base, kind, body, i)
            ), held as materialized (
                select a.*, r.number, r.cancel_asked from asked a cross join lateral (
                    select number, cancel_asked from runs
                    where tenant = a.tenant and run = a.run and thread = a.thread and epoch = a.epoch and status = 2
                        and owner is not null
                    for no key update skip locked) r
            ), written as (
                insert into entries (number, seq, parent, base, run, at, kind, body)
                select h.number, h.head + 1, nullif(h.parent, h.head), h.base, h.run, clock_timestamp(), h.kind, h.body
                from held h
                where h.head = (select coalesce(max(e.seq), 0) from entries e where e.number = h.number)
                returning number, at
            )
            select h.i, h.head + 1 as last, w.at, h.cancel_asked, false as next_waits,
                case when $10::bool then set_config('synchronous_commit', 'off', true) end
            from written w join held h on h.number = w.number";
        // The batch waits for the disk if one of its steps does.
        let all_later = steps.iter().all(|step| step.durability == Durability::Later);
        let params: &[&(dyn ToSql + Sync)] = &[
            &who.tenants,
            &who.threads,
            &who.runs,
            &who.epochs,
            &heads,
            &parents,
            &bases,
            &kinds,
            &bodies,
            &all_later,
        ];
        let effect = if all_later { LogEffect::Later } else { LogEffect::Flushed };
        let (rows, position) =
            self.0.write_with_position(StatementSubject::Everything, sql, params, effect).await?;
        results_in_request_order(steps.len(), &rows, |row| committed_from_row(row, position))
    }
}

/// Batches ends of runs that only write their last entries.
pub(super) struct RunEndBatchWriter(pub(super) PostgresPool);

/// One such end.
pub(super) struct RunEndWrite {
    pub(super) fence: Fence,
    pub(super) commit: Commit,
}

impl RunEndWrite {
    /// Whether the commit can be batched as an end of a run.
    pub(super) fn is_plain_end(commit: &Commit) -> bool {
        let ends = matches!(
            commit.status,
            Some(NewStatus { status: RunStatus::Finished | RunStatus::Cancelled, error: None })
        );
        let plain = commit.entries.iter().all(|entry| entry.snapshot.is_none());
        ends && plain && !commit.entries.is_empty() && !mutant("ignore_fence")
    }

    fn last_seq(&self) -> u64 {
        self.commit.head + self.commit.entries.len() as u64
    }

    fn status_code(&self) -> i16 {
        self.commit.status.as_ref().map_or(0, |new| i16::from(new.status.code()))
    }
}

impl BatchWriter for RunEndBatchWriter {
    type Item = RunEndWrite;
    type Done = CommitOutcome;

    fn byte_size(item: &RunEndWrite) -> usize {
        item.commit.entries.iter().map(|entry| entry.body.len()).sum()
    }

    async fn write_batch(&self, ends: &[RunEndWrite]) -> Result<Vec<Option<CommitOutcome>>, StoreError> {
        let who = FenceColumns::from_fences(ends.iter().map(|end| &end.fence));
        let heads: Vec<i64> = ends.iter().map(|end| to_i64(end.commit.head)).collect();
        let lasts: Vec<i64> = ends.iter().map(|end| to_i64(end.last_seq())).collect();
        let states: Vec<i16> = ends.iter().map(RunEndWrite::status_code).collect();
        let steps: Vec<i64> = ends.iter().map(|end| i64::from(end.commit.steps)).collect();
        let inputs: Vec<i64> = ends.iter().map(|end| to_i64(end.commit.usage.input_tokens)).collect();
        let outputs: Vec<i64> = ends.iter().map(|end| to_i64(end.commit.usage.output_tokens)).collect();
        let costs: Vec<i64> = ends.iter().map(|end| to_i64(end.commit.usage.cost_micros)).collect();
        let entries = || {
            (1_i64..).zip(ends).flat_map(|(i, end)| {
                (end.commit.head + 1..).zip(&end.commit.entries).map(move |(seq, entry)| (i, seq, entry))
            })
        };
        let of: Vec<i64> = entries().map(|(i, _, _)| i).collect();
        let seqs: Vec<i64> = entries().map(|(_, seq, _)| to_i64(seq)).collect();
        let parents: Vec<Option<i64>> = entries().map(|(_, _, entry)| entry.parent.map(to_i64)).collect();
        let bases: Vec<i64> = entries().map(|(_, _, entry)| to_i64(entry.base)).collect();
        let kinds: Vec<i16> = entries().map(|(_, _, entry)| i16::from(entry.kind.code())).collect();
        let bodies: Vec<&[u8]> = entries().map(|(_, _, entry)| entry.body.as_slice()).collect();
        // Threads are locked before runs, as everywhere. The time is read after the locks are taken.
        let sql = "with asked as materialized (
                select * from unnest($1::text[], $2::text[], $3::uuid[], $4::int8[], $5::int8[], $6::int8[], $7::int2[],
                    $8::int8[], $9::int8[], $10::int8[], $11::int8[])
                with ordinality as a (tenant, thread, run, epoch, head, last, status, steps, input, output, cost, i)
            ), locked as materialized (
                select a.i from asked a cross join lateral (
                    select 1 from threads where tenant = a.tenant and thread = a.thread
                    for no key update skip locked) t
            ), held as materialized (
                select a.*, r.number, r.cancel_asked from locked l join asked a on a.i = l.i cross join lateral (
                    select number, cancel_asked from runs
                    where tenant = a.tenant and run = a.run and thread = a.thread and epoch = a.epoch and status = 2
                        and owner is not null
                    for no key update skip locked) r
            ), ending as materialized (
                -- If a run waits for the thread, the end is written alone, with the claim of that run.
                select h.*, clock_timestamp() as at from held h
                where h.head = (select coalesce(max(e.seq), 0) from entries e where e.number = h.number)
                    and next_queued(h.tenant, h.thread) is null
            ), written as (
                insert into entries (number, seq, parent, base, run, at, kind, body)
                select f.number, n.seq, nullif(n.parent, n.seq - 1), n.base, f.run, f.at, n.kind, n.body
                from unnest($12::int8[], $13::int8[], $14::int8[], $15::int8[], $16::int2[], $17::bytea[])
                    as n (i, seq, parent, base, kind, body)
                join ending f on f.i = n.i
            ), rested as (
                update threads t set
                    head = f.last, updated_at = f.at, active = null, ready = null
                from ending f where t.tenant = f.tenant and t.thread = f.thread
                returning t.number
            ), ended as (
                update runs r set
                    status = f.status, steps = r.steps + f.steps,
                    input_tokens = r.input_tokens + least(f.input, 9223372036854775807 - r.input_tokens),
                    output_tokens = r.output_tokens + least(f.output, 9223372036854775807 - r.output_tokens),
                    cost_micros = r.cost_micros + least(f.cost, 9223372036854775807 - r.cost_micros),
                    owner = null, lease_until = null, ended_at = f.at, last_seq = f.last
                from ending f where r.tenant = f.tenant and r.run = f.run
            ), cleared as (
                delete from records n using ending f where n.tenant = f.tenant and n.run = f.run
            )
            select f.i, f.last, f.at, f.cancel_asked, false as next_waits
            from ending f join rested t on t.number = f.number";
        let params: &[&(dyn ToSql + Sync)] = &[
            &who.tenants,
            &who.threads,
            &who.runs,
            &who.epochs,
            &heads,
            &lasts,
            &states,
            &steps,
            &inputs,
            &outputs,
            &costs,
            &of,
            &seqs,
            &parents,
            &bases,
            &kinds,
            &bodies,
        ];
        let (rows, position) =
            self.0.write_with_position(StatementSubject::Everything, sql, params, LogEffect::Flushed).await?;
        results_in_request_order(ends.len(), &rows, |row| committed_from_row(row, position))
    }
}

/// Batches runs that start at once, on a new or free thread.
pub(super) struct RunStartBatchWriter(pub(super) PostgresPool);

/// Where such a run starts.
pub(super) struct BatchedRunStart {
    pub(super) head: u64,
    pub(super) at: i64,
    pub(super) parent_writer: Option<RunId>,
    pub(super) position: CommitPosition,
}

/// Whether a run can be batched as a start: it continues from the newest entry, is claimed by a worker, and has no
/// idempotency key.
pub(super) fn is_plain_start(new: &NewRun) -> bool {
    new.claim.is_some() && new.first.parent.is_none() && new.idempotency.is_none()
}

impl BatchWriter for RunStartBatchWriter {
    type Item = NewRun;
    type Done = BatchedRunStart;

    fn byte_size(item: &NewRun) -> usize {
        item.first.body.len() + item.options.len()
    }

    async fn write_batch(&self, starts: &[NewRun]) -> Result<Vec<Option<BatchedRunStart>>, StoreError> {
        let tenants: Vec<&str> = starts.iter().map(|new| new.thread.tenant.as_str()).collect();
        let threads: Vec<&str> = starts.iter().map(|new| new.thread.thread.as_str()).collect();
        let runs: Vec<Uuid> = starts.iter().map(|new| new.run.as_uuid()).collect();
        let graphs: Vec<&[u8]> = starts.iter().map(|new| new.graph.as_bytes()).collect();
        let prints: Vec<&[u8]> = starts.iter().map(|new| new.fingerprint.as_bytes()).collect();
        let kinds: Vec<i16> = starts.iter().map(|new| i16::from(new.first.kind.code())).collect();
        let bodies: Vec<&[u8]> = starts.iter().map(|new| new.first.body.as_slice()).collect();
        let metadata: Vec<Vec<u8>> = starts
            .iter()
            .map(|new| serde_json::to_vec(&new.metadata).map_err(|error| StoreError::Other(error.into())))
            .collect::<Result<_, _>>()?;
        let options: Vec<&[u8]> = starts.iter().map(|new| new.options.as_slice()).collect();
        let ranks: Vec<i16> = starts.iter().map(queue_rank).collect();
        let workers: Vec<Option<&[u8]>> =
            starts.iter().map(|new| new.claim.as_ref().map(|claim| claim.worker.as_bytes())).collect();
        let leases: Vec<i64> = starts
            .iter()
            .map(|new| new.claim.as_ref().map_or(0, |claim| to_bounded_millis(claim.lease)))
            .collect();
        let pairs =
            || (1_i64..).zip(starts).flat_map(|(i, new)| new.thread_pairs().map(move |pair| (i, pair)));
        let of: Vec<i64> = pairs().map(|(i, _)| i).collect();
        let names: Vec<&[u8]> = pairs().map(|(_, (name, _))| name.as_bytes()).collect();
        let values: Vec<Vec<u8>> =
            pairs().map(|(_, (_, value))| canonical_json(value).into_bytes()).collect();
        // Skips threads that have an active or queued run or lack one of the metadata keys. A new thread gets the
        // same creation and change time.
        let sql = "with asked as materialized (
                select * from unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[], $5::bytea[], $6::int2[], $7::bytea[],
                    $8::bytea[], $9::bytea[], $10::int2[], $11::bytea[], $12::int8[])
                with ordinality as a (tenant, thread, run, graph, print, kind, body, metadata, options, rank, worker,
                    lease, i)
            ), named as materialized (
                select * from unnest($13::int8[], $14::bytea[], $15::bytea[]) as n (i, name, value)
            ), open as materialized (
                select a.i from asked a
                where not exists (select 1 from threads t where t.tenant = a.tenant and t.thread = a.thread)
                union all
                select a.i from asked a cross join lateral (
                    select 1 from threads where tenant = a.tenant and thread = a.thread
                    for no key update skip locked) t
            ), moment as materialized (
                select clock_timestamp() as at from (select count(*) from open) o
            ), made as (
                insert into threads as t (tenant, thread, head, active, created_at, updated_at, meta_keys, meta_vals)
                select a.tenant, a.thread, 1, a.run, m.at, m.at,
                    coalesce((select array_agg(n.name order by n.name) from named n where n.i = a.i), '{}'),
                    coalesce((select array_agg(n.value order by n.name) from named n where n.i = a.i), '{}')
                from open o join asked a on a.i = o.i cross join moment m
                order by a.tenant, a.thread
                on conflict (tenant, thread) do update set
                    head = t.head + 1, active = excluded.active,
                    updated_at = greatest(clock_timestamp(), t.created_at + interval '1 microsecond')
                where t.active is null and t.meta_keys @> excluded.meta_keys and t.ready is null
                returning t.number, t.head, t.active, t.updated_at as at, t.created_at = t.updated_at as new
            ), placed as (
                insert into entries (number, seq, base, run, at, kind, body)
                select m.number, m.head,
                    case when m.head = 1 then 0 else base_after(m.number, m.head - 1) end, a.run, m.at, a.kind, a.body
                from made m join asked a on a.run = m.active
            ), paired as (
                insert into thread_pairs (tenant, pair, thread)
                select a.tenant, pair_digest(n.name, n.value), a.thread
                from made m join asked a on a.run = m.active join named n on n.i = a.i where m.new
            ), begun as (
                insert into runs (tenant, run, thread, number, graph, fingerprint, status, epoch, owner, lease_until,
                    created_at, started_at, metadata, options, rank, first_seq, parent_seq)
                select a.tenant, a.run, a.thread, m.number, a.graph, a.print, 2, 1, a.worker,
                    m.at + a.lease * interval '1 millisecond', m.at, m.at, a.metadata, a.options, a.rank, m.head,
                    m.head - 1
                from made m join asked a on a.run = m.active
            )
            select a.i, m.head as last, m.at,
                (select e.run from entries e where e.number = m.number and e.seq = m.head - 1) as parent_writer,
                case when $16::bool then set_config('synchronous_commit', 'off', true) end
            from made m join asked a on a.run = m.active";
        // The batch waits for the disk if somebody waits for one of its inputs. A run that is lost was never told of, and
        // nobody can start another one of its id.
        let all_later = starts.iter().all(|new| new.durability == InputDurability::Later);
        let params: &[&(dyn ToSql + Sync)] = &[
            &tenants, &threads, &runs, &graphs, &prints, &kinds, &bodies, &metadata, &options, &ranks,
            &workers, &leases, &of, &names, &values, &all_later,
        ];
        let effect = if all_later { LogEffect::Later } else { LogEffect::Flushed };
        let (rows, position) =
            self.0.write_with_position(StatementSubject::Everything, sql, params, effect).await?;
        results_in_request_order(starts.len(), &rows, |row| {
            let parent_writer = get_column::<Option<Uuid>>(row, "parent_writer")?.map(RunId::from_uuid);
            let (head, at) = (last_seq_from_row(row)?, time_from_row(row)?);
            Ok(BatchedRunStart { head, at, parent_writer, position })
        })
    }
}

/// Runs submitted with `Interrupt` or `Rollback` go before enqueued ones.
fn queue_rank(new: &NewRun) -> i16 {
    use doran_engine::store::IfBusy::{Enqueue, Interrupt, Reject, Rollback};
    match new.if_busy {
        Reject | Enqueue => 1,
        Interrupt | Rollback => 0,
    }
}

/// Fences as one array per column.
struct FenceColumns<'a> {
    tenants: Vec<&'a str>,
    threads: Vec<&'a str>,
    runs: Vec<Uuid>,
    epochs: Vec<i64>,
}

impl<'a> FenceColumns<'a> {
    fn from_fences(fences: impl Iterator<Item = &'a Fence> + Clone) -> Self {
        Self {
            tenants: fences.clone().map(|fence| fence.thread.tenant.as_str()).collect(),
            threads: fences.clone().map(|fence| fence.thread.thread.as_str()).collect(),
            runs: fences.clone().map(|fence| fence.run.as_uuid()).collect(),
            epochs: fences.map(|fence| to_i64(fence.epoch)).collect(),
        }
    }
}

/// Puts results in the order of the requests, by their column `i`. A request without a row was not handled.
pub(super) fn results_in_request_order<T>(
    count: usize,
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Vec<Option<T>>, StoreError> {
    let mut answers: Vec<Option<T>> = std::iter::repeat_with(|| None).take(count).collect();
    for row in rows {
        let place = usize::try_from(get_column::<i64>(row, "i")?).ok().and_then(|i| i.checked_sub(1));
        let place = place.and_then(|place| answers.get_mut(place));
        *place.ok_or_else(|| damaged("an answer to no question"))? = Some(read(row)?);
    }
    Ok(answers)
}

fn committed_from_row(row: &Row, position: CommitPosition) -> Result<CommitOutcome, StoreError> {
    Ok(CommitOutcome {
        head: last_seq_from_row(row)?,
        at: time_from_row(row)?,
        cancel_asked: get_column(row, "cancel_asked")?,
        next_waits: get_column(row, "next_waits")?,
        next: None,
        position,
    })
}

fn last_seq_from_row(row: &Row) -> Result<u64, StoreError> {
    u64::try_from(get_column::<i64>(row, "last")?).map_err(damaged)
}

fn time_from_row(row: &Row) -> Result<i64, StoreError> {
    Ok(unix_millis(get_column::<SystemTime>(row, "at")?))
}

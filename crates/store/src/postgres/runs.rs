//! Operations on runs: submitting, claiming, writing and ending them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use doran_engine::failpoint::{hit, mutant};
use doran_engine::id::{RunId, RunKey, ThreadKey};
use doran_engine::store::{
    ClaimedRun, Commit, CommitOutcome, CommitPosition, Fence, HistoryStore, IfBusy, LeaseRenewal, NewRun,
    Record, RunRow, RunSignal, RunStatus, RunStore, SignalOutcome, StoreError, SubmitOutcome, WorkerLease,
    check_metadata,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PostgresStore;
use super::batched_writes::{BatchedRunStart, RunEndWrite, StepWrite, is_plain_start};
use super::error::{StatementSubject, damaged, unavailable};
use super::pool::SqlParams;
use super::row::{
    canonical_json, get_column, records_from_row, run_row, stage_code, to_bounded_millis, to_i64, to_u64,
    unix_millis,
};
use super::wal_flush::LogEffect;

/// Whether new transactions of this session may write. They may not on a standby, or where the role or the database says so.
const IS_READ_ONLY_SQL: &str = "select current_setting('transaction_read_only')::bool";

/// Calls a function that tells a run something, and claims the run of the thread that waits then. The first row is the run
/// as the function left it, the second the claimed one.
macro_rules! signal_sql {
    ($function:literal) => {
        concat!(
            "with told as materialized (select r as run from ",
            $function,
            " r), taken as materialized (
                select c.* from told t cross join lateral claim_runs($1::bytea, $2, (t.run).tenant, (t.run).thread,
                    case when $1::bytea is null then 0 else 1 end, $3) c
            )
            select (a.run).*, a.o_head, a.o_paths, a.o_keys, a.o_stages, a.o_bodies from (
                select 1 as place, t.run, null::int8 as o_head, null::bytea[] as o_paths, null::bytea[] as o_keys,
                    null::int2[] as o_stages, null::bytea[] as o_bodies
                from told t
                union all
                select 2, c.o_run, c.o_head, c.o_paths, c.o_keys, c.o_stages, c.o_bodies from taken c) a
            order by a.place"
        )
    };
}

#[async_trait]
impl RunStore for PostgresStore {
    async fn submit(&self, run: NewRun) -> Result<SubmitOutcome, StoreError> {
        check_metadata(&run.metadata)?;
        check_metadata(&run.thread_metadata)?;
        self.pool.refuse_newer_format().await?;
        hit("submit.before_commit");
        let run = if is_plain_start(&run) {
            let row = run.queued_row(0);
            match self.start_batcher.write(run).await? {
                Ok(BatchedRunStart { head, at, parent_writer, position }) => {
                    hit("submit.after_commit");
                    let run = RunRow {
                        status: RunStatus::Running,
                        epoch: 1,
                        created_at: at,
                        started_at: Some(at),
                        first_seq: Some(head),
                        parent_seq: Some(head - 1),
                        ..row
                    };
                    let records = Vec::new();
                    return Ok(SubmitOutcome::Started(ClaimedRun {
                        run,
                        head,
                        records,
                        parent_writer,
                        position,
                    }));
                }
                Err(back) => back,
            }
        } else {
            run
        };
        let if_busy: i16 = match run.if_busy {
            IfBusy::Reject => 0,
            IfBusy::Enqueue => 1,
            IfBusy::Interrupt => 2,
            IfBusy::Rollback => 3,
        };
        let key = run.idempotency.as_ref().map(|named| named.key.as_str());
        let hash = run.idempotency.as_ref().map(|named| named.hash.as_bytes());
        let metadata = serde_json::to_vec(&run.metadata).map_err(|error| StoreError::Other(error.into()))?;
        let (names, values): (Vec<&[u8]>, Vec<Vec<u8>>) = run
            .thread_pairs()
            .map(|(name, value)| (name.as_bytes(), canonical_json(value).into_bytes()))
            .unzip();
        let row = self
            .pool
            .write(
                StatementSubject::Submit(&run.thread, key.unwrap_or_default()),
                "select o_outcome, (o_run).*, o_head, o_stop from submit_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
                 $11, $12, $13, $14, $15, $16, $17, $18)",
                &[
                    &run.thread.tenant.as_str(),
                    &run.thread.thread.as_str(),
                    &run.run.as_uuid(),
                    &run.graph.as_bytes(),
                    &run.fingerprint.as_bytes(),
                    &i16::from(run.first.kind.code()),
                    &run.first.body,
                    &run.first.parent.map(to_i64),
                    &if_busy,
                    &key.map(str::as_bytes),
                    &hash,
                    &metadata,
                    &run.options,
                    &run.stop_body,
                    &run.claim.as_ref().map(|claim| claim.worker.as_bytes()),
                    &run.claim.as_ref().map_or(0, |claim| to_bounded_millis(claim.lease)),
                    &names,
                    &values,
                ],
            )
            .await?;
        hit("submit.after_commit");
        let accepted = run_row(&row)?;
        Ok(match get_column::<i16>(&row, "o_outcome")? {
            1 => SubmitOutcome::Started(ClaimedRun {
                run: accepted,
                head: to_u64(get_column(&row, "o_head")?)?,
                records: Vec::new(),
                parent_writer: None,
                position: CommitPosition::default(),
            }),
            2 => SubmitOutcome::Queued {
                run: accepted,
                stop: get_column::<Option<Uuid>>(&row, "o_stop")?.map(RunId::from_uuid),
            },
            3 => SubmitOutcome::Repeated(accepted),
            other => return Err(damaged(format!("outcome {other}"))),
        })
    }

    async fn claim(
        &self,
        claim: &WorkerLease,
        only: Option<&ThreadKey>,
        limit: usize,
    ) -> Result<Vec<ClaimedRun>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        self.pool.refuse_newer_format().await?;
        // A larger batch would hold the locks of that many threads until all are written.
        let limit = i32::try_from(limit.min(1000)).unwrap_or(1000);
        let ClaimParameters { worker, lease, graphs } = ClaimParameters::of(claim);
        let rows = self
            .pool
            .write_returning_rows(
                StatementSubject::Everything,
                "select (o_run).*, o_head, o_paths, o_keys, o_stages, o_bodies from claim_runs($1, $2, $3, $4, $5, $6)",
                &[
                    &worker,
                    &lease,
                    &only.map(|key| key.tenant.as_str()),
                    &only.map(|key| key.thread.as_str()),
                    &limit,
                    &graphs,
                ],
            )
            .await?;
        if !rows.is_empty() {
            hit("worker.after_claim");
        }
        rows.iter().map(claimed_run).collect()
    }

    async fn renew(&self, claim: &WorkerLease, fences: &[Fence]) -> Result<Vec<LeaseRenewal>, StoreError> {
        if fences.is_empty() {
            return Ok(Vec::new());
        }
        let tenants: Vec<&str> = fences.iter().map(|fence| fence.thread.tenant.as_str()).collect();
        let threads: Vec<&str> = fences.iter().map(|fence| fence.thread.thread.as_str()).collect();
        let runs: Vec<Uuid> = fences.iter().map(|fence| fence.run.as_uuid()).collect();
        let epochs: Vec<i64> = fences.iter().map(|fence| to_i64(fence.epoch)).collect();
        hit("worker.before_renew");
        // Only rows of runs are locked, and those that somebody else has locked are passed over: one thread that is being
        // removed must not keep the leases of all others from being renewed.
        let sql = "with asked as materialized (
                select * from unnest($2::text[], $3::text[], $4::uuid[], $5::int8[])
                with ordinality as a (tenant, thread, run, epoch, i)
            ), held as materialized (
                select a.i, a.tenant, a.run, r.cancel_asked from asked a cross join lateral (
                    select cancel_asked from runs
                    where tenant = a.tenant and run = a.run and thread = a.thread and epoch = a.epoch and status = 2
                        and owner is not null
                    for no key update skip locked) r
            ), renewed as (
                update runs r set lease_until = clock_timestamp() + $1::int8 * interval '1 millisecond'
                from held h where r.tenant = h.tenant and r.run = h.run
            )
            select (case
                when h.cancel_asked then 2
                when h.i is not null then 1
                when exists (
                    select 1 from runs r where r.tenant = a.tenant and r.run = a.run and r.thread = a.thread
                        and r.epoch = a.epoch and r.status = 2 and r.owner is not null) then 4
                else 3 end)::int2 as answer
            from asked a left join held h on h.i = a.i order by a.i";
        let rows = self
            .pool
            .write_returning_rows(
                StatementSubject::Everything,
                sql,
                &[&to_bounded_millis(claim.lease), &tenants, &threads, &runs, &epochs],
            )
            .await?;
        let answer = |code| match code {
            1 => Ok(LeaseRenewal::Held),
            2 => Ok(LeaseRenewal::CancelAsked),
            3 => Ok(LeaseRenewal::Lost),
            4 => Ok(LeaseRenewal::Busy),
            other => Err(damaged(format!("answer {other}"))),
        };
        rows.iter().map(|row| get_column::<i16>(row, "answer").and_then(answer)).collect()
    }

    async fn commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let commit = match self.commit_in_batch(fence, commit).await? {
            Ok(committed) => return Ok(committed),
            Err(commit) => commit,
        };
        let kinds: Vec<i16> = commit.entries.iter().map(|entry| i16::from(entry.kind.code())).collect();
        let bodies: Vec<&[u8]> = commit.entries.iter().map(|entry| entry.body.as_slice()).collect();
        let parents: Vec<Option<i64>> = commit.entries.iter().map(|entry| entry.parent.map(to_i64)).collect();
        let bases: Vec<i64> = commit.entries.iter().map(|entry| to_i64(entry.base)).collect();
        let kept = (commit.head + 1..).zip(&commit.entries);
        let (snapshot_seqs, snapshots): (Vec<i64>, Vec<&[u8]>) =
            kept.filter_map(|(seq, entry)| entry.snapshot.as_deref().map(|body| (to_i64(seq), body))).unzip();
        let notes = newest_record_per_key(&commit.records);
        let paths: Vec<&[u8]> = notes.iter().map(|record| record.path.as_bytes()).collect();
        let keys: Vec<&[u8]> = notes.iter().map(|record| record.key.as_bytes()).collect();
        let stages: Vec<i16> = notes.iter().map(|record| stage_code(record.stage)).collect();
        let contents: Vec<&[u8]> = notes.iter().map(|record| record.body.as_slice()).collect();
        let error = commit.status.as_ref().and_then(|status| status.error.as_ref());
        let (epoch, head) = if mutant("ignore_fence") {
            let epoch = HistoryStore::run(self, &fence.thread.run(fence.run)).await?.epoch;
            (epoch, HistoryStore::thread(self, &fence.thread).await?.head)
        } else {
            (fence.epoch, commit.head)
        };
        let claim = match (&commit.status, &commit.claim_next) {
            (Some(_), Some(claim)) => self.claim_in_statement(claim).await,
            _ => None,
        };
        let (worker, lease, graphs) = claim.as_ref().map_or((None, 0, None), ClaimParameters::columns);
        hit("commit.before_begin");
        let (rows, position) = self
            .pool
            .write_with_position(
                StatementSubject::Thread(&fence.thread),
                // The claim looks for the run after the step is written: how many it may take depends on the step.
                "select s.o_head as last, s.o_at as at, s.o_cancel_asked as asked, s.o_next_waits as next_waits, \
                 (c.o_run).*, c.o_head, c.o_paths, c.o_keys, c.o_stages, c.o_bodies \
                 from write_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
                 $20, $21, $22, $23) s left join lateral claim_runs($24::bytea, $25, $1, $2, \
                 case when s.o_next_waits and $24::bytea is not null then 1 else 0 end, $26) c on true",
                &[
                    &fence.thread.tenant.as_str(),
                    &fence.thread.thread.as_str(),
                    &fence.run.as_uuid(),
                    &to_i64(epoch),
                    &to_i64(head),
                    &kinds,
                    &bodies,
                    &parents,
                    &bases,
                    &snapshot_seqs,
                    &snapshots,
                    &commit.clear_records,
                    &paths,
                    &keys,
                    &stages,
                    &contents,
                    &to_i64(commit.usage.input_tokens),
                    &to_i64(commit.usage.output_tokens),
                    &to_i64(commit.usage.cost_micros),
                    &i64::from(commit.steps),
                    &commit.status.as_ref().map(|status| i16::from(status.status.code())),
                    &error.map(|error| error.code.as_bytes()),
                    &error.map(|error| error.message.as_bytes()),
                    &worker,
                    &lease,
                    &graphs,
                ],
                LogEffect::Flushed,
            )
            .await?;
        let row = rows.first().ok_or_else(|| damaged("a function gave no row"))?;
        hit("commit.after_commit");
        let next = is_claimed(row)?.then(|| claimed_run(row).map(Box::new)).transpose()?;
        Ok(CommitOutcome {
            head: to_u64(get_column(row, "last")?)?,
            at: unix_millis(get_column(row, "at")?),
            cancel_asked: get_column(row, "asked")?,
            next_waits: next.is_none() && get_column(row, "next_waits")?,
            next,
            position,
        })
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.pool.refuse_newer_format().await?;
        let rows = self.pool.read_visible(StatementSubject::Everything, IS_READ_ONLY_SQL, &[]).await?;
        match rows.first().map(|row| row.try_get(0)) {
            Some(Ok(true)) => Err(unavailable("the database takes no writes: it is read-only")),
            Some(Ok(false)) => Ok(()),
            Some(Err(error)) => Err(damaged(error)),
            None => Err(damaged("a setting gave no row")),
        }
    }

    async fn wait_until_durable(&self, position: CommitPosition) -> Result<(), StoreError> {
        self.pool.wait_until_durable(position).await
    }

    async fn signal_and_claim(
        &self,
        run: &RunKey,
        signal: RunSignal,
        claim: Option<&WorkerLease>,
    ) -> Result<SignalOutcome, StoreError> {
        let claim = match claim {
            Some(claim) => self.claim_in_statement(claim).await,
            None => None,
        };
        let (worker, lease, graphs) = claim.as_ref().map_or((None, 0, None), ClaimParameters::columns);
        let (about, tenant, id) = (StatementSubject::Run(run), run.tenant.as_str(), run.run.as_uuid());
        let rows = match &signal {
            RunSignal::Cancel { body } => {
                let sql = signal_sql!("cancel_run($4, $5, $6)");
                let params: SqlParams<'_> = &[&worker, &lease, &graphs, &tenant, &id, body];
                let rows = self.pool.write_returning_rows(about, sql, params).await?;
                hit("cancel.after_commit");
                rows
            }
            RunSignal::Answer { answers, body } => {
                let paths: Vec<&[u8]> = answers.iter().map(|(path, _, _)| path.as_bytes()).collect();
                let keys: Vec<&[u8]> = answers.iter().map(|(_, key, _)| key.as_bytes()).collect();
                let given: Vec<&[u8]> = answers.iter().map(|(_, _, answer)| answer.as_slice()).collect();
                let sql = signal_sql!("answer_run($4, $5, $6, $7, $8, $9)");
                hit("answer.before_consume");
                let params: SqlParams<'_> =
                    &[&worker, &lease, &graphs, &tenant, &id, &paths, &keys, &given, body];
                let rows = self.pool.write_returning_rows(about, sql, params).await?;
                hit("answer.after_consume");
                rows
            }
            RunSignal::Edit { head, body } => {
                let sql = signal_sql!("edit_paused_run($4, $5, $6, $7)");
                let params: SqlParams<'_> = &[&worker, &lease, &graphs, &tenant, &id, &to_i64(*head), body];
                self.pool.write_returning_rows(about, sql, params).await?
            }
            RunSignal::Retry { body, fingerprint } => {
                let sql = signal_sql!("retry_run($4, $5, $6, $7)");
                let params: SqlParams<'_> =
                    &[&worker, &lease, &graphs, &tenant, &id, body, &fingerprint.as_bytes()];
                self.pool.write_returning_rows(about, sql, params).await?
            }
        };
        let row = rows.first().ok_or_else(|| damaged("a function gave no row"))?;
        let claimed = rows.get(1).map(claimed_run).transpose()?;
        Ok(SignalOutcome { run: run_row(row)?, claimed })
    }
}

/// A claim that is part of a statement.
struct ClaimParameters<'a> {
    worker: &'a [u8],
    lease: i64,
    graphs: Option<Vec<&'a [u8]>>,
}

impl<'a> ClaimParameters<'a> {
    fn of(claim: &'a WorkerLease) -> Self {
        let graphs = claim.graphs.as_ref();
        Self {
            worker: claim.worker.as_bytes(),
            lease: to_bounded_millis(claim.lease),
            graphs: graphs.map(|known| known.iter().map(String::as_bytes).collect()),
        }
    }

    fn columns(&self) -> (Option<&'a [u8]>, i64, Option<&[&'a [u8]]>) {
        (Some(self.worker), self.lease, self.graphs.as_deref())
    }
}

fn is_claimed(row: &Row) -> Result<bool, StoreError> {
    Ok(get_column::<Option<i64>>(row, "o_head")?.is_some())
}

fn claimed_run(row: &Row) -> Result<ClaimedRun, StoreError> {
    Ok(ClaimedRun {
        run: run_row(row)?,
        head: to_u64(get_column(row, "o_head")?)?,
        records: records_from_row(row)?,
        parent_writer: None,
        position: CommitPosition::default(),
    })
}

impl PostgresStore {
    /// The columns of a claim that another write makes on the way. `None` if this program is too old to take up runs.
    async fn claim_in_statement<'a>(&self, claim: &'a WorkerLease) -> Option<ClaimParameters<'a>> {
        self.pool.refuse_newer_format().await.ok()?;
        Some(ClaimParameters::of(claim))
    }

    /// Commits through a batched statement if the commit is one of the usual kinds. Returns the commit if that
    /// statement did not handle it.
    async fn commit_in_batch(
        &self,
        fence: &Fence,
        commit: Commit,
    ) -> Result<Result<CommitOutcome, Commit>, StoreError> {
        self.pool.refuse_known_newer_format()?;
        let fence = fence.clone();
        let came = if let Some(entry) = commit.as_plain_step()
            && !mutant("ignore_fence")
        {
            hit("commit.before_begin");
            let (head, durability) = (commit.head, commit.durability);
            let step = StepWrite { fence, head, entry: entry.clone(), durability };
            self.step_batcher.write(step).await?.map_err(|_| commit)
        } else if RunEndWrite::is_plain_end(&commit) {
            hit("commit.before_begin");
            self.end_batcher.write(RunEndWrite { fence, commit }).await?.map_err(|end| end.commit)
        } else {
            Err(commit)
        };
        if came.is_ok() {
            hit("commit.after_commit");
        }
        Ok(came)
    }
}

/// A statement can update a row only once, so of several records with the same key only the last is sent.
fn newest_record_per_key(records: &[Record]) -> Vec<&Record> {
    let by_name: BTreeMap<(&str, &str), &Record> =
        records.iter().map(|record| ((record.path.as_str(), record.key.as_str()), record)).collect();
    by_name.into_values().collect()
}

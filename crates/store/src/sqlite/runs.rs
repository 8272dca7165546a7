//! Operations on claimed runs: writing, resuming, cancelling and ending them.

use std::time::{Duration, Instant};

use doran_engine::failpoint::{hit, mutant};
use doran_engine::id::{RunId, RunKey, ThreadKey};
use doran_engine::store::{
    Commit, CommitOutcome, EntryKind, Fence, LeaseRenewal, NewEntry, NewStatus, RecordStage, RunFailure,
    RunRow, RunSignal, RunStatus, RunUsage, Seq, SignalOutcome, StoreError, WorkerLease,
};
use rusqlite::params;

use super::queue::{self, update_ready_ticket};
use super::rows::{
    MAX_ENTRIES_PER_THREAD, base_after, execute, find_run, find_thread, find_thread_number, get_column,
    newest, query_optional, stage_code, to_i64,
};
use super::writer::{RunLease, WriteTransaction};

pub(super) fn renew(
    tx: &mut WriteTransaction<'_>,
    claim: &WorkerLease,
    fences: &[Fence],
) -> Result<Vec<LeaseRenewal>, StoreError> {
    fences
        .iter()
        .map(|fence| {
            let Some(held) = find_held_run(tx, fence)? else { return Ok(LeaseRenewal::Lost) };
            grant_lease(tx, claim, &fence.thread, fence.run);
            Ok(if held.cancel_asked { LeaseRenewal::CancelAsked } else { LeaseRenewal::Held })
        })
        .collect()
}

pub(super) fn commit(
    tx: &mut WriteTransaction<'_>,
    fence: &Fence,
    commit: Commit,
) -> Result<CommitOutcome, StoreError> {
    if let (Some(known), Some(entry)) = (tx.state.verified_fence.take(), commit.as_plain_step())
        && known.matches_fence(fence, commit.head)
    {
        let head = commit.head + 1;
        insert_entry(tx, known.thread_number, head, Some(fence.run), entry)?;
        hit("commit.mid_write");
        tx.state.next_verified_fence = Some(VerifiedFence { head, ..known });
        let position = tx.position;
        let (at, cancel_asked, next_waits, next) = (tx.now, false, false, None);
        return Ok(CommitOutcome { head, at, cancel_asked, next_waits, next, position });
    }
    let held = find_held_run(tx, fence)?.ok_or(StoreError::Fenced)?;
    commit.check_head(held.head)?;
    if commit.status.as_ref().is_some_and(|new| new.status == RunStatus::Queued) {
        return Err(StoreError::Conflict("a run that started cannot be queued again".into()));
    }

    let mut head = held.head;
    for entry in &commit.entries {
        head += 1;
        insert_entry(tx, held.thread_number, head, Some(fence.run), entry)?;
        insert_snapshot(tx, held.thread_number, head, entry)?;
    }
    hit("commit.mid_write");
    let key = fence.thread.run(fence.run);
    if commit.clear_records {
        clear_records(tx, &key)?;
    }
    for record in &commit.records {
        let sql = "INSERT INTO records (tenant, run, path, key, stage, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT DO UPDATE SET stage = excluded.stage, body = excluded.body";
        let stage = stage_code(record.stage);
        let run = key.run.as_uuid();
        execute(
            tx.conn,
            sql,
            params![key.tenant.as_str(), run, record.path, record.key, stage, record.body],
        )?;
    }
    if commit.steps > 0 || !commit.usage.is_zero() {
        let mut usage = held.usage;
        usage += commit.usage;
        let sql = "UPDATE runs SET steps = ?2, input_tokens = ?3, output_tokens = ?4, cost_micros = ?5
                   WHERE rowid = ?1";
        let RunUsage { input_tokens, output_tokens, cost_micros } = usage;
        let steps = held.steps.saturating_add(commit.steps);
        let spent =
            params![held.run_rowid, steps, to_i64(input_tokens), to_i64(output_tokens), to_i64(cost_micros)];
        execute(tx.conn, sql, spent)?;
    }
    let ends_claim = commit.status.is_some();
    let next_waits = match commit.status {
        Some(NewStatus { status, error }) if status.is_end() => {
            end_run(tx, &key, &fence.thread, head, status, error)?
        }
        Some(NewStatus { status: RunStatus::Paused, .. }) => {
            pause_run(tx, &key, &fence.thread, held.cancel_asked)?
        }
        _ => false,
    };
    if ends_claim {
        tx.state.ended_leases.push(key);
    } else if !held.cancel_asked {
        tx.state.next_verified_fence =
            Some(VerifiedFence { fence: fence.clone(), thread_number: held.thread_number, head });
    }
    let next = match commit.claim_next {
        Some(claim) if next_waits => queue::claim(tx, &claim, Some(&fence.thread), 1)?.pop().map(Box::new),
        _ => None,
    };
    let (at, cancel_asked, position) = (tx.now, held.cancel_asked, tx.position);
    let next_waits = next_waits && next.is_none();
    Ok(CommitOutcome { head, at, cancel_asked, next_waits, next, position })
}

/// A fence that was checked, with the state of its thread. Valid until the next write by anybody else.
pub(super) struct VerifiedFence {
    fence: Fence,
    thread_number: i64,
    head: Seq,
}

impl VerifiedFence {
    fn matches_fence(&self, fence: &Fence, head: Seq) -> bool {
        self.head == head && self.fence == *fence
    }
}

pub(super) fn signal_and_claim(
    tx: &mut WriteTransaction<'_>,
    key: &RunKey,
    signal: RunSignal,
    claim: Option<&WorkerLease>,
) -> Result<SignalOutcome, StoreError> {
    let run = self::signal(tx, key, signal)?;
    let claimed = match claim {
        Some(claim) => queue::claim(tx, claim, Some(&run.thread), 1)?.pop(),
        None => None,
    };
    Ok(SignalOutcome { run, claimed })
}

fn signal(tx: &mut WriteTransaction<'_>, key: &RunKey, signal: RunSignal) -> Result<RunRow, StoreError> {
    let row = find_run(tx.conn, key)?;
    match signal {
        RunSignal::Cancel { body } => match row.status {
            RunStatus::Queued => {
                let run = key.run.as_uuid();
                let sql = "DELETE FROM queue WHERE tenant = ?1 AND thread = ?2 AND run = ?3";
                execute(tx.conn, sql, params![key.tenant.as_str(), row.thread.thread.as_str(), run])?;
                let sql = "UPDATE runs SET status = ?3, ended_at = ?4 WHERE tenant = ?1 AND run = ?2";
                execute(
                    tx.conn,
                    sql,
                    params![key.tenant.as_str(), run, RunStatus::Cancelled.code(), tx.now],
                )?;
                touch_thread(tx, &row.thread)?;
            }
            RunStatus::Running => request_cancel(tx, key)?,
            RunStatus::Paused => {
                let last = append_status_entry(tx, &row, EntryKind::Cancelled, &body)?;
                end_run(tx, &row.key(), &row.thread, last, RunStatus::Cancelled, None)?;
            }
            RunStatus::Finished | RunStatus::Failed | RunStatus::Cancelled => return Ok(row),
        },
        RunSignal::Answer { answers, body } => {
            hit("answer.before_consume");
            if row.status != RunStatus::Paused && !mutant("answer_not_consumed") {
                return Err(StoreError::Conflict(format!("run `{}` is not paused", key.run)));
            }
            for (path, name, answer) in &answers {
                answer_question(tx, key, path, name, answer)?;
            }
            append_status_entry(tx, &row, EntryKind::Resumed, &body)?;
            make_claimable(tx, key)?;
        }
        RunSignal::Edit { head, body } => {
            if row.status != RunStatus::Paused {
                return Err(StoreError::Conflict(format!("run `{}` is not paused", key.run)));
            }
            let written = append_status_entry(tx, &row, EntryKind::Paused, &body)?;
            if written != head + 1 {
                // Undoes the transaction.
                return Err(StoreError::Conflict(format!("the newest entry is {}, not {head}", written - 1)));
            }
        }
        RunSignal::Retry { body, fingerprint } => {
            if row.status != RunStatus::Failed {
                return Err(StoreError::Conflict(format!("run `{}` did not fail", key.run)));
            }
            let thread =
                find_thread(tx.conn, &row.thread)?.ok_or_else(|| StoreError::no_thread(&row.thread))?;
            if thread.active.is_some() || row.last_seq != Some(thread.head) {
                let thread = &row.thread.thread;
                return Err(StoreError::Conflict(format!(
                    "thread `{thread}` went on after run `{}`",
                    key.run
                )));
            }
            append_status_entry(tx, &row, EntryKind::Restarted, &body)?;
            let sql = "UPDATE runs SET fingerprint = ?3, cancel_asked = 0, ended_at = NULL, last_seq = NULL,
                       error_code = NULL, error_message = NULL WHERE tenant = ?1 AND run = ?2";
            execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid(), fingerprint])?;
            set_active_run(tx, &row.thread, Some(key.run))?;
            make_claimable(tx, key)?;
        }
    }
    update_ready_ticket(tx, &row.thread)?;
    find_run(tx.conn, key)
}

/// Inserts an empty thread.
pub(super) fn insert_thread(
    tx: &WriteTransaction<'_>,
    key: &ThreadKey,
    metadata: &str,
) -> Result<(), StoreError> {
    insert_thread_as(tx, next_thread_number(tx)?, key, metadata)
}

/// Inserts a thread for the log with this number.
pub(super) fn insert_thread_as(
    tx: &WriteTransaction<'_>,
    number: i64,
    key: &ThreadKey,
    metadata: &str,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO threads (number, tenant, thread, created_at, updated_at, metadata)
               VALUES (?1, ?2, ?3, ?4, ?4, ?5)";
    let row = params![number, key.tenant.as_str(), key.thread.as_str(), tx.now, metadata];
    execute(tx.conn, sql, row).map(drop)
}

/// A number under which there is no entry, not even of a thread that was removed.
pub(super) fn next_thread_number(tx: &WriteTransaction<'_>) -> Result<i64, StoreError> {
    let sql = "SELECT 1 + max(coalesce((SELECT max(number) FROM threads), 0),
                              coalesce((SELECT max(number) FROM unowned_logs), 0))";
    query_optional(tx.conn, sql, [], |row| get_column(row, 0)).map(|number| number.unwrap_or(1))
}

/// Appends the entry with number `seq`, which becomes the newest entry of the thread.
pub(super) fn append_entry(
    tx: &WriteTransaction<'_>,
    key: &ThreadKey,
    seq: Seq,
    run: Option<RunId>,
    entry: &NewEntry,
) -> Result<(), StoreError> {
    let number = find_thread_number(tx.conn, key)?;
    insert_entry(tx, number, seq, run, entry)?;
    insert_snapshot(tx, number, seq, entry)
}

fn insert_snapshot(
    tx: &WriteTransaction<'_>,
    number: i64,
    seq: Seq,
    entry: &NewEntry,
) -> Result<(), StoreError> {
    let Some(state) = &entry.snapshot else { return Ok(()) };
    let sql = "INSERT INTO snapshots (place, state) VALUES (?1, ?2)";
    execute(tx.conn, sql, params![(number << 28) + to_i64(seq), state]).map(drop)
}

/// Inserts an entry of the thread with this number.
fn insert_entry(
    tx: &WriteTransaction<'_>,
    number: i64,
    seq: Seq,
    run: Option<RunId>,
    entry: &NewEntry,
) -> Result<(), StoreError> {
    if seq > MAX_ENTRIES_PER_THREAD {
        return Err(StoreError::Conflict(format!("a thread holds at most {MAX_ENTRIES_PER_THREAD} entries")));
    }
    let sql =
        "INSERT INTO entries (place, parent, base, run, at, kind, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = params![
        (number << 28) + to_i64(seq),
        to_i64(entry.parent.unwrap_or(seq - 1)),
        to_i64(entry.base),
        run.map(|run| run.as_uuid()),
        tx.now,
        entry.kind.code(),
        entry.body
    ];
    execute(tx.conn, sql, row).map(drop)
}

/// The columns that a fence check reads.
struct HeldRun {
    run_rowid: i64,
    thread_number: i64,
    head: Seq,
    cancel_asked: bool,
    steps: u32,
    usage: RunUsage,
}

/// Returns the run of a fence that is still valid, with the newest entry of its thread.
fn find_held_run(tx: &WriteTransaction<'_>, fence: &Fence) -> Result<Option<HeldRun>, StoreError> {
    let sql = concat!(
        "SELECT r.rowid, ",
        newest!("t.number"),
        ", r.cancel_asked, r.steps, r.input_tokens, r.output_tokens, r.cost_micros, t.number
         FROM runs r JOIN threads t ON t.tenant = r.tenant AND t.thread = r.thread
         WHERE r.tenant = ?1 AND r.run = ?2 AND r.thread = ?3 AND r.epoch = ?4 AND r.held = 1"
    );
    let (tenant, thread) = (fence.thread.tenant.as_str(), fence.thread.thread.as_str());
    query_optional(tx.conn, sql, params![tenant, fence.run.as_uuid(), thread, to_i64(fence.epoch)], |row| {
        Ok(HeldRun {
            run_rowid: get_column(row, 0)?,
            thread_number: get_column(row, 7)?,
            head: get_column(row, 1)?,
            cancel_asked: get_column(row, 2)?,
            steps: get_column(row, 3)?,
            usage: RunUsage {
                input_tokens: get_column(row, 4)?,
                output_tokens: get_column(row, 5)?,
                cost_micros: get_column(row, 6)?,
            },
        })
    })
}

/// Appends an entry written by the store itself, and returns its `seq`.
pub(super) fn append_status_entry(
    tx: &WriteTransaction<'_>,
    run: &RunRow,
    kind: EntryKind,
    body: &[u8],
) -> Result<Seq, StoreError> {
    let thread = find_thread(tx.conn, &run.thread)?.ok_or_else(|| StoreError::no_thread(&run.thread))?;
    let base = base_after(tx.conn, &run.thread, thread.head)?;
    let entry = NewEntry { kind, body: body.to_vec(), parent: None, base, snapshot: None };
    append_entry(tx, &run.thread, thread.head + 1, Some(run.run), &entry)?;
    touch_thread(tx, &run.thread)?;
    Ok(thread.head + 1)
}

/// Pauses a running run until it is answered. Returns `true` if the run can be claimed instead, because its
/// cancellation was requested.
fn pause_run(
    tx: &mut WriteTransaction<'_>,
    key: &RunKey,
    thread: &ThreadKey,
    cancel_asked: bool,
) -> Result<bool, StoreError> {
    touch_thread(tx, thread)?;
    if cancel_asked {
        make_claimable(tx, key)?;
        return update_ready_ticket(tx, thread);
    }
    let sql = "UPDATE runs SET status = ?3, held = 0 WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid(), RunStatus::Paused.code()])?;
    update_ready_ticket(tx, thread)?;
    Ok(false)
}

/// Ends the active run of a thread. `last` is its last entry. Returns `true` if a queued run can now start. A failed
/// run keeps its records, because it may be retried.
pub(super) fn end_run(
    tx: &WriteTransaction<'_>,
    key: &RunKey,
    thread: &ThreadKey,
    last: Seq,
    status: RunStatus,
    error: Option<RunFailure>,
) -> Result<bool, StoreError> {
    let (code, message) = error.map(|error| (error.code, error.message)).unzip();
    let sql = "UPDATE runs SET status = ?3, held = 0, ended_at = ?4, error_code = ?5, error_message = ?6,
               last_seq = ?7 WHERE tenant = ?1 AND run = ?2";
    let (tenant, run) = (key.tenant.as_str(), key.run.as_uuid());
    execute(tx.conn, sql, params![tenant, run, status.code(), tx.now, code, message, to_i64(last)])?;
    if status != RunStatus::Failed {
        clear_records(tx, key)?;
    }
    let sql = "UPDATE threads SET active = NULL, updated_at = ?3,
                   ready = (SELECT q.ticket FROM queue q WHERE q.tenant = ?1 AND q.thread = ?2
                            ORDER BY q.enqueued, q.ticket LIMIT 1)
               WHERE tenant = ?1 AND thread = ?2
               RETURNING ready IS NOT NULL";
    let waits = query_optional(tx.conn, sql, params![tenant, thread.thread.as_str(), tx.now], |row| {
        get_column::<bool>(row, 0)
    })?;
    Ok(waits.unwrap_or(false))
}

fn clear_records(tx: &WriteTransaction<'_>, key: &RunKey) -> Result<(), StoreError> {
    let sql = "DELETE FROM records WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid()]).map(drop)
}

fn answer_question(
    tx: &WriteTransaction<'_>,
    key: &RunKey,
    path: &str,
    name: &str,
    answer: &[u8],
) -> Result<(), StoreError> {
    let sql = "UPDATE records SET stage = ?6, body = ?7
               WHERE tenant = ?1 AND run = ?2 AND path = ?3 AND key = ?4 AND stage = ?5";
    let (open, done) = (stage_code(RecordStage::Open), stage_code(RecordStage::Done));
    let row = params![key.tenant.as_str(), key.run.as_uuid(), path, name, open, done, answer];
    if execute(tx.conn, sql, row)? == 0 && !mutant("answer_not_consumed") {
        return Err(StoreError::Conflict(format!("question `{name}` of task `{path}` is not open")));
    }
    Ok(())
}

/// Makes a run claimable again.
fn make_claimable(tx: &mut WriteTransaction<'_>, key: &RunKey) -> Result<(), StoreError> {
    tx.state.ticket += 1;
    let sql = "UPDATE runs SET status = ?3, held = 0, ticket = ?4 WHERE tenant = ?1 AND run = ?2";
    let ticket = tx.state.ticket;
    let row = params![key.tenant.as_str(), key.run.as_uuid(), RunStatus::Running.code(), ticket];
    execute(tx.conn, sql, row).map(drop)
}

pub(super) fn request_cancel(tx: &WriteTransaction<'_>, key: &RunKey) -> Result<(), StoreError> {
    let sql = "UPDATE runs SET cancel_asked = 1 WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid()]).map(drop)
}

pub(super) fn set_active_run(
    tx: &WriteTransaction<'_>,
    key: &ThreadKey,
    run: Option<RunId>,
) -> Result<(), StoreError> {
    let sql = "UPDATE threads SET active = ?3, updated_at = ?4 WHERE tenant = ?1 AND thread = ?2";
    let run = run.map(|run| run.as_uuid());
    execute(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str(), run, tx.now]).map(drop)
}

pub(super) fn touch_thread(tx: &WriteTransaction<'_>, key: &ThreadKey) -> Result<(), StoreError> {
    let sql = "UPDATE threads SET updated_at = ?3 WHERE tenant = ?1 AND thread = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str(), tx.now]).map(drop)
}

pub(super) fn grant_lease(
    tx: &mut WriteTransaction<'_>,
    claim: &WorkerLease,
    thread: &ThreadKey,
    run: RunId,
) {
    // A lease that is too long for the clock is shortened to a year.
    let year = Duration::from_secs(365 * 24 * 3600);
    let until = Instant::now() + claim.lease.min(year);
    let key = thread.run(run);
    tx.state.ended_leases.retain(|spent| *spent != key);
    tx.state.leases.insert(key, RunLease { thread: thread.clone(), until });
}

//! Runs that a worker has: written to, told something, ended.

use std::time::{Duration, Instant};

use doran_engine::failpoint::{hit, mutant};
use doran_engine::id::{RunId, RunKey, ThreadKey};
use doran_engine::store::{
    Claim, Commit, Committed, EntryKind, Fence, NewEntry, NewStatus, Renewed, RunFailure, RunRow, Seq,
    Signal, Stage, Status, StoreError, Usage,
};
use rusqlite::params;

use super::queue::settle;
use super::rows::{
    MOST_ENTRIES, base_after, execute, find_run, find_thread, get, int, newest, one, stage_code,
};
use super::writer::{Lease, Tx};

pub(super) fn renew(tx: &mut Tx<'_>, claim: &Claim, fences: &[Fence]) -> Result<Vec<Renewed>, StoreError> {
    fences
        .iter()
        .map(|fence| {
            let Some(held) = held(tx, fence)? else { return Ok(Renewed::Lost) };
            lease(tx, claim, &fence.thread, fence.run);
            Ok(if held.cancel_asked { Renewed::CancelAsked } else { Renewed::Held })
        })
        .collect()
}

pub(super) fn commit(tx: &mut Tx<'_>, fence: &Fence, commit: Commit) -> Result<Committed, StoreError> {
    if let (Some(known), Some(entry)) = (tx.desk.known.take(), commit.plain_step())
        && known.is_of(fence, commit.head)
    {
        let head = commit.head + 1;
        push_to(tx, known.number, head, Some(fence.run), entry)?;
        hit("cp.mid_write");
        tx.desk.learnt = Some(Known { head, ..known });
        return Ok(Committed { head, at: tx.now, cancel_asked: false, next_waits: false });
    }
    let held = held(tx, fence)?.ok_or(StoreError::Fenced)?;
    if !commit.entries.is_empty() && commit.head != held.head {
        return Err(StoreError::Conflict(format!("the newest entry is {}, not {}", held.head, commit.head)));
    }
    if commit.status.as_ref().is_some_and(|new| new.status == Status::Queued) {
        return Err(StoreError::Conflict("a run that started cannot be queued again".into()));
    }

    let mut head = held.head;
    for entry in &commit.entries {
        head += 1;
        push_to(tx, held.number, head, Some(fence.run), entry)?;
        keep_snapshot(tx, &fence.thread, head, entry)?;
    }
    hit("cp.mid_write");
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
        let Usage { input_tokens, output_tokens, cost_micros } = usage;
        let steps = held.steps.saturating_add(commit.steps);
        let spent = params![held.run_row, steps, int(input_tokens), int(output_tokens), int(cost_micros)];
        execute(tx.conn, sql, spent)?;
    }
    let ends_claim = commit.status.is_some();
    let next_waits = match commit.status {
        Some(NewStatus { status, error }) if status.is_end() => {
            end(tx, &key, &fence.thread, head, status, error)?
        }
        Some(NewStatus { status: Status::Paused, .. }) => pause(tx, &key, &fence.thread, held.cancel_asked)?,
        _ => false,
    };
    if ends_claim {
        tx.desk.spent.push(key);
    } else if !held.cancel_asked {
        tx.desk.learnt = Some(Known { fence: fence.clone(), number: held.number, head });
    }
    Ok(Committed { head, at: tx.now, cancel_asked: held.cancel_asked, next_waits })
}

/// A claim that was found to hold, with where its thread stands. True as long as nobody else writes.
pub(super) struct Known {
    fence: Fence,
    number: i64,
    head: Seq,
}

impl Known {
    fn is_of(&self, fence: &Fence, head: Seq) -> bool {
        self.head == head && self.fence == *fence
    }
}

pub(super) fn signal(tx: &mut Tx<'_>, key: &RunKey, signal: Signal) -> Result<RunRow, StoreError> {
    let row = find_run(tx.conn, key)?;
    match signal {
        Signal::Cancel { body } => match row.status {
            Status::Queued => {
                let run = key.run.as_uuid();
                let sql = "DELETE FROM queue WHERE tenant = ?1 AND thread = ?2 AND run = ?3";
                execute(tx.conn, sql, params![key.tenant.as_str(), row.thread.thread.as_str(), run])?;
                let sql = "UPDATE runs SET status = ?3, ended_at = ?4 WHERE tenant = ?1 AND run = ?2";
                execute(tx.conn, sql, params![key.tenant.as_str(), run, Status::Cancelled.code(), tx.now])?;
                touch(tx, &row.thread)?;
            }
            Status::Running => ask_to_cancel(tx, key)?,
            Status::Paused => {
                let last = tell(tx, &row, EntryKind::Cancelled, &body)?;
                end(tx, &row.key(), &row.thread, last, Status::Cancelled, None)?;
            }
            Status::Finished | Status::Failed | Status::Cancelled => return Ok(row),
        },
        Signal::Answer { answers, body } => {
            hit("resume.before_consume");
            if row.status != Status::Paused && !mutant("M13") {
                return Err(StoreError::Conflict(format!("run `{}` is not paused", key.run)));
            }
            for (path, name, answer) in &answers {
                answer_one(tx, key, path, name, answer)?;
            }
            tell(tx, &row, EntryKind::Resumed, &body)?;
            release(tx, key)?;
        }
        Signal::Retry { body, fingerprint } => {
            if row.status != Status::Failed {
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
            tell(tx, &row, EntryKind::Restarted, &body)?;
            let sql = "UPDATE runs SET fingerprint = ?3, cancel_asked = 0, ended_at = NULL, last_seq = NULL,
                       error_code = NULL, error_message = NULL WHERE tenant = ?1 AND run = ?2";
            execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid(), fingerprint])?;
            set_active(tx, &row.thread, Some(key.run))?;
            release(tx, key)?;
        }
    }
    settle(tx, &row.thread)?;
    find_run(tx.conn, key)
}

/// Makes an empty thread.
pub(super) fn make_thread(tx: &Tx<'_>, key: &ThreadKey, metadata: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO threads (tenant, thread, created_at, updated_at, metadata)
               VALUES (?1, ?2, ?3, ?3, ?4)";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str(), tx.now, metadata]).map(drop)
}

/// Writes the entry with the number `seq`, which is the newest from here on.
pub(super) fn push(
    tx: &Tx<'_>,
    key: &ThreadKey,
    seq: Seq,
    run: Option<RunId>,
    entry: &NewEntry,
) -> Result<(), StoreError> {
    let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
    let sql = "SELECT number FROM threads WHERE tenant = ?1 AND thread = ?2";
    let number = one(tx.conn, sql, params![tenant, thread], |row| get::<i64>(row, 0))?;
    push_to(tx, number.ok_or_else(|| StoreError::no_thread(key))?, seq, run, entry)?;
    keep_snapshot(tx, key, seq, entry)
}

fn keep_snapshot(tx: &Tx<'_>, key: &ThreadKey, seq: Seq, entry: &NewEntry) -> Result<(), StoreError> {
    let Some(state) = &entry.snapshot else { return Ok(()) };
    let sql = "INSERT INTO snapshots (tenant, thread, seq, state) VALUES (?1, ?2, ?3, ?4)";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str(), int(seq), state]).map(drop)
}

/// Writes an entry of the thread with this number.
fn push_to(
    tx: &Tx<'_>,
    number: i64,
    seq: Seq,
    run: Option<RunId>,
    entry: &NewEntry,
) -> Result<(), StoreError> {
    if seq > MOST_ENTRIES {
        return Err(StoreError::Conflict(format!("a thread holds at most {MOST_ENTRIES} entries")));
    }
    let sql =
        "INSERT INTO entries (place, parent, base, run, at, kind, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = params![
        (number << 28) + int(seq),
        int(entry.parent.unwrap_or(seq - 1)),
        int(entry.base),
        run.map(|run| run.as_uuid()),
        tx.now,
        entry.kind.code(),
        entry.body
    ];
    execute(tx.conn, sql, row).map(drop)
}

/// What the check of a fence reads.
struct Held {
    run_row: i64,
    number: i64,
    head: Seq,
    cancel_asked: bool,
    steps: u32,
    usage: Usage,
}

/// The run of a fence that still holds, with the newest entry of its thread.
fn held(tx: &Tx<'_>, fence: &Fence) -> Result<Option<Held>, StoreError> {
    let sql = concat!(
        "SELECT r.rowid, ",
        newest!("t.number"),
        ", r.cancel_asked, r.steps, r.input_tokens, r.output_tokens, r.cost_micros, t.number
         FROM runs r JOIN threads t ON t.tenant = r.tenant AND t.thread = r.thread
         WHERE r.tenant = ?1 AND r.run = ?2 AND r.thread = ?3 AND r.epoch = ?4 AND r.held = 1"
    );
    let (tenant, thread) = (fence.thread.tenant.as_str(), fence.thread.thread.as_str());
    one(tx.conn, sql, params![tenant, fence.run.as_uuid(), thread, int(fence.epoch)], |row| {
        Ok(Held {
            run_row: get(row, 0)?,
            number: get(row, 7)?,
            head: get(row, 1)?,
            cancel_asked: get(row, 2)?,
            steps: get(row, 3)?,
            usage: Usage {
                input_tokens: get(row, 4)?,
                output_tokens: get(row, 5)?,
                cost_micros: get(row, 6)?,
            },
        })
    })
}

/// Appends an entry of the store's own making to what a run wrote, and tells its number.
pub(super) fn tell(tx: &Tx<'_>, run: &RunRow, kind: EntryKind, body: &[u8]) -> Result<Seq, StoreError> {
    let thread = find_thread(tx.conn, &run.thread)?.ok_or_else(|| StoreError::no_thread(&run.thread))?;
    let base = base_after(tx.conn, &run.thread, thread.head)?;
    let entry = NewEntry { kind, body: body.to_vec(), parent: None, base, snapshot: None };
    push(tx, &run.thread, thread.head + 1, Some(run.run), &entry)?;
    touch(tx, &run.thread)?;
    Ok(thread.head + 1)
}

/// Lets a running run rest until it is answered. `true` when it can be claimed instead, because somebody asked to
/// cancel it.
fn pause(tx: &mut Tx<'_>, key: &RunKey, thread: &ThreadKey, cancel_asked: bool) -> Result<bool, StoreError> {
    touch(tx, thread)?;
    if cancel_asked {
        release(tx, key)?;
        return settle(tx, thread);
    }
    let sql = "UPDATE runs SET status = ?3, held = 0 WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid(), Status::Paused.code()])?;
    settle(tx, thread)?;
    Ok(false)
}

/// Ends the active run of a thread, whose last entry is `last`. `true` when a queued run waits for the thread, which
/// is free now. Records stay with a failed run, which may be tried again.
pub(super) fn end(
    tx: &Tx<'_>,
    key: &RunKey,
    thread: &ThreadKey,
    last: Seq,
    status: Status,
    error: Option<RunFailure>,
) -> Result<bool, StoreError> {
    let (code, message) = error.map(|error| (error.code, error.message)).unzip();
    let sql = "UPDATE runs SET status = ?3, held = 0, ended_at = ?4, error_code = ?5, error_message = ?6,
               last_seq = ?7 WHERE tenant = ?1 AND run = ?2";
    let (tenant, run) = (key.tenant.as_str(), key.run.as_uuid());
    execute(tx.conn, sql, params![tenant, run, status.code(), tx.now, code, message, int(last)])?;
    if status != Status::Failed {
        clear_records(tx, key)?;
    }
    let sql = "UPDATE threads SET active = NULL, updated_at = ?3,
                   ready = (SELECT q.ticket FROM queue q WHERE q.tenant = ?1 AND q.thread = ?2
                            ORDER BY q.enqueued, q.ticket LIMIT 1)
               WHERE tenant = ?1 AND thread = ?2
               RETURNING ready IS NOT NULL";
    let waits =
        one(tx.conn, sql, params![tenant, thread.thread.as_str(), tx.now], |row| get::<bool>(row, 0))?;
    Ok(waits.unwrap_or(false))
}

fn clear_records(tx: &Tx<'_>, key: &RunKey) -> Result<(), StoreError> {
    let sql = "DELETE FROM records WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid()]).map(drop)
}

fn answer_one(tx: &Tx<'_>, key: &RunKey, path: &str, name: &str, answer: &[u8]) -> Result<(), StoreError> {
    let sql = "UPDATE records SET stage = ?6, body = ?7
               WHERE tenant = ?1 AND run = ?2 AND path = ?3 AND key = ?4 AND stage = ?5";
    let (open, done) = (stage_code(Stage::Open), stage_code(Stage::Done));
    let row = params![key.tenant.as_str(), key.run.as_uuid(), path, name, open, done, answer];
    if execute(tx.conn, sql, row)? == 0 && !mutant("M13") {
        return Err(StoreError::Conflict(format!("question `{name}` of task `{path}` is not open")));
    }
    Ok(())
}

/// Lets a run that stood still be claimed.
fn release(tx: &mut Tx<'_>, key: &RunKey) -> Result<(), StoreError> {
    tx.desk.ticket += 1;
    let sql = "UPDATE runs SET status = ?3, held = 0, ticket = ?4 WHERE tenant = ?1 AND run = ?2";
    let ticket = tx.desk.ticket;
    let row = params![key.tenant.as_str(), key.run.as_uuid(), Status::Running.code(), ticket];
    execute(tx.conn, sql, row).map(drop)
}

pub(super) fn ask_to_cancel(tx: &Tx<'_>, key: &RunKey) -> Result<(), StoreError> {
    let sql = "UPDATE runs SET cancel_asked = 1 WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid()]).map(drop)
}

pub(super) fn set_active(tx: &Tx<'_>, key: &ThreadKey, run: Option<RunId>) -> Result<(), StoreError> {
    let sql = "UPDATE threads SET active = ?3, updated_at = ?4 WHERE tenant = ?1 AND thread = ?2";
    let run = run.map(|run| run.as_uuid());
    execute(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str(), run, tx.now]).map(drop)
}

pub(super) fn touch(tx: &Tx<'_>, key: &ThreadKey) -> Result<(), StoreError> {
    let sql = "UPDATE threads SET updated_at = ?3 WHERE tenant = ?1 AND thread = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str(), tx.now]).map(drop)
}

pub(super) fn lease(tx: &mut Tx<'_>, claim: &Claim, thread: &ThreadKey, run: RunId) {
    // A lease too long for the clock is as good as one of a year.
    let year = Duration::from_secs(365 * 24 * 3600);
    let until = Instant::now() + claim.lease.min(year);
    let key = thread.run(run);
    tx.desk.spent.retain(|spent| *spent != key);
    tx.desk.leases.insert(key, Lease { thread: thread.clone(), until });
}

//! Runs: accepted, claimed, written to, ended.

use std::time::{Duration, Instant};

use doran_engine::id::{RunId, RunKey, ThreadKey};
use doran_engine::store::{
    Claim, Claimed, Commit, Committed, EntryKind, Fence, Idempotency, IfBusy, NewEntry, NewRun, NewStatus,
    Renewed, RunFailure, RunRow, Seq, Signal, Stage, Status, StoreError, Submitted, Usage, check_metadata,
};
use rusqlite::params;
use uuid::Uuid;

use super::rows::{
    MOST_ENTRIES, all, base_after, execute, find_run, find_thread, get, int, newest, one, records,
    stage_code, thread_key, to_json,
};
use super::writer::{Lease, Tx};
use doran_engine::failpoint::{hit, mutant};

pub(super) fn submit(tx: &mut Tx<'_>, new: NewRun) -> Result<Submitted, StoreError> {
    check_metadata(&new.metadata)?;
    let tenant = new.thread.tenant.as_str();
    let key = new.thread.run(new.run);
    if let Some(Idempotency { key: name, hash }) = &new.idempotency {
        let sql = "SELECT hash, run FROM idempotency WHERE tenant = ?1 AND key = ?2";
        let seen = one(tx.conn, sql, params![tenant, name], |row| {
            Ok((get::<String>(row, 0)?, get::<Uuid>(row, 1)?))
        })?;
        if let Some((seen, run)) = seen {
            if seen != *hash {
                return Err(StoreError::KeyReused(name.clone()));
            }
            return find_run(tx.conn, &new.thread.run(RunId::from_uuid(run))).map(Submitted::Repeated);
        }
        if !mutant("M5") {
            name_request(tx, &key, name, hash)?;
        }
    }
    let used = "SELECT 1 FROM runs WHERE tenant = ?1 AND run = ?2";
    if one(tx.conn, used, params![tenant, new.run.as_uuid()], |_| Ok(()))?.is_some() {
        return Err(StoreError::Conflict(format!("run `{}` exists already", new.run)));
    }
    if let Some(parent) = new.first.parent {
        base_after(tx.conn, &new.thread, parent)?;
    }

    let thread = find_thread(tx.conn, &new.thread)?;
    if thread.is_none() {
        make_thread(tx, &new.thread, "{}")?;
    }
    let mut active = thread.and_then(|thread| thread.active);
    let mut parent = new.first.parent;
    let mut stop = None;
    match new.if_busy {
        IfBusy::Reject => {
            let busy = match active {
                Some(run) => Some(run),
                None => next_in_queue(tx, &new.thread)?,
            };
            if let Some(run) = busy {
                return Err(StoreError::Busy { thread: new.thread.thread, run });
            }
        }
        IfBusy::Enqueue => {}
        IfBusy::Interrupt | IfBusy::Rollback => {
            if let Some(run) = active {
                let row = find_run(tx.conn, &new.thread.run(run))?;
                if new.if_busy == IfBusy::Rollback {
                    parent = row.parent_seq;
                }
                if row.status == Status::Paused {
                    tell(tx, &row, EntryKind::Cancelled, &new.stop_body)?;
                    end(tx, &row, Status::Cancelled, None)?;
                    active = None;
                } else {
                    ask_to_cancel(tx, &row.key())?;
                    stop = Some(run);
                }
            }
        }
    }

    tx.desk.ticket += 1;
    insert_run(tx, &new)?;
    let enqueued = matches!(new.if_busy, IfBusy::Reject | IfBusy::Enqueue);
    let sql = "INSERT INTO queue (tenant, thread, enqueued, ticket, run, kind, parent, body)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    execute(
        tx.conn,
        sql,
        params![
            tenant,
            new.thread.thread.as_str(),
            enqueued,
            tx.desk.ticket,
            new.run.as_uuid(),
            new.first.kind.code(),
            parent.map(int),
            new.first.body
        ],
    )?;
    touch(tx, &new.thread)?;
    let ready = settle(tx, &new.thread)?;
    // A run that was let go on and waits for a worker comes first.
    if let Some(claim) = &new.claim
        && ready
        && active.is_none()
        && next_in_queue(tx, &new.thread)? == Some(new.run)
    {
        return take(tx, claim, &new.thread)?.map(Submitted::Started).ok_or_else(|| lost(&new.thread));
    }
    Ok(Submitted::Queued { run: find_run(tx.conn, &key)?, stop })
}

/// Remembers the request that a run came from.
pub(super) fn name_request(tx: &Tx<'_>, run: &RunKey, name: &str, hash: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO idempotency (tenant, key, hash, run, at) VALUES (?1, ?2, ?3, ?4, ?5)";
    execute(tx.conn, sql, params![run.tenant.as_str(), name, hash, run.run.as_uuid(), tx.now]).map(drop)
}

pub(super) fn claim(
    tx: &mut Tx<'_>,
    claim: &Claim,
    only: Option<&ThreadKey>,
    limit: usize,
) -> Result<Vec<Claimed>, StoreError> {
    let now = Instant::now();
    // Runs whose worker was lost go first: somebody has been waiting for them for longer.
    let over = tx.desk.leases.iter().filter(|(_, lease)| lease.until <= now);
    let mut over: Vec<(Instant, RunKey, ThreadKey)> = over
        .filter(|(_, lease)| only.is_none_or(|only| lease.thread == *only))
        .map(|(run, lease)| (lease.until, run.clone(), lease.thread.clone()))
        .collect();
    over.sort();
    let mut claimed = Vec::new();
    for (_, run, thread) in over {
        if claimed.len() == limit {
            return Ok(claimed);
        }
        let sql = "SELECT 1 FROM runs WHERE tenant = ?1 AND run = ?2 AND held = 1";
        if one(tx.conn, sql, params![run.tenant.as_str(), run.run.as_uuid()], |_| Ok(()))?.is_some() {
            claimed.extend(take(tx, claim, &thread)?);
        } else {
            tx.desk.spent.push(run);
        }
    }
    let rest = i64::try_from(limit - claimed.len()).unwrap_or(i64::MAX);
    let ready = match only {
        Some(key) => {
            let sql = "SELECT tenant, thread FROM threads
                       WHERE tenant = ?1 AND thread = ?2 AND ready IS NOT NULL LIMIT ?3";
            let key = params![key.tenant.as_str(), key.thread.as_str(), rest];
            all(tx.conn, sql, key, |row| thread_key(row, 0, 1))?
        }
        None => {
            let sql = "SELECT tenant, thread FROM threads WHERE ready IS NOT NULL ORDER BY ready LIMIT ?1";
            all(tx.conn, sql, [rest], |row| thread_key(row, 0, 1))?
        }
    };
    for thread in ready {
        claimed.extend(take(tx, claim, &thread)?);
    }
    Ok(claimed)
}

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
        push(tx, &fence.thread, head, Some(fence.run), entry)?;
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
    let next_waits = match commit.status {
        Some(NewStatus { status, error }) => {
            touch(tx, &fence.thread)?;
            change_status(tx, &key, status, error)?
        }
        None => false,
    };
    Ok(Committed { head, at: tx.now, cancel_asked: held.cancel_asked, next_waits })
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
                tell(tx, &row, EntryKind::Cancelled, &body)?;
                end(tx, &row, Status::Cancelled, None)?;
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
    let parent = entry.parent.unwrap_or(seq - 1);
    let run = run.map(|run| run.as_uuid());
    if seq > MOST_ENTRIES {
        return Err(StoreError::Conflict(format!("a thread holds at most {MOST_ENTRIES} entries")));
    }
    let sql = "INSERT INTO entries (place, parent, base, run, at, kind, body)
               SELECT (number << 28) + ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM threads WHERE tenant = ?1 AND thread = ?2";
    let row = params![
        tenant,
        thread,
        int(seq),
        int(parent),
        int(entry.base),
        run,
        tx.now,
        entry.kind.code(),
        entry.body
    ];
    if execute(tx.conn, sql, row)? == 0 {
        return Err(StoreError::no_thread(key));
    }
    if let Some(state) = &entry.snapshot {
        let sql = "INSERT INTO snapshots (tenant, thread, seq, state) VALUES (?1, ?2, ?3, ?4)";
        execute(tx.conn, sql, params![tenant, thread, int(seq), state])?;
    }
    Ok(())
}

/// What the check of a fence reads.
struct Held {
    run_row: i64,
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
        ", r.cancel_asked, r.steps, r.input_tokens, r.output_tokens, r.cost_micros
         FROM runs r JOIN threads t ON t.tenant = r.tenant AND t.thread = r.thread
         WHERE r.tenant = ?1 AND r.run = ?2 AND r.thread = ?3 AND r.epoch = ?4 AND r.held = 1"
    );
    let (tenant, thread) = (fence.thread.tenant.as_str(), fence.thread.thread.as_str());
    one(tx.conn, sql, params![tenant, fence.run.as_uuid(), thread, int(fence.epoch)], |row| {
        Ok(Held {
            run_row: get(row, 0)?,
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

fn insert_run(tx: &Tx<'_>, new: &NewRun) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO runs (tenant, run, thread, status, epoch, held, cancel_asked, ticket, created_at, steps,
               input_tokens, output_tokens, cost_micros, graph, fingerprint, metadata, options)
               VALUES (?1, ?2, ?3, ?4, 0, 0, 0, ?5, ?6, 0, 0, 0, 0, ?7, ?8, ?9, ?10)";
    let row = params![
        new.thread.tenant.as_str(),
        new.run.as_uuid(),
        new.thread.thread.as_str(),
        Status::Queued.code(),
        tx.desk.ticket,
        tx.now,
        new.graph,
        new.fingerprint,
        to_json(&new.metadata)?,
        new.options
    ];
    execute(tx.conn, sql, row).map(drop)
}

/// The run that goes next on a thread that is free.
fn next_in_queue(tx: &Tx<'_>, key: &ThreadKey) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT run FROM queue WHERE tenant = ?1 AND thread = ?2 ORDER BY enqueued, ticket LIMIT 1";
    let found =
        one(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str()], |row| get::<Uuid>(row, 0))?;
    Ok(found.map(RunId::from_uuid))
}

/// Gives the run of a thread that waits for a worker to this one. The caller saw that there is one.
fn take(tx: &mut Tx<'_>, claim: &Claim, key: &ThreadKey) -> Result<Option<Claimed>, StoreError> {
    let Some(thread) = find_thread(tx.conn, key)? else { return Ok(None) };
    let mut head = thread.head;
    let run = match thread.active {
        Some(run) => run,
        None => {
            let Some(run) = start(tx, key, thread.head)? else { return Ok(None) };
            head += 1;
            run
        }
    };
    let run_key = key.run(run);
    let sql = "UPDATE runs SET epoch = epoch + 1, held = 1 WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), run.as_uuid()])?;
    settle(tx, key)?;
    lease(tx, claim, key, run);
    let records = records(tx.conn, &run_key)?;
    Ok(Some(Claimed { run: find_run(tx.conn, &run_key)?, head, records }))
}

/// Starts the next run of a free thread with its first entry.
fn start(tx: &Tx<'_>, key: &ThreadKey, head: Seq) -> Result<Option<RunId>, StoreError> {
    let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
    let sql = "SELECT rowid, run, kind, parent, body FROM queue
               WHERE tenant = ?1 AND thread = ?2 ORDER BY enqueued, ticket LIMIT 1";
    let next = one(tx.conn, sql, params![tenant, thread], |row| {
        let kind: u8 = get(row, 2)?;
        let kind = EntryKind::from_code(kind)
            .ok_or_else(|| StoreError::Damaged(format!("{kind} is no kind of entry")))?;
        Ok((
            get::<i64>(row, 0)?,
            get::<Uuid>(row, 1)?,
            kind,
            get::<Option<Seq>>(row, 3)?,
            get::<Vec<u8>>(row, 4)?,
        ))
    })?;
    let Some((place, run, kind, parent, body)) = next else { return Ok(None) };
    execute(tx.conn, "DELETE FROM queue WHERE rowid = ?1", [place])?;
    let run = RunId::from_uuid(run);
    let parent = parent.unwrap_or(head);
    let base = base_after(tx.conn, key, parent)?;
    let entry = NewEntry { kind, body, parent: Some(parent), base, snapshot: None };
    push(tx, key, head + 1, Some(run), &entry)?;
    set_active(tx, key, Some(run))?;
    let sql = "UPDATE runs SET status = ?3, started_at = ?4, first_seq = ?5, parent_seq = ?6
               WHERE tenant = ?1 AND run = ?2";
    let started = params![tenant, run.as_uuid(), Status::Running.code(), tx.now, int(head + 1), int(parent)];
    execute(tx.conn, sql, started)?;
    Ok(Some(run))
}

/// Appends an entry of the store's own making to what a run wrote.
fn tell(tx: &Tx<'_>, run: &RunRow, kind: EntryKind, body: &[u8]) -> Result<(), StoreError> {
    let thread = find_thread(tx.conn, &run.thread)?.ok_or_else(|| StoreError::no_thread(&run.thread))?;
    let base = base_after(tx.conn, &run.thread, thread.head)?;
    let entry = NewEntry { kind, body: body.to_vec(), parent: None, base, snapshot: None };
    push(tx, &run.thread, thread.head + 1, Some(run.run), &entry)?;
    touch(tx, &run.thread)
}

/// Changes the status of a running run. `true` when its thread became free and a queued run waits.
fn change_status(
    tx: &mut Tx<'_>,
    key: &RunKey,
    status: Status,
    error: Option<RunFailure>,
) -> Result<bool, StoreError> {
    let row = find_run(tx.conn, key)?;
    match status {
        Status::Finished | Status::Failed | Status::Cancelled => {
            end(tx, &row, status, error)?;
            settle(tx, &row.thread)
        }
        Status::Paused if row.cancel_asked => {
            release(tx, key)?;
            settle(tx, &row.thread)
        }
        Status::Paused => {
            let sql = "UPDATE runs SET status = ?3, held = 0 WHERE tenant = ?1 AND run = ?2";
            execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid(), status.code()])?;
            settle(tx, &row.thread)?;
            Ok(false)
        }
        Status::Queued | Status::Running => Ok(false),
    }
}

/// Ends the active run of a thread. Records stay with a failed run, which may be tried again.
fn end(tx: &Tx<'_>, run: &RunRow, status: Status, error: Option<RunFailure>) -> Result<(), StoreError> {
    let key = run.key();
    let (code, message) = error.map(|error| (error.code, error.message)).unzip();
    let sql = concat!(
        "UPDATE runs SET status = ?3, held = 0, ended_at = ?4, error_code = ?5, error_message = ?6,
             last_seq = (SELECT ",
        newest!("t.number"),
        " FROM threads t WHERE t.tenant = ?1 AND t.thread = ?7)
         WHERE tenant = ?1 AND run = ?2"
    );
    let (tenant, thread) = (key.tenant.as_str(), run.thread.thread.as_str());
    execute(tx.conn, sql, params![tenant, key.run.as_uuid(), status.code(), tx.now, code, message, thread])?;
    if status != Status::Failed {
        clear_records(tx, &key)?;
    }
    set_active(tx, &run.thread, None)
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

fn ask_to_cancel(tx: &Tx<'_>, key: &RunKey) -> Result<(), StoreError> {
    let sql = "UPDATE runs SET cancel_asked = 1 WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.run.as_uuid()]).map(drop)
}

fn set_active(tx: &Tx<'_>, key: &ThreadKey, run: Option<RunId>) -> Result<(), StoreError> {
    let sql = "UPDATE threads SET active = ?3, updated_at = ?4 WHERE tenant = ?1 AND thread = ?2";
    let run = run.map(|run| run.as_uuid());
    execute(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str(), run, tx.now]).map(drop)
}

pub(super) fn touch(tx: &Tx<'_>, key: &ThreadKey) -> Result<(), StoreError> {
    let sql = "UPDATE threads SET updated_at = ?3 WHERE tenant = ?1 AND thread = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str(), tx.now]).map(drop)
}

/// Brings `ready` in line with a thread whose runs changed, and tells whether a run waits for a worker.
fn settle(tx: &Tx<'_>, key: &ThreadKey) -> Result<bool, StoreError> {
    let sql = "UPDATE threads SET ready = CASE WHEN active IS NULL
                   THEN (SELECT q.ticket FROM queue q WHERE q.tenant = ?1 AND q.thread = ?2
                         ORDER BY q.enqueued, q.ticket LIMIT 1)
                   ELSE (SELECT r.ticket FROM runs r
                         WHERE r.tenant = ?1 AND r.run = active AND r.status = 2 AND r.held = 0) END
               WHERE tenant = ?1 AND thread = ?2
               RETURNING ready IS NOT NULL";
    let ready =
        one(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str()], |row| get::<bool>(row, 0))?;
    Ok(ready.unwrap_or(false))
}

fn lease(tx: &mut Tx<'_>, claim: &Claim, thread: &ThreadKey, run: RunId) {
    // A lease too long for the clock is as good as one of a year.
    let year = Duration::from_secs(365 * 24 * 3600);
    let until = Instant::now() + claim.lease.min(year);
    let key = thread.run(run);
    tx.desk.spent.retain(|spent| *spent != key);
    tx.desk.leases.insert(key, Lease { thread: thread.clone(), until });
}

fn lost(key: &ThreadKey) -> StoreError {
    StoreError::Damaged(format!("the run that waits on thread `{}` is missing", key.thread))
}

//! Runs that are handed in, wait, and are taken up by a worker.

use std::time::Instant;

use doran_engine::failpoint::mutant;
use doran_engine::id::{RunId, RunKey, ThreadKey};
use doran_engine::store::{
    Claim, Claimed, EntryKind, Idempotency, IfBusy, NewEntry, NewRun, RunRow, Seq, Status, StoreError,
    Submitted, check_metadata,
};
use rusqlite::params;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::rows::{
    all, base_after, execute, find_run, find_thread, get, int, one, records, thread_key, to_json,
};
use super::runs::{ask_to_cancel, end, lease, make_thread, push, set_active, tell, touch};
use super::writer::Tx;

pub(super) fn submit(tx: &mut Tx<'_>, new: NewRun) -> Result<Submitted, StoreError> {
    check_metadata(&new.metadata)?;
    check_metadata(&new.thread_metadata)?;
    let tenant = new.thread.tenant.as_str();
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
            name_request(tx, &new.thread.run(new.run), name, hash)?;
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
    let (mut active, mut head) = thread.as_ref().map_or((None, 0), |thread| (thread.active, thread.head));
    name_thread(tx, &new, thread.map(|thread| thread.metadata))?;
    let waits = next_in_queue(tx, &new.thread)?;
    let mut parent = new.first.parent;
    let mut stop = None;
    match new.if_busy {
        IfBusy::Reject => {
            if let Some(run) = active.or(waits) {
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
                    head = tell(tx, &row, EntryKind::Cancelled, &new.stop_body)?;
                    end(tx, &row.key(), &row.thread, head, Status::Cancelled, None)?;
                    active = None;
                } else {
                    ask_to_cancel(tx, &row.key())?;
                    stop = Some(run);
                }
            }
        }
    }
    tx.desk.ticket += 1;
    match &new.claim {
        Some(claim) if active.is_none() && waits.is_none() => start_now(tx, &new, claim, head, parent),
        _ => enqueue(tx, &new, active, parent, stop),
    }
}

/// Makes the thread of a run if there is none, and gives it the pairs it has not.
fn name_thread(tx: &Tx<'_>, new: &NewRun, metadata: Option<Map<String, Value>>) -> Result<(), StoreError> {
    let exists = metadata.is_some();
    let mut metadata = metadata.unwrap_or_default();
    let had = metadata.len();
    for (name, value) in new.thread_pairs() {
        if !metadata.contains_key(name) {
            metadata.insert(name.clone(), value.clone());
        }
    }
    if !exists {
        return make_thread(tx, &new.thread, &to_json(&metadata)?);
    }
    if metadata.len() > had {
        let sql = "UPDATE threads SET metadata = ?3 WHERE tenant = ?1 AND thread = ?2";
        let (tenant, thread) = (new.thread.tenant.as_str(), new.thread.thread.as_str());
        execute(tx.conn, sql, params![tenant, thread, to_json(&metadata)?])?;
    }
    Ok(())
}

/// Starts a run that nobody has to wait for, without a place in the queue.
fn start_now(
    tx: &mut Tx<'_>,
    new: &NewRun,
    claim: &Claim,
    head: Seq,
    parent: Option<Seq>,
) -> Result<Submitted, StoreError> {
    let parent = parent.unwrap_or(head);
    let head = head + 1;
    first_entry(tx, &new.thread, new.run, head, parent, new.first.kind, new.first.body.clone())?;
    let run = RunRow {
        status: Status::Running,
        epoch: 1,
        started_at: Some(tx.now),
        first_seq: Some(head),
        parent_seq: Some(parent),
        ..new.row(tx.now)
    };
    insert_run(tx, &run, true)?;
    lease(tx, claim, &new.thread, new.run);
    Ok(Submitted::Started(Claimed { run, head, records: Vec::new() }))
}

/// Lets a run wait, and starts it at once when it is the next all the same.
fn enqueue(
    tx: &mut Tx<'_>,
    new: &NewRun,
    active: Option<RunId>,
    parent: Option<Seq>,
    stop: Option<RunId>,
) -> Result<Submitted, StoreError> {
    let run = new.row(tx.now);
    insert_run(tx, &run, false)?;
    let enqueued = matches!(new.if_busy, IfBusy::Reject | IfBusy::Enqueue);
    let sql = "INSERT INTO queue (tenant, thread, enqueued, ticket, run, kind, parent, body)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    execute(
        tx.conn,
        sql,
        params![
            new.thread.tenant.as_str(),
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
    Ok(Submitted::Queued { run, stop })
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

fn insert_run(tx: &Tx<'_>, run: &RunRow, held: bool) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO runs (tenant, run, thread, status, epoch, held, cancel_asked, ticket, created_at, started_at,
               first_seq, parent_seq, steps, input_tokens, output_tokens, cost_micros, graph, fingerprint, metadata,
               options)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, ?10, ?11, 0, 0, 0, 0, ?12, ?13, ?14, ?15)";
    let row = params![
        run.thread.tenant.as_str(),
        run.run.as_uuid(),
        run.thread.thread.as_str(),
        run.status.code(),
        int(run.epoch),
        held,
        tx.desk.ticket,
        run.created_at,
        run.started_at,
        run.first_seq.map(int),
        run.parent_seq.map(int),
        run.graph,
        run.fingerprint,
        to_json(&run.metadata)?,
        run.options
    ];
    execute(tx.conn, sql, row).map(drop)
}

/// Writes the first entry of a run and makes it the active one.
fn first_entry(
    tx: &Tx<'_>,
    key: &ThreadKey,
    run: RunId,
    seq: Seq,
    parent: Seq,
    kind: EntryKind,
    body: Vec<u8>,
) -> Result<(), StoreError> {
    let base = base_after(tx.conn, key, parent)?;
    let entry = NewEntry { kind, body, parent: Some(parent), base, snapshot: None };
    push(tx, key, seq, Some(run), &entry)?;
    set_active(tx, key, Some(run))
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
    first_entry(tx, key, run, head + 1, parent, kind, body)?;
    let sql = "UPDATE runs SET status = ?3, started_at = ?4, first_seq = ?5, parent_seq = ?6
               WHERE tenant = ?1 AND run = ?2";
    let started = params![tenant, run.as_uuid(), Status::Running.code(), tx.now, int(head + 1), int(parent)];
    execute(tx.conn, sql, started)?;
    Ok(Some(run))
}

/// Brings `ready` in line with a thread whose runs changed, and tells whether a run waits for a worker.
pub(super) fn settle(tx: &Tx<'_>, key: &ThreadKey) -> Result<bool, StoreError> {
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

fn lost(key: &ThreadKey) -> StoreError {
    StoreError::Damaged(format!("the run that waits on thread `{}` is missing", key.thread))
}

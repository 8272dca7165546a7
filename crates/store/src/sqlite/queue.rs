//! Submitting, queueing and claiming runs.

use std::time::Instant;

use doran_engine::failpoint::mutant;
use doran_engine::id::{RunId, RunKey, ThreadKey};
use doran_engine::store::{
    ClaimedRun, EntryKind, IfBusy, NewEntry, NewRun, RunIdempotencyKey, RunRow, RunStatus, Seq, StoreError,
    SubmitOutcome, WorkerLease, check_metadata,
};
use rusqlite::params;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::error::SqliteResultExt;
use super::rows::{
    base_after, check_rebuildable, entry_writer, execute, find_records, find_run, find_thread, get_column,
    metadata_to_json, query_optional, thread_key, to_i64,
};
use super::runs::{
    append_entry, append_status_entry, end_run, grant_lease, insert_thread, request_cancel, set_active_run,
    touch_thread,
};
use super::writer::WriteTransaction;

pub(super) fn submit(tx: &mut WriteTransaction<'_>, new: NewRun) -> Result<SubmitOutcome, StoreError> {
    check_metadata(&new.metadata)?;
    check_metadata(&new.thread_metadata)?;
    let tenant = new.thread.tenant.as_str();
    if let Some(RunIdempotencyKey { key: name, hash }) = &new.idempotency {
        let sql = "SELECT hash, run FROM idempotency WHERE tenant = ?1 AND key = ?2";
        let seen = query_optional(tx.conn, sql, params![tenant, name], |row| {
            Ok((get_column::<String>(row, 0)?, get_column::<Uuid>(row, 1)?))
        })?;
        if let Some((seen, run)) = seen {
            if seen != *hash {
                return Err(StoreError::KeyReused(name.clone()));
            }
            return match find_run(tx.conn, &new.thread.run(RunId::from_uuid(run))) {
                Ok(run) => Ok(SubmitOutcome::Repeated(run)),
                Err(StoreError::NotFound { .. }) => Err(StoreError::run_of_key_deleted()),
                Err(error) => Err(error),
            };
        }
        if !mutant("idempotency_key_after_run") {
            insert_idempotency_key(tx, &new.thread.run(new.run), name, hash)?;
        }
    }
    let used = "SELECT 1 FROM runs WHERE tenant = ?1 AND run = ?2";
    if query_optional(tx.conn, used, params![tenant, new.run.as_uuid()], |_| Ok(()))?.is_some() {
        return Err(StoreError::Conflict(format!("run `{}` exists already", new.run)));
    }
    if let Some(parent) = new.first.parent {
        check_rebuildable(tx.conn, &new.thread, parent)?;
    }

    let thread = find_thread(tx.conn, &new.thread)?;
    let (mut active, mut head) = thread.as_ref().map_or((None, 0), |thread| (thread.active, thread.head));
    ensure_thread_with_metadata(tx, &new, thread.map(|thread| thread.metadata))?;
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
                if row.status == RunStatus::Paused {
                    head = append_status_entry(tx, &row, EntryKind::Cancelled, &new.stop_body)?;
                    end_run(tx, &row.key(), &row.thread, head, RunStatus::Cancelled, None)?;
                    active = None;
                } else {
                    request_cancel(tx, &row.key())?;
                    stop = Some(run);
                }
            }
        }
    }
    tx.state.ticket += 1;
    match &new.claim {
        Some(claim) if active.is_none() && waits.is_none() => start_run_now(tx, &new, claim, head, parent),
        _ => enqueue_run(tx, &new, active, parent, stop),
    }
}

/// Creates the run's thread if it does not exist, and adds the metadata keys the thread does not have yet.
fn ensure_thread_with_metadata(
    tx: &WriteTransaction<'_>,
    new: &NewRun,
    metadata: Option<Map<String, Value>>,
) -> Result<(), StoreError> {
    let exists = metadata.is_some();
    let mut metadata = metadata.unwrap_or_default();
    let had = metadata.len();
    for (name, value) in new.thread_pairs() {
        if !metadata.contains_key(name) {
            metadata.insert(name.clone(), value.clone());
        }
    }
    if !exists {
        return insert_thread(tx, &new.thread, &metadata_to_json(&metadata)?);
    }
    if metadata.len() > had {
        let sql = "UPDATE threads SET metadata = ?3 WHERE tenant = ?1 AND thread = ?2";
        let (tenant, thread) = (new.thread.tenant.as_str(), new.thread.thread.as_str());
        execute(tx.conn, sql, params![tenant, thread, metadata_to_json(&metadata)?])?;
    }
    Ok(())
}

/// Starts a run at once, without queueing it.
fn start_run_now(
    tx: &mut WriteTransaction<'_>,
    new: &NewRun,
    claim: &WorkerLease,
    head: Seq,
    parent: Option<Seq>,
) -> Result<SubmitOutcome, StoreError> {
    let parent = parent.unwrap_or(head);
    let head = head + 1;
    write_first_entry(tx, &new.thread, new.run, head, parent, new.first.kind, new.first.body.clone())?;
    let run = RunRow {
        status: RunStatus::Running,
        epoch: 1,
        started_at: Some(tx.now),
        first_seq: Some(head),
        parent_seq: Some(parent),
        ..new.queued_row(tx.now)
    };
    insert_run(tx, &run, true)?;
    grant_lease(tx, claim, &new.thread, new.run);
    let parent_writer = entry_writer(tx.conn, &new.thread, parent)?;
    let (records, position) = (Vec::new(), tx.position);
    Ok(SubmitOutcome::Started(ClaimedRun { run, head, records, parent_writer, position }))
}

/// Queues a run. Starts it at once if it is next in line.
fn enqueue_run(
    tx: &mut WriteTransaction<'_>,
    new: &NewRun,
    active: Option<RunId>,
    parent: Option<Seq>,
    stop: Option<RunId>,
) -> Result<SubmitOutcome, StoreError> {
    let run = new.queued_row(tx.now);
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
            tx.state.ticket,
            new.run.as_uuid(),
            new.first.kind.code(),
            parent.map(to_i64),
            new.first.body
        ],
    )?;
    touch_thread(tx, &new.thread)?;
    let ready = update_ready_ticket(tx, &new.thread)?;
    // A resumed run that waits for a worker comes first.
    if let Some(claim) = &new.claim
        && ready
        && active.is_none()
        && next_in_queue(tx, &new.thread)? == Some(new.run)
    {
        return claim_run_of_thread(tx, claim, &new.thread)?
            .map(SubmitOutcome::Started)
            .ok_or_else(|| missing_queued_run(&new.thread));
    }
    Ok(SubmitOutcome::Queued { run, stop })
}

/// Stores the idempotency key of the request that submitted a run.
pub(super) fn insert_idempotency_key(
    tx: &WriteTransaction<'_>,
    run: &RunKey,
    name: &str,
    hash: &str,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO idempotency (tenant, key, hash, run, at) VALUES (?1, ?2, ?3, ?4, ?5)";
    execute(tx.conn, sql, params![run.tenant.as_str(), name, hash, run.run.as_uuid(), tx.now]).map(drop)
}

pub(super) fn claim(
    tx: &mut WriteTransaction<'_>,
    claim: &WorkerLease,
    only: Option<&ThreadKey>,
    limit: usize,
) -> Result<Vec<ClaimedRun>, StoreError> {
    let now = Instant::now();
    // Runs whose lease expired go first, because they have waited longest.
    let over = tx.state.leases.iter().filter(|(_, lease)| lease.until <= now);
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
        let sql = "SELECT graph, cancel_asked FROM runs WHERE tenant = ?1 AND run = ?2 AND held = 1";
        let found = query_optional(tx.conn, sql, params![run.tenant.as_str(), run.run.as_uuid()], |row| {
            Ok(claim.takes(&get_column::<String>(row, 0)?, get_column(row, 1)?))
        })?;
        match found {
            Some(true) => claimed.extend(claim_run_of_thread(tx, claim, &thread)?),
            Some(false) => {}
            None => tx.state.ended_leases.push(run),
        }
    }
    for thread in ready_threads(tx, claim, only, limit - claimed.len())? {
        claimed.extend(claim_run_of_thread(tx, claim, &thread)?);
    }
    Ok(claimed)
}

/// Threads whose next run waits for a worker and is one for this worker, in the order in which the runs began to wait.
fn ready_threads(
    tx: &WriteTransaction<'_>,
    claim: &WorkerLease,
    only: Option<&ThreadKey>,
    limit: usize,
) -> Result<Vec<ThreadKey>, StoreError> {
    let one_thread =
        if only.is_some() { "t.tenant = ?1 AND t.thread = ?2 AND" } else { "?1 IS NULL AND ?2 IS NULL AND" };
    let sql = format!(
        "SELECT t.tenant, t.thread, r.graph, r.cancel_asked FROM threads t
         JOIN runs r ON r.tenant = t.tenant AND r.run = coalesce(t.active,
             (SELECT q.run FROM queue q WHERE q.tenant = t.tenant AND q.thread = t.thread
              ORDER BY q.enqueued, q.ticket LIMIT 1))
         WHERE {one_thread} t.ready IS NOT NULL ORDER BY t.ready"
    );
    let mut statement = tx.conn.prepare_cached(&sql).or_store_error()?;
    let (tenant, thread) = only.map(|key| (key.tenant.as_str(), key.thread.as_str())).unzip();
    let mut rows = statement.query(params![tenant, thread]).or_store_error()?;
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(row) = rows.next().or_store_error()? else { break };
        if claim.takes(&get_column::<String>(row, 2)?, get_column(row, 3)?) {
            found.push(thread_key(row, 0, 1)?);
        }
    }
    Ok(found)
}

fn insert_run(tx: &WriteTransaction<'_>, run: &RunRow, held: bool) -> Result<(), StoreError> {
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
        to_i64(run.epoch),
        held,
        tx.state.ticket,
        run.created_at,
        run.started_at,
        run.first_seq.map(to_i64),
        run.parent_seq.map(to_i64),
        run.graph,
        run.fingerprint,
        metadata_to_json(&run.metadata)?,
        run.options
    ];
    execute(tx.conn, sql, row).map(drop)
}

/// Writes the first entry of a run and makes it the active run of its thread.
fn write_first_entry(
    tx: &WriteTransaction<'_>,
    key: &ThreadKey,
    run: RunId,
    seq: Seq,
    parent: Seq,
    kind: EntryKind,
    body: Vec<u8>,
) -> Result<(), StoreError> {
    let base = base_after(tx.conn, key, parent)?;
    let entry = NewEntry { kind, body, parent: Some(parent), base, snapshot: None };
    append_entry(tx, key, seq, Some(run), &entry)?;
    set_active_run(tx, key, Some(run))
}

/// The next queued run of a thread that has no active run.
fn next_in_queue(tx: &WriteTransaction<'_>, key: &ThreadKey) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT run FROM queue WHERE tenant = ?1 AND thread = ?2 ORDER BY enqueued, ticket LIMIT 1";
    let found = query_optional(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str()], |row| {
        get_column::<Uuid>(row, 0)
    })?;
    Ok(found.map(RunId::from_uuid))
}

/// Claims the run of a thread that waits for a worker. The caller has checked that there is one.
fn claim_run_of_thread(
    tx: &mut WriteTransaction<'_>,
    claim: &WorkerLease,
    key: &ThreadKey,
) -> Result<Option<ClaimedRun>, StoreError> {
    let Some(thread) = find_thread(tx.conn, key)? else { return Ok(None) };
    let mut head = thread.head;
    let run = match thread.active {
        Some(run) => run,
        None => {
            let Some(run) = start_next_queued_run(tx, key, thread.head)? else { return Ok(None) };
            head += 1;
            run
        }
    };
    let run_key = key.run(run);
    let sql = "UPDATE runs SET epoch = epoch + 1, held = 1 WHERE tenant = ?1 AND run = ?2";
    execute(tx.conn, sql, params![key.tenant.as_str(), run.as_uuid()])?;
    update_ready_ticket(tx, key)?;
    grant_lease(tx, claim, key, run);
    let records = find_records(tx.conn, &run_key)?;
    let run = find_run(tx.conn, &run_key)?;
    Ok(Some(ClaimedRun { run, head, records, parent_writer: None, position: tx.position }))
}

/// Starts the next queued run of a free thread by writing its first entry.
fn start_next_queued_run(
    tx: &WriteTransaction<'_>,
    key: &ThreadKey,
    head: Seq,
) -> Result<Option<RunId>, StoreError> {
    let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
    let sql = "SELECT rowid, run, kind, parent, body FROM queue
               WHERE tenant = ?1 AND thread = ?2 ORDER BY enqueued, ticket LIMIT 1";
    let next = query_optional(tx.conn, sql, params![tenant, thread], |row| {
        let kind: u8 = get_column(row, 2)?;
        let kind = EntryKind::from_code(kind)
            .ok_or_else(|| StoreError::Damaged(format!("{kind} is no kind of entry")))?;
        Ok((
            get_column::<i64>(row, 0)?,
            get_column::<Uuid>(row, 1)?,
            kind,
            get_column::<Option<Seq>>(row, 3)?,
            get_column::<Vec<u8>>(row, 4)?,
        ))
    })?;
    let Some((place, run, kind, parent, body)) = next else { return Ok(None) };
    execute(tx.conn, "DELETE FROM queue WHERE rowid = ?1", [place])?;
    let run = RunId::from_uuid(run);
    let parent = parent.unwrap_or(head);
    write_first_entry(tx, key, run, head + 1, parent, kind, body)?;
    let sql = "UPDATE runs SET status = ?3, started_at = ?4, first_seq = ?5, parent_seq = ?6
               WHERE tenant = ?1 AND run = ?2";
    let started =
        params![tenant, run.as_uuid(), RunStatus::Running.code(), tx.now, to_i64(head + 1), to_i64(parent)];
    execute(tx.conn, sql, started)?;
    Ok(Some(run))
}

/// Updates the thread's `ready` column after its runs changed. Returns whether a run waits for a worker.
pub(super) fn update_ready_ticket(tx: &WriteTransaction<'_>, key: &ThreadKey) -> Result<bool, StoreError> {
    let sql = "UPDATE threads SET ready = CASE WHEN active IS NULL
                   THEN (SELECT q.ticket FROM queue q WHERE q.tenant = ?1 AND q.thread = ?2
                         ORDER BY q.enqueued, q.ticket LIMIT 1)
                   ELSE (SELECT r.ticket FROM runs r
                         WHERE r.tenant = ?1 AND r.run = active AND r.status = 2 AND r.held = 0) END
               WHERE tenant = ?1 AND thread = ?2
               RETURNING ready IS NOT NULL";
    let ready = query_optional(tx.conn, sql, params![key.tenant.as_str(), key.thread.as_str()], |row| {
        get_column::<bool>(row, 0)
    })?;
    Ok(ready.unwrap_or(false))
}

fn missing_queued_run(key: &ThreadKey) -> StoreError {
    StoreError::Damaged(format!("the run that waits on thread `{}` is missing", key.thread))
}

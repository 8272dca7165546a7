//! Creating, updating and deleting threads, garbage collection, and the node cache.

use std::time::Duration;

use doran_engine::id::{TenantId, ThreadId, ThreadKey};
use doran_engine::store::{Millis, NewEntry, Seq, StoreError, ThreadRow, check_metadata};
use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::history;
use super::rows::{
    MAX_ENTRIES_PER_THREAD, THREAD_COLUMNS, base_after, check_rebuildable, execute, find_thread, get_column,
    metadata_to_json, place, query_all, query_optional, thread_row, to_i64,
};
use super::runs::{append_entry, insert_thread, touch_thread};
use super::writer::WriteTransaction;

pub(super) fn put_thread(
    tx: &WriteTransaction<'_>,
    key: &ThreadKey,
    metadata: &Map<String, Value>,
) -> Result<ThreadRow, StoreError> {
    check_metadata(metadata)?;
    let mut merged = match find_thread(tx.conn, key)? {
        Some(thread) => thread.metadata,
        None => {
            insert_thread(tx, key, "{}")?;
            Map::new()
        }
    };
    for (name, value) in metadata {
        if value.is_null() {
            merged.remove(name);
        } else {
            merged.insert(name.clone(), value.clone());
        }
    }
    let sql = "UPDATE threads SET metadata = ?3, updated_at = ?4 WHERE tenant = ?1 AND thread = ?2";
    execute(
        tx.conn,
        sql,
        params![key.tenant.as_str(), key.thread.as_str(), metadata_to_json(&merged)?, tx.now],
    )?;
    history::thread(tx.conn, key)
}

pub(super) fn append(
    tx: &WriteTransaction<'_>,
    key: &ThreadKey,
    expect: Seq,
    entry: &NewEntry,
) -> Result<Seq, StoreError> {
    let thread = history::thread(tx.conn, key)?;
    if let Some(run) = thread.active {
        return Err(StoreError::Busy { thread: key.thread.clone(), run });
    }
    if thread.head != expect {
        return Err(StoreError::Conflict(format!("the newest entry is {}, not {expect}", thread.head)));
    }
    if let Some(parent) = entry.parent {
        check_rebuildable(tx.conn, key, parent)?;
    }
    append_entry(tx, key, expect + 1, None, entry)?;
    touch_thread(tx, key)?;
    Ok(expect + 1)
}

pub(super) fn copy_thread(
    tx: &WriteTransaction<'_>,
    from: &ThreadKey,
    to: &ThreadId,
    stands: Option<&NewEntry>,
) -> Result<ThreadRow, StoreError> {
    let source = history::thread(tx.conn, from)?;
    if let Some(parent) = stands.and_then(|entry| entry.parent) {
        check_rebuildable(tx.conn, from, parent)?;
    }
    let copy = ThreadKey { tenant: from.tenant.clone(), thread: to.clone() };
    if find_thread(tx.conn, &copy)?.is_some() {
        return Err(StoreError::Conflict(format!("thread `{to}` exists already")));
    }
    insert_thread(tx, &copy, &metadata_to_json(&source.metadata)?)?;
    let key = params![from.tenant.as_str(), from.thread.as_str(), to.as_str()];
    let place = place!();
    let sql = format!(
        "INSERT INTO entries (place, parent, base, run, at, kind, body)
         SELECT e.seq + (SELECT number << 28 FROM threads WHERE tenant = ?1 AND thread = ?3),
             e.parent, e.base, e.run, e.at, e.kind, e.body
         FROM entries e WHERE e.place > {place} AND e.place <= {MAX_ENTRIES_PER_THREAD} + {place} ORDER BY e.place"
    );
    execute(tx.conn, &sql, key)?;
    let sql = "INSERT INTO snapshots (tenant, thread, seq, state)
               SELECT tenant, ?3, seq, state FROM snapshots WHERE tenant = ?1 AND thread = ?2 ORDER BY seq";
    execute(tx.conn, sql, key)?;
    if let Some(entry) = stands
        && entry.parent != Some(source.head)
    {
        append_entry(tx, &copy, source.head + 1, None, entry)?;
    }
    history::thread(tx.conn, &copy)
}

pub(super) fn delete_thread(conn: &Connection, key: &ThreadKey) -> Result<bool, StoreError> {
    let key = params![key.tenant.as_str(), key.thread.as_str()];
    let place = place!();
    let entries =
        format!("DELETE FROM entries WHERE place > {place} AND place <= {MAX_ENTRIES_PER_THREAD} + {place}");
    for sql in [
        "DELETE FROM idempotency WHERE tenant = ?1 AND run IN (SELECT run FROM runs WHERE tenant = ?1 AND thread = ?2)",
        "DELETE FROM records WHERE tenant = ?1 AND run IN (SELECT run FROM runs WHERE tenant = ?1 AND thread = ?2)",
        "DELETE FROM runs WHERE tenant = ?1 AND thread = ?2",
        "DELETE FROM queue WHERE tenant = ?1 AND thread = ?2",
        "DELETE FROM snapshots WHERE tenant = ?1 AND thread = ?2",
        entries.as_str(),
    ] {
        execute(conn, sql, key)?;
    }
    Ok(execute(conn, "DELETE FROM threads WHERE tenant = ?1 AND thread = ?2", key)? > 0)
}

/// The most threads, keys or cache values deleted in one transaction. Other writes run between the transactions.
pub(super) const GC_BATCH_ROWS: usize = 64;

/// Deletes threads that did not change for `age`, in the next batch after `after`. Returns how many, and the cursor
/// of the next batch.
pub(super) fn clear_threads(
    tx: &WriteTransaction<'_>,
    age: Duration,
    after: Option<&ThreadKey>,
) -> Result<(u64, Option<ThreadKey>), StoreError> {
    let threads = idle_threads(tx, time_before(tx.now, age), after)?;
    let mut cleared = 0;
    for thread in &threads {
        cleared += u64::from(delete_thread(tx.conn, &thread.key)?);
    }
    Ok((cleared, next_batch_cursor(threads)))
}

/// Deletes old entries of the next batch of threads after `after`. Returns how many, and the cursor of the next
/// batch.
pub(super) fn clear_entries(
    tx: &WriteTransaction<'_>,
    age: Duration,
    after: Option<&ThreadKey>,
) -> Result<(u64, Option<ThreadKey>), StoreError> {
    let threads = idle_threads(tx, Millis::MAX, after)?;
    let mut cleared = 0;
    for thread in &threads {
        cleared += delete_old_entries(tx.conn, &thread.key, thread.head, time_before(tx.now, age))?;
    }
    Ok((cleared, next_batch_cursor(threads)))
}

/// The last thread of the batch, or `None` if this was the final batch.
fn next_batch_cursor(mut threads: Vec<ThreadRow>) -> Option<ThreadKey> {
    let whole = threads.len() == GC_BATCH_ROWS;
    threads.pop().map(|thread| thread.key).filter(|_| whole)
}

/// Deletes a batch of idempotency keys older than `age`.
pub(super) fn clear_idempotency_keys(tx: &WriteTransaction<'_>, age: Duration) -> Result<u64, StoreError> {
    let sql = "DELETE FROM idempotency WHERE (tenant, key) IN
               (SELECT tenant, key FROM idempotency WHERE at <= ?1 LIMIT ?2)";
    Ok(execute(tx.conn, sql, params![time_before(tx.now, age), GC_BATCH_ROWS])? as u64)
}

/// Deletes a batch of expired cache values.
pub(super) fn clear_expired_cache(tx: &WriteTransaction<'_>) -> Result<u64, StoreError> {
    let sql = "DELETE FROM cache WHERE (tenant, key) IN
               (SELECT tenant, key FROM cache WHERE until <= ?1 LIMIT ?2)";
    Ok(execute(tx.conn, sql, params![tx.now, GC_BATCH_ROWS])? as u64)
}

pub(super) fn get_cached(
    conn: &Connection,
    tenant: &TenantId,
    key: &str,
    now: Millis,
) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT value FROM cache WHERE tenant = ?1 AND key = ?2 AND (until IS NULL OR until > ?3)";
    query_optional(conn, sql, params![tenant.as_str(), key, now], |row| get_column(row, 0))
}

pub(super) fn put_cached(
    tx: &WriteTransaction<'_>,
    tenant: &TenantId,
    key: &str,
    value: &[u8],
    lifetime: Option<Duration>,
) -> Result<(), StoreError> {
    let until = lifetime.map(|lifetime| tx.now.saturating_add(duration_millis(lifetime)));
    let sql = "INSERT INTO cache (tenant, key, until, value) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT DO UPDATE SET until = excluded.until, value = excluded.value";
    execute(tx.conn, sql, params![tenant.as_str(), key, until, value]).map(drop)
}

/// A batch of threads after `after` that have no active or queued run and did not change since `since`.
fn idle_threads(
    tx: &WriteTransaction<'_>,
    since: Millis,
    after: Option<&ThreadKey>,
) -> Result<Vec<ThreadRow>, StoreError> {
    let (tenant, thread) = after.map_or(("", ""), |key| (key.tenant.as_str(), key.thread.as_str()));
    let sql = format!(
        "SELECT {THREAD_COLUMNS} FROM threads
         WHERE active IS NULL AND ready IS NULL AND updated_at <= ?1 AND (tenant, thread) > (?2, ?3)
         ORDER BY tenant, thread LIMIT ?4"
    );
    query_all(tx.conn, &sql, params![since, tenant, thread, GC_BATCH_ROWS], thread_row)
}

/// Deletes the entries up to the time `old` that precede the snapshot of the newest state. Entries that a younger
/// entry depends on are kept.
fn delete_old_entries(conn: &Connection, key: &ThreadKey, head: Seq, old: Millis) -> Result<u64, StoreError> {
    let from = base_after(conn, key, head)?;
    if from == 0 {
        return Ok(0);
    }
    let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
    let place = place!();
    let sql = format!(
        "SELECT coalesce(min(min(seq, base)), ?3) FROM entries
         WHERE place < ?3 + {place} AND place >=
               (SELECT min(place) FROM entries WHERE place > {place} AND place < ?3 + {place} AND at > ?4)"
    );
    let first = query_optional(conn, &sql, params![tenant, thread, to_i64(from), old], |row| {
        get_column::<i64>(row, 0)
    })?
    .unwrap_or(0);
    let cut = params![tenant, thread, first];
    execute(conn, "DELETE FROM snapshots WHERE tenant = ?1 AND thread = ?2 AND seq < ?3", cut)?;
    let sql = format!("DELETE FROM entries WHERE place > {place} AND place < ?3 + {place}");
    Ok(execute(conn, &sql, cut)? as u64)
}

fn duration_millis(length: Duration) -> Millis {
    Millis::try_from(length.as_millis()).unwrap_or(Millis::MAX)
}

/// The latest time that is at least `age` before `now`.
fn time_before(now: Millis, age: Duration) -> Millis {
    now.saturating_sub(duration_millis(age))
}

//! Creating, updating and deleting threads, and the node cache.

use std::time::Duration;

use doran_engine::id::{TenantId, ThreadKey};
use doran_engine::store::{Millis, NewEntry, Seq, StoreError, ThreadRow, check_metadata};
use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::deleted_usage::keep_usage;
use super::history;
use super::log_batches::{BatchBudget, delete_log};
use super::rows::{
    check_rebuildable, execute, find_thread, find_thread_number, get_column, metadata_to_json, query_optional,
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

/// Removes a thread, and what the budget allows of its log. The rest belongs to no thread then.
pub(super) fn delete_thread(
    conn: &Connection,
    key: &ThreadKey,
    budget: &mut BatchBudget,
) -> Result<bool, StoreError> {
    let number = match find_thread_number(conn, key) {
        Ok(number) => number,
        Err(StoreError::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    keep_usage(conn, key)?;
    let key = params![key.tenant.as_str(), key.thread.as_str()];
    for sql in [
        "DELETE FROM records WHERE tenant = ?1 AND run IN (SELECT run FROM runs WHERE tenant = ?1 AND thread = ?2)",
        "DELETE FROM runs WHERE tenant = ?1 AND thread = ?2",
        "DELETE FROM queue WHERE tenant = ?1 AND thread = ?2",
        "DELETE FROM threads WHERE tenant = ?1 AND thread = ?2",
    ] {
        execute(conn, sql, key)?;
    }
    execute(conn, "INSERT INTO unowned_logs (number, copying) VALUES (?1, 0)", [number])?;
    delete_log(conn, number, budget)?;
    Ok(true)
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

pub(super) fn duration_millis(length: Duration) -> Millis {
    Millis::try_from(length.as_millis()).unwrap_or(Millis::MAX)
}

//! Reads states, log entries, runs and threads.

use doran_engine::id::{RunKey, TenantId, ThreadKey};
use doran_engine::store::{
    LoadedLog, LogEntry, RunFilter, RunPosition, RunRow, Seq, StoreError, ThreadFilter, ThreadRow,
    check_metadata, entries_leading_to,
};
use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::error::SqliteResultExt;
use super::rows::{
    ENTRY_COLUMNS, MAX_ENTRIES_PER_THREAD, RUN_COLUMNS, THREAD_COLUMNS, entry_from_row, find_thread,
    get_column, limit_to_i64, newest, place, query_all, query_optional, run_row, status_from_code,
    thread_row, to_i64,
};

/// How many characters of a text `thread_pairs` has.
const MAX_PAIR_CHARS: usize = 64;

/// As many threads as this have a pair that is not rare.
const MAX_RARE_PAIR_THREADS: usize = 1000;

pub(super) fn load(conn: &Connection, key: &ThreadKey, at: Option<Seq>) -> Result<LoadedLog, StoreError> {
    let head = thread(conn, key)?.head;
    let at = at.unwrap_or(head);
    if at == 0 {
        return Ok(LoadedLog { head, ..LoadedLog::default() });
    }
    if at > head {
        return Err(StoreError::no_entry(at));
    }
    let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
    let sql = concat!("SELECT base FROM entries WHERE place = ?3 + ", place!());
    let base =
        query_optional(conn, sql, params![tenant, thread, to_i64(at)], |row| get_column::<Seq>(row, 0))?;
    let base = base.ok_or_else(|| StoreError::no_entry(at))?;
    if let Some(state) = snapshot(conn, key, at)? {
        return Ok(LoadedLog { head, snapshot: Some((at, state)), entries: Vec::new() });
    }
    let snapshot = snapshot(conn, key, base)?.map(|state| (base, state));
    let place = place!();
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM entries WHERE place > ?3 + {place} AND place <= ?4 + {place} ORDER BY place"
    );
    let entries = entries_leading_to(
        query_all(conn, &sql, params![tenant, thread, to_i64(base), to_i64(at)], entry_from_row)?,
        at,
    );
    // `gc` may have deleted entries that an abandoned branch depends on.
    let whole = entries.first().is_some_and(|first| first.parent == base);
    if !whole || (base > 0 && snapshot.is_none()) {
        return Err(StoreError::no_entry(at));
    }
    Ok(LoadedLog { head, snapshot, entries })
}

pub(super) fn entries(
    conn: &Connection,
    key: &ThreadKey,
    after: Seq,
    limit: usize,
) -> Result<Vec<LogEntry>, StoreError> {
    thread(conn, key)?;
    let place = place!();
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM entries
         WHERE place > ?3 + {place} AND place <= {MAX_ENTRIES_PER_THREAD} + {place} ORDER BY place LIMIT ?4"
    );
    let after = to_i64(after.min(MAX_ENTRIES_PER_THREAD));
    query_all(
        conn,
        &sql,
        params![key.tenant.as_str(), key.thread.as_str(), after, limit_to_i64(limit)],
        entry_from_row,
    )
}

pub(super) fn run_position(conn: &Connection, run: &RunKey) -> Result<Option<RunPosition>, StoreError> {
    let sql = concat!(
        "SELECT r.status, r.epoch, CASE WHEN r.first_seq IS NULL THEN 0 ELSE coalesce(r.last_seq, ",
        newest!("t.number"),
        ") END
         FROM runs r JOIN threads t ON t.tenant = r.tenant AND t.thread = r.thread
         WHERE r.tenant = ?1 AND r.run = ?2"
    );
    query_optional(conn, sql, params![run.tenant.as_str(), run.run.as_uuid()], |row| {
        Ok(RunPosition {
            status: status_from_code(get_column(row, 0)?)?,
            epoch: get_column(row, 1)?,
            head: get_column(row, 2)?,
        })
    })
}

pub(super) fn runs(
    conn: &Connection,
    tenant: &TenantId,
    filter: &RunFilter,
) -> Result<Vec<RunRow>, StoreError> {
    // SQLite uses the partial index over open runs only if the query contains the same condition literally.
    let status = match filter.status {
        Some(status) if status.is_end() => format!("AND status = {}", status.code()),
        Some(status) => format!("AND status = {} AND status < 4", status.code()),
        None => String::new(),
    };
    let thread = if filter.thread.is_some() { "AND thread = ?2" } else { "AND ?2 IS NULL" };
    let before = if filter.before.is_some() { "AND run < ?3" } else { "AND ?3 IS NULL" };
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM runs WHERE tenant = ?1 {thread} {before} {status} ORDER BY run DESC LIMIT ?4"
    );
    let thread = filter.thread.as_ref().map(|thread| thread.as_str());
    let before = filter.before.map(|run| run.as_uuid());
    query_all(conn, &sql, params![tenant.as_str(), thread, before, limit_to_i64(filter.limit)], run_row)
}

pub(super) fn thread(conn: &Connection, key: &ThreadKey) -> Result<ThreadRow, StoreError> {
    find_thread(conn, key)?.ok_or_else(|| StoreError::no_thread(key))
}

pub(super) fn threads(
    conn: &Connection,
    tenant: &TenantId,
    filter: &ThreadFilter,
) -> Result<Vec<ThreadRow>, StoreError> {
    check_metadata(&filter.metadata)?;
    // `updated_at <= ?2` is what the index over changes can begin at.
    let after = match &filter.after {
        Some(_) => "AND updated_at <= ?2 AND (updated_at < ?2 OR thread > ?3)",
        None => "AND ?2 IS NULL AND ?3 IS NULL",
    };
    let pair = find_rare_pair(conn, tenant, &filter.metadata)?;
    // The sign keeps SQLite from going through all threads in order.
    let (column, having) = match &pair {
        Some(_) => (
            "+tenant",
            "AND number IN (SELECT number FROM thread_pairs WHERE tenant = ?1 AND key = ?5 AND value = ?6)",
        ),
        None => ("tenant", "AND ?5 IS NULL AND ?6 IS NULL"),
    };
    let sql = format!(
        "SELECT {THREAD_COLUMNS} FROM threads WHERE {column} = ?1 {after} {having}
         ORDER BY updated_at DESC, thread LIMIT -1 OFFSET ?4"
    );
    let mut statement = conn.prepare_cached(&sql).or_store_error()?;
    let (updated_at, thread) =
        filter.after.as_ref().map(|after| (after.updated_at, after.thread.as_str())).unzip();
    // SQLite skips rows faster, but does not know which ones fit.
    let (skipped_by_sql, mut skip) =
        if filter.metadata.is_empty() { (filter.offset, 0) } else { (0, filter.offset) };
    let (key, value) = pair.unzip();
    let row = params![tenant.as_str(), updated_at, thread, limit_to_i64(skipped_by_sql), key, value];
    let mut rows = statement.query(row).or_store_error()?;
    let mut found = Vec::new();
    while found.len() < filter.limit {
        let Some(row) = rows.next().or_store_error()?.map(thread_row).transpose()? else { break };
        // Values are compared here because SQL has no equality for JSON.
        if filter.metadata.iter().any(|(key, value)| row.metadata.get(key) != Some(value)) {
            continue;
        }
        if skip > 0 {
            skip -= 1;
        } else {
            found.push(row);
        }
    }
    Ok(found)
}

/// A pair that so few threads have that they are looked at one by one. Threads with other pairs are found soon in the list of
/// all. The value is as in `thread_pairs`.
fn find_rare_pair<'a>(
    conn: &Connection,
    tenant: &TenantId,
    metadata: &'a Map<String, Value>,
) -> Result<Option<(&'a str, String)>, StoreError> {
    let sql = "SELECT count(*) FROM
               (SELECT 1 FROM thread_pairs WHERE tenant = ?1 AND key = ?2 AND value = ?3 LIMIT ?4)";
    for (key, value) in metadata {
        let value = match value {
            Value::String(text) => text.chars().take(MAX_PAIR_CHARS).collect(),
            Value::Bool(value) => value.to_string(),
            _ => String::new(),
        };
        let params = params![tenant.as_str(), key, value, MAX_RARE_PAIR_THREADS];
        let count = query_optional(conn, sql, params, |row| get_column::<usize>(row, 0))?.unwrap_or(0);
        if count < MAX_RARE_PAIR_THREADS {
            return Ok(Some((key, value)));
        }
    }
    Ok(None)
}

fn snapshot(conn: &Connection, key: &ThreadKey, seq: Seq) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = concat!("SELECT state FROM snapshots WHERE place = ?3 + ", place!());
    query_optional(conn, sql, params![key.tenant.as_str(), key.thread.as_str(), to_i64(seq)], |row| {
        get_column(row, 0)
    })
}

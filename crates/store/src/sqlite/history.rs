//! Reading back.

use doran_engine::id::{Tenant, ThreadKey};
use doran_engine::store::{
    Entry, Loaded, RunFilter, RunRow, Seq, StoreError, ThreadFilter, ThreadRow, check_metadata, lineage,
};
use rusqlite::{Connection, params};

use super::error::Sorted;
use super::rows::{
    ENTRY, MOST_ENTRIES, RUN, THREAD, all, bound, entry, find_thread, get, int, one, place, run_row,
    thread_row,
};

pub(super) fn load(conn: &Connection, key: &ThreadKey, at: Option<Seq>) -> Result<Loaded, StoreError> {
    let head = thread(conn, key)?.head;
    let at = at.unwrap_or(head);
    if at == 0 {
        return Ok(Loaded { head, ..Loaded::default() });
    }
    if at > head {
        return Err(StoreError::no_entry(at));
    }
    let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
    let sql = concat!("SELECT base FROM entries WHERE place = ?3 + ", place!());
    let base = one(conn, sql, params![tenant, thread, int(at)], |row| get::<Seq>(row, 0))?;
    let base = base.ok_or_else(|| StoreError::no_entry(at))?;
    if let Some(state) = snapshot(conn, key, at)? {
        return Ok(Loaded { head, snapshot: Some((at, state)), entries: Vec::new() });
    }
    let snapshot = snapshot(conn, key, base)?.map(|state| (base, state));
    let place = place!();
    let sql = format!(
        "SELECT {ENTRY} FROM entries WHERE place > ?3 + {place} AND place <= ?4 + {place} ORDER BY place"
    );
    let entries = lineage(all(conn, &sql, params![tenant, thread, int(base), int(at)], entry)?, at);
    // `gc` may have cleared a part of the way to an entry of a branch that was left.
    let whole = entries.first().is_some_and(|first| first.parent == base);
    if !whole || (base > 0 && snapshot.is_none()) {
        return Err(StoreError::no_entry(at));
    }
    Ok(Loaded { head, snapshot, entries })
}

pub(super) fn entries(
    conn: &Connection,
    key: &ThreadKey,
    after: Seq,
    limit: usize,
) -> Result<Vec<Entry>, StoreError> {
    thread(conn, key)?;
    let place = place!();
    let sql = format!(
        "SELECT {ENTRY} FROM entries
         WHERE place > ?3 + {place} AND place <= {MOST_ENTRIES} + {place} ORDER BY place LIMIT ?4"
    );
    let after = int(after.min(MOST_ENTRIES));
    all(conn, &sql, params![key.tenant.as_str(), key.thread.as_str(), after, bound(limit)], entry)
}

pub(super) fn runs(
    conn: &Connection,
    tenant: &Tenant,
    filter: &RunFilter,
) -> Result<Vec<RunRow>, StoreError> {
    // SQLite takes the index over the open runs only when its condition is part of the text.
    let status = match filter.status {
        Some(status) if status.is_end() => format!("AND status = {}", status.code()),
        Some(status) => format!("AND status = {} AND status < 4", status.code()),
        None => String::new(),
    };
    let thread = if filter.thread.is_some() { "AND thread = ?2" } else { "AND ?2 IS NULL" };
    let before = if filter.before.is_some() { "AND run < ?3" } else { "AND ?3 IS NULL" };
    let sql = format!(
        "SELECT {RUN} FROM runs WHERE tenant = ?1 {thread} {before} {status} ORDER BY run DESC LIMIT ?4"
    );
    let thread = filter.thread.as_ref().map(|thread| thread.as_str());
    let before = filter.before.map(|run| run.as_uuid());
    all(conn, &sql, params![tenant.as_str(), thread, before, bound(filter.limit)], run_row)
}

pub(super) fn thread(conn: &Connection, key: &ThreadKey) -> Result<ThreadRow, StoreError> {
    find_thread(conn, key)?.ok_or_else(|| StoreError::no_thread(key))
}

pub(super) fn threads(
    conn: &Connection,
    tenant: &Tenant,
    filter: &ThreadFilter,
) -> Result<Vec<ThreadRow>, StoreError> {
    check_metadata(&filter.metadata)?;
    let sql = format!("SELECT {THREAD} FROM threads WHERE tenant = ?1 ORDER BY updated_at DESC, thread");
    let mut statement = conn.prepare_cached(&sql).sorted()?;
    let mut rows = statement.query([tenant.as_str()]).sorted()?;
    let mut skip = filter.offset;
    let mut found = Vec::new();
    while found.len() < filter.limit {
        let Some(row) = rows.next().sorted()?.map(thread_row).transpose()? else { break };
        // Values are compared here: SQL has no equality of JSON.
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

fn snapshot(conn: &Connection, key: &ThreadKey, seq: Seq) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT state FROM snapshots WHERE tenant = ?1 AND thread = ?2 AND seq = ?3";
    one(conn, sql, params![key.tenant.as_str(), key.thread.as_str(), int(seq)], |row| get(row, 0))
}

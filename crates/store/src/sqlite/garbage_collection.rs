//! Garbage collection, in transactions between which others write. It looks at threads that may have something to clear,
//! not at all there are.

use std::ops::RangeInclusive;
use std::time::Duration;

use doran_engine::id::ThreadKey;
use doran_engine::store::{Millis, Seq, StoreError, ThreadRow};
use rusqlite::{Connection, params};

use super::log_batches::BatchBudget;
use super::rows::{
    THREAD_COLUMNS, base_after, execute, get_column, place, query_all, query_optional, thread_row, to_i64,
};
use super::thread_maintenance::delete_thread;
use super::writer::WriteTransaction;

/// The most threads, keys or cache values looked at in one transaction.
pub(super) const GC_BATCH_ROWS: usize = 64;

/// The most entries that one transaction clears of a thread that stays.
const MAX_CLEARED_ENTRIES: u64 = 1000;

/// How far a walk over free threads is: tenant by tenant, the last changed first.
#[derive(Clone, Debug, Default)]
pub(super) struct GcCursor {
    /// Empty before the first tenant.
    tenant: String,
    /// The last thread looked at.
    after: Option<(Millis, String)>,
    pub(super) is_done: bool,
}

impl GcCursor {
    /// The next free threads that last changed in `changed`. Moves past them.
    fn next_threads(
        &mut self,
        conn: &Connection,
        changed: &RangeInclusive<Millis>,
    ) -> Result<Vec<ThreadRow>, StoreError> {
        let sql = format!(
            "SELECT {THREAD_COLUMNS} FROM threads
             WHERE tenant = ?1 AND updated_at BETWEEN ?2 AND ?3 AND (updated_at < ?3 OR thread > ?4)
                 AND active IS NULL AND ready IS NULL
             ORDER BY updated_at DESC, thread LIMIT ?5"
        );
        let mut found = Vec::new();
        for _ in 0..GC_BATCH_ROWS {
            let (newest, thread) = match &self.after {
                Some((changed, thread)) => (*changed, thread.as_str()),
                None => (*changed.end(), ""),
            };
            let room = GC_BATCH_ROWS - found.len();
            let range = params![self.tenant, changed.start(), newest, thread, room];
            let mut threads = query_all(conn, &sql, range, thread_row)?;
            if threads.len() == room {
                self.after = threads.last().map(|last| (last.updated_at, last.key.thread.to_string()));
                found.append(&mut threads);
                return Ok(found);
            }
            found.append(&mut threads);
            let sql = "SELECT min(tenant) FROM threads WHERE tenant > ?1";
            let next = query_optional(conn, sql, [&self.tenant], |row| get_column::<Option<String>>(row, 0))?;
            self.after = None;
            match next.flatten() {
                Some(tenant) => self.tenant = tenant,
                None => {
                    self.is_done = true;
                    break;
                }
            }
        }
        Ok(found)
    }
}

/// Deletes the next threads that did not change for `age`. Returns how many.
pub(super) fn clear_threads(
    tx: &WriteTransaction<'_>,
    age: Duration,
    cursor: &mut GcCursor,
) -> Result<u64, StoreError> {
    let mut budget = BatchBudget::new();
    let mut cleared = 0;
    for thread in cursor.next_threads(tx.conn, &(0..=time_before(tx.now, age)))? {
        cleared += u64::from(delete_thread(tx.conn, &thread.key, &mut budget)?);
    }
    Ok(cleared)
}

/// Deletes entries older than `age` of the next threads that changed since entries were cleared last. Returns how many.
pub(super) fn clear_entries(
    tx: &WriteTransaction<'_>,
    age: Duration,
    cursor: &mut GcCursor,
) -> Result<u64, StoreError> {
    let old = time_before(tx.now, age);
    let sql = "SELECT entries_cleared_before FROM gc_progress";
    let cleared_before = query_optional(tx.conn, sql, [], |row| get_column::<Millis>(row, 0))?.unwrap_or(0);
    let mut before = cursor.clone();
    let mut cleared = 0;
    for thread in cursor.next_threads(tx.conn, &(cleared_before..=Millis::MAX))? {
        let entries = match thread.created_at <= old {
            true => clear_old_entries(tx.conn, &thread.key, thread.head, old)?,
            false => 0,
        };
        cleared += entries;
        if entries == MAX_CLEARED_ENTRIES {
            // More of this thread, and those after it, in the next transaction.
            *cursor = before;
            return Ok(cleared);
        }
        before = GcCursor {
            tenant: thread.key.tenant.to_string(),
            after: Some((thread.updated_at, thread.key.thread.to_string())),
            is_done: false,
        };
    }
    if cursor.is_done {
        let sql = "UPDATE gc_progress SET entries_cleared_before = max(entries_cleared_before, ?1)";
        execute(tx.conn, sql, [old])?;
    }
    Ok(cleared)
}

/// Deletes entries up to the time `old` that precede the snapshot of the newest state, the oldest first. Entries that a
/// younger entry depends on are kept.
fn clear_old_entries(conn: &Connection, key: &ThreadKey, head: Seq, old: Millis) -> Result<u64, StoreError> {
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
    let sql = format!(
        "SELECT seq FROM entries WHERE place > {place} AND place < ?3 + {place} ORDER BY place LIMIT 1 OFFSET ?4"
    );
    let cut =
        query_optional(conn, &sql, params![tenant, thread, first, to_i64(MAX_CLEARED_ENTRIES)], |row| {
            get_column::<i64>(row, 0)
        })?
        .unwrap_or(first);
    let cut = params![tenant, thread, cut];
    execute(conn, &format!("DELETE FROM snapshots WHERE place > {place} AND place < ?3 + {place}"), cut)?;
    let sql = format!("DELETE FROM entries WHERE place > {place} AND place < ?3 + {place}");
    Ok(execute(conn, &sql, cut)? as u64)
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
               (SELECT tenant, key FROM cache WHERE until IS NOT NULL AND until <= ?1 LIMIT ?2)";
    Ok(execute(tx.conn, sql, params![tx.now, GC_BATCH_ROWS])? as u64)
}

/// The latest time that is at least `age` before `now`.
fn time_before(now: Millis, age: Duration) -> Millis {
    now.saturating_sub(Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX))
}

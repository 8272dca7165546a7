//! Copying and deleting the log of a thread in batches. A thread is removed, and a copy appears, in one transaction; the
//! rows of a long log are deleted after that, and copied before it, in transactions between which others write.

use doran_engine::id::{ThreadId, ThreadKey};
use doran_engine::store::{NewEntry, Seq, StoreError, ThreadRow};
use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::history;
use super::rows::{
    MAX_ENTRIES_PER_THREAD, check_rebuildable, execute, find_thread, find_thread_number, get_column,
    metadata_to_json, query_all, to_i64,
};
use super::runs::{append_entry, insert_thread_as, next_thread_number};
use super::writer::WriteTransaction;

/// The most entries in a batch.
const MAX_BATCH_ENTRIES: usize = 1000;
/// The most bytes in a batch, unless one entry is larger.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// What a transaction may still copy or delete.
pub(super) struct BatchBudget {
    entries: usize,
    bytes: usize,
}

impl BatchBudget {
    pub(super) fn new() -> Self {
        Self { entries: MAX_BATCH_ENTRIES, bytes: MAX_BATCH_BYTES }
    }

    /// The first entry of the batch that ends before entry `before` of a log, and is the newest part of what lies there.
    /// `None` if nothing lies there, or nothing more may be done.
    fn take_batch(&mut self, conn: &Connection, number: i64, before: Seq) -> Result<Option<Seq>, StoreError> {
        let sql = "SELECT e.seq, length(e.body) + coalesce(length(s.state), 0)
                   FROM entries e LEFT JOIN snapshots s ON s.place = e.place
                   WHERE e.place > ?1 << 28 AND e.place < (?1 << 28) + ?2 ORDER BY e.place DESC LIMIT ?3";
        let rows = query_all(conn, sql, params![number, to_i64(before), self.entries], |row| {
            Ok((get_column::<Seq>(row, 0)?, get_column::<usize>(row, 1)?))
        })?;
        let mut first = None;
        for (seq, bytes) in rows {
            if bytes > self.bytes && (first.is_some() || self.bytes < MAX_BATCH_BYTES) {
                self.entries = 0;
                break;
            }
            self.bytes = self.bytes.saturating_sub(bytes);
            self.entries -= 1;
            first = Some(seq);
        }
        Ok(first)
    }
}

/// Deletes what the budget allows of a log that belongs to no thread.
pub(super) fn delete_log(conn: &Connection, number: i64, budget: &mut BatchBudget) -> Result<(), StoreError> {
    if let Some(first) = budget.take_batch(conn, number, MAX_ENTRIES_PER_THREAD + 1)? {
        for sql in [
            "DELETE FROM snapshots WHERE place >= (?1 << 28) + ?2 AND place < (?1 + 1) << 28",
            "DELETE FROM entries WHERE place >= (?1 << 28) + ?2 AND place < (?1 + 1) << 28",
        ] {
            execute(conn, sql, params![number, to_i64(first)])?;
        }
    }
    let sql = "DELETE FROM unowned_logs WHERE number = ?1
               AND NOT EXISTS (SELECT 1 FROM entries WHERE place > ?1 << 28 AND place < (?1 + 1) << 28)";
    execute(conn, sql, [number]).map(drop)
}

/// Deletes a batch of the logs that belong to no thread. Returns whether more are left.
pub(super) fn delete_unowned_logs(tx: &WriteTransaction<'_>) -> Result<bool, StoreError> {
    let sql = "SELECT number FROM unowned_logs WHERE copying = 0 LIMIT ?1";
    let find = || query_all(tx.conn, sql, [MAX_BATCH_ENTRIES], |row| get_column::<i64>(row, 0));
    let mut budget = BatchBudget::new();
    for number in find()? {
        if budget.entries == 0 {
            return Ok(true);
        }
        delete_log(tx.conn, number, &mut budget)?;
    }
    Ok(!find()?.is_empty())
}

/// A copy of a thread that is under way. Entries are copied from the newest to the oldest: if `gc` deletes old ones
/// meanwhile, the copy has no gap.
pub(super) struct ThreadCopy {
    from: ThreadKey,
    to: ThreadId,
    metadata: Map<String, Value>,
    stands: Option<NewEntry>,
    head: Seq,
    source_number: i64,
    pub(super) number: i64,
    /// Entries from this one on are copied.
    copied_from: Seq,
}

/// How far a copy is.
pub(super) enum CopyProgress {
    Unfinished(Box<ThreadCopy>),
    Complete(ThreadRow),
}

/// Begins a copy under a number of its own.
pub(super) fn begin_copy(
    tx: &WriteTransaction<'_>,
    from: ThreadKey,
    to: ThreadId,
    stands: Option<NewEntry>,
) -> Result<CopyProgress, StoreError> {
    let source = history::thread(tx.conn, &from)?;
    if let Some(parent) = stands.as_ref().and_then(|entry| entry.parent) {
        check_rebuildable(tx.conn, &from, parent)?;
    }
    let copy = ThreadCopy {
        source_number: find_thread_number(tx.conn, &from)?,
        number: next_thread_number(tx)?,
        metadata: source.metadata,
        head: source.head,
        copied_from: source.head + 1,
        from,
        to,
        stands,
    };
    copy.refuse_taken_name(tx)?;
    execute(tx.conn, "INSERT INTO unowned_logs (number, copying) VALUES (?1, 1)", [copy.number])?;
    continue_copy(tx, copy)
}

/// Copies a batch. The last one makes the thread.
pub(super) fn continue_copy(
    tx: &WriteTransaction<'_>,
    mut copy: ThreadCopy,
) -> Result<CopyProgress, StoreError> {
    if find_thread_number(tx.conn, &copy.from)? != copy.source_number {
        return Err(StoreError::no_thread(&copy.from));
    }
    let first = BatchBudget::new().take_batch(tx.conn, copy.source_number, copy.copied_from)?;
    if let Some(first) = first {
        copy.copy_entries(tx.conn, first)?;
        copy.copied_from = first;
    }
    let sql = "SELECT 1 FROM entries WHERE place > ?1 << 28 AND place < (?1 << 28) + ?2 LIMIT 1";
    let left = query_all(tx.conn, sql, params![copy.source_number, to_i64(copy.copied_from)], |_| Ok(()))?;
    if !left.is_empty() {
        return Ok(CopyProgress::Unfinished(Box::new(copy)));
    }
    copy.finish(tx).map(CopyProgress::Complete)
}

/// Gives up a copy. What it has is deleted with the next batch.
pub(super) fn abandon_copy(tx: &WriteTransaction<'_>, number: i64) -> Result<(), StoreError> {
    execute(tx.conn, "UPDATE unowned_logs SET copying = 0 WHERE number = ?1", [number]).map(drop)
}

impl ThreadCopy {
    fn key(&self) -> ThreadKey {
        ThreadKey { tenant: self.from.tenant.clone(), thread: self.to.clone() }
    }

    fn refuse_taken_name(&self, tx: &WriteTransaction<'_>) -> Result<(), StoreError> {
        match find_thread(tx.conn, &self.key())? {
            Some(_) => Err(StoreError::Conflict(format!("thread `{}` exists already", self.to))),
            None => Ok(()),
        }
    }

    fn copy_entries(&self, conn: &Connection, first: Seq) -> Result<(), StoreError> {
        for sql in [
            "INSERT INTO entries (place, parent, base, run, at, kind, body)
             SELECT place + ((?2 - ?1) << 28), parent, base, run, at, kind, body FROM entries
             WHERE place >= (?1 << 28) + ?3 AND place < (?1 << 28) + ?4 ORDER BY place",
            "INSERT INTO snapshots (place, state)
             SELECT place + ((?2 - ?1) << 28), state FROM snapshots
             WHERE place >= (?1 << 28) + ?3 AND place < (?1 << 28) + ?4 ORDER BY place",
        ] {
            let range = params![self.source_number, self.number, to_i64(first), to_i64(self.copied_from)];
            execute(conn, sql, range)?;
        }
        Ok(())
    }

    fn finish(self, tx: &WriteTransaction<'_>) -> Result<ThreadRow, StoreError> {
        self.refuse_taken_name(tx)?;
        let key = self.key();
        execute(tx.conn, "DELETE FROM unowned_logs WHERE number = ?1", [self.number])?;
        insert_thread_as(tx, self.number, &key, &metadata_to_json(&self.metadata)?)?;
        if let Some(entry) = &self.stands
            && entry.parent != Some(self.head)
        {
            if let Some(parent) = entry.parent {
                check_rebuildable(tx.conn, &key, parent)?;
            }
            append_entry(tx, &key, self.head + 1, None, entry)?;
        }
        history::thread(tx.conn, &key)
    }
}

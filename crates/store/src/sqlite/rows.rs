//! Converts rows to values, and small reads that several operations share.

use doran_engine::id::{RunId, RunKey, TenantId, ThreadId, ThreadKey};
use doran_engine::store::{
    EntryKind, LogEntry, Record, RecordStage, RunFailure, RunRow, RunStatus, RunUsage, Seq, StoreError,
    ThreadRow,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::error::SqliteResultExt;

/// SQLite has no unsigned integers. Doran's numbers stay far below `i64::MAX`.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a row limit.
pub(super) fn limit_to_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The columns that [`run_row`] reads.
pub(super) const RUN_COLUMNS: &str = "tenant, thread, run, graph, fingerprint, status, epoch, cancel_asked, created_at, \
     started_at, ended_at, first_seq, parent_seq, last_seq, steps, input_tokens, output_tokens, cost_micros, \
     error_code, error_message, metadata, options";

/// The most entries a thread can have. The `place` of an entry is the thread's number shifted left by 28 bits, plus
/// `seq`.
pub(super) const MAX_ENTRIES_PER_THREAD: Seq = (1 << 28) - 1;

/// SQL for the `place` before the thread's first entry, with the tenant as `?1` and the thread as `?2`. Null if the
/// thread does not exist, so a comparison with it matches nothing.
macro_rules! place {
    () => {
        "(SELECT p.number << 28 FROM threads p WHERE p.tenant = ?1 AND p.thread = ?2)"
    };
}
pub(super) use place;

/// SQL for the `seq` of the newest entry of thread number `$number`.
macro_rules! newest {
    ($number:literal) => {
        concat!(
            "coalesce((SELECT e.seq FROM entries e WHERE e.place > ",
            $number,
            " << 28 AND e.place < (",
            $number,
            " + 1) << 28 ORDER BY e.place DESC LIMIT 1), 0)"
        )
    };
}
pub(super) use newest;

/// The columns that [`thread_row`] reads.
pub(super) const THREAD_COLUMNS: &str =
    concat!("tenant, thread, ", newest!("threads.number"), ", active, created_at, updated_at, metadata");

/// The columns that [`entry_from_row`] reads.
pub(super) const ENTRY_COLUMNS: &str = "seq, parent, base, run, at, kind, body";

pub(super) fn thread_row(row: &Row<'_>) -> Result<ThreadRow, StoreError> {
    Ok(ThreadRow {
        key: thread_key(row, 0, 1)?,
        head: get_column(row, 2)?,
        active: get_column::<Option<Uuid>>(row, 3)?.map(RunId::from_uuid),
        created_at: get_column(row, 4)?,
        updated_at: get_column(row, 5)?,
        metadata: metadata_column(row, 6)?,
    })
}

pub(super) fn run_row(row: &Row<'_>) -> Result<RunRow, StoreError> {
    let code: Option<String> = get_column(row, 18)?;
    let message: Option<String> = get_column(row, 19)?;
    Ok(RunRow {
        thread: thread_key(row, 0, 1)?,
        run: RunId::from_uuid(get_column(row, 2)?),
        graph: get_column(row, 3)?,
        fingerprint: get_column(row, 4)?,
        status: status_from_code(get_column(row, 5)?)?,
        epoch: get_column(row, 6)?,
        cancel_asked: get_column(row, 7)?,
        created_at: get_column(row, 8)?,
        started_at: get_column(row, 9)?,
        ended_at: get_column(row, 10)?,
        first_seq: get_column(row, 11)?,
        parent_seq: get_column(row, 12)?,
        last_seq: get_column(row, 13)?,
        steps: get_column(row, 14)?,
        usage: RunUsage {
            input_tokens: get_column(row, 15)?,
            output_tokens: get_column(row, 16)?,
            cost_micros: get_column(row, 17)?,
        },
        error: code.zip(message).map(|(code, message)| RunFailure { code, message }),
        metadata: metadata_column(row, 20)?,
        options: get_column(row, 21)?,
    })
}

pub(super) fn entry_from_row(row: &Row<'_>) -> Result<LogEntry, StoreError> {
    let kind: u8 = get_column(row, 5)?;
    Ok(LogEntry {
        seq: get_column(row, 0)?,
        parent: get_column(row, 1)?,
        base: get_column(row, 2)?,
        run: get_column::<Option<Uuid>>(row, 3)?.map(RunId::from_uuid),
        at: get_column(row, 4)?,
        kind: EntryKind::from_code(kind).ok_or_else(|| invalid_code("kind of entry", kind))?,
        body: get_column(row, 6)?,
    })
}

pub(super) fn status_from_code(code: u8) -> Result<RunStatus, StoreError> {
    RunStatus::from_code(code).ok_or_else(|| invalid_code("status", code))
}

pub(super) fn stage_code(stage: RecordStage) -> u8 {
    match stage {
        RecordStage::Open => 1,
        RecordStage::Begun => 2,
        RecordStage::Done => 3,
        RecordStage::Failed => 4,
    }
}

fn stage_from_code(code: u8) -> Result<RecordStage, StoreError> {
    Ok(match code {
        1 => RecordStage::Open,
        2 => RecordStage::Begun,
        3 => RecordStage::Done,
        4 => RecordStage::Failed,
        other => return Err(invalid_code("stage", other)),
    })
}

pub(super) fn metadata_to_json(metadata: &Map<String, Value>) -> Result<String, StoreError> {
    serde_json::to_string(metadata).map_err(|error| StoreError::Other(error.into()))
}

/// Returns a run, or `NotFound`.
pub(super) fn find_run(conn: &Connection, key: &RunKey) -> Result<RunRow, StoreError> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE tenant = ?1 AND run = ?2");
    let found = query_optional(conn, &sql, params![key.tenant.as_str(), key.run.as_uuid()], run_row)?;
    found.ok_or_else(|| StoreError::no_run(key))
}

/// Returns a thread, if it exists.
pub(super) fn find_thread(conn: &Connection, key: &ThreadKey) -> Result<Option<ThreadRow>, StoreError> {
    let sql = format!("SELECT {THREAD_COLUMNS} FROM threads WHERE tenant = ?1 AND thread = ?2");
    query_optional(conn, &sql, params![key.tenant.as_str(), key.thread.as_str()], thread_row)
}

/// Returns the number of a thread, or `NotFound`.
pub(super) fn find_thread_number(conn: &Connection, key: &ThreadKey) -> Result<i64, StoreError> {
    let sql = "SELECT number FROM threads WHERE tenant = ?1 AND thread = ?2";
    let key_columns = params![key.tenant.as_str(), key.thread.as_str()];
    let number = query_optional(conn, sql, key_columns, |row| get_column(row, 0))?;
    number.ok_or_else(|| StoreError::no_thread(key))
}

/// Returns the base of an entry whose parent is `parent`, or `NotFound` if there is no such parent.
pub(super) fn base_after(conn: &Connection, key: &ThreadKey, parent: Seq) -> Result<Seq, StoreError> {
    if parent == 0 {
        return Ok(0);
    }
    // A larger number would address an entry of another thread.
    if parent > MAX_ENTRIES_PER_THREAD {
        return Err(StoreError::no_entry(parent));
    }
    let sql = concat!(
        "SELECT base, EXISTS (SELECT 1 FROM snapshots s WHERE s.place = e.place) FROM entries e WHERE e.place = ?3 + ",
        place!()
    );
    let key = params![key.tenant.as_str(), key.thread.as_str(), to_i64(parent)];
    let found =
        query_optional(conn, sql, key, |row| Ok((get_column::<Seq>(row, 0)?, get_column::<bool>(row, 1)?)))?;
    let (base, has_snapshot) = found.ok_or_else(|| StoreError::no_entry(parent))?;
    Ok(if has_snapshot { parent } else { base })
}

/// The run that wrote an entry, if there is such an entry and a run wrote it.
pub(super) fn entry_writer(
    conn: &Connection,
    key: &ThreadKey,
    seq: Seq,
) -> Result<Option<RunId>, StoreError> {
    let sql = concat!("SELECT run FROM entries WHERE place = ?3 + ", place!());
    let key = params![key.tenant.as_str(), key.thread.as_str(), to_i64(seq)];
    let found = query_optional(conn, sql, key, |row| get_column::<Option<Uuid>>(row, 0))?;
    Ok(found.flatten().map(RunId::from_uuid))
}

/// Checks that the state after entry `seq` can be rebuilt: `gc` may have deleted entries that an abandoned branch
/// depends on. It deletes all before some entry, so where the snapshot of a branch is, its entries are.
pub(super) fn check_rebuildable(conn: &Connection, key: &ThreadKey, seq: Seq) -> Result<(), StoreError> {
    let base = base_after(conn, key, seq)?;
    let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
    let found = if base > 0 {
        let sql = concat!("SELECT 1 FROM snapshots WHERE place = ?3 + ", place!());
        query_optional(conn, sql, params![tenant, thread, to_i64(base)], |_| Ok(()))?
    } else {
        let place = place!();
        let sql = format!(
            "WITH RECURSIVE line (parent) AS (
                 SELECT ?3 UNION ALL SELECT e.parent FROM line l JOIN entries e ON e.place = l.parent + {place}
                 WHERE l.parent > 0)
             SELECT 1 FROM line WHERE parent = 0"
        );
        query_optional(conn, &sql, params![tenant, thread, to_i64(seq)], |_| Ok(()))?
    };
    found.ok_or_else(|| StoreError::no_entry(seq))
}

/// Returns all records of a run, ordered by task and key.
pub(super) fn find_records(conn: &Connection, key: &RunKey) -> Result<Vec<Record>, StoreError> {
    let sql = "SELECT path, key, stage, body FROM records WHERE tenant = ?1 AND run = ?2 ORDER BY path, key";
    query_all(conn, sql, params![key.tenant.as_str(), key.run.as_uuid()], |row| {
        Ok(Record {
            path: get_column(row, 0)?,
            key: get_column(row, 1)?,
            stage: stage_from_code(get_column(row, 2)?)?,
            body: get_column(row, 3)?,
        })
    })
}

/// Returns the first row of the result, if any.
pub(super) fn query_optional<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut statement = conn.prepare_cached(sql).or_store_error()?;
    statement.query_row(params, |row| Ok(read(row))).optional().or_store_error()?.transpose()
}

/// Returns all rows of the result.
pub(super) fn query_all<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = conn.prepare_cached(sql).or_store_error()?;
    let mut rows = statement.query(params).or_store_error()?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().or_store_error()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Runs a statement and returns the number of rows it changed.
pub(super) fn execute(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<usize, StoreError> {
    conn.prepare_cached(sql).or_store_error()?.execute(params).or_store_error()
}

/// Reads one column.
pub(super) fn get_column<T: rusqlite::types::FromSql>(row: &Row<'_>, column: usize) -> Result<T, StoreError> {
    row.get(column).or_store_error()
}

pub(super) fn thread_key(row: &Row<'_>, tenant: usize, thread: usize) -> Result<ThreadKey, StoreError> {
    let tenant = row
        .get_ref(tenant)
        .or_store_error()?
        .as_str()
        .map_err(|error| StoreError::Damaged(error.to_string()))?;
    let thread = row
        .get_ref(thread)
        .or_store_error()?
        .as_str()
        .map_err(|error| StoreError::Damaged(error.to_string()))?;
    Ok(ThreadKey {
        tenant: TenantId::new(tenant).map_err(|error| StoreError::Damaged(error.to_string()))?,
        thread: ThreadId::new(thread).map_err(|error| StoreError::Damaged(error.to_string()))?,
    })
}

fn metadata_column(row: &Row<'_>, column: usize) -> Result<Map<String, Value>, StoreError> {
    let text = row
        .get_ref(column)
        .or_store_error()?
        .as_str()
        .map_err(|error| StoreError::Damaged(error.to_string()))?;
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(format!("metadata: {error}")))
}

pub(super) fn invalid_code(what: &str, code: u8) -> StoreError {
    StoreError::Damaged(format!("{code} is no {what}"))
}

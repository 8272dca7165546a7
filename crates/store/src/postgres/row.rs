//! Converts rows to values, and values to SQL parameters.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doran_engine::id::{RunId, TenantId, ThreadId, ThreadKey};
use doran_engine::store::{
    DeletedUsage, EntryKind, LogEntry, Millis, Record, RecordStage, RunFailure, RunRow, RunStatus, RunUsage,
    Seq, StoreError, ThreadRow,
};
use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use super::error::damaged;

/// Reads a column by name.
pub(super) fn get_column<'a, T: FromSql<'a>>(row: &'a Row, column: &str) -> Result<T, StoreError> {
    row.try_get(column).map_err(damaged)
}

pub(super) fn run_row(row: &Row) -> Result<RunRow, StoreError> {
    let tenant = TenantId::new(get_column(row, "tenant")?).map_err(damaged)?;
    let thread = ThreadId::new(get_column(row, "thread")?).map_err(damaged)?;
    let code: Option<&[u8]> = get_column(row, "error_code")?;
    let error = match code {
        Some(code) => {
            let message = get_column::<Option<&[u8]>>(row, "error_message")?.unwrap_or_default();
            Some(RunFailure { code: utf8_text(code)?, message: utf8_text(message)? })
        }
        None => None,
    };
    Ok(RunRow {
        thread: ThreadKey { tenant, thread },
        run: RunId::from_uuid(get_column(row, "run")?),
        graph: utf8_text(get_column(row, "graph")?)?,
        fingerprint: utf8_text(get_column(row, "fingerprint")?)?,
        status: decode_code(get_column(row, "status")?, RunStatus::from_code)?,
        epoch: to_u64(get_column(row, "epoch")?)?,
        cancel_asked: get_column(row, "cancel_asked")?,
        created_at: unix_millis(get_column(row, "created_at")?),
        started_at: get_column::<Option<SystemTime>>(row, "started_at")?.map(unix_millis),
        ended_at: get_column::<Option<SystemTime>>(row, "ended_at")?.map(unix_millis),
        first_seq: to_optional_u64(get_column(row, "first_seq")?)?,
        parent_seq: to_optional_u64(get_column(row, "parent_seq")?)?,
        last_seq: to_optional_u64(get_column(row, "last_seq")?)?,
        steps: u32::try_from(get_column::<i64>(row, "steps")?).unwrap_or(u32::MAX),
        usage: usage_columns(row)?,
        error,
        metadata: serde_json::from_slice(get_column(row, "metadata")?).map_err(damaged)?,
        options: get_column(row, "options")?,
    })
}

fn usage_columns(row: &Row) -> Result<RunUsage, StoreError> {
    Ok(RunUsage {
        input_tokens: to_u64(get_column(row, "input_tokens")?)?,
        output_tokens: to_u64(get_column(row, "output_tokens")?)?,
        cost_micros: to_u64(get_column(row, "cost_micros")?)?,
    })
}

pub(super) fn deleted_usage_row(row: &Row) -> Result<DeletedUsage, StoreError> {
    Ok(DeletedUsage {
        at: unix_millis(get_column(row, "at")?),
        graph: utf8_text(get_column(row, "graph")?)?,
        runs: to_u64(get_column(row, "runs")?)?,
        usage: usage_columns(row)?,
        is_exact: get_column(row, "is_exact")?,
    })
}

/// The columns that [`thread_row`] reads, from `threads t`. While a run is running, the newest entry is found in the
/// entries, not in the thread's row.
macro_rules! thread_columns {
    () => {
        "t.tenant, t.thread, t.active, t.created_at, t.updated_at, t.meta_keys, t.meta_vals, \
         case when t.active is null then t.head else coalesce(( \
         select max(e.seq) from entries e where e.number = t.number), 0) end as head"
    };
}
pub(super) use thread_columns;

pub(super) fn thread_row(row: &Row) -> Result<ThreadRow, StoreError> {
    let tenant = TenantId::new(get_column(row, "tenant")?).map_err(damaged)?;
    let thread = ThreadId::new(get_column(row, "thread")?).map_err(damaged)?;
    let keys: Vec<&[u8]> = get_column(row, "meta_keys")?;
    let values: Vec<&[u8]> = get_column(row, "meta_vals")?;
    let mut metadata = Map::new();
    for (key, value) in keys.into_iter().zip(values) {
        metadata.insert(utf8_text(key)?, serde_json::from_slice(value).map_err(damaged)?);
    }
    Ok(ThreadRow {
        key: ThreadKey { tenant, thread },
        head: to_u64(get_column(row, "head")?)?,
        active: get_column::<Option<Uuid>>(row, "active")?.map(RunId::from_uuid),
        created_at: unix_millis(get_column(row, "created_at")?),
        updated_at: unix_millis(get_column(row, "updated_at")?),
        metadata,
    })
}

pub(super) fn entry_from_row(row: &Row) -> Result<LogEntry, StoreError> {
    Ok(LogEntry {
        seq: to_u64(get_column(row, "seq")?)?,
        parent: to_u64(get_column(row, "parent")?)?,
        base: to_u64(get_column(row, "base")?)?,
        run: get_column::<Option<Uuid>>(row, "run")?.map(RunId::from_uuid),
        at: unix_millis(get_column(row, "at")?),
        kind: decode_code(get_column(row, "kind")?, EntryKind::from_code)?,
        body: get_column(row, "body")?,
    })
}

/// The records that `claim_runs` returns as four arrays. The arrays are null if there are no records.
pub(super) fn records_from_row(row: &Row) -> Result<Vec<Record>, StoreError> {
    let paths = get_column::<Option<Vec<&[u8]>>>(row, "o_paths")?.unwrap_or_default();
    let keys = get_column::<Option<Vec<&[u8]>>>(row, "o_keys")?.unwrap_or_default();
    let stages = get_column::<Option<Vec<i16>>>(row, "o_stages")?.unwrap_or_default();
    let bodies = get_column::<Option<Vec<Vec<u8>>>>(row, "o_bodies")?.unwrap_or_default();
    let parts = paths.into_iter().zip(keys).zip(stages).zip(bodies);
    let record = |(((path, key), stage), body)| {
        Ok(Record {
            path: utf8_text(path)?,
            key: utf8_text(key)?,
            stage: decode_code(stage, stage_from_code)?,
            body,
        })
    };
    parts.map(record).collect()
}

pub(super) fn stage_code(stage: RecordStage) -> i16 {
    match stage {
        RecordStage::Open => 1,
        RecordStage::Begun => 2,
        RecordStage::Done => 3,
        RecordStage::Failed => 4,
    }
}

fn stage_from_code(code: u8) -> Option<RecordStage> {
    Some(match code {
        1 => RecordStage::Open,
        2 => RecordStage::Begun,
        3 => RecordStage::Done,
        4 => RecordStage::Failed,
        _ => return None,
    })
}

pub(super) fn decode_code<T>(code: i16, from: impl Fn(u8) -> Option<T>) -> Result<T, StoreError> {
    u8::try_from(code)
        .ok()
        .and_then(from)
        .ok_or_else(|| StoreError::Damaged(format!("code {code} means nothing")))
}

fn utf8_text(bytes: &[u8]) -> Result<String, StoreError> {
    String::from_utf8(bytes.to_vec()).map_err(damaged)
}

pub(super) fn to_u64(value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(damaged)
}

fn to_optional_u64(value: Option<i64>) -> Result<Option<u64>, StoreError> {
    value.map(to_u64).transpose()
}

/// The time at this millisecond.
pub(super) fn from_unix_millis(millis: Millis) -> SystemTime {
    let since = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 { SystemTime::UNIX_EPOCH - since } else { SystemTime::UNIX_EPOCH + since }
}

pub(super) fn unix_millis(time: SystemTime) -> Millis {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX),
        Err(before) => -Millis::try_from(before.duration().as_millis()).unwrap_or(Millis::MAX),
    }
}

/// Converts a count or sequence number. A value out of range matches no row.
pub(super) fn to_i64(value: Seq) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a duration to milliseconds, limited to a hundred years so that the database's timestamps do not overflow.
pub(super) fn to_bounded_millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX).min(100 * 365 * 24 * 3_600_000)
}

pub(super) fn limit_to_i64(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// JSON text that is the same for equal values: object keys are sorted.
pub(super) fn canonical_json(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical_json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(pairs) => {
            let mut pairs: Vec<(&String, &Value)> = pairs.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs: Vec<String> = pairs
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical_json(value)))
                .collect();
            format!("{{{}}}", pairs.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_one_text() {
        let left: Value =
            serde_json::from_str(r#"{"b":[1,{"z":null,"a":"\u0041"}],"a":true}"#).expect("json");
        let right: Value = serde_json::from_str(r#"{"a":true,"b":[1,{"a":"A","z":null}]}"#).expect("json");
        assert_eq!(canonical_json(&left), canonical_json(&right));
        assert_eq!(serde_json::from_str::<Value>(&canonical_json(&left)).expect("json"), left);
        assert_ne!(canonical_json(&Value::from(1)), canonical_json(&Value::from("1")));
    }

    #[test]
    fn times_are_milliseconds_since_1970() {
        assert_eq!(unix_millis(UNIX_EPOCH + Duration::from_millis(1500)), 1500);
        assert_eq!(unix_millis(UNIX_EPOCH - Duration::from_millis(3)), -3);
    }
}

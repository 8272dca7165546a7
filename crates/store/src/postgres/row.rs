//! Rows into records, and numbers and texts into what the database takes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doran_engine::id::{RunId, Tenant, ThreadId, ThreadKey};
use doran_engine::store::{
    Entry, EntryKind, Millis, Record, RunFailure, RunRow, Seq, Stage, Status, StoreError, ThreadRow, Usage,
};
use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use super::error::damaged;

/// A column by its name.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: &str) -> Result<T, StoreError> {
    row.try_get(column).map_err(damaged)
}

pub(super) fn run_row(row: &Row) -> Result<RunRow, StoreError> {
    let tenant = Tenant::new(get(row, "tenant")?).map_err(damaged)?;
    let thread = ThreadId::new(get(row, "thread")?).map_err(damaged)?;
    let code: Option<&[u8]> = get(row, "error_code")?;
    let error = match code {
        Some(code) => {
            let message = get::<Option<&[u8]>>(row, "error_message")?.unwrap_or_default();
            Some(RunFailure { code: text(code)?, message: text(message)? })
        }
        None => None,
    };
    Ok(RunRow {
        thread: ThreadKey { tenant, thread },
        run: RunId::from_uuid(get(row, "run")?),
        graph: text(get(row, "graph")?)?,
        fingerprint: text(get(row, "fingerprint")?)?,
        status: code_of(get(row, "status")?, Status::from_code)?,
        epoch: number(get(row, "epoch")?)?,
        cancel_asked: get(row, "cancel_asked")?,
        created_at: millis(get(row, "created_at")?),
        started_at: get::<Option<SystemTime>>(row, "started_at")?.map(millis),
        ended_at: get::<Option<SystemTime>>(row, "ended_at")?.map(millis),
        first_seq: maybe_number(get(row, "first_seq")?)?,
        parent_seq: maybe_number(get(row, "parent_seq")?)?,
        last_seq: maybe_number(get(row, "last_seq")?)?,
        steps: u32::try_from(get::<i64>(row, "steps")?).unwrap_or(u32::MAX),
        usage: Usage {
            input_tokens: number(get(row, "input_tokens")?)?,
            output_tokens: number(get(row, "output_tokens")?)?,
            cost_micros: number(get(row, "cost_micros")?)?,
        },
        error,
        metadata: serde_json::from_slice(get(row, "metadata")?).map_err(damaged)?,
        options: get(row, "options")?,
    })
}

/// The columns [`thread_row`] reads, of `threads t`. While a run is running its entries alone tell which is the newest.
macro_rules! thread_columns {
    () => {
        "t.tenant, t.thread, t.active, t.created_at, t.updated_at, t.meta_keys, t.meta_vals, \
         case when t.active is null then t.head else coalesce(( \
         select max(e.seq) from entries e where e.number = t.number), 0) end as head"
    };
}
pub(super) use thread_columns;

pub(super) fn thread_row(row: &Row) -> Result<ThreadRow, StoreError> {
    let tenant = Tenant::new(get(row, "tenant")?).map_err(damaged)?;
    let thread = ThreadId::new(get(row, "thread")?).map_err(damaged)?;
    let keys: Vec<&[u8]> = get(row, "meta_keys")?;
    let values: Vec<&[u8]> = get(row, "meta_vals")?;
    let mut metadata = Map::new();
    for (key, value) in keys.into_iter().zip(values) {
        metadata.insert(text(key)?, serde_json::from_slice(value).map_err(damaged)?);
    }
    Ok(ThreadRow {
        key: ThreadKey { tenant, thread },
        head: number(get(row, "head")?)?,
        active: get::<Option<Uuid>>(row, "active")?.map(RunId::from_uuid),
        created_at: millis(get(row, "created_at")?),
        updated_at: millis(get(row, "updated_at")?),
        metadata,
    })
}

pub(super) fn entry(row: &Row) -> Result<Entry, StoreError> {
    Ok(Entry {
        seq: number(get(row, "seq")?)?,
        parent: number(get(row, "parent")?)?,
        base: number(get(row, "base")?)?,
        run: get::<Option<Uuid>>(row, "run")?.map(RunId::from_uuid),
        at: millis(get(row, "at")?),
        kind: code_of(get(row, "kind")?, EntryKind::from_code)?,
        body: get(row, "body")?,
    })
}

/// The records that `claim_runs` gives as four arrays, which are null when there are none.
pub(super) fn records(row: &Row) -> Result<Vec<Record>, StoreError> {
    let paths = get::<Option<Vec<&[u8]>>>(row, "o_paths")?.unwrap_or_default();
    let keys = get::<Option<Vec<&[u8]>>>(row, "o_keys")?.unwrap_or_default();
    let stages = get::<Option<Vec<i16>>>(row, "o_stages")?.unwrap_or_default();
    let bodies = get::<Option<Vec<Vec<u8>>>>(row, "o_bodies")?.unwrap_or_default();
    let parts = paths.into_iter().zip(keys).zip(stages).zip(bodies);
    let record = |(((path, key), stage), body)| {
        Ok(Record { path: text(path)?, key: text(key)?, stage: code_of(stage, stage_from)?, body })
    };
    parts.map(record).collect()
}

pub(super) fn stage_code(stage: Stage) -> i16 {
    match stage {
        Stage::Open => 1,
        Stage::Begun => 2,
        Stage::Done => 3,
        Stage::Failed => 4,
    }
}

fn stage_from(code: u8) -> Option<Stage> {
    Some(match code {
        1 => Stage::Open,
        2 => Stage::Begun,
        3 => Stage::Done,
        4 => Stage::Failed,
        _ => return None,
    })
}

fn code_of<T>(code: i16, from: impl Fn(u8) -> Option<T>) -> Result<T, StoreError> {
    u8::try_from(code)
        .ok()
        .and_then(from)
        .ok_or_else(|| StoreError::Damaged(format!("code {code} means nothing")))
}

fn text(bytes: &[u8]) -> Result<String, StoreError> {
    String::from_utf8(bytes.to_vec()).map_err(damaged)
}

pub(super) fn number(value: i64) -> Result<u64, StoreError> {
    u64::try_from(value).map_err(damaged)
}

fn maybe_number(value: Option<i64>) -> Result<Option<u64>, StoreError> {
    value.map(number).transpose()
}

pub(super) fn millis(time: SystemTime) -> Millis {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX),
        Err(before) => -Millis::try_from(before.duration().as_millis()).unwrap_or(Millis::MAX),
    }
}

/// A count or sequence number as the database takes it. One beyond its range fits no row there is.
pub(super) fn int(value: Seq) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A length of time in milliseconds, a hundred years at most: the database's clock ends somewhere.
pub(super) fn span(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX).min(100 * 365 * 24 * 3_600_000)
}

pub(super) fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// JSON that is the same for equal values: the pairs of an object stand in the order of their keys.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(pairs) => {
            let mut pairs: Vec<(&String, &Value)> = pairs.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs: Vec<String> = pairs
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
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
        assert_eq!(canonical(&left), canonical(&right));
        assert_eq!(serde_json::from_str::<Value>(&canonical(&left)).expect("json"), left);
        assert_ne!(canonical(&Value::from(1)), canonical(&Value::from("1")));
    }

    #[test]
    fn times_are_milliseconds_since_1970() {
        assert_eq!(millis(UNIX_EPOCH + Duration::from_millis(1500)), 1500);
        assert_eq!(millis(UNIX_EPOCH - Duration::from_millis(3)), -3);
    }
}

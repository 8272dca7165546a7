//! What deleted runs had used.

use doran_engine::id::{TenantId, ThreadKey};
use doran_engine::store::{DeletedUsage, Millis, RunStatus, RunUsage, StoreError};
use rusqlite::{Connection, params};

use super::rows::{execute, get_column, query_all};

/// Adds the usage of a thread's runs, before they are deleted.
pub(super) fn keep_usage(conn: &Connection, thread: &ThreadKey) -> Result<(), StoreError> {
    // Each run changes its row by itself, so that no sum can overflow.
    let sql = "INSERT INTO deleted_usage (tenant, at, graph, runs, input_tokens, output_tokens, cost_micros, is_exact)
               SELECT tenant, created_at - created_at % ?3, graph, 1, input_tokens, output_tokens, cost_micros,
                   status = ?4 OR (input_tokens = 0 AND output_tokens = 0 AND cost_micros = 0)
               FROM runs WHERE tenant = ?1 AND thread = ?2
               ON CONFLICT DO UPDATE SET
                   runs = runs + excluded.runs,
                   input_tokens = input_tokens + min(excluded.input_tokens, 9223372036854775807 - input_tokens),
                   output_tokens = output_tokens + min(excluded.output_tokens, 9223372036854775807 - output_tokens),
                   cost_micros = cost_micros + min(excluded.cost_micros, 9223372036854775807 - cost_micros),
                   is_exact = is_exact AND excluded.is_exact";
    let (tenant, thread) = (thread.tenant.as_str(), thread.thread.as_str());
    let finished = RunStatus::Finished.code();
    execute(conn, sql, params![tenant, thread, DeletedUsage::QUARTER_HOUR_MILLIS, finished]).map(drop)
}

pub(super) fn deleted_usage(
    conn: &Connection,
    tenant: &TenantId,
    since: Millis,
) -> Result<Vec<DeletedUsage>, StoreError> {
    let sql = "SELECT at, graph, runs, input_tokens, output_tokens, cost_micros, is_exact FROM deleted_usage
               WHERE tenant = ?1 AND at >= ?2 ORDER BY at, graph";
    query_all(conn, sql, params![tenant.as_str(), since], |row| {
        Ok(DeletedUsage {
            at: get_column(row, 0)?,
            graph: get_column(row, 1)?,
            runs: get_column(row, 2)?,
            usage: RunUsage {
                input_tokens: get_column(row, 3)?,
                output_tokens: get_column(row, 4)?,
                cost_micros: get_column(row, 5)?,
            },
            is_exact: get_column(row, 6)?,
        })
    })
}

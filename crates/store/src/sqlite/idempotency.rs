//! Responses stored under idempotency keys.

use async_trait::async_trait;
use doran_engine::id::TenantId;
use doran_engine::store::{IdempotencyStore, IdempotentResponse, Millis, ResponseRetention, StoreError};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::garbage_collection::GC_BATCH_ROWS;
use super::rows::{execute, get_column, limit_to_i64, query_optional};
use super::thread_maintenance::duration_millis;
use super::writer::{self, TransactionFailPoints, WriteTransaction};

#[async_trait]
impl IdempotencyStore for SqliteStore {
    async fn stored_response(
        &self,
        tenant: &TenantId,
        key: &str,
    ) -> Result<Option<IdempotentResponse>, StoreError> {
        let (tenant, key) = (tenant.clone(), key.to_owned());
        self.read(move |conn| stored_response(conn, &tenant, &key, writer::unix_millis_now())).await
    }

    async fn store_response(
        &self,
        tenant: &TenantId,
        key: &str,
        response: &IdempotentResponse,
        retention: ResponseRetention,
    ) -> Result<(), StoreError> {
        let (tenant, key, response) = (tenant.clone(), key.to_owned(), response.clone());
        self.write(TransactionFailPoints::default(), move |tx| {
            store_response(tx, &tenant, &key, &response, retention)
        })
        .await
    }
}

fn stored_response(
    conn: &Connection,
    tenant: &TenantId,
    key: &str,
    now: Millis,
) -> Result<Option<IdempotentResponse>, StoreError> {
    let sql = "SELECT request_hash, response FROM idempotent_responses
               WHERE tenant = ?1 AND key = ?2 AND expires > ?3";
    query_optional(conn, sql, params![tenant.as_str(), key, now], |row| {
        Ok(IdempotentResponse { request_hash: get_column(row, 0)?, response: get_column(row, 1)? })
    })
}

fn store_response(
    tx: &WriteTransaction<'_>,
    tenant: &TenantId,
    key: &str,
    response: &IdempotentResponse,
    retention: ResponseRetention,
) -> Result<(), StoreError> {
    let expires = tx.now.saturating_add(duration_millis(retention.lifetime));
    let sql = "INSERT INTO idempotent_responses (tenant, key, number, request_hash, expires, response)
               VALUES (?1, ?2, (SELECT coalesce(max(number), 0) + 1 FROM idempotent_responses WHERE tenant = ?1), ?3, ?4, ?5)
               ON CONFLICT DO UPDATE SET number = excluded.number, request_hash = excluded.request_hash,
                   expires = excluded.expires, response = excluded.response
               WHERE expires <= ?6";
    let row = params![tenant.as_str(), key, response.request_hash, expires, response.response, tx.now];
    execute(tx.conn, sql, row)?;
    let sql = "DELETE FROM idempotent_responses WHERE tenant = ?1 AND number <=
               (SELECT max(number) FROM idempotent_responses WHERE tenant = ?1) - ?2";
    execute(tx.conn, sql, params![tenant.as_str(), limit_to_i64(retention.max_per_tenant)]).map(drop)
}

/// Deletes a batch of expired responses.
pub(super) fn clear_expired_responses(tx: &WriteTransaction<'_>) -> Result<u64, StoreError> {
    let sql = "DELETE FROM idempotent_responses WHERE (tenant, key) IN
               (SELECT tenant, key FROM idempotent_responses WHERE expires <= ?1 LIMIT ?2)";
    Ok(execute(tx.conn, sql, params![tx.now, GC_BATCH_ROWS])? as u64)
}

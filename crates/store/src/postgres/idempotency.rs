//! Responses stored under idempotency keys.

use async_trait::async_trait;
use doran_engine::id::TenantId;
use doran_engine::store::{IdempotencyStore, IdempotentResponse, ResponseRetention, StoreError};

use super::PostgresStore;
use super::error::{StatementSubject, damaged};
use super::pool::SqlParams;
use super::row::{get_column, limit_to_i64, to_bounded_millis};

#[async_trait]
impl IdempotencyStore for PostgresStore {
    async fn stored_response(
        &self,
        tenant: &TenantId,
        key: &str,
    ) -> Result<Option<IdempotentResponse>, StoreError> {
        let sql = "select request_hash, response from idempotent_responses
            where tenant = $1 and key = $2 and expires > clock_timestamp()";
        let rows =
            self.pool.read(StatementSubject::Everything, sql, &[&tenant.as_str(), &key.as_bytes()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let request_hash = String::from_utf8(get_column(row, "request_hash")?).map_err(damaged)?;
        Ok(Some(IdempotentResponse { request_hash, response: get_column(row, "response")? }))
    }

    async fn store_response(
        &self,
        tenant: &TenantId,
        key: &str,
        response: &IdempotentResponse,
        retention: ResponseRetention,
    ) -> Result<(), StoreError> {
        // The row of `key` is spared by name: one statement must not both update and delete it.
        let sql = "with stored as (
                insert into idempotent_responses as old (tenant, key, number, request_hash, expires, response)
                values ($1, $2,
                    (select coalesce(max(number), 0) + 1 from idempotent_responses where tenant = $1),
                    $3, clock_timestamp() + $4::int8 * interval '1 millisecond', $5)
                on conflict (tenant, key) do update set number = excluded.number,
                    request_hash = excluded.request_hash, expires = excluded.expires, response = excluded.response
                where old.expires <= clock_timestamp()
                returning number),
            deleted as (
                delete from idempotent_responses
                where tenant = $1 and key <> $2 and number <= (select number - $6::int8 from stored)
                returning 1)
            select count(*) as rows from deleted";
        let params: SqlParams<'_> = &[
            &tenant.as_str(),
            &key.as_bytes(),
            &response.request_hash.as_bytes(),
            &to_bounded_millis(retention.lifetime),
            &response.response,
            &limit_to_i64(retention.max_per_tenant),
        ];
        self.pool.write(StatementSubject::Everything, sql, params).await.map(|_| ())
    }
}

//! Items that all threads of a tenant share.

use std::time::Duration;

use async_trait::async_trait;
use doran_engine::id::TenantId;
use doran_engine::store::{
    ItemKey, ItemNamespace, ItemSearch, ItemStore, MAX_ITEMS_PER_TENANT, Millis, NamespaceSearch, SharedItem,
    StoreError, item_from_stored, item_to_stored, too_many_items,
};
use rusqlite::{Connection, Row, params};
use serde_json::{Map, Value};

use super::SqliteStore;
use super::error::SqliteResultExt;
use super::garbage_collection::GC_BATCH_ROWS;
use super::rows::{execute, get_column, query_optional, to_i64};
use super::thread_maintenance::duration_millis;
use super::writer::{self, TransactionFailPoints, WriteTransaction};

/// The columns that [`shared_item`] reads.
const ITEM_COLUMNS: &str = "namespace, key, value, created_at, updated_at";

#[async_trait]
impl ItemStore for SqliteStore {
    async fn put_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
        value: &Map<String, Value>,
        lifetime: Option<Duration>,
    ) -> Result<SharedItem, StoreError> {
        let stored = item_to_stored(value)?;
        let (tenant, place) = (tenant.clone(), (namespace.to_stored(), key.clone()));
        let put = self.write(TransactionFailPoints::default(), move |tx| {
            put_item(tx, &tenant, &place, &stored, lifetime)
        });
        let (created_at, updated_at) = put.await?;
        let (namespace, key, value) = (namespace.clone(), key.clone(), value.clone());
        Ok(SharedItem { namespace, key, value, created_at, updated_at })
    }

    async fn item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<Option<SharedItem>, StoreError> {
        let (tenant, namespace, key) = (tenant.clone(), namespace.to_stored(), key.clone());
        self.read(move |conn| {
            let sql = format!(
                "SELECT {ITEM_COLUMNS} FROM items
                 WHERE tenant = ?1 AND namespace = ?2 AND key = ?3 AND (expires IS NULL OR expires > ?4)"
            );
            let place = params![tenant.as_str(), namespace, key.as_str(), writer::unix_millis_now()];
            query_optional(conn, &sql, place, shared_item)
        })
        .await
    }

    async fn delete_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<bool, StoreError> {
        let (tenant, namespace, key) = (tenant.clone(), namespace.to_stored(), key.clone());
        self.write(TransactionFailPoints::default(), move |tx| {
            let sql = "DELETE FROM items WHERE tenant = ?1 AND namespace = ?2 AND key = ?3
                       RETURNING expires IS NULL OR expires > ?4";
            let place = params![tenant.as_str(), namespace, key.as_str(), tx.now];
            let was_alive = query_optional(tx.conn, sql, place, |row| get_column::<bool>(row, 0))?;
            Ok(was_alive.unwrap_or(false))
        })
        .await
    }

    async fn search_items(
        &self,
        tenant: &TenantId,
        search: &ItemSearch,
    ) -> Result<Vec<SharedItem>, StoreError> {
        let (tenant, search) = (tenant.clone(), search.clone());
        self.read(move |conn| search_items(conn, &tenant, &search, writer::unix_millis_now())).await
    }

    async fn item_namespaces(
        &self,
        tenant: &TenantId,
        search: &NamespaceSearch,
    ) -> Result<Vec<ItemNamespace>, StoreError> {
        let (tenant, search) = (tenant.clone(), search.clone());
        self.read(move |conn| item_namespaces(conn, &tenant, &search, writer::unix_millis_now())).await
    }
}

/// Returns when the item was first put, and when it was put now.
fn put_item(
    tx: &WriteTransaction<'_>,
    tenant: &TenantId,
    (namespace, key): &(String, ItemKey),
    value: &[u8],
    lifetime: Option<Duration>,
) -> Result<(Millis, Millis), StoreError> {
    let expires = lifetime.map(|lifetime| tx.now.saturating_add(duration_millis(lifetime)));
    let sql = "INSERT INTO items (tenant, namespace, key, created_at, updated_at, expires, value)
               VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6)
               ON CONFLICT DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at,
                   created_at = iif(expires <= ?4, ?4, created_at), expires = excluded.expires
               RETURNING created_at";
    let row = params![tenant.as_str(), namespace, key.as_str(), tx.now, expires, value];
    let created_at = query_optional(tx.conn, sql, row, |row| get_column(row, 0))?.unwrap_or(tx.now);
    let sql = "SELECT 1 FROM item_counts WHERE tenant = ?1 AND items > ?2";
    let over = params![tenant.as_str(), to_i64(MAX_ITEMS_PER_TENANT)];
    match query_optional(tx.conn, sql, over, |row| get_column::<i64>(row, 0))? {
        // Undoes the transaction.
        Some(_) => Err(too_many_items()),
        None => Ok((created_at, tx.now)),
    }
}

fn search_items(
    conn: &Connection,
    tenant: &TenantId,
    search: &ItemSearch,
    now: Millis,
) -> Result<Vec<SharedItem>, StoreError> {
    let (first, end) = search.prefix.stored_range();
    let sql = format!(
        "SELECT {ITEM_COLUMNS} FROM items
         WHERE tenant = ?1 AND namespace >= ?2 AND namespace < ?3 AND (expires IS NULL OR expires > ?4)
         ORDER BY namespace, key"
    );
    let mut statement = conn.prepare_cached(&sql).or_store_error()?;
    let mut rows = statement.query(params![tenant.as_str(), first, end, now]).or_store_error()?;
    let (mut found, mut skipped) = (Vec::new(), 0);
    while found.len() < search.bounded_limit()
        && let Some(row) = rows.next().or_store_error()?
    {
        if search.conditions.is_empty() && skipped < search.offset {
            skipped += 1;
            continue;
        }
        let item = shared_item(row)?;
        if !search.fits(&item.value) {
            continue;
        }
        if skipped < search.offset {
            skipped += 1;
        } else {
            found.push(item);
        }
    }
    Ok(found)
}

fn item_namespaces(
    conn: &Connection,
    tenant: &TenantId,
    search: &NamespaceSearch,
    now: Millis,
) -> Result<Vec<ItemNamespace>, StoreError> {
    let (first, end) = search.prefix.stored_range();
    let sql = "SELECT DISTINCT namespace FROM items
               WHERE tenant = ?1 AND namespace >= ?2 AND namespace < ?3 AND (expires IS NULL OR expires > ?4)
               ORDER BY namespace";
    let mut statement = conn.prepare_cached(sql).or_store_error()?;
    let rows =
        statement.query_map(params![tenant.as_str(), first, end, now], |row| row.get(0)).or_store_error()?;
    search.select(
        rows.map(|stored: rusqlite::Result<String>| ItemNamespace::from_stored(&stored.or_store_error()?)),
    )
}

fn shared_item(row: &Row<'_>) -> Result<SharedItem, StoreError> {
    let key = ItemKey::new(get_column::<String>(row, 1)?);
    Ok(SharedItem {
        namespace: ItemNamespace::from_stored(&get_column::<String>(row, 0)?)?,
        key: key.map_err(|error| StoreError::Damaged(error.to_string()))?,
        value: item_from_stored(&get_column::<Vec<u8>>(row, 2)?)?,
        created_at: get_column(row, 3)?,
        updated_at: get_column(row, 4)?,
    })
}

/// Deletes a batch of expired items.
pub(super) fn clear_expired_items(tx: &WriteTransaction<'_>) -> Result<u64, StoreError> {
    let sql = "DELETE FROM items WHERE (tenant, namespace, key) IN
               (SELECT tenant, namespace, key FROM items WHERE expires IS NOT NULL AND expires <= ?1 LIMIT ?2)";
    Ok(execute(tx.conn, sql, params![tx.now, GC_BATCH_ROWS])? as u64)
}

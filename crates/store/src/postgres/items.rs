//! Items that all threads of a tenant share.

use std::time::Duration;

use async_trait::async_trait;
use doran_engine::id::TenantId;
use doran_engine::store::{
    ItemKey, ItemNamespace, ItemSearch, ItemStore, MAX_ITEMS_PER_TENANT, NamespaceSearch, SharedItem,
    StoreError, item_from_stored, item_to_stored, too_many_items,
};
use serde_json::{Map, Value};
use tokio_postgres::Row;

use super::PostgresStore;
use super::error::{StatementSubject, damaged};
use super::pool::SqlParams;
use super::row::{get_column, limit_to_i64, to_bounded_millis, to_i64, unix_millis};

/// How many items or namespaces are read at a time when they are filtered here.
const PAGE_ROWS: i64 = 500;

#[async_trait]
impl ItemStore for PostgresStore {
    async fn put_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
        value: &Map<String, Value>,
        lifetime: Option<Duration>,
    ) -> Result<SharedItem, StoreError> {
        let sql = "select o_created_at, o_updated_at from put_item($1, $2, $3, $4, $5, $6)";
        let params: SqlParams<'_> = &[
            &tenant.as_str(),
            &namespace.to_stored(),
            &key.as_str(),
            &item_to_stored(value)?,
            &lifetime.map(to_bounded_millis),
            &to_i64(MAX_ITEMS_PER_TENANT),
        ];
        let rows = self.pool.write_returning_rows(StatementSubject::Everything, sql, params).await?;
        let row = rows.first().ok_or_else(too_many_items)?;
        Ok(SharedItem {
            namespace: namespace.clone(),
            key: key.clone(),
            value: value.clone(),
            created_at: unix_millis(get_column(row, "o_created_at")?),
            updated_at: unix_millis(get_column(row, "o_updated_at")?),
        })
    }

    async fn item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<Option<SharedItem>, StoreError> {
        let sql = "select namespace, key, value, created_at, updated_at from items
            where tenant = $1 and namespace = $2 and key = $3 and (expires is null or expires > clock_timestamp())";
        let params: SqlParams<'_> = &[&tenant.as_str(), &namespace.to_stored(), &key.as_str()];
        let rows = self.pool.read(StatementSubject::Everything, sql, params).await?;
        rows.first().map(shared_item).transpose()
    }

    async fn delete_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<bool, StoreError> {
        let sql = "with gone as (
                delete from items where tenant = $1 and namespace = $2 and key = $3
                returning expires is null or expires > clock_timestamp() as was_alive),
            counted as (
                update item_counts set items = items - 1 where tenant = $1 and exists (select 1 from gone))
            select coalesce(bool_or(was_alive), false) as was from gone";
        let params: SqlParams<'_> = &[&tenant.as_str(), &namespace.to_stored(), &key.as_str()];
        get_column(&self.pool.write(StatementSubject::Everything, sql, params).await?, "was")
    }

    async fn search_items(
        &self,
        tenant: &TenantId,
        search: &ItemSearch,
    ) -> Result<Vec<SharedItem>, StoreError> {
        let (first, end) = search.prefix.stored_range();
        let limit = search.bounded_limit();
        if search.conditions.is_empty() {
            let sql = "select namespace, key, value, created_at, updated_at from items
                where tenant = $1 and namespace >= $2 and namespace < $3
                    and (expires is null or expires > clock_timestamp())
                order by namespace, key offset $4 limit $5";
            let (offset, limit) = (limit_to_i64(search.offset), limit_to_i64(limit));
            let params: SqlParams<'_> = &[&tenant.as_str(), &first, &end, &offset, &limit];
            let rows = self.pool.read(StatementSubject::Everything, sql, params).await?;
            return rows.iter().map(shared_item).collect();
        }
        let (mut found, mut skipped) = (Vec::new(), 0);
        let mut after = (first, String::new());
        while found.len() < limit {
            let sql = "select namespace, key, value, created_at, updated_at from items
                where tenant = $1 and (namespace, key) > ($2, $3) and namespace < $4
                    and (expires is null or expires > clock_timestamp())
                order by namespace, key limit $5";
            let params: SqlParams<'_> = &[&tenant.as_str(), &after.0, &after.1, &end, &PAGE_ROWS];
            let rows = self.pool.read(StatementSubject::Everything, sql, params).await?;
            for row in &rows {
                let item = shared_item(row)?;
                if !search.fits(&item.value) {
                    continue;
                }
                if skipped < search.offset {
                    skipped += 1;
                } else if found.len() < limit {
                    found.push(item);
                }
            }
            match rows.last() {
                Some(last) if limit_to_i64(rows.len()) == PAGE_ROWS => {
                    after = (get_column(last, "namespace")?, get_column(last, "key")?);
                }
                _ => break,
            }
        }
        Ok(found)
    }

    async fn item_namespaces(
        &self,
        tenant: &TenantId,
        search: &NamespaceSearch,
    ) -> Result<Vec<ItemNamespace>, StoreError> {
        let (mut first, end) = search.prefix.stored_range();
        let mut stored: Vec<String> = Vec::new();
        loop {
            // Jumps from one namespace to the next, however many items lie between.
            let sql = "with recursive listed (namespace) as (
                    (select namespace from items where tenant = $1 and namespace >= $2 and namespace < $3
                        order by namespace limit 1)
                    union all
                    select (select i.namespace from items i
                        where i.tenant = $1 and i.namespace > l.namespace and i.namespace < $3
                        order by i.namespace limit 1)
                    from listed l where l.namespace is not null)
                select namespace, exists (select 1 from items i where i.tenant = $1 and i.namespace = l.namespace
                        and (expires is null or expires > clock_timestamp())) as is_alive
                from listed l where namespace is not null limit $4";
            let params: SqlParams<'_> = &[&tenant.as_str(), &first, &end, &PAGE_ROWS];
            let rows = self.pool.read(StatementSubject::Everything, sql, params).await?;
            for row in &rows {
                if get_column(row, "is_alive")? {
                    stored.push(get_column(row, "namespace")?);
                }
            }
            match rows.last() {
                // No name holds the character 1, so this lies before every longer namespace.
                Some(last) if limit_to_i64(rows.len()) == PAGE_ROWS => {
                    first = format!("{}\u{1}", get_column::<String>(last, "namespace")?);
                }
                _ => break,
            }
        }
        search.select(stored.iter().map(|namespace| ItemNamespace::from_stored(namespace)))
    }
}

fn shared_item(row: &Row) -> Result<SharedItem, StoreError> {
    Ok(SharedItem {
        namespace: ItemNamespace::from_stored(get_column(row, "namespace")?)?,
        key: ItemKey::new(get_column::<String>(row, "key")?).map_err(damaged)?,
        value: item_from_stored(get_column(row, "value")?)?,
        created_at: unix_millis(get_column(row, "created_at")?),
        updated_at: unix_millis(get_column(row, "updated_at")?),
    })
}

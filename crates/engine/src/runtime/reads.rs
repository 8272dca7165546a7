//! Reading and changing rows of threads and runs, and items. All of it goes to the store.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::entry::ThreadEntry;
use crate::error::EngineError;
use crate::id::{RunKey, TenantId, ThreadKey};
use crate::runtime::Runtime;
use crate::store::{
    DeletedUsage, GcReport, ItemKey, ItemNamespace, ItemSearch, Millis, NamespaceSearch, Retention,
    RunFilter, RunRow, Seq, SharedItem, StoreError, ThreadFilter, ThreadRow,
};

impl Runtime {
    /// One run, as it stands.
    pub async fn run_row(&self, run: &RunKey) -> Result<RunRow, EngineError> {
        Ok(self.0.store.run(run).await?)
    }

    /// Runs of a tenant, newest first.
    pub async fn list_runs(&self, tenant: &TenantId, filter: &RunFilter) -> Result<Vec<RunRow>, EngineError> {
        Ok(self.0.store.runs(tenant, filter).await?)
    }

    /// One thread.
    pub async fn thread_row(&self, thread: &ThreadKey) -> Result<ThreadRow, EngineError> {
        Ok(self.0.store.thread(thread).await?)
    }

    /// One thread, or `None` when it does not exist.
    pub async fn find_thread_row(&self, thread: &ThreadKey) -> Result<Option<ThreadRow>, EngineError> {
        match self.0.store.thread(thread).await {
            Ok(row) => Ok(Some(row)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Runtime::find_thread_row`], for a caller who starts a run with what it found and tells nobody before. What it
    /// found need not be on disk yet; if it is lost, so is the run.
    pub async fn find_thread_row_before_start(
        &self,
        thread: &ThreadKey,
    ) -> Result<Option<ThreadRow>, EngineError> {
        match self.0.store.thread_before_write(thread).await {
            Ok(row) => Ok(Some(row)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Threads of a tenant, the last changed first.
    pub async fn list_threads(
        &self,
        tenant: &TenantId,
        filter: &ThreadFilter,
    ) -> Result<Vec<ThreadRow>, EngineError> {
        Ok(self.0.store.threads(tenant, filter).await?)
    }

    /// Entries of a thread after `after`, of all its branches, oldest first, at most `limit`.
    pub async fn entries(
        &self,
        thread: &ThreadKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<ThreadEntry>, EngineError> {
        let stored = self.0.store.entries(thread, after, limit).await?;
        Ok(stored.iter().map(ThreadEntry::from_log).collect::<Result<_, StoreError>>()?)
    }

    /// Makes the thread or merges `metadata` into it, key by key; a key whose value is `null` is removed.
    pub async fn put_thread(
        &self,
        thread: &ThreadKey,
        metadata: &Map<String, Value>,
    ) -> Result<ThreadRow, EngineError> {
        Ok(self.0.store.put_thread(thread, metadata).await?)
    }

    /// What runs used that were deleted with their threads, and that were accepted in quarters of an hour from `since` on.
    pub async fn deleted_usage(
        &self,
        tenant: &TenantId,
        since: Millis,
    ) -> Result<Vec<DeletedUsage>, EngineError> {
        Ok(self.0.store.deleted_usage(tenant, since).await?)
    }

    /// Puts an item that all threads of the tenant share, replacing an older one of this name, for `lifetime` (for ever
    /// when `None`).
    pub async fn put_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
        value: &Map<String, Value>,
        lifetime: Option<Duration>,
    ) -> Result<SharedItem, EngineError> {
        Ok(self.0.store.put_item(tenant, namespace, key, value, lifetime).await?)
    }

    /// An item, unless its lifetime is over.
    pub async fn item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<Option<SharedItem>, EngineError> {
        Ok(self.0.store.item(tenant, namespace, key).await?)
    }

    /// Removes an item. `false` when there was none.
    pub async fn delete_item(
        &self,
        tenant: &TenantId,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> Result<bool, EngineError> {
        Ok(self.0.store.delete_item(tenant, namespace, key).await?)
    }

    /// Items by their namespaces and keys, in this order.
    pub async fn search_items(
        &self,
        tenant: &TenantId,
        search: &ItemSearch,
    ) -> Result<Vec<SharedItem>, EngineError> {
        Ok(self.0.store.search_items(tenant, search).await?)
    }

    /// Namespaces that have items, in order.
    pub async fn item_namespaces(
        &self,
        tenant: &TenantId,
        search: &NamespaceSearch,
    ) -> Result<Vec<ItemNamespace>, EngineError> {
        Ok(self.0.store.item_namespaces(tenant, search).await?)
    }

    /// The clock of the store, which all replicas share.
    pub async fn store_time(&self) -> Result<Millis, EngineError> {
        Ok(self.0.store.store_time().await?)
    }

    /// Clears old things of all tenants.
    pub async fn collect_garbage(&self, retention: &Retention) -> Result<GcReport, EngineError> {
        Ok(self.0.store.gc(retention).await?)
    }
}
